"""`memsieve consolidate` over a store that kept everything apart, with the real model and judge."""

import json
import signal
import time
from pathlib import Path

import pytest

from schemas.decisions import Verdict
from streams.adapters.clock import SystemClock
from streams.adapters.lexicons import english
from streams.adapters.passes import Passes
from streams.adapters.store_directory import StoreDirectory
from streams.apps import policies
from streams.apps.consolidating import Asked, Consolidation
from streams.apps.proposing import InMemory, tried_out
from streams.apps.rehearsing import Means, Rehearsal
from streams.apps.settings import ConsolidateSettings
from streams.core.language.reading import Readings
from streams.core.merge import contains
from streams.core.verdict import Pair
from streams.flow.judging import Judging
from tests.builders import event, later
from tests.commands.conftest import Memsieve, start
from tests.connected.test_consolidation import ORDER, SET, TWO, write
from tests.fakes.judges import ScriptedVerifier
from tests.support.models import default_embedder
from tests.support.stores import decisions

KEPT = Path(__file__).parents[2] / "examples" / "load" / "crowded.jsonl"


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
    return {one["text"] for one in memsieve("memories", "--store", "s", "--json").json()}


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
    assert "nothing was changed" in shown.err
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
    assert "each of them says the same as all others, or part of it" in explained
    assert memsieve("verify", "--store", "s").code == 0


@pytest.mark.covers("B92", "S2.21")
def test_a_second_pass_finds_nothing_and_adds_nothing(memsieve: Memsieve, store: Path) -> None:
    memsieve("consolidate", "--store", "s", "--now")
    count = len(decisions(store))
    again = memsieve("consolidate", "--store", "s", "--now", "--json").json()
    assert (again["groups"], len(decisions(store))) == (0, count)
    assert all(scope["deduplicated_before_at"] for scope in again["scopes"])
    for scope in again["scopes"]:
        assert scope["last_deduplicated_at"] > scope["deduplicated_before_at"]


@pytest.mark.covers("S2.5", "S2.6", "B88")
def test_what_is_not_due_is_left_alone_and_told(memsieve: Memsieve, store: Path) -> None:
    assert store.is_dir()
    few = memsieve("consolidate", "--store", "s")
    assert "2 scopes left alone: too few memories" in few.out
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
    assert memsieve("verify", "--store", "s").code == 0


async def test_what_a_language_model_holds_for_one_fact_is_one_in_the_store() -> None:
    """Seven as a chat brings them, by the policy agent-memory: two groups, each told losslessly."""
    rows = [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]

    def same_thing(pair: Pair) -> Verdict:
        alike = ("pour" in pair.event.text) == ("pour" in pair.memory.text)
        return Verdict.SAME if alike else Verdict.DISTINCT

    judging = Judging(Readings(english()), {"llm": ScriptedVerifier(same_thing)})
    means, policy = Means(default_embedder(), judging), policies.load("agent-memory")
    kept = Rehearsal(policies.load("keep-both"), means)
    said = [
        event(row["text"], scope=row["scope"], occurred_at=later(n)) for n, row in enumerate(rows)
    ]
    await kept.hear(said, batch_records=10)
    place: InMemory = await tried_out(kept.index, policy, means)
    done = await Consolidation(
        place, policy, judging, ConsolidateSettings(), Passes(None), SystemClock()
    ).run(Asked(now=True))
    assert (done.removal.events, done.removal.live) == (7, 2)
    after = {one.memory.id: one.memory async for one in place.rehearsal.index.scan()}
    for memory in after.values():
        stays = memory
        while stays.superseded is not None and stays.superseded.by is not None:
            stays = after[stays.superseded.by]
        assert stays.live
        assert ("pour" in stays.text) == ("pour" in memory.text)
        assert contains(stays.text, memory.text) or memory.id in {
            other for one in after.values() for other in one.merged_from
        }
    assert len(await _live_of(kept)) == 7  # where they came from they stay seven


async def _live_of(rehearsal: Rehearsal) -> list[str]:
    return [one.memory.text async for one in rehearsal.index.scan() if one.memory.live]
