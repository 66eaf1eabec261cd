"""Comparison of a copy of the memories with the log, up to the offsets that the copy reached."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from schemas.base import ContentKey, MemoryId, Position, ScopeName
from schemas.memories import Memory
from streams.model.neighbours import StoredMemory
from streams.verify.core.findings import AuditFindings, Violation


@dataclass(frozen=True)
class CopiedMemory:
    """A memory as a copy for people holds it.

    `live` is None if people edited or removed it; `text` is None in these cases and if it is
    retired.
    """

    identity: MemoryId
    version: int
    text: str | None
    live: bool | None


Holding: TypeAlias = Callable[[Memory], bool]
"""A predicate: whether a copy must hold a memory."""


def every(_: Memory) -> bool:
    """Return True: a complete copy must hold every memory."""
    return True


class Copy:
    """Compares what a copy of the memories holds with the log up to the copy's level.

    The copy may hold a later state of a memory, because it writes before it raises its level.
    """

    def __init__(
        self,
        levels: Mapping[int, int],
        state: Mapping[MemoryId, StoredMemory],
        *,
        whole: bool,
        holds: Holding = every,
    ) -> None:
        """Take the log's growing `state`; `whole` compares vectors and decisions as well."""
        self._levels = levels
        self._state = state
        self._whole = whole
        self._holds = holds
        self._before: dict[MemoryId, StoredMemory | None] = {}
        self._later: dict[MemoryId, list[StoredMemory]] = {}
        self._seen: dict[MemoryId, int] = {}
        self._suspects: dict[MemoryId, StoredMemory | CopiedMemory] = {}
        self._flawed: dict[MemoryId, str] = {}
        self._by_people: set[MemoryId] = set()

    @property
    def levels(self) -> Mapping[int, int]:
        return self._levels

    @property
    def count(self) -> int:
        """How many memories the copy holds."""
        return len(self._seen)

    @property
    def by_people(self) -> int:
        """How many of them people edited or removed."""
        return len(self._by_people)

    @property
    def is_in_doubt(self) -> bool:
        """Whether it holds anything that the log, as far as it was read, does not explain."""
        return bool(self._suspects)

    def changed(self, position: Position, before: StoredMemory | None, after: StoredMemory) -> None:
        """Register a decision's change of a memory."""
        if position.offset >= self._levels.get(position.partition, 0):
            self._before.setdefault(after.memory.id, before)
            self._later.setdefault(after.memory.id, []).append(after)

    def found(self, held: StoredMemory | CopiedMemory) -> None:
        """Register a memory that the copy holds; of several states, the latest counts."""
        identity, version = _named(held)
        if version < self._seen.get(identity, 0):
            return
        self._seen[identity] = version
        self._suspects[identity] = held
        if self._explains(held):
            del self._suspects[identity]
        if isinstance(held, CopiedMemory) and held.live is None:
            self._by_people.add(identity)

    def flawed(self, identity: MemoryId, flaw: str) -> None:
        """Register a memory that the copy holds in an invalid form."""
        self._seen[identity] = 0
        self._flawed[identity] = flaw

    def findings(self, is_compared: Callable[[ScopeName], bool]) -> AuditFindings:
        """Return the differences in the scopes that can be compared."""
        found = AuditFindings()
        for identity, stored in self._state.items():
            if identity not in self._seen and self._lacks(identity, stored, is_compared):
                found.add(Violation.LACKING, identity, "it is in the log, but not in the copy")
        for identity, flaw in self._flawed.items():
            found.add(Violation.DIFFERING, identity, flaw)
        for identity, held in self._suspects.items():
            scope = self._scope(held)
            if (scope is None or is_compared(scope)) and not self._explains(held):
                self._add_unexplained(found, identity, held)
        return found

    def _lacks(
        self, identity: MemoryId, stored: StoredMemory, is_compared: Callable[[ScopeName], bool]
    ) -> bool:
        expected = self._expected(identity)
        wanted = expected is not None and self._holds(expected.memory)
        return wanted and is_compared(stored.memory.scope)

    def _scope(self, held: StoredMemory | CopiedMemory) -> ScopeName | None:
        """Return the scope of a held memory; None if neither the copy nor the log has it."""
        known = held if isinstance(held, StoredMemory) else self._state.get(held.identity)
        return None if known is None else known.memory.scope

    def _add_unexplained(
        self, found: AuditFindings, identity: MemoryId, held: StoredMemory | CopiedMemory
    ) -> None:
        known = self._expected(identity) or self._state.get(identity)
        if known is None:
            found.add(Violation.EXTRA, identity, "it is in the copy; the log knows no such memory")
        else:
            found.add(Violation.DIFFERING, identity, self._difference(known, held))

    def _explains(self, held: StoredMemory | CopiedMemory) -> bool:
        """Return whether the log has this state at the copy's level or later."""
        identity, _ = _named(held)
        states = (self._expected(identity), *self._later.get(identity, ()))
        return any(state is not None and self._same(state, held) for state in states)

    def _expected(self, identity: MemoryId) -> StoredMemory | None:
        """Return the memory's state at the copy's level."""
        if identity in self._before:
            return self._before[identity]
        return self._state.get(identity)

    def _same(self, expected: StoredMemory, found: StoredMemory | CopiedMemory) -> bool:
        if isinstance(found, CopiedMemory):
            same_version = expected.memory.version == found.version
            return same_version and not _differing(expected.memory, found)
        if not self._whole:
            return expected.memory == found.memory
        return (
            expected.memory == found.memory
            and _bits(expected) == _bits(found)
            and expected.decided == found.decided
        )

    def _difference(self, expected: StoredMemory, found: StoredMemory | CopiedMemory) -> str:
        """Return how a memory differs, without revealing its text."""
        known, (_, version) = expected.memory, _named(found)
        if known.version != version:
            return f"is at version {version}, and at {known.version} by the log"
        names = _differing(known, found if isinstance(found, CopiedMemory) else found.memory)
        if self._whole and isinstance(found, StoredMemory):
            names += ["vector"] if _bits(expected) != _bits(found) else []
            names += ["decisions"] if expected.decided != found.decided else []
        return f"differs from the log in: {', '.join(names)}"


def _named(held: StoredMemory | CopiedMemory) -> tuple[MemoryId, int]:
    """Return the id and version of a held memory."""
    if isinstance(held, CopiedMemory):
        return held.identity, held.version
    return held.memory.id, held.memory.version


def _differing(known: Memory, seen: Memory | CopiedMemory) -> list[str]:
    """Return the names of the fields that differ."""
    if isinstance(seen, Memory):
        return [n for n in Memory.model_fields if getattr(known, n) != getattr(seen, n)]
    told = {"text": seen.text, "live": seen.live}
    return [n for n, value in told.items() if value is not None and getattr(known, n) != value]


def _bits(stored: StoredMemory) -> dict[ContentKey, bytes]:
    return {key: vector.tobytes() for key, vector in stored.wordings.items()}
