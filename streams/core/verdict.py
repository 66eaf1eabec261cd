"""What an event and a neighbour are to each other, as far as no model has to be asked."""

from dataclasses import dataclass

from schemas.decisions import Band, Verdict
from schemas.events import Remember
from streams.core.merge import contains
from streams.core.neighbours import Neighbour


@dataclass(frozen=True)
class Judgement:
    """A verdict and who gave it."""

    verdict: Verdict
    judge: str


def judge(event: Remember, neighbour: Neighbour) -> Judgement:
    """Settle a pair by its band and its sentences; UNSURE is a question left to other judges."""
    if neighbour.band in {Band.LOG, Band.NONE}:
        return Judgement(Verdict.DISTINCT, "bands")
    known = contains(neighbour.memory.text, event.text)
    covered = contains(event.text, neighbour.memory.text)
    if known:
        return Judgement(Verdict.SAME if covered else Verdict.REFINED_BY, "sentences")
    if covered:
        return Judgement(Verdict.REFINES, "sentences")
    return Judgement(Verdict.UNSURE, "bands")
