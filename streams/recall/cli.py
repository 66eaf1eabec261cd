"""`memsieve search`: a scope searched, as a list or as a prompt block."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from schemas.codec import EVENT
from streams.recall.app import recalling
from streams.recall.app.loading import (
    LIMIT,
    LIMIT_MAX,
    SearchRequest,
    ShownEntries,
    ShownEntry,
    hint_of,
    hints,
    loading,
    only_scope,
    thorough,
)
from streams.recall.core.patterns import SCOPES_MIN
from streams.recall.core.recall import BUDGET, LASTING_MAX, RECENT_MAX, PromptBlock
from streams.store.app.reading import LogTarget
from streams.store.cli import options
from streams.store.cli.conflicts import show_conflict
from streams.store.cli.console import note, quoted, say, say_object, tell
from streams.store.cli.options import UsageError
from streams.store.core.counts import number


def search(
    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", help="What to search for; the nearest come first."),
    ] = None,
    *,
    scope: Annotated[
        str | None,
        typer.Option("--scope", help="The scope to search. [the only one, if there is one]"),
    ] = None,
    block: Annotated[
        bool,
        typer.Option(
            "--block", help="Print a prompt block; without a QUERY, what lasts and is new."
        ),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=1, max=LIMIT_MAX, help=f"The largest number of entries. [{LIMIT}]"
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            metavar="COSINE",
            help="The least cosine similarity of a pair that is judged. [0.6]",
        ),
    ] = None,
    deduplicate: Annotated[
        bool | None,
        typer.Option(
            "--dedup/--no-dedup", help="Group memories of one fact, or show each. [--dedup]"
        ),
    ] = None,
    llm: Annotated[
        bool,
        typer.Option("--llm", help="Let the language model judge pairs and write merged texts."),
    ] = False,
    hybrid: Annotated[
        float | None,
        typer.Option(
            "--hybrid",
            metavar="WEIGHT",
            help="The weight of the query's words against similarity of meaning. [0]",
        ),
    ] = None,
    hints_file: Annotated[
        Path | None,
        options.output(
            "--hints", "Write the groups of one fact as events that propose to merge them."
        ),
    ] = None,
    across: Annotated[
        str | None,
        typer.Option(
            "--across",
            metavar="PREFIX",
            help="With --block, instead of --scope: this scope and all below it. Without a QUERY, "
            "show what several of them state in the same words.",
        ),
    ] = None,
    patterns: Annotated[
        bool,
        typer.Option(
            "--patterns",
            help=f"With --across: show what {SCOPES_MIN} or more scopes state in similar words.",
        ),
    ] = False,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget", min=1, help=f"With --block: its largest number of tokens. [{BUDGET}]"
        ),
    ] = None,
    lasting: Annotated[
        int | None,
        typer.Option(
            "--lasting",
            min=0,
            help=f"With --block: how many lasting memories and dangers. [{LASTING_MAX}]",
        ),
    ] = None,
    recent: Annotated[
        int | None,
        typer.Option(
            "--recent",
            min=0,
            help=f"With --block: how many of the other memories, the newest. [{RECENT_MAX}]",
        ),
    ] = None,
    policy: options.Policy = None,
    where: options.ReadOptions,
) -> None:
    """Search a scope; memories of one fact come as one result.

    Guards and judges tell which memories state one fact, as when memories are stored. The text of a
    result states all that its memories state. With --kafka, the services' Qdrant server is
    searched.

    --block prints text for an agent's prompt: dangers and failures first, uncertain memories last,
    below a warning. With a QUERY it shows the nearest memories, as many as --lasting and --recent
    together. A memory that does not fit is left out whole, and counted. Tokens are those of the
    embedding model's tokenizer.
    """
    of_list = {
        "--limit": limit,
        "--threshold": threshold,
        "--dedup": deduplicate is not None,
        "--llm": llm,
        "--hybrid": hybrid,
        "--hints": hints_file,
        "--policy": policy,
    }
    of_block = {
        "--across": across,
        "--patterns": patterns,
        "--budget": budget,
        "--lasting": lasting,
        "--recent": recent,
    }
    if block:
        options.refuse(of_list, "goes without --block")
        given = {
            "scope": scope if across is None else across.removesuffix("/"),
            "across": across is not None,
            "patterns": patterns,
            "query": query,
            "budget": BUDGET if budget is None else budget,
            "lasting": LASTING_MAX if lasting is None else lasting,
            "recent": RECENT_MAX if recent is None else recent,
        }
        _print_block(scope, given, where.to_read(), as_json=where.as_json)
        return
    options.refuse(of_block, "goes with --block")
    flags: dict[str, Any] = {"load__verify": "llm"} if llm else {}
    source = where.to_read(policy=policy, **flags)
    if query is None:
        raise UsageError("give a QUERY, or --block for a prompt block of a scope")
    given = {
        "scope": scope,
        "query": query,
        "limit": LIMIT if limit is None else limit,
        "threshold": threshold,
        "deduplicate": deduplicate,
        "lexical_weight": hybrid,
    }
    _list(given, source, hints_file, as_json=where.as_json)


def _print_block(
    scope: str | None, given: Mapping[str, Any], source: LogTarget, *, as_json: bool
) -> None:
    across = given["across"]
    if scope is not None and across:
        raise UsageError("name one scope with --scope, or several with --across PREFIX")
    if given["patterns"] and (not across or given["query"] is not None):
        raise UsageError("--patterns goes with --across PREFIX, and without a QUERY")
    asked, made, nothing = asyncio.run(_recall(source, given))
    if not made.text:
        raise UsageError(
            f"--budget {asked.budget}: without a single memory the prompt block takes "
            f"{made.tokens_min} tokens"
        )
    record = {**asked.model_dump(mode="json"), **made.as_json()}
    tell(made.text.split("\n"), record, as_json=as_json)
    if nothing is not None:
        note(nothing)


async def _recall(
    source: LogTarget, given: Mapping[str, Any]
) -> tuple[recalling.RecallRequest, PromptBlock, str | None]:
    """Recall a scope, or the only one; if it has no memories, suggest scopes."""
    names = {"query": "QUERY"} | ({"scope": "--across"} if given["across"] else {})
    async with recalling.recalling(source, report=note) as recaller:
        scope = given["scope"] or await only_scope(recaller.scopes, "--scope")
        asked = options.asked(recalling.RecallRequest, {**given, "scope": scope}, names)
        block = await recaller.recall(asked)
        return asked, block, await recaller.nothing(block, asked)


def _list(
    given: Mapping[str, Any], source: LogTarget, hints_file: Path | None, *, as_json: bool
) -> None:
    asked, result, nothing = asyncio.run(_load(source, given))
    if hints_file is not None:
        _write_hints(hints_file, asked, result)
    if as_json:
        say_object({**asked.model_dump(mode="json"), **result.model_dump(mode="json")})
    else:
        _show(result)
    if nothing is not None:
        note(nothing)


async def _load(
    source: LogTarget, given: Mapping[str, Any]
) -> tuple[SearchRequest, ShownEntries, str | None]:
    """Search a scope, or the only one; if it has no memories, suggest scopes."""
    target = replace(source, settings=thorough(source.settings))
    async with loading(target, report=note) as opened:
        scope = given["scope"] or await only_scope(opened.scopes, "--scope")
        names = {"query": "QUERY", "lexical_weight": "--hybrid"}
        asked = options.asked(SearchRequest, {**given, "scope": scope}, names)
        result = await opened.search(asked)
        if result.entries:
            return asked, result, None
        index = await opened.index()
        return asked, result, await hint_of(index, asked.scope, lambda one: one == asked.scope)


def _write_hints(path: Path, asked: SearchRequest, result: ShownEntries) -> None:
    proposals = hints(asked.scope, result)
    lines = [EVENT.encode(proposal).decode() for proposal in proposals]
    options.write("--hints", path, "".join(f"{line}\n" for line in lines))
    note(f"{number(len(proposals), 'proposal')} written to {path}")


def _show(result: ShownEntries) -> None:
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
        note("the scope has more memories, less like the query: raise --limit to see them")
    for silent in result.degraded:
        note(f"no answer from {silent}", style="yellow")


def _show_conflicts(entry: ShownEntry) -> None:
    """Tell when what an entry says was last seen, and what says otherwise, where something does."""
    conflicts = {one.memory_id: one for member in entry.members for one in member.conflicts}
    if conflicts:
        say(f"      last seen {entry.last_seen_at:%Y-%m-%d}", style="dim")
    for conflict in conflicts.values():
        show_conflict(conflict, "      ")
