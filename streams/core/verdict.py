"""What an event and a neighbour are to each other: what sentences, guards and judges make of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.base import ScopeName
from schemas.decisions import Band, Compared, Finding, Verdict
from schemas.events import Remember
from schemas.memories import Memory
from streams.core.guards.registry import OF_RECORDS
from streams.core.judge.weighing import ONE_MEMORY
from streams.core.language.reading import Reading
from streams.core.merge import contains
from streams.core.neighbours import Neighbour
from streams.core.policy import Judges


@dataclass(frozen=True)
class Pair:
    """An event and a live memory of its scope, as a judge is asked about them.

    `similarity` is the cosine of their embeddings, `findings` what guards have found. `deep` allows
    what takes milliseconds.
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

    `probabilities` are calibrated and add up to 1, over SAME, REFINES, REFINED_BY, OVERLAPS,
    CONTRADICTS and DISTINCT; None where the judge only names the verdict.
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


_SHARED_MIN = 0.34
"""Of the development pairs that become one memory 6 % share fewer words at a cosine below .85; of the
near pairs of a stream three of four are such, and of what they make one memory most is wrong."""


def by_words(event: Reading, memory: Reading, similarity: float, rules: Judges) -> Judgement | None:
    """Settle what is not very similar and shares hardly a word, names apart; None elsewhere.

    The built-in judge would hardly ever be sure of it, and asking costs more than finding it.
    """
    if similarity >= rules.words_below or not rules.weighs:
        return None
    said, known = event.keywords, memory.keywords
    shorter = min(len(said), len(known))
    if not shorter or len(said & known) >= _SHARED_MIN * shorter:
        return None
    return Judgement(Verdict.DISTINCT, "words")


def in_doubt(verdict: Verdict, event: Reading, memory: Reading) -> bool:
    """Tell whether which of two says more is in doubt: under a negation the narrower word says less.

    "No dog" says more than "no terrier", and a judge takes it for less.
    """
    narrower = verdict in {Verdict.REFINES, Verdict.REFINED_BY}
    return narrower and all(_denies(text) for text in (event, memory))


def _denies(text: Reading) -> bool:
    return any(word.negated and word.content for word in text.words)


def by_guards(findings: Sequence[Finding], rules: Judges) -> Judgement | None:
    """Settle a pair that a guard objects to; None where none does, or a judge is to weigh it.

    What is noted beside the texts (a pin, a validity, who said it) always parts two memories. What
    is found in the texts is evidence, which the built-in judge weighs with all that speaks for one
    memory; where another is asked first, or nobody, it parts them, too.
    """
    parting = [one for one in findings if one.guard in OF_RECORDS or not rules.weighs]
    guard = objection(parting)
    if guard is None:
        return None
    return Judgement(Verdict.DISTINCT, guard, findings=tuple(findings))


def objection(findings: Sequence[Finding]) -> str | None:
    """Return the first guard that has found a difference, as a judgement names who gave it."""
    return next((f"guard {one.guard}" for one in findings if one.outcome == "differs"), None)


def vetoed(near: Compared) -> bool:
    """Tell whether a guard has parted a pair and no judge has weighed it."""
    return near.judge.startswith("guard ") and near.probabilities is None


def contradicts(judgement: Judgement, least: float) -> bool:
    """Tell whether a contradiction is that sure; who tells no probability is believed."""
    told = None if judgement.opinion is None else judgement.opinion.probabilities
    return told is None or told.get(Verdict.CONTRADICTS, 0.0) >= least


def of_one_memory(probabilities: Mapping[Verdict, float]) -> float:
    """Return the probability that one memory stands for both, to five decimals."""
    return round(sum(probabilities.get(one, 0.0) for one in ONE_MEMORY), 5)


def by_opinion(opinion: Opinion, rules: Judges) -> Verdict:
    """Return the verdict that an opinion is good for: UNSURE below the least probability for it.

    Whether one memory stands for both is asked first; then, which relation of such two is likeliest.
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
