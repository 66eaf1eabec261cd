"""The two-threshold document, as the policy two-threshold does it."""

from collections.abc import Sequence
from typing import Any

import pytest

from schemas.decisions import Insert, Merge, Reinforce, Replace
from schemas.events import Remember
from streams.index.exact import ExactIndex
from streams.model.neighbours import StoredMemory
from streams.model.ports.failures import Transient, Unreachable
from streams.model.ports.index import Query
from streams.model.ports.models import NoAnswer
from tests.builders import at_cosine, event, later, unit
from tests.support.stage.deciding import Wordings, World

RABBIT = "Alice has a grey rabbit."
PAWS = "Alice has a rabbit with white paws."
WORDED = "Alice has a grey rabbit with white paws."
BOTH = f"{RABBIT} {PAWS}"
SHORT = "The boat sails at dawn."
SAME = "A boat sails at dawn."
"""Says what SHORT says, and the other way round."""


def said(text: str, hours: float = 1, **fields: Any) -> Remember:
    return event(text, **{"scope": "bot/alice", "occurred_at": later(hours), **fields})


def world(first: str, second: str, similarity: float, wordings: Wordings | None = None) -> World:
    vectors = {first: unit(1), second: at_cosine(similarity)}
    return World("two-threshold", vectors, wordings=wordings)


@pytest.mark.covers("S1.4", "S1.5", "S1.6", "S1.7", "S1.40", "B6", "B8", "B12")
@pytest.mark.parametrize(
    ("similarity", "kind"),
    [
        (1.0, Replace),
        (0.95, Replace),
        (0.94999, Merge),
        (0.93, Merge),
        (0.90, Merge),
        (0.89999, Insert),
        (0.5, Insert),
    ],
)
async def test_the_newer_replaces_is_worded_with_the_older_or_stands_beside_it(
    similarity: float, kind: type
) -> None:
    here = world(SHORT, SAME, similarity, [SAME])
    await here.tell(said(SHORT, 0))
    assert isinstance(await here.tell(said(SAME)), kind)
    assert await here.texts() == ([SHORT, SAME] if kind is Insert else [SAME])
    assert await here.retired() == ({} if kind is Insert else {SHORT: SAME})


@pytest.mark.covers("D20")
async def test_what_only_the_replaced_text_says_stays_a_wording() -> None:
    """The document takes the newer for the fuller one; here what only the older says is kept."""
    here = world(RABBIT, PAWS, 0.97)
    await here.tell(said(RABBIT, 0))
    assert isinstance(await here.tell(said(PAWS)), Replace)
    assert await here.wordings() == [[PAWS, RABBIT]]


@pytest.mark.covers("S1.3", "S1.8")
async def test_one_match_is_acted_on_the_nearest() -> None:
    other = "Boat sails at the dawn."
    vectors = {SHORT: at_cosine(0.96), other: unit(0.95, -(0.0975**0.5)), SAME: unit(1)}
    here = World("two-threshold", vectors)
    await here.hear(said(SHORT, 0), said(other, 0))
    decision = await here.tell(said(SAME))
    assert isinstance(decision, Replace)
    assert [near.similarity for near in decision.evidence.neighbours] == [0.96]
    assert sorted(await here.texts()) == [SAME, other]


@pytest.mark.covers("S1.13")
@pytest.mark.parametrize(
    ("similarities", "found"),
    [
        ((0.93, 0.97), [0.97]),
        ((0.97, 0.93), [0.97]),
        ((0.9, 0.5), [0.9]),
        ((0.89999, 0.5), []),
    ],
)
async def test_the_nearest_memory_from_the_lower_threshold_on_is_found_or_none(
    similarities: tuple[float, float], found: list[float]
) -> None:
    other = "Boat sails at the dawn."
    first, second = similarities
    here = World(
        "two-threshold",
        {
            SAME: unit(1),
            SHORT: at_cosine(first),
            other: unit(second, -((1 - second**2) ** 0.5)),
        },
        wordings=[SAME],
    )
    await here.hear(said(SHORT, 0), said(other, 0))
    assert await here.texts() == [other, SHORT]
    decision = await here.tell(said(SAME))
    assert [one.similarity for one in decision.evidence.neighbours] == found


@pytest.mark.covers("S1.5", "S1.16", "S1.17", "S1.42", "B13")
async def test_two_similar_memories_are_worded_as_one_text_that_holds_both() -> None:
    """As in the document's example, at its similarity of .93."""
    vectors = {RABBIT: unit(1), PAWS: at_cosine(0.93), WORDED: at_cosine(0.97)}
    here = World("two-threshold", vectors, wordings=[WORDED])
    await here.tell(said(RABBIT, 0))
    decision = await here.tell(said(PAWS))
    assert isinstance(decision, Merge)
    assert decision.evidence.merge is not None
    assert decision.evidence.merge.strategy == "llm"
    assert await here.texts() == [WORDED]
    assert await here.retired() == {RABBIT: WORDED}


@pytest.mark.covers("S1.21", "S1.20", "S1.19")
async def test_the_wording_is_asked_for_with_both_texts_oldest_first_by_whom_and_when() -> None:
    here = world(RABBIT, PAWS, 0.93, [BOTH])
    await here.tell(said(RABBIT, 0, source="alice"))
    await here.tell(said(PAWS, 5, source="alice"))
    assert here.writer is not None
    [asked] = here.writer.asked
    told = [(part.text, part.said_at, part.sources) for part in asked.parts]
    assert told == [(RABBIT, later(0), ("alice",)), (PAWS, later(5), ("alice",))]
    assert asked.characters_max == 600


