"""Memories proposed as one fact → one memory of those that are, with every wording.

Complete linkage: in a group, each memory says the same as every other. A chain, where A matches B
and B matches C, does not join A with C.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from schemas.base import LABEL_MAX, ContentKey, MemoryId, ModelId, ScopeName
from schemas.decisions import Compared, Evidence, Finding, Ignore, Merge, Reason, Replace, Verdict
from schemas.events import MEMBERS_MAX, Consolidate
from schemas.memories import Memory, Target
from streams.model.better import better
from streams.model.embedding import Vector, pack
from streams.model.identity import proposal_id
from streams.model.merge import MergedText
from streams.model.neighbours import Neighbour, StoredMemory, rank
from streams.model.policy import JOINING, Act, Rules
from streams.model.verdict import Judgement, unsettled
from streams.stage.core import survivorship
from streams.stage.core.cannot_link import are_apart
from streams.stage.core.case import Case, EncodedVector, PendingMerge
from streams.stage.core.decide import compared, ignore, is_stronger, part_of, target_of

_ALIKE = frozenset({Verdict.SAME, Verdict.REFINES, Verdict.REFINED_BY, Verdict.OVERLAPS})


LISTED_BYTES = 3
"""A bullet, a blank and a line end. Two sentences in one text take a full stop and a blank."""


@dataclass(frozen=True)
class MergeCandidate:
    """A memory that may be joined with others, its vector, and those of its variants."""

    memory: Memory
    vector: Vector
    variants: Mapping[ContentKey, Vector] = field(default_factory=dict[ContentKey, Vector])

    @classmethod
    def of(cls, stored: StoredMemory) -> "MergeCandidate | None":
        """Return a stored memory as a candidate; None if it lacks a vector or may not be joined."""
        if stored.vector is None or not may_be_joined(stored.memory):
            return None
        return cls(stored.memory, stored.vector, stored.variants)

    @property
    def wordings(self) -> dict[ContentKey, Vector]:
        """The vectors of all its wordings."""
        return {self.memory.content_key: self.vector, **self.variants}


@dataclass(frozen=True)
class RelatedPair:
    """Two memories and their relation; the one last seen later takes the role of the event."""

    newer: Memory
    older: Neighbour
    judgement: Judgement

    @property
    def ids(self) -> frozenset[MemoryId]:
        return frozenset({self.newer.id, self.older.memory.id})


def unchanged(
    proposal: Consolidate, held: Mapping[MemoryId, StoredMemory]
) -> dict[MemoryId, MergeCandidate]:
    """Return the proposal's members that are at the proposed version and may be joined."""
    members: dict[MemoryId, MergeCandidate] = {}
    for target in proposal.members:
        stored = held.get(target.memory_id)
        member = None if stored is None else MergeCandidate.of(stored)
        if member is None:
            continue
        memory = member.memory
        if memory.version == target.version and memory.scope == proposal.scope:
            members[memory.id] = member
    return members


def may_be_joined(memory: Memory) -> bool:
    """Return whether a memory may be joined with others: live, not pinned, not truncated."""
    return memory.live and not (memory.pinned or memory.truncated)


def measured(
    members: Mapping[MemoryId, MergeCandidate], rules: Rules
) -> list[tuple[Memory, Neighbour]]:
    """Return all pairs, each as the memory last seen later and the other as its neighbour."""
    return [paired(newer, older, rules) for older, newer in combinations(by_time(members), 2)]


def by_time(members: Mapping[MemoryId, MergeCandidate]) -> list[MergeCandidate]:
    """Return memories ordered by when they were last seen, earliest first."""
    return sorted(members.values(), key=lambda m: (m.memory.last_seen_at, m.memory.id))


def paired(newer: MergeCandidate, older: MergeCandidate, rules: Rules) -> tuple[Memory, Neighbour]:
    """Measure two memories like an event and its neighbour, but only by their shown texts.

    Variants would cause chaining: a joined memory is near to whatever one of its parts is near.
    """
    title = newer.memory.title if rules.nominate.same_title else None
    candidates = [StoredMemory(older.memory, older.vector)]
    [found] = rank(newer.vector, candidates, bands=rules.bands, floor=-1.0, limit=1, title=title)
    return newer.memory, found


