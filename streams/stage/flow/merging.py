"""Makes the text that a merge shows: a checked wording by a model, or the policy's fallback."""

from dataclasses import dataclass, replace

from schemas.base import ScopeName
from streams.model.merge import (
    UNWORDED,
    MergedText,
    append,
    keep_better,
    newer_wins,
    worded,
)
from streams.model.policy import MergeRule, Plain
from streams.model.ports.models import NOT_CONFIGURED, NoAnswer, Wording, WordingRequest
from streams.stage.core.case import PendingMerge
from streams.text.reading import TextAnalyzer

_COMPARED_MAX = 4
"""Texts this many times the merge limit would not fit, and take seconds to compare."""


@dataclass(frozen=True)
class MergeResult:
    """A text, and how it was made; `degraded` names the model if it should have worded it.

    `fits`: it says all of the parts. Else the better part stands in, for they are too long together.
    """

    joined: MergedText
    degraded: tuple[str, ...] = ()
    fits: bool = True


class Merging:
    """Merges several texts into one."""

    def __init__(self, readings: TextAnalyzer, wording: Wording | None) -> None:
        self._readings = readings
        self._wording = wording

    async def make(self, unworded: PendingMerge, scope: ScopeName, rule: MergeRule) -> MergeResult:
        """Apply the rule's strategy, then its fallback; if too long, keep the better part."""
        if sum(len(part.text) for part in unworded.parts) > _COMPARED_MAX * rule.characters_max:
            return MergeResult(self._plainly("keep-better", unworded), fits=False)
        made = await self._by_strategy(unworded, scope, rule)
        if len(made.joined.text) > rule.characters_max or _is_too_large(made.joined, unworded):
            return MergeResult(self._plainly("keep-better", unworded), made.degraded, fits=False)
        return made

    async def _by_strategy(
        self, unworded: PendingMerge, scope: ScopeName, rule: MergeRule
    ) -> MergeResult:
        if rule.strategy != "llm":
            return MergeResult(self._plainly(rule.strategy, unworded))
        text = await self.worded(WordingRequest(scope, unworded.parts, rule.characters_max))
        if isinstance(text, MergedText) and _is_too_large(text, unworded):
            text = NoAnswer("longer than the sources")
        if isinstance(text, NoAnswer):
            fallback = "keep-better" if unworded.complete else rule.fallback
            return MergeResult(self._plainly(fallback, unworded), (f"{UNWORDED}{text.reason}",))
        return MergeResult(text)

    def _plainly(self, strategy: Plain, unworded: PendingMerge) -> MergedText:
        match strategy:
            case "append":
                return append(unworded.parts, self._readings)
            case "keep-better":
                return keep_better(unworded.parts, unworded.better)
            case "newer-wins":
                return newer_wins(unworded.parts)

    async def worded(self, request: WordingRequest) -> MergedText | NoAnswer:
        """Ask for a wording, and for one repair if it leaves out or adds something."""
        if self._wording is None:
            return NOT_CONFIGURED
        for _ in ("wording", "repair"):
            text = await self._wording.word(request)
            if isinstance(text, NoAnswer):
                return text
            made = worded(request.parts, text, self._readings)
            if isinstance(made, MergedText):
                return made
            request = replace(request, attempt=text, missing=made.missing, invented=made.invented)
        return NoAnswer("not what the sources say")


def _is_too_large(joined: MergedText, unworded: PendingMerge) -> bool:
    return unworded.bytes_max is not None and len(joined.text.encode()) > unworded.bytes_max
