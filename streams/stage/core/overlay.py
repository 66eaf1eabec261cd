"""Decisions that the store has not applied yet, overlaid on the store's state.

Between deciding and applying, the index lacks the newest memories; the overlay has them. Each event
sees all decisions before it, even those of its own batch, so decisions depend neither on batch size
nor on writer lag.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypeGuard

import numpy as np

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from schemas.decisions import Change, Decision, Erase, NoChange
from schemas.memories import Standing
from streams.model.embedding import NEAR_TIE, Vector
from streams.model.identity import event_key
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.stage.core import survivorship
from streams.stage.core.brake import RecentChanges
from streams.stage.core.ledger import (
    Effect,
    SupersededMemory,
    effects,
    known_by,
    memory_of,
    version_after,
)

_ROWS_MIN = 64
"""The least rows of a matrix that grows, and the least stale ones for which it is made anew."""

_Known: TypeAlias = StoredMemory | SupersededMemory
"""A memory as a decision left it; SupersededMemory if only the store knows its previous state."""


class _Written(NamedTuple):
    """A memory as a decision leaves it."""

    scope: ScopeName
    identity: MemoryId
    after: _Known
    version: int


class _Decided(NamedTuple):
    """The content key of a decision's event, and the versions that the decision produced."""

    content: ContentKey
    versions: Mapping[MemoryId, int]


class _Taken(NamedTuple):
    """What an erasure removes: decisions that memories remember before a version, and records."""

    versions: Mapping[MemoryId, int]
    offsets: frozenset[int]


class _Recorded(NamedTuple):
    """The outcome of a decision, and its event.

    `decided` is empty if the decision changes nothing: no memory remembers it once settled, either.
    With an erasure's own, it has the decisions that the erasure restates.
    """

    written: Sequence[_Written]
    decided: Mapping[DecisionId, _Decided]
    taken: _Taken | None


