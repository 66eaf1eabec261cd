"""The pairing of a partition's events with its decisions, one to one."""

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from schemas.codec import EVENT
from schemas.decisions import Decision, Marker
from schemas.events import Event
from schemas.topics import DECISIONS, EVENTS
from streams.model.screening import was_screened
from streams.verify.core.findings import AuditFindings, Violation


class Pairing:
    """Pairs one partition's decisions with their event records.

    Pass all decisions first, then all events that the topic still holds, then call `close`.
    """

    def __init__(self, partition: int, committed: int, found: AuditFindings) -> None:
        """Start empty; `committed` is the deduplicator group's committed offset."""
        self._partition = partition
        self._committed = committed
        self._found = found
        self._decided: dict[int, _Made] = {}
        self._doubts: list[range] = []
        self._doubt: int | None = None
        self._next = 0
        self.events = 0
        """How many records the topic still holds."""
        self.waiting = 0
        """How many of them come after the last one decided on."""
        self.in_doubt = 0
        """How many of them may belong to an unreadable decision."""
        self.expired = 0
        """How many decisions are on events that the topic no longer holds."""
        self.untold = 0
        """How many expired offsets have no decision: perhaps they had no event."""
        self.erased = 0
        """How many events were erased because their content is forgotten."""
        self._gone: set[int] = set()

    def decided(self, decision: Decision, place: int) -> None:
        """Register a decision that counts; `place` is its offset."""
        offset = decision.source.offset
        if self._doubt is not None:
            self._doubts.append(range(self._doubt, offset))
            self._doubt = None
        self._decided[offset] = _Made(place, _said(decision))
        self._next = offset + 1

    def erase(self, offset: int, place: int, *, stays: bool) -> bool:
        """Register the event of an erased decision; return whether that decision is gone."""
        if not stays:
            self._gone.add(offset)
        if offset in self._decided:
            return False
        self._decided[offset] = _Made(place, b"")
        return True

    def doubt(self) -> None:
        """Register an unreadable record: it may be the decision on the next event."""
        if self._doubt is None:
            self._doubt = self._next

    @property
    def end(self) -> int:
        """The offset after the last event that must have a decision."""
        behind_doubt = 0 if self._doubt is None else self._doubt + 1
        return max(self._next, self._committed, behind_doubt)

    def event(self, offset: int, read: Callable[[], Event | None]) -> None:
        """Check an event record; `read` returns its event, None if it is unreadable."""
        self.events += 1
        if offset >= self.end:
            self.waiting += 1
            return
        made = self._decided.pop(offset, None)
        if made is None:
            self._undecided(offset)
        elif made.said and ((event := read()) is None or made.said != _digest(event)):
            what = f"decides on {self._event(offset)}, and on another event than that record holds"
            self._found.add(Violation.OTHER_EVENT, self._decision(made), what)

    def close(self, beginning: int, end: int) -> None:
        """Check the decisions whose events were not found."""
        for offset, made in self._decided.items():
            if offset in self._gone:
                self.erased += 1
            elif offset < beginning:
                self.expired += 1
            elif offset >= end:
                what = f"decides on {self._event(offset)}, but the events end at {end:,}"
                self._found.add(Violation.BEYOND_EVENTS, self._decision(made), what)
            else:
                what = f"decides on {self._event(offset)}, but there is no such record"
                self._found.add(Violation.NO_EVENT, self._decision(made), what)
        erased = sum(offset < beginning for offset in self._gone)
        self.untold = max(0, beginning - self.expired - erased)

    def _undecided(self, offset: int) -> None:
        open_doubt = range(0) if self._doubt is None else range(self._doubt, self.end)
        if any(offset in doubt for doubt in (*self._doubts, open_doubt)):
            self.in_doubt += 1
        else:
            what = f"has no decision, although events up to {self.end:,} were decided on"
            self._found.add(Violation.UNDECIDED, self._event(offset), what)

    def _event(self, offset: int) -> str:
        return f"{EVENTS.name}/{self._partition}/{offset}"

    def _decision(self, made: "_Made") -> str:
        return f"{DECISIONS.name}/{self._partition}/{made.offset}"


class _Made(NamedTuple):
    """A decision's offset, and the digest of the event that it contains, empty if none."""

    offset: int
    said: bytes


def _said(decision: Decision) -> bytes:
    """Return the digest of a decision's event; empty for markers and screened events."""
    if isinstance(decision, Marker) or was_screened(decision):
        return b""
    return _digest(decision.event)


def _digest(event: Event) -> bytes:
    return hashlib.blake2b(EVENT.encode(event), digest_size=16).digest()
