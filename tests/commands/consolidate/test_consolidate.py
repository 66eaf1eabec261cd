"""`memsieve consolidate` over a store that kept everything apart, with the real model and judge."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.decisions import Verdict
from streams.clock.system import SystemClock
from streams.consolidate.app.consolidating import Consolidation, ScopeSelection
from streams.consolidate.world import Passes
from streams.judges.lexicons import english
from streams.model import wordings
from streams.model.verdict import Pair
from streams.stage.flow.judging import Judging
from streams.store.app import policies
from streams.store.app.dry_run import DecidingDependencies, DryRunClient, over
from streams.store.app.product_settings import ConsolidateSettings
from streams.store.world.store_directory import StoreDirectory
from streams.text.reading import TextAnalyzer
from tests.builders import event, later
from tests.commands.conftest import Memsieve, start, write_events
from tests.connected.consolidate.test_consolidation import ORDER, SET, TWO, write
from tests.fakes.judges import ScriptedVerifier
from tests.standin.llm import Asked as Question
from tests.standin.llm import LlmServer, Reply, opinion
from tests.support.encoding.models import default_embedder
from tests.support.stage.stores import decisions

KEPT = Path(__file__).parents[3] / "examples" / "load" / "crowded.jsonl"
SEVEN = [json.loads(line)["text"] for line in KEPT.read_text(encoding="utf-8").splitlines()]
COFFEE, BROKEN = (
    {text for text in SEVEN if ("pour-over" in text) is of_the_set} for of_the_set in (False, True)
)


@pytest.fixture
def store(memsieve: Memsieve, tmp_path: Path) -> Path:
    """Make a store of seven memories that are two facts, and one of Ben's."""
    write(tmp_path / "seven.jsonl")
    (tmp_path / "ben.jsonl").write_text(
        json.dumps({"text": "Ben plays chess on Mondays.", "scope": "cafe/ben"}) + "\n"
    )
    for file in ("seven.jsonl", "ben.jsonl"):
        assert memsieve("run", file, "--store", "s", "--policy", "keep-both").code == 0
    return tmp_path / "s"


def live(memsieve: Memsieve) -> set[str]:
    return {one["text"] for one in memsieve("memory", "list", "--store", "s", "--json").json()}


def files(store: Path) -> dict[Path, bytes]:
    """Return the store's files, without what SQLite makes wherever somebody reads."""
    found = (path for path in store.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in found if not path.name.endswith(("-shm", "-wal"))}


@pytest.mark.covers("S1.44", "S1.30", "B91")
def test_a_dry_run_tells_all_and_changes_nothing(memsieve: Memsieve, store: Path) -> None:
    before = files(store)
    told = memsieve("consolidate", "--store", "s", "--now", "--dry-run", "--json").json()
    assert files(store) == before
    assert (told["dry_run"], told["groups"]) == (True, 2)
    assert {group["text_after"] for group in told["scopes"][0]["groups"]} == TWO
    shown = memsieve("consolidate", "--store", "s", "--now", "--dry-run")
    assert "nothing was written" in shown.err
    assert "cafe/ana: 7 memories, 2 afterwards" in shown.out


@pytest.mark.covers("S1.43", "S1.9", "B90", "S2.1", "S2.23", "S2.27")
def test_seven_memories_become_two_facts_and_nothing_is_lost(
    memsieve: Memsieve, store: Path
) -> None:
    report = store.parent / "report.json"
    done = memsieve("consolidate", "--store", "s", "--now", "--report", report, "--json")
    assert done.code == 0
    told = done.json()
    assert json.loads(report.read_text()) == told
    assert (told["memories_before"], told["memories_after"]) == (8, 3)
    assert (told["removed_count"], told["removal_rate"], told["status"]) == (5, 0.625, "alert")
    assert told["bytes_after"] < told["bytes_before"]
    assert told["duration_ms"] > 0
    assert live(memsieve) == {*TWO, "Ben plays chess on Mondays."}
    [ana] = [scope for scope in told["scopes"] if scope["scope"] == "cafe/ana"]
    for group in ana["groups"]:
        members = {one["text"]: one for one in group["members"]}
        assert set(members) in ({*ORDER}, {*SET})
        [survivor] = [one for one in group["members"] if one["id"] == group["survivor"]]
        assert survivor["similarity"] is None
        others = [one for one in group["members"] if one is not survivor]
        assert all(one["joined"] and one["similarity"] > 0.7 for one in others)
        assert {one["verdict"] for one in others} <= {"same", "refines"}
    [explained] = [
        memsieve("explain", group["decision_id"], "--store", "s").out for group in ana["groups"][:1]
    ]
    assert "each of them states the same fact, or part of it" in explained
    assert memsieve("check", "--full", "--store", "s").code == 0


