"""The deduplicator as a process on the events topic: read, decide, hand out what to append."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from schemas.codec import DEAD_LETTER, EVENT, Unreadable
from schemas.decisions import Decision, Reject
from schemas.events import Remember
from schemas.outcomes import DeadLetter
from schemas.topics import DEAD_LETTERS, DECISIONS, EVENTS
from streams.core.identity import content_key
from streams.core.ledger import touched
from streams.core.overlay import Overlay
from streams.core.scope import partition_of
from streams.flow.dead_letters import oversized
from streams.flow.deduplicate import Deduplicator, Received
from streams.flow.takeover import DEDUPLICATOR_GROUP, applied, take_over
from streams.ports import Fatal, Handled, Index, Log, Outgoing, Poison, Record, Transient

DECISION_ID_HEADER = "memsieve-decision-id"
CONTENT_KEY_HEADER = "memsieve-content-key"
EVENT_ID_HEADER = "memsieve-event-id"
MEMORY_ID_HEADER = "memsieve-memory-id"
KIND_HEADER = "memsieve-kind"

INDEXED = {
    DECISIONS.name: frozenset({DECISION_ID_HEADER, EVENT_ID_HEADER, MEMORY_ID_HEADER}),
}
"""The headers by which a log that can look records up should do so."""

CLOCK_SKEW_MAX = timedelta(minutes=5)
"""How far an event may be ahead of the log's clock: what is to come has not been observed."""


class Owner:
    """Implements ports.Process for memory.events."""

    topic = EVENTS.name
    group = DEDUPLICATOR_GROUP

    def __init__(
        self,
        deduplicator: Deduplicator,
        log: Log,
        index: Index,
        observe: Callable[[Sequence[Decision]], None],
    ) -> None:
        """`observe` is told the decisions that the log has acknowledged."""
        self._deduplicator = deduplicator
        self._log = log
        self._index = index
        self._observe = observe
        self._overlays = dict[int, Overlay]()
        self._partitions = self._letters_partitions = 1

    async def claim(self, partition: int) -> int:
        claim = await take_over(self._log, self._index, partition)
        decided = await self._log.end(DECISIONS.name, partition)
        if claim.next_event and not decided:
            raise Fatal(
                f"{DECISIONS.name}/{partition} is empty, but events up to {claim.next_event:,} were "
                "decided on: the source of truth is gone; restore it, or begin anew under another "
                "kafka.prefix"
            )
        end = await self._log.end(EVENTS.name, partition)
        if claim.next_event > end:
            raise Fatal(
                f"{EVENTS.name}/{partition} ends at {end:,}, but events up to {claim.next_event:,} "
                "were decided on: it was made anew or has lost records; make the other topics anew "
                "with it, under another kafka.prefix"
            )
        self._overlays[partition] = claim.overlay
        self._partitions = await self._log.partitions(EVENTS.name)
        self._letters_partitions = await self._log.partitions(DEAD_LETTERS.name)
        return claim.next_event

    async def handle(self, partition: int, records: Sequence[Record]) -> Handled:
        overlay = self._overlays[partition]
        overlay.settle(await self._level(partition, overlay))
        batch = [Received(record, _read(record, self._partitions)) for record in records]
        made = await self._deduplicator.deduplicate(batch, overlay.fork())
        await self._level(partition, overlay)  # the index that was asked is still the same
        place = partition % self._letters_partitions
        letters = [_dead_letter(letter, place) for letter in made.dead_letters]
        encoded = zip(made.decisions, made.encoded, strict=True)
        decisions = [_decision(decision, value, partition) for decision, value in encoded]

        def appended(offsets: list[int]) -> None:
            overlay.join(made.decisions, offsets[len(letters) :])
            self._observe(made.decisions)

        # Dead letters first: a reject refers to what is already there.
        return Handled([*letters, *decisions], appended)

    async def _level(self, partition: int, overlay: Overlay) -> int:
        """Return what the index holds. Transient where it has lost what it was relied on for."""
        level = await applied(self._index, partition)
        if level < overlay.settled:
            raise Transient(
                f"the index held {DECISIONS.name}/{partition} up to {overlay.settled:,} and now up "
                f"to {level:,}: it is built anew, and the log is read for what it lacks"
            )
        return level

    def release(self, partition: int) -> None:
        self._overlays.pop(partition, None)

    @property
    def unapplied(self) -> int:
        """How many memories the overlays hold: the store does not have their newest state."""
        return sum(len(overlay) for overlay in self._overlays.values())


def _read(record: Record, partitions: int) -> Remember | Poison:
    value = record.value or b""
    if too_long := oversized(value):
        return too_long
    try:
        event = EVENT.decode(value)
    except Unreadable as error:
        return Poison(str(error), error.field)
    return _misplaced(record, event, partitions) or event


def _misplaced(record: Record, event: Remember, partitions: int) -> Poison | None:
    """Tell what about an event's record does not fit what it says."""
    if record.key != event.scope.encode():
        return Poison("the record's key is not the event's scope; publish it keyed by scope", "key")
    place = partition_of(event.scope, partitions)
    if record.partition != place:
        return Poison(
            f"scope {event.scope} belongs into partition {place} of {partitions}: publish with the "
            "partitioner of Kafka's Java client, murmur2 of the key",
            "partition",
        )
    appended = record.appended_at
    if appended is not None and event.occurred_at > appended + CLOCK_SKEW_MAX:
        return Poison(
            f"occurred_at is {event.occurred_at:%Y-%m-%d %H:%M:%S} UTC, but the log took it in at "
            f"{appended:%Y-%m-%d %H:%M:%S}: set the producer's clock right",
            "occurred_at",
        )
    return None


def _decision(decision: Decision, value: bytes, partition: int) -> Outgoing:
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
        value=value,
        headers=tuple((name, value.encode()) for name, value in headers),
    )


def _dead_letter(letter: DeadLetter, partition: int) -> Outgoing:
    return Outgoing(
        topic=DEAD_LETTERS.name,
        partition=partition,
        key=None,
        value=DEAD_LETTER.encode(letter),
    )
