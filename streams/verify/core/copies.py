"""Comparison of a copy of the memories with the log, up to the offsets that the copy reached."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from schemas.base import ContentKey, MemoryId, Position, ScopeName
from schemas.memories import Memory
from streams.model.neighbours import StoredMemory
from streams.verify.core.findings import AuditFindings, Violation


@dataclass(frozen=True)
class HeldMemory:
    """A memory as a copy holds it; `flaw` says what is wrong if it cannot be read.

    `differing` names the parts in which it differs from a state that the log has, of those that
    such a copy holds. `scope` is None if the copy does not tell it.
    """

    identity: MemoryId
    version: int = 0
    differing: Callable[[StoredMemory], list[str]] = lambda _: []
    scope: ScopeName | None = None
    by_people: bool = False
    flaw: str = ""

    @classmethod
    def of_index(cls, held: StoredMemory) -> Self:
        """Return a memory of an index, which holds vectors and decisions as well."""

        def differing(known: StoredMemory) -> list[str]:
            parts = {
                "vector": _bits(known) != _bits(held),
                "decisions": known.decided != held.decided,
            }
            differ = [name for name, differs in parts.items() if differs]
            return _differing_fields(known.memory, held.memory) + differ

        return cls(held.memory.id, held.memory.version, differing, held.memory.scope)

    @classmethod
    def of_sink(cls, held: Memory) -> Self:
        """Return a memory of a copy for programs, which holds all of its record."""
        return cls(
            held.id, held.version, lambda known: _differing_fields(known.memory, held), held.scope
        )

    @classmethod
    def of_people(cls, identity: MemoryId, version: int, told: Mapping[str, object] | None) -> Self:
        """Return a memory of a copy for people, which has these of its fields.

        They are None if people have edited or removed it, which is no error.
        """

        def differing(known: StoredMemory) -> list[str]:
            fields = (told or {}).items()
            return [name for name, value in fields if getattr(known.memory, name) != value]

        return cls(identity, version, differing, by_people=told is None)


def _differing_fields(known: Memory, held: Memory) -> list[str]:
    if known == held:
        return []
    return [name for name in Memory.model_fields if getattr(known, name) != getattr(held, name)]


def _bits(stored: StoredMemory) -> dict[ContentKey, bytes]:
    return {key: vector.tobytes() for key, vector in stored.wordings.items()}


class Copy:
    """Compares what a copy of the memories holds with the log up to the copy's level.

    The copy may hold a later state of a memory, because it writes before it raises its level.
    """

    def __init__(
        self,
        levels: Mapping[int, int],
        state: Mapping[MemoryId, StoredMemory],
        holds: Callable[[Memory], bool],
    ) -> None:
        """Take the log's growing `state`; `holds` tells whether the copy must hold a memory."""
        self.levels = levels
        self._state = state
        self._holds = holds
        self._before: dict[MemoryId, StoredMemory | None] = {}
        self._later: dict[MemoryId, list[StoredMemory]] = {}
        self._seen: dict[MemoryId, int] = {}
        self._suspects: dict[MemoryId, HeldMemory] = {}
        self._flaws: dict[MemoryId, str] = {}
        self.by_people: set[MemoryId] = set()
        """The memories that people edited or removed."""

    @property
    def count(self) -> int:
        """How many memories the copy holds."""
        return len(self._seen)

    @property
    def is_in_doubt(self) -> bool:
        """Whether it holds anything that the log, as far as it was read, does not explain."""
        return bool(self._suspects)

    def changed(self, position: Position, before: StoredMemory | None, after: StoredMemory) -> None:
        """Register a decision's change of a memory."""
        if position.offset >= self.levels.get(position.partition, 0):
            self._before.setdefault(after.memory.id, before)
            self._later.setdefault(after.memory.id, []).append(after)

    def found(self, held: HeldMemory) -> None:
        """Register a memory that the copy holds; of several states, the latest counts."""
        if held.flaw:
            self._seen[held.identity] = 0
            self._flaws[held.identity] = held.flaw
            return
        if held.version < self._seen.get(held.identity, 0):
            return
        self._seen[held.identity] = held.version
        self._suspects[held.identity] = held
        if self._explains(held):
            del self._suspects[held.identity]
        if held.by_people:
            self.by_people.add(held.identity)

    def findings(self, is_compared: Callable[[ScopeName], bool]) -> AuditFindings:
        """Return the differences in the scopes that can be compared."""
        found = AuditFindings()
        for identity, stored in self._state.items():
            expected = self._expected(identity)
            is_wanted = expected is not None and self._holds(expected.memory)
            if is_wanted and identity not in self._seen and is_compared(stored.memory.scope):
                found.add(Violation.LACKING, identity, "it is in the log, but not in the copy")
        for identity, flaw in self._flaws.items():
            found.add(Violation.DIFFERING, identity, flaw)
        for identity, held in self._suspects.items():
            known = self._expected(identity) or self._state.get(identity)
            scope = held.scope or (None if known is None else known.memory.scope)
            if (scope is not None and not is_compared(scope)) or self._explains(held):
                continue
            if known is None:
                what = "it is in the copy; the log knows no such memory"
                found.add(Violation.EXTRA, identity, what)
            else:
                found.add(Violation.DIFFERING, identity, _difference(known, held))
        return found

    def _explains(self, held: HeldMemory) -> bool:
        """Return whether the log has this state at the copy's level or later."""
        states = (self._expected(held.identity), *self._later.get(held.identity, ()))
        return any(
            state is not None and state.memory.version == held.version and not held.differing(state)
            for state in states
        )

    def _expected(self, identity: MemoryId) -> StoredMemory | None:
        """Return the memory's state at the copy's level."""
        if identity in self._before:
            return self._before[identity]
        return self._state.get(identity)


def _difference(known: StoredMemory, held: HeldMemory) -> str:
    """Return how a memory differs, without revealing its text."""
    if known.memory.version != held.version:
        return f"is at version {held.version}, and at {known.memory.version} by the log"
    return f"differs from the log in: {', '.join(held.differing(known))}"
