"""Rebuilds the index or sinks from the decisions, and swaps a new index for the old one."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from schemas.decisions import Marker
from schemas.topics import DECISIONS
from streams.index.exact import ExactIndex
from streams.model.ports.index import Index, Sink
from streams.model.ports.log import Log
from streams.stage.flow.writer import catch_up, written
from streams.store.app import wiring
from streams.store.app.reading import LogTarget, ends, opened, unapplied
from streams.store.app.setting_groups import SinkSettings
from streams.store.app.settings import InvalidSettings
from streams.store.flow.past import Bound, PastDecisions
from streams.store.world.store_directory import StoreDirectory

Report = Callable[[int, int], None]
"""Receives the number of decision records done, and the total."""


@dataclass(frozen=True)
class RebuildResult:
    """What was built: its place, and the number of memories in it."""

    place: str
    memories: int


async def rebuild_index(target: LogTarget, report: Report) -> RebuildResult:
    """Rebuild the index next to the one in use, and swap the two when the new one is level.

    After an interruption it resumes. The services may keep working; a store must not be written
    meanwhile.
    """
    settings = target.settings
    if target.embedded:
        return await _rebuild_store(target, report)
    if not settings.index.kind.shared:
        raise InvalidSettings(
            f"index.kind {settings.index.kind} is a directory of the one `memsieve service serve`: stop "
            "it, delete the directory, and its next start rebuilds it"
        )
    return await _rebuild_collection(target, report)


async def rebuild_sinks(
    target: LogTarget, wanted: SinkSettings, until: Bound | None, report: Report
) -> RebuildResult:
    """Write the memories as they were before `until`, or the current ones, into new sinks."""
    scratch = ExactIndex()
    # A note is not heard: a new copy holds nothing that a person could have edited.
    async with opened(target) as log, wiring.sinks(wanted, lambda _: None) as sinks:
        for sink in sinks:
            await _require_new(sink, await log.partitions(DECISIONS.name))
        goals = await _goals(log, until)
        await _follow(log, goals, scratch, sinks, report)
        return RebuildResult(", ".join(sink.name for sink in sinks), await scratch.count())


async def _rebuild_store(target: LogTarget, report: Report) -> RebuildResult:
    directory = StoreDirectory(target.settings.store)
    made = directory.require()
    if not made.index.durable:
        raise InvalidSettings(f"{target.place} has index exact, which every start rebuilds")
    fresh = directory.index.with_name("index.fresh")
    require_space = partial(directory.require_space, target.settings.run.free_disk_bytes_min)
    with directory.written_by_us(made):
        async with opened(target) as log:
            index = wiring.index(made.index, fresh, made.dimension, require_space)
            try:
                places = [await written(log, p) for p in range(made.partitions)]
                await _follow(log, [place.offset for place in places], index, (), report)
                memories = await index.count()
            finally:
                await index.close()
        before = directory.index.with_name("index.before")
        shutil.rmtree(before, ignore_errors=True)
        if directory.index.exists():
            directory.index.replace(before)
        fresh.replace(directory.index)
        shutil.rmtree(before, ignore_errors=True)
    return RebuildResult(str(directory.index), memories)


async def _rebuild_collection(target: LogTarget, report: Report) -> RebuildResult:
    index = await wiring.open_collection(target.settings)
    try:
        fresh = await index.beside()
        async with opened(target) as log:
            while await unapplied(fresh, log):
                await _follow(log, await _goals(log, None), fresh, (), report)
        before = await index.put_in_place(fresh)
        await index.drop(before)
        return RebuildResult(f"collection {await index.collection()}", await index.count())
    finally:
        await index.close()


async def _follow(
    log: Log, goals: Sequence[int], index: Index, sinks: Sequence[Sink], report: Report
) -> None:
    for partition, goal in enumerate(goals):

        def reached(offset: int, done: int = sum(goals[:partition])) -> None:
            report(done + offset, sum(goals))

        await catch_up(log, partition, goal, index, sinks, reached=reached)


async def _goals(log: Log, until: Bound | None) -> list[int]:
    """Return the offset to stop at for each partition of decisions."""
    goals = await ends(log, DECISIONS.name)
    if until is None:
        return goals
    return [await _first(log, partition, until, end) for partition, end in enumerate(goals)]


async def _first(log: Log, partition: int, until: Bound, end: int) -> int:
    """Return the offset of the first decision on an event at or behind `until`."""
    past = PastDecisions(log, partition)
    while page := await past.page():
        for logged in page:
            decision = logged.decision
            event = None if isinstance(decision, Marker) else decision.event
            if until.reached_by(decision.source.offset, event):
                return logged.position.offset
    return end


async def _require_new(sink: Sink, partitions: int) -> None:
    """Raise InvalidSettings if a sink is not empty, since old and new content would mix."""
    for partition in range(partitions):
        if await sink.level(partition) is not None:
            raise InvalidSettings(f"{sink.name} holds memories already: name a new one")
