"""What an answer does to the two memories that were asked about, and what became of a question."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from schemas.base import DecisionId, Embedding, MemoryId, Position
from schemas.codec import EVENT, Unreadable
from schemas.decisions import (
    Band,
    Compared,
    Decision,
    Evidence,
    Ignore,
    Insert,
    Reason,
    Replace,
    Revise,
    Revised,
    Verdict,
)
from schemas.events import Answer, Seen
from schemas.memories import Memory, Side, Standing, Superseded, Turns
from schemas.outcomes import Review
from streams.model.embedding import pack, unpack
from streams.model.identity import answer_id, decision_id, event_key, review_id
from streams.model.neighbours import Neighbour, StoredMemory
from streams.stage.core import survivorship
from streams.stage.core.cannot_link import are_apart
from streams.stage.core.case import Case
from streams.stage.core.decide import ignore
from streams.stage.core.ledger import fold
from streams.stage.core.lineage import Wish, plan
from streams.stage.core.overlay import Overlay
from streams.stage.core.reviewing import ReviewQuestion, ReviewQuestions, answered, questions
from streams.verify.core.audit import Audit, successors
from tests.builders import MODEL, at_cosine, event, identity, later, memory, policy, unit

Held = tuple[Memory, Embedding]

OLDER = memory(
    "Ana likes tea.",
    id=identity(1),
    version=3,
    observation_count=3,
    tags=("drink",),
    sources=("ana",),
    turns=Turns(first=2, last=5),
    importance=0.2,
    category="taste",
    metadata={"mood": "calm"},
)
NEWER = memory(
    "Ana likes green tea.",
    id=identity(2),
    created_at=later(2),
    last_seen_at=later(2),
    tags=("green",),
    sources=("ben",),
    turns=Turns(first=9, last=9),
    importance=0.7,
    category="food",
    metadata={"mood": "glad", "cup": 1},
)
V_OLDER, V_NEWER = pack(unit(1, 0.25, 0.125), MODEL), pack(at_cosine(0.91), MODEL)
PLACE = Position(topic="memory.events", partition=0, offset=7)


def answer(verdict: str = "same", **fields: Any) -> Answer:
    values = {
        "event_id": answer_id("r1", verdict, "cleo"),
        "scope": "acme/ana",
        "review_id": "r1",
        "newer": seen(NEWER),
        "older": seen(OLDER),
        "verdict": verdict,
        "author": "cleo",
        "occurred_at": later(9),
        **fields,
    }
    return Answer.model_validate(values)


def seen(known: Memory) -> Seen:
    return Seen(memory_id=known.id, content_key=known.content_key)


def settle(
    verdict: str = "same",
    newer: Held | None = (NEWER, V_NEWER),
    older: Held | None = (OLDER, V_OLDER),
) -> Replace | Revise | Ignore:
    return answered(Case(answer(verdict), PLACE, policy()), known(newer), known(older), MODEL)


def known(held: Held | None) -> StoredMemory | None:
    return None if held is None else StoredMemory(held[0], unpack(held[1]))


def applied(verdict: str) -> Replace:
    made = settle(verdict)
    assert isinstance(made, Replace)
    return made


@pytest.mark.covers("B40")
@pytest.mark.parametrize(
    ("verdict", "survivor", "embedding", "retired"),
    [
        ("same", OLDER, V_OLDER, NEWER),
        ("refined-by", OLDER, V_OLDER, NEWER),
        ("refines", NEWER, V_NEWER, OLDER),
        ("contradicts", NEWER, V_NEWER, OLDER),
    ],
)
def test_each_verdict_says_which_memory_goes_on(
    verdict: str, survivor: Memory, embedding: Embedding, retired: Memory
) -> None:
    made = applied(verdict)
    assert (made.memory.id, made.memory.text) == (survivor.id, survivor.text)
    assert made.memory.version == survivor.version + 1
    assert made.embedding == embedding  # bit for bit: nobody encodes it anew
    assert [(t.memory_id, t.version) for t in made.targets] == [
        (survivor.id, survivor.version),
        (retired.id, retired.version),
    ]
    assert made.evidence == Evidence(reason=Reason.ANSWERED)
    assert made.decision_id == decision_id(made.event.scope, made.event.event_id)


def test_two_that_are_distinct_are_both_kept_with_what_they_say() -> None:
    made = settle("distinct")
    assert isinstance(made, Revise)
    assert made.evidence.reason is Reason.ANSWERED
    for before, after in zip((NEWER, OLDER), (one.memory for one in made.memories), strict=True):
        version = before.version + 1
        side = Side(undo=made.decision_id, side=before.id, right_at=version)
        assert after == before.model_copy(update={"version": version, "kept_apart": (side,)})
    assert are_apart(*(one.memory for one in made.memories))


@pytest.mark.parametrize("verdict", ["same", "refined-by", "refines"])
def test_counts_and_labels_of_both_live_on_in_one(verdict: str) -> None:
    made = applied(verdict).memory
    one = OLDER if verdict != "refines" else NEWER
    other = NEWER if one is OLDER else OLDER
    assert made.observation_count == 4
    assert set(made.tags) == {"drink", "green"}
    assert set(made.sources) == {"ana", "ben"}
    assert made.turns == Turns(first=2, last=9)
    assert made.importance == 0.7
    assert (made.created_at, made.last_seen_at) == (OLDER.created_at, NEWER.last_seen_at)
    assert made.category == one.category
    assert made.metadata == {**other.metadata, **one.metadata}
    assert made.merged_from == (other.id,)


@pytest.mark.parametrize("verdict", ["same", "refined-by", "refines"])
def test_the_words_of_the_one_that_goes_are_a_variant_of_the_one_that_stays(verdict: str) -> None:
    made = applied(verdict)
    goes, vector = (OLDER, V_OLDER) if verdict == "refines" else (NEWER, V_NEWER)
    assert [variant.text for variant in made.memory.variants] == [goes.text]
    assert made.variant_embeddings == (vector,)


def test_what_was_contradicted_lends_the_newer_nothing() -> None:
    assert applied("contradicts").memory == NEWER.model_copy(update={"version": 2})


TOO_LATE: dict[str, tuple[Held | None, Held | None]] = {
    "the newer is gone": (None, (OLDER, V_OLDER)),
    "the older is gone": ((NEWER, V_NEWER), None),
    "both are gone": (None, None),
    "its text was changed": (
        (NEWER, V_NEWER),
        (memory("Ana likes cocoa.", id=OLDER.id, version=4), V_OLDER),
    ),
    "it was retired": (
        (
            survivorship.retired(
                NEWER, Superseded(by=MemoryId(identity(5)), at=later(3), reason="x")
            ),
            V_NEWER,
        ),
        (OLDER, V_OLDER),
    ),
    "another has its place": (
        (NEWER, V_NEWER),
        (OLDER.model_copy(update={"id": identity(8)}), V_OLDER),
    ),
    "another scope has the words": (
        (NEWER, V_NEWER),
        (memory(OLDER.text, id=OLDER.id, scope="acme/ben"), V_OLDER),
    ),
    "the one to be retired is pinned": (
        (NEWER.model_copy(update={"pinned": True}), V_NEWER),
        (OLDER, V_OLDER),
    ),
}


@pytest.mark.covers("B40")
@pytest.mark.parametrize("held", TOO_LATE.values(), ids=list(TOO_LATE))
def test_an_answer_about_what_is_not_as_it_was_asked_about_changes_nothing(
    held: tuple[Held | None, Held | None],
) -> None:
    made = settle("same", *held)
    assert isinstance(made, Ignore)
    assert made.evidence.reason is Reason.ANSWERED_TOO_LATE


def test_a_memory_that_was_only_seen_again_meanwhile_is_still_the_one_asked_about() -> None:
    again = OLDER.model_copy(update={"version": 7, "observation_count": 7})
    made = settle("same", older=(again, V_OLDER))
    assert isinstance(made, Replace)
    assert (made.memory.version, made.memory.observation_count) == (8, 8)


def test_a_pinned_memory_may_stand_for_another() -> None:
    pinned = OLDER.model_copy(update={"pinned": True})
    made = settle("same", older=(pinned, V_OLDER))
    assert isinstance(made, Replace)
    assert made.memory.pinned


def test_an_answer_about_one_memory_twice_is_no_answer() -> None:
    fields = {**answer().model_dump(mode="json"), "newer": seen(OLDER).model_dump()}
    with pytest.raises(ValueError, match="newer and older are both memory"):
        Answer.model_validate(fields)
    twice = EVENT.encode(answer()).replace(NEWER.id.encode(), OLDER.id.encode())
    with pytest.raises(Unreadable, match="newer and older are both"):
        EVENT.decode(twice)


def test_the_same_answer_again_is_the_same_event_and_another_is_not() -> None:
    again = answer(occurred_at=later(10), note="really")
    assert (again.event_id, event_key(again)) == (answer().event_id, event_key(answer()))
    assert answer("refines").event_id != answer().event_id
    assert answer_id("r1", "same", "dora") != answer_id("r1", "same", "cleo")


@dataclass(frozen=True)
class World:
    """A log in which a question is asked: what asked it, and the two memories it is about."""

    older: Insert
    asking: Insert
    review: Review

    @property
    def log(self) -> list[Decision]:
        return [self.older, self.asking]

    def answered(
        self, verdict: str, number: int = 2, author: str = "cleo"
    ) -> Replace | Revise | Ignore:
        said = answer(
            verdict,
            event_id=answer_id(self.review.id, verdict, author),
            review_id=self.review.id,
            newer=seen(self.review.newer),
            older=seen(self.review.older),
            author=author,
        )
        place = Position(topic="memory.events", partition=0, offset=number)
        newer, older = (known((one.memory, one.embedding)) for one in (self.asking, self.older))
        return answered(Case(said, place, policy()), newer, older, MODEL)


def inserted(number: int, text: str, vector: Embedding, evidence: Evidence) -> Insert:
    said = event(text, event_id=f"event {number}", occurred_at=later(number))
    place = Position(topic="memory.events", partition=0, offset=number)
    case = Case(said, place, policy())
    return Insert(
        decision_id=case.decision_id,
        event=said,
        source=place,
        policy_id=policy().id,
        evidence=evidence,
        memory=survivorship.born(said, case.new_memory_id, truncated=False),
        embedding=vector,
    )


def taken_back(log: Sequence[Decision], meant: DecisionId, number: int) -> Revise:
    """Decide on the wish to undo one of these decisions."""
    request = plan(log, meant, Wish("cleo", later(number))).request
    return Revise(
        decision_id=decision_id(request.scope, request.event_id),
        event=request,
        source=Position(topic="memory.events", partition=0, offset=number),
        policy_id=policy().id,
        evidence=Evidence(reason=Reason.UNDONE),
        memories=tuple(Revised(memory=one) for one in request.memories),
    )


@pytest.fixture
def world() -> World:
    older = inserted(0, OLDER.text, V_OLDER, Evidence(reason=Reason.NOTHING_NEAR))
    compared = Compared(
        memory_id=older.memory.id,
        version=1,
        similarity=0.91,
        band=Band.REVIEW,
        verdict=Verdict.UNSURE,
        judge="bands",
    )
    identity_ = decision_id(older.event.scope, event("x", event_id="event 1").event_id)
    evidence = Evidence(
        reason=Reason.KEPT_FOR_REVIEW,
        neighbours=(compared,),
        reviews=(review_id(identity_, older.memory.id),),
    )
    asking = inserted(1, NEWER.text, V_NEWER, evidence)
    near = Neighbour(older.memory, 0.91, Band.REVIEW)
    [review] = questions(asking, [near])
    return World(older, asking, review)


def test_a_question_names_both_memories_and_what_was_made_of_them(world: World) -> None:
    assert world.review == Review(
        id=review_id(world.asking.decision_id, world.older.memory.id),
        scope=world.asking.event.scope,
        decision_id=world.asking.decision_id,
        newer=world.asking.memory,
        older=world.older.memory,
        compared=world.asking.evidence.neighbours[0],
        asked_at=later(1),
    )


@pytest.mark.parametrize("verdict", ["same", "refines", "refined-by", "contradicts"])
def test_the_ledger_folds_an_answer_and_the_retired_memory_reaches_the_survivor(
    world: World, verdict: str
) -> None:
    made = world.answered(verdict)
    assert isinstance(made, Replace)
    state: dict[MemoryId, StoredMemory] = {}
    for decision in (*world.log, made, made):
        fold(state, decision)
    retired = next(s.memory for s in state.values() if not s.memory.live)
    assert retired.superseded == Superseded(by=made.memory.id, at=later(9), reason="answered")
    assert retired.status is Standing.SUPERSEDED
    assert state[made.memory.id].memory == made.memory
    kept = state[made.memory.id].vector
    assert kept is not None
    assert kept.tobytes() == unpack(made.embedding).tobytes()
    assert not successors(state).counts


def test_the_overlay_shows_the_survivor_and_no_longer_the_other(world: World) -> None:
    overlay = Overlay()
    overlay.join(world.log, [1, 2])
    fork = overlay.fork()
    made = world.answered("same")
    assert isinstance(made, Replace)
    fork.record(made)
    changed = fork.changed(world.review.scope)
    assert changed[world.asking.memory.id] is None
    survivor = changed[world.older.memory.id]
    assert survivor is not None
    assert dict(survivor.memory) == dict(made.memory)
    assert fork.decided(made.decision_id) == event_key(made.event)
    near = fork.near(world.review.scope, unpack(V_NEWER), [], 8)
    assert [one.memory.id for one in near] == [world.older.memory.id]


@pytest.mark.parametrize("verdict", ["same", "refines", "contradicts", "distinct"])
def test_an_audit_finds_nothing_wrong_with_an_answer(world: World, verdict: str) -> None:
    audit = Audit(1, {0: 3})
    for offset, decision in enumerate((*world.log, world.answered(verdict))):
        audit.decision(decision, Position(topic="memory.decisions", partition=0, offset=offset))
    for offset, decision in enumerate((*world.log, world.answered(verdict))):
        assert isinstance(decision, Insert | Replace | Revise)
        audit.pairings[0].event(offset, lambda said=decision.event: said)
    audit.pairings[0].close(0, 3)
    for found in (audit.log, audit.numbers, audit.events, audit.fold):
        assert not found.counts


class TestQuestions:
    def asked(self, world: World, *decisions: Decision) -> Sequence[ReviewQuestion]:
        found = ReviewQuestions([world.review, world.review])  # published twice, asked once
        for decision in decisions:
            found.decided(decision)
        return found.all()

    def test_is_open_until_it_is_answered(self, world: World) -> None:
        [question] = self.asked(world, *world.log)
        assert (question.review, question.state, question.settled) == (world.review, "open", None)

    def test_is_asked_by_a_decision_that_counts_or_by_nobody(self, world: World) -> None:
        assert self.asked(world, world.older) == []

    @pytest.mark.parametrize("verdict", ["same", "refines", "contradicts", "distinct"])
    def test_is_answered_once(self, world: World, verdict: str) -> None:
        made = world.answered(verdict)
        again = ignore(Case(made.event, PLACE, policy()), Reason.SAME_EVENT)
        [question] = self.asked(world, *world.log, made, again)
        assert question.state == "answered"
        assert question.settled is not None
        assert question.settled.answer == made.event

    def test_a_later_answer_that_comes_too_late_does_not_undo_the_first(self, world: World) -> None:
        first = world.answered("same")
        pair = {"newer": seen(world.review.newer), "older": seen(world.review.older)}
        late = answered(Case(answer("distinct", **pair), PLACE, policy()), None, None, MODEL)
        [question] = self.asked(world, *world.log, first, late)
        assert question.settled is not None
        assert (question.state, question.settled.answer.verdict) == ("answered", "same")
        [question] = self.asked(world, *world.log, late)
        assert question.state == "too-late"
        [question] = self.asked(world, *world.log, late, first)
        assert question.state == "answered"

    def test_is_settled_by_what_somebody_says_of_the_pair_unasked(self, world: World) -> None:
        pair = {"newer": seen(world.review.older), "older": seen(world.review.newer)}
        said = Case(answer("distinct", review_id="unasked", **pair), PLACE, policy())
        held = [known((one.memory, one.embedding)) for one in (world.older, world.asking)]
        [question] = self.asked(world, *world.log, answered(said, held[0], held[1], MODEL))
        assert question.state == "answered"

    @pytest.mark.parametrize("verdict", ["same", "contradicts"])
    def test_is_open_again_where_the_answer_is_undone(self, world: World, verdict: str) -> None:
        made = world.answered(verdict)
        log = [*world.log, made]
        back = taken_back(log, made.decision_id, 20)
        [question] = self.asked(world, *log, back)
        assert (question.state, question.settled) == ("open", None)
        assert question.reopened_by == back.decision_id
        assert question.answerable
        undone = taken_back([*log, back], back.decision_id, 21)
        [question] = self.asked(world, *log, back, undone)
        assert question.state == "answered"
        assert question.settled is not None
        assert question.settled.answer == made.event

    def test_may_be_answered_anew_only_where_the_answer_left_both(self, world: World) -> None:
        [question] = self.asked(world, *world.log, world.answered("distinct"))
        assert (question.state, question.answerable) == ("answered", True)
        [question] = self.asked(world, *world.log, world.answered("same"))
        assert not question.answerable

    def test_is_moot_where_a_memory_is_gone_or_says_something_else(self, world: World) -> None:
        other = world.answered("same")
        assert isinstance(other, Replace)
        gone = other.model_copy(update={"event": event("Ana drinks tea.")})
        assert [one.state for one in self.asked(world, *world.log, gone)] == ["moot"]
        newer = world.asking.memory.model_copy(update={"version": 2, "text": "Ana likes cocoa."})
        newer = memory(**{**dict(newer), "content_key": memory("Ana likes cocoa.").content_key})
        renamed = other.model_copy(
            update={
                "event": event("Ana likes cocoa."),
                "memory": newer,
                "variant_embeddings": (),
                "targets": (other.targets[1],),
            }
        )
        assert [one.state for one in self.asked(world, *world.log, renamed)] == ["moot"]
