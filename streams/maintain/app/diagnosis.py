"""Diagnosis: checks everything that memsieve needs, and names a remedy for each problem."""

import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace

import numpy as np

from schemas.topics import DECISIONS, EVENTS, TOPICS, TURNS, Topic
from streams.extract.flow.extractor import EXTRACTOR_GROUP
from streams.model.neighbours import StoredMemory
from streams.model.policy import InvalidPolicy
from streams.model.ports.failures import Fatal, NoModel, NoStore, Transient
from streams.model.ports.index import Index
from streams.model.ports.log import Log, SearchableLog
from streams.stage.flow.takeover import DEDUPLICATOR_GROUP
from streams.stage.flow.writer import WRITER_GROUP, is_level
from streams.store.app import policies, wiring
from streams.store.app.embedding import settings_of
from streams.store.app.failures import Failure, failure_of
from streams.store.app.reading import LogTarget, StoreReader, ends, unapplied
from streams.store.app.settings import Settings
from streams.store.core.counts import number
from streams.store.world.store_directory import StoreDirectory


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of one part; its fact and its warnings name the remedy.

    `failure` classifies what is wrong; None if the part is healthy.
    """

    subject: str
    fact: str
    warnings: Sequence[str] = ()
    failure: Failure | None = None

    @property
    def healthy(self) -> bool:
        return self.failure is None


Examiner = Callable[[Settings], Awaitable[str | Diagnosis]]
"""Returns what is true of a part that works, or its diagnosis."""


async def examine(target: LogTarget) -> list[Diagnosis]:
    """Examine every part; a broken one does not hide the others."""
    settings = target.settings
    with suppress(NoStore, NoModel, InvalidPolicy):  # the checks below report the error
        settings = settings_of(target)
    parts: list[tuple[str, Examiner]] = [
        ("policy", _policy),
        ("model", lambda known: wiring.examined_model(known.embedder)),
    ]
    if not target.embedded:
        parts += [("topics", _topics), ("groups", _groups), ("index", _collection)]
    else:
        parts += [("store", _store)]
        if settings.store.exists():
            parts += [("log", _log), ("index", _index)]
    return [await _diagnosis(subject, examined(settings)) for subject, examined in parts]


async def _diagnosis(subject: str, examined: Awaitable[str | Diagnosis]) -> Diagnosis:
    try:
        found = await examined
    except (Fatal, Transient, InvalidPolicy) as error:
        return Diagnosis(subject, str(error), failure=failure_of(error))
    return found if isinstance(found, Diagnosis) else Diagnosis(subject, found)


async def _policy(settings: Settings) -> str:
    return policies.configured(settings).id


async def _store(settings: Settings) -> str:
    if not settings.store.exists():
        return f"none yet in {settings.store}; the first run creates it"
    directory = StoreDirectory(settings.store)
    made = directory.require()
    wanted = {
        "model": wiring.model_of(settings.embedder),
        "index": settings.index.kind,
        "partitions": settings.log.partitions,
    }
    directory.check(made.model_copy(update=wanted))  # the dimension follows from the model
    if directory.read_only:
        return f"{settings.store}, made for {made.model}; it is readable but not writable"
    directory.require_space(settings.run.free_disk_bytes_min)
    free = shutil.disk_usage(settings.store).free
    return f"{settings.store}, made for {made.model}, {free / 1e9:,.1f} GB of disk left"


async def _log(settings: Settings) -> str:
    directory = StoreDirectory(settings.store)
    partitions = directory.require().partitions
    with closing(wiring.log(directory, read_only=True)) as log:
        for topic in TOPICS:
            if await log.partitions(topic.name) != partitions:
                raise NoStore(
                    f"topic {topic.name} has not {partitions} partitions: restore the log"
                )
        waiting = await _waiting(log)
    later = "; the next run does that" if any(waiting) else ""
    return f"{len(TOPICS)} topics of {number(partitions, 'partition')}, {_told(*waiting)}{later}"


async def _waiting(log: Log) -> tuple[int, int]:
    """Return the number of undecided events and of unapplied decisions."""
    undecided = await _behind(log, DEDUPLICATOR_GROUP, EVENTS)
    return undecided, await _behind(log, WRITER_GROUP, DECISIONS)


def _told(undecided: int, unapplied: int) -> str:
    return f"{number(undecided, 'event')} to decide, {number(unapplied, 'record')} to apply"


async def _behind(log: Log, group: str, topic: Topic) -> int:
    """Return the lag of a consumer group: the records of a topic that it has not committed."""
    count = 0
    for partition, end in enumerate(await ends(log, topic.name)):
        committed = await log.committed(group, topic.name, partition)
        count += end - (0 if committed is None else committed.offset)
    return count


async def _topics(settings: Settings) -> str:
    partitions = await wiring.partitions(settings.kafka)
    return f"{len(TOPICS)} topics, {number(partitions, 'partition')} of turns, events and decisions"


async def _groups(settings: Settings) -> Diagnosis:
    """Count what waits, and warn of what no service is there to work on."""
    log = wiring.kafka_log(settings)
    try:
        turns = await _behind(log, EXTRACTOR_GROUP, TURNS)
        undecided, unapplied = await _waiting(log)
        waiting = {EXTRACTOR_GROUP: turns, DEDUPLICATOR_GROUP: undecided, WRITER_GROUP: unapplied}
        idle = [
            group for group, count in waiting.items() if count and not await log.has_members(group)
        ]
    finally:
        await log.close()
    remedies = _DISTRIBUTED if settings.index.kind.shared else _IN_ONE_PROCESS
    told = f"{number(turns, 'turn')} to extract from, {_told(undecided, unapplied)}"
    return Diagnosis("groups", told, [remedies[group] for group in idle])


_DISTRIBUTED = {
    EXTRACTOR_GROUP: "nobody extracts from turns: start memsieve service extractor",
    DEDUPLICATOR_GROUP: "nobody decides on events: start memsieve service deduplicator",
    WRITER_GROUP: "nobody applies decisions: start memsieve service writer",
}
_IN_ONE_PROCESS = _DISTRIBUTED | {
    DEDUPLICATOR_GROUP: "nobody decides on events: start memsieve service serve",
    WRITER_GROUP: "nobody applies decisions: start memsieve service serve",
}


async def _collection(settings: Settings) -> str:
    """Compare a server's collection with the log; a local index belongs to its own process."""
    if not settings.index.kind.shared:
        return f"{settings.index.kind}, in the directory of the one `memsieve service serve`; not examined"
    index = await wiring.open_collection(settings)
    log = wiring.kafka_log(settings)
    try:
        if waiting := await unapplied(index, log):
            return f"{waiting:,} records are still to be applied; not examined meanwhile"
        return await _compared(index, log, "the collection", "start the writer again")
    finally:
        await log.close()
        await index.close()


