"""Pairs of an event and its neighbours become verdicts: sentences, guards, then the judges in turn.

What guards find in the texts goes to the judge, which weighs it. Where nobody is sure, a guard's
objection parts the two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from schemas.base import MemoryId
from schemas.decisions import Band, Finding, Verdict
from schemas.events import Remember
from streams.model.neighbours import Neighbour
from streams.model.policy import JudgeName, Rules
from streams.model.ports.models import NOT_CONFIGURED, NoAnswer, Verifier, Wording
from streams.model.verdict import (
    FOREIGN,
    Judgement,
    Opinion,
    Pair,
    besides_pin,
    by_guards,
    by_opinion,
    by_sentences,
    by_words,
    in_doubt,
    objection,
    protected,
    unread,
)
from streams.model.wordings import other_than_shown
from streams.text.guards.registry import examine
from streams.text.guards.statement import statement_of
from streams.text.judge.weighing import ONE_MEMORY
from streams.text.reading import TextAnalyzer

_KEPT = 10_000
"""Judgements that are kept at most: some 10 MB of them."""
_Key: TypeAlias = tuple[str, MemoryId, int, float, Band, int]
_NAMES: tuple[JudgeName, ...] = ("built-in", "llm")


@dataclass(frozen=True)
class CandidatePair:
    """An event and one of its neighbours, and what holds in their scope."""

    event: Remember
    neighbour: Neighbour
    rules: Rules


@dataclass(frozen=True)
class _Asked:
    """What a chain of judges came to: an opinion, or none; and who did not answer."""

    opinion: Opinion | None = None
    degraded: tuple[str, ...] = ()


class Judging:
    """Gives each neighbour of an event its verdict."""

    def __init__(
        self,
        readings: TextAnalyzer,
        verifiers: Mapping[JudgeName, Verifier],
        wording: Wording | None = None,
    ) -> None:
        """Know the judges that this process has; a chain that names another is degraded.

        `wording` is who words merged texts, where somebody does.
        """
        self.readings = readings
        self.wording = wording
        self._verifiers = verifiers
        self._kept: dict[_Key, Judgement] | None = None

    def keep_judgements(self) -> None:
        """Keep the newest judgements from now on: where somebody proposes what he decides on."""
        self._kept = {}

    async def judge(self, pairs: Sequence[CandidatePair]) -> list[Judgement]:
        """Return one judgement per pair, in order; the judges are asked about all at once.

        A judgement depends on its own pair alone.
        """
        if self._kept is None:
            return await self._judged(pairs)
        asked = {_key(one): one for one in pairs}
        found = {key: self._kept[key] for key in asked if key in self._kept}
        new = [one for key, one in asked.items() if key not in found]
        made = dict(zip(map(_key, new), await self._judged(new), strict=True))
        self._kept.update((key, one) for key, one in made.items() if not one.degraded)
        for key in list(islice(self._kept, max(0, len(self._kept) - _KEPT))):
            del self._kept[key]
        found |= made
        return [found[_key(one)] for one in pairs]

    async def _judged(self, pairs: Sequence[CandidatePair]) -> list[Judgement]:
        """Judge what is near: a variant first, and where the event does not repeat that, the shown text.

        What repeats any wording of a memory is known. What says more has to be one fact with what the
        memory shows, or one variant after the other would lead away from it.
        """
        worded = {at: near for at, one in enumerate(pairs) if (near := _of_variant(one))}
        told = await self._judged_as_told(list(worded.values()))
        repeats = {
            at: replace(one, verdict=Verdict.REFINED_BY)
            for at, one in zip(worded, told, strict=True)
            if one.verdict in {Verdict.SAME, Verdict.REFINED_BY}
        }
        left = [at for at in range(len(pairs)) if at not in repeats]
        shown = await self._judged_as_told([_of_shown(pairs[at]) for at in left])
        found = repeats | dict(zip(left, shown, strict=True))
        return [found[at] for at in range(len(pairs))]

    async def _judged_as_told(self, pairs: Sequence[CandidatePair]) -> list[Judgement]:
        """Judge the texts that the pairs name."""
        judgements = [self._unasked(pair) for pair in pairs]
        still = [at for at, one in enumerate(judgements) if one.verdict is Verdict.UNSURE]
        findings = [besides_pin(judgements[at].findings) for at in still]
        asked = await self._ask([pairs[at] for at in still], findings)
        for at, answer in zip(still, asked, strict=True):
            judgements[at] = protected(self._settled(judgements[at], answer, pairs[at]))
        return judgements

    def _unasked(self, pair: CandidatePair) -> Judgement:
        """Return what sentences and guards make of a pair."""
        event, memory = pair.event, pair.neighbour.memory
        told = by_sentences(event, pair.neighbour)
        if told is not None:
            return told
        texts = self.readings.of(event.text), self.readings.of(memory.text)
        judges = pair.rules.judges
        apart = by_words(*texts, pair.neighbour.similarity, judges)
        if apart and not ("llm" in judges.chain and self._foreign(pair)):
            return apart
        findings = ()
        if pair.rules.guards:
            said, known = statement_of(event, texts[0]), statement_of(memory, texts[1])
            findings = examine(said, known, self.readings.lexicon)
        if apart := by_guards(findings, judges):
            return apart
        language = self._foreign(pair) if pair.rules.knows_english else None
        judge = FOREIGN + language if language else "guards" if findings else "bands"
        return Judgement(Verdict.UNSURE, judge, None, findings)

    def _foreign(self, pair: CandidatePair) -> str | None:
        """Return the language of a pair of which a text is surely not in English."""
        texts = (pair.event.text, pair.neighbour.memory.text)
        told = (self.readings.of(text).foreign for text in texts)
        return next((language for language in told if language), None)

    def _settled(self, judgement: Judgement, asked: _Asked, pair: CandidatePair) -> Judgement:
        """Take a judge's opinion over.

        Who only names a verdict has weighed nothing: it is not believed that two are one where a
        guard has something to say. Where nobody is sure, or the difference is one that the judge
        cannot read, a guard's objection counts.
        """
        opinion, findings = asked.opinion, judgement.findings
        verdict = self._believed(opinion, pair)
        weighed = opinion is not None and opinion.probabilities is not None
        guard = objection(findings)
        doubted = ONE_MEMORY if guard else (Verdict.SAME, Verdict.REFINED_BY)
        if findings and not weighed and verdict in doubted:
            verdict = Verdict.UNSURE
        judge = judgement.judge if opinion is None else opinion.judge
        if verdict in ONE_MEMORY and (guard_of_marks := unread(findings)):
            verdict, judge = Verdict.DISTINCT, guard_of_marks
        if verdict is Verdict.UNSURE and guard is not None:
            verdict, judge = Verdict.DISTINCT, guard
        return replace(
            judgement, verdict=verdict, judge=judge, opinion=opinion, degraded=asked.degraded
        )

    def _believed(self, opinion: Opinion | None, pair: CandidatePair) -> Verdict:
        """Return what an opinion is good for, under the rules that hold."""
        if opinion is None:
            return Verdict.UNSURE
        verdict = by_opinion(opinion, pair.rules.judges)
        texts = (pair.event.text, pair.neighbour.memory.text)
        doubt = in_doubt(verdict, *(self.readings.of(text) for text in texts))
        return Verdict.UNSURE if doubt and opinion.probabilities is not None else verdict

    async def _ask(
        self, pairs: Sequence[CandidatePair], findings: Sequence[tuple[Finding, ...]]
    ) -> list[_Asked]:
        """Ask one judge after the other, each about what is still open and for it to settle.

        The built-in judge is not asked about other languages than English.
        """
        asked = [_Asked() for _ in pairs]
        for turn in range(max((len(one.rules.judges.chain) for one in pairs), default=0)):
            for name in _NAMES:
                open_at = [
                    at
                    for at, pair in enumerate(pairs)
                    if asked[at].opinion is None
                    and pair.rules.judges.chain[turn : turn + 1] == (name,)
                    and not (name == "built-in" and self._foreign(pair))
                ]
                answers = await self._answers(
                    name, [_pair(pairs[at], findings[at]) for at in open_at]
                )
                for at, answer in zip(open_at, answers, strict=True):
                    asked[at] = _with_answer(asked[at], name, answer)
        return asked

    async def _answers(
        self, name: JudgeName, pairs: Sequence[Pair]
    ) -> Sequence[Opinion | NoAnswer]:
        verifier = self._verifiers.get(name)
        if verifier is None or not pairs:
            return [NOT_CONFIGURED] * len(pairs)
        return await verifier.verify(pairs)


def _key(pair: CandidatePair) -> _Key:
    """Return what a judgement depends on; the rules stay the same object as long as they hold."""
    event, near = pair.event, pair.neighbour
    seen = (near.memory.id, near.memory.version, near.similarity, near.band)
    return (event.model_dump_json(), *seen, id(pair.rules))


def _of_variant(pair: CandidatePair) -> CandidatePair | None:
    """Return the pair with the variant that is near; None where that is the shown text."""
    near = pair.neighbour
    text = other_than_shown(near.memory, near.wording)
    if text is None:
        return None
    memory = near.memory.model_copy(update={"text": text})
    return replace(pair, neighbour=replace(near, memory=memory))


def _of_shown(pair: CandidatePair) -> CandidatePair:
    near = pair.neighbour
    if near.shown_similarity is None:
        return pair
    return replace(pair, neighbour=replace(near, similarity=near.shown_similarity))


def _pair(pair: CandidatePair, findings: tuple[Finding, ...]) -> Pair:
    near, deep = pair.neighbour, pair.rules.judges.deep
    return Pair(pair.event, near.memory, near.similarity, findings, deep)


def _with_answer(asked: _Asked, name: JudgeName, answer: Opinion | NoAnswer) -> _Asked:
    if isinstance(answer, NoAnswer):
        return replace(asked, degraded=(*asked.degraded, f"{name}: {answer.reason}"))
    return replace(asked, opinion=answer)
