"""The deduplicator as a process on the events topic: read, decide, return what to append."""

from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime

from schemas.base import MemoryId
from schemas.codec import EVENT, REVIEW
from schemas.decisions import Change, Decision, Erase, Insert, Replace
from schemas.events import Event, Forget
from schemas.topics import DEAD_LETTERS, DECISIONS, EVENTS, REVIEWS
from streams.model.fences import ReadPosition
from streams.model.ports.clock import Clock
from streams.model.ports.failures import NotYet, Poison, Transient
from streams.model.ports.index import UNFOLLOWED, DecidedEvents, Index, PartitionLevel
from streams.model.ports.log import HandledBatch, Log, LogRecord, OutgoingRecord, pages
from streams.model.ports.models import Screener
from streams.stage.core.brake import Rates, Watch
from streams.stage.core.overlay import Overlay
from streams.stage.flow.dead_letters import letter_record
from streams.stage.flow.decided import DecidedInPartition
from streams.stage.flow.decisions import DecisionsReader, decision_record
from streams.stage.flow.deduplicate import DecidedBatch, Deduplicator
from streams.stage.flow.forgetting import NOTHING, RequestedErasure, looked_at
from streams.stage.flow.incoming import (
    MisroutedEvent,
    ReceivedRecord,
    addressed,
    forwarded,
    misrouted,
    read,
    screen,
)
from streams.stage.flow.takeover import DEDUPLICATOR_GROUP, Claim, applied, take_over


@dataclass(frozen=True)
class BacklogLimits:
    """How many memories may wait for the writer: in all partitions of a process, and per scope.

    Each takes up to 7 KiB of memory at 384 dimensions, and a search compares with all waiting
    memories of its scope.
    """

    memories_max: int = 100_000
    scope_memories_max: int = 5_000


@dataclass
class _Owned:
    """A partition that was claimed; `next` is the expected offset of its next decision.

    `decided` holds the end offset and time of each append that is not applied yet.
    """

    claim: Claim
    partitions: int
    letters_partitions: int
    reviews_partitions: int
    next: int
    earlier: DecidedInPartition
    brakes: Watch = field(default_factory=Watch)
    decided: deque[tuple[int, datetime]] = field(default_factory=deque[tuple[int, datetime]])

    @property
    def overlay(self) -> Overlay:
        return self.claim.overlay

    @property
    def otherwise(self) -> DecidedEvents:
        """Who knows what was decided on before the overlay, without the index."""
        self.earlier.end = self.overlay.settled
        return self.earlier

    def settle(self, followed: PartitionLevel) -> None:
        """Drop from the overlay what the index now has."""
        self.overlay.settle(followed.reached.offset)
        while self.decided and self.decided[0][0] < followed.reached.offset:
            self.decided.popleft()


