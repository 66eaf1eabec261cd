"""Undo, planned over decisions that the real flow has made, and decided by it."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.base import DecisionId, MemoryId
from schemas.decisions import Decision, Ignore, Insert, Merge, Reason, Reinforce, Revise
from schemas.events import CONCERNED_MAX, UNDOES_MAX, Event, Pin, Rate, Remember, Retire, Undo
from schemas.memories import Memory, Side, Target
from streams.changes.core.history import differences, said_by, standing, versions
from streams.model import wordings
from streams.model.embedding import Vector
from streams.model.identity import decision_id, republished_id
from streams.model.merge import contains
from streams.stage.core import lineage
from streams.stage.core.cannot_link import are_apart
from streams.stage.core.lineage import CannotUndo, UndoneAlready, UndoPlan, Wish, plan, undone
from tests.builders import START, at_cosine, event, later, policy, unit
from tests.support.stage.deciding import World

COFFEE = "Ana likes coffee."
TRULY = "Ana truly likes coffee."
REALLY = "Ana really likes coffee."
CUPS = "Ana buys cups."
CHESS = "Ben plays chess."
BOTH = "Ana likes coffee. Ben plays chess."
TABLE: Mapping[str, Vector] = {
    COFFEE: unit(1),
    "ana LIKES  coffee.": unit(1),
    TRULY: at_cosine(0.97, 2),
    REALLY: at_cosine(0.97, 1),
    BOTH: unit(0.85, 0, 0, 0, 0, 0.5268),
    CUPS: at_cosine(0.72, 7),
    CHESS: unit(0, 0, 0, 0, 0, 1),
}


class Story:
    """A scope's decisions as they come, and the memories that they lead to."""

    def __init__(self) -> None:
        self._world = World(policy(merge={"characters_max": 300}), TABLE)
        self.decisions: list[Decision] = []

    async def hear(self, *events: Event) -> list[Decision]:
        made = await self._world.hear(*events)
        self.decisions += made
        return made

    async def say(self, *texts: str, **fields: object) -> list[Decision]:
        """Remember texts, one after the other, each with an event id and a time of its own."""
        made: list[Decision] = []
        for text in texts:
            number = len(self.decisions)
            said = {"event_id": f"event {number}", "occurred_at": later(number), **fields}
            made += await self.hear(event(text, **said))
        return made

    def plan(self, meant: Decision, hours: float = 100) -> UndoPlan:
        wish = Wish("cleo", later(hours + len(self.decisions)))
        return plan(self.decisions, meant.decision_id, wish)

    async def undo(self, meant: Decision) -> Revise:
        """Undo a decision, with all that follows."""
        [decision, *_] = await self.hear(*self.plan(meant).events)
        assert isinstance(decision, Revise)
        assert decision.evidence.reason is Reason.UNDONE
        return decision

    async def live(self) -> list[str]:
        return sorted(await self._world.texts())

    async def all(self) -> dict[MemoryId, Memory]:
        """Return all memories, retired ones as well."""
        return {memory.id: memory for memory in await self._world.every()}


async def request(story: Story, kind: type[Pin | Rate | Retire], **fields: object) -> Decision:
    number = len(story.decisions)
    [made] = await story.hear(
        kind.model_validate(
            {
                "event_id": f"request {number}",
                "scope": "acme/ana",
                "author": "cleo",
                "occurred_at": later(number),
                **fields,
            }
        )
    )
    return made


@pytest.mark.covers("B67")
async def test_an_insert_that_is_undone_ends_its_memory_and_keeps_its_text() -> None:
    story = Story()
    [insert] = await story.say(COFFEE)
    assert isinstance(insert, Insert)
    await story.undo(insert)
    assert await story.live() == []
    memory = (await story.all())[insert.memory.id]
    assert (memory.text, memory.version) == (COFFEE, 2)
    assert memory.superseded is not None
    assert (memory.superseded.by, memory.superseded.reason) == (None, "undone")


@pytest.mark.covers("S2.26", "B67", "C6")
async def test_a_merge_that_is_undone_gives_back_what_it_joined_and_keeps_what_was_said() -> None:
    story = Story()
    [insert, merge] = await story.say(COFFEE, TRULY)
    assert isinstance(insert, Insert)
    assert isinstance(merge, Merge)
    assert await story.live() == [TRULY]
    await story.undo(merge)
    assert await story.live() == [COFFEE, TRULY]
    memories = await story.all()
    back, alone = memories[insert.memory.id], memories[merge.memory.id]
    assert back.model_copy(update={"kept_apart": ()}) == (
        insert.memory.model_copy(update={"version": 3})
    )
    assert (alone.version, alone.merged_from, alone.observation_count) == (2, (), 1)


