"""Whether a log is what it must be, and whether all that follows it says the same.

Changes nothing of what they hold. How they are judged is in core/audit.py; here they are read.
"""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ValidationError

from schemas.base import MemoryId, Position
from schemas.codec import APPLIED, DEAD_LETTER, EVENT, Unreadable
from schemas.decisions import Decision
from schemas.events import Event
from schemas.memories import Memory
from schemas.outcomes import DeadLetter
from schemas.topics import DEAD_LETTERS, DECISIONS, EVENTS
from streams.adapters.memories_md.file import MemoriesFile
from streams.adapters.memories_md.level import Level, level_of, placed_in, read_level
from streams.adapters.store_directory import StoreDirectory
from streams.apps import wiring
from streams.apps.reading import pages
from streams.apps.settings import Settings
from streams.core.audit import (
    REMEDIES,
    SHOWN_MAX,
    Audit,
    Copy,
    Findings,
    Problem,
    Told,
    every,
    successors,
    unreadable,
)
from streams.core.fences import BEGINNING, Epoch, Reached
from streams.core.memories_md.entries import entries
from streams.core.memories_md.keeping import standing, words_digest
from streams.core.memories_md.mapping import location_id, written_at_all
from streams.core.memories_md.parsing import parse
from streams.core.neighbours import Stored
from streams.flow.decisions import (
    FENCE_HEADER,
    DecisionsReader,
    Fenced,
    Logged,
    Refused,
    Why,
    decision_record,
)
from streams.flow.incoming import FORWARDED_HEADER
from streams.flow.takeover import DEDUPLICATOR_GROUP, require_log
from streams.ports import Fatal, Index, Log, NoStore, Record, Transient

_KINDS = ("insert", "merge", "replace", "reinforce", "ignore", "reject", "forward")

Progress = Callable[[int, int], None]
"""Is told how many records are read, and how many there are."""


@dataclass(frozen=True)
class Check:
    """What was examined, what it came to, and what must not be."""

    name: str
    fact: str
    findings: Findings = field(default_factory=Findings)
    remedy: str = ""

    @property
    def healthy(self) -> bool:
        return not self.findings.counts

    @property
    def told(self) -> str:
        """What it came to: the fact, or how much of what must not be."""
        counts = self.findings.counts
        return ", ".join(f"{n:,} {p.value}" for p, n in counts.items()) if counts else self.fact

    def remedy_of(self, problem: Problem) -> str:
        """Return what to do."""
        return REMEDIES.get(problem) or self.remedy


@dataclass(frozen=True)
class Counts:
    """The figures of a log; the events that have expired are counted by their decisions."""

    events: int
    decisions: Mapping[str, int]
    waiting: int
    in_doubt: int
    fences: int
    refused: Mapping[str, int]
    memories: Mapping[str, int]


@dataclass(frozen=True)
class Report:
    """All checks; what adds up; and what is worth knowing and harms nobody."""

    checks: list[Check]
    counts: Counts
    notes: list[str]

    @property
    def healthy(self) -> bool:
        return all(check.healthy for check in self.checks)


@dataclass(frozen=True)
class Flawed:
    """A memory that a copy holds in a way that cannot be right."""

    identity: MemoryId
    flaw: str


class Copied(Protocol):
    """What follows the log and holds its memories. Calls may raise NoStore."""

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> str: ...

    @property
    def remedy(self) -> str:
        """What to do where it holds something else than the log says."""
        ...

    @property
    def whole(self) -> bool:
        """Whether it holds vectors and decisions, too."""
        ...

    def holds(self, memory: Memory) -> bool:
        """Tell whether it has to hold a memory."""
        ...

    async def levels(self, partitions: int) -> Mapping[int, Reached]:
        """Return how far it has followed the partitions that it has begun."""
        ...

    def scan(self, partitions: int) -> AsyncIterator[Stored | Told | Flawed]:
        """Yield what it holds; of a memory's several states the last one yielded counts."""
        ...


