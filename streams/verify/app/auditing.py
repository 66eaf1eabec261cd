"""Reads a log and its copies for the audit.

Changes nothing. How they are judged is in verify/core/audit.py; here they are only read.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from schemas.base import Position
from schemas.codec import DEAD_LETTER, Unreadable
from schemas.decisions import KINDS, Decision
from schemas.outcomes import DeadLetter
from schemas.topics import DEAD_LETTERS, DECISIONS, EVENTS
from streams.model.fences import BEGINNING, Epoch, ReadPosition
from streams.model.ports.failures import Fatal, NoStore, Transient
from streams.model.ports.log import Log, LogRecord, pages
from streams.stage.flow.decisions import (
    FENCE_HEADER,
    CountedDecision,
    DecisionsReader,
    LoggedFence,
    UncountedReason,
    UncountedRecord,
    decision_record,
)
from streams.stage.flow.incoming import FORWARDED_HEADER
from streams.stage.flow.takeover import DEDUPLICATOR_GROUP, require_log
from streams.store.core.counts import number
from streams.store.flow.past import read_event
from streams.verify.app.audited import Check, LogCounts, Report, unusable
from streams.verify.app.copies import IndexCopy, MemoryCopy
from streams.verify.core.audit import Audit, successors
from streams.verify.core.copies import Copy
from streams.verify.core.findings import SHOWN_MAX, AuditFindings, Violation, unreadable

Progress = Callable[[int, int], None]
"""Receives the number of records read so far, and the total."""


async def audited(
    log: Log, copies: Sequence[MemoryCopy | Check], progress: Progress, *, dense: bool = False
) -> Report:
    """Audit a log and its copies, and return the report.

    Other processes may write meanwhile, so each follower is read before what it follows: first the
    offsets of groups and copies, then decisions, then dead letters and events. If a copy is ahead
    of the decisions that were read, more decisions are read. `dense`: the log itself never skips
    an offset.
    """
    reading = await _Reading.begun(log, progress, dense=dense)
    asked = [c if isinstance(c, Check) else await _Followed.asked(c, reading.audit) for c in copies]
    followed = [one for one in asked if isinstance(one, _Followed)]
    await reading.decisions()
    for one in followed:
        await one.scan(log)
    if any(one.is_in_doubt for one in followed):
        await reading.decisions()
    reading.audit.close_holes()
    await reading.letters()
    await reading.events()
    notes = [*reading.notes(), *(note for one in followed for note in one.notes())]
    of_copies = [one if isinstance(one, Check) else one.check() for one in asked]
    notes += [f"{c.name}: {c.fact}" for c in asked if isinstance(c, Check) and c.healthy]
    counts = reading.counts()
    return Report([*reading.checks(counts), *of_copies], counts, notes)


class _Reading:
    """Reads a log topic by topic and feeds it to the audit."""

    def __init__(
        self, log: Log, audit: Audit, total: int, progress: Progress, *, dense: bool
    ) -> None:
        self.audit = audit
        self._dense = dense
        self._log = log
        self._total = total
        self._progress = progress
        self._done = 0
        self._readers = dict[int, DecisionsReader]()
        self._next = dict[int, int]()
        self._unfenced: set[int] = set()
        """Partitions whose newest fence cannot be read, so that which records count is unknown."""
        self._untold = 0
        self._refused = Counter[UncountedReason]()
        self._notes: list[str] = []

    @classmethod
    async def begun(cls, log: Log, progress: Progress, *, dense: bool) -> "_Reading":
        """Start a reading: count the records, and read which events are committed as decided."""
        partitions = await log.partitions(DECISIONS.name)
        events = await log.partitions(EVENTS.name)
        committed = {
            partition: position.offset
            for partition in range(min(partitions, events))
            if (position := await log.committed(DEDUPLICATOR_GROUP, EVENTS.name, partition))
        }
        audit = Audit(partitions, committed)
        audit.topic(EVENTS.name, events)
        total = sum([await _size(log, topic.name) for topic in (DECISIONS, EVENTS, DEAD_LETTERS)])
        return cls(log, audit, total, progress, dense=dense)

    async def decisions(self) -> None:
        """Read the decisions to the end, from where the last call stopped."""
        for partition in range(self.audit.partitions):
            if partition not in self._next:
                self._next[partition] = await self._beginning(partition)
                self._readers[partition] = DecisionsReader(ReadPosition(self._next[partition]))
            async for record in self._records(DECISIONS.name, partition, self._next[partition]):
                self._note_holes(record)
                self._sort(record, self._readers[partition])
                self._next[partition] = record.offset + 1

    def _note_holes(self, record: LogRecord) -> None:
        """Report offsets without a record, if the log itself never skips one."""
        if self._dense:
            for offset in range(self._next[record.partition], record.offset):
                self.audit.hole(record.position.model_copy(update={"offset": offset}))

    async def _beginning(self, partition: int) -> int:
        beginning = await self._log.beginning(DECISIONS.name, partition)
        if beginning:
            place = Position(topic=DECISIONS.name, partition=partition, offset=beginning)
            what = "is where the decisions begin: earlier ones are gone"
            self.audit.unread(Violation.BEGINNING_LOST, place, what)
            self._unfenced.add(partition)
        return beginning

    def _sort(self, record: LogRecord, reader: DecisionsReader) -> None:
        fences = FENCE_HEADER in dict(record.headers)
        if record.partition in self._unfenced and not fences:
            self._untold += 1
            self.audit.untold(record.position)
            return
        try:
            entry = reader.sort(record)
        except Fatal as error:
            self._take_unread(record, error, fences=fences)
            return
        match entry:
            case LoggedFence():
                self._unfenced.discard(record.partition)
                self.audit.fence(entry.fence, entry.position)
            case UncountedRecord(why=UncountedReason.ERASED):
                pass
            case UncountedRecord():
                self._refused[entry.why] += 1
                if self._refused[entry.why] <= SHOWN_MAX:
                    self._notes.append(f"{record.place} does not count: {entry.why.value}")
            case CountedDecision():
                self.audit.decision(entry.decision, entry.position, holed=entry.holed)
                if not _is_labelled(record, entry.decision, reader.reached.epoch):
                    what = "has a key, or headers, that are not those of its decision"
                    self.audit.log.add(Violation.MISLABELLED, record.place, what)

    def _take_unread(self, record: LogRecord, error: Fatal, *, fences: bool) -> None:
        cause = error.__cause__ if isinstance(error.__cause__, Unreadable) else None
        what = str(error).removeprefix(f"{record.place} ")
        if fences:
            self._unfenced.add(record.partition)
            problem = Violation.FENCE_DAMAGED if cause else Violation.FENCE_WITHOUT_OWNER
            self.audit.unread(problem, record.position, what, is_fence=True)
        else:
            self.audit.unread(unreadable(record.value, cause), record.position, what)

    async def events(self) -> None:
        """Read the events, and look for those that were forwarded."""
        expired = set[int]()
        for partition in range(await self._log.partitions(EVENTS.name)):
            pairing = self.audit.pairing(partition)
            beginning = await self._log.beginning(EVENTS.name, partition)
            async for record in self._records(EVENTS.name, partition, beginning):
                pairing.event(record.offset, partial(read_event, record))
                origin = dict(record.headers).get(FORWARDED_HEADER)
                if origin is not None:
                    self.audit.forwarded(partition, origin.decode("utf-8", "replace"))
            pairing.close(beginning, await self._log.end(EVENTS.name, partition))
            if beginning:
                expired.add(partition)
                self._notes.append(_expired(partition, beginning, pairing.untold))
        if untold := self.audit.close_forwards(expired):
            self._notes.append(
                f"{untold:,} forwards: no event was found, but the first are not kept"
            )

    async def letters(self) -> None:
        """Look for the dead letters that rejects refer to."""
        expired = False
        for partition in range(await self._log.partitions(DEAD_LETTERS.name)):
            beginning = await self._log.beginning(DEAD_LETTERS.name, partition)
            expired = expired or beginning > 0
            async for record in self._records(DEAD_LETTERS.name, partition, beginning):
                self._take_letter(record)
        unread = bool(self.audit.letters.counts)
        if untold := self.audit.close_letters(expired=expired or unread):
            why = "some cannot be read" if unread else "the first are not kept"
            self._notes.append(f"{untold:,} rejects: no dead letter was found, but {why}")

    def _take_letter(self, record: LogRecord) -> None:
        try:
            letter = DEAD_LETTER.decode(record.value or b"")
        except Unreadable as error:
            what = f"is not a dead letter: {error}"
            self.audit.letters.add(Violation.DEAD_LETTER_DAMAGED, record.place, what)
        else:
            if isinstance(letter, DeadLetter):
                self.audit.letter(letter.id)
                return
            self.audit.letter(letter.dead_letter_id)
            if letter.how == "dropped":
                self.audit.dropped(letter.dead_letter_id)

    async def _records(self, topic: str, partition: int, offset: int) -> AsyncIterator[LogRecord]:
        """Yield the records from an offset to the end."""
        async for page in pages(self._log, topic, partition, offset):
            for record in page:
                yield record
            self._done += len(page)
            self._progress(self._done, self._total)

    def checks(self, counts: LogCounts) -> list[Check]:
        """Return the checks of the log."""
        audit, kinds = self.audit, self.audit.kinds
        read = f"{number(kinds.total(), 'decision')}, {number(counts.fences, 'fence')}"
        unheeded = sum(counts.refused.values())
        retired = counts.memories["retired"]
        return [
            Check("log", f"{read}, {number(unheeded, 'record')} not counted", audit.log),
            Check("partitions", f"{audit.partitions}, as every fence says", audit.numbers),
            Check("events", f"one decision each; {counts.waiting:,} waiting", audit.events),
            Check(
                "fold",
                f"the decisions add up to {number(len(audit.state), 'memory', 'memories')}",
                audit.fold,
            ),
            Check("wordings", _wordings(audit), audit.wordings),
            Check(
                "successors",
                f"{retired:,} retired, each for a live memory or by a request",
                successors(audit.state),
            ),
            Check(
                "letters", f"every reject has its dead letter ({kinds['reject']:,})", audit.letters
            ),
            Check(
                "forwards",
                f"every event that was sent on is there ({kinds['forward']:,})",
                audit.forwards,
            ),
            _sum(counts),
        ]

    def counts(self) -> LogCounts:
        """Return the figures of the log."""
        audit = self.audit
        pairings = audit.pairings.values()
        live = sum(stored.memory.live for stored in audit.state.values())
        return LogCounts(
            events=sum(one.events + one.expired + one.erased for one in pairings),
            decisions={**dict.fromkeys(KINDS, 0), **audit.kinds},
            waiting=sum(pairing.waiting for pairing in pairings),
            in_doubt=sum(pairing.in_doubt for pairing in pairings),
            fences=audit.fences,
            refused={
                w.name.lower(): self._refused[w]
                for w in UncountedReason
                if w is not UncountedReason.ERASED
            },
            memories={"live": live, "retired": len(audit.state) - live},
        )

    def notes(self) -> list[str]:
        """Return what is harmless but worth knowing."""
        more = [
            f"{count - SHOWN_MAX:,} more records do not count: {why.value}"
            for why, count in self._refused.items()
            if count > SHOWN_MAX
        ]
        untold = f"{self._untold:,} records follow a fence that is gone or cannot be read"
        return [*self._notes, *more, *([untold] if self._untold else [])]


def _wordings(audit: Audit) -> str:
    """Describe how many wordings the memories keep."""
    memories = [stored.memory for stored in audit.state.values() if stored.memory.live]
    variants = sum(len(memory.variants) for memory in memories)
    folded = sum(memory.folded for memory in memories)
    return f"no text is lost: {number(variants, 'variant')}, {folded:,} folded into the log"


def _sum(counts: LogCounts) -> Check:
    """Check that every event has a decision, and every decision an event."""
    decided = sum(counts.decisions.values())
    told = f"{number(counts.events, 'event')}, {number(decided, 'decision')}, {counts.waiting:,} waiting"
    if counts.in_doubt:
        told += f", {counts.in_doubt:,} in doubt"
    findings = AuditFindings()
    if counts.events != decided + counts.waiting + counts.in_doubt:
        findings.add(Violation.UNEQUAL, EVENTS.name, f"does not add up: {told}")
    return Check("counts", told, findings)


def _is_labelled(record: LogRecord, decision: Decision, epoch: Epoch | None) -> bool:
    """Return whether a record's key and headers, by which it is found, match its decision."""
    if epoch is None:
        return False
    made = decision_record(decision, record.value or b"", record.partition, epoch)
    return record.key == made.key and set(made.headers) <= set(record.headers)


