"""The deduplicator as a process on the events topic: read, decide, hand out what to append."""

from collections.abc import Callable, Sequence

from schemas.codec import DEAD_LETTER, DECISION, EVENT, Unreadable
from schemas.decisions import Decision, Reject
from schemas.events import Remember
from schemas.outcomes import DeadLetter
from schemas.topics import DEAD_LETTERS, DECISIONS, EVENTS
from streams.core.identity import content_key
from streams.core.ledger import touched
from streams.core.overlay import Overlay
from streams.flow.deduplicate import Deduplicator, Received
from streams.flow.takeover import DEDUPLICATOR_GROUP, WRITER_GROUP, take_over
from streams.ports import Handled, Log, Outgoing, Poison, Record

DECISION_ID_HEADER = "memsieve-decision-id"
CONTENT_KEY_HEADER = "memsieve-content-key"
EVENT_ID_HEADER = "memsieve-event-id"
MEMORY_ID_HEADER = "memsieve-memory-id"
KIND_HEADER = "memsieve-kind"

INDEXED = {
    DECISIONS.name: frozenset({DECISION_ID_HEADER, EVENT_ID_HEADER, MEMORY_ID_HEADER}),
}
"""The headers by which a log that can look records up should do so."""

RECORD_BYTES_MAX = 8_388_608
"""A longer record is refused unread; brokers take 1 to 4 MiB as a rule."""


class Owner:
    """Implements ports.Process for memory.events."""

    topic = EVENTS.name
    group = DEDUPLICATOR_GROUP

    def __init__(
        self,
        deduplicator: Deduplicator,
        log: Log,
        observe: Callable[[Sequence[Decision]], None],
    ) -> None:
        """`observe` is told the decisions that the log has acknowledged."""
        self._deduplicator = deduplicator
        self._log = log
        self._observe = observe
        self._overlays: dict[int, Overlay] = {}

    async def claim(self, partition: int) -> int:
        claim = await take_over(self._log, partition)
        self._overlays[partition] = claim.overlay
        return claim.next_event

    async def handle(self, partition: int, records: Sequence[Record]) -> Handled:
        overlay = self._overlays[partition]
        await self._settle(partition, overlay)
        batch = [Received(record, _read(record)) for record in records]
        made = await self._deduplicator.deduplicate(batch, overlay.fork())
        letters = [_dead_letter(letter, partition) for letter in made.dead_letters]
        decisions = [_decision(decision, partition) for decision in made.decisions]

        def appended(offsets: list[int]) -> None:
            overlay.join(made.decisions, offsets[len(letters) :])
            self._observe(made.decisions)

        # Dead letters first: a reject refers to what is already there.
        return Handled([*letters, *decisions], appended)

    async def _settle(self, partition: int, overlay: Overlay) -> None:
        """Forget what the writer has applied."""
        written = await self._log.committed(WRITER_GROUP, DECISIONS.name, partition)
        overlay.settle(0 if written is None else written.offset)


def _read(record: Record) -> Remember | Poison:
    value = record.value or b""
    if len(value) > RECORD_BYTES_MAX:
        return Poison(f"is {len(value):,} bytes long; at most {RECORD_BYTES_MAX:,} are read")
    try:
        return EVENT.decode(value)
    except Unreadable as error:
        return Poison(str(error), error.field)


def _decision(decision: Decision, partition: int) -> Outgoing:
    """Give a decision its record: keyed by scope, with headers to find it by."""
    headers = [
        (KIND_HEADER, decision.kind),
        (DECISION_ID_HEADER, decision.decision_id),
        *((MEMORY_ID_HEADER, identity) for identity in touched(decision)),
    ]
    key = None
    if not isinstance(decision, Reject):
        event = decision.event
        key = event.scope.encode()
        headers.append((EVENT_ID_HEADER, event.event_id))
        headers.append((CONTENT_KEY_HEADER, content_key(event.scope, event.text)))
    return Outgoing(
        topic=DECISIONS.name,
        partition=partition,
        key=key,
        value=DECISION.encode(decision),
        headers=tuple((name, value.encode()) for name, value in headers),
    )


def _dead_letter(letter: DeadLetter, partition: int) -> Outgoing:
    return Outgoing(
        topic=DEAD_LETTERS.name,
        partition=partition,
        key=None,
        value=DEAD_LETTER.encode(letter),
    )
