"""Groups near pairs of a scope that may state one fact, judged as on the write path.

The owner of the scope judges every pair again: the groups only say what to look at.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from schemas.base import MemoryId, ScopeName
from schemas.memories import Memory
from streams.consolidate.core.nominating import near_pairs
from streams.model.neighbours import Neighbour, StoredMemory
from streams.model.policy import Policy, Rules
from streams.stage.core.consolidation import (
    MergeCandidate,
    RelatedPair,
    by_time,
    cohesive,
    linked,
    paired,
)
from streams.stage.core.survivorship import said_again
from streams.stage.flow.judging import CandidatePair, Judging

_TOGETHER = 256
"""Pairs judged per batch; the budget is checked between batches."""

Known: TypeAlias = dict[tuple[MemoryId, int, MemoryId, int], RelatedPair]
"""Judged pairs, by the ids and versions of the newer and the older memory."""
_Pair: TypeAlias = tuple[Memory, Neighbour]


@dataclass
class PassBudget:
    """What may still be spent: `is_over` says whether the time is used up.

    `llm_questions` is how many pairs a language model may still be asked about, if the policy has
    one in its chain of judges; None means no limit.
    """

    is_over: Callable[[], bool] = lambda: False
    llm_questions: int | None = None

    def allowed(self, wanted: int, rules: Rules) -> int:
        """Return how many of the wanted pairs may be judged, and deduct them from the budget."""
        allowed = 0 if self.is_over() else wanted
        if self.llm_questions is not None and "llm" in rules.judges.chain:
            allowed = min(allowed, self.llm_questions)
            self.llm_questions -= allowed
        return allowed


@dataclass(frozen=True)
class CandidateGroups:
    """Groups of a scope's memories that may each be one fact, the most important first.

    `judged`: how many pairs were judged. `complete`: the budget left out no pair. `degraded`: some
    judge did not answer and might on a retry.
    """

    groups: tuple[tuple[Memory, ...], ...] = ()
    judged: int = 0
    complete: bool = True
    degraded: bool = False


@dataclass(frozen=True)
class CandidateGeneration:
    """Looks for memories that `policy` may judge to be one fact.

    It considers each memory's `neighbours_max` nearest; a group has `members_max` at most.
    """

    judging: Judging
    policy: Policy
    neighbours_max: int = 5
    members_max: int = 16

    async def nominate(
        self, scope: ScopeName, memories: Sequence[StoredMemory], budget: PassBudget, known: Known
    ) -> CandidateGroups:
        """Return the groups of one scope's memories.

        Groups share no memory; every pair in a group was judged to be one fact. `known` holds the
        pairs judged before; those judged now are added to it.
        """
        rules = self.policy.rules(scope)
        if not rules.enabled:
            return CandidateGroups()
        members = {
            one.memory.id: member
            for one in memories
            if (member := MergeCandidate.of(one)) is not None
        }
        looking = _Looking(self, members, rules, budget, known)
        await looking.judge(near_pairs(members, rules, neighbours_max=self.neighbours_max))
        groups: list[list[MemoryId]] = []
        for component in linked(list(looking.known.values()), rules):
            groups += await looking.within(component)
        found = [tuple(members[identity].memory for identity in group) for group in groups]
        return CandidateGroups(
            groups=tuple(sorted(found, key=_most_important_first)),
            judged=looking.judged,
            complete=not looking.cut_short,
            degraded=any(one.judgement.degraded for one in looking.known.values()),
        )


class _Looking:
    """The state of one search: what is known so far of the pairs of one scope."""

    def __init__(
        self,
        nominating: CandidateGeneration,
        members: Mapping[MemoryId, MergeCandidate],
        rules: Rules,
        budget: PassBudget,
        known: Known,
    ) -> None:
        self._nominating = nominating
        self._members = members
        self._rules = rules
        self._budget = budget
        self._before = known
        self._of: dict[MemoryId, list[RelatedPair]] = {}
        self.known: dict[frozenset[MemoryId], RelatedPair] = {}
        self.judged = 0
        self.cut_short = False

    async def within(self, component: Sequence[MemoryId]) -> list[list[MemoryId]]:
        """Return the cohesive groups of a component, which chains of joinable pairs connect.

        A component may have many pairs; only those that would complete a group are judged.
        """
        inside = set(component)
        while True:
            relations = [
                related
                for identity in component
                for related in self._of.get(identity, ())
                if related.newer.id == identity and related.ids <= inside
            ]
            groups = self._cohesive(relations, hopeful=True)
            missing = [pair for group in groups for pair in self._unjudged(group)]
            if not missing:
                return groups
            if not await self.judge(missing):
                return self._cohesive(relations, hopeful=False)

    async def judge(self, pairs: Sequence[_Pair]) -> bool:
        """Judge pairs as far as the budget allows; return whether all were judged."""
        new: list[_Pair] = []
        for pair in pairs:
            before = self._before.get(_versions(pair))
            if before is None:
                new.append(pair)
            else:
                self._note(before)
        for start in range(0, len(new), _TOGETHER):
            wanted = new[start : start + _TOGETHER]
            some = wanted[: self._budget.allowed(len(wanted), self._rules)]
            candidates = [CandidatePair(said_again(one), other, self._rules) for one, other in some]
            judged = await self._nominating.judging.judge(candidates)
            for pair, judgement in zip(some, judged, strict=True):
                self._before[_versions(pair)] = related = RelatedPair(*pair, judgement)
                self._note(related)
            self.judged += len(some)
            if len(some) < len(wanted):
                self.cut_short = True
                return False
            await asyncio.sleep(0)  # let other tasks run
        return True

    def _note(self, related: RelatedPair) -> None:
        self.known[related.ids] = related
        self._of.setdefault(related.newer.id, []).append(related)

    def _cohesive(self, relations: Sequence[RelatedPair], *, hopeful: bool) -> list[list[MemoryId]]:
        members_max = self._nominating.members_max
        return cohesive(relations, self._rules, members_max=members_max, hopeful=hopeful)

    def _unjudged(self, group: Sequence[MemoryId]) -> list[_Pair]:
        in_time = by_time({identity: self._members[identity] for identity in group})
        return [
            paired(newer, older, self._rules)
            for older, newer in combinations(in_time, 2)
            if frozenset({older.memory.id, newer.memory.id}) not in self.known
        ]


def _versions(pair: _Pair) -> tuple[MemoryId, int, MemoryId, int]:
    newer, older = pair[0], pair[1].memory
    return newer.id, newer.version, older.id, older.version


def _most_important_first(group: Sequence[Memory]) -> tuple[float, list[MemoryId]]:
    """Order groups by mean importance, so that the budget leaves out what matters least."""
    mean = sum(memory.importance or 0.0 for memory in group) / len(group)
    return -mean, [memory.id for memory in group]
