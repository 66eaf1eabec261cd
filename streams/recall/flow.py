"""Searches a scope for reading: memories that state one fact become one entry. Writes nothing."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Generic, Literal, TypeAlias, TypeVar

import numpy as np

from schemas.base import MemoryId, ScopeName
from schemas.memories import Memory
from streams.model.embedding import Vector, best_of_each
from streams.model.merge import UNWORDED
from streams.model.policy import Act, JudgeName, MergeRule, Policy, Rules, WithoutVerdict
from streams.model.ports.index import Index, Query
from streams.model.ports.models import Embedder, NoAnswer, WordingRequest
from streams.model.verdict import Judgement
from streams.model.wordings import other_than_shown, texts_of
from streams.recall.core.lexical import bm25, hybrid
from streams.recall.core.loading import (
    Candidate,
    EntryText,
    FactEntry,
    entries,
    near,
    parts_of,
    tell,
)
from streams.stage.core.consolidation import RelatedPair
from streams.stage.core.survivorship import said_again
from streams.stage.flow.judging import CandidatePair, Judging
from streams.stage.flow.merging import Merging
from streams.store.core.conflicts import newer_first
from streams.store.flow.conflicts import conflicting

OVER_FETCH = 3
"""The first fetch is this many times the wanted number: enough even if entries have three memories
each. The factor is the source document's."""

Verify: TypeAlias = Literal["built-in", "llm", "none"]
_CHAINS: Mapping[Verify, tuple[JudgeName, ...]] = {
    "built-in": ("built-in",),
    "llm": ("llm", "built-in"),  # the built-in judge answers if the model is unavailable
    "none": (),
}

