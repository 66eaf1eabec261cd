"""`memsieve memories-md import` and `memsieve memories-md export`."""

import asyncio
import time
from collections.abc import Container
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from schemas.base import MemoryId
from schemas.codec import EVENT
from schemas.events import Remember, Retire
from streams.memories_md.app.memories_md import Entries, EntriesSource, export, read_entries
from streams.memories_md.cli.clean import NO_ENTRIES, text_of
from streams.memories_md.core.keeping import UpdatedFile
from streams.memories_md.world.file import MemoriesFile
from streams.memories_md.world.level import FileLevel, LevelFile, level_of
from streams.publish.app import publisher
from streams.store.app import embedding, policies
from streams.store.app.processes import embedded
from streams.store.app.reading import LogTarget, reading
from streams.store.cli import options
from streams.store.cli.console import note, quoted, say, say_object
from streams.store.cli.options import UsageError
from streams.store.core.counts import number
from streams.store.world.store_directory import StoreDirectory

_PROBLEMS_MAX = 50

File = Annotated[Path, typer.Argument(metavar="FILE.md", help="A Memories.md.")]
World = Annotated[
    str | None,
    typer.Option(
        "--world", help="Location 41 is the scope WORLD/41. [sinks.memories_md_world: world]"
    ),
]


def import_(
    file: File,
    *,
    world: World = None,
    out: Annotated[
        Path | None,
        options.output("--out", "Write the events here instead.", "EVENTS.jsonl"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be imported.")
    ] = False,
    policy: options.Policy = None,
    model: options.Model = None,
    where: options.ReadOptions,
) -> None:
    """Import the entries of a Memories.md as events.

    An entry that is unchanged since the last import changes nothing; a new text below the same
    header corrects its memory. Lines that cannot be read are reported and stay in the file. The
    events are dated when the file was last changed.
    """
    source = where.source(policy=policy, embedder__model=model, sinks__memories_md_world=world)
    started = time.perf_counter()
    entries = _entries(file, source, everything=out is not None)
    if out is not None and not dry_run:
        lines = (EVENT.encode(event).decode() + "\n" for _, event in entries.events)
        options.write("--out", out, "".join(lines))
    decided: dict[str, int] = {}
    if out is None and not dry_run:
        decided = asyncio.run(_take_in(file, source, entries))
    for problem in entries.problems[:_PROBLEMS_MAX]:
        note(f"{file}:{problem.line}: {problem.message}", style="yellow")
    if rest := entries.problems[_PROBLEMS_MAX:]:
        note(
            f"{len(rest):,} more lines to look at: memsieve memories-md import {file} --dry-run --json"
        )
    if where.as_json:
        told = _told(entries, decided) | {"seconds": round(time.perf_counter() - started, 3)}
        say_object(told | ({"entries": _listed(entries)} if dry_run else {}))
    else:
        _show(entries, decided, dry_run=dry_run)


def export_md(
    file: Annotated[Path, typer.Argument(metavar="FILE.md", help="New, or edited in place.")],
    *,
    world: World = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show how the file would change.")
    ] = False,
    where: options.ReadOptions,
) -> None:
    """Write the memories of locations into a Memories.md.

    What people wrote into the file stays. New memories are added, changed ones updated, and
    superseded ones marked. An entry that was edited by hand and not imported stays as it is.
    """
    source = where.source(sinks__memories_md_world=world)
    kept = MemoriesFile(file)
    if level_of(kept).exists():
        raise UsageError(f"{file} is kept by sinks.memories_md already: name another file")
    exported, changed = asyncio.run(_export(kept, source, dry=dry_run))
    for line in exported.notes:
        note(f"{file}: {line}", style="yellow")
    if where.as_json:
        say_object(
            {
                "memories": len(exported.placed),
                "changed": changed,
                "left_alone": list(exported.notes),
            }
        )
        return
    how = ("would be " if dry_run else "") + "written" if changed else "unchanged"
    say(f"{file} {how}: {number(len(exported.placed), 'memory', 'memories')}")


def _entries(file: Path, source: LogTarget, *, everything: bool) -> Entries:
    kept = MemoriesFile(file)
    text = text_of(kept)
    level = (LevelFile(kept).read() or FileLevel()).memories
    policy = policies.load(source.settings.policy)
    return read_entries(
        text,
        world=source.settings.sinks.memories_md_world,
        at=datetime.fromtimestamp(int(file.stat().st_mtime), UTC),
        placed=level,
        stored=() if everything or not level else asyncio.run(_stored(source, level)),
        may_supersede=lambda scope: policy.rules(scope).supersede.named_max > 0,
    )


async def _stored(source: LogTarget, level: Container[MemoryId]) -> Container[MemoryId]:
    """Return which memories are where the events go: of a cluster, those that its writer kept."""
    if not source.embedded:
        return level
    if StoreDirectory(source.settings.store).manifest() is None:
        return ()
    async with reading(source) as reader:
        return {memory.id for memory in await reader.memories()}


async def _take_in(file: Path, source: LogTarget, entries: Entries) -> dict[str, int]:
    """Decide on the events, or publish them; return what that came to."""
    settings, rows = source.settings, EntriesSource(str(file), entries.events)
    if not source.embedded:
        async with publisher(settings) as target:
            await target.publish(rows, None, 0, lambda _: None)
            return {"published": target.published.events}
    chosen = embedding.for_store(settings, note)
    async with embedded(chosen.settings, chosen.policy, chosen.embedder, note) as pipeline:
        await pipeline.recover()
        before = pipeline.tally.kinds.copy()
        await pipeline.run(rows, None, lambda _: None)
        pipeline.tally.check()
        return dict(pipeline.tally.kinds - before)


async def _export(file: MemoriesFile, source: LogTarget, *, dry: bool) -> tuple[UpdatedFile, bool]:
    async with reading(source) as reader:
        return await export(reader, file, world=source.settings.sinks.memories_md_world, dry=dry)


def _told(entries: Entries, decided: dict[str, int]) -> dict[str, Any]:
    return {
        "events": len(entries.events),
        "retired": entries.retired,
        "unchanged": entries.known,
        "decisions": decided,
        "problems": [asdict(problem) for problem in entries.problems],
    }


def _listed(entries: Entries) -> list[dict[str, Any]]:
    return [{"line": line, "scope": event.scope, **_of(event)} for line, event in entries.events]


def _of(event: Remember | Retire) -> dict[str, Any]:
    """Return what an event says of its entry."""
    if isinstance(event, Retire):
        return {"kind": event.kind, "memories": [one.memory_id for one in event.memories]}
    return {
        "kind": event.kind,
        "category": event.category,
        "title": event.title,
        "text": event.text,
    }


def _show(entries: Entries, decided: dict[str, int], *, dry_run: bool) -> None:
    if dry_run:
        for line, event in entries.events:
            say(f"{line:>6}  {event.scope}  {_headed(event)}")
            say(f"        {quoted(event.text, 100)}", style="dim")
    say(
        f"{number(len(entries.events), 'entry', 'entries')} "
        f"{'to import' if dry_run else 'imported'}, "
        f"{entries.retired:,} retired and left out, {entries.known:,} unchanged"
    )
    if not (entries.events or entries.retired or entries.known):
        note(NO_ENTRIES, style="yellow")
    for kind, count in decided.items():
        say(f"  {kind:<12}{count:>9,}")


def _headed(event: Remember | Retire) -> str:
    if isinstance(event, Retire):
        return "struck through by hand"
    return f"[{event.category or ''}] {event.title or ''}"