@pytest.mark.covers("S2.2")
def test_what_is_said_ten_times_in_seven_wordings_is_kept_and_found_once(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """Without a pass: what is stored and searched grows with the facts, and not with the events."""
    rows = [
        {"text": text, "scope": "cafe/ana", "occurred_at": f"2026-03-{day:02}T09:00:00Z"}
        for day in range(1, 11)
        for text in (*ORDER, *SET)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "seventy.jsonl").write_text(lines, encoding="utf-8")
    assert memsieve("run", "seventy.jsonl", "--store", "s", "--json").json()["events"] == 70
    assert live(memsieve) == TWO
    kept = memsieve("memory", "list", "--store", "s", "--retired", "--json").json()
    assert len(kept) <= len((*ORDER, *SET))
    load = ("search", "--scope", "cafe/ana", "What about coffee?", "--store", "s")
    found = memsieve(*load, "--no-dedup", "--json").json()
    assert {entry["text"] for entry in found["entries"]} == TWO
    assert found["found"] == 2


@pytest.mark.covers("S2.24")
def test_a_pass_over_hundreds_of_memories_takes_less_than_half_a_minute(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """Two of three say nothing new: more than the brake lets go, unless somebody has said so."""
    things = ["lamp", "ladder", "kettle", "saw", "rope", "tent", "drum", "clock", "pump"]
    rooms = ["attic", "cellar", "garage", "hall", "kitchen", "loft", "porch", "shed", "study"]
    wordings = [
        text
        for thing in things
        for room in rooms
        for text in (
            f"Ana keeps the {thing} in the {room}.",
            f"In the {room} Ana keeps the {thing}.",
            f"The {thing} is kept in the {room} by Ana.",
        )
    ]
    write_events(tmp_path / "many.jsonl", *wordings, scope="cafe/ana")
    assert memsieve("run", "many.jsonl", "--store", "s", "--policy", "keep-both").code == 0
    told = memsieve("consolidate", "--store", "s", "--force", "--json").json()
    assert told["memories_before"] == len(wordings) > 200
    assert told["groups"] > 0
    assert told["duration_ms"] < 30_000


@pytest.mark.covers("B92", "S2.21")
def test_a_second_pass_finds_nothing_and_adds_nothing(memsieve: Memsieve, store: Path) -> None:
    memsieve("consolidate", "--store", "s", "--now")
    count = len(decisions(store))
    again = memsieve("consolidate", "--store", "s", "--now", "--json").json()
    assert (again["groups"], len(decisions(store))) == (0, count)
    assert all(scope["deduplicated_before_at"] for scope in again["scopes"])
    for scope in again["scopes"]:
        assert scope["last_deduplicated_at"] > scope["deduplicated_before_at"]


@pytest.mark.covers("S2.26", "B67", "B92")
def test_what_somebody_has_undone_is_joined_by_no_later_pass_nor_shown_as_one(
    memsieve: Memsieve, store: Path
) -> None:
    consolidate = ("consolidate", "--store", "s", "--scope", "cafe/ana", "--now", "--json")
    groups = memsieve(*consolidate).json()["scopes"][0]["groups"]
    [joined] = [one for one in groups if one["text_after"] == ORDER[2]]
    undo = memsieve("undo", joined["decision_id"], "--store", "s", "--json").json()
    apart = {*TWO, *ORDER, "Ben plays chess on Mondays."}
    assert live(memsieve) == apart
    count = len(decisions(store))
    assert memsieve(*consolidate).json()["groups"] == 0
    assert (len(decisions(store)), live(memsieve)) == (count, apart)
    load = ("search", "--scope", "cafe/ana", "What about coffee?", "--store", "s")
    shown = memsieve(*load, "--json").json()
    assert {one["text"] for one in shown["entries"]} == {*TWO, *ORDER}

    [told] = undo["decisions"]
    assert memsieve("undo", told["decision_id"], "--store", "s").code == 0
    assert live(memsieve) == {*TWO, "Ben plays chess on Mondays."}
    kept = memsieve("memory", "list", "--store", "s", "--retired", "--json").json()
    assert [one["kept_apart"] for one in kept] == [[]] * 8
    assert memsieve(*consolidate).json()["groups"] == 0
    assert memsieve("check", "--full", "--store", "s").code == 0


@pytest.mark.covers("S2.5", "S2.6", "B88")
def test_what_is_not_due_is_left_alone_and_told(memsieve: Memsieve, store: Path) -> None:
    assert store.is_dir()
    few = memsieve("consolidate", "--store", "s")
    assert "2 scopes skipped: too few memories" in few.out
    Path("memsieve.toml").write_text("[consolidate]\nmemories_min = 6\n")
    assert memsieve("consolidate", "--store", "s", "--json").json()["groups"] == 2
    Path("memsieve.toml").write_text("[consolidate]\nmemories_min = 1\n")
    recent = memsieve("consolidate", "--store", "s", "--json").json()
    assert recent["skipped"] == {"recent": 1, "few": 1}


def test_one_scope_can_be_named(memsieve: Memsieve, store: Path) -> None:
    assert store.is_dir()
    ben = memsieve("consolidate", "--store", "s", "--now", "--scope", "cafe/ben", "--json").json()
    assert [scope["scope"] for scope in ben["scopes"]] == ["cafe/ben"]
    assert ben["groups"] == 0


@pytest.mark.parametrize("arguments", [["--store", "nowhere"], ["--store", "s", "--kafka", "h:1"]])
def test_what_cannot_be_done_is_told_in_one_line(memsieve: Memsieve, arguments: list[str]) -> None:
    for dry in ([], ["--dry-run"]):
        told = memsieve("consolidate", *arguments, *dry)
        assert told.code in {2, 3}
        assert len(told.err.strip().splitlines()) == 1


def test_another_process_that_writes_the_store_keeps_it(memsieve: Memsieve, store: Path) -> None:
    """Two consolidators at once: the second one is told who holds the store."""
    directory = StoreDirectory(store)
    with directory.written_by_us(directory.require()):
        told = memsieve("consolidate", "--store", "s", "--now")
    assert (told.code, len(told.err.strip().splitlines())) == (3, 1)
    assert len(live(memsieve)) == 8


def test_it_can_be_interrupted_and_goes_on(memsieve: Memsieve, store: Path) -> None:
    process = start("consolidate", "--store", "s", "--now", cwd=store.parent)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode in {0, 130, -signal.SIGINT}
    assert memsieve("consolidate", "--store", "s", "--now").code == 0
    assert live(memsieve) == {*TWO, "Ben plays chess on Mondays."}
    assert memsieve("check", "--full", "--store", "s").code == 0


def discerning(asked: Question) -> Reply:
    """Answer as a language model does that can tell the two facts apart."""
    pair = {asked.data["new"]["text"], asked.data["known"]["text"]}
    return opinion("same" if pair <= COFFEE or pair <= BROKEN else "distinct")


def agreeing(_: Question) -> Reply:
    """Answer as a language model does that holds whatever it is shown for the same."""
    return opinion("same")


def crowded(memsieve: Memsieve, *options: str) -> list[dict[str, Any]]:
    """Return the memories of the store of seven."""
    return memsieve("memory", "list", "--store", "seven", "--json", *options).json()


def joined_by(told: dict[str, Any]) -> list[set[str]]:
    """Return the texts of each group of the store of seven, the smallest first."""
    [scope] = told["scopes"]
    groups = [{one["text"] for one in group["members"]} for group in scope["groups"]]
    return sorted(groups, key=len)


def end_of(memory: dict[str, Any], every: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what stands for a memory now."""
    while memory["superseded"] is not None:
        memory = every[memory["superseded"]["by"]]
    return memory


@pytest.mark.covers("S4.1", "S4.2", "S4.9", "S4.16", "S4.24", "S4.25", "S4.29", "S4.36")
@pytest.mark.covers("S1.9", "S1.43", "B82", "B90", "B92", "S2.21", "S2.26")
@pytest.mark.parametrize("model", [discerning, agreeing])
def test_seven_are_two_on_load_and_seven_in_the_store_until_they_are_joined(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch, model: Callable[[Question], Reply]
) -> None:
    consolidate = ("consolidate", "--store", "seven", "--now", "--json")
    assert memsieve("run", KEPT, "--store", "seven", "--policy", "keep-both").code == 0
    load = ("search", "--scope", "cafe/tyler", "What about coffee?", "--store", "seven")
    shown = memsieve(*load, "--policy", "thorough", "--json").json()
    assert [{one["memory"]["text"] for one in entry["members"]} for entry in shown["entries"]] == [
        COFFEE,
        BROKEN,
    ]
    coffee, broken = joined_by(memsieve(*consolidate, "--dry-run").json())
    assert coffee < COFFEE
    assert broken == BROKEN
    thorough = memsieve(*consolidate, "--policy", "thorough", "--dry-run").json()
    assert joined_by(thorough) == [COFFEE, BROKEN]
    assert sorted(one["text"] for one in crowded(memsieve)) == sorted(SEVEN)

    with LlmServer(model) as server:
        monkeypatch.setenv("MEMSIEVE_LLM__BASE_URL", server.url)
        monkeypatch.setenv("MEMSIEVE_LLM__MODEL", "any")
        told = memsieve(*consolidate, "--policy", "agent-memory").json()
        assert (told["memories_before"], told["memories_after"], told["groups"]) == (7, 2, 2)
        asked, end = len(server.asked), len(decisions(Path("seven")))
        assert asked > 0
        again = memsieve(*consolidate, "--policy", "agent-memory").json()
        assert (again["groups"], again["memories_after"]) == (0, 2)
        assert (len(server.asked), len(decisions(Path("seven")))) == (asked, end)

    assert joined_by(told) == [COFFEE, BROKEN]
    [scope] = told["scopes"]
    groups = [{one["text"] for one in group["members"]} for group in scope["groups"]]
    members = [one for group in scope["groups"] for one in group["members"]]
    distances = [1 - one["similarity"] for one in members if one["similarity"] is not None]
    assert 0.2 < max(distances) <= 0.35  # what the limit of before has left apart
    every = {one["id"]: one for one in crowded(memsieve, "--retired")}
    assert sorted(one["text"] for one in every.values()) == sorted(SEVEN)
    live = [one for one in every.values() if one["status"] == "active"]
    assert sorted(one["observation_count"] for one in live) == [3, 4]
    for memory in every.values():
        assert {memory["text"], end_of(memory, every)["text"]} <= (
            COFFEE if memory["text"] in COFFEE else BROKEN
        )
    assert memsieve("check", "--full", "--store", "seven").code == 0

    first, second = (group["decision_id"] for group in scope["groups"])
    assert memsieve("undo", first, "--store", "seven").code == 0
    back = groups[0] | {one["text"] for one in live}
    assert {one["text"] for one in crowded(memsieve)} == back
    assert memsieve("undo", second, "--store", "seven").code == 0
    assert sorted(one["text"] for one in crowded(memsieve)) == sorted(SEVEN)
    assert {one["observation_count"] for one in crowded(memsieve)} == {1}
    assert memsieve("check", "--full", "--store", "seven").code == 0


async def test_what_a_language_model_holds_for_one_fact_is_one_in_the_store() -> None:
    """Seven as a chat brings them, by the policy agent-memory: two groups, each told losslessly."""
    rows = [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]

    def same_thing(pair: Pair) -> Verdict:
        alike = ("pour" in pair.event.text) == ("pour" in pair.memory.text)
        return Verdict.SAME if alike else Verdict.DISTINCT

    judging = Judging(TextAnalyzer(english()), {"llm": ScriptedVerifier(same_thing)})
    means, policy = DecidingDependencies(default_embedder(), judging), policies.load("agent-memory")
    kept = DryRunClient(policies.load("keep-both"), means)
    said = [
        event(row["text"], scope=row["scope"], occurred_at=later(n)) for n, row in enumerate(rows)
    ]
    await kept.submit(said)
    client = await over(await kept.index(), policy, means)
    done = await Consolidation(
        client, policy, judging, ConsolidateSettings(), Passes(None), SystemClock()
    ).run(ScopeSelection(now=True))
    told = done.as_json()
    assert (told["memories_before"], told["memories_after"]) == (7, 2)
    after = {one.memory.id: one.memory async for one in (await client.index()).scan()}
    for memory in after.values():
        stays = memory
        while stays.superseded is not None and stays.superseded.by is not None:
            stays = after[stays.superseded.by]
        assert stays.live
        assert ("pour" in stays.text) == ("pour" in memory.text)
        assert wordings.has(stays, memory.text)
    assert len(await _live_of(kept)) == 7  # where they came from they stay seven


async def _live_of(client: DryRunClient) -> list[str]:
    return [one.memory.text async for one in (await client.index()).scan() if one.memory.live]


def test_a_scope_that_is_not_there_is_told_with_those_that_are(
    memsieve: Memsieve, store: Path
) -> None:
    scope = memsieve("memory", "list", "--store", store, "--json").json()[0]["scope"]
    result = memsieve("consolidate", "--store", store, "--now", "--scope", f"{scope}x")
    assert f"scope {scope}x has no memories; others have: {scope}" in result.err
    found = memsieve("consolidate", "--store", store, "--now", "--scope", scope)
    assert "has no memories" not in found.err
