"""The embedded index: what it keeps in memory is what its engine holds."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from schemas.memories import Standing
from streams.index.edge import EdgeIndex, RecentMemories
from streams.model.fences import BEGINNING, ReadPosition
from streams.model.neighbours import StoredMemory
from streams.model.ports.index import UNFOLLOWED, Query
from tests.builders import DIMENSION, identity, stored, unit

HERE = ScopeName("acme/ana")
DECIDED = tuple((DecisionId(identity(n)), ContentKey(f"{n:032x}")) for n in range(3))


def told(found: StoredMemory) -> tuple[object, ...]:
    """Return all of a state in a form that can be compared."""
    vectors = {key: vector.tobytes() for key, vector in found.wordings.items()}
    return found.memory, vectors, found.decided, found.contradicted, found.worded_at


def states() -> list[StoredMemory]:
    plain = [stored(f"Fact {n}.", unit(1, n), id=identity(n)) for n in range(1, 4)]
    linked = stored("Fact 4.", unit(1, 4), id=identity(4))
    return [*plain, replace(linked, decided=DECIDED, contradicted=((identity(1), 1),), worded_at=1)]


async def answers(index: EdgeIndex) -> list[object]:
    made = states()
    keys = [one.memory.content_key for one in made]
    [near] = await index.search([Query(HERE, unit(1, 2), limit=9, floor=-1.0)])
    held = await index.get([one.memory.id for one in made])
    same = await index.with_content(keys)
    return [
        sorted(map(told, near), key=lambda one: str(one[0])),
        {identity: told(one) for identity, one in held.items()},
        {key: [told(one) for one in found] for key, found in same.items()},
    ]


async def test_what_is_kept_in_memory_is_what_another_process_reads(tmp_path: Path) -> None:
    index = EdgeIndex(tmp_path / "index", DIMENSION)
    await index.write(states())
    kept = await answers(index)
    await index.close()
    opened = EdgeIndex(tmp_path / "index", DIMENSION)
    read = await answers(opened)
    await opened.close()
    assert read == kept


async def test_a_state_replaces_the_one_that_was_kept(tmp_path: Path) -> None:
    index = EdgeIndex(tmp_path / "index", DIMENSION)
    first = states()[0]
    await index.write([first])
    second = replace(first, memory=first.memory.model_copy(update={"version": 2}))
    await index.write([second])
    await index.write([first])
    held = await index.get([first.memory.id])
    await index.close()
    assert held[first.memory.id].memory == second.memory


def again(before: StoredMemory, number: int) -> StoredMemory:
    """Return a memory's state after one more repeat."""
    memory = before.memory.with_values(
        version=before.memory.version + 1,
        observation_count=before.memory.observation_count + 1,
    )
    decided = (*before.decided, (DecisionId(identity(number)), ContentKey(f"{number:032x}")))
    return replace(before, memory=memory, decided=decided)


async def after_a_kill(index: Path, to: Path) -> EdgeIndex:
    """Open what a kill would leave at this moment."""
    shutil.copytree(index, to)
    return EdgeIndex(to, DIMENSION)


async def test_what_is_only_seen_again_is_written_when_the_level_is_kept(tmp_path: Path) -> None:
    index = EdgeIndex(tmp_path / "index", DIMENSION)
    first = states()[0]
    since = await index.keep_level(0, BEGINNING, since=UNFOLLOWED)
    await index.write([first])
    second = again(first, 50)
    third = again(second, 51)
    for state in (second, third):
        await index.write([state])
    [near] = await index.search([Query(HERE, unit(1, 1), limit=1, floor=0.0)])
    assert [told(one) for one in near] == [told(third)]
    killed = await after_a_kill(tmp_path / "index", tmp_path / "killed")
    assert told((await killed.get([first.memory.id]))[first.memory.id]) == told(first)
    await killed.close()
    await index.keep_level(0, ReadPosition(3, None), since=since)
    kept = await after_a_kill(tmp_path / "index", tmp_path / "kept")
    assert told((await kept.get([first.memory.id]))[first.memory.id]) == told(third)
    await kept.close()
    await index.close()


async def test_a_decision_is_found_in_a_state_that_waits(tmp_path: Path) -> None:
    index = EdgeIndex(tmp_path / "index", DIMENSION)
    first = states()[0]
    await index.write([first])
    await index.write([again(first, 50)])
    assert list(await index.decided([DecisionId(identity(50))])) == [identity(50)]
    await index.close()


@pytest.mark.parametrize(
    "differently",
    [
        {"status": Standing.TENTATIVE},
        {"text": "Fact 1, corrected.", "content_key": ContentKey("f" * 32)},
    ],
    ids=["status", "text"],
)
async def test_what_queries_tell_apart_is_written_at_once(
    tmp_path: Path, differently: dict[str, object]
) -> None:
    index = EdgeIndex(tmp_path / "index", DIMENSION)
    first = states()[0]
    await index.write([first])
    second = replace(first, memory=first.memory.with_values(version=2, **differently))
    await index.write([second])
    killed = await after_a_kill(tmp_path / "index", tmp_path / "killed")
    assert told((await killed.get([first.memory.id]))[first.memory.id]) == told(second)
    await killed.close()
    await index.close()


async def test_the_index_is_asked_where_a_memory_is_no_longer_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = EdgeIndex(tmp_path / "one", DIMENSION)
    monkeypatch.setattr("streams.index.edge._RECENT", 1)
    forgetful = EdgeIndex(tmp_path / "other", DIMENSION)
    await index.write(states())
    await forgetful.write(states())
    assert await answers(forgetful) == await answers(index)
    await index.close()
    await forgetful.close()


def test_the_least_recent_memories_are_dropped() -> None:
    recent, [one, two, three, _] = RecentMemories(2), states()
    recent.keep([one, two])
    recent.held([one.memory.id])
    recent.keep([three])
    ids: list[MemoryId] = [state.memory.id for state in (one, two, three)]
    assert list(recent.held(ids)) == [one.memory.id, three.memory.id]