@pytest.mark.covers("B67")
async def test_a_renaming_that_is_undone_leaves_the_new_words_to_the_history() -> None:
    story = Story()
    [first, renamed] = await story.say(COFFEE, CHESS, memory_id="drink")
    assert isinstance(first, Insert)
    undo = await story.undo(renamed)
    [memory] = (await story.all()).values()
    assert memory == first.memory.model_copy(update={"version": 3})
    life = versions(memory.id, story.decisions)
    assert [one.memory.text for one in life] == [COFFEE, CHESS, COFFEE]
    assert [one.undone_by for one in life] == [None, undo.decision_id, None]
    [again] = await story.say(CHESS)
    assert isinstance(again, Insert)
    assert await story.live() == [COFFEE, CHESS]


@pytest.mark.covers("B67")
async def test_a_repeat_that_is_undone_is_not_counted_and_says_nothing_new() -> None:
    story = Story()
    [insert, again] = await story.say(COFFEE, "ana LIKES  coffee.")
    assert isinstance(insert, Insert)
    assert isinstance(again, Reinforce)
    await story.undo(again)
    [memory] = (await story.all()).values()
    assert memory == insert.memory.model_copy(update={"version": 3})


async def test_a_sighting_in_other_words_that_is_undone_is_a_memory_of_its_own() -> None:
    story = Story()
    [insert] = await story.say(BOTH)
    assert isinstance(insert, Insert)
    [known] = repeats(insert, 1, REALLY)
    planned = plan([insert, known], known.decision_id, Wish("cleo", START))
    assert [(m.text, m.version) for _, m in planned.memories] == [(BOTH, 3), (REALLY, 1)]
    assert planned.memories[1][0] is None


@pytest.mark.covers("C6")
async def test_what_rests_on_a_decision_is_undone_with_it_and_decided_again() -> None:
    story = Story()
    [insert, merge, chess, again] = await story.say(COFFEE, TRULY, CHESS, f"{COFFEE} {TRULY}")
    assert isinstance(merge, Merge)
    planned = story.plan(insert)
    assert [one.decision_id for one in planned.resting] == [merge.decision_id, again.decision_id]
    assert [one.text for one in planned.republished] == [TRULY, f"{COFFEE} {TRULY}"]
    await story.undo(insert)
    assert CHESS in await story.live()
    kinds = [one.kind for one in story.decisions[-2:]]
    assert kinds[0] == "insert"
    assert any(contains(text, COFFEE) for text in await story.live()), "it was said once more since"
    assert (await story.all())[chess.memory.id].version == 1  # type: ignore[union-attr]


@pytest.mark.covers("C6")
async def test_an_undo_can_be_undone_and_that_too() -> None:
    story = Story()
    [insert, merge] = await story.say(COFFEE, TRULY)
    joined = await story.live()
    first = await story.undo(merge)
    assert await story.live() == [COFFEE, TRULY]
    second = await story.undo(first)
    assert await story.live() == joined
    third = await story.undo(second)
    assert await story.live() == [COFFEE, TRULY]
    gone = undone(lineage.changing(story.decisions))
    assert gone == {merge.decision_id: first.decision_id, second.decision_id: third.decision_id}
    await story.undo(insert)
    assert await story.live() == [TRULY]


@pytest.mark.covers("S2.26", "B67")
async def test_what_an_undo_takes_apart_stays_apart_until_the_undo_is_undone() -> None:
    story = Story()
    [_, merge] = await story.say(COFFEE, TRULY)
    joined = await story.all()
    undo = await story.undo(merge)
    one, other = (await story.all()).values()
    assert are_apart(one, other)
    assert one.kept_apart == (Side(undo=undo.decision_id, side=one.id),)
    again = await story.undo(undo)
    for identity, memory in (await story.all()).items():
        assert memory == joined[identity].model_copy(update={"version": memory.version})
    await story.undo(again)
    one, other = (await story.all()).values()
    assert are_apart(one, other)


async def test_what_was_taken_apart_stays_so_where_an_earlier_request_is_undone() -> None:
    story = Story()
    [insert] = await story.say(COFFEE)
    assert isinstance(insert, Insert)
    rated = await request(story, Rate, memory_id=insert.memory.id, helpful=3)
    [merge] = await story.say(TRULY)
    await story.undo(merge)
    await story.undo(rated)
    one, other = (await story.all()).values()
    assert (one.live, one.feedback) == (True, None)
    assert are_apart(one, other)


