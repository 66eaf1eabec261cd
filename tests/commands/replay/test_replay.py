"""What was decided, built and decided anew: replay and shadow on an embedded store."""

import json
import re
import signal
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import streams
from tests.commands.conftest import SHALLOW, Memsieve, start, write_events
from tests.support.machine.waiting import wait_until

EXAMPLES = [
    Path(__file__).parents[3] / "examples" / name
    for name in ("coffee.jsonl", "support.csv", "team.jsonl", "trap-door.jsonl")
]
DEFAULT = Path(streams.__file__).parent / "store" / "policies" / "default.toml"
BOLDER = {
    'name = "default"': 'name = "bolder"\nguards = false',
    'chain = ["built-in"]': "chain = []",
    '= "keep-both"\nreview = "keep-both"': '= "merge"\nreview = "keep-both"',
    "match = 0.97": "match = 0.80",
}
NEAR = ("Ana keeps three spare keys.", "Ana keeps seven spare keys.")
JOINED = {" ".join(NEAR), " ".join(reversed(NEAR))}
"""They happened at once: which is the older, their ids tell."""


@pytest.fixture(autouse=True)
def _store(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "near.jsonl", *NEAR, scope="near/ana")
    assert memsieve("run", *EXAMPLES, "near.jsonl", "--store", "store").code == 0


@pytest.fixture
def bolder(tmp_path: Path) -> str:
    """Write a policy that joins what the default one keeps apart."""
    content = DEFAULT.read_text("utf-8")
    for before, after in BOLDER.items():
        assert before in content
        content = content.replace(before, after)
    (tmp_path / "bolder.toml").write_text(content, "utf-8")
    return "bolder.toml"


def decisions(memsieve: Memsieve, store: str) -> list[Any]:
    return memsieve("decisions", "--store", store, "--json", "--vectors").json()


def findings(memsieve: Memsieve) -> list[str]:
    """Return what `doctor` says of the store, but for how much of the disk is left."""
    said = memsieve("check", "--store", "store", "--json").json()
    return [re.sub(r"[\d.]+ GB of disk", "disk", one["fact"]) for one in said]


def memories(memsieve: Memsieve, store: str) -> list[Any]:
    return memsieve("memory", "list", "--store", store, "--json", "--retired").json()


@pytest.mark.covers("B128")
def test_the_same_policy_decides_the_same_in_every_byte(memsieve: Memsieve) -> None:
    told = memsieve(
        "store", "replay", "redecide", "--store", "store", "--into", "again", "--json"
    ).json()
    before = [one for one in decisions(memsieve, "store") if one["kind"] != "reject"]
    assert (told["compared"], told["changed"]) == (len(before), 0)
    after = decisions(memsieve, "again")
    assert [_placeless(one) for one in after] == [_placeless(one) for one in before]
    assert memories(memsieve, "again") == memories(memsieve, "store")
    assert memsieve("check", "--store", "again").code == 0


def _placeless(decision: dict[str, Any]) -> dict[str, Any]:
    """Leave out where the log has it: fences lie elsewhere."""
    return {name: value for name, value in decision.items() if name != "offset"}


@pytest.mark.covers("B129", "C5")
def test_another_policy_is_tried_without_keeping_anything(
    memsieve: Memsieve, bolder: str, tmp_path: Path
) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    args = ("--store", "store", "--policy", bolder, "--scope", "near", "--dry-run")
    shown = memsieve("store", "replay", "redecide", *args)
    assert "replace    -> merge" in shown.out
    assert f'"{NEAR[1]}"' in shown.out
    assert any(f'it then says "{text}"' in shown.out for text in JOINED)
    assert {path.name for path in tmp_path.iterdir()} == before
    told = memsieve("store", "replay", "redecide", *args, "--json").json()
    [changed] = [
        one for one in told["kinds"] if (one["before"], one["after"]) == ("replace", "merge")
    ]
    assert changed["changed"] == changed["events"] > 0
    [example] = [one for one in told["examples"] if one["after"]["event"]["text"] == NEAR[1]]
    assert (example["before"]["kind"], example["after"]["kind"]) == ("replace", "merge")


