"""Decisions that the store does not hold yet, seen together with it.

Between deciding and applying, the index does not know the newest memories. The overlay does: each
event sees all decisions before it, in the same batch too, so what is decided depends neither on
batch size nor on how far the writer lags behind.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypeGuard

import numpy as np

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from schemas.decisions import Change, Decision, Erase, Ignore, Marker
from schemas.memories import Standing
from streams.core import survivorship
from streams.core.brake import Recent
from streams.core.embedding import NEAR_TIE, Vector, best_of_each
from streams.core.identity import event_key
from streams.core.ledger import Effect, Retire, effects, memory_of, version_after
from streams.core.neighbours import Known, Stored
from streams.core.policy import Brake

_Known: TypeAlias = Stored | Retire
"""A memory as a decision left it; Retire where only the store knows what it was before."""


class _Written(NamedTuple):
    """A memory as a decision leaves it."""

    scope: ScopeName
    identity: MemoryId
    after: _Known
    version: int


class _Decided(NamedTuple):
    """The event of a decision, and the versions to which that has brought memories."""

    content: ContentKey
    versions: Mapping[MemoryId, int]


class _Taken(NamedTuple):
    """What an erasure takes away: what memories remember before a version, and records."""

    versions: Mapping[MemoryId, int]
    offsets: frozenset[int]


class _Recorded(NamedTuple):
    """What a decision brings about, and the event that it was made on.

    None where it changes nothing: no memory remembers it either, once it is settled.
    """

    written: Sequence[_Written]
    decided: tuple[DecisionId, _Decided] | None
    taken: _Taken | None


class _Layer:
    """Memories as a run of decisions left them, retired ones as well."""

    def __init__(self) -> None:
        self.scopes: dict[ScopeName, dict[MemoryId, _Known]] = {}
        self.contents: dict[ContentKey, tuple[MemoryId, ...]] = {}
        self.graves: dict[ScopeName, set[MemoryId]] = {}
        self.decided: dict[DecisionId, _Decided] = {}
        self.taken: dict[int, _Taken] = {}
        self.versions: dict[MemoryId, int] = {}

    def put(self, written: _Written) -> None:
        scope, identity, after, version = written
        self.drop(scope, identity)
        self.scopes.setdefault(scope, {})[identity] = after
        self.versions[identity] = version
        if _is_grave(after):
            self.graves.setdefault(scope, set()).add(identity)
        if (live := _live(after)) is not None:
            for key in live.memory.content_keys:
                self.contents[key] = (*self.contents.get(key, ()), identity)

    def drop(self, scope: ScopeName, identity: MemoryId) -> None:
        memories = self.scopes.get(scope, {})
        before = _live(memories.pop(identity, None))
        self.versions.pop(identity, None)
        graves = self.graves.get(scope, set())
        graves.discard(identity)
        if not graves:
            self.graves.pop(scope, None)
        if before is not None:
            for key in before.memory.content_keys:
                self._forget_content(key, identity)
        if not memories:
            self.scopes.pop(scope, None)

    def _forget_content(self, key: ContentKey, identity: MemoryId) -> None:
        ids = tuple(one for one in self.contents[key] if one != identity)
        if ids:
            self.contents[key] = ids
        else:
            del self.contents[key]


class Overlay:
    """The unapplied decisions of one partition, as the log holds them.

    `settle` evicts what the store has: the writer's committed offset is the low-watermark.
    """

    def __init__(self) -> None:
        self._layer = _Layer()
        self._changed_at: dict[MemoryId, tuple[int, ScopeName]] = {}
        self._decided_at: dict[DecisionId, int] = {}
        self._settled = 0
        self._recent = Recent()

    def __len__(self) -> int:
        """Return how many memories the store does not hold in their newest state."""
        return len(self._changed_at)

    def in_scope(self, scope: ScopeName) -> int:
        """Return how many of them are of a scope."""
        return len(self._layer.scopes.get(scope, ()))

    @property
    def settled(self) -> int:
        """The offset before which everything was left to the store."""
        return self._settled

    @property
    def recent(self) -> Recent:
        """The newest changes, as the brake looks at them."""
        return self._recent

    def fork(self) -> "Fork":
        """Return a view that a batch may record its decisions on, without touching this one."""
        return Fork(self._layer, self._recent.fork())

    def recall(self, decisions: Sequence[Decision]) -> None:
        """Know what was decided of late, also where the store has it."""
        for decision in decisions:
            if isinstance(decision, Change):
                self._recent.add(decision)

    def join(self, decisions: Sequence[Decision], offsets: Sequence[int]) -> None:
        """Take over decisions that the log holds at these offsets."""
        fork = self.fork()
        for decision in decisions:
            fork.record(decision)
        self.adopt(fork, offsets)

    def adopt(self, fork: "Fork", offsets: Sequence[int]) -> None:
        """Take over what was recorded on a fork, now that the log holds it at these offsets.

        What lies before the settled offset the store has already.
        """
        self._recent = fork.recent
        for recorded, offset in zip(fork.recorded, offsets, strict=True):
            if offset < self._settled:
                continue
            for written in recorded.written:
                self._layer.put(written)
                self._changed_at[written.identity] = (offset, written.scope)
            if recorded.decided is not None:
                identity, key = recorded.decided
                self._layer.decided[identity] = key
                self._decided_at[identity] = offset
            if recorded.taken is not None:
                self._layer.taken[offset] = recorded.taken

    def settle(self, offset: int) -> None:
        """Forget what the decisions before `offset` changed: the store has it."""
        if offset <= self._settled:
            return
        self._settled = offset
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
    """An overlay with the decisions of the batch at hand on top."""

    def __init__(self, base: _Layer, recent: Recent) -> None:
        self._layers = (base, _Layer())
        self.recent = recent
        self.recorded: list[_Recorded] = []

    def record(self, decision: Decision) -> None:
        """Let the events that follow see a decision."""
        recorded = _recorded(self._layers, decision)
        own = self._layers[1]
        for written in recorded.written:
            own.put(written)
        if recorded.decided is not None:
            identity, key = recorded.decided
            own.decided[identity] = key
        if recorded.taken is not None:
            own.taken[len(self.recorded)] = recorded.taken
        self.recorded.append(recorded)
        if isinstance(decision, Change):
            self.recent.add(decision)

    def braked(self, scope: ScopeName, rule: Brake) -> bool:
        """Tell whether the scope's next merge or replacement must not be made."""
        return self.recent.engaged(scope, rule)

    def decided(self, decision: DecisionId, there: Known | None = None) -> ContentKey | None:
        """Return the content that a decision was made on; None when it is not known.

        `there` is what index or log know of it: what was erased here they may not have lost yet.
        """
        held = (layer.decided.get(decision) for layer in reversed(self._layers))
        here = next((one for one in held if one is not None), None)
        if here is not None and not self._is_restated(here.versions):
            return here.content
        if there is None or self._is_taken(there):
            return None
        return there.content

    def _is_restated(self, versions: Mapping[MemoryId, int]) -> bool:
        """Tell whether erasures have stated all of these memories again since these versions."""
        return all(
            any(taken.versions.get(identity, 0) > version for taken in self._taken())
            for identity, version in versions.items()
        )

    def _is_taken(self, there: Known) -> bool:
        if there.offset is not None:
            return any(there.offset in taken.offsets for taken in self._taken())
        return self._is_restated(dict.fromkeys(there.memories, 0))

    def _taken(self) -> Iterator[_Taken]:
        return (taken for layer in self._layers for taken in layer.taken.values())

    def current(self, scope: ScopeName, stored: Stored) -> Stored | None:
        """Return the newest state of a memory that the index has; None when it is retired."""
        return _live(self.state(scope, stored.memory.id, stored))

    def state(self, scope: ScopeName, identity: MemoryId, stored: Stored | None) -> Stored | None:
        """Return the newest state of a memory, live or not; `stored` is what the index has of it.

        None where neither has it, or where only the index could tell what it was, and does not.
        """
        after = _top(self._layers, scope, identity)
        if after is None:
            return stored
        if isinstance(after, Stored):
            return after.after(stored)
        return None if stored is None else _retired(stored, after)

    def changed(self, scope: ScopeName) -> Mapping[MemoryId, Stored | None]:
        """Return the scope's memories that were changed here; None stands for a retired one."""
        return {identity: _live(after) for identity, after in _view(self._layers, scope).items()}

    def forgotten(self, scope: ScopeName) -> list[Stored]:
        """Return the memories of a scope that were forgotten here."""
        ids = {identity for layer in self._layers for identity in layer.graves.get(scope, ())}
        found = (_top(self._layers, scope, identity) for identity in ids)
        return [after for after in found if _is_grave(after)]

    def with_content(
        self, scope: ScopeName, key: ContentKey, stored: Sequence[Stored]
    ) -> Stored | None:
        """Return the live memory with this wording; of several the one with the smallest id.

        `stored` are those of the index, which may not know that they have changed.
        """
        ids = {identity for layer in self._layers for identity in layer.contents.get(key, ())}
        held = [_live(_top(self._layers, scope, identity)) for identity in ids]
        current = [*held, *(self.current(scope, s) for s in stored)]
        live = [s for s in current if s is not None and key in s.memory.content_keys]
        return min(live, key=lambda holder: holder.memory.id, default=None)

    def near(
        self, scope: ScopeName, vector: Vector, hits: Sequence[Stored], limit: int
    ) -> list[Stored]:
        """Combine the index's hits with what it does not know yet.

        Of a memory that is no hit, only the index may know the shown text's vector, and those of
        older variants: it is nominated by the others.
        """
        view = _view(self._layers, scope)
        standing: list[Stored] = []
        for hit in hits:
            after = _live(view.get(hit.memory.id, hit))
            if after is not None:
                standing.append(hit if after is hit else after.after(hit))
        known = {hit.memory.id for hit in hits}
        live = (_live(after) for identity, after in view.items() if identity not in known)
        fresh = [after for after in live if after is not None and after.wordings]
        return standing + _nearest(vector, fresh, limit)


