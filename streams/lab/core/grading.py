"""Grading of decisions on labelled pairs: duplicates found, facts hidden, facts lost."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum

from schemas.decisions import Change, Compared, Ignore, Insert, Reason, Verdict
from schemas.events import Remember
from schemas.memories import Memory
from streams.model import wordings
from streams.model.merge import contains
from streams.model.verdict import of_one_memory, vetoed


class Truth(StrEnum):
    """The labelled relation of an event to a memory: a verdict, or only whether they are one fact.

    ONE: one fact. TWO: two facts, with nothing else known.
    """

    ONE = "1"
    TWO = "0"
    SAME = "same"
    REFINES = "refines"
    REFINED_BY = "refined-by"
    OVERLAPS = "overlaps"
    CONTRADICTS = "contradicts"
    DISTINCT = "distinct"


DUPLICATES = frozenset({Truth.ONE, Truth.SAME})
SAYS_MORE = frozenset({Truth.REFINES, Truth.REFINED_BY, Truth.OVERLAPS})
"""One fact to which one side, or each, adds something."""
ONE_FACT = DUPLICATES | SAYS_MORE
"""The pairs that should become one memory."""
APART = frozenset({Truth.TWO, Truth.CONTRADICTS, Truth.DISTINCT})
"""The pairs that should not."""

_BY_RULE = frozenset(
    {
        Reason.NEWER_CONTRADICTION,
        Reason.OLDER_CONTRADICTION,
        Reason.SUPERSEDES_BY_NAME,
        Reason.SAME_MEMORY_ID,
    }
)
"""Reasons for which the policy or the producer retires a fact on purpose."""


@dataclass(frozen=True)
class PairOutcome:
    """The outcome of a decision for an event and a memory.

    Each of them stands if some memory has its text as a wording. `joined`: one memory represents
    both. `by_rule`: an explicit rule retired one of them; it was not a duplicate.
    """

    event_stands: bool
    memory_stands: bool
    joined: bool = False
    by_rule: bool = False


KEPT = PairOutcome(event_stands=True, memory_stands=True)


def dropped(event: str, memory: str) -> PairOutcome:
    """Return the outcome if an event's words were dropped in favour of a memory."""
    return PairOutcome(event_stands=contains(memory, event), memory_stands=True, joined=True)


def outcome(decision: Change | Ignore, event: Remember, memory: Memory) -> PairOutcome:
    """Return the outcome of a decision on an event for a memory that it was compared with."""
    by_rule = decision.evidence.reason in _BY_RULE
    match decision:
        case Insert():
            return PairOutcome(event_stands=True, memory_stands=True, by_rule=by_rule)
        case Ignore():
            return PairOutcome(wordings.has(memory, event.text), memory_stands=True, joined=True)
        case _:
            made = decision.memory
            return PairOutcome(
                event_stands=wordings.has(made, event.text),
                memory_stands=wordings.has(made, memory.text),
                joined=not by_rule,
                by_rule=by_rule,
            )


@dataclass(frozen=True)
class Grade:
    """The grade of a decision on a labelled pair; None for marks that do not apply to the pair.

    `found`: one fact became one memory; `kept_twice`: it stands as two. `hidden`: one of two facts
    became a wording of the other. `lost`: a statement is in no wording of any memory, and no rule
    retired it. A memory retired by a rule keeps its text and can be restored: `superseded` is a
    contradicted fact, rightly retired, `displaced` any other; neither is set if the label does not
    say whether the two contradict each other.
    """

    found: bool | None = None
    kept_twice: bool | None = None
    hidden: bool | None = None
    lost: bool | None = None
    superseded: bool | None = None
    displaced: bool | None = None


def grade(truth: Truth, made: PairOutcome) -> Grade:
    """Return the grade of an outcome, given the true relation of event and memory."""
    gone, one = _gone(truth, made), truth in ONE_FACT
    retired = gone and made.by_rule
    return Grade(
        found=made.joined if one else None,
        kept_twice=(made.event_stands and made.memory_stands and not made.joined) if one else None,
        hidden=None if one else made.joined,
        lost=gone and not made.by_rule,
        superseded=retired if truth is Truth.CONTRADICTS else None,
        displaced=None if truth in {Truth.CONTRADICTS, Truth.TWO} else retired,
    )


def together(grades: Iterable[Grade]) -> Grade:
    """Return the grade of an event compared with several memories: the worst of each mark."""
    every = list(grades)

    def worst(name: str) -> bool | None:
        known = [mark for one in every if (mark := getattr(one, name)) is not None]
        combine = all if name == "found" else any
        return combine(known) if known else None

    return Grade(**{mark.name: worst(mark.name) for mark in fields(Grade)})


def asks(decision: Change | Ignore) -> bool:
    """Return whether a decision asks a person."""
    evidence = decision.evidence
    return bool(evidence.reviews) or evidence.reason is Reason.KEPT_FOR_REVIEW


def score(compared: Compared) -> float | None:
    """Return the score by which pairs are ranked: how sure it is that a pair is one fact.

    It is the judge's probability of one memory, 0 if a guard separated the pair, and 1 if the words
    alone show that the event is known. None if there is no probability.
    """
    if vetoed(compared):
        return 0.0
    if compared.probabilities is not None:
        return min(1.0, of_one_memory(compared.probabilities))
    known = compared.verdict in {Verdict.SAME, Verdict.REFINED_BY}
    return 1.0 if known and compared.judge == "sentences" else None


def _gone(truth: Truth, made: PairOutcome) -> bool:
    """Return whether a statement was lost, given the true relation."""
    if truth in DUPLICATES:
        return not (made.event_stands or made.memory_stands)
    if truth is Truth.REFINES:
        return not made.event_stands
    if truth is Truth.REFINED_BY:
        return not made.memory_stands
    return not (made.event_stands and made.memory_stands)