@pytest.mark.covers("S1.24", "B50")
@pytest.mark.parametrize(("first", "second"), [(0.9, 0.4), (0.4, 0.9)])
async def test_a_merge_takes_the_newest_metadata_and_the_maximum_intensity(
    first: float, second: float
) -> None:
    """What only the older one tells is kept as well."""
    here = world(RABBIT, PAWS, 0.93, [BOTH])
    known = {"channel": "a", "mood": "glad"}
    await here.tell(said(RABBIT, 0, importance=first, title="Rabbit", metadata=known))
    await here.tell(said(PAWS, 1, importance=second, title="Paws", metadata={"channel": "b"}))
    [memory] = await here.memories()
    assert memory.title == "Paws"
    assert memory.metadata == {"channel": "b", "mood": "glad"}
    assert (memory.importance, memory.observation_count) == (0.9, 2)


@pytest.mark.covers("S1.24", "S1.4")
async def test_what_replaces_has_its_own_metadata_and_the_highest_importance() -> None:
    here = world(SHORT, SAME, 0.96)
    await here.tell(said(SHORT, 0, importance=0.9, metadata={"channel": "a"}))
    await here.tell(said(SAME, 1, importance=0.4, metadata={"channel": "b"}))
    [memory] = await here.memories()
    assert (memory.importance, memory.metadata) == (0.9, {"channel": "b"})


TIMEOUT = NoAnswer("timeout")


@pytest.mark.covers("S1.22", "S1.35", "D16", "B26")
@pytest.mark.parametrize(
    ("wordings", "why"),
    [
        pytest.param(None, "wording: not configured", id="no model"),
        pytest.param([TIMEOUT], "wording: timeout", id="it does not answer"),
        pytest.param(["", ""], "wording: not what the sources say", id="an empty text"),
        pytest.param(
            [RABBIT, RABBIT], "wording: not what the sources say", id="the newer is left out"
        ),
        pytest.param([PAWS, PAWS], "wording: not what the sources say", id="the older is left out"),
        pytest.param(
            [f"Here is the merged memory: {BOTH}"] * 2,
            "wording: not what the sources say",
            id="it adds words",
        ),
    ],
)
async def test_where_no_wording_can_be_taken_both_facts_are_kept(
    wordings: Sequence[str | NoAnswer] | None, why: str
) -> None:
    """The document keeps the newer and deletes the older, or discards an empty merge."""
    here = world(RABBIT, PAWS, 0.93, wordings)
    await here.tell(said(RABBIT, 0))
    decision = await here.tell(said(PAWS))
    assert isinstance(decision, Merge)
    assert decision.evidence.degraded == (why,)
    assert await here.texts() == [BOTH]
    assert await here.retired() == {RABBIT: BOTH}


@pytest.mark.covers("D1")
@pytest.mark.parametrize("similarity", [0.97, 0.93])
async def test_a_conflict_is_no_repeat(similarity: float) -> None:
    """The document lets the newer win within the merged text; a number is not dropped so here."""
    older, newer = "Alice has lived here for 5 years.", "Alice has lived here for 6 years."
    here = world(older, newer, similarity, [newer, newer])
    await here.tell(said(older, 0))
    assert isinstance(await here.tell(said(newer)), Insert)
    assert await here.texts() == [older, newer]


class Unanswering(ExactIndex):
    """Does not answer its first search."""

    def __init__(self) -> None:
        super().__init__()
        self.searches = 0

    async def search(self, queries: Sequence[Query]) -> list[list[StoredMemory]]:
        self.searches += 1
        if self.searches == 1:
            raise Unreachable("connection refused")
        return await super().search(queries)


@pytest.mark.covers("B125")
async def test_a_search_that_fails_is_tried_again_and_nothing_is_stored_unchecked() -> None:
    """The document stores anyway. Here the event waits in the log, so nothing is lost by waiting."""
    here = World("two-threshold", {SHORT: unit(1), SAME: at_cosine(0.97)}, index=Unanswering())
    with pytest.raises(Transient, match="connection refused"):
        await here.hear(said(SHORT))
    assert await here.texts() == []
    assert isinstance(await here.tell(said(SHORT)), Insert)
    assert isinstance(await here.tell(said(SAME)), Replace)


class Crashing(ExactIndex):
    """Goes away before anything is retired."""

    async def write(self, changes: Sequence[StoredMemory]) -> None:
        if not all(change.memory.live for change in changes):
            raise Unreachable("connection reset")
        await super().write(changes)


@pytest.mark.covers("D15", "S1.4", "B72")
async def test_a_crash_in_the_middle_of_a_replacement_loses_neither() -> None:
    """The document deletes the old one first."""
    here = World("two-threshold", {SHORT: unit(1), SAME: at_cosine(0.97)}, index=Crashing())
    await here.tell(said(SHORT, 0))
    with pytest.raises(Unreachable):
        await here.tell(said(SAME))
    assert sorted(await here.texts()) == [SAME, SHORT]


@pytest.mark.covers("B16")
async def test_exact_words_are_counted_and_not_replaced() -> None:
    here = world(SHORT, SAME, 0.96)
    await here.tell(said(SHORT, 0))
    assert isinstance(await here.tell(said(SHORT, event_id="again")), Reinforce)