def test_what_was_kept_can_be_compared_later(memsieve: Memsieve, bolder: str) -> None:
    args = ("--store", "store", "--policy", bolder, "--json")
    told = memsieve("store", "replay", "redecide", *args, "--into", "tried").json()
    del told["seconds"]
    assert memsieve("store", "replay", "diff", "tried", "--store", "store", "--json").json() == told
    texts = [
        memory["text"] for memory in memsieve("memory", "list", "--store", "tried", "--json").json()
    ]
    assert JOINED & set(texts)


def test_what_lies_before_the_selection_stays_as_it_was_decided(
    memsieve: Memsieve, bolder: str
) -> None:
    last = decisions(memsieve, "store")[-1]["source"]["offset"]
    args = ("--store", "store", "--policy", bolder, "--json")
    told = memsieve("store", "replay", "redecide", *args, "--from", last, "--into", "late").json()
    assert told["changed"] == 1
    kinds = {one["source"]["offset"]: one["kind"] for one in decisions(memsieve, "late")}
    assert kinds[last] == "merge"
    policies = {one["policy_id"].partition("-")[0] for one in decisions(memsieve, "late")}
    assert policies == {"default", "bolder"}
    none = memsieve(
        "store", "replay", "redecide", *args, "--from", "2030-01-01", "--dry-run"
    ).json()
    assert none["changed"] == 0


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (("--to", "2"), 2),
        (("--to", "1999-01-01"), 0),
        (("--scope", "near"), len(NEAR)),
        (("--to", "2", "--rate", "1000"), 2),
    ],
)
def test_a_part_is_decided_on_alone(memsieve: Memsieve, options: Sequence[str], texts: int) -> None:
    args = ("store", "replay", "redecide", "--store", "store", "--dry-run", "--json")
    assert memsieve(*args, *options).json()["compared"] == texts


def test_the_events_topic_can_be_read_instead_with_what_was_rejected(memsieve: Memsieve) -> None:
    args = ("--store", "store", "--into", "again", "--events", "--json")
    told = memsieve("store", "replay", "redecide", *args).json()
    assert (told["compared"], told["changed"]) == (len(decisions(memsieve, "store")), 0)


def test_an_interrupted_replay_goes_on(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(
        tmp_path / "more.jsonl", *(f"Bo keeps box {n} on shelf {n * 7}." for n in range(300))
    )
    assert memsieve("run", "more.jsonl", "--policy", SHALLOW, "--store", "many").code == 0
    command = ("store", "replay", "redecide", "--store", "many", "--into", "again")
    command = (*command, "--policy", SHALLOW, "--rate", "200")
    process = start(*command, cwd=tmp_path)
    wait_until(lambda: _decided(tmp_path / "again") > 0, "it has begun")
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert 0 < _decided(tmp_path / "again") < 300
    told = memsieve(*command, "--json").json()
    assert (told["compared"], told["changed"]) == (300, 0)
    assert memories(memsieve, "again") == memories(memsieve, "many")


def _decided(store: Path) -> int:
    """Count the records of a growing log's decisions; 0 as long as it is still being made."""
    try:
        log = sqlite3.connect(f"{(store / 'log.sqlite3').as_uri()}?mode=ro", uri=True)
    except sqlite3.OperationalError:
        return 0
    try:
        query = "SELECT count(*) FROM records WHERE topic = 'memory.decisions'"
        return int(log.execute(query).fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        log.close()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("redecide",), "give --into DIR to keep the new decisions, or --dry-run"),
        (("redecide", "--into", "x", "--dry-run"), "give --into DIR"),
        (("redecide", "--dry-run", "--from", "noon"), "--from noon: write an offset, or a time"),
        (("redecide", "--into", "store"), "store is a store, but no replay"),
        (("rematerialise", "--to", "5"), "--to is for --sqlite and --jsonl"),
        (("diff",), "name the STORE of a replay"),
        (("diff", "nowhere"), "holds no store"),
        (("diff", "--run", "two"), "kafka.bootstrap is not set: name a broker with --kafka"),
    ],
)
def test_what_cannot_be_done_is_refused(
    memsieve: Memsieve, arguments: Sequence[str], reason: str
) -> None:
    refused = memsieve("store", "replay", *arguments, "--store", "store")
    assert refused.code in {2, 3}
    assert reason in refused.err