async def verify(settings: Settings, *, embedded: bool, progress: Progress) -> Report:
    """Examine a store, or a cluster. Raises NoStore where there is none."""
    async with AsyncExitStack() as stack:
        opened = _store if embedded else _cluster
        log, copies = await opened(settings, stack)
        return await audited(log, copies, progress, dense=embedded)


async def _store(settings: Settings, stack: AsyncExitStack) -> tuple[Log, list[Copied | Check]]:
    directory = StoreDirectory(settings.store)
    made = directory.require()
    log = stack.enter_context(closing(wiring.log(directory, read_only=True)))
    if holder := directory.holder():
        why = f"being written by process {holder}; not examined meanwhile"
        return log, [Check(name, why) for name in ("index", *_sink_names(settings))]
    if wiring.must_be_rebuilt(made.index, directory.index):
        index = Check("index", f"{made.index}, built from the log at the next start; not examined")
        return log, [index, *_sinks(settings)]
    remedy = f"delete {directory.index} and run again: it is built anew from the log"
    try:
        opened = wiring.index(made.index, directory.index, made.dimension)
    except NoStore as error:
        return log, [_unusable("index", str(directory.index), error, remedy), *_sinks(settings)]
    stack.push_async_callback(opened.close)
    copied = IndexCopy(opened, f"{made.index}, {directory.index}", remedy)
    return log, [copied, *_sinks(settings)]


async def _cluster(settings: Settings, stack: AsyncExitStack) -> tuple[Log, list[Copied | Check]]:
    log = wiring.kafka_log(settings)
    stack.push_async_callback(log.close)
    kind = settings.index.kind
    if kind != "qdrant":
        why = f"{kind}, in the directory of the one `memsieve serve`; not examined"
        return log, [Check("index", why), *_sinks(settings)]
    place = settings.qdrant.url
    remedy = "memsieve replay rematerialise: it is built anew from the log"
    try:
        index = await wiring.open_index(settings, create=False)
    except NoStore as error:
        return log, [_unusable("index", place, error, remedy), *_sinks(settings)]
    stack.push_async_callback(index.close)
    return log, [IndexCopy(index, f"qdrant, {place}", remedy), *_sinks(settings)]


def _sinks(settings: Settings) -> list[Copied | Check]:
    wanted = settings.sinks
    found: list[Copied | Check] = []
    if wanted.sqlite is not None:
        found.append(_there("sqlite", wanted.sqlite) or SqliteCopy(wanted.sqlite))
    if wanted.jsonl is not None:
        found.append(_there("jsonl", wanted.jsonl) or JsonlCopy(wanted.jsonl))
    if (file := wanted.memories_md) is not None:
        copied = MemoriesMdCopy(MemoriesFile(file), wanted.memories_md_world)
        found.append(copied if copied.is_kept else _not_there(copied.name, file))
    return found


def _there(name: str, path: Path) -> Check | None:
    """Say that a sink is not there, if so: the writer makes it."""
    return None if path.exists() else _not_there(name, path)


def _not_there(name: str, path: Path) -> Check:
    return Check(name, f"{path} is not there; not examined")


def _sink_names(settings: Settings) -> list[str]:
    return [sink.name for sink in _sinks(settings)]


def _unusable(name: str, place: str, error: Exception, remedy: str) -> Check:
    findings = Findings()
    findings.add(Problem.UNUSABLE, place, str(error))
    return Check(name, place, findings, remedy)


@dataclass(frozen=True)
class IndexCopy:
    """Implements Copied over an index."""

    index: Index
    place: str
    remedy: str
    name: str = "index"
    whole: bool = True

    def holds(self, memory: Memory) -> bool:
        return every(memory)

    async def levels(self, partitions: int) -> Mapping[int, Reached]:
        del partitions
        level = await self.index.level()
        return {} if level is None else {p: f.reached for p, f in level.partitions.items()}

    def scan(self, partitions: int) -> AsyncIterator[Stored | Flawed]:
        del partitions
        return self.index.scan()


