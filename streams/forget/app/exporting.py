"""Export of everything a log holds on a tenant, for example before it is forgotten."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from schemas.base import MemoryId
from schemas.codec import DECISION
from schemas.decisions import OnEvent
from streams.forget.core import on_event
from streams.model.neighbours import StoredMemory
from streams.model.ports.failures import Unusable
from streams.model.scope import tenant
from streams.stage.core.ledger import fold
from streams.store.app.reading import StoreReader

_UNFINISHED = ".unfinished"


async def export(reader: StoreReader, wanted: str, directory: Path) -> tuple[int, int] | None:
    """Write a tenant's memories, including retired ones, and its decisions as JSON Lines.

    Returns how many of both, or None, and writes nothing, if there is no such tenant. Raises Unusable if the files exist
    or cannot be written.
    """
    state, decisions = dict[MemoryId, StoredMemory](), list[OnEvent]()
    async for entry in reader.decisions():
        decision = on_event(entry.decision)
        if decision is not None and tenant(decision.event.scope) == wanted:
            decisions.append(decision)
            fold(state, decision, holed=entry.holed)
    if not decisions:
        return None
    memories = sorted(state.values(), key=lambda stored: (stored.memory.scope, stored.memory.id))
    files = {
        "decisions.jsonl": map(DECISION.encode, decisions),
        "memories.jsonl": (stored.memory.model_dump_json().encode() for stored in memories),
    }
    _write(directory, files)
    return len(memories), len(decisions)


def _write(directory: Path, files: Mapping[str, Iterable[bytes]]) -> None:
    """Write new files, all or none. Raises Unusable if one exists or cannot be written.

    A process that is killed leaves a file with the ending `_UNFINISHED`; the next one starts over.
    """
    unfinished = {name: directory / (name + _UNFINISHED) for name in files}
    interrupted = any(file.exists() for file in unfinished.values())
    there = [directory / name for name in files if (directory / name).exists()]
    if there and not interrupted:
        raise Unusable(f"{there[0]} already exists: name another --out")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, lines in files.items():
            with unfinished[name].open("wb") as file:
                file.writelines(line + b"\n" for line in lines)
        for name, file in unfinished.items():
            file.replace(directory / name)
    except OSError as error:
        raise Unusable(f"{directory}: nothing can be written there: {error.strerror}") from error