async def test_what_was_taken_apart_from_a_whole_stays_apart_from_its_parts() -> None:
    story = Story()
    [coffee, first, second] = await story.say(COFFEE, TRULY, REALLY)
    assert isinstance(coffee, Insert)
    assert isinstance(first, Merge)
    assert isinstance(second, Merge)
    assert first.memory.id in second.memory.merged_from
    await story.undo(second)
    await story.undo(first)
    assert await story.live() == [COFFEE, REALLY, TRULY]
    memories = await story.all()
    parts = [memories[one.memory.id] for one in (coffee, first)]
    assert are_apart(*parts)
    assert all(are_apart(part, memories[second.memory.id]) for part in parts)


async def test_a_sighting_in_other_words_that_is_undone_stays_apart() -> None:
    story = Story()
    [insert] = await story.say(BOTH)
    assert isinstance(insert, Insert)
    [known] = repeats(insert, 1, REALLY)
    planned = plan([insert, known], known.decision_id, Wish("cleo", START))
    (_, one), (_, other) = planned.memories
    assert are_apart(one, other)


@pytest.mark.covers("C6")
async def test_what_nobody_had_joined_is_kept_apart_from_nothing() -> None:
    story = Story()
    [coffee, chess] = await story.say(COFFEE, CHESS)
    assert isinstance(coffee, Insert)
    assert isinstance(chess, Insert)
    both = [Target(memory_id=one.memory.id, version=1) for one in (coffee, chess)]
    await story.undo(await request(story, Retire, memories=both, reason="invalid"))
    await story.undo(chess)
    assert [one.kept_apart for one in (await story.all()).values()] == [(), ()]


@pytest.mark.covers("C6")
async def test_the_undo_of_an_undo_takes_back_what_was_decided_again() -> None:
    story = Story()
    [insert, _] = await story.say(COFFEE, TRULY)
    joined = await story.live()
    undo = await story.undo(insert)
    assert await story.live() == [TRULY]
    planned = story.plan(undo)
    assert planned.republished == ()
    await story.undo(undo)
    assert await story.live() == joined


async def test_what_was_undone_cancels_out_and_needs_no_second_look() -> None:
    story = Story()
    [insert, merge] = await story.say(COFFEE, TRULY)
    await story.undo(merge)
    planned = story.plan(insert)
    assert planned.resting == ()
    await story.undo(insert)
    assert await story.live() == [TRULY]


async def test_an_undo_under_a_later_one_that_reaches_further_back_waits_its_turn() -> None:
    story = Story()
    [insert, merge] = await story.say(COFFEE, TRULY)
    first = await story.undo(merge)
    second = await story.undo(insert)
    with pytest.raises(CannotUndo, match=f"{second.decision_id} has undone more .* undo that"):
        story.plan(first)
    await story.undo(second)
    await story.undo(first)
    assert await story.live() == [TRULY]


@pytest.mark.covers("C6")
async def test_what_people_asked_for_is_undone_and_told() -> None:
    story = Story()
    [insert] = await story.say(COFFEE)
    assert isinstance(insert, Insert)
    memory_id = insert.memory.id
    rated = await request(story, Rate, memory_id=memory_id, helpful=3)
    pinned = await request(story, Pin, memory_id=memory_id, pinned=True)
    with pytest.raises(CannotUndo, match=f"memory {memory_id} is pinned.*memsieve memory unpin"):
        story.plan(insert)
    planned = story.plan(rated)
    assert planned.unsettled == [pinned]
    await story.undo(pinned)
    planned = story.plan(insert)
    assert planned.unsettled == [rated]
    assert planned.republished == ()
    await story.undo(rated)
    [memory] = (await story.all()).values()
    assert (memory.pinned, memory.feedback, memory.live) == (False, None, True)


async def test_memories_that_were_ended_come_back() -> None:
    story = Story()
    [insert] = await story.say(COFFEE)
    assert isinstance(insert, Insert)
    target = Target(memory_id=insert.memory.id, version=1)
    ended = await request(story, Retire, memories=[target], reason="invalid")
    assert await story.live() == []
    await story.undo(ended)
    assert await story.live() == [COFFEE]


async def test_history_that_a_newer_fact_outdated_is_decided_again_without_it() -> None:
    """It never was live: what is undone is the reason for that."""
    story = Story()
    [newer, known] = await story.say(COFFEE, CHESS)
    assert isinstance(newer, Insert)
    assert isinstance(known, Insert)
    gone = {"by": newer.memory.id, "at": START, "reason": "older-contradiction"}
    outdated = {"status": "superseded", "superseded": gone}
    history = Memory.model_validate({**known.memory.model_dump(), **outdated})
    decisions = [newer, known.model_copy(update={"memory": history})]
    planned = plan(decisions, newer.decision_id, Wish("cleo", START))
    assert [one.text for one in planned.republished] == [CHESS]


