"""`memsieve consolidate`: compares the memories of a scope again."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from streams.consolidate.app.consolidated import MEANS, ConsolidationPass
from streams.consolidate.app.consolidating import ScopeSelection, consolidation
from streams.store.app.reading import LogTarget, reading
from streams.store.cli import options
from streams.store.cli.console import note, quoted, say, say_object
from streams.store.cli.progress import Meter
from streams.store.core.counts import number
from streams.store.core.suggestions import nothing_in

_WIDTH = 120
"""Characters of a text that are shown; `--json` and `--report` have all of them."""


def consolidate(
    *,
    scope: options.ScopeBelow = None,
    now: Annotated[
        bool, typer.Option("--now", help="Include scopes that are small or not due yet.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Allow more removals than the policy's brake does."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be joined.")
    ] = False,
    report: Annotated[Path | None, options.output("--report", "Write what --json prints.")] = None,
    policy: options.Policy = None,
    where: options.ReadOptions,
) -> None:
    """Find memories of one fact, scope by scope, and merge them.

    Pairs are judged as events are. The memory that states everything represents its group; if none
    does, a text is made that loses nothing, or the group stays apart. A scope is due if it has more
    than consolidate.memories_min memories and no pass for consolidate.hours_min. On a cluster, the
    services decide.
    """
    source = where.source(policy=policy)
    asked = ScopeSelection(scope, now=now, force=force)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on asyncio ends in order
    found = asyncio.run(_consolidate(source, asked, dry_run=dry_run))
    told = {"dry_run": dry_run, **found.as_json()}
    if where.as_json:
        say_object(told)
    else:
        _show(told)
    if scope is not None and (lacking := asyncio.run(_lacking(source, asked))):
        note(lacking)
    if report is not None:
        options.write("--report", report, json.dumps(told, indent=2, ensure_ascii=False) + "\n")


async def _consolidate(
    source: LogTarget, asked: ScopeSelection, *, dry_run: bool
) -> ConsolidationPass:
    async with consolidation(source, dry_run=dry_run, report=note) as opened:
        with Meter("memories") as meter:
            return await opened.run(asked, meter.advance)


async def _lacking(source: LogTarget, asked: ScopeSelection) -> str | None:
    """Return one line that says that the scope has no memories; None if it has some."""
    async with reading(source) as reader:
        known = [memory.scope for memory in await reader.memories() if memory.live]
    return None if any(map(asked.has, known)) else nothing_in(asked.scope or "", known)


def _show(told: dict[str, Any]) -> None:
    for scope in told["scopes"]:
        joined = [group for group in scope["groups"] if group["survivor"] is not None]
        apart = [group for group in scope["groups"] if group["survivor"] is None]
        if not joined and not apart and scope["ended"] in {"done", "unchanged"}:
            continue
        say(
            f"{scope['scope']}: {number(scope['memories_before'], 'memory', 'memories')}, "
            f"{scope['memories_after']:,} afterwards",
            style="bold",
        )
        for group in joined:
            _show_group(group)
        for group in apart:
            _show_apart(group)
        if scope["ended"] not in {"done", "unchanged"}:
            say(f"  {MEANS[scope['ended']]}", style="yellow")
    _close(told)


def _show_group(group: dict[str, Any]) -> None:
    gone = [one for one in group["members"] if one["joined"] and one["id"] != group["survivor"]]
    say(f"  {group['kind']}: now {quoted(group['text_after'], _WIDTH)}")
    for one in gone:
        near = "" if one["similarity"] is None else f"{one['similarity']:.3f}"
        said = "" if one["verdict"] is None else f"{one['verdict']} ({one['judge']})"
        say(f"    {near:>5}  {quoted(one['text'], _WIDTH)}  {said}".rstrip(), style="dim")


def _show_apart(group: dict[str, Any]) -> None:
    say(f"  kept apart, {group['reason']}")
    for one in group["members"]:
        say(f"           {quoted(one['text'], _WIDTH)}", style="dim")


def _close(told: dict[str, Any]) -> None:
    share = "" if told["removal_rate"] is None else f" ({told['removal_rate']:.1%} fewer)"
    smaller = "" if told["size_reduction"] is None else f" ({told['size_reduction']:.1%} less)"
    say(
        f"{number(len(told['scopes']), 'scope')}, "
        f"{number(told['memories_before'], 'memory', 'memories')}, "
        f"{told['memories_after']:,} afterwards{share}; {number(told['groups'], 'group')} joined",
        style="bold",
    )
    say(f"{told['bytes_before']:,} bytes as a list, {told['bytes_after']:,} afterwards{smaller}")
    if told["checked"]:
        say(
            f"{told['checked']:,} memories that were stored unchecked are compared with the others now"
        )
    for why, count in told["skipped"].items():
        say(f"{number(count, 'scope')} skipped: {MEANS[why]}")
    for alert in told["alerts"]:
        note(alert, style="red")
    if told["dry_run"]:
        note("dry run: nothing was written")
