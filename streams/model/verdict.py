"""The relation of an event to a neighbour, as sentences, guards and judges determine it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schemas.base import ScopeName
from schemas.decisions import Band, Compared, Finding, Verdict
from schemas.events import Remember
from schemas.memories import Memory
from streams.model.merge import contains
from streams.model.neighbours import Neighbour
from streams.model.policy import JOINING, Act, Judges, Rules
from streams.text.guards.registry import OF_MARKS, OF_RECORDS
from streams.text.judge.weighing import ONE_MEMORY
from streams.text.reading import AnalysedText


@dataclass(frozen=True)
class Pair:
    """An event and a live memory of its scope: the input of a judge.

    `similarity` is the cosine of their embeddings; `findings` are the guards'. `deep` allows work
    that takes milliseconds.
    """

    event: Remember
    memory: Memory
    similarity: float
    findings: tuple[Finding, ...] = ()
    deep: bool = True

    @property
    def scope(self) -> ScopeName:
        return self.event.scope


@dataclass(frozen=True)
class Opinion:
    """A judge's answer about a pair.

    `probabilities` are calibrated and sum to 1 over SAME, REFINES, REFINED_BY, OVERLAPS,
    CONTRADICTS and DISTINCT; None if the judge gives only the verdict.
    """

    verdict: Verdict
    judge: str
    probabilities: Mapping[Verdict, float] | None = None


@dataclass(frozen=True)
class Judgement:
    """A verdict, who gave it, and the guards' findings.

    `opinion` is the judge's answer if one was asked. `degraded` lists the judges that failed to
    answer, each with the reason.
    """

    verdict: Verdict
    judge: str
    opinion: Opinion | None = None
    findings: tuple[Finding, ...] = ()
    degraded: tuple[str, ...] = ()


FOREIGN = "language "
"""Begins the judge of a pair that is not in English and that nobody settled; the code follows."""

FEW_WORDS = "words"
"""The judge of a pair that shares too few words to be worth asking one."""


def by_sentences(event: Remember, neighbour: Neighbour) -> Judgement | None:
    """Settle a pair by its band, or by sentences that match word for word; None if neither does."""
    if neighbour.band in {Band.LOG, Band.NONE}:
        return Judgement(Verdict.DISTINCT, "bands")
    known = contains(neighbour.memory.text, event.text)
    covered = contains(event.text, neighbour.memory.text)
    if known:
        return Judgement(Verdict.SAME if covered else Verdict.REFINED_BY, "sentences")
    if covered:
        return Judgement(Verdict.REFINES, "sentences")
    return None


_SHARED_MIN = 0.34
"""Three of four near pairs in a stream of long notes share fewer words, and most merges among those
are wrong."""
_FEW_WORDS = 3
"""A text of so few words may say the same, or its update, in none of the other's: of the development
pairs that are joined or replaced, one in ten shares fewer words than that, and two thirds of these
have a text so short. In the stream, 6 % of such pairs have one."""


def by_words(
    event: AnalysedText, memory: AnalysedText, similarity: float, rules: Judges
) -> Judgement | None:
    """Settle a dissimilar pair of long texts that shares few words, names aside, as DISTINCT.

    Return None for others. The built-in judge would rarely be sure of such a pair, and asking it
    costs more.
    """
    if similarity >= rules.words_below or not rules.weighs:
        return None
    said, known = event.keywords, memory.keywords
    shorter = min(len(said), len(known))
    # A value in common counts as a word. Different values do not: they may be an update.
    shared = len(said & known) + len(event.values & memory.values)
    if shorter <= _FEW_WORDS or shared >= _SHARED_MIN * shorter:
        return None
    return Judgement(Verdict.DISTINCT, FEW_WORDS)


def in_doubt(verdict: Verdict, event: AnalysedText, memory: AnalysedText) -> bool:
    """Return whether negation makes it doubtful which text says more.

    "No dog" says more than "no terrier", but a judge believes the opposite.
    """
    narrower = verdict in {Verdict.REFINES, Verdict.REFINED_BY}
    return narrower and all(_denies(text) for text in (event, memory))


def _denies(text: AnalysedText) -> bool:
    return any(word.negated and word.content for word in text.words)


_PIN = "pin"


def by_guards(findings: Sequence[Finding], rules: Judges) -> Judgement | None:
    """Settle a pair as DISTINCT if a guard objects; None if none does, or a judge is to weigh it.

    A difference between the records (validity, source) always separates two memories. A difference
    between the texts is evidence that the built-in judge weighs against the evidence for one
    memory; if another judge, or none, is first in the chain, it separates them as well. A pin is
    left to `protected`: a judge may still find a contradiction.
    """
    parting = [one for one in besides_pin(findings) if one.guard in OF_RECORDS or not rules.weighs]
    guard = objection(parting)
    if guard is None:
        return None
    return Judgement(Verdict.DISTINCT, guard, findings=tuple(findings))


def besides_pin(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return what guards found in the pair itself."""
    return tuple(one for one in findings if one.guard != _PIN)


