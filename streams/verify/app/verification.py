"""Verification: opens the log and the copies of a store or a cluster, and audits them."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from schemas.topics import DECISIONS
from streams.memories_md.world.file import MemoriesFile
from streams.model.ports.failures import NoStore
from streams.model.ports.log import Log
from streams.store.app import wiring
from streams.store.app.reading import LogTarget, ends, opened
from streams.store.app.settings import Settings
from streams.store.world.store_directory import StoreDirectory
from streams.verify.app.audited import Check, Report, unusable
from streams.verify.app.auditing import Progress, audited
from streams.verify.app.copies import IndexCopy, JsonlCopy, MemoriesMdCopy, MemoryCopy, SqliteCopy


async def verify(target: LogTarget, progress: Progress) -> Report:
    """Audit a store or a cluster. Raises NoStore if there is none."""
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(opened(target))
        copies = await _copies(target, log, stack)
        return await audited(log, copies, progress, dense=target.embedded)


async def _copies(
    target: LogTarget, log: Log, stack: AsyncExitStack
) -> Sequence[MemoryCopy | Check]:
    sinks, directory = _sinks(target.settings), target.directory
    if directory is None:
        return [await _collection(target.settings, log, stack), *sinks]
    if holder := directory.holder():
        why = f"being written by process {holder}; not examined meanwhile"
        return [Check(name, why) for name in ("index", *(sink.name for sink in sinks))]
    return [_index(directory, stack), *sinks]


def _index(directory: StoreDirectory, stack: AsyncExitStack) -> MemoryCopy | Check:
    made = directory.require()
    if wiring.must_be_rebuilt(made.index, directory.index):
        return Check("index", f"{made.index}, built from the log at the next start; not examined")
    remedy = f"delete {directory.index} and run again: it is rebuilt from the log"
    try:
        readable = stack.enter_context(directory.index_to_read())
        index = wiring.index(made.index, readable, made.dimension)
    except NoStore as error:
        return unusable("index", str(directory.index), error, remedy)
    stack.push_async_callback(index.close)
    copy = "" if readable == directory.index else " (a copy of it, for it cannot be written)"
    return IndexCopy(index, f"{made.index}, {directory.index}{copy}", remedy)


async def _collection(settings: Settings, log: Log, stack: AsyncExitStack) -> MemoryCopy | Check:
    kind, place = settings.index.kind, settings.qdrant.url
    if not kind.shared:
        why = f"{kind}, in the directory of the one `memsieve service serve`; not examined"
        return Check("index", why)
    remedy = "memsieve store replay rematerialise: it is rebuilt from the log"
    # Before the index: services create it before deciding.
    nothing_yet = not any(await ends(log, DECISIONS.name))
    try:
        index = await wiring.open_collection(settings)
    except NoStore as error:
        if nothing_yet:
            return Check("index", f"{place}: not made yet; not examined")
        return unusable("index", place, error, remedy)
    stack.push_async_callback(index.close)
    return IndexCopy(index, f"{kind}, {place}", remedy)


def _sinks(settings: Settings) -> list[MemoryCopy | Check]:
    """Return the sinks; one that is not there yet, which is no error, as a check that says so."""
    wanted = settings.sinks
    found: list[MemoryCopy] = []
    if wanted.sqlite is not None:
        found.append(SqliteCopy(wanted.sqlite))
    if wanted.jsonl is not None:
        found.append(JsonlCopy(wanted.jsonl))
    if wanted.memories_md is not None:
        found.append(MemoriesMdCopy(MemoriesFile(wanted.memories_md), wanted.memories_md_world))
    return [
        one if one.is_there else Check(one.name, f"{one.place} is not there; not examined")
        for one in found
    ]