@dataclass(frozen=True)
class SqliteCopy:
    """Implements Copied over the table of adapters/sinks/sqlite.py, opened for reading only."""

    path: Path
    name: str = "sqlite"
    remedy: str = "delete it: it is written anew from the log at the next start"
    whole: bool = False

    @property
    def place(self) -> str:
        return str(self.path)

    def holds(self, memory: Memory) -> bool:
        return every(memory)

    async def levels(self, partitions: int) -> Mapping[int, Reached]:
        del partitions
        query = 'SELECT partition, "offset", epoch_offset, epoch_owner, next_event FROM levels'
        with _rows(self.path, query) as rows:
            return {row["partition"]: _reached(row) for row in rows}

    async def scan(self, partitions: int) -> AsyncIterator[Stored | Flawed]:
        del partitions
        with _rows(self.path, "SELECT * FROM memories") as rows:
            for row in rows:
                yield _read_row(row)


@dataclass(frozen=True)
class JsonlCopy:
    """Implements Copied over the feeds of adapters/sinks/jsonl.py."""

    directory: Path
    name: str = "jsonl"
    remedy: str = "delete it: it is written anew from the log at the next start"
    whole: bool = False

    @property
    def place(self) -> str:
        return str(self.directory)

    def holds(self, memory: Memory) -> bool:
        return every(memory)

    async def levels(self, partitions: int) -> Mapping[int, Reached]:
        levels = {partition: self._level(partition) for partition in range(partitions)}
        return {p: level.reached for p, level in levels.items() if level and level.reached}

    async def scan(self, partitions: int) -> AsyncIterator[Stored | Flawed]:
        for partition in range(partitions):
            for stored in self._changes(partition):
                yield stored

    def _level(self, partition: int) -> "_FeedLevel | None":
        path = self.directory / f"memories-{partition}.level.json"
        try:
            return _FeedLevel.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise NoStore(f"{path} cannot be read") from error

    def _changes(self, partition: int) -> Iterator[Stored]:
        """Yield the states up to the feed's size: what lies behind is not acknowledged."""
        level = self._level(partition)
        left = 0 if level is None else level.size
        if not left:
            return
        path = self.directory / f"memories-{partition}.jsonl"
        try:
            with path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if len(line) > left or not line.endswith(b"\n"):
                        raise NoStore(f"{path} was cut or changed at line {number:,}")
                    if line.strip():  # else it was forgotten
                        yield Stored(_memory_of(line, f"{path}:{number}"), None)
                    left -= len(line)
                    if not left:
                        return
        except OSError as error:
            raise NoStore(f"{path} cannot be read: {error.strerror}") from error
        raise NoStore(f"{path} is {left:,} bytes shorter than it was")


