"""`AsyncMemory`: the same store, for programs with an event loop."""

import asyncio
from pathlib import Path

import pytest

from memsieve import AsyncMemory, InvalidRequest, StoreError
from streams.embedding import HASHING

SCOPE = "acme/ana"
LYON, PARIS = "Ana lives in Lyon.", "Ana lives in Paris."


def of(store: Path) -> AsyncMemory:
    settings = {"embedder": {"model": HASHING}, "index": {"kind": "exact"}}
    return AsyncMemory(store, policy="default-hashing", settings=settings)


async def test_every_call_can_be_awaited(tmp_path: Path) -> None:
    async with of(tmp_path / "store") as memory:
        first = await memory.add(LYON, scope=SCOPE)
        [again] = await memory.add_many([LYON], scope=SCOPE)
        assert (first.kind, again.kind) == ("insert", "reinforce")
        assert [one.text for one in await memory.search("Lyon", scope=SCOPE)] == [LYON]
        assert LYON in await memory.recall(scope=SCOPE)
        assert f'it says    "{LYON}"' in await memory.explain(first.id)
        renewed = await memory.update(first.memory_id, PARIS)
        assert [one.text for one in await memory.history(first.memory_id)] == [LYON, LYON, PARIS]
        assert (await memory.undo(renewed.id, author="Ana")).text == LYON
        assert (await memory.get(first.memory_id)).text == LYON
        await memory.pin(first.memory_id, author="Ana")
        await memory.rate(first.memory_id, helpful=1, author="Ana")
        kept = await memory.get(first.memory_id)
        assert (kept.pinned, kept.feedback and kept.feedback.helpful) == (True, 1)
        await memory.unpin(first.memory_id, author="Ana")
        retired = await memory.retire(first.memory_id, author="Ana")
        await memory.undo(retired.id, author="Ana")
        assert await memory.reviews(SCOPE) == []
        gone = await memory.forget(first.memory_id, later=True, author="Ana")
        assert first.memory_id in gone.memory_ids
        assert LYON not in [one.text for one in await memory.memories()]


async def test_calls_overlap_and_a_forget_waits_for_them(tmp_path: Path) -> None:
    async with of(tmp_path / "store") as memory:
        first = await memory.add("The red box is for tools.", scope=SCOPE)
        told = [memory.add(f"Box {number} is blue.", scope="acme/boxes") for number in range(10)]
        searched = [memory.search("Which box?", scope="acme/boxes") for _ in range(10)]
        made, _, gone = await asyncio.gather(
            asyncio.gather(*told),
            asyncio.gather(*searched),
            memory.forget(first.memory_id, author="Ana"),
        )
        assert gone.memory_ids == (first.memory_id,)
        assert len({one.id for one in made}) == 10
        assert await memory.memories(SCOPE) == []


async def test_a_call_that_is_cancelled_leaves_a_whole_store(tmp_path: Path) -> None:
    async with of(tmp_path / "store") as memory:
        await memory.open()
        telling = asyncio.create_task(memory.add(LYON, scope=SCOPE))
        await asyncio.sleep(0)
        telling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await telling
        assert (await memory.add(PARIS, scope="acme/ben")).kind == "insert"
    async with of(tmp_path / "store") as memory:
        assert PARIS in [one.text for one in await memory.memories()]


async def test_the_first_call_opens_the_store_and_none_does_after_the_close(tmp_path: Path) -> None:
    memory = of(tmp_path / "store")
    with pytest.raises(InvalidRequest, match=r"^scope: "):
        await memory.add(LYON, scope="")
    assert (tmp_path / "store").is_dir()
    await memory.close()
    await memory.close()
    with pytest.raises(StoreError, match="was closed"):
        await memory.add(LYON, scope=SCOPE)
