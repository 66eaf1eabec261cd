"""Export of everything a log holds on a tenant, for example before it is forgotten."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from schemas.base import MemoryId
from schemas.codec import DECISION
from schemas.decisions import OnEvent
from streams.forget.core import on_event
from streams.model.neighbours import Stored
from streams.model.ports import Unusable
from streams.model.scope import tenant
from streams.stage.core.ledger import fold
from streams.store.app.reading import StoreReader


@dataclass(frozen=True)
class Exported:
    """What was written of a tenant, and where."""

    directory: Path
    memories: int
    decisions: int


async def export(reader: StoreReader, wanted: str, directory: Path) -> Exported | None:
    """Write a tenant's memories, including retired ones, and its decisions as JSON Lines.

    Returns None, and writes nothing, if there is no such tenant. Raises Unusable if the files exist
    or cannot be written.
    """
    state, decisions = dict[MemoryId, Stored](), list[OnEvent]()
    async for entry in reader.decisions():
        decision = on_event(entry.decision)
        if decision is not None and tenant(decision.event.scope) == wanted:
            decisions.append(decision)
            fold(state, decision, holed=entry.holed)
    if not decisions:
        return None
    memories = sorted(state.values(), key=lambda stored: (stored.memory.scope, stored.memory.id))
    _write(directory, "decisions.jsonl", map(DECISION.encode, decisions))
    lines = (stored.memory.model_dump_json().encode() for stored in memories)
    _write(directory, "memories.jsonl", lines)
    return Exported(directory, len(memories), len(decisions))


def _write(directory: Path, name: str, lines: Iterable[bytes]) -> None:
    """Write a new file. Raises Unusable if it exists or cannot be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / name).open("xb") as file:
            file.writelines(line + b"\n" for line in lines)
    except FileExistsError as error:
        raise Unusable(f"{directory / name} already exists: name another --out") from error
    except OSError as error:
        raise Unusable(f"{directory / name} cannot be written: {error.strerror}") from error
