"""What a decision made of an event and a memory whose relation is known: found, missed or lost."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from schemas.decisions import (
    Change,
    Compared,
    Ignore,
    Insert,
    Merge,
    MergeProof,
    Reason,
    Reinforce,
    Replace,
    Verdict,
)
from schemas.events import Remember
from schemas.memories import Memory
from streams.core.merge import contains


class Truth(StrEnum):
    """What an event is to a memory, by its label: a verdict's name, or only whether they are one.

    ONE: the same fact. TWO: two facts, of which nothing else is known.
    """

    ONE = "1"
    TWO = "0"
    SAME = "same"
    REFINES = "refines"
    REFINED_BY = "refined-by"
    CONTRADICTS = "contradicts"
    DISTINCT = "distinct"


DUPLICATES = frozenset({Truth.ONE, Truth.SAME})
APART = frozenset({Truth.TWO, Truth.CONTRADICTS, Truth.DISTINCT})
"""What may not be joined into one text."""
NEWS = APART | {Truth.REFINES}
"""The event says what the memory does not."""
KNOWN = DUPLICATES | {Truth.REFINED_BY}
"""The memory says all that the event says."""
ONE_SAYS_MORE = frozenset({Truth.REFINES, Truth.REFINED_BY})

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
    """What stands after a decision on an event, of the event's words and of a memory's.

    `joined`: one memory stands for both. `one_text`: a text was made of both. `by_rule`: one was
    retired by an explicit rule, not for being known.
    """

    event_stands: bool
    memory_stands: bool
    joined: bool = False
    one_text: bool = False
    by_rule: bool = False


KEPT = Outcome(event_stands=True, memory_stands=True)


def counted(event: str, memory: str) -> Outcome:
    """Return what stands where a memory was counted once more and the event's words dropped."""
    return Outcome(event_stands=contains(memory, event), memory_stands=True, joined=True)


def outcome(decision: Change | Ignore, event: Remember, memory: Memory) -> Outcome:
    """Return what stands after a decision on an event, that was decided on with a memory."""
    by_rule = decision.evidence.reason in _BY_RULE
    match decision:
        case Insert():
            return Outcome(decision.memory.live, memory_stands=True, by_rule=by_rule)
        case Reinforce():
            return counted(event.text, decision.memory.text)
        case Ignore():
            return counted(event.text, memory.text)
        case Replace():
            stands = contains(decision.memory.text, memory.text)
            return Outcome(
                event_stands=True, memory_stands=stands, joined=not by_rule, by_rule=by_rule
            )
        case Merge():
            text, proof = decision.memory.text, decision.evidence.merge
            return Outcome(
                event_stands=_held(text, event.text, event.event_id, proof),
                memory_stands=_held(text, memory.text, memory.id, proof),
                joined=True,
                one_text=True,
            )


@dataclass(frozen=True)
class Grade:
    """What is to be said of a decision on a labelled pair; None where it is not about such a pair.

    `lost`: a fact of two is gone that no rule retired. `lost_detail`: of what is one fact, the side
    that says more is gone. `superseded`: a contradicted fact was retired by an explicit rule.
    `wrong_merge`: two facts were put into one text, whether or not all of both is still there.
    `safe`: where one side says more, nothing of that is gone.
    """

    lost: bool | None = None
    lost_detail: bool | None = None
    missed: bool | None = None
    found: bool | None = None
    wrong_merge: bool | None = None
    superseded: bool | None = None
    safe: bool | None = None


def grade(truth: Truth, made: Outcome) -> Grade:
    """Judge what became of an event and a memory by what they truly are to each other."""
    gone = _gone(truth, made)
    superseded = truth is Truth.CONTRADICTS and made.by_rule
    return Grade(
        lost=(gone and not superseded) if truth in NEWS else None,
        lost_detail=gone if truth in KNOWN else None,
        missed=not made.joined if truth in KNOWN else None,
        found=(made.joined and not gone) if truth in KNOWN else None,
        wrong_merge=made.one_text if truth in APART else None,
        superseded=(gone and superseded) if truth is Truth.CONTRADICTS else None,
        safe=not gone if truth in ONE_SAYS_MORE else None,
    )


def together(grades: Iterable[Grade]) -> Grade:
    """Return the grade of an event that was decided on with several memories: the worst of each."""
    every = list(grades)
    return Grade(
        lost=_any(one.lost for one in every),
        lost_detail=_any(one.lost_detail for one in every),
        missed=_any(one.missed for one in every),
        found=_all(one.found for one in every),
        wrong_merge=_any(one.wrong_merge for one in every),
        superseded=_any(one.superseded for one in every),
        safe=_all(one.safe for one in every),
    )


def differs(compared: Compared) -> bool:
    """Tell whether a guard found a difference that forbids to join the two."""
    return any(finding.outcome == "differs" for finding in compared.findings)


def asks(decision: Change | Ignore) -> bool:
    """Tell whether a person is to settle the decision."""
    evidence = decision.evidence
    return bool(evidence.reviews) or evidence.reason is Reason.KEPT_FOR_REVIEW


def score(compared: Compared) -> float | None:
    """Return how sure it is that a pair is one fact: what pairs are ranked by.

    The judge's probability of SAME and half of that of one saying more, and 0 where a guard
    objects, whatever the judge held. What the words alone tell to be known is sure. None where
    nobody told a probability.
    """
    if differs(compared):
        return 0.0
    if compared.probabilities is not None:
        told = compared.probabilities
        more = told.get(Verdict.REFINES, 0.0) + told.get(Verdict.REFINED_BY, 0.0)
        return told.get(Verdict.SAME, 0.0) + more / 2
    known = compared.verdict in {Verdict.SAME, Verdict.REFINED_BY}
    return 1.0 if known and compared.judge == "sentences" else None


def _gone(truth: Truth, made: Outcome) -> bool:
    """Tell whether something is no longer said that was said before."""
    if truth in APART:
        return not (made.event_stands and made.memory_stands)
    if truth is Truth.REFINES:
        return not made.event_stands
    if truth is Truth.REFINED_BY:
        return not made.memory_stands
    return not (made.event_stands or made.memory_stands)


def _held(text: str, source: str, origin: str, proof: MergeProof | None) -> bool:
    """Tell whether a merged text says all of a source: word for word, or by its proof."""
    if contains(text, source):
        return True
    shown = () if proof is None else [one for one in proof.carried if one.origin == origin]
    return bool(shown) and all(one.by.casefold() in text.casefold() for one in shown)


def _any(marks: Iterable[bool | None]) -> bool | None:
    known = [mark for mark in marks if mark is not None]
    return any(known) if known else None


def _all(marks: Iterable[bool | None]) -> bool | None:
    known = [mark for mark in marks if mark is not None]
    return all(known) if known else None