async def test_what_cannot_be_undone_is_told() -> None:
    story = Story()
    [insert] = await story.say(COFFEE)
    assert isinstance(insert, Insert)
    await request(story, Rate, memory_id=insert.memory.id)
    ignored = story.decisions[-1]
    assert isinstance(ignored, Ignore)
    with pytest.raises(CannotUndo, match="changed nothing that could be undone: ignore"):
        story.plan(ignored)
    undo = await story.undo(insert)
    with pytest.raises(UndoneAlready, match=f"already, by decision {undo.decision_id}"):
        story.plan(insert)


async def test_of_two_undos_at_once_the_second_comes_too_late_and_changes_nothing() -> None:
    story = Story()
    [_, merge] = await story.say(COFFEE, TRULY)
    one, other = story.plan(merge), story.plan(merge, hours=200)
    [first, second] = await story.hear(one.request, other.request)
    assert isinstance(first, Revise)
    assert isinstance(second, Ignore)
    assert second.evidence.reason is Reason.OUT_OF_DATE
    assert await story.live() == [COFFEE, TRULY]


async def test_an_undo_that_came_too_late_doubles_nothing_when_it_is_asked_for_again() -> None:
    """Its events were published with it: they say again what holds."""
    story = Story()
    [insert, _] = await story.say(COFFEE, TRULY)
    late = story.plan(insert)
    await story.say(f"{COFFEE} {TRULY}")
    [decision, *_] = await story.hear(*late.events)
    assert isinstance(decision, Ignore)
    planned = story.plan(insert)
    assert [one.text for one in planned.republished].count(TRULY) == 1
    await story.undo(insert)
    live = await story.live()
    assert sum(contains(text, TRULY) for text in live) == 1


async def test_a_clock_that_jumps_back_undoes_all_the_same() -> None:
    story = Story()
    [_, merge] = await story.say(COFFEE, TRULY)
    planned = plan(story.decisions, merge.decision_id, Wish("cleo", later(-10_000)))
    [decision, *_] = await story.hear(*planned.events)
    assert isinstance(decision, Revise)
    assert await story.live() == [COFFEE, TRULY]


async def test_more_than_a_request_may_change_is_refused_with_what_to_undo_first() -> None:
    story = Story()
    [insert] = await story.say(COFFEE)
    assert isinstance(insert, Insert)
    seen = [insert, *repeats(insert, UNDOES_MAX)]
    with pytest.raises(CannotUndo, match=f"undo the later decision {seen[-1].decision_id} first"):
        plan(seen, insert.decision_id, Wish("cleo", START))
    assert (
        len(plan(seen[:-1], insert.decision_id, Wish("cleo", START)).request.undoes) == UNDOES_MAX
    )
    joined = merges(insert, CONCERNED_MAX)
    with pytest.raises(CannotUndo, match=f"undo the later decision {joined[-1].decision_id} first"):
        plan(joined, insert.decision_id, Wish("cleo", START))


def repeats(insert: Insert, count: int, text: str = COFFEE) -> list[Reinforce]:
    """Return decisions by which a memory was seen so many times more."""
    made: list[Reinforce] = []
    for number in range(count):
        said = event(text, event_id=f"again {number}")
        made.append(
            Reinforce(
                decision_id=decision_id(said.scope, said.event_id),
                event=said,
                source=insert.source,
                policy_id=insert.policy_id,
                evidence=insert.evidence,
                memory=insert.memory.model_copy(update={"version": number + 2}),
                target=Target(memory_id=insert.memory.id, version=number + 1),
            )
        )
    return made


def merges(insert: Insert, count: int) -> list[Insert | Merge]:
    """Return decisions that merge a memory, one after the other, into so many others."""
    made: list[Insert | Merge] = [insert]
    for number in range(count):
        said = event(COFFEE, event_id=f"merge {number}")
        before = made[-1].memory
        memory = before.model_copy(update={"id": f"memory {number}"})
        made.append(
            Merge(
                decision_id=decision_id(said.scope, said.event_id),
                event=said,
                source=insert.source,
                policy_id=insert.policy_id,
                evidence=insert.evidence,
                memory=memory,
                embedding=insert.embedding,
                event_embedding=insert.embedding,
                targets=(Target(memory_id=before.id, version=1),),
            )
        )
    return made