def _expired(partition: int, beginning: int, untold: int) -> str:
    told = f"{EVENTS.name}/{partition} begins at {beginning:,}: earlier records are not kept"
    return f"{told}; for {untold:,} offsets there is no decision" if untold else told


async def _size(log: Log, topic: str) -> int:
    partitions = range(await log.partitions(topic))
    return sum([await log.end(topic, p) - await log.beginning(topic, p) for p in partitions])


@dataclass
class _Followed:
    """A copy, and how far it had followed the log before the log was read."""

    copied: MemoryCopy
    audit: Audit
    levels: Mapping[int, ReadPosition]
    copy: Copy
    failed: AuditFindings = field(default_factory=AuditFindings)
    behind: int = 0

    @classmethod
    async def asked(cls, copied: MemoryCopy, audit: Audit) -> "_Followed | Check":
        try:
            levels = await copied.levels(audit.partitions)
        except NoStore as error:
            return unusable(copied.name, copied.place, error, copied.remedy)
        offsets = {partition: reached.offset for partition, reached in levels.items()}
        return cls(copied, audit, levels, audit.copy(offsets, copied.holds))

    async def scan(self, log: Log) -> None:
        """Read what the copy holds, if it is a copy of this log."""
        for partition, reached in self.levels.items():
            await self._require_log(log, partition, reached)
        if self.failed.counts:
            return
        for partition in range(self.audit.partitions):
            level = self.copy.levels.get(partition, 0)
            self.behind += await log.end(DECISIONS.name, partition) - level
        try:
            async for found in self.copied.scan(self.audit.partitions):
                self.copy.found(found)
        except NoStore as error:
            self.failed.add(Violation.UNUSABLE, self.copied.place, str(error))
            return
        await self._require_same()

    async def _require_same(self) -> None:
        """Raise Transient if the copy was emptied or swapped while it was read."""
        after = await self.copied.levels(self.audit.partitions)
        for partition, reached in self.levels.items():
            if after.get(partition, BEGINNING).offset < reached.offset:
                raise Transient(f"{self._who} was rebuilt or replaced meanwhile: run it again")

    async def _require_log(self, log: Log, partition: int, reached: ReadPosition) -> None:
        place = f"{DECISIONS.name}/{partition}"
        if partition >= self.audit.partitions:
            what = f"{self._who} has followed it, but there is no such partition"
            self.failed.add(Violation.OTHER_LOG, place, what)
            return
        stopped = self.audit.stopped.get(partition, reached.offset)
        if reached.epoch is not None and stopped <= reached.epoch.offset:
            reached = ReadPosition(reached.offset)  # the fence may be what is damaged
        try:
            await require_log(log, reached, partition, who=self._who)
        except Fatal as error:
            self.failed.add(Violation.OTHER_LOG, place, str(error))

    @property
    def _who(self) -> str:
        copied = self.copied
        return "the index" if isinstance(copied, IndexCopy) else f"{copied.name} {copied.place}"

    @property
    def is_in_doubt(self) -> bool:
        return not self.failed.counts and self.copy.is_in_doubt

    def check(self) -> Check:
        copied = self.copied
        findings = self.failed if self.failed.counts else self.audit.compared(self.copy)
        fact = f"{copied.place}: {number(self.copy.count, 'memory', 'memories')} as the log says"
        if self.copy.by_people:
            fact += f", {len(self.copy.by_people):,} of them edited or taken out by hand"
        if blind := sorted(self.audit.blind(self.copy)):
            fact += f", but for what was not compared: partition(s) {', '.join(map(str, blind))}"
        if self.behind:
            fact += f", {number(self.behind, 'record')} behind it"
        return Check(copied.name, fact, findings, copied.remedy)

    def notes(self) -> list[str]:
        return [
            f"{self.copied.name}: partition {partition} was not compared, its decisions do not "
            f"add up from {offset:,} on"
            for partition, offset in self.audit.blind(self.copy).items()
            if not self.failed.counts
        ]
