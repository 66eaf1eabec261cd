"""Reviews: questions to a person, the effect of the answers, and the state of each question."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from schemas.base import ContentKey, DecisionId, MemoryId, ModelId
from schemas.decisions import (
    Decision,
    Evidence,
    Ignore,
    Insert,
    Marker,
    Reason,
    Replace,
    Revise,
    Revised,
)
from schemas.events import Answer, Seen, Undo
from schemas.outcomes import Review
from streams.model.embedding import pack
from streams.model.identity import review_id
from streams.model.neighbours import Neighbour, StoredMemory
from streams.model.wordings import with_vectors
from streams.stage.core import survivorship
from streams.stage.core.cannot_link import right
from streams.stage.core.case import Case
from streams.stage.core.decide import ignore, next_version, revise, target_of
from streams.stage.core.ledger import Effect, effects, memory_of
from streams.stage.core.lineage import Changing, undone


def questions(decision: Insert, near: list[Neighbour]) -> list[Review]:
    """Return the questions that a decision asks, one per neighbour that it names for review."""
    compared = {one.memory_id: one for one in decision.evidence.neighbours}
    asked = {review_id(decision.decision_id, n.memory.id): n.memory for n in near}
    return [
        Review(
            id=identity,
            scope=decision.event.scope,
            decision_id=decision.decision_id,
            newer=decision.memory,
            older=asked[identity],
            compared=compared[asked[identity].id],
            asked_at=decision.event.occurred_at,
        )
        for identity in decision.evidence.reviews
    ]


_OLDER_STAYS = frozenset({"same", "refined-by"})


def answered(
    case: Case[Answer],
    newer: StoredMemory | None,
    older: StoredMemory | None,
    model: ModelId,
) -> Replace | Revise | Ignore:
    """Apply an answer to the current states of the two memories; None if a memory is gone.

    One memory survives, with the counts and labels of both if they are one fact; the other is
    retired. If they are distinct, both stay, on different sides of this decision. If the one to be
    retired is pinned, nothing changes. `model` computed the vectors.
    """
    answer = case.event
    if not (_is(newer, answer.newer) and _is(older, answer.older)):
        return ignore(case, Reason.ANSWERED_TOO_LATE)
    assert newer is not None and older is not None  # noqa: S101, PT018 - _is has told
    stays, goes = (older, newer) if answer.verdict in _OLDER_STAYS else (newer, older)
    survivor, retired = stays.memory, goes.memory
    match answer.verdict:
        case "distinct":
            both = [right(one.memory, case.decision_id) for one in (newer, older)]
            return revise(case, Reason.ANSWERED, [Revised(memory=one) for one in both])
        case "same" | "refined-by" | "refines":
            memory = survivorship.united(survivor, retired, case.now)
        case "contradicts":
            memory = next_version(survivor)
    if retired.pinned or stays.vector is None:
        return ignore(case, Reason.ANSWERED_TOO_LATE)
    replaced = Replace(
        **case.fields(Evidence(reason=Reason.ANSWERED)),
        memory=memory,
        embedding=pack(stays.vector, model),
        targets=(target_of(survivor), target_of(retired)),
    )
    return with_vectors(replaced, {**goes.wordings, **stays.wordings}, model)


def _is(held: StoredMemory | None, seen: Seen) -> bool:
    return (
        held is not None
        and held.memory.live
        and (held.memory.id, held.memory.content_key) == (seen.memory_id, seen.content_key)
    )


State = Literal["open", "answered", "too-late", "moot"]


@dataclass(frozen=True)
class SettledAnswer:
    """An answer that was decided on; `in_time` if it was applied."""

    answer: Answer
    decision_id: DecisionId
    in_time: bool


@dataclass(frozen=True)
class ReviewQuestion:
    """A review and its state.

    It is moot where nobody has answered in time, and one of its memories is no longer live with
    the text that was asked about; too late where an answer came nevertheless. `reopened_by` is the
    undo that took the last answer back.
    """

    review: Review
    state: State = "open"
    settled: SettledAnswer | None = None
    reopened_by: DecisionId | None = None

    @property
    def asked_at(self) -> datetime:
        return self.review.asked_at

    @property
    def answerable(self) -> bool:
        """Whether an answer may still change something: "distinct" has left both live."""
        kept_both = self.settled is not None and self.settled.answer.verdict == "distinct"
        return self.state == "open" or (self.state == "answered" and kept_both)


class Settlements:
    """The fold of decisions: which questions were asked, which pairs settled, and which answers hold.

    An answer settles all that is asked of its two memories.
    """

    def __init__(self) -> None:
        self._asked: set[str] = set()
        self._answers: dict[frozenset[MemoryId], list[SettledAnswer]] = {}
        self._undos: list[Changing] = []
        self._gone: dict[DecisionId, DecisionId] = {}

    def decided(self, decision: Decision) -> None:
        """Take a decision that counts; those of a partition in their order."""
        if isinstance(decision, Marker):
            return
        self._asked.update(decision.evidence.reviews)
        if isinstance(decision, Revise) and isinstance(decision.event, Undo):
            self._undos.append(decision)
            self._gone = undone(self._undos)
        settled = settles(decision)
        if settled is not None:
            said = settled.answer
            pair = frozenset({said.newer.memory_id, said.older.memory_id})
            self._answers.setdefault(pair, []).append(settled)

    def is_asked(self, identity: str) -> bool:
        return identity in self._asked

    def answer(self, pair: frozenset[MemoryId]) -> SettledAnswer | None:
        """Return the newest answer about two memories that was not taken back."""
        settled: SettledAnswer | None = None
        for answer in self._answers.get(pair, ()):
            if answer.decision_id not in self._gone:
                settled = newest(settled, answer)
        return settled

    def question(self, review: Review, *, standing: bool) -> ReviewQuestion:
        """Return what became of a review. `standing`: both memories are as they were asked about."""
        pair = frozenset({review.newer.id, review.older.id})
        settled = self.answer(pair)
        reopened_by: DecisionId | None = None
        for answer in self._answers.get(pair, ()):
            if answer.decision_id in self._gone:
                reopened_by = self._gone[answer.decision_id]
        if settled is not None:
            state: State = "answered" if settled.in_time else "too-late"
        else:
            state = "open" if standing else "moot"
        return ReviewQuestion(review, state, settled, reopened_by)


class ReviewQuestions:
    """The fold of reviews and decisions: the questions that were asked, and the state of each.

    A review whose decision does not count was never asked.
    """

    def __init__(self, reviews: Iterable[Review]) -> None:
        self._reviews = {review.id: review for review in reviews}
        self._settlements = Settlements()
        self._says: dict[MemoryId, ContentKey | None] = {
            memory.id: None for r in self._reviews.values() for memory in (r.newer, r.older)
        }

    def decided(self, decision: Decision) -> None:
        """Take a decision that counts; those of a partition in their order."""
        self._settlements.decided(decision)
        for effect in effects(decision):
            if memory_of(effect) in self._says:
                self._says[memory_of(effect)] = _words_after(effect)

    def all(self) -> list[ReviewQuestion]:
        """Return the questions that were asked, the newest first."""
        asked = [r for r in self._reviews.values() if self._settlements.is_asked(r.id)]
        told = [self._settlements.question(one, standing=self._stands(one)) for one in asked]
        return sorted(told, key=lambda one: (one.asked_at, one.review.id), reverse=True)

    def _stands(self, review: Review) -> bool:
        both = (review.newer, review.older)
        return all(self._says[memory.id] == memory.content_key for memory in both)


def _words_after(effect: Effect) -> ContentKey | None:
    """Return a memory's content key after an effect; None if it is not live."""
    if isinstance(effect, StoredMemory) and effect.memory.live:
        return effect.memory.content_key
    return None


def settles(decision: Decision) -> SettledAnswer | None:
    """Return the answer that a decision settles; None if it settles none, or one redelivered."""
    if isinstance(decision, Marker) or not isinstance(decision.event, Answer):
        return None
    reason = decision.evidence.reason
    if reason not in {Reason.ANSWERED, Reason.ANSWERED_TOO_LATE}:
        return None
    return SettledAnswer(decision.event, decision.decision_id, in_time=reason is Reason.ANSWERED)


def newest(before: SettledAnswer | None, after: SettledAnswer) -> SettledAnswer:
    """Return which of two answers holds: the later, unless only the earlier came in time."""
    return before if before is not None and before.in_time and not after.in_time else after