def joinable(related: RelatedPair, rules: Rules) -> bool:
    """Return whether two memories may be joined, by the verdict or the policy's action without one.

    Memories that an undo separated may not. A weaker memory (ephemeral, tentative) may join a
    stronger one only if the stronger one already says all of it.
    """
    newer, older = related.newer, related.older.memory
    if are_apart(newer, older):
        return False
    if is_stronger(newer, older) and not _covers(newer, related, rules):
        return False
    if is_stronger(older, newer) and not _covers(older, related, rules):
        return False
    if related.judgement.verdict is Verdict.UNSURE:
        return unsettled(related.judgement, related.older.band, rules) in JOINING
    return related.judgement.verdict in _ALIKE


def _act(related: RelatedPair, rules: Rules) -> Act:
    """Return the policy's action for two memories without a verdict; of equal ones, that of a tie."""
    act = unsettled(related.judgement, related.older.band, rules)
    if act != "keep-better":
        return act
    tie = better(related.newer, related.older.memory, rules.better).winner == "tie"
    return rules.better.tie if tie else act


def _covers(memory: Memory, related: RelatedPair, rules: Rules) -> bool:
    """Return whether one of two memories says all that the other says, so it can stand for both."""
    verdict = related.judgement.verdict
    if verdict is Verdict.UNSURE:
        return _act(related, rules) in JOINING - {"merge"}
    says_more = Verdict.REFINES if memory.id == related.newer.id else Verdict.REFINED_BY
    return verdict in {Verdict.SAME, says_more}


def cohesive(
    relations: Sequence[RelatedPair],
    rules: Rules,
    *,
    members_max: int = MEMBERS_MAX,
    hopeful: bool = False,
) -> list[list[MemoryId]]:
    """Group memories so that in each group every pair is joinable; the largest group first.

    Agglomerative, by complete linkage: the most similar pair is joined first; two groups are joined
    only if every pair across them is joinable and they have at most `members_max` together. A pair
    missing from the relations is not joinable; with `hopeful` it is, unless an undo separated it.
    Single memories form no group. The result does not depend on the order of relations or members.
    """
    fits = {r.ids: joinable(r, rules) for r in relations}
    memories = {one.id: one for r in relations for one in (r.newer, r.older.memory)}

    def fitting(one: MemoryId, other: MemoryId) -> bool:
        known = fits.get(frozenset({one, other}))
        if known is None:
            return hopeful and not are_apart(memories[one], memories[other])
        return known

    groups: dict[MemoryId, tuple[MemoryId, ...]] = {}
    for related in sorted(relations, key=_nearest_first):
        if not fits[related.ids]:
            continue
        first, second = (groups.get(one, (one,)) for one in sorted(related.ids))
        if first == second or len(first) + len(second) > members_max:
            continue
        if all(fitting(a, b) for a in first for b in second):
            whole = (*first, *second)
            groups.update(dict.fromkeys(whole, whole))
    return _in_order(groups.values())


def linked(relations: Sequence[RelatedPair], rules: Rules) -> list[list[MemoryId]]:
    """Group memories by single linkage, chains included; the largest group first.

    Every cohesive group is a subset of one of these.
    """
    groups: dict[MemoryId, list[MemoryId]] = {}
    for related in relations:
        if joinable(related, rules):
            first, second = (groups.setdefault(one, [one]) for one in sorted(related.ids))
            if first is not second:
                larger, smaller = (first, second) if len(first) > len(second) else (second, first)
                larger += smaller
                groups.update(dict.fromkeys(smaller, larger))
    return _in_order(groups.values())


def _in_order(groups: Iterable[Sequence[MemoryId]]) -> list[list[MemoryId]]:
    """Return the distinct groups, largest first, each sorted by id."""
    distinct = {frozenset(group): sorted(group) for group in groups}
    return sorted(distinct.values(), key=lambda group: (-len(group), group))


def _nearest_first(related: RelatedPair) -> tuple[float, list[MemoryId]]:
    return -related.older.similarity, sorted(related.ids)


def consolidate(
    case: Case[Consolidate],
    members: Mapping[MemoryId, MergeCandidate],
    relations: Sequence[RelatedPair],
    model: ModelId,
) -> Replace | Ignore | PendingMerge:
    """Decide on memories that may be one fact.

    `members` are the unchanged ones; `relations` has every pair of them. If one member says all
    that the others say, it replaces them; otherwise a text is composed from those that add
    something. Memories outside the largest group are left unchanged. `model` computed their vectors.
    """
    return _Consolidating(case, members, relations, model).outcome()