def test_another_replay_is_not_gone_on_with(memsieve: Memsieve, bolder: str) -> None:
    assert memsieve("store", "replay", "redecide", "--store", "store", "--into", "tried").code == 0
    args = ("--store", "store", "--into", "tried", "--policy", bolder)
    refused = memsieve("store", "replay", "redecide", *args)
    assert refused.code == 2
    assert "tried was started with another policy: give the same command again" in refused.err


@pytest.mark.covers("B130")
def test_the_index_is_built_anew_and_put_in_place(memsieve: Memsieve, tmp_path: Path) -> None:
    before = findings(memsieve)
    told = memsieve("store", "replay", "rematerialise", "--store", "store", "--json").json()
    assert told["memories"] == len(memories(memsieve, "store"))
    assert {path.name for path in (tmp_path / "store").iterdir() if "index" in path.name} == {
        "index"
    }
    assert findings(memsieve) == before
    assert (
        memsieve("run", "near.jsonl", "--store", "store", "--json").json()["decisions"]["ignore"]
        == 2
    )


def test_memories_are_written_elsewhere_as_they_are_or_were(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    assert (
        memsieve("store", "replay", "rematerialise", "--store", "store", "--sqlite", "now.db").code
        == 0
    )
    listed = memories(memsieve, "store")
    now = {one["id"]: {k: v for k, v in one.items() if k != "conflicts"} for one in listed}
    assert _in_sqlite(tmp_path / "now.db") == now
    args = ("--store", "store", "--to", "3", "--jsonl", "then")
    assert memsieve("store", "replay", "rematerialise", *args).code == 0
    lines = (tmp_path / "then" / "memories-0.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(line)["decided"]["offset"] for line in lines} <= {1, 2, 3}
    refused = memsieve("store", "replay", "rematerialise", "--store", "store", "--sqlite", "now.db")
    assert "now.db holds memories already: name a new one" in refused.err


def _in_sqlite(path: Path) -> dict[str, Any]:
    with sqlite3.connect(path) as db:
        rows = db.execute("SELECT id, record FROM memories").fetchall()
    db.close()
    return {identity: json.loads(record) for identity, record in rows}


@pytest.mark.covers("B129")
def test_a_shadow_tells_what_it_would_decide_otherwise(
    memsieve: Memsieve, bolder: str, tmp_path: Path
) -> None:
    process = start(
        "policy", "shadow", "--store", "store", "--policy", bolder, "--json", cwd=tmp_path
    )
    assert process.stderr is not None
    assert "deciding alongside the live policy" in process.stderr.readline()
    told = tmp_path / "near2.jsonl"
    write_events(told, *NEAR, scope="acme/new")
    assert memsieve("run", "near2.jsonl", "--store", "store").code == 0
    assert process.stdout is not None
    difference = json.loads(process.stdout.readline())
    assert difference["before"]["kind"] == "replace"
    assert difference["after"]["kind"] == "merge"
    assert difference["after"]["event"]["scope"] == "acme/new"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""


def test_a_shadow_ends_with_a_summary(memsieve: Memsieve, bolder: str, tmp_path: Path) -> None:
    del memsieve
    command = ("policy", "shadow", "--store", "store", "--policy", bolder, "--from", "0")
    process = start(*command, cwd=tmp_path)
    assert process.stdout is not None
    while "merge" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "decided otherwise" in out
