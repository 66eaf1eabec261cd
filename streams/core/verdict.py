"""What an event and a neighbour are to each other: what sentences, guards and judges make of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.base import ScopeName
from schemas.decisions import Band, Finding, Verdict
from schemas.events import Remember
from schemas.memories import Memory
from streams.core.language.reading import Reading
from streams.core.merge import contains
from streams.core.neighbours import Neighbour
from streams.core.policy import Judges


@dataclass(frozen=True)
class Pair:
    """An event and a live memory of its scope, as a judge is asked about them.

    `similarity` is the cosine of their embeddings.
    """

    event: Remember
    memory: Memory
    similarity: float

    @property
    def scope(self) -> ScopeName:
        return self.event.scope


@dataclass(frozen=True)
class Opinion:
    """A judge's answer about a pair.

    `probabilities` are calibrated and add up to 1, over SAME, REFINES, REFINED_BY, CONTRADICTS and
    DISTINCT; None where the judge only names the verdict.
    """

    verdict: Verdict
    judge: str
    probabilities: Mapping[Verdict, float] | None = None


@dataclass(frozen=True)
class Judgement:
    """A verdict, who gave it, and what guards found on the way.

    `opinion` is the judge's answer where one was asked. `degraded` names the judges that should have
    answered and did not, with what kept them.
    """

    verdict: Verdict
    judge: str
    opinion: Opinion | None = None
    findings: tuple[Finding, ...] = ()
    degraded: tuple[str, ...] = ()


def by_sentences(event: Remember, neighbour: Neighbour) -> Judgement | None:
    """Settle a pair by its band, or by what it says word for word; None where that tells nothing."""
    if neighbour.band in {Band.LOG, Band.NONE}:
        return Judgement(Verdict.DISTINCT, "bands")
    known = contains(neighbour.memory.text, event.text)
    covered = contains(event.text, neighbour.memory.text)
    if known:
        return Judgement(Verdict.SAME if covered else Verdict.REFINED_BY, "sentences")
    if covered:
        return Judgement(Verdict.REFINES, "sentences")
    return None


def by_words(event: Reading, memory: Reading, similarity: float, rules: Judges) -> Judgement | None:
    """Settle a pair that shares hardly a word, where the policy says so; None elsewhere."""
    if similarity >= rules.words_below or rules.shared_words_min == 0.0:
        return None
    said, known = event.keywords, memory.keywords
    shorter = min(len(said), len(known))
    if not shorter or len(said & known) >= rules.shared_words_min * shorter:
        return None
    return Judgement(Verdict.DISTINCT, "words")


def by_opinion(opinion: Opinion, rules: Judges) -> Verdict:
    """Return the verdict that an opinion is good for: UNSURE below the least probability for it.

    A side that says more is no loss where it is the side that stays or both stay: SAME counts
    towards REFINES and REFINED_BY, never the other way round.
    """
    if opinion.probabilities is None:
        return opinion.verdict
    p = opinion.probabilities
    same = p[Verdict.SAME]
    if same >= rules.same_min:
        return Verdict.SAME
    for more in (Verdict.REFINED_BY, Verdict.REFINES):
        if p[more] >= same and p[more] + same >= rules.refines_min:
            return more
    for other, least in (
        (Verdict.CONTRADICTS, rules.contradicts_min),
        (Verdict.DISTINCT, rules.distinct_min),
    ):
        if p[other] >= least and p[other] == max(p.values()):
            return other
    return Verdict.UNSURE