class _Consolidating:
    """Decides one proposal by the rules of its scope."""

    def __init__(
        self,
        case: Case[Consolidate],
        members: Mapping[MemoryId, MergeCandidate],
        relations: Sequence[RelatedPair],
        model: ModelId,
    ) -> None:
        self._case = case
        self._rules = case.rules
        self._model = model
        self._members = dict(sorted(members.items()))
        self._relations = {one.ids: one for one in sorted(relations, key=_nearest_first)}

    def outcome(self) -> Replace | Ignore | PendingMerge:
        if len(self._members) < 2:  # noqa: PLR2004 - one alone is joined with nothing
            return self._apart(Reason.OUT_OF_DATE)
        groups = cohesive(list(self._relations.values()), self._rules)
        if not groups:
            return self._apart(Reason.NOT_ONE_FACT)
        if self._case.braked:
            return self._apart(Reason.BRAKED)
        group = [self._members[identity].memory for identity in groups[0]]
        if whole := [one for one in group if self._says_all(one, group)]:
            return self._stands(self._best(whole), group)
        return self._merged(group, _in_time(self._needed(group))[: self._rules.merge.parts_max])

    def _best(self, memories: Sequence[Memory]) -> Memory:
        """Return the best memory by the policy's quality rule; of ties, the one last seen earliest."""
        best, *others = sorted(memories, key=lambda memory: (memory.last_seen_at, memory.id))
        for other in others:
            if better(other, best, self._rules.better, self._case.now).winner == "event":
                best = other
        return best

    def _says_all(self, memory: Memory, group: Sequence[Memory]) -> bool:
        """Return whether a memory says all that the others in the group say."""
        return all(self._covers(memory, other) for other in group if other.id != memory.id)

    def _needed(self, group: Sequence[Memory]) -> list[Memory]:
        """Return memories that together say everything, those that cover most others first."""
        said = {one.id: sum(self._covers(one, o) for o in group if o.id != one.id) for one in group}
        needed: list[Memory] = []
        for memory in sorted(_in_time(group), key=lambda one: -said[one.id]):
            if not self._is_said_by(needed, memory):
                needed.append(memory)
        return needed

    def _is_said_by(self, others: Sequence[Memory], memory: Memory) -> bool:
        return any(self._covers(other, memory) for other in others)

    def _covers(self, memory: Memory, other: Memory) -> bool:
        related = self._relations[frozenset({memory.id, other.id})]
        return _covers(memory, related, self._rules)

    def _stands(self, survivor: Memory, group: Sequence[Memory]) -> Replace:
        memory = survivor
        others = [one for one in group if one.id != survivor.id]
        for other in others:
            memory = survivorship.united(memory, other, self._case.now)
        memory = memory.model_copy(update={"version": survivor.version + 1, "unchecked": None})
        return Replace(
            **self._case.fields(self._because(Reason.ONE_FACT, group, survivor)),
            memory=memory,
            embedding=pack(self._members[survivor.id].vector, self._model),
            targets=tuple(target_of(one) for one in (survivor, *others)),
        )

    def _merged(self, group: Sequence[Memory], needed: Sequence[Memory]) -> PendingMerge:
        """Merge the needed memories, oldest first.

        Memories of the group that one of those covers are joined without adding to the text.
        """
        targets = [one for one in _in_time(group) if one in needed or self._is_said_by(needed, one)]
        best = self._best(needed)

        def merged(joined: MergedText, whole: EncodedVector, degraded: tuple[str, ...]) -> Merge:
            identity, now = self._case.new_memory_id, self._case.now
            because = self._because(Reason.ONE_FACT, targets, best)
            made = {"merge": joined.composition, "degraded": (*because.degraded, *degraded)}
            memory = survivorship.merged(targets, None, identity, joined.text, now, truncated=False)
            return Merge(
                **self._case.fields(because.model_copy(update=made)),
                memory=memory.model_copy(update={"unchecked": None}),
                embedding=whole.embedding,
                event_embedding=None,
                targets=tuple(target_of(memory) for memory in targets),
            )

        parts = tuple(part_of(memory) for memory in needed)
        return PendingMerge(
            parts,
            better=best.id,
            merged=merged,
            bytes_max=listed_bytes(targets) - LISTED_BYTES,
            fewer=lambda: self._fewer(group, needed),
        )

    def _fewer(
        self, group: Sequence[Memory], needed: Sequence[Memory]
    ) -> Replace | Ignore | PendingMerge:
        """Decide without the longest of the needed memories, which stays as it is."""
        if len(needed) > 2:  # noqa: PLR2004 - two are left, at least
            longest = max(needed, key=lambda one: (len(one.text), one.id))
            return self._merged(group, [one for one in needed if one.id != longest.id])
        for one in needed:
            said = [other for other in group if other.id != one.id and self._covers(one, other)]
            if said:
                return self._stands(one, [one, *said])
        return self._apart(Reason.NOT_ONE_FACT, group)

    def _apart(self, reason: Reason, fitting: Sequence[Memory] = ()) -> Ignore:
        """Leave all as they are; `fitting` may be one memory, but are too long for one text."""
        ignored = ignore(self._case, reason)
        members = list(self._members.values())
        if not members:
            return ignored
        because = self._because(reason, (), members[0].memory, fitting)
        return ignored.model_copy(update={"evidence": because})

    def _because(
        self,
        reason: Reason,
        group: Sequence[Memory],
        survivor: Memory,
        fitting: Sequence[Memory] = (),
    ) -> Evidence:
        """Return evidence: the comparisons with the survivor, and the members not joined."""
        mine = [r for r in self._relations.values() if survivor.id in r.ids]
        silent = (name for r in self._relations.values() for name in r.judgement.degraded)
        joined = {memory.id for memory in group}
        return Evidence(
            reason=reason,
            neighbours=tuple(_beside(survivor, related) for related in mine),
            degraded=tuple(dict.fromkeys(silent)),
            refused=tuple(
                f"{target.memory_id}: {self._why_not(target, fitting)}"[:LABEL_MAX]
                for target in self._case.event.members
                if target.memory_id not in joined
            ),
        )

    def _why_not(self, target: Target, fitting: Sequence[Memory]) -> str:
        if any(one.id == target.memory_id for one in fitting):
            return "too long for one text with another: merge.characters_max"
        known = self._members.get(target.memory_id)
        if known is None:
            return "changed since, pinned, or read in part"
        for other in self._members.values():
            if are_apart(known.memory, other.memory):
                return f"kept apart from {other.memory.id}: somebody undid joining them"
        return "not one fact with the others"


