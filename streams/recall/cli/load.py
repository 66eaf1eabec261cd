"""`memsieve load`: a scope searched, with what says one fact shown as one."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from schemas.codec import EVENT
from streams.recall.app.loading import (
    LIMIT,
    LIMIT_MAX,
    Asked,
    SearchResult,
    ShownEntry,
    hints,
    loading,
    thorough,
)
from streams.store.app.reading import LogTarget
from streams.store.cli import options
from streams.store.cli.conflicts import show_conflict
from streams.store.cli.console import note, quoted, say, say_object


def register(app: typer.Typer) -> None:
    app.command(name="load")(load)


def load(
    *,
    scope: Annotated[str, typer.Option("--scope", help="The one scope that is searched.")],
    query: Annotated[str, typer.Option("--query", help="What to search for, nearest first.")],
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=LIMIT_MAX, help="Entries at most.")
    ] = LIMIT,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            metavar="DISTANCE",
            help="The greatest cosine distance of two that are asked about. [0.4]",
        ),
    ] = None,
    deduplicate: Annotated[
        bool | None,
        typer.Option(
            "--dedup/--no-dedup", help="Show memories of one fact as one, or each. [--dedup]"
        ),
    ] = None,
    llm: Annotated[
        bool,
        typer.Option(
            "--llm", help="Ask the language model whether two are one fact, and to word it."
        ),
    ] = False,
    hybrid: Annotated[
        float | None,
        typer.Option(
            "--hybrid",
            metavar="WEIGHT",
            help="How much the query's own words count beside nearness in meaning. [0]",
        ),
    ] = None,
    hints_file: Annotated[
        Path | None,
        typer.Option(
            "--hints",
            metavar="FILE",
            help="Write what was found to be one fact as events that propose to join it.",
        ),
    ] = None,
    store: options.Store = None,
    kafka: options.Kafka = None,
    policy: options.Policy = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Search a scope; memories of one fact come as one result.

    Guards and judges tell what is one fact, as when memories are stored. An entry's text says all
    that its memories say. With --kafka the Qdrant server is searched, where the services keep their
    memories in one.
    """
    given = {
        "scope": scope,
        "query": query,
        "limit": limit,
        "threshold": threshold,
        "deduplicate": deduplicate,
        "lexical_weight": hybrid,
    }
    asked = options.asked(Asked, given, {"lexical_weight": "--hybrid"})
    flags: dict[str, Any] = {"load__verify": "llm"} if llm else {}
    source = options.source(config, store, kafka, policy=policy, **flags)
    result = asyncio.run(_load(source, asked))
    if hints_file is not None:
        _write_hints(hints_file, asked, result)
    if as_json:
        say_object({**asked.model_dump(mode="json"), **result.model_dump(mode="json")})
    else:
        _show(result)


async def _load(source: LogTarget, asked: Asked) -> SearchResult:
    target = replace(source, settings=thorough(source.settings))
    async with loading(target, report=note) as opened:
        return await opened.search(asked)


def _write_hints(path: Path, asked: Asked, result: SearchResult) -> None:
    proposals = hints(asked.scope, result)
    lines = [EVENT.encode(proposal).decode() for proposal in proposals]
    options.write("--hints", path, "".join(f"{line}\n" for line in lines))
    note(f"{len(proposals):,} proposals written to {path}")


def _show(result: SearchResult) -> None:
    for entry in result.entries:
        count = len(entry.members)
        similarity = entry.members[0].similarity or 0.0
        told = f"  ({count} memories)" if count > 1 else ""
        told += "  unchecked" if any(one.memory.unchecked for one in entry.members) else ""
        say(f"{similarity:.2f}  {quoted(entry.text)}{told}")
        if (wording := entry.members[0].wording) is not None:
            say(f"      found as {quoted(wording)}", style="dim")
        _show_conflicts(entry)
    if not result.entries:
        say("nothing found")
    if result.beyond:
        note(f"{result.beyond:,} more memories were near: raise --limit to see them")
    for silent in result.degraded:
        note(f"no answer from {silent}", style="yellow")


def _show_conflicts(entry: ShownEntry) -> None:
    """Tell when what an entry says was last seen, and what says otherwise, where something does."""
    conflicts = {one.memory_id: one for member in entry.members for one in member.conflicts}
    if conflicts:
        seen = max(member.memory.last_seen_at for member in entry.members)
        say(f"      last seen {seen:%Y-%m-%d}", style="dim")
    for conflict in conflicts.values():
        show_conflict(conflict, "      ")
