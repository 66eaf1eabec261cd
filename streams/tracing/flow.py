"""Traces a process: a step for each record of a batch that something was made of.

The context of the step travels on in the headers of what was made. Attributes are ids, scopes,
kinds and places, never a text.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from schemas.topics import DECISIONS, EVENTS
from streams.model.ports.log import HandledBatch, LogRecord, OutgoingRecord, Process
from streams.model.wrapping import WrappedProcess
from streams.stage.flow.decisions import (
    DECISION_ID_HEADER,
    EVENT_ID_HEADER,
    KIND_HEADER,
    MEMORY_ID_HEADER,
    scope_of,
)
from streams.tracing.port import TRACEPARENT, TRACESTATE, Attributes, Headers, TraceStep, Tracing

_ATTRIBUTES = {
    KIND_HEADER: "memsieve.decision.kind",
    DECISION_ID_HEADER: "memsieve.decision.id",
    EVENT_ID_HEADER: "memsieve.event.id",
}


@dataclass(frozen=True)
class Messaging:
    """What names topics and groups in the messaging system, and what the system is called."""

    system: str
    named: Callable[[str], str]


class TracedProcess(WrappedProcess):
    """Implements ports.Process over a process, and traces what it makes of each record.

    A step lasts from the batch's beginning until the log has acknowledged what was made. A batch
    that failed leaves none: it is handled again.
    """

    def __init__(
        self, process: Process, tracing: Tracing, messaging: Messaging, operation: str
    ) -> None:
        """`operation` is what the process does, in a word."""
        super().__init__(process)
        self._tracing = tracing
        self._messaging = messaging
        self._operation = operation

    async def handle(self, partition: int, records: Sequence[LogRecord]) -> HandledBatch:
        since = self._tracing.now()
        handled = await self._process.handle(partition, records)
        made: defaultdict[int | None, list[OutgoingRecord]] = defaultdict(list)
        for one in handled.outgoing:
            made[one.cause].append(one)
        steps = {
            record.offset: self._step(record, made[record.offset], since, len(records))
            for record in records
            if record.offset in made
        }

        async def appended(offsets: list[int]) -> None:
            await handled.appended(offsets)
            for step in steps.values():
                step.end()

        outgoing = [_carrying(one, steps) for one in handled.outgoing]
        return replace(handled, outgoing=outgoing, appended=appended)

    def _step(
        self, record: LogRecord, made: Sequence[OutgoingRecord], since: int, batch: int
    ) -> TraceStep:
        name = f"{self._operation} {self._messaging.named(self.topic)}"
        attributes = partial(self._attributes, record, made, batch)
        return self._tracing.step(name, _context(record.headers), since, attributes)

    def _attributes(
        self, record: LogRecord, made: Sequence[OutgoingRecord], batch: int
    ) -> Attributes:
        """Return attributes by OpenTelemetry's conventions for messaging, and our own."""
        return {
            "messaging.system": self._messaging.system,
            "messaging.operation.name": self._operation,
            "messaging.operation.type": "process",
            "messaging.destination.name": self._messaging.named(self.topic),
            "messaging.destination.partition.id": str(record.partition),
            "messaging.consumer.group.name": self._messaging.named(self.group),
            "messaging.kafka.offset": record.offset,
            "messaging.batch.message_count": batch,
            **_told(record, made),
        }


def _told(record: LogRecord, made: Sequence[OutgoingRecord]) -> Attributes:
    """Return what the decision tells, which came or was made; else of the events made."""
    decision = next((one for one in (record, *made) if one.topic == DECISIONS.name), None)
    if decision is None:
        events = [one for one in made if one.topic == EVENTS.name and one.key is not None]
        return {**_scope(events), "memsieve.events": len(events)}
    memories = [_text(value) for name, value in decision.headers if name == MEMORY_ID_HEADER]
    known = {
        _ATTRIBUTES[name]: _text(value) for name, value in decision.headers if name in _ATTRIBUTES
    }
    return {
        **_scope([decision]),
        **known,
        **({"memsieve.memory.ids": memories} if memories else {}),
    }


def _scope(records: Iterable[LogRecord | OutgoingRecord]) -> Attributes:
    """Return the scope from a key: of an event all of it, of a decision its beginning."""
    scope = next(map(scope_of, records), "")
    return {"memsieve.scope": scope} if scope else {}


def _carrying(one: OutgoingRecord, steps: Mapping[int, TraceStep]) -> OutgoingRecord:
    """Return a record with its step's context, in place of another that it may have."""
    step = None if one.cause is None else steps.get(one.cause)
    if step is None or not (context := step.headers):
        return one
    others = (pair for pair in one.headers if pair[0] not in {TRACEPARENT, TRACESTATE})
    return replace(one, headers=(*others, *context))


def _context(headers: Headers) -> Headers:
    return tuple(pair for pair in headers if pair[0] in {TRACEPARENT, TRACESTATE})


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