def _recorded(layers: Sequence[_Layer], decision: Decision) -> _Recorded:
    """Work out what a decision brings about on top of these layers, but for what is there."""
    if isinstance(decision, Marker | Ignore):
        return _Recorded((), None, None)
    scope = decision.event.scope
    written: list[_Written] = []
    made = effects(decision)
    for effect in made:
        identity, version = memory_of(effect), version_after(effect)
        if any(layer.versions.get(identity, 0) >= version for layer in layers):
            continue  # it came again, behind later ones
        after = _after(_top(layers, scope, identity), effect)
        written.append(_Written(scope, identity, after, version))
    versions = {memory_of(one): version_after(one) for one in made if isinstance(one, Stored)}
    decided = _Decided(event_key(decision.event), versions)
    taken = None
    if isinstance(decision, Erase):
        taken = _Taken(versions, frozenset(one.decision for one in decision.erased))
    return _Recorded(written, (decision.decision_id, decided), taken)


def _after(before: _Known | None, effect: Effect) -> _Known:
    """Return what an effect makes of a memory, as far as that is known here."""
    known = before if isinstance(before, Stored) else None
    if isinstance(effect, Retire):
        return effect if known is None else _retired(known, effect)
    after = effect.after(known)
    return Stored(after.memory.compact(), after.vector, variants=after.variants)


