"""Requests on their way through the flow: a batch is a fold, and texts are embedded when needed."""

from collections.abc import Sequence

import pytest

from schemas.base import EventId, MemoryId
from schemas.decisions import Decision, Ignore, Insert, Reason, Revise
from schemas.events import Event, Pin, Retire, Undo
from schemas.memories import Memory, Target
from streams.model.embedding import TextVector
from streams.stage.core.lineage import Wish, plan
from tests.builders import event, later, policy, unit
from tests.fakes.sentences import SentenceEmbedder
from tests.support.stage.deciding import World

COFFEE, CHESS = "Ana likes coffee.", "Ben plays chess."
TABLE = {COFFEE: unit(1), CHESS: unit(0, 0, 1)}


class Asked(SentenceEmbedder):
    """Remembers which texts it was asked for."""

    def __init__(self) -> None:
        super().__init__(TABLE, characters_max=500)
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        self.texts += texts
        return await super().embed(texts)


def pin(identity: MemoryId, number: int, *, on: bool = True) -> Pin:
    return Pin(
        event_id=EventId(f"pin {number}"),
        scope=event().scope,
        author="cleo",
        occurred_at=later(number),
        memory_id=identity,
        pinned=on,
    )


def end(memory: Memory) -> Retire:
    return Retire(
        event_id=EventId(f"end {memory.version}"),
        scope=memory.scope,
        author="cleo",
        occurred_at=later(5),
        memories=(Target(memory_id=memory.id, version=memory.version),),
        reason="invalid",
    )


async def inserted(world: World, text: str = COFFEE) -> Insert:
    [decision] = await world.hear(event(text))
    assert isinstance(decision, Insert)
    return decision


def undo(decisions: Sequence[Decision], meant: Decision) -> Undo:
    return plan(decisions, meant.decision_id, Wish("cleo", later(9))).request


@pytest.mark.covers("C7", "C15", "B71")
async def test_requests_of_a_batch_see_each_other_as_one_by_one() -> None:
    together, alone = (World(policy(), Asked()) for _ in range(2))
    first = (await inserted(together)).memory
    await inserted(alone)
    pinned = first.model_copy(update={"version": 2})
    unpinned = first.model_copy(update={"version": 4})
    asked: list[Event] = [
        pin(first.id, 1),
        end(pinned),
        pin(first.id, 2),
        pin(first.id, 3, on=False),
        end(unpinned),
        event(COFFEE, event_id="again"),
    ]
    made = await together.hear(*asked)
    one_by_one = [one for wish in asked for one in await alone.hear(wish)]
    assert made == one_by_one
    assert [one.kind for one in made] == [
        *("revise", "ignore", "revise", "revise", "revise", "insert"),
    ]
    assert isinstance(made[1], Ignore)
    assert made[1].evidence.refused == (f"{first.id}: pinned",)
    assert await together.every() == await alone.every()


@pytest.mark.covers("C6", "B67")
async def test_what_was_ended_and_comes_back_in_one_batch_is_embedded_by_what_is_known() -> None:
    embedder = Asked()
    world = World(policy(), embedder)
    insert = await inserted(world)
    ended = end(insert.memory)
    [gone] = await world.hear(ended)
    embedder.texts.clear()
    [back] = await world.hear(undo([insert, gone], gone))
    assert isinstance(back, Revise)
    assert back.memories[0].embedding == insert.embedding
    assert embedder.texts == []
    assert await world.texts() == [COFFEE]


async def test_words_that_a_memory_has_again_are_embedded_once_more() -> None:
    embedder = Asked()
    world = World(policy(), embedder)
    named = {"memory_id": "hobby"}
    made = await world.hear(event(COFFEE, **named), event(CHESS, occurred_at=later(1), **named))
    embedder.texts.clear()
    [back] = await world.hear(undo(made, made[1]))
    assert isinstance(back, Revise)
    assert embedder.texts == [COFFEE]
    assert await world.texts() == [COFFEE]


async def test_an_undo_of_another_scopes_memory_changes_nothing() -> None:
    world = World(policy(), Asked())
    insert = await inserted(world)
    theirs = insert.memory.model_copy(update={"version": 2, "scope": "acme/ben"})
    wish = undo([insert], insert).model_copy(update={"scope": "acme/ben", "memories": (theirs,)})
    [decision] = await world.hear(wish)
    assert isinstance(decision, Ignore)
    assert decision.evidence.reason is Reason.OUT_OF_DATE
    assert await world.texts() == [COFFEE]
