"""Commands that read a store: memories, decisions, explain, dead-letters."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast

import typer

from schemas.base import MemoryId
from schemas.decisions import Ignore, Reject
from schemas.memories import Memory, Standing
from schemas.outcomes import DeadLetter
from streams.apps.reading import Ambiguous, Entry, StoreReader, reading
from streams.cli import options
from streams.cli.console import note, quoted, say, say_json
from streams.core.explain import explain as explained
from streams.core.explain import outcome, why
from streams.core.ledger import touched

Item = TypeVar("Item")

_TEXT_WIDTH = 100
_AGAIN_MAX = 10
_KINDS = ("insert", "merge", "replace", "reinforce", "ignore", "reject")
_dead_letters = typer.Typer(help="Records that could not be used.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.command(name="memories")(memories)
    app.command(name="decisions")(decisions)
    app.command(name="explain")(explain)
    app.add_typer(_dead_letters, name="dead-letters")


def memories(
    *,
    store: options.Store = None,
    kafka: options.Kafka = None,
    scope: options.ScopeBelow = None,
    retired: Annotated[
        bool, typer.Option("--retired", help="Show superseded memories, too.")
    ] = False,
    limit: options.Limit = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """List the memories that are kept, by scope and age."""
    found = [
        memory
        for memory in asyncio.run(_memories(options.source(config, store, kafka)))
        if options.below(memory.scope, scope) and (retired or memory.live)
    ]
    shown = found[: options.limit_of(limit, as_json=as_json)]
    if as_json:
        say_json(memory.model_dump(mode="json") for memory in shown)
        return
    for memory, above in zip(shown, [None, *shown], strict=False):
        _show_memory(memory, above)
    _more(len(found) - len(shown), "memories")
    _none(found, "memories")


def decisions(
    *,
    store: options.Store = None,
    kafka: options.Kafka = None,
    scope: options.ScopeBelow = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only insert, merge, replace, reinforce, …")
    ] = None,
    limit: options.Limit = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """List the decisions, oldest first; with a limit, the newest of them."""
    source = options.source(config, store, kafka)
    wanted = options.limit_of(limit, as_json=as_json)
    found, total, by_id = asyncio.run(
        _decisions(source, scope, _kind(kind), wanted, with_letters=not as_json)
    )
    if as_json:
        say_json(_decision_json(entry) for entry in found)
        return
    if total > len(found):
        note(f"{total - len(found):,} older decisions: raise --limit to see them")
    for entry in found:
        _show_decision(entry, by_id)
    _none(found, "decisions")


def explain(
    identity: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="Of a decision, an event, a memory or a dead letter; or its beginning.",
        ),
    ],
    *,
    store: options.Store = None,
    kafka: options.Kafka = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell why something was decided: what it was compared with, and by which rule."""
    asyncio.run(_explain(options.source(config, store, kafka), identity, as_json=as_json))