@dataclass(frozen=True)
class MemoriesMdCopy:
    """Implements Copied over a file that adapters/memories_md/sink.py keeps.

    What people have written into it is theirs; of an entry that they have edited, struck through or
    taken out, only the version is compared.
    """

    file: MemoriesFile
    world: str
    name: str = "memories_md"
    whole: bool = False

    @property
    def place(self) -> str:
        return str(self.file.path)

    @property
    def remedy(self) -> str:
        return f"delete {level_of(self.file)}: the file is brought in step at the next start"

    @property
    def is_kept(self) -> bool:
        """Whether a writer has begun to keep it."""
        return level_of(self.file).exists()

    def holds(self, memory: Memory) -> bool:
        ours = location_id(memory.scope, self.world) is not None
        return ours and memory.live and written_at_all(memory)

    async def levels(self, partitions: int) -> Mapping[int, Reached]:
        del partitions
        level = read_level(self.file) or Level()
        return {int(partition): reached for partition, reached in level.partitions.items()}

    async def scan(self, partitions: int) -> AsyncIterator[Told]:
        del partitions
        text, level = self._read()
        document, placed = parse(text), placed_in(text, level)
        words = {found.at: found.entry for found in entries(document)}
        stands = {identity: words[at] for at, (identity, _) in standing(document, placed).items()}
        for identity, place in placed.items():
            entry = stands.get(identity)
            if entry is None or words_digest(entry) != place.words:
                yield Told(identity, place.version, text=None, live=None)
            else:
                text_there = entry.text if entry.live else None
                yield Told(identity, place.version, text_there, entry.live)

    def _read(self) -> tuple[str, Level]:
        """Return a text and its level. Raises Transient where they are being written."""
        level, text = read_level(self.file), self.file.read()
        if level is None or read_level(self.file) != level:
            raise Transient(f"{self.place} is being written: verify once more")
        if text is None:
            raise NoStore(f"{self.place} is gone: restore it from a backup")
        return text, level


class _FeedLevel(BaseModel):
    """What is read of a feed's level."""

    reached: Reached | None
    size: int


def _memory_of(line: bytes, place: str) -> Memory:
    try:
        return APPLIED.decode(line).memory
    except Unreadable as error:
        raise NoStore(f"{place} cannot be read: {error}") from error


@contextmanager
def _rows(path: Path, query: str) -> Generator[Iterator[sqlite3.Row]]:
    # Where nothing can be written beside the file, nobody else is writing it either.
    mode = "ro" if os.access(path.parent, os.W_OK) else "ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)) as db:
            db.row_factory = sqlite3.Row
            yield db.execute(query)
    except (sqlite3.Error, IndexError) as error:
        raise NoStore(f"{path} cannot be read: {error}") from error


def _reached(row: sqlite3.Row) -> Reached:
    owner = row["epoch_owner"]
    epoch = None if owner is None else Epoch(row["epoch_offset"], owner)
    return Reached(row["offset"], epoch, row["next_event"])


def _read_row(row: sqlite3.Row) -> Stored | Flawed:
    """Read a memory from its record; its columns must say the same."""
    try:
        memory = Memory.model_validate_json(row["record"])
        differing = [name for name, told in _columns(memory).items() if _value(row, name) != told]
    except (ValueError, TypeError):
        return Flawed(row["id"], "its record, or a column of it, cannot be read")
    if differing:
        return Flawed(row["id"], f"its columns differ from its record: {', '.join(differing)}")
    return Stored(memory, None)


_LISTS = {"tags", "sources"}
_TIMES = {"created_at", "last_seen_at", "superseded_at"}


def _columns(memory: Memory) -> dict[str, object]:
    """Return what a row's columns say of its memory."""
    superseded = memory.superseded
    plain = (
        *("id", "scope", "text", "version", "status", "live", "category", "persistence"),
        *("importance", "confidence", "observation_count", "created_at", "last_seen_at"),
    )
    return {
        **{name: getattr(memory, name) for name in plain},
        "tags": list(memory.tags),
        "sources": list(memory.sources),
        "superseded_by": None if superseded is None else superseded.by,
        "superseded_at": None if superseded is None else superseded.at,
        "superseded_reason": None if superseded is None else superseded.reason,
    }


def _value(row: sqlite3.Row, name: str) -> object:
    value = row[name]
    if value is None:
        return None
    if name in _TIMES:
        return datetime.fromisoformat(value)
    return json.loads(value) if name in _LISTS else value