def _retired(before: Stored, effect: Retire) -> Stored:
    """Return a memory after it was retired; as it is where that has happened."""
    if before.memory.version >= version_after(effect):
        return before
    return replace(before, memory=survivorship.retired(before.memory, effect.superseded))


def _top(layers: Sequence[_Layer], scope: ScopeName, identity: MemoryId) -> _Known | None:
    """Return the newest state of a memory that was changed here."""
    nothing = dict[MemoryId, _Known]()
    held = (layer.scopes.get(scope, nothing).get(identity) for layer in reversed(layers))
    return next((after for after in held if after is not None), None)


def _live(after: _Known | None) -> Stored | None:
    return after if isinstance(after, Stored) and after.memory.live else None


def _is_grave(after: _Known | None) -> TypeGuard[Stored]:
    return isinstance(after, Stored) and after.memory.status is Standing.FORGOTTEN


def _view(layers: Sequence[_Layer], scope: ScopeName) -> Mapping[MemoryId, _Known]:
    found = [layer.scopes[scope] for layer in layers if scope in layer.scopes]
    return {identity: after for memories in found for identity, after in memories.items()}


def _nearest(vector: Vector, fresh: Sequence[Stored], limit: int) -> list[Stored]:
    """Nominate among many by one product; few are all nominated."""
    if len(fresh) <= limit:
        return list(fresh)
    rows = [own for one in fresh for own in one.wordings.values()]
    scores = best_of_each(np.stack(rows) @ vector, [len(one.wordings) for one in fresh])
    least = np.partition(scores, -limit)[-limit] - NEAR_TIE
    return [fresh[i] for i in np.flatnonzero(scores >= least).tolist()]