def protected(judgement: Judgement) -> Judgement:
    """Settle a pair with a pinned memory as DISTINCT unless a judge found a contradiction."""
    pinned = any(one.guard == _PIN for one in judgement.findings)
    if not pinned or judgement.verdict is Verdict.CONTRADICTS:
        return judgement
    return replace(judgement, verdict=Verdict.DISTINCT, judge=f"guard {_PIN}", opinion=None)


def unread(findings: Sequence[Finding]) -> str | None:
    """Return the first guard that found a difference which the built-in judge cannot read.

    The 321 pairs of the fact cards whose quoted code differs are all of two facts.
    """
    return objection([one for one in findings if one.guard in OF_MARKS])


def objection(findings: Sequence[Finding]) -> str | None:
    """Return the first guard that found a difference, named as a judge; None if none did."""
    return next((f"guard {one.guard}" for one in findings if one.outcome == "differs"), None)


def vetoed(near: Compared) -> bool:
    """Return whether a guard separated a pair without a judge weighing it."""
    return near.judge.startswith("guard ") and near.probabilities is None


def unsettled(judgement: Judgement, band: Band, rules: Rules) -> Act:
    """Return the policy's action for a pair that nobody settled.

    Texts in another language than English are never joined by similarity alone: the guards that
    would object do not understand them.
    """
    act = rules.without_verdict.act(band)
    joins_foreign = act in JOINING and judgement.judge.startswith(FOREIGN)
    return "keep-both" if joins_foreign else act


def contradicts(judgement: Judgement, least: float) -> bool:
    """Return whether a contradiction reaches the probability `least`; without one, it counts."""
    told = None if judgement.opinion is None else judgement.opinion.probabilities
    return told is None or told.get(Verdict.CONTRADICTS, 0.0) >= least


def of_one_memory(probabilities: Mapping[Verdict, float]) -> float:
    """Return the probability that one memory can represent both, to five decimals."""
    return round(sum(probabilities.get(one, 0.0) for one in ONE_MEMORY), 5)


def by_opinion(opinion: Opinion, rules: Judges) -> Verdict:
    """Return the verdict that an opinion supports; UNSURE if no threshold is met.

    First decide whether one memory can represent both; if so, return the likeliest such relation.
    """
    if opinion.probabilities is None:
        return opinion.verdict
    p = opinion.probabilities
    if of_one_memory(p) >= rules.one_memory_min:
        return max(ONE_MEMORY, key=lambda one: p[one])
    for other, least in (
        (Verdict.CONTRADICTS, rules.contradicts_min),
        (Verdict.DISTINCT, rules.distinct_min),
    ):
        if p[other] >= least and p[other] == max(p.values()):
            return other
    return Verdict.UNSURE