class _Rows:
    """The vectors of a scope's live memories, one a row of a matrix that grows."""

    def __init__(self, memories: Mapping[MemoryId, _Known]) -> None:
        self._matrix = np.zeros((0, 0), np.float32)
        self._owners: list[MemoryId | None] = []
        self._of: dict[MemoryId, range] = {}
        self._stale = 0
        for identity, after in memories.items():
            self.put(identity, after)

    @property
    def is_sparse(self) -> bool:
        """Whether most rows are of memories that have changed since."""
        return self._stale > max(_ROWS_MIN, len(self._owners) // 2)

    def put(self, identity: MemoryId, after: _Known) -> None:
        """Add the vectors of a memory that has none here."""
        live = _live(after)
        vectors = [] if live is None else list(live.wordings.values())
        if not vectors:
            return
        start, end = len(self._owners), len(self._owners) + len(vectors)
        if end > len(self._matrix):
            grown = np.empty((max(2 * end, _ROWS_MIN), len(vectors[0])), np.float32)
            if start:
                grown[:start] = self._matrix[:start]
            self._matrix = grown
        self._matrix[start:end] = vectors
        self._owners += [identity] * len(vectors)
        self._of[identity] = range(start, end)

    def drop(self, identity: MemoryId) -> None:
        for row in self._of.pop(identity, ()):
            self._owners[row] = None
            self._stale += 1

    def nearest(
        self, vector: Vector, limit: int, floor: float, but: Collection[MemoryId]
    ) -> list[MemoryId]:
        """Return the nearest memories from `floor` up, ties included, except those in `but`."""
        if not self._owners:
            return []
        scores = self._matrix[: len(self._owners)] @ vector
        found: dict[MemoryId, None] = {}
        least = floor - NEAR_TIE
        near = np.flatnonzero(scores >= least)
        nearest_first: list[int] = near[np.argsort(-scores[near])].tolist()
        for row in nearest_first:
            if scores[row] < least:
                break
            owner = self._owners[row]
            if owner is None or owner in but or owner in found:
                continue
            found[owner] = None
            if len(found) == limit:
                least = scores[row] - NEAR_TIE
        return list(found)


class _Layer:
    """Memories, including retired ones, as a run of decisions left them."""

    def __init__(self) -> None:
        self.scopes: dict[ScopeName, dict[MemoryId, _Known]] = {}
        self.contents: dict[ContentKey, tuple[MemoryId, ...]] = {}
        self.graves: dict[ScopeName, set[MemoryId]] = {}
        self.decided: dict[DecisionId, _Decided] = {}
        self.taken: dict[int, _Taken] = {}
        self.versions: dict[MemoryId, int] = {}
        self.rows: dict[ScopeName, _Rows] = {}
        """The vectors of the scopes in which something near was looked for."""

    def put(self, written: _Written) -> None:
        scope, identity, after, version = written
        self.drop(scope, identity)
        self.scopes.setdefault(scope, {})[identity] = after
        self.versions[identity] = version
        if (rows := self.rows.get(scope)) is not None:
            rows.put(identity, after)
        if _is_grave(after):
            self.graves.setdefault(scope, set()).add(identity)
        if (live := _live(after)) is not None:
            for key in live.memory.content_keys:
                self.contents[key] = (*self.contents.get(key, ()), identity)

    def clear(self) -> None:
        for table in (
            self.scopes,
            self.contents,
            self.graves,
            self.decided,
            self.taken,
            self.versions,
            self.rows,
        ):
            table.clear()

    def drop(self, scope: ScopeName, identity: MemoryId) -> None:
        memories = self.scopes.get(scope)
        if memories is None or identity not in memories:
            return
        before = memories.pop(identity)
        del self.versions[identity]
        if (rows := self.rows.get(scope)) is not None:
            rows.drop(identity)
        if not memories:
            del self.scopes[scope]
            self.rows.pop(scope, None)
        if _is_grave(before):
            graves = self.graves[scope]
            graves.discard(identity)
            if not graves:
                del self.graves[scope]
        elif (live := _live(before)) is not None:
            for key in live.memory.content_keys:
                self._forget_content(key, identity)

    def nearest(
        self,
        scope: ScopeName,
        vector: Vector,
        limit: int,
        floor: float,
        but: Collection[MemoryId],
    ) -> list[StoredMemory]:
        """Return the scope's memories whose vectors here are nearest, as `_Rows.nearest` does."""
        memories = self.scopes.get(scope)
        if memories is None:
            return []
        rows = self.rows.get(scope)
        if rows is None or rows.is_sparse:
            rows = self.rows[scope] = _Rows(memories)
        found = (_live(memories[identity]) for identity in rows.nearest(vector, limit, floor, but))
        return [one for one in found if one is not None]

    def _forget_content(self, key: ContentKey, identity: MemoryId) -> None:
        ids = tuple(one for one in self.contents[key] if one != identity)
        if ids:
            self.contents[key] = ids
        else:
            del self.contents[key]


class Overlay:
    """The unapplied decisions of one partition that are in the log.

    `settle` evicts what the store has: the writer's committed offset is the low watermark.
    """

    def __init__(self) -> None:
        self._layer = _Layer()
        self._changed_at: dict[MemoryId, tuple[int, ScopeName]] = {}
        self._decided_at: dict[DecisionId, int] = {}
        self._newest = -1
        self.settled = 0
        """The offset before which the store has everything."""
        self.recent = RecentChanges()
        """The newest changes, as input for the brake."""

    def __len__(self) -> int:
        """Return how many memories the store lacks in their newest state."""
        return len(self._changed_at)

    def in_scope(self, scope: ScopeName) -> int:
        """Return how many of them belong to a scope."""
        return len(self._layer.scopes.get(scope, ()))

    def fork(self) -> "Fork":
        """Return a fork on which a batch records its decisions without changing this overlay."""
        return Fork(self._layer, self.recent.fork())

    def recall(self, decisions: Sequence[Decision]) -> None:
        """Add recent changes to the brake's window, including those that the store has."""
        for decision in decisions:
            if isinstance(decision, Change):
                self.recent.add(decision)

    def join(self, decisions: Sequence[Decision], offsets: Sequence[int]) -> None:
        """Add decisions that the log holds at these offsets."""
        fork = self.fork()
        for decision in decisions:
            fork.record(decision)
        self.adopt(fork, offsets)

    def adopt(self, fork: "Fork", offsets: Sequence[int]) -> None:
        """Adopt the decisions recorded on a fork, which the log now holds at these offsets.

        Skip those before the settled offset: the store has them already.
        """
        self.recent = fork.recent
        self._newest = max(self._newest, *offsets, -1)
        for recorded, offset in zip(fork.recorded, offsets, strict=True):
            if offset < self.settled:
                continue
            for written in recorded.written:
                self._layer.put(written)
                self._changed_at[written.identity] = (offset, written.scope)
            self._layer.decided.update(recorded.decided)
            self._decided_at.update(dict.fromkeys(recorded.decided, offset))
            if recorded.taken is not None:
                self._layer.taken[offset] = recorded.taken

    def settle(self, offset: int) -> None:
        """Evict the changes of decisions before `offset`: the store has them."""
        if offset <= self.settled:
            return
        self.settled = offset
        if self._newest < offset:  # the common case: the store has everything
            self._layer.clear()
            self._changed_at.clear()
            self._decided_at.clear()
            return
        for identity, (changed_at, scope) in list(self._changed_at.items()):
            if changed_at < offset:
                del self._changed_at[identity]
                self._layer.drop(scope, identity)
        for decision, decided_at in list(self._decided_at.items()):
            if decided_at < offset:
                del self._decided_at[decision]
                del self._layer.decided[decision]
        for erased_at in [one for one in self._layer.taken if one < offset]:
            del self._layer.taken[erased_at]


class Fork:
    """An overlay with the decisions of the current batch on top."""

    def __init__(self, base: _Layer, recent: RecentChanges) -> None:
        self._layers = (base, _Layer())
        self.recent = recent
        self.recorded: list[_Recorded] = []

    def record(self, decision: Decision) -> None:
        """Record a decision so that the following events see it."""
        recorded = _recorded(self._layers, decision)
        own = self._layers[1]
        for written in recorded.written:
            own.put(written)
        own.decided.update(recorded.decided)
        if recorded.taken is not None:
            own.taken[len(self.recorded)] = recorded.taken
        self.recorded.append(recorded)
        if isinstance(decision, Change):
            self.recent.add(decision)

    def decided(self, decision: DecisionId, there: KnownEvent | None = None) -> ContentKey | None:
        """Return the content key of a decision's event; None if unknown.

        `there` is what the index or the log knows: they may still have what was erased here.
        """
        base, own = self._layers
        here = own.decided.get(decision) or base.decided.get(decision)
        if here is not None and not self._is_restated(here.versions):
            return here.content
        if there is None or self._is_taken(there):
            return None
        return there.content

    def _is_restated(self, versions: Mapping[MemoryId, int]) -> bool:
        """Return whether erasures have restated all of these memories since these versions."""
        return all(
            any(taken.versions.get(identity, 0) > version for taken in self._taken())
            for identity, version in versions.items()
        )

    def _is_taken(self, there: KnownEvent) -> bool:
        if there.offset is not None:
            return any(there.offset in taken.offsets for taken in self._taken())
        return self._is_restated(dict.fromkeys(there.memories, 0))

    def _taken(self) -> Iterator[_Taken]:
        return (taken for layer in self._layers for taken in layer.taken.values())

    def current(self, scope: ScopeName, stored: StoredMemory) -> StoredMemory | None:
        """Return the newest state of a memory that the index has; None if it is not live."""
        return _live(self.state(scope, stored.memory.id, stored))

    def state(
        self, scope: ScopeName, identity: MemoryId, stored: StoredMemory | None
    ) -> StoredMemory | None:
        """Return the newest state of a memory, live or not; `stored` is the state in the index.

        Return None if neither has it, or if only its retirement is known here and the index lacks
        it.
        """
        after = _top(self._layers, scope, identity)
        if after is None:
            return stored
        if isinstance(after, StoredMemory):
            return after.after(stored)
        return None if stored is None else _retired(stored, after)

    def changed(self, scope: ScopeName) -> Mapping[MemoryId, StoredMemory | None]:
        """Return the scope's memories that were changed here; None for those not live."""
        return {identity: _live(after) for identity, after in _view(self._layers, scope).items()}

    def forgotten(self, scope: ScopeName) -> list[StoredMemory]:
        """Return the memories of a scope that were forgotten here."""
        ids = {identity for layer in self._layers for identity in layer.graves.get(scope, ())}
        found = (_top(self._layers, scope, identity) for identity in ids)
        return [after for after in found if _is_grave(after)]

    def with_content(
        self, scope: ScopeName, key: ContentKey, stored: Sequence[StoredMemory]
    ) -> StoredMemory | None:
        """Return the live memory with this wording; if several have it, the one with the lowest id.

        `stored` are the index's matches, which may be stale.
        """
        base, own = self._layers
        ids = {*base.contents.get(key, ()), *own.contents.get(key, ())}
        known = [_live(_top(self._layers, scope, identity)) for identity in ids]
        # What changed here is in `known` if it still has the words.
        known += [self.current(scope, one) for one in stored if one.memory.id not in ids]
        live = [one for one in known if one is not None and key in one.memory.content_keys]
        return min(live, key=lambda holder: holder.memory.id, default=None)

    def near(
        self,
        scope: ScopeName,
        vector: Vector,
        hits: Sequence[StoredMemory],
        limit: int,
        floor: float = -1.0,
    ) -> list[StoredMemory]:
        """Combine the index's hits with the nearest memories, from `floor` up, that it lacks.

        A memory that was not a hit may lack vectors here that only the index has (the shown text's,
        older variants'); the vectors known here nominate it.
        """
        standing: list[StoredMemory] = []
        for hit in hits:
            changed = _top(self._layers, scope, hit.memory.id)
            if changed is None:
                standing.append(hit)
            elif (after := _live(changed)) is not None:
                standing.append(after.after(hit))
        base, own = self._layers
        known = {hit.memory.id for hit in hits}
        fresh = own.nearest(scope, vector, limit, floor, known)
        known |= own.scopes.get(scope, {}).keys()
        fresh += base.nearest(scope, vector, limit, floor, known)
        return standing + fresh


def _recorded(layers: Sequence[_Layer], decision: Decision) -> _Recorded:
    """Return the outcome of a decision on top of these layers, without effects already there."""
    if isinstance(decision, NoChange):
        return _Recorded((), {}, None)
    scope = decision.event.scope
    written: list[_Written] = []
    made = effects(decision)
    for effect in made:
        identity, version = memory_of(effect), version_after(effect)
        if any(layer.versions.get(identity, 0) >= version for layer in layers):
            continue  # redelivered after later decisions
        after = _after(_top(layers, scope, identity), effect)
        written.append(_Written(scope, identity, after, version))
    versions = {memory_of(one): version_after(one) for one in made if isinstance(one, StoredMemory)}
    decided = {decision.decision_id: _Decided(event_key(decision.event), versions)}
    if not isinstance(decision, Erase):
        return _Recorded(written, decided, None)
    taken = _Taken(versions, frozenset(one.decision for one in decision.erased))
    return _Recorded(written, {**_restated(decision), **decided}, taken)


def _restated(decision: Erase) -> dict[DecisionId, _Decided]:
    """Return the earlier decisions that an erasure restates, by the memories that know them."""
    known: dict[DecisionId, _Decided] = {}
    for one in decision.memories:
        for identity, content in known_by(one):
            before = known.get(identity)
            held = before.versions if before is not None else dict[MemoryId, int]()
            known[identity] = _Decided(content, {**held, one.memory.id: one.memory.version})
    return known


def _after(before: _Known | None, effect: Effect) -> _Known:
    """Return a memory's state after an effect, as far as it is known here."""
    known = before if isinstance(before, StoredMemory) else None
    if isinstance(effect, SupersededMemory):
        return effect if known is None else _retired(known, effect)
    after = effect.after(known)
    return StoredMemory(after.memory.compact(), after.vector, variants=after.variants)


def _retired(before: StoredMemory, effect: SupersededMemory) -> StoredMemory:
    """Return a memory retired by an effect; unchanged if it already is."""
    if before.memory.version >= version_after(effect):
        return before
    return replace(before, memory=survivorship.retired(before.memory, effect.superseded))


def _top(layers: Sequence[_Layer], scope: ScopeName, identity: MemoryId) -> _Known | None:
    """Return the newest state of a memory that was changed here."""
    nothing = dict[MemoryId, _Known]()
    for layer in reversed(layers):
        after = layer.scopes.get(scope, nothing).get(identity)
        if after is not None:
            return after
    return None


def _live(after: _Known | None) -> StoredMemory | None:
    return after if isinstance(after, StoredMemory) and after.memory.live else None


def _is_grave(after: _Known | None) -> TypeGuard[StoredMemory]:
    return isinstance(after, StoredMemory) and after.memory.status is Standing.FORGOTTEN


def _view(layers: Sequence[_Layer], scope: ScopeName) -> Mapping[MemoryId, _Known]:
    found = [layer.scopes[scope] for layer in layers if scope in layer.scopes]
    return {identity: after for memories in found for identity, after in memories.items()}
