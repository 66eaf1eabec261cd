"""Commands that read a store: memories, decisions, explain."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, cast

import typer
from pydantic_core import from_json

from schemas.base import ScopeName
from schemas.decisions import KINDS, Decision, Marker, Reject, event_of
from schemas.memories import Memory, Standing
from schemas.outcomes import DeadLetter
from streams.changes.core.history import standing
from streams.dead_letters.app import letters as letters_of
from streams.dead_letters.cli import letter_json, show_letter
from streams.dead_letters.flow import Letter
from streams.inspect.app import explained
from streams.stage.core.explain import why
from streams.stage.flow.dead_letters import original
from streams.stage.flow.decisions import CountedDecision
from streams.store.app.conflicts import KeptMemory, among, kept
from streams.store.app.reading import (
    AmbiguousPrefix,
    LogTarget,
    StoreReader,
    in_order,
    only_in,
    read,
    reading,
)
from streams.store.cli import options
from streams.store.cli.conflicts import show_conflict
from streams.store.cli.console import more, note, quoted, say, say_json
from streams.store.cli.replies import decision_json
from streams.store.core.suggestions import nothing_in

_TEXT_WIDTH = 100
_WHOLE_WIDTH = 1_000
"""The maximum width of a memory's text in a list; `memory history` shows a longer one whole."""

_ID_WIDTH = 8
"""Characters of an id that surely suffice to explain it."""


def memories(
    *,
    scope: options.ScopeBelow = None,
    retired: Annotated[
        bool, typer.Option("--retired", help="Include superseded memories.")
    ] = False,
    conflicts: Annotated[
        bool, typer.Option("--conflicts", help="Only memories that contradict another.")
    ] = False,
    limit: options.Limit = None,
    where: options.ReadOptions,
) -> None:
    """List the memories of a store or a cluster."""
    state = read(where.to_read(), StoreReader.state)
    known = among(state.values())
    every = [kept(memory, known) for memory in in_order(state)]
    found = [
        memory
        for memory in every
        if options.below(memory.scope, scope)
        and (retired or memory.live)
        and (memory.conflicts or not conflicts)
    ]
    shown = found[: options.limit_of(limit, as_json=where.as_json)]
    if where.as_json:
        say_json(memory.model_dump(mode="json") for memory in shown)
        return
    for memory, above in zip(shown, [None, *shown], strict=False):
        _show_memory(memory, above)
    more(len(found) - len(shown), "memory", "memories")
    if not found:
        if scope is None or conflicts:
            note("no memories in conflict" if conflicts else "no memories")
        else:
            note(nothing_in(scope, (one.scope for one in every if one.live)))


def decisions(
    *,
    scope: options.ScopeBelow = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only insert, merge, replace, reinforce, …")
    ] = None,
    limit: options.Limit = None,
    vectors: options.Vectors = False,
    where: options.ReadOptions,
) -> None:
    """List the decisions, oldest first; with a limit, the newest.

    Each line begins with the first characters of the decision's id, which `explain` accepts.
    """
    source = where.to_read()
    wanted = options.limit_of(limit, as_json=where.as_json)
    found, older, by_id = asyncio.run(
        _decisions(source, scope, _kind(kind), wanted, with_letters=not where.as_json)
    )
    if where.as_json:
        say_json(_decision_json(entry, vectors=vectors) for entry in found)
        return
    if older:
        note("there are older decisions: raise --limit to see them")
    for entry in found:
        _show_decision(entry, by_id)
    if not found:
        note("no decisions")


def explain(
    identity: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The id, or its prefix, of a decision, event, memory or dead letter.",
        ),
    ],
    *,
    scope: options.OneScope = None,
    vectors: options.Vectors = False,
    where: options.ReadOptions,
) -> None:
    """Explain a decision: what was compared, and by which rule."""
    within = only_in(None if scope is None else options.exact(scope))
    asyncio.run(_explain(where.to_read(), identity, within, as_json=where.as_json, vectors=vectors))


async def _explain(
    source: LogTarget,
    identity: str,
    within: Callable[[ScopeName], bool],
    *,
    as_json: bool,
    vectors: bool,
) -> None:
    if not identity:
        raise options.UsageError("ID is empty")
    async with reading(source) as reader:
        try:
            found = await reader.about(identity, within)
        except AmbiguousPrefix as error:
            raise options.UsageError(str(error)) from error
        if found is None:
            await _explain_letter(source, identity, reader.place, as_json=as_json)
        elif as_json:
            say_json(_decision_json(entry, vectors=vectors) for entry in found.entries)
        else:
            for line in await explained(reader, found):
                say(line)


