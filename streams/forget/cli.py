"""`memsieve forget`, `store scrub` and `store export`: forgets memories, exports a tenant."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from schemas.base import MemoryId, ScopeName
from schemas.decisions import Marker
from streams.clock.system import SystemClock
from streams.forget.app import exporting, forgetting, scrubbing
from streams.forget.app.forgetting import ForgetResponses, ForgetTarget, UnknownTarget, in_full
from streams.forget.core import ForgetPlan
from streams.stage.core.explain import outcome, why
from streams.stage.core.lineage import Wish
from streams.store.app.client import (
    decisions_of,
    is_out_of_date,
    require_decided,
)
from streams.store.app.reading import AmbiguousPrefix, LogTarget, read, reading
from streams.store.app.requests import author_of
from streams.store.cli import options
from streams.store.cli.console import note, quoted, tell
from streams.store.cli.replies import heard, places, published

_TEXT_WIDTH = 80

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="A directory for the files.")]


def forget(
    identity: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="A memory id or its prefix, a name, or an event id."),
    ] = None,
    *,
    scope: Annotated[
        str | None, typer.Option("--scope", help="All memories of this one scope.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="All memories of all scopes of a tenant.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be forgotten.")
    ] = False,
    later: Annotated[
        bool,
        typer.Option("--later", help="Leave it to memsieve store scrub to rewrite index and log."),
    ] = False,
    note_: options.Note = "",
    asking: options.ChangeOptions,
) -> None:
    """Forget a memory, and erase every text that states it.

    Memories merged from it are erased too, and what else they stated is decided again. The text is
    blocked from coming back. This cannot be undone. On a cluster, the services decide, and the
    topics keep the bytes until compaction; see docs/operations.md.
    """
    wanted = _wanted(identity, scope, tenant)
    source, wait = asking.source(), asking.wait
    wish = Wish(author_of(source.settings, asking.author), SystemClock().now(), note_)
    try:
        forgot = heard(source, _forget(source, wanted, wish, wait, dry_run=dry_run))
    except UnknownTarget as error:
        raise options.UnknownId(f"{error}: memsieve memory list") from error
    except AmbiguousPrefix as error:
        raise options.UsageError(str(error)) from error
    if not dry_run:
        asyncio.run(scrubbing.clear(source, wanted, note, later=later))
    tell(_told(forgot, dry_run=dry_run), _json(forgot), as_json=asking.as_json)
    require_decided(forgot.responses, wait)
    decided = decisions_of(forgot.responses)
    if any(isinstance(one, Marker) or is_out_of_date(one) for one in decided):
        raise options.UsageError("not everything was forgotten: run the command again")


def scrub(
    *, store: options.Store = None, config: options.Config = None, as_json: options.AsJson = False
) -> None:
    """Erase what forget --later left in the files of a store.

    Rewrites log and index, which takes a while if they are large.
    """
    source = LogTarget.of_store(options.load(config, store=store))
    taken = asyncio.run(scrubbing.scrub(source, note))
    line = f"records {taken:,} removed from the log; log and index are rewritten"
    tell([line], {"records": taken}, as_json=as_json)


def export(
    *,
    tenant: Annotated[str, typer.Option("--tenant", help="First segment of its scopes.")],
    out: Out,
    where: options.ReadOptions,
) -> None:
    """Write all data of a tenant to files: memories and decisions.

    Use it for a data-access request, and before forgetting a tenant.
    """
    export_ = partial(exporting.export, wanted=tenant, directory=out)
    found = read(where.source(), export_)
    if found is None:
        raise options.UnknownId(f"there is no tenant {tenant}: memsieve memory list")
    memories, decisions = found
    line = f"memories {memories:,}, decisions {decisions:,} written to {out}"
    record = {"memories": memories, "decisions": decisions, "out": str(out)}
    tell([line], record, as_json=where.as_json)


def _wanted(identity: str | None, scope: str | None, tenant: str | None) -> ForgetTarget:
    if sum(one is not None for one in (identity, scope, tenant)) != 1:
        raise options.UsageError("give exactly one of ID, --scope and --tenant")
    if not (identity or scope or tenant):
        raise options.UsageError("what to forget is empty")
    return ForgetTarget(
        memory=None if identity is None else MemoryId(identity),
        scope=None if scope is None else ScopeName(scope),
        tenant=tenant,
    )


async def _forget(
    source: LogTarget, wanted: ForgetTarget, wish: Wish, wait: int, *, dry_run: bool
) -> ForgetResponses:
    async with reading(source) as reader:
        wanted = await in_full(wanted, reader)
    if dry_run:
        return await forgetting.foreseen(source, wanted, wish, note)
    return await forgetting.forget(source, wanted, wish, wait, note)


def _told(forgot: ForgetResponses, *, dry_run: bool) -> Iterator[str]:
    """Tell what is forgotten; only where nothing is done yet in its own words."""
    if not forgot.plans:
        yield "it is forgotten already"
    for plan in forgot.plans:
        yield from _planned(plan, with_words=dry_run)
    for one in decisions_of(forgot.responses):
        yield f"{one.kind}: {outcome(one)}, because {why(one)}"
    yield from places(forgot.responses)


def _planned(plan: ForgetPlan, *, with_words: bool) -> Iterator[str]:
    for identity in plan.kin.every:
        memory = plan.memories[identity]
        pinned = "  pinned" if memory.pinned and with_words else ""
        yield f"{_WHAT[identity in plan.kin.gone]}  {memory.id}{pinned}"
        if with_words:
            yield f"        {quoted(memory.text, _TEXT_WIDTH)}"
    for text in plan.wordings if with_words else ():
        yield f"with it {quoted(text, _TEXT_WIDTH)}"
    for event in plan.again:
        yield f"stays   {quoted(event.text, _TEXT_WIDTH)}"
    yield (
        f"memories {len(plan.kin.gone):,} forgotten, "
        f"{len(plan.kin.every) - len(plan.kin.gone):,} decided again from "
        f"{len(plan.again):,} events; records {plan.decisions:,} erased"
    )


_WHAT = {True: "forget", False: "redo  "}


def _json(forgot: ForgetResponses) -> dict[str, Any]:
    return {
        "memory_ids": forgot.memory_ids,
        "decided_again": forgot.decided_again,
        "said_it_too": [e.event_id for plan in forgot.plans for e in plan.own],
        "records": forgot.records,
        "decision_ids": [one.decision_id for one in decisions_of(forgot.responses)],
        **published(forgot.responses),
    }
