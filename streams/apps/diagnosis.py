"""Whether everything that memsieve needs is in order, and what to do where it is not."""

import shutil
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from schemas.topics import DECISIONS, EVENTS, TOPICS
from streams.adapters.store_directory import StoreDirectory
from streams.apps import policies, wiring
from streams.apps.reading import StoreReader
from streams.apps.settings import Settings
from streams.core.neighbours import Stored
from streams.core.policy import InvalidPolicy
from streams.flow.takeover import DEDUPLICATOR_GROUP, WRITER_GROUP
from streams.flow.writer import is_level
from streams.ports import Fatal, NoStore, Transient

Examiner = Callable[[Settings], Awaitable[str]]


@dataclass(frozen=True)
class Finding:
    """What was found about one part; an unhealthy one says what to do."""

    subject: str
    healthy: bool
    fact: str


async def examine(settings: Settings) -> list[Finding]:
    """Examine every part; one that is broken does not hide the others."""
    parts: list[tuple[str, Examiner]] = [("policy", _policy), ("model", _model), ("store", _store)]
    if settings.store.exists():
        parts += [("log", _log), ("index", _index)]
    return [await _finding(subject, examined(settings)) for subject, examined in parts]


async def _finding(subject: str, examined: Awaitable[str]) -> Finding:
    try:
        return Finding(subject, healthy=True, fact=await examined)
    except (Fatal, Transient, InvalidPolicy) as error:
        return Finding(subject, healthy=False, fact=str(error))


async def _policy(settings: Settings) -> str:
    policy = policies.load(settings.policy)
    policies.require_model(policy, settings.embedder.model)
    return policy.id


async def _model(settings: Settings) -> str:
    path = wiring.verify_model(settings.embedder)
    return f"{settings.embedder.model}, every file checked, in {path}"


async def _store(settings: Settings) -> str:
    if not settings.store.exists():
        return f"none yet in {settings.store}; the first run makes it"
    directory = StoreDirectory(settings.store)
    made = directory.require()
    directory.check(made.model_copy(update=_wanted(settings)))
    directory.require_space(settings.run.free_disk_bytes_min)
    free = shutil.disk_usage(settings.store).free
    return f"{settings.store}, made for {made.model}, {free / 1e9:,.1f} GB of disk left"


def _wanted(settings: Settings) -> dict[str, object]:
    """Return what the settings want of a store; the dimension follows from the model."""
    return {
        "model": settings.embedder.model,
        "index": settings.index.kind,
        "partitions": settings.log.partitions,
    }


async def _log(settings: Settings) -> str:
    directory = StoreDirectory(settings.store)
    partitions = directory.require().partitions
    with closing(wiring.log(directory, read_only=True)) as log:
        for topic in TOPICS:
            if await log.partitions(topic.name) != partitions:
                raise NoStore(
                    f"topic {topic.name} has not {partitions} partitions: restore the log"
                )
        undecided = unapplied = 0
        for partition in range(partitions):
            decided = await log.committed(DEDUPLICATOR_GROUP, EVENTS.name, partition)
            applied = await log.committed(WRITER_GROUP, DECISIONS.name, partition)
            undecided += await log.end(EVENTS.name, partition) - (decided.offset if decided else 0)
            unapplied += await log.end(DECISIONS.name, partition) - (
                applied.offset if applied else 0
            )
    waiting = f"{undecided:,} events to decide, {unapplied:,} decisions to apply"
    later = "; the next run does that" if undecided or unapplied else ""
    return f"{len(TOPICS)} topics of {partitions} partition(s), {waiting}{later}"


async def _index(settings: Settings) -> str:
    directory = StoreDirectory(settings.store)
    made = directory.require()
    if holder := directory.holder():
        return f"{made.index}, being written by process {holder}; not examined meanwhile"
    if wiring.must_be_rebuilt(made.index, directory.index):
        return f"{made.index}, built from the log at the next start"
    with closing(wiring.log(directory, read_only=True)) as log:
        index = wiring.index(made.index, directory.index, made.dimension)
        try:
            if not await is_level(index, log):
                raise NoStore(f"{directory.index} does not match the log; the next run restores it")
            expected = await StoreReader(directory, log).state()
            found = {stored.memory.id: stored async for stored in index.scan()}
        finally:
            await index.close()
    differing = [
        i for i in expected.keys() | found.keys() if not _same(expected.get(i), found.get(i))
    ]
    if differing:
        raise NoStore(
            f"{len(differing):,} memories of {directory.index} are not what the log says (one is "
            f"{min(differing)}); delete this directory, and the next run builds it anew"
        )
    live = sum(stored.memory.live for stored in found.values())
    return f"{made.index}, {live:,} memories, {len(found) - live:,} retired, all as the log says"


def _same(expected: Stored | None, found: Stored | None) -> bool:
    if expected is None or found is None or expected.vector is None or found.vector is None:
        return False
    return expected.memory == found.memory and np.array_equal(expected.vector, found.vector)
