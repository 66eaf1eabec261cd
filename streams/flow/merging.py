"""The text of a merge: by the policy's strategy, accepted only where nothing is lost or invented."""

from dataclasses import dataclass

from schemas.base import ScopeName
from schemas.decisions import Reason
from streams.core.decide import Unworded
from streams.core.language.lexicon import Lexicon
from streams.core.merge import (
    UNWORDED,
    Faults,
    Joined,
    append,
    keep_better,
    newer_wins,
    worded,
)
from streams.core.policy import MergeRule
from streams.ports import NoAnswer, ToWord, Wording

_COMPARED_MAX = 4
"""Texts this many times longer than their merge may be could only say the same over and over; to
compare them takes seconds."""


@dataclass(frozen=True)
class Made:
    """A text with its proof; `degraded` tells who should have worded it and did not."""

    joined: Joined
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unmerged:
    """Why there is no text: both are kept."""

    reason: Reason
    degraded: tuple[str, ...] = ()


class Merging:
    """Makes one text of several."""

    def __init__(self, lexicon: Lexicon, wording: Wording | None) -> None:
        self._lexicon = lexicon
        self._wording = wording

    async def make(self, unworded: Unworded, scope: ScopeName, rule: MergeRule) -> Made | Unmerged:
        """Follow the rule's strategy, then its fallback."""
        if sum(len(part.text) for part in unworded.parts) > _COMPARED_MAX * rule.characters_max:
            return Unmerged(Reason.TOO_LONG_TO_MERGE)
        made = await self._by_strategy(unworded, scope, rule)
        if isinstance(made, Unmerged) and rule.fallback == "append":
            appended = append(unworded.parts)
            if appended is not None:
                made = Made(appended, made.degraded)
        if isinstance(made, Made) and len(made.joined.text) > rule.characters_max:
            return Unmerged(Reason.TOO_LONG_TO_MERGE, made.degraded)
        return made

    async def _by_strategy(
        self, unworded: Unworded, scope: ScopeName, rule: MergeRule
    ) -> Made | Unmerged:
        parts, lexicon = unworded.parts, self._lexicon
        match rule.strategy:
            case "append":
                joined = append(parts)
            case "keep-better":
                joined = keep_better(parts, unworded.better, lexicon)
            case "newer-wins":
                joined = newer_wins(parts, lexicon)
            case "llm":
                return await self.worded(ToWord(scope, parts, rule.characters_max))
        return Unmerged(Reason.CANNOT_BE_JOINED) if joined is None else Made(joined)

    async def worded(self, request: ToWord) -> Made | Unmerged:
        """Ask for a wording; where it loses or invents something, for one repair."""
        tried = await self._attempt(request)
        if isinstance(tried, ToWord):
            tried = await self._attempt(tried)
        if isinstance(tried, ToWord):
            return Unmerged(Reason.CANNOT_BE_JOINED, (f"{UNWORDED}not lossless",))
        if isinstance(tried, NoAnswer):
            return Unmerged(Reason.CANNOT_BE_JOINED, (f"{UNWORDED}{tried.reason}",))
        return Made(tried)

    async def _attempt(self, request: ToWord) -> Joined | ToWord | NoAnswer:
        """Return an accepted wording, or the request for its repair."""
        if self._wording is None:
            return NoAnswer("not configured")
        text = await self._wording.word(request)
        if isinstance(text, NoAnswer):
            return text
        outcome = worded(request.parts, text, self._lexicon)
        if not isinstance(outcome, Faults):
            return outcome
        return ToWord(
            request.scope,
            request.parts,
            request.characters_max,
            attempt=text,
            missing=outcome.missing,
            invented=outcome.invented,
        )