async def _explain_letter(source: LogTarget, identity: str, place: str, *, as_json: bool) -> None:
    """Tell of the dead letter that has the id, or whose event gave itself that id."""
    letters = await letters_of(source)
    by_id = {letter.content.id: letter for letter in letters}
    letter = next((one for one in letters if _event_id(one) == identity), None)
    if letter is None and any(one.startswith(identity) for one in by_id):
        letter = options.only(by_id, identity, what="dead letter", place=place)
    if letter is None:
        raise options.UnknownId(
            f"no decision, event, memory or dead letter in {place} has the id {identity}; if it "
            "was published just now, it may wait to be decided: memsieve check"
        )
    if as_json:
        say_json([letter_json(letter)])
    else:
        show_letter(letter)


def _event_id(letter: Letter) -> str | None:
    """Return the id that a record which could not be used gave itself, if it can be read."""
    try:
        value: object = from_json(original(letter.content))
    except ValueError:
        return None
    said = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    identity = said.get("event_id")
    return identity if isinstance(identity, str) else None


async def _decisions(
    source: LogTarget,
    scope: str | None,
    kind: str | None,
    limit: int | None,
    *,
    with_letters: bool,
) -> tuple[Sequence[CountedDecision], bool, Mapping[str, DeadLetter]]:
    """Return the newest entries that fit, whether older ones do, and the dead letters they name."""
    async with reading(source) as reader:
        newest = limit + 1 if limit is not None and scope is kind is None else None
        every = reader.decisions(newest)
        fitting = [entry async for entry in every if _fits(entry.decision, scope, kind)]
    # Those of several partitions side by side by their offsets.
    fitting.sort(key=lambda entry: (entry.position.offset, entry.position.partition))
    found = fitting if limit is None else fitting[-limit:]
    rejected = with_letters and any(isinstance(entry.decision, Reject) for entry in found)
    letters = await letters_of(source) if rejected else []
    return (
        found,
        len(fitting) > len(found),
        {letter.content.id: letter.content for letter in letters},
    )


def _kind(kind: str | None) -> str | None:
    if kind is not None and kind not in KINDS:
        raise options.UsageError(f"--kind {kind}: write {', '.join(KINDS)}")
    return kind


def _fits(decision: Decision, scope: str | None, kind: str | None) -> bool:
    if kind not in {None, decision.kind}:
        return False
    if isinstance(decision, Reject):
        return scope is None
    return options.below(event_of(decision).scope, scope)


def _decision_json(entry: CountedDecision, *, vectors: bool) -> dict[str, Any]:
    place = entry.position.model_dump(include={"partition", "offset"})
    return {**place, **decision_json(entry.decision, vectors=vectors)}


def _show_decision(entry: CountedDecision, letters: Mapping[str, DeadLetter]) -> None:
    decision = entry.decision
    head = f"{decision.decision_id[:_ID_WIDTH]}  {decision.kind:<10}"
    if isinstance(decision, Reject):
        letter = letters.get(decision.dead_letter_id)
        say(f"{head}{letter.origin if letter else ''}".rstrip(), style="red")
        say(f"          {letter.error if letter else why(decision)}", style="dim")
        return
    if isinstance(decision, Marker):
        say(f"{head}{decision.scope}")
        say(f"          {why(decision)}", style="dim")
        return
    say(f"{head}{decision.event.scope}")
    say(f"          {quoted(decision.event.text, _TEXT_WIDTH)}")
    near = decision.evidence.neighbours
    nearest = f" (nearest {near[0].similarity:.3f}, {near[0].band.value})" if near else ""
    say(f"          {why(decision)}{nearest}", style="dim")


def _show_memory(memory: KeptMemory, above: Memory | None) -> None:
    if above is None or above.scope != memory.scope:
        say(memory.scope, style="bold")
    times = f"seen {memory.observation_count}x"
    retired = "" if memory.live else f", {standing(memory)}"
    if memory.status is Standing.TENTATIVE:
        times += ", tentative"
    if memory.unchecked is not None:
        times += f", unchecked ({memory.unchecked})"
    say(f"  {quoted(memory.text, _WHOLE_WIDTH)}")
    for variant in memory.variants:
        say(f"    also {quoted(variant.text, _WHOLE_WIDTH)}", style="dim")
    say(f"    {memory.id}  {times}, last {memory.last_seen_at:%Y-%m-%d}{retired}", style="dim")
    for conflict in memory.conflicts:
        show_conflict(conflict, "    ")
