"""`memsieve undo`, `history`, `pin`, `unpin`, `retire` and `rate` on a store of one's own."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from streams.store.world.store_directory import StoreDirectory
from tests.commands.conftest import Memsieve, Result, write_events

POLICY = """
name = "joining"
model = "sentence-transformers/all-MiniLM-L6-v2"
guards = false
judges = { chain = [] }
bands = { match = 0.8, review = 0.8, log = 0.7 }
without_verdict = { match = "merge" }
calibration = { dataset = "none", date = "2026-03-01", command = "none" }
"""
"""Nobody judges: whatever is similar is joined."""

BEES, HIVES = "Ana keeps bees on the roof.", "Ana keeps bees and hens on the roof."
GOATS = "Bo feeds the goats at dawn."
STORE = ("--store", "store")


@pytest.fixture(autouse=True)
def _store(memsieve: Memsieve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a store in which two sentences became one memory, which was seen again."""
    monkeypatch.setenv("MEMSIEVE_REVIEWS__AUTHOR", "cleo")
    (tmp_path / "joining.toml").write_text(POLICY, encoding="utf-8")
    monkeypatch.setenv("MEMSIEVE_POLICY", "joining.toml")
    write_events(tmp_path / "ana.jsonl", BEES, HIVES)
    write_events(tmp_path / "bo.jsonl", GOATS, GOATS, scope="acme/bo")
    assert memsieve("run", "ana.jsonl", "bo.jsonl", *STORE).code == 0


def ask(memsieve: Memsieve, command: str, *arguments: object) -> Result:
    return memsieve(command, *arguments, *STORE)


def decision(memsieve: Memsieve, kind: str) -> str:
    """Return the id of the newest decision of a kind."""
    return ask(memsieve, "decisions", "--kind", kind, "--json").json()[-1]["decision_id"]


def memories(memsieve: Memsieve, *options: str) -> list[Any]:
    return ask(memsieve, "memory", "list", "--json", *options).json()


def live(memsieve: Memsieve) -> set[str]:
    return {one["text"] for one in memories(memsieve)}


def goats(memsieve: Memsieve) -> dict[str, Any]:
    [memory] = memories(memsieve, "--scope", "acme/bo", "--retired")
    return memory


@pytest.mark.covers("B67", "S2.26", "C6")
def test_a_merge_is_undone_at_once_and_the_undo_too(memsieve: Memsieve) -> None:
    merge = decision(memsieve, "merge")
    joined = live(memsieve)
    planned = ask(memsieve, "undo", merge, "--dry-run")
    assert (planned.code, live(memsieve)) == (0, joined)
    assert planned.out.splitlines()[0] == f'undo   {merge}  merge      2026-03-01  "{HIVES}"'

    done = ask(memsieve, "undo", merge[:13], "--note", "two roofs")
    assert done.code == 0, done.err
    assert done.out.startswith(planned.out)
    assert "because an earlier decision was undone" in done.out
    assert live(memsieve) == {BEES, HIVES, GOATS}

    again = ask(memsieve, "undo", merge)
    undo = decision(memsieve, "revise")
    assert (again.code, again.out) == (2, "")
    assert again.err == f"memsieve: decision {merge} is undone already, by decision {undo}\n"

    assert ask(memsieve, "undo", undo).code == 0
    assert live(memsieve) == joined
    assert ask(memsieve, "check", "--full").code == 0