_Versions: TypeAlias = tuple[tuple[MemoryId, int], ...]
"""Memories with their versions: a version of a memory has one content."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Bounds:
    """The limits of one search, whoever asks.

    It fetches at most `candidates_max` memories and judges at most `pairs_max` of their pairs, the
    nearest ones not judged before; unjudged pairs stay apart. `kept_max` verdicts, and as many
    texts of a model, are cached for later searches.
    """

    candidates_max: int
    pairs_max: int
    kept_max: int


@dataclass(frozen=True)
class CombiningOptions:
    """How search results are combined.

    `verify` judges memories at least `similarity_min` (cosine) alike, and the policy trusts it as when
    memories are stored. With `deduplicate` false every memory is its own entry.
    """

    deduplicate: bool
    similarity_min: float
    verify: Verify


@dataclass(frozen=True)
class ScopeSearch:
    """A search in one scope for at most `limit` entries, `now`.

    `lexical_weight` is the weight of the query's own words, from 0 (meaning alone) to 1.
    """

    scope: ScopeName
    query: str
    limit: int
    how: CombiningOptions
    now: datetime
    lexical_weight: float = 0.0


@dataclass(frozen=True)
class LoadedEntries:
    """The entries, best first, and how they were made.

    Of entries in conflict, the newer comes first. `conflicts` has the conflicts of every memory
    considered. `found` counts the memories considered. `judged` counts the pairs judged for it, `unjudged` those
    that were near but not judged. `degraded` names the judges and writers that did not answer.
    """

    entries: Sequence[FactEntry]
    found: int
    judged: int
    unjudged: int
    degraded: tuple[str, ...]
    conflicts: Mapping[MemoryId, Sequence[Memory]] = field(
        default_factory=dict[MemoryId, Sequence[Memory]]
    )

    @property
    def beyond(self) -> int:
        """How many of the memories considered are in no entry: those beyond the limit."""
        return self.found - sum(len(entry.members) for entry in self.entries)


class Loader:
    """Searches, and shows as one entry what guards and judges take for one fact.

    For one event loop; searches may run concurrently.
    """

    def __init__(self, judging: Judging, policy: Policy, bounds: Bounds) -> None:
        self._judging = judging
        self._policy = policy
        self._bounds = bounds
        self._merging = Merging(judging.readings, judging.wording)
        self._judgements = _Kept[tuple[_Versions, Verify], Judgement](bounds.kept_max)
        self._wordings = _Kept[_Versions, EntryText](bounds.kept_max)

    async def load(self, index: Index, embedder: Embedder, wanted: ScopeSearch) -> LoadedEntries:
        """Return the entries nearest to the query; fetch more if repeats leave too few."""
        [query] = await embedder.embed([wanted.query])
        # One more than is shown tells whether a larger limit would show more.
        fetch = wanted.limit * OVER_FETCH if wanted.how.deduplicate else wanted.limit + 1
        pairs_left = self._bounds.pairs_max
        while True:
            fetch = min(fetch, self._bounds.candidates_max)
            found = await self._search(index, wanted, query.vector, fetch)
            made = await self._put_together(found, wanted.scope, wanted.how, pairs_left)
            pairs_left -= made.judged
            all_seen = len(found) < fetch or fetch == self._bounds.candidates_max
            if all_seen or len(made.entries) >= wanted.limit:
                known = await conflicting(index, [one.memory.id for one in found])
                ordered = newer_first(made.entries, _memories, known, wanted.now)
                made = replace(made, entries=ordered, conflicts=known)
                return await self._shown(made, wanted.scope, wanted.how, wanted.limit)
            fetch *= 2

    async def group(
        self, found: Sequence[Candidate], scope: ScopeName, how: CombiningOptions
    ) -> LoadedEntries:
        """Combine the memories of one scope that state one fact, in the order given."""
        made = await self._put_together(found, scope, how, self._bounds.pairs_max)
        return await self._shown(made, scope, how, len(found))

    async def _search(
        self, index: Index, wanted: ScopeSearch, query: Vector, fetch: int
    ) -> list[Candidate]:
        """Return the nearest memories of the scope, the highest score first."""
        [stored] = await index.search([Query(wanted.scope, query, fetch, floor=-1.0)])
        found = [
            Candidate(
                one.memory, one.vector, near[0], near[0], other_than_shown(one.memory, near[1])
            )
            for one in stored
            if one.vector is not None and (near := one.nearest(query))
        ]
        if wanted.lexical_weight:
            found = self._by_words_too(found, wanted)
        return sorted(found, key=lambda one: (-one.score, one.memory.id))

    def _by_words_too(self, found: Sequence[Candidate], wanted: ScopeSearch) -> list[Candidate]:
        read, weight = self._judging.readings.of, wanted.lexical_weight
        texts = [texts_of(one.memory) for one in found]
        if not texts:
            return []
        matches = bm25(read(wanted.query), [read(text) for own in texts for text in own])
        best = best_of_each(np.asarray(matches), [len(own) for own in texts]).tolist()
        return [
            replace(one, score=hybrid(one.similarity, match, weight=weight))
            for one, match in zip(found, best, strict=True)
        ]

    async def _put_together(
        self, found: Sequence[Candidate], scope: ScopeName, how: CombiningOptions, pairs_max: int
    ) -> LoadedEntries:
        """Judge the nearest pairs that have no judgement yet, and make the entries."""
        rules = _rules(self._policy.rules(scope), how)
        pairs = near(found, similarity_min=how.similarity_min) if how.deduplicate else []
        keys: list[tuple[_Versions, Verify]] = [
            (_versions([newer, older.memory]), how.verify) for newer, older in pairs
        ]
        known = [self._judgements.get(key) for key in keys]
        still_open = [at for at, judgement in enumerate(known) if judgement is None]
        asked = still_open[:pairs_max]
        answers = await self._judging.judge(
            [CandidatePair(said_again(pairs[at][0]), pairs[at][1], rules) for at in asked]
        )
        for at, answer in zip(asked, answers, strict=True):
            known[at] = answer
            if not answer.degraded:
                self._judgements.keep(keys[at], answer)
        relations = [
            RelatedPair(newer, older, judgement)
            for (newer, older), judgement in zip(pairs, known, strict=True)
            if judgement is not None
        ]
        told = partial(
            tell, readings=self._judging.readings, characters_max=rules.merge.characters_max
        )
        return LoadedEntries(
            entries=entries(found, relations, rules, told),
            found=len(found),
            judged=len(asked),
            unjudged=len(still_open) - len(asked),
            degraded=_each_once(silent for answer in answers for silent in answer.degraded),
        )

    async def _shown(
        self, made: LoadedEntries, scope: ScopeName, how: CombiningOptions, limit: int
    ) -> LoadedEntries:
        """Return the best entries, worded by a model, concurrently, if `how` asks for one."""
        shown, degraded = made.entries[:limit], made.degraded
        if how.verify == "llm":
            rule = self._policy.rules(scope).merge
            worded = await asyncio.gather(*(self._worded(entry, scope, rule) for entry in shown))
            shown = [entry for entry, _ in worded]
            degraded = _each_once((*degraded, *(silent for _, silent in worded if silent)))
        return replace(made, entries=shown, degraded=degraded)

    async def _worded(
        self, entry: FactEntry, scope: ScopeName, rule: MergeRule
    ) -> tuple[FactEntry, str | None]:
        """Let a model word what no member says alone, and say why it did not; checked for faults."""
        if entry.told.way in {"alone", "says-all"}:
            return entry, None
        memories = _memories(entry)
        key = _versions(memories)
        told = self._wordings.get(key)
        if told is None:
            request = WordingRequest(scope, parts_of(memories), rule.characters_max)
            made = await self._merging.worded(request)
            if isinstance(made, NoAnswer):
                return entry, f"{UNWORDED}{made.reason}"
            told = EntryText(made.text, "worded")
            self._wordings.keep(key, told)
        return replace(entry, told=told), None


class _Kept(Generic[_Key, _Value]):
    """An LRU cache of at most `entries_max` values."""

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def get(self, key: _Key) -> _Value | None:
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def keep(self, key: _Key, value: _Value) -> None:
        self._values[key] = value
        if len(self._values) > self._entries_max:
            self._values.popitem(last=False)


def _rules(rules: Rules, how: CombiningOptions) -> Rules:
    """Return a scope's rules as they apply to search results.

    Guards always apply. Unsettled pairs stay apart, unless no judge was to be asked.
    """
    judges = rules.judges.model_copy(update={"chain": _CHAINS[how.verify]})
    unsettled: Act = "merge" if how.verify == "none" else "keep-both"
    without = WithoutVerdict(match=unsettled, review=unsettled)
    update = {"judges": judges, "guards": True, "without_verdict": without}
    return rules.model_copy(update=update)


def _memories(entry: FactEntry) -> list[Memory]:
    return [one.memory for one in entry.members]


def _versions(memories: Iterable[Memory]) -> _Versions:
    return tuple(sorted((memory.id, memory.version) for memory in memories))


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