@dataclass(eq=False)
class PartitionOwner:
    """Implements ports.Process for memory.events.

    `observe` gets the decisions that the log has acknowledged, `claimed` each claim. `named` is
    told, before them, the titles of the memories that they were compared with. `token` is this
    process's alone: its fences carry it. `warn` is told, in a line, where the brake goes on or off,
    and what was stored unchecked. `screener` looks through events, where the policy wants it.
    """

    topic = EVENTS.name
    group = DEDUPLICATOR_GROUP

    deduplicator: Deduplicator
    log: Log
    index: Index
    observe: Callable[[Sequence[Decision]], None]
    _: KW_ONLY
    token: str
    clock: Clock
    limits: BacklogLimits = BacklogLimits()
    claimed: Callable[[Claim], None] = lambda _: None
    named: Callable[[Mapping[MemoryId, str]], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None
    screener: Screener | None = None
    _owned: dict[int, _Owned] = field(default_factory=dict[int, _Owned], init=False)
    _followed_to: dict[int, PartitionLevel] = field(
        default_factory=dict[int, PartitionLevel], init=False
    )
    _failures: Counter[int] = field(default_factory=Counter[int], init=False)

    async def claim(self, partition: int) -> int:
        followed = await self._level(partition) or await self._last_level(partition)
        claim = await take_over(self.log, followed.reached, partition, self.token)
        owned = _Owned(
            claim,
            await self.log.partitions(EVENTS.name),
            await self.log.partitions(DEAD_LETTERS.name),
            await self.log.partitions(REVIEWS.name),
            next=claim.epoch.offset + 1,
            earlier=DecidedInPartition(self.log, partition),
        )
        if len(claim.overlay):
            owned.decided.append((claim.epoch.offset, self.clock.now()))
        self._owned[partition] = owned
        self.claimed(claim)
        return claim.next_event

    async def handle(self, partition: int, records: Sequence[LogRecord]) -> HandledBatch:
        owned = self._owned[partition]
        followed = await self._followed(partition, owned)
        if followed is not None:
            owned.settle(followed)
        received = [ReceivedRecord(record, _read(record, owned.partitions)) for record in records]
        screened = [screen(item, self.deduplicator.policy, self.screener) for item in received]
        looked = await self._looked_at(partition, screened)
        batch = [
            one if look.fits else replace(one, erasable=False)
            for one, look in zip(screened, looked, strict=True)
        ]
        self._require_room(owned, batch)
        fork = owned.overlay.fork()
        with self._counting(partition):
            otherwise = None if self._waits(partition) else owned.otherwise
            made = await self.deduplicator.deduplicate(batch, fork, otherwise=otherwise)
        if not made.blind:
            await self._require_same(partition, owned, followed)
        place = partition % owned.letters_partitions
        before = [
            *(letter_record(letter, place) for letter in made.dead_letters),
            *_reviews(made, partition % owned.reviews_partitions),
            *_forwarded(batch),
            *_published_anew(made.decisions, looked, owned.partitions),
        ]
        encoded = zip(made.decisions, made.encoded, strict=True)
        epoch = owned.claim.epoch
        decisions = [decision_record(one, value, partition, epoch) for one, value in encoded]

        async def appended(offsets: list[int]) -> None:
            own = offsets[len(before) :]
            await self._require_owned(partition, owned, own)
            owned.overlay.adopt(fork, own)
            owned.decided.append((own[-1], self.clock.now()))
            if otherwise is None or not made.silent:
                del self._failures[partition]
            self._tell_unchecked(made)
            self.named(made.titles)
            self.observe(made.decisions)
            self._watch_brakes(owned, made.decisions)

        # A decision refers to its dead letter, event or question: those come first.
        return HandledBatch([*before, *decisions], appended)

    async def _looked_at(
        self, partition: int, batch: Sequence[ReceivedRecord]
    ) -> list[RequestedErasure]:
        """Read the records that requests to forget ask to be erased."""
        looked: list[RequestedErasure] = []
        for event in (item.event for item in batch):
            here = NOTHING
            if isinstance(event, Forget):
                key = self.deduplicator.required_key(event.scope)
                here = await looked_at(self.log, partition, event, key)
            looked.append(here)
        return looked

    def _tell_unchecked(self, made: DecidedBatch) -> None:
        """Warn of what was let through."""
        new = [one for one in made.decisions if isinstance(one, Insert | Replace)]
        unchecked = sum(one.memory.unchecked is not None for one in new)
        if made.silent and unchecked:
            why = "; ".join(f"{who}: {failure}" for who, failure in made.silent.items())
            self.warn(f"stored unchecked, as the policy allows: {unchecked:,} events; {why}")

    def _watch_brakes(self, owned: _Owned, decisions: Sequence[Decision]) -> None:
        scopes = {one.event.scope for one in decisions if isinstance(one, Change)}
        for line in owned.brakes.turned(owned.overlay.recent, scopes, self.deduplicator.policy):
            self.warn(line)

    async def _require_owned(self, partition: int, owned: _Owned, own: Sequence[int]) -> None:
        """Raise Transient if another owner has fenced the partition in the meantime.

        Contiguous offsets prove that no other process wrote. A gap is read: late records of a
        fenced-out owner do not matter, a fence does.
        """
        if own[-1] - owned.next + 1 > len(own):
            reader = DecisionsReader(ReadPosition(owned.next, owned.claim.epoch))
            shown = pages(self.log, DECISIONS.name, partition, owned.next, own[-1] + 1)
            async for records in shown:
                for record in records:
                    reader.sort(record)
            if reader.reached.offset <= own[-1]:
                raise Transient(f"{DECISIONS.name}/{partition} does not show what was appended")
            if reader.reached.epoch != owned.claim.epoch:
                raise Transient(f"another owner has taken {DECISIONS.name}/{partition}")
        owned.next = own[-1] + 1

    def _waits(self, partition: int) -> bool:
        """Tell whether embedder and index are waited for, or have failed too often."""
        rule = self.deduplicator.policy.fail_open
        return not rule.enabled or self._failures[partition] < rule.attempts

    @contextmanager
    def _counting(self, partition: int) -> Generator[None]:
        """Count a failure of those who are asked about what is there."""
        try:
            yield
        except NotYet:
            raise
        except Transient:
            self._failures[partition] += 1
            raise

    async def _level(self, partition: int) -> PartitionLevel | None:
        """Return how far the index goes; None where it does not tell, and need not."""
        try:
            with self._counting(partition):
                followed = await applied(self.index, partition)
        except Transient:
            if self._waits(partition):
                raise
            return None
        self._followed_to[partition] = followed
        return followed

    async def _last_level(self, partition: int) -> PartitionLevel:
        """Return how far the index went when it last told; from there on, the log tells the rest.

        Where it never told, that is all of the log. Transient where that is not whole.
        """
        followed = self._followed_to.get(partition, UNFOLLOWED)
        if followed.reached.offset < await self.log.beginning(DECISIONS.name, partition):
            raise Transient("the index does not answer, and the log begins after its level")
        return followed

    async def _followed(self, partition: int, owned: _Owned) -> PartitionLevel | None:
        """Return what the index holds; None where it does not tell, and need not.

        Transient where that is less than was left to it.
        """
        followed = await self._level(partition)
        if followed is None:
            return None
        level, settled = followed.reached.offset, owned.overlay.settled
        if level < settled:
            raise Transient(
                f"the index held {DECISIONS.name}/{partition} up to {settled:,} and now up to "
                f"{level:,}: the log is read for what it lacks"
            )
        return followed

    async def _require_same(
        self, partition: int, owned: _Owned, before: PartitionLevel | None
    ) -> None:
        """Raise Transient where the index that was asked was lost, or swapped, meanwhile.

        Its answers would be those of two: what neither had at its time would be unknown. So where
        it did not tell, before or after, how far it goes.
        """
        after = await self._followed(partition, owned)
        if before is None or after is None:
            raise Transient("the index answered only in part: the query is repeated")
        if before.index and after.index != before.index:
            raise Transient(
                f"the index of {DECISIONS.name}/{partition} was rebuilt or replaced while it was "
                "queried: the query is repeated"
            )

    def _require_room(self, owned: _Owned, batch: Sequence[ReceivedRecord]) -> None:
        """Raise NotYet if too much waits for the writer: the overlay is held in memory."""
        if (waiting := self.unapplied) >= self.limits.memories_max:
            raise NotYet(f"{waiting:,} memories wait to be applied: is the writer running?")
        for scope in {event.scope for one in batch if (event := one.decidable) is not None}:
            if (waiting := owned.overlay.in_scope(scope)) >= self.limits.scope_memories_max:
                raise NotYet(
                    f"{waiting:,} memories of one scope wait to be applied: is the writer running?"
                )

    def release(self, partition: int) -> None:
        self._owned.pop(partition, None)

    async def settle(self, partition: int) -> None:
        """Drop from the overlay what the index has by now.

        A loss in the index matters only with the next event; its writer may restore it until then.
        """
        followed = await self._level(partition)
        if followed is not None:
            self._owned[partition].settle(followed)

    @property
    def unapplied(self) -> int:
        """How many memories the overlays hold: those whose newest state the store lacks."""
        return sum(len(owned.overlay) for owned in self._owned.values())

    @property
    def rates(self) -> Rates:
        """The rates of the newest changes in this process's partitions, as the brake sees them."""
        return sum((owned.overlay.recent.overall for owned in self._owned.values()), Rates())

    @property
    def unapplied_seconds(self) -> float:
        """How long the oldest unapplied decision has been waiting, as far as known."""
        oldest = [owned.decided[0][1] for owned in self._owned.values() if owned.decided]
        return (self.clock.now() - min(oldest)).total_seconds() if oldest else 0.0


def _read(record: LogRecord, partitions: int) -> Event | MisroutedEvent | Poison:
    event = read(record, EVENT, likely="remember")
    if isinstance(event, Poison):
        return event
    found = misrouted(record, event.scope, partitions)
    return MisroutedEvent(event, found) if isinstance(found, int) else found or event


def _forwarded(batch: Sequence[ReceivedRecord]) -> list[OutgoingRecord]:
    found = [(r.record, r.event) for r in batch if isinstance(r.event, MisroutedEvent)]
    return [forwarded(record, one.event.scope, one.partition) for record, one in found]


def _published_anew(
    decisions: Sequence[Decision], looked: Sequence[RequestedErasure], partitions: int
) -> list[OutgoingRecord]:
    """Return the records that republish what stays of erased events, without what is forgotten."""
    found = zip(decisions, looked, strict=True)
    made = [look for one, look in found if isinstance(one, Erase) and one.erased]
    again = [event for look in made for event in look.again]
    return [addressed(event.scope, EVENT.encode(event), partitions) for event in again]


def _reviews(made: DecidedBatch, partition: int) -> list[OutgoingRecord]:
    if not made.reviews:
        return []
    sources = {decision.decision_id: decision.source for decision in made.decisions}
    return [
        OutgoingRecord(
            topic=REVIEWS.name,
            partition=partition,
            key=review.scope.encode(),
            value=REVIEW.encode(review),
            cause=sources[review.decision_id].offset,
        )
        for review in made.reviews
    ]