def test_a_dry_run_names_no_memory_that_the_undo_will_not_make(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    broke, broken = (
        "Ana's pour-over set broke last week.",
        "The pour-over set that Ana had is broken.",
    )
    write_events(tmp_path / "cups.jsonl", broke, broken, scope="acme/cups")
    assert ask(memsieve, "run", "cups.jsonl", "--policy", "default").code == 0
    [_, again] = ask(memsieve, "decisions", "--scope", "acme/cups", "--json").json()
    undo = ("undo", again["decision_id"])
    planned = ask(memsieve, *undo, "--dry-run").out.splitlines()
    at = planned.index("a new memory begins")
    done = ask(memsieve, *undo).out.splitlines()
    made = next(one["id"] for one in memories(memsieve) if one["text"] == broken)
    assert done[at] == f"memory {made} begins"


@pytest.mark.covers("S2.26", "B67")
def test_the_two_sides_of_an_undone_merge_are_not_joined_by_a_consolidation(
    memsieve: Memsieve,
) -> None:
    [joined] = memories(memsieve, "--scope", "acme/ana")
    assert ask(memsieve, "undo", decision(memsieve, "merge")).code == 0
    apart = live(memsieve)
    consolidate = ("consolidate", "--now", "--json")
    assert ask(memsieve, *consolidate).json()["groups"] == 0
    assert live(memsieve) == apart
    undo = decision(memsieve, "revise")
    history = ask(memsieve, "memory", "history", joined["id"]).out
    assert f"kept apart: none → side {joined['id']} of undo {undo}" in history
    assert ask(memsieve, "undo", undo).code == 0
    assert live(memsieve) == {joined["text"], GOATS}
    assert ask(memsieve, "check", "--full").code == 0


@pytest.mark.covers("C6")
def test_what_rests_on_a_decision_is_decided_again(memsieve: Memsieve) -> None:
    """The decision may be named by its event, too."""
    [first, *_] = ask(memsieve, "decisions", "--scope", "acme/bo", "--json").json()
    told = ask(memsieve, "undo", first["event"]["event_id"], "--json").json()
    assert [one["kind"] for one in told["decisions"]] == ["revise", "insert"]
    assert [one["text"] for one in told["republished"]] == [GOATS]
    assert (told["to_be_looked_at"], told["published"]) == ([], [])
    both = memories(memsieve, "--scope", "acme/bo", "--retired")
    [ended, again] = sorted(both, key=lambda one: one["superseded"] is None)
    assert (ended["superseded"]["reason"], again["observation_count"]) == ("undone", 1)
    shown = ask(memsieve, "memory", "list", "--scope", "acme/bo", "--retired").out
    assert ", ended: undone" in shown
    for command in ("redecide --dry-run", "redecide --dry-run --events"):
        replayed = ask(memsieve, "store", "replay", *command.split())
        assert "0 decided otherwise" in replayed.out, replayed.err
    assert ask(memsieve, "store", "replay", "redecide", "--into", "anew").code == 0
    assert memsieve("memory", "list", "--retired", "--store", "anew").out == (
        ask(memsieve, "memory", "list", "--retired").out
    )
    assert ask(memsieve, "check", "--full").code == 0


@pytest.mark.covers("B68", "B63", "B64", "B65")
def test_a_memorys_life_is_told_version_by_version(memsieve: Memsieve) -> None:
    [ana] = memories(memsieve, "--scope", "acme/ana")
    ask(memsieve, "memory", "pin", ana["id"])
    told = ask(memsieve, "memory", "history", ana["id"][:13])
    assert told.code == 0, told.err
    lines = told.out.splitlines()
    assert lines[:3] == [
        f"memory     {ana['id']}",
        "scope      acme/ana",
        "now        version 2, active",
    ]
    assert "version 1  2026-03-01 09:00:00 UTC  merge" in lines
    assert any(line.endswith("  revise by cleo") for line in lines)
    assert "           pinned: False → True" in lines
    assert lines[-2] == "stands for"
    assert lines[-1].endswith(f'"{BEES}"')

    [source] = ana["merged_from"]
    told = ask(memsieve, "memory", "history", source).out.splitlines()
    assert told[-2:] == ["goes on as", f'  {ana["id"]}  "{HIVES}"  active']
    whole = ask(memsieve, "memory", "history", ana["id"], "--json").json()
    assert [one["version"] for one in whole["versions"]] == [1, 2]
    assert [one["memory"]["id"] for one in whole["ancestors"]] == [source]
    assert whole["memory"]["pinned"] is True


@pytest.mark.covers("B71")
def test_a_pinned_memory_is_neither_ended_nor_joined_until_it_is_let_go(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    identity = goats(memsieve)["id"]
    pinned = ask(memsieve, "memory", "pin", identity[:13], "--note", "a promise")
    assert pinned.out == (
        f"revise: memory {identity} is at version 3, because a request pinned it\n"
    )
    twice = ask(memsieve, "memory", "pin", identity)
    assert (twice.code, twice.out) == (0, f"nothing changed: memory {identity} is pinned already\n")
    assert goats(memsieve)["version"] == 3
    refused = ask(memsieve, "memory", "retire", identity, "--reason", "invalid")
    told = "memsieve: nothing changed: the memory is pinned; unpin it first\n"
    assert (refused.code, refused.out, refused.err) == (2, "", told)
    write_events(tmp_path / "near.jsonl", "Bo feeds the goats at dusk.", scope="acme/bo")
    assert ask(memsieve, "run", "near.jsonl").code == 0
    assert GOATS in live(memsieve)
    blocked = ask(memsieve, "undo", decision(memsieve, "reinforce"))
    assert blocked.code == 0, "it goes on saying what it says"
    assert ask(memsieve, "memory", "unpin", identity).code == 0
    twice = ask(memsieve, "memory", "unpin", identity, "--json")
    assert (twice.code, twice.json()["decisions"]) == (0, [])
    assert "is retired: invalid" in ask(memsieve, "memory", "retire", identity).out
    assert GOATS not in live(memsieve)
    again = ask(memsieve, "memory", "retire", identity, "--reason", "invalid")
    assert (again.code, "is not live: ended: invalid" in again.err) == (2, True)
    assert ask(memsieve, "check", "--full").code == 0


def test_memories_end_together_and_come_back(memsieve: Memsieve) -> None:
    both = [one["id"] for one in memories(memsieve)]
    ended = ask(memsieve, "memory", "retire", *both, both[0], "--reason", "unused", "--json").json()
    assert [one["kind"] for one in ended["decisions"]] == ["revise", "revise"]
    assert live(memsieve) == set()
    gone = ask(memsieve, "memory", "pin", both[0])
    assert (gone.code, gone.err) == (2, f"memsieve: memory {both[0]} is not live: ended: unused\n")
    for one in ended["decisions"]:
        assert ask(memsieve, "undo", one["decision_id"]).code == 0
    assert len(live(memsieve)) == 2


def test_a_memory_that_comes_back_beside_its_own_words_is_told_and_joined(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    first = goats(memsieve)["id"]
    assert ask(memsieve, "memory", "retire", first, "--reason", "invalid").code == 0
    write_events(tmp_path / "again.jsonl", GOATS, scope="acme/bo")
    assert ask(memsieve, "run", "again.jsonl").code == 0
    [second] = memories(memsieve, "--scope", "acme/bo")
    told = ask(memsieve, "undo", decision(memsieve, "revise")).out.splitlines()
    join = "memsieve consolidate --now --scope acme/bo"
    assert f"       memory {second['id']} says the same; join them with: {join}" in told
    assert len(memories(memsieve, "--scope", "acme/bo")) == 2
    assert memsieve(*join.split()[1:], *STORE).code == 0
    assert len(memories(memsieve, "--scope", "acme/bo")) == 1


def test_what_a_memory_was_good_for_adds_up(memsieve: Memsieve) -> None:
    identity = goats(memsieve)["id"]
    assert ask(memsieve, "memory", "rate", identity, "--helpful", 2, "--accessed", 5).code == 0
    assert ask(memsieve, "memory", "rate", identity, "--harmful", 1).code == 0
    assert goats(memsieve)["feedback"] == {"accessed": 5, "helpful": 2, "harmful": 1}
    assert ask(memsieve, "undo", decision(memsieve, "revise")).code == 0
    assert goats(memsieve)["feedback"] == {"accessed": 5, "helpful": 2, "harmful": 0}


def test_what_is_asked_for_must_be_clear(memsieve: Memsieve) -> None:
    identity, merge = goats(memsieve)["id"], decision(memsieve, "merge")
    for arguments, code, reason in (
        (("undo", "nothing"), 5, "no decision has the id nothing"),
        (("undo", ""), 2, "DECISION is empty"),
        (("undo", identity), 2, f"{identity} is a memory: memsieve memory history {identity}"),
        (("undo", merge, "--author", " "), 2, "--author is empty: say who asks"),
        (("undo", merge, "--author", "a\nb"), 2, "--author: "),
        (("undo", merge, "--note", "x" * 2_001), 2, "--note: "),
        (("memory", "history", "nothing"), 5, "no memory in store has the id nothing"),
        (("memory", "history", ""), 2, "ID is empty"),
        (("memory", "history", merge), 5, f"no memory in store has the id {merge}"),
        (("memory", "pin", "nothing"), 5, "no memory in store has the id nothing"),
        (("memory", "pin", ""), 2, "ID is empty"),
        (("memory", "pin", identity, "--author", "a\nb"), 2, "--author: "),
        (
            ("memory", "rate", identity),
            2,
            "nothing to record: give --helpful, --harmful or --accessed",
        ),
        (("memory", "rate", identity, "--helpful", "-1"), 2, "--helpful"),
        (
            ("memory", "retire", identity, "--reason", "bored"),
            2,
            "--reason bored: write expired, ended,",
        ),
        (("memory", "retire", identity, "nothing", "--reason", "ended"), 5, "has the id nothing"),
    ):
        result = ask(memsieve, *arguments)
        assert (result.code, result.out) == (code, ""), arguments
        assert reason in result.err, arguments
    assert ask(memsieve, "check", "--full").code == 0
    assert goats(memsieve)["version"] == 2


def test_a_short_beginning_names_nothing(memsieve: Memsieve, tmp_path: Path) -> None:
    times = {"occurred_at": "2026-03-01T09:00:00Z", "text": BEES}
    rows = [json.dumps({"event_id": f"hive-{n}", "scope": f"many/{n}", **times}) for n in "12"]
    (tmp_path / "many.jsonl").write_text("\n".join(rows), encoding="utf-8")
    assert ask(memsieve, "run", "many.jsonl").code == 0
    result = ask(memsieve, "undo", "hive-")
    assert (result.code, result.out) == (2, "")
    assert "hive- is no id or name; to shorten an id, write 6 characters at least" in result.err
    one = memories(memsieve)[0]["id"]
    result = ask(memsieve, "memory", "history", one[:5])
    assert (result.code, result.out) == (2, "")
    assert f"{one[:5]} is no id or name" in result.err
    events = ask(memsieve, "decisions", "--json").json()
    assert len({event["event"]["event_id"] for event in events}) == len(events)


def test_an_event_id_of_several_scopes_is_not_guessed_at(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    times = {"occurred_at": "2026-03-01T09:00:00Z", "event_id": "one"}
    rows = [json.dumps({"text": BEES, "scope": f"many/{n}", **times}) for n in range(2)]
    (tmp_path / "many.jsonl").write_text("\n".join(rows), encoding="utf-8")
    assert ask(memsieve, "run", "many.jsonl").code == 0
    result = ask(memsieve, "undo", "one")
    assert result.code == 2
    assert "events of several scopes have the id one; name one of the decisions " in result.err


def test_a_decision_that_changed_nothing_is_not_undone(memsieve: Memsieve) -> None:
    ask(memsieve, "memory", "pin", goats(memsieve)["id"])
    ask(memsieve, "memory", "retire", goats(memsieve)["id"], "--reason", "invalid")
    ignored = decision(memsieve, "ignore")
    result = ask(memsieve, "undo", ignored)
    assert (result.code, result.out) == (2, "")
    assert f"decision {ignored} changed nothing that could be undone: ignore" in result.err


def test_a_store_that_is_being_written_is_read_and_not_changed(memsieve: Memsieve) -> None:
    merge = decision(memsieve, "merge")
    directory = StoreDirectory(Path("store"))
    with directory.written_by_us(directory.require()):
        for command in (("undo", merge), ("memory", "pin", goats(memsieve)["id"])):
            result = ask(memsieve, *command)
            assert (result.code, result.out) == (3, "")
            assert "is being written by another memsieve" in result.err
        assert ask(memsieve, "undo", merge, "--dry-run").code == 0
    for command in ("undo x", "memory history x", "memory pin x", "memory rate x --helpful 1"):
        result = memsieve(*command.split(), "--store", "none")
        assert (result.code, "none holds no store" in result.err) == (3, True)


def test_what_was_cut_off_behind_an_undo_is_made_up_for(memsieve: Memsieve, tmp_path: Path) -> None:
    """As where whoever published to a cluster died between the undo and the events behind it."""
    [first, *_] = ask(memsieve, "decisions", "--scope", "acme/bo", "--json").json()
    told = ask(memsieve, "undo", first["decision_id"], "--dry-run", "--json").json()
    (tmp_path / "undo.jsonl").write_text(json.dumps(told["request"]), encoding="utf-8")
    assert ask(memsieve, "run", "undo.jsonl").code == 0
    assert GOATS not in live(memsieve)
    told = ask(memsieve, "undo", first["decision_id"], "--dry-run")
    assert (told.code, told.out) == (2, "")
    assert "1 later events were not decided again" in told.err
    assert ask(memsieve, "undo", first["decision_id"]).out.startswith("insert: kept as the new")
    assert GOATS in live(memsieve)
    assert ask(memsieve, "undo", first["decision_id"]).code == 2
    assert ask(memsieve, "check", "--full").code == 0


def test_a_kill_in_the_middle_of_an_undo_loses_nothing(memsieve: Memsieve, tmp_path: Path) -> None:
    """However far it has got, giving the command again ends it, or says that it was done."""
    merge = decision(memsieve, "merge")
    for seconds in (0.8, 1.6, 2.4, 3.2):
        process = subprocess.Popen(
            [sys.executable, "-c", "from streams.main import main; main()", "undo", merge, *STORE],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
    ended = ask(memsieve, "undo", merge)
    assert ended.code == 0 or "is undone already" in ended.err
    assert live(memsieve) == {BEES, HIVES, GOATS}
    assert ask(memsieve, "check", "--full").code == 0