async def audited(
    log: Log, copies: Sequence[Copied | Check], progress: Progress, *, dense: bool = False
) -> Report:
    """Read a log and its copies, and return what was found.

    Others may go on meanwhile. So what follows is asked first, and what it follows is read later:
    where groups and copies are, then decisions, then events and dead letters. Where a copy is
    further than the decisions that were read, those are read on. `dense`: the log leaves out no
    offset by itself.
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
    await reading.events()
    await reading.letters()
    notes = [*reading.notes(), *(note for one in followed for note in one.notes())]
    of_copies = [one if isinstance(one, Check) else one.check() for one in asked]
    notes += [f"{c.name}: {c.fact}" for c in asked if isinstance(c, Check) and c.healthy]
    counts = reading.counts()
    return Report([*reading.checks(counts), *of_copies], counts, notes)


class _Reading:
    """Reads a log, topic after topic, and hands it to the audit."""

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
        """The partitions whose newest fence cannot be read: nobody can tell what counts there."""
        self._untold = 0
        self._refused = Counter[Why]()
        self._notes: list[str] = []

    @classmethod
    async def begun(cls, log: Log, progress: Progress, *, dense: bool) -> "_Reading":
        """Learn how much there is, and which events count as decided on."""
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
        """Read the decisions from where that was left, to the end."""
        for partition in range(self.audit.partitions):
            if partition not in self._next:
                self._next[partition] = await self._beginning(partition)
                self._readers[partition] = DecisionsReader(Reached(self._next[partition]))
            async for page in self._pages(DECISIONS.name, partition, self._next[partition]):
                for record in page:
                    self._note_holes(record)
                    self._sort(record, self._readers[partition])
                    self._next[partition] = record.offset + 1

    def _note_holes(self, record: Record) -> None:
        """Tell of offsets without a record, where the log leaves none out by itself."""
        if self._dense:
            for offset in range(self._next[record.partition], record.offset):
                self.audit.hole(record.position.model_copy(update={"offset": offset}))

    async def _beginning(self, partition: int) -> int:
        beginning = await self._log.beginning(DECISIONS.name, partition)
        if beginning:
            place = Position(topic=DECISIONS.name, partition=partition, offset=beginning)
            self.audit.beginning_lost(place)
            self._unfenced.add(partition)
        return beginning

    def _sort(self, record: Record, reader: DecisionsReader) -> None:
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
            case Fenced():
                self._unfenced.discard(record.partition)
                self.audit.fence(entry.fence, entry.position)
            case Refused(why=Why.ERASED):
                pass
            case Refused():
                self._refused[entry.why] += 1
                if self._refused[entry.why] <= SHOWN_MAX:
                    self._notes.append(f"{record.place} does not count: {entry.why.value}")
            case Logged():
                self.audit.decision(entry.decision, entry.position, holed=entry.holed)
                if not _is_labelled(record, entry.decision, reader.reached.epoch):
                    what = "has a key, or headers, that are not those of its decision"
                    self.audit.log.add(Problem.MISLABELLED, record.place, what)

    def _take_unread(self, record: Record, error: Fatal, *, fences: bool) -> None:
        cause = error.__cause__ if isinstance(error.__cause__, Unreadable) else None
        what = str(error).removeprefix(f"{record.place} ")
        if fences:
            self._unfenced.add(record.partition)
            problem = Problem.FENCE_DAMAGED if cause else Problem.FENCE_WITHOUT_OWNER
            self.audit.unread_fence(problem, record.position, what)
        else:
            self.audit.unread_decision(unreadable(record.value, cause), record.position, what)

    async def events(self) -> None:
        """Read the events, and look for what was sent on."""
        expired = set[int]()
        for partition in range(await self._log.partitions(EVENTS.name)):
            pairing = self.audit.pairing(partition)
            beginning = await self._log.beginning(EVENTS.name, partition)
            async for page in self._pages(EVENTS.name, partition, beginning):
                for record in page:
                    pairing.event(record.offset, partial(_event, record))
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
            async for page in self._pages(DEAD_LETTERS.name, partition, beginning):
                for record in page:
                    self._take_letter(record)
        unread = bool(self.audit.letters.counts)
        if untold := self.audit.close_letters(expired=expired or unread):
            why = "some cannot be read" if unread else "the first are not kept"
            self._notes.append(f"{untold:,} rejects: no dead letter was found, but {why}")

    def _take_letter(self, record: Record) -> None:
        try:
            letter = DEAD_LETTER.decode(record.value or b"")
        except Unreadable as error:
            what = f"is no dead letter: {error}"
            self.audit.letters.add(Problem.DEAD_LETTER_DAMAGED, record.place, what)
        else:
            is_letter = isinstance(letter, DeadLetter)
            self.audit.letter(letter.id if is_letter else letter.dead_letter_id)

    async def _pages(self, topic: str, partition: int, offset: int) -> AsyncIterator[list[Record]]:
        """Yield the records from an offset to the end."""
        async for page in pages(self._log, topic, partition, offset):
            yield page
            self._done += len(page)
            self._progress(self._done, self._total)

    def checks(self, counts: Counts) -> list[Check]:
        """Return what the log came to."""
        audit, kinds = self.audit, self.audit.kinds
        read = f"{kinds.total():,} decisions, {counts.fences:,} fences"
        unheeded = sum(counts.refused.values())
        retired = counts.memories["retired"]
        return [
            Check("log", f"{read}, {unheeded:,} records that do not count", audit.log),
            Check("partitions", f"{audit.partitions}, as every fence says", audit.numbers),
            Check("events", f"one decision each; {counts.waiting:,} waiting", audit.events),
            Check("fold", f"the decisions add up to {len(audit.state):,} memories", audit.fold),
            Check(
                "successors",
                f"{retired:,} memories are retired, each for one that is live",
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

    def counts(self) -> Counts:
        """Return the figures of the log."""
        audit = self.audit
        pairings = audit.pairings.values()
        live = sum(stored.memory.live for stored in audit.state.values())
        return Counts(
            events=sum(one.events + one.expired + one.erased for one in pairings),
            decisions={**dict.fromkeys(_KINDS, 0), **audit.kinds},
            waiting=sum(pairing.waiting for pairing in pairings),
            in_doubt=sum(pairing.in_doubt for pairing in pairings),
            fences=audit.fences,
            refused={w.name.lower(): self._refused[w] for w in Why if w is not Why.ERASED},
            memories={"live": live, "retired": len(audit.state) - live},
        )

    def notes(self) -> list[str]:
        """Return what is worth knowing and harms nobody."""
        more = [
            f"{count - SHOWN_MAX:,} more records do not count: {why.value}"
            for why, count in self._refused.items()
            if count > SHOWN_MAX
        ]
        untold = f"{self._untold:,} records lie behind a fence that is gone or cannot be read"
        return [*self._notes, *more, *([untold] if self._untold else [])]


def _sum(counts: Counts) -> Check:
    """Check that no event is without a decision, and no decision without an event."""
    decided = sum(counts.decisions.values())
    told = f"{counts.events:,} events, {decided:,} decisions, {counts.waiting:,} waiting"
    if counts.in_doubt:
        told += f", {counts.in_doubt:,} in doubt"
    findings = Findings()
    if counts.events != decided + counts.waiting + counts.in_doubt:
        findings.add(Problem.UNEQUAL, EVENTS.name, f"does not add up: {told}")
    return Check("counts", told, findings)


def _is_labelled(record: Record, decision: Decision, epoch: Epoch | None) -> bool:
    """Tell whether a record's key and headers, by which it is found, are those of its decision."""
    if epoch is None:
        return False
    made = decision_record(decision, record.value or b"", record.partition, epoch)
    return record.key == made.key and set(made.headers) <= set(record.headers)


