"""Verification: opens the log and the copies of a store or a cluster, and audits them."""

from contextlib import AsyncExitStack, closing

from schemas.topics import DECISIONS
from streams.memories_md.world.file import MemoriesFile
from streams.model.ports.failures import NoStore
from streams.model.ports.log import Log
from streams.store.app import wiring
from streams.store.app.reading import LogTarget, ends
from streams.store.app.settings import Settings
from streams.store.world.store_directory import StoreDirectory
from streams.verify.app.audited import Check, Report, unusable
from streams.verify.app.auditing import Progress, audited
from streams.verify.app.copies import IndexCopy, JsonlCopy, MemoriesMdCopy, MemoryCopy, SqliteCopy


async def verify(target: LogTarget, progress: Progress) -> Report:
    """Audit a store or a cluster. Raises NoStore if there is none."""
    async with AsyncExitStack() as stack:
        opened = _store if target.embedded else _cluster
        log, copies = await opened(target.settings, stack)
        return await audited(log, copies, progress, dense=target.embedded)


async def _store(settings: Settings, stack: AsyncExitStack) -> tuple[Log, list[MemoryCopy | Check]]:
    directory = StoreDirectory(settings.store)
    made = directory.require()
    log = stack.enter_context(closing(wiring.log(directory, read_only=True)))
    if holder := directory.holder():
        why = f"being written by process {holder}; not examined meanwhile"
        return log, [
            Check(name, why) for name in ("index", *(sink.name for sink in _sinks(settings)))
        ]
    if wiring.must_be_rebuilt(made.index, directory.index):
        index = Check("index", f"{made.index}, built from the log at the next start; not examined")
        return log, [index, *_sinks(settings)]
    remedy = f"delete {directory.index} and run again: it is rebuilt from the log"
    try:
        readable = stack.enter_context(directory.index_to_read())
        opened = wiring.index(made.index, readable, made.dimension)
    except NoStore as error:
        return log, [unusable("index", str(directory.index), error, remedy), *_sinks(settings)]
    stack.push_async_callback(opened.close)
    copy = "" if readable == directory.index else " (a copy of it, for it cannot be written)"
    copied = IndexCopy(opened, f"{made.index}, {directory.index}{copy}", remedy)
    return log, [copied, *_sinks(settings)]


async def _cluster(
    settings: Settings, stack: AsyncExitStack
) -> tuple[Log, list[MemoryCopy | Check]]:
    log = wiring.kafka_log(settings)
    stack.push_async_callback(log.close)
    kind = settings.index.kind
    if not kind.shared:
        why = f"{kind}, in the directory of the one `memsieve service serve`; not examined"
        return log, [Check("index", why), *_sinks(settings)]
    place = settings.qdrant.url
    remedy = "memsieve store replay rematerialise: it is rebuilt from the log"
    nothing_yet = not any(
        await ends(log, DECISIONS.name)
    )  # before the index: services create it before deciding
    try:
        index = await wiring.open_collection(settings)
    except NoStore as error:
        if nothing_yet:
            return log, [Check("index", f"{place}: not made yet; not examined"), *_sinks(settings)]
        return log, [unusable("index", place, error, remedy), *_sinks(settings)]
    stack.push_async_callback(index.close)
    return log, [IndexCopy(index, f"{kind}, {place}", remedy), *_sinks(settings)]


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
