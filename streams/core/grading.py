"""What a decision made of an event and a memory whose relation is known: found, hidden, lost."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from schemas.decisions import Change, Compared, Ignore, Insert, Reason, Verdict
from schemas.events import Remember
from schemas.memories import Memory
from streams.core import wordings
from streams.core.merge import contains
from streams.core.verdict import of_one_memory, vetoed


class Truth(StrEnum):
    """What an event is to a memory, by its label: a verdict's name, or only whether they are one.

    ONE: the same fact. TWO: two facts, of which nothing else is known.
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
"""One fact, of which one side says more, or each does."""
ONE_FACT = DUPLICATES | SAYS_MORE
"""What should become one memory."""
APART = frozenset({Truth.TWO, Truth.CONTRADICTS, Truth.DISTINCT})
"""What should not."""

_BY_RULE = frozenset(
    {
        Reason.NEWER_CONTRADICTION,
        Reason.OLDER_CONTRADICTION,
        Reason.SUPERSEDES_BY_NAME,
        Reason.SAME_MEMORY_ID,
    }
)
"""Reasons by which a fact is retired on purpose: the policy, or the producer, says so."""


@dataclass(frozen=True)
class Outcome:
    """What a decision on an event and a memory has made of them.

    The event and the memory stand where a memory has the text, or a wording of it. `joined`: one
    memory stands for both. `by_rule`: one was retired by an explicit rule, not for being known.
    """

    event_stands: bool
    memory_stands: bool
    joined: bool = False
    by_rule: bool = False


KEPT = Outcome(event_stands=True, memory_stands=True)


def dropped(event: str, memory: str) -> Outcome:
    """Return what stands where a memory was taken for an event whose words were dropped."""
    return Outcome(event_stands=contains(memory, event), memory_stands=True, joined=True)


def outcome(decision: Change | Ignore, event: Remember, memory: Memory) -> Outcome:
    """Return what stands after a decision on an event, that was decided on with a memory."""
    by_rule = decision.evidence.reason in _BY_RULE
    match decision:
        case Insert():
            return Outcome(event_stands=True, memory_stands=True, by_rule=by_rule)
        case Ignore():
            return Outcome(wordings.has(memory, event.text), memory_stands=True, joined=True)
        case _:
            made = decision.memory
            return Outcome(
                event_stands=wordings.has(made, event.text),
                memory_stands=wordings.has(made, memory.text),
                joined=not by_rule,
                by_rule=by_rule,
            )


@dataclass(frozen=True)
class Grade:
    """What is to be said of a decision on a labelled pair; None where it is not about such a pair.

    `found`: what is one fact became one memory; `kept_twice`: it stands as two. `hidden`: of two
    facts one became a wording of the other. `lost`: something that was said is in no wording of a
    memory, and no rule retired it. What a rule retires keeps its text and can be put back:
    `superseded` is a contradicted fact, rightly so, `displaced` any other; where the label does not
    say whether the two contradict each other, neither is told.
    """

    found: bool | None = None
    kept_twice: bool | None = None
    hidden: bool | None = None
    lost: bool | None = None
    superseded: bool | None = None
    displaced: bool | None = None


def grade(truth: Truth, made: Outcome) -> Grade:
    """Judge what became of an event and a memory by what they truly are to each other."""
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
    """Return the grade of an event that was decided on with several memories: the worst of each."""
    every = list(grades)
    return Grade(
        found=_all(one.found for one in every),
        kept_twice=_any(one.kept_twice for one in every),
        hidden=_any(one.hidden for one in every),
        lost=_any(one.lost for one in every),
        superseded=_any(one.superseded for one in every),
        displaced=_any(one.displaced for one in every),
    )


def asks(decision: Change | Ignore) -> bool:
    """Tell whether a person is to settle the decision."""
    evidence = decision.evidence
    return bool(evidence.reviews) or evidence.reason is Reason.KEPT_FOR_REVIEW


def score(compared: Compared) -> float | None:
    """Return how sure it is that a pair is one fact: what pairs are ranked by.

    The judge's probability of one memory, and 0 where a guard has parted them. What the words alone
    tell to be known is sure. None where nobody told a probability.
    """
    if vetoed(compared):
        return 0.0
    if compared.probabilities is not None:
        return min(1.0, of_one_memory(compared.probabilities))
    known = compared.verdict in {Verdict.SAME, Verdict.REFINED_BY}
    return 1.0 if known and compared.judge == "sentences" else None


def _gone(truth: Truth, made: Outcome) -> bool:
    """Tell whether something is no longer said that was said before."""
    if truth in DUPLICATES:
        return not (made.event_stands or made.memory_stands)
    if truth is Truth.REFINES:
        return not made.event_stands
    if truth is Truth.REFINED_BY:
        return not made.memory_stands
    return not (made.event_stands and made.memory_stands)


def _any(marks: Iterable[bool | None]) -> bool | None:
    known = [mark for mark in marks if mark is not None]
    return any(known) if known else None


def _all(marks: Iterable[bool | None]) -> bool | None:
    known = [mark for mark in marks if mark is not None]
    return all(known) if known else None
