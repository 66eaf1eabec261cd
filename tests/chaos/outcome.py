"""What a run came to: counted, and compared with one process that decides alone."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from pydantic_core import from_json

from schemas.base import MemoryId
from schemas.codec import APPLIED, DEAD_LETTER, EVENT, Unreadable
from schemas.decisions import Change, Decision, Forward, Reject, Revision
from schemas.memories import Memory
from schemas.outcomes import DeadLetter
from schemas.topics import CHANGES, DEAD_LETTERS, DECISIONS, EVENTS
from streams.model.neighbours import StoredMemory
from streams.model.ports.log import Log, LogRecord, OutgoingRecord
from streams.model.ports.models import Embedder
from streams.model.scope import partition_of
from streams.stage.core.ledger import fold
from streams.stage.flow.decisions import (
    CountedDecision,
    DecisionsReader,
    LoggedFence,
    UncountedReason,
    UncountedRecord,
)
from streams.stage.flow.incoming import FORWARDED_HEADER
from streams.store.app import policies, settings
from streams.store.app.processes import embedded
from streams.store.app.reading import LogTarget, opened
from tests.chaos.embedder import WordEmbedder
from tests.chaos.stream import KEY, SECRET
from tests.chaos.trouble import Trouble
from tests.support.stage import decisions as about
from tests.support.stage.decisions import kind_of

_MARGIN = timedelta(seconds=0.25)
"""What a worker had sent when it was hit may arrive a moment later."""

_CHUNK = 1_000
_SHOWN = 5

Topics = Mapping[str, Sequence[Sequence[LogRecord]]]
"""Every record of every topic, by its name and partition."""


@dataclass(frozen=True)
class Counting:
    """A decision that counts, and its record."""

    decision: Decision
    record: LogRecord

    @property
    def value(self) -> bytes:
        return self.record.value or b""


@dataclass
class Sorted:
    """A partition of decisions: those that count, who fenced it, and what does not count."""

    counting: list[Counting] = field(default_factory=list[Counting])
    owners: list[str] = field(default_factory=list[str])
    refused: Counter[UncountedReason] = field(default_factory=Counter[UncountedReason])

    @property
    def takeovers(self) -> int:
        """How often it was taken by another owner than the one before."""
        return sum(a != b for a, b in zip(self.owners, self.owners[1:], strict=False))


def sort(records: Sequence[LogRecord]) -> Sorted:
    """Sort a partition of decisions as every reader does."""
    reader, found = DecisionsReader(), Sorted()
    for record in records:
        match reader.sort(record):
            case CountedDecision(decision=decision):
                found.counting.append(Counting(decision, record))
            case LoggedFence(fence=fence):
                found.owners.append(fence.owner)
            case UncountedRecord(why=why):
                found.refused[why] += 1
    return found


@dataclass(frozen=True)
class Recovery:
    """How long it took until somebody answered again, of each partition of each worker hit.

    `alone` are those times in which nothing else went wrong.
    """

    seconds: Sequence[float]
    alone: Sequence[float]


def recovery(trouble: Trouble, role: str, answers: Sequence[Sequence[LogRecord]]) -> Recovery:
    """Return how long it took to recover; `answers` are the records of each partition."""
    seconds: list[float] = []
    alone: list[float] = []
    for hit in (hit for hit in trouble.hits if hit.role == role):
        for partition in hit.partitions:
            times = (record.appended_at for record in answers[partition])
            later = (at for at in times if at is not None and at > hit.at + _MARGIN)
            if (after := next(later, None)) is not None:
                seconds.append((after - hit.at).total_seconds())
                if not any(hit.at + _MARGIN < other < after for other in trouble.times):
                    alone.append(seconds[-1])
    return Recovery(seconds, alone)


def is_astray(record: LogRecord, partitions: int) -> bool:
    """Tell whether an event has to be sent on to the partition and key of its scope."""
    try:
        scope = EVENT.decode(record.value or b"").scope
    except Unreadable:
        return False
    right = record.partition == partition_of(scope, partitions) and record.key == scope.encode()
    return not right and FORWARDED_HEADER not in dict(record.headers)


async def alone(
    events: Sequence[Sequence[LogRecord]],
    store: Path,
    *,
    embedder: Callable[[], Embedder] = WordEmbedder,
    batch_records: int = 64,
) -> list[Sorted]:
    """Let one embedded process decide, on the events where they lie; return its decisions.

    Those that are astray are left out: a forwarded copy counts where it arrived.
    """
    partitions = len(events)
    chosen = settings.load(
        {
            "store": store,
            "index": {"kind": "exact"},
            "log": {"partitions": partitions},
            "run": {"batch_records": batch_records},
            "forget": {"key": SECRET},
        }
    )
    policy = policies.load(chosen.policy)
    async with embedded(chosen, policy, embedder(), lambda _: None) as pipeline:
        for records in events:
            own = [record for record in records if not is_astray(record, partitions)]
            for start in range(0, len(own), _CHUNK):
                await pipeline.replay(own[start : start + _CHUNK])
    async with opened(LogTarget.of_store(chosen)) as log:
        return [sort(await _records(log, DECISIONS.name, p)) for p in range(partitions)]


async def _records(log: Log, topic: str, partition: int) -> list[LogRecord]:
    found: list[LogRecord] = []
    while page := await log.read(topic, partition, len(found), _CHUNK):
        found += page
    return found


def lost(topics: Topics, decisions: Sequence[Sorted], sent: Counter[OutgoingRecord]) -> list[str]:
    """Return what was published and is not there, or not decided."""
    there = Counter(
        OutgoingRecord(
            EVENTS.name, record.partition, record.key, record.value or b"", record.headers
        )
        for records in topics[EVENTS.name]
        for record in records
    )
    found = [f"an event of partition {one.partition}" for one in (sent - there).elements()]
    for records, made in zip(topics[EVENTS.name], decisions, strict=True):
        decided = {one.decision.source.offset for one in made.counting}
        found += [record.place for record in records if record.offset not in decided]
    return [f"lost: {what}" for what in found]


def duplicated(decisions: Sequence[Sorted]) -> list[str]:
    """Return what was decided more than once: a record, or an event that came again."""
    records = Counter(_place(one.decision) for made in decisions for one in made.counting)
    changes = Counter(
        one.decision.decision_id
        for made in decisions
        for one in made.counting
        if isinstance(one.decision, Change | Revision)
    )
    found = [place for place, count in records.items() if count > 1]
    found += [identity for identity, count in changes.items() if count > 1]
    found += [
        f"partition {p}" for p, made in enumerate(decisions) if made.refused[UncountedReason.AGAIN]
    ]
    return [f"duplicated: {what}" for what in found]


def otherwise(decisions: Sequence[Sorted], expected: Sequence[Sorted]) -> list[str]:
    """Return where decisions are not, byte for byte, those that one process makes alone."""
    found: list[str] = []
    for made, wanted in zip(decisions, expected, strict=True):
        here = {one.decision.source.offset: one for one in _own(made)}
        there = {one.decision.source.offset: one for one in _own(wanted)}
        for offset in sorted(here.keys() | there.keys()):
            found += _differing(here.get(offset), there.get(offset))
    return found


def _place(decision: Decision) -> str:
    source = decision.source
    return f"{source.topic}/{source.partition}/{source.offset}"


def _own(made: Sorted) -> Iterator[Counting]:
    """Yield the decisions on events of the partition itself."""
    return (one for one in made.counting if not isinstance(one.decision, Forward))


def _differing(here: Counting | None, there: Counting | None) -> list[str]:
    known = here or there
    if known is None or (here and there and here.value == there.value):
        return []
    place = f"differs: {_place(known.decision)}"
    if here is None or there is None:
        return [f"{place} is decided only {'alone' if here is None else 'here'}"]
    one, other = from_json(here.value), from_json(there.value)
    fields = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    kinds = f"{here.decision.kind} instead of {there.decision.kind}"
    return [f"{place}: {kinds}, in {', '.join(fields)}"]


def unforwarded(topics: Topics, decisions: Sequence[Sorted]) -> list[str]:
    """Return the events that are astray and not sent on, or sent on and not astray."""
    events = topics[EVENTS.name]
    wanted = {r.place for records in events for r in records if is_astray(r, len(events))}
    marked = {
        _place(one.decision)
        for made in decisions
        for one in made.counting
        if isinstance(one.decision, Forward)
    }
    copies = {
        value.decode()
        for records in events
        for record in records
        for name, value in record.headers
        if name == FORWARDED_HEADER and value is not None
    }
    wrong = (wanted ^ marked) | (wanted - copies)
    return [f"not sent on as it should: {place}" for place in sorted(wrong)]


def learnt_again(decisions: Sequence[Sorted]) -> list[str]:
    """Return the events that say what was forgotten before them, and were believed."""
    return [
        said
        for made in decisions
        for said in about.learnt_again((one.decision for one in made.counting), KEY)
    ]


def without_letter(topics: Topics, decisions: Sequence[Sorted]) -> list[str]:
    """Return the rejects that refer to a dead letter that is not there."""
    letters = {
        letter.id
        for records in topics[DEAD_LETTERS.name]
        for record in records
        if isinstance(letter := DEAD_LETTER.decode(record.value or b""), DeadLetter)
    }
    return [
        f"no dead letter for {_place(one.decision)}"
        for made in decisions
        for one in made.counting
        if isinstance(one.decision, Reject) and one.decision.dead_letter_id not in letters
    ]


def changed_otherwise(topics: Topics, expected: Sequence[Sorted]) -> list[str]:
    """Return the memories of which memory.changes does not tell the last state."""
    told = dict[MemoryId, Memory]()
    for record in (record for records in topics[CHANGES.name] for record in records):
        change = APPLIED.decode(record.value or b"")
        known = told.get(change.memory_id)
        if known is None or change.memory.version > known.version:
            told[change.memory_id] = change.memory
    state = dict[MemoryId, StoredMemory]()
    for made in expected:
        for one in made.counting:
            fold(state, one.decision)
    wanted = {identity: stored.memory for identity, stored in state.items()}
    differing = {i for i in told.keys() | wanted.keys() if told.get(i) != wanted.get(i)}
    return [f"memory.changes is wrong about {identity}" for identity in sorted(differing)]


def listed(differences: Sequence[str]) -> list[str]:
    """Return the first of them, and how many there are."""
    more = [f"... {len(differences):,} in all"] if len(differences) > _SHOWN else []
    return [*differences[:_SHOWN], *more]


def kinds(decisions: Sequence[Sorted]) -> Counter[str]:
    return Counter(kind_of(one.decision) for made in decisions for one in made.counting)
