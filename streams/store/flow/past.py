"""Past decisions of a log, read back to decide again or to compare."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from schemas.base import Embedding
from schemas.codec import EVENT, Unreadable
from schemas.decisions import Change, Decision, Marker, Merge, OnEvent, Revise, Revised
from schemas.events import Event, Remember
from schemas.topics import DECISIONS, EVENTS
from streams.model.embedding import TextVector, unpack
from streams.model.ports.log import PAGE, Log, LogRecord
from streams.model.ports.models import Embedder
from streams.model.scope import lies_in
from streams.model.wrapping import WrappedEmbedder
from streams.stage.flow.decisions import CountedDecision, DecisionsReader


@dataclass(frozen=True)
class PastEvent:
    """An event's record and the decision on it; None if there is none yet."""

    record: LogRecord
    event: Event | None
    decision: Decision | None


@dataclass(frozen=True)
class Bound:
    """A position in every partition of events: an offset, or the first event at or after a time."""

    offset: int | None = None
    time: datetime | None = None

    def reached_by(self, offset: int, event: Event | None) -> bool:
        """Return whether an event is at or after the position."""
        if self.offset is not None:
            return offset >= self.offset
        return event is not None and self.time is not None and event.occurred_at >= self.time


@dataclass(frozen=True)
class Selection:
    """Selects events: those of a scope and the scopes below it, from `start` until `end`."""

    scope: str | None = None
    start: Bound | None = None
    end: Bound | None = None

    def begins_with(self, one: PastEvent) -> bool:
        """Return whether the selection begins here or earlier."""
        return self.start is None or self.start.reached_by(one.record.offset, one.event)

    def ends_before(self, one: PastEvent) -> bool:
        """Return whether the selection ends before this event."""
        return self.end is not None and self.end.reached_by(one.record.offset, one.event)

    def wants(self, event: Event | None) -> bool:
        """Return whether an event is in the scope; an unreadable one is in none."""
        if self.scope is None:
            return True
        return event is not None and lies_in(event.scope, self.scope.rstrip("/"))


class PastDecisions:
    """A partition's decisions that count, in order, looked up by their event's offset."""

    def __init__(self, log: Log, partition: int) -> None:
        self._log = log
        self._partition = partition
        self._reader = DecisionsReader()
        self._ahead = deque[CountedDecision]()

    async def page(self) -> list[CountedDecision]:
        """Return the next decisions; empty only at the end of the log."""
        while not self._ahead and await self._fetch():
            pass
        page = list(self._ahead)
        self._ahead.clear()
        return page

    async def of(self, offset: int) -> Decision | None:
        """Return the decision on an event; offsets must be asked for in ascending order."""
        while True:
            while self._ahead and self._ahead[0].decision.source.offset < offset:
                self._ahead.popleft()
            if self._ahead:
                found = self._ahead[0].decision
                return found if found.source.offset == offset else None
            if not await self._fetch():
                return None

    async def _fetch(self) -> bool:
        offset = self._reader.reached.offset
        page = await self._log.read(DECISIONS.name, self._partition, offset, PAGE)
        self._ahead.extend(self._reader.window(page))
        return bool(page)


class PastEvents(Protocol):
    """A partition's events with the decisions on them, page by page."""

    async def page(self) -> list[PastEvent]:
        """Return the next page; empty only at the current end."""
        ...


class EventsFromDecisions:
    """Implements PastEvents from the decisions, which contain the events and are kept forever.

    Records that were no events are left out: their decisions do not contain them.
    """

    def __init__(self, log: Log, partition: int) -> None:
        self._past = PastDecisions(log, partition)

    async def page(self) -> list[PastEvent]:
        while page := await self._past.page():
            found = [one.decision for one in page if not isinstance(one.decision, Marker)]
            if found:
                return [PastEvent(_record_of(one), one.event, one) for one in found]
        return []


class EventsFromTopic:
    """Implements PastEvents from the events topic itself, as far back as it is retained."""

    def __init__(self, log: Log, partition: int) -> None:
        self._log = log
        self._partition = partition
        self._past = PastDecisions(log, partition)
        self._next = 0

    async def page(self) -> list[PastEvent]:
        records = await self._log.read(EVENTS.name, self._partition, self._next, PAGE)
        if records:
            self._next = records[-1].offset + 1
        return [PastEvent(one, read_event(one), await self._past.of(one.offset)) for one in records]


class ReplayCursor:
    """A partition's selected events that have not been taken in yet."""

    def __init__(self, events: PastEvents, selection: Selection, taken: int) -> None:
        """`taken` is the offset after the last event that was taken in before."""
        self._events = events
        self._selection = selection
        self._taken = taken
        self._ahead = deque[PastEvent]()

    async def before(self, limit: int) -> list[PastEvent]:
        """Return up to `limit` of the next events before the selection."""
        return await self._take(limit, self._selection.begins_with)

    async def batch(self, limit: int) -> list[PastEvent]:
        """Return up to `limit` of the next selected events; empty at the current end."""
        return await self._take(limit, self._selection.ends_before)

    async def _take(self, limit: int, ends: Callable[[PastEvent], bool]) -> list[PastEvent]:
        taken: list[PastEvent] = []
        while len(taken) < limit and (one := await self._peek()) is not None and not ends(one):
            self._ahead.popleft()
            if one.record.offset >= self._taken and self._selection.wants(one.event):
                taken.append(one)
        return taken

    async def _peek(self) -> PastEvent | None:
        if not self._ahead:
            self._ahead.extend(await self._events.page())
        return self._ahead[0] if self._ahead else None


def _record_of(decision: OnEvent) -> LogRecord:
    source = decision.source
    return LogRecord(
        topic=source.topic,
        partition=source.partition,
        offset=source.offset,
        key=decision.event.scope.encode(),
        value=EVENT.encode(decision.event),
    )


def read_event(record: LogRecord) -> Event | None:
    """Read an event; None if the record holds none."""
    try:
        return EVENT.decode(record.value or b"")
    except Unreadable:
        return None


class KnownVectors(WrappedEmbedder):
    """Implements ports.Embedder: reuses the vectors that past decisions stored for their texts.

    Vectors of another model are ignored.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self._known: dict[str, TextVector] = {}

    def learn(self, decisions: Sequence[Decision]) -> None:
        """Replace the known vectors with those of these decisions' texts."""
        self._known = {
            text: TextVector(unpack(made), truncated)
            for decision in decisions
            for text, made, truncated in _texts_of(decision)
            if made is not None and made.model == self.model
        }

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        made = (
            dict(zip(missing, await self._embedder.embed(missing), strict=True)) if missing else {}
        )
        return [self._known.get(text) or made[text] for text in texts]


def _texts_of(decision: Decision) -> list[tuple[str, Embedding | None, bool]]:
    """Return the texts that a decision embedded, and whether each was truncated."""
    if isinstance(decision, Revise):
        return [text for revised in decision.memories for text in _texts_of_revised(revised)]
    if not isinstance(decision, Change) or not isinstance(decision.event, Remember):
        return []
    said, truncated = decision.event.text, decision.evidence.truncated
    if not isinstance(decision, Merge):
        return [(said, decision.embedding, truncated)]
    merged = (decision.memory.text, decision.embedding, False)
    return [(said, decision.event_embedding, truncated), merged]


def _texts_of_revised(revised: Revised) -> list[tuple[str, Embedding | None, bool]]:
    memory = revised.memory
    variants = zip(memory.variants, revised.variant_embeddings, strict=False)
    shown = (memory.text, revised.embedding, memory.truncated)
    return [shown, *((variant.text, embedding, False) for variant, embedding in variants)]