@_dead_letters.command(name="list")
def list_dead_letters(
    *,
    store: options.Store = None,
    kafka: options.Kafka = None,
    limit: options.Limit = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """List what could not be used: where it was, what is wrong, what to do."""
    found = asyncio.run(_letters(options.source(config, store, kafka)))
    shown = found[: options.limit_of(limit, as_json=as_json)]
    if as_json:
        say_json({**letter.model_dump(mode="json"), "seen": seen} for letter, seen in shown)
        return
    for letter, seen in shown:
        _show_dead_letter(letter, seen)
    _more(len(found) - len(shown), "dead letters")
    _none(found, "dead letters")


async def _memories(source: options.Source) -> list[Memory]:
    async with reading(source.settings, embedded=source.embedded) as reader:
        return await reader.memories()


async def _letters(source: options.Source) -> list[tuple[DeadLetter, int]]:
    async with reading(source.settings, embedded=source.embedded) as reader:
        return await reader.dead_letters()


async def _explain(source: options.Source, identity: str, *, as_json: bool) -> None:
    async with reading(source.settings, embedded=source.embedded) as reader:
        what, entries = await _about(reader, identity)
        if what == "dead letter":
            return
        if not entries:
            raise options.NotFound(
                f"no decision, event or memory in {reader.place} has the id {identity}; if it was "
                "published just now, it may wait to be decided: memsieve doctor"
            )
        if as_json:
            say_json(_decision_json(entry) for entry in entries)
        elif what == "memory":
            await _explain_memory(reader, identity, entries)
        else:
            await _explain_decisions(reader, entries)


async def _about(reader: StoreReader, identity: str) -> tuple[str, list[Entry]]:
    """Find what an id names; a dead letter is shown at once."""
    if not identity:
        raise options.UsageError("ID is empty")
    try:
        what, entries = await reader.about(identity)
    except Ambiguous as error:
        raise options.UsageError(str(error)) from error
    if entries:
        return what, entries
    for letter, seen in await reader.dead_letters():
        if letter.id.startswith(identity) or _event_id(letter) == identity:
            _show_dead_letter(letter, seen)
            return "dead letter", []
    return "", []


def _event_id(letter: DeadLetter) -> str | None:
    """Return the id that a record which could not be used gave itself, if it can be read."""
    try:
        value: object = json.loads(base64.b64decode(letter.value))
    except ValueError:
        return None
    said = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return str(said.get("event_id"))


async def _decisions(
    source: options.Source,
    scope: str | None,
    kind: str | None,
    limit: int | None,
    *,
    with_letters: bool,
) -> tuple[Sequence[Entry], int, Mapping[str, DeadLetter]]:
    """Return the newest entries that fit, how many fit in all, and the dead letters they name."""
    async with reading(source.settings, embedded=source.embedded) as reader:
        if scope is kind is None:
            fitting = [entry async for entry in reader.decisions(limit)]
            total = await reader.count()
        else:
            fitting = [entry async for entry in _fitting(reader.decisions(), scope, kind)]
            total = len(fitting)
        found = _newest(fitting, limit)
        rejected = with_letters and any(isinstance(entry.decision, Reject) for entry in found)
        letters = await reader.dead_letters() if rejected else []
        return found, total, {letter.id: letter for letter, _ in letters}


def _newest(entries: list[Entry], limit: int | None) -> list[Entry]:
    """Return the last entries, those of several partitions side by side by their offsets."""
    ordered = sorted(entries, key=lambda entry: (entry.offset, entry.partition))
    return ordered if limit is None else ordered[-limit:]


def _kind(kind: str | None) -> str | None:
    if kind is not None and kind not in _KINDS:
        raise options.UsageError(f"--kind {kind}: write {', '.join(_KINDS)}")
    return kind


def _none(found: Sequence[object], what: str) -> None:
    if not found:
        note(f"no {what}")


async def _fitting(
    entries: AsyncIterator[Entry], scope: str | None, kind: str | None
) -> AsyncIterator[Entry]:
    async for entry in entries:
        decision = entry.decision
        here = (
            scope is None
            if isinstance(decision, Reject)
            else options.below(decision.event.scope, scope)
        )
        if here and kind in {None, decision.kind}:
            yield entry


def _decision_json(entry: Entry) -> dict[str, Any]:
    place = {"partition": entry.partition, "offset": entry.offset}
    return {**place, "why": why(entry.decision), **entry.decision.model_dump(mode="json")}


def _show_decision(entry: Entry, letters: Mapping[str, DeadLetter]) -> None:
    decision = entry.decision
    place = f"{entry.partition}/{entry.offset}" if entry.partition else str(entry.offset)
    if isinstance(decision, Reject):
        letter = letters.get(decision.dead_letter_id)
        say(
            f"{place:>6}  {decision.kind:<10}{letter.origin if letter else ''}".rstrip(),
            style="red",
        )
        say(f"        {letter.error if letter else why(decision)}", style="dim")
        return
    say(f"{place:>6}  {decision.kind:<10}{decision.event.scope}")
    say(f"        {quoted(decision.event.text, _TEXT_WIDTH)}")
    near = decision.evidence.neighbours
    nearest = f" (nearest {near[0].similarity:.3f}, {near[0].band.value})" if near else ""
    say(f"        {why(decision)}{nearest}", style="dim")


def _show_memory(memory: Memory, above: Memory | None) -> None:
    if above is None or above.scope != memory.scope:
        say(memory.scope, style="bold")
    times = f"seen {memory.observation_count}x"
    retired = f", superseded by {memory.superseded.by}" if memory.superseded else ""
    if memory.status is Standing.TENTATIVE:
        times += ", tentative"
    say(f"  {quoted(memory.text)}")
    say(f"    {memory.id}  {times}, last {memory.last_seen_at:%Y-%m-%d}{retired}", style="dim")


def _show_dead_letter(letter: DeadLetter, seen: int) -> None:
    again = f"  ({seen} times)" if seen > 1 else ""
    say(f"{letter.origin}  {letter.stage.value}{again}  {letter.id}")
    say(f"  {letter.error}")
    begin = base64.b64decode(letter.value)[:_TEXT_WIDTH].decode("utf-8", "backslashreplace")
    say(f"  {letter.value_size:,} bytes: {begin}", style="dim")


def _more(count: int, what: str) -> None:
    if count > 0:
        note(f"{count:,} more {what}: raise --limit to see them")


async def _explain_decisions(reader: StoreReader, entries: Sequence[Entry]) -> None:
    """Tell the story of each decision; deliveries of an event that was decided take a line."""
    stories = [entry for entry in entries if not isinstance(entry.decision, Ignore)]
    for count, entry in enumerate(stories or entries[:1]):
        decision = entry.decision
        near = () if isinstance(decision, Reject) else decision.evidence.neighbours
        concerned = [*touched(decision), *(neighbour.memory_id for neighbour in near)]
        texts = await reader.texts(concerned)
        if count:
            say()
        for line in explained(decision, texts, reader.policy(decision)):
            say(line)
    again = [f"{e.partition}/{e.offset}" for e in entries if isinstance(e.decision, Ignore)]
    if stories and again:
        say()
        say(f"delivered again and ignored, at {', '.join(again[:_AGAIN_MAX])}{_beyond(again)}")


def _beyond(again: Sequence[str]) -> str:
    rest = len(again) - _AGAIN_MAX
    return f" and {rest:,} more" if rest > 0 else ""


async def _explain_memory(reader: StoreReader, identity: str, entries: list[Entry]) -> None:
    """Tell a memory's life: what it is now, and every decision that made it so."""
    full = next(i for e in entries for i in touched(e.decision) if i.startswith(identity))
    memory = await reader.memory(MemoryId(full))
    if memory is not None:
        say(f"memory     {memory.id}")
        say(f"scope      {memory.scope}")
        say(f'it says    "{memory.text}"')
        say(f"version    {memory.version}, seen {memory.observation_count}x")
        if memory.superseded:
            say(f"retired    superseded by {memory.superseded.by}: {memory.superseded.reason}")
        say()
    say("its decisions, oldest first; explain one by its id:")
    for entry in entries:
        decision = entry.decision
        say(f"  {decision.decision_id}  {decision.kind}: {outcome(decision)}")
        say(f"    because {why(decision)}")