def _event(record: Record) -> Event | None:
    try:
        return EVENT.decode(record.value or b"")
    except Unreadable:
        return None


def _expired(partition: int, beginning: int, untold: int) -> str:
    told = f"{EVENTS.name}/{partition} begins at {beginning:,}: what lay before is not kept"
    return f"{told}; for {untold:,} offsets there is no decision" if untold else told


async def _size(log: Log, topic: str) -> int:
    partitions = range(await log.partitions(topic))
    return sum([await log.end(topic, p) - await log.beginning(topic, p) for p in partitions])


@dataclass
class _Followed:
    """A copy, and how far it had followed the log before that was read."""

    copied: Copied
    audit: Audit
    levels: Mapping[int, Reached]
    copy: Copy
    failed: Findings = field(default_factory=Findings)
    behind: int = 0

    @classmethod
    async def asked(cls, copied: Copied, audit: Audit) -> "_Followed | Check":
        try:
            levels = await copied.levels(audit.partitions)
        except NoStore as error:
            return _unusable(copied.name, copied.place, error, copied.remedy)
        offsets = {partition: reached.offset for partition, reached in levels.items()}
        return cls(
            copied, audit, levels, audit.copy(offsets, whole=copied.whole, holds=copied.holds)
        )

    async def scan(self, log: Log) -> None:
        """Read what the copy holds, where it is one of this log."""
        for partition, reached in self.levels.items():
            await self._require_log(log, partition, reached)
        if self.failed.counts:
            return
        for partition in range(self.audit.partitions):
            level = self.copy.levels.get(partition, 0)
            self.behind += await log.end(DECISIONS.name, partition) - level
        try:
            async for found in self.copied.scan(self.audit.partitions):
                self._take(found)
        except NoStore as error:
            self.failed.add(Problem.UNUSABLE, self.copied.place, str(error))
            return
        await self._require_same()

    async def _require_same(self) -> None:
        """Raise Transient where what was read was emptied or swapped meanwhile."""
        after = await self.copied.levels(self.audit.partitions)
        for partition, reached in self.levels.items():
            if after.get(partition, BEGINNING).offset < reached.offset:
                raise Transient(f"{self._who} was made anew or swapped meanwhile: verify once more")

    def _take(self, found: Stored | Told | Flawed) -> None:
        if isinstance(found, Flawed):
            self.copy.flawed(found.identity, found.flaw)
        else:
            self.copy.found(found)

    async def _require_log(self, log: Log, partition: int, reached: Reached) -> None:
        place = f"{DECISIONS.name}/{partition}"
        if partition >= self.audit.partitions:
            what = f"{self._who} has followed it, but there is no such partition"
            self.failed.add(Problem.OTHER_LOG, place, what)
            return
        stopped = self.audit.stopped.get(partition, reached.offset)
        if reached.epoch is not None and stopped <= reached.epoch.offset:
            reached = Reached(reached.offset)  # the fence may be what is damaged
        try:
            await require_log(log, reached, partition, who=self._who)
        except Fatal as error:
            self.failed.add(Problem.OTHER_LOG, place, str(error))

    @property
    def _who(self) -> str:
        return "the index" if self.copied.whole else f"{self.copied.name} {self.copied.place}"

    @property
    def is_in_doubt(self) -> bool:
        return not self.failed.counts and self.copy.is_in_doubt

    def check(self) -> Check:
        copied = self.copied
        findings = self.failed if self.failed.counts else self.audit.compared(self.copy)
        fact = f"{copied.place}: {self.copy.count:,} memories as the log says"
        if self.copy.by_people:
            fact += f", {self.copy.by_people:,} of them edited or taken out by hand"
        if blind := sorted(self.audit.blind(self.copy)):
            fact += f", but for what was not compared: partition(s) {', '.join(map(str, blind))}"
        if self.behind:
            fact += f", {self.behind:,} records behind it"
        return Check(copied.name, fact, findings, copied.remedy)

    def notes(self) -> list[str]:
        return [
            f"{self.copied.name}: partition {partition} was not compared, its decisions do not "
            f"add up from {offset:,} on"
            for partition, offset in self.audit.blind(self.copy).items()
            if not self.failed.counts
        ]