def listed_bytes(memories: Iterable[Memory]) -> int:
    """Return how many bytes memories take as a list, as prompts and files show them."""
    return sum(len(memory.text.encode()) + LISTED_BYTES for memory in memories)


def _in_time(memories: Sequence[Memory]) -> list[Memory]:
    return sorted(memories, key=lambda memory: (memory.created_at, memory.id))


def _beside(survivor: Memory, related: RelatedPair) -> Compared:
    """Return the comparison of another memory with the survivor in the role of the event."""
    seen = compared(related.older, related.judgement)
    if related.newer.id == survivor.id:
        return seen
    other = related.newer
    verdict = _MIRRORED.get(seen.verdict, seen.verdict)
    update = {
        "memory_id": other.id,
        "version": other.version,
        "verdict": verdict,
        "findings": tuple(map(_mirrored, seen.findings)),
        "probabilities": None,
    }
    return seen.model_copy(update=update)


def _mirrored(finding: Finding) -> Finding:
    says = {"event_says": finding.memory_says, "memory_says": finding.event_says}
    return finding.model_copy(update=says)


_MIRRORED = {Verdict.REFINES: Verdict.REFINED_BY, Verdict.REFINED_BY: Verdict.REFINES}


def proposed(scope: ScopeName, author: str, memories: Iterable[Memory]) -> Consolidate:
    """Return the event that proposes to join memories.

    The same author proposing the same versions gives the same event.
    """
    seen = {memory.id: memory for memory in memories}
    members = tuple(target_of(seen[identity]) for identity in sorted(seen))
    return Consolidate(
        event_id=proposal_id(scope, author, members),
        scope=scope,
        author=author,
        occurred_at=max(memory.last_seen_at for memory in seen.values()),
        members=members,
    )