async def _index(settings: Settings) -> str:
    directory = StoreDirectory(settings.store)
    made = directory.require()
    if holder := directory.holder():
        return f"{made.index}, being written by process {holder}; not examined meanwhile"
    if wiring.must_be_rebuilt(made.index, directory.index):
        return f"{made.index}, built from the log at the next start"
    with (
        closing(wiring.log(directory, read_only=True)) as log,
        directory.index_to_read() as readable,
    ):
        index = wiring.index(made.index, readable, made.dimension)
        try:
            if not await is_level(index, log):
                raise NoStore(f"{directory.index} does not match the log; the next run restores it")
            fact = await _compared(index, log, str(directory.index), "run again")
        finally:
            await index.close()
    copied = "" if readable == directory.index else ", by a copy of it, for it cannot be written"
    return f"{made.index}, {fact}{copied}"


async def _compared(index: Index, log: SearchableLog, place: str, remedy: str) -> str:
    """Describe what an index holds. Raises NoStore if it differs from the log."""
    expected = await StoreReader(log, place, lambda _: None).state()
    found = {stored.memory.id: stored async for stored in index.scan()}
    differing = [
        i for i in expected.keys() | found.keys() if not _same(expected.get(i), found.get(i))
    ]
    if differing:
        raise NoStore(
            f"{len(differing):,} memories of {place} differ from the log (one is "
            f"{min(differing)}); delete it and {remedy}: it is rebuilt from the log"
        )
    live = sum(stored.memory.live for stored in found.values())
    return (
        f"{number(live, 'memory', 'memories')}, {len(found) - live:,} retired, all as the log says"
    )


def _same(expected: StoredMemory | None, found: StoredMemory | None) -> bool:
    if expected is None or found is None or not (expected.is_whole and found.is_whole):
        return False
    known, held = (replace(one, vector=None, variants={}) for one in (expected, found))
    pairs = zip(expected.wordings.values(), found.wordings.values(), strict=False)
    return known == held and all(np.array_equal(*pair) for pair in pairs)