async def test_events_that_were_cut_off_behind_an_undo_are_found() -> None:
    story = Story()
    [insert, merge] = await story.say(COFFEE, TRULY)
    planned = story.plan(insert)
    [undo] = await story.hear(planned.request)
    lacking = lineage.cut_off(story.decisions, undo.decision_id)
    assert lacking == list(planned.republished)
    assert [one.text for one in lacking] == [TRULY]
    await story.hear(*lacking)
    assert lineage.cut_off(story.decisions, undo.decision_id) == []
    assert await story.live() == [TRULY]
    assert lineage.cut_off(story.decisions, merge.decision_id) == []


@pytest.mark.covers("B68")
async def test_a_memorys_versions_are_told_with_what_made_them_and_what_differs() -> None:
    story = Story()
    [insert] = await story.say(COFFEE, source="ana")
    assert isinstance(insert, Insert)
    await request(story, Pin, memory_id=insert.memory.id, pinned=True)
    await request(story, Pin, memory_id=insert.memory.id, pinned=False)
    [merge] = await story.say(TRULY)
    undo = await story.undo(merge)
    life = versions(insert.memory.id, story.decisions)
    assert [one.memory.version for one in life] == [1, 2, 3, 4, 5]
    assert [one.decision.kind for one in life] == ["insert", "revise", "revise", "merge", "revise"]
    assert [said_by(one.decision.event) for one in life] == ["ana", "cleo", "cleo", "", "cleo"]
    assert [one.undone_by for one in life] == [None, None, None, undo.decision_id, None]
    assert isinstance(merge, Merge)
    assert [differences(one) for one in life] == [
        [f'+ "{COFFEE}"'],
        ["pinned: False → True"],
        ["pinned: True → False"],
        [f"replaced on {merge.event.occurred_at:%Y-%m-%d} by {merge.memory.id}: nearly-identical"],
        ["active", f"kept apart: none → side {insert.memory.id} of undo {undo.decision_id}"],
    ]
    assert standing(life[-1].memory) == "active"
    product = versions(merge.memory.id, story.decisions)
    told = differences(product[1])
    assert told[0] == f'- also "{COFFEE}"'
    assert any(one.endswith("count: 2 → 1") for one in told)


SAID = st.sampled_from(list(TABLE))


@pytest.mark.covers("C6", "S2.26")
@given(st.lists(st.one_of(SAID, st.integers(0, 30)), min_size=3, max_size=16))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_is_lost_but_by_the_undo_of_its_own_insert(steps: list[str | int]) -> None:
    """Numbers undo a decision, texts are said; no memory is without a live one or its own end."""

    async def play() -> None:
        story = Story()
        for step in steps:
            if isinstance(step, str):
                await story.say(step)
            else:
                await undo_one(story, step)
        await require_nothing_lost(story)

    asyncio.run(play())


async def undo_one(story: Story, number: int) -> None:
    """Undo one of the decisions so far, where it can be."""
    changes = lineage.changing(story.decisions)
    if not changes:
        return
    try:
        planned = story.plan(changes[number % len(changes)])
    except CannotUndo:
        return
    [decision, *_] = await story.hear(*planned.events)
    assert isinstance(decision, Revise)


async def require_nothing_lost(story: Story) -> None:
    memories = await story.all()
    for memory in memories.values():
        end = memory
        while end.superseded is not None and end.superseded.by is not None:
            end = memories[end.superseded.by]
        assert end.live or end.superseded is not None
    live = [memory for memory in memories.values() if memory.live]
    unwanted = taken_back(story.decisions)
    for one in lineage.changing(story.decisions):
        if isinstance(one.event, Remember) and first(story.decisions, one) not in unwanted:
            assert any(wordings.has(memory, one.event.text) for memory in live)


def taken_back(decisions: Sequence[Decision]) -> set[DecisionId]:
    """Return the decisions that somebody meant to undo, of which no memory of their own is left.

    Inserts, and sightings of words that were known.
    """
    changes = lineage.changing(decisions)
    gone, by_id = undone(changes), {one.decision_id: one for one in changes}
    meant = [
        by_id[one.event.undoes[0]]
        for one in changes
        if isinstance(one.event, Undo) and one.decision_id not in gone
    ]
    return {
        first(decisions, one)
        for one in meant
        if isinstance(one, Insert) or one.evidence.reason is Reason.SAME_CONTENT
    }


def first(decisions: Sequence[Decision], one: lineage.Changing) -> DecisionId:
    """Return the first decision on the event that a decision is on."""
    known = one.decision_id
    for undo in reversed([d for d in decisions if isinstance(d, Revise | Ignore)]):
        if isinstance(undo.event, Undo):
            for repeated in undo.event.undoes:
                copy = republished_id(undo.decision_id, repeated)
                if decision_id(undo.event.scope, copy) == known:
                    known = repeated
    return known
