"""`memsieve memory history`: a memory's versions, its origins and its successors."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import typer

from schemas.memories import Memory
from streams.changes.app.lineages import MemoryLineage
from streams.changes.app.lineages import history as life
from streams.changes.core.history import MemoryVersion, differences, said_by, standing
from streams.stage.core.explain import why
from streams.store.app.reading import StoreReader, read
from streams.store.cli import options
from streams.store.cli.console import quoted, tell

_TEXT_WIDTH = 80


def history(
    identity: Annotated[
        str, typer.Argument(metavar="ID", help="A memory id or its prefix, a name, or an event id.")
    ],
    *,
    scope: options.OneScope = None,
    where: options.ReadOptions,
) -> None:
    """Show a memory's versions, with authors, reasons and sources."""
    told = read(where.to_read(), partial(_history, beginning=identity, scope=scope))
    tell(_lines(told), _as_json(told), as_json=where.as_json)


async def _history(reader: StoreReader, beginning: str, scope: str | None) -> MemoryLineage:
    return await life(reader, await options.memory_id(reader, beginning, scope))


def _lines(told: MemoryLineage) -> Iterator[str]:
    memory = told.memory
    yield f"memory     {memory.id}"
    yield f"scope      {memory.scope}"
    yield f"now        version {memory.version}, {standing(memory)}"
    for version in told.versions:
        yield ""
        yield from _version(version)
    if told.ancestors:
        yield ""
        yield "stands for"
        yield from (f"{'  ' * one.steps}{_named(one.memory)}" for one in told.ancestors)
    if told.successors:
        yield ""
        yield "goes on as"
        yield from (f"  {_named(one)}  {standing(one)}" for one in told.successors)


def _version(version: MemoryVersion) -> Iterator[str]:
    decision, event = version.decision, version.decision.event
    by = f" by {name}" if (name := said_by(event)) else ""
    happened = f"{event.occurred_at:%Y-%m-%d %H:%M:%S} UTC"
    yield f"version {version.memory.version:<3}{happened}  {decision.kind}{by}"
    yield f"           decision {decision.decision_id}"
    yield f"           {why(decision)}"
    yield from (f"           {line}" for line in differences(version))
    if version.undone_by is not None:
        yield f"           undone by decision {version.undone_by}"


def _named(memory: Memory) -> str:
    return f"{memory.id}  {quoted(memory.text, _TEXT_WIDTH)}"


def _as_json(told: MemoryLineage) -> dict[str, Any]:
    return {
        "memory": told.memory.model_dump(mode="json"),
        "versions": [_version_json(version) for version in told.versions],
        "ancestors": [
            {"steps": one.steps, "memory": one.memory.model_dump(mode="json")}
            for one in told.ancestors
        ],
        "successors": [memory.model_dump(mode="json") for memory in told.successors],
    }


def _version_json(version: MemoryVersion) -> dict[str, Any]:
    decision = version.decision
    return {
        "version": version.memory.version,
        "occurred_at": decision.event.occurred_at.isoformat(),
        "decision_id": decision.decision_id,
        "kind": decision.kind,
        "why": why(decision),
        "event_id": decision.event.event_id,
        "by": said_by(decision.event) or None,
        "undone_by": version.undone_by,
        "differences": differences(version),
        "memory": version.memory.model_dump(mode="json"),
    }
