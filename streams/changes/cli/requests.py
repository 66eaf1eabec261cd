"""`memsieve memory pin`, `unpin`, `update`, `retire`, `rate`, `distinct`: requests for a change."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Annotated, get_args

import typer
from pydantic import ValidationError

from schemas.decisions import Decision, Marker
from schemas.events import MEMBERS_MAX, Ended, Event, Pin, Rate, Remember, Retire
from schemas.memories import Memory
from streams.changes.app.lineages import standing_for
from streams.changes.app.updating import renewed, renewing, says_already, told_after
from streams.changes.core.history import not_live
from streams.clock.system import SystemClock
from streams.model.identity import request_id
from streams.model.neighbours import StoredMemory
from streams.stage.core.decide import target_of
from streams.stage.core.explain import outcome, why
from streams.store.app.client import (
    Response,
    decisions_of,
    is_out_of_date,
    require_decided,
)
from streams.store.app.cluster_client import watched
from streams.store.app.reading import LogTarget, StoreReader, read, reading
from streams.store.app.requests import author_of, open_client, request
from streams.store.app.requests import distinct as both_right
from streams.store.cli import options
from streams.store.cli.console import note, tell
from streams.store.cli.replies import decision_json, heard, places, published
from streams.store.core.conflicts import are_both_right

Identity = Annotated[
    str, typer.Argument(metavar="ID", help="A memory id or its prefix, a name, or an event id.")
]

_REASONS: tuple[str, ...] = get_args(Ended)


def pin(identity: Identity, *, note_: options.Note = "", asking: options.OfMemoryOptions) -> None:
    """Pin a memory: it is not merged, replaced or retired."""
    _set_pinned(identity, note_, asking, pinned=True)


def unpin(identity: Identity, *, note_: options.Note = "", asking: options.OfMemoryOptions) -> None:
    """Unpin a memory: it may be merged, replaced and retired again."""
    _set_pinned(identity, note_, asking, pinned=False)


def update(
    identity: Identity,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it says from now on.")],
    *,
    asking: options.OfMemoryOptions,
) -> None:
    """Give a memory a new text, without comparing it. The old text stays in the history.

    The history names the author where a new memory replaces the old one by an answer: not for a
    memory that its producer named, which keeps its id, nor where the policy lets events replace.
    """
    source = asking.source()
    who = author_of(source.settings, asking.author)
    responses = heard(source, _updated(source, identity, text, who, asking))
    if isinstance(responses, str):
        _show([], asking, [f"nothing changed: {responses}"])
        return
    decided = decisions_of(responses)
    # Why it was decided says nothing here: the text is not compared, and the author is known.
    told = [outcome(one) for one in decided[-1:]]
    # The first decision brought the new text in: the others rest on it, and go with it.
    if decided and not _changes_nothing(decided[0]):
        told.append(f"undo it with: memsieve undo {decided[0].decision_id}")
    _show(responses, asking, told)


def retire(
    identities: Annotated[
        list[str],
        typer.Argument(metavar="ID...", help="Memory ids or prefixes, names, or event ids."),
    ],
    *,
    reason: Annotated[
        str, typer.Option("--reason", help=f"Why: {', '.join(_REASONS)}. [invalid]")
    ] = "invalid",
    note_: options.Note = "",
    asking: options.OfMemoryOptions,
) -> None:
    """Retire memories without replacing them. Nothing is deleted: memsieve undo restores them.

    Pinned memories stay, and so do memories that change before the request is decided on.
    """
    if reason not in _REASONS:
        raise options.UsageError(f"--reason {reason}: write {', '.join(_REASONS)}")
    source = asking.source()
    who = author_of(source.settings, asking.author)
    found = read(source, partial(_live, identities=identities, scope=asking.scope))
    memories = {one.memory.id: one.memory for one in found}
    in_order = sorted(memories.values(), key=lambda one: one.scope)
    asked: list[Retire] = []
    for scope, some in groupby(in_order, key=lambda memory: memory.scope):
        targets = tuple(target_of(memory) for memory in some)
        if len(targets) > MEMBERS_MAX:
            raise options.UsageError(f"at most {MEMBERS_MAX} memories of a scope can end at once")
        wish = {"memories": targets, "reason": reason}
        asked.append(request(Retire, scope, targets[0].memory_id, author=who, note=note_, **wish))
    ask(source, asked, asking)


def distinct(
    identity: Identity,
    other: Annotated[
        str,
        typer.Argument(metavar="OTHER", help="The other memory, in the same way."),
    ],
    *,
    note_: options.Note = "",
    asking: options.OfMemoryOptions,
) -> None:
    """Keep two memories that are in conflict: both are right.

    They are never merged, and not marked again while both keep their texts.
    """
    source = asking.source()
    who = author_of(source.settings, asking.author)
    one, two = read(source, partial(_live, identities=(identity, other), scope=asking.scope))
    event = both_right(one.memory, two.memory, author=who, note=note_)
    if are_both_right(one, two):
        pair = f"memories {one.memory.id} and {two.memory.id}"
        _show([], asking, [f"nothing changed: {pair} are kept as distinct already"])
        return
    ask(source, [event], asking)


def rate(
    identity: Identity,
    *,
    helpful: Annotated[int, typer.Option("--helpful", min=0, help="Times it helped.")] = 0,
    harmful: Annotated[int, typer.Option("--harmful", min=0, help="Times it misled.")] = 0,
    accessed: Annotated[int, typer.Option("--accessed", min=0, help="Times it was read.")] = 0,
    note_: options.Note = "",
    asking: options.OfMemoryOptions,
) -> None:
    """Record how often a memory was read, helped or misled."""
    if not (helpful or harmful or accessed):
        raise options.UsageError("nothing to record: give --helpful, --harmful or --accessed")
    counts = {"accessed": accessed, "helpful": helpful, "harmful": harmful}
    source = asking.source()
    [found] = read(source, partial(_live, identities=[identity], scope=asking.scope))
    _ask_about(source, found.memory, Rate, note_, asking, **counts)


def ask(source: LogTarget, events: Sequence[Event], asking: options.ChangeOptions) -> None:
    """Have a store decide on events at once, or a cluster in time; tell the outcome.

    Raises UsageError where what the first of them asks for came too late, or was set aside;
    DecisionTimeout where no owner has decided in time.
    """

    async def submitted() -> list[Response]:
        async with open_client(source, note, watched(asking.wait, note)) as client:
            return await client.submit(events)

    _show(heard(source, submitted()), asking)


def _show(
    responses: Sequence[Response],
    asking: options.ChangeOptions,
    lines: Sequence[str] | None = None,
) -> None:
    """Show `lines`, by default each decision with its reason. Raises as `ask` does."""
    decided = decisions_of(responses)
    shown = [*(_told(decided) if lines is None else lines), *places(responses)]
    record = {"decisions": [*map(decision_json, decided)], **published(responses)}
    tell(shown, record, as_json=asking.as_json)
    require_decided(responses, asking.wait)
    if decided and _changes_nothing(decided[0]):
        raise options.UsageError(f"nothing changed: {why(decided[0])}")


def _changes_nothing(decision: Decision) -> bool:
    return isinstance(decision, Marker) or is_out_of_date(decision)


def _told(decided: Sequence[Decision]) -> Iterator[str]:
    """Tell each decision and what it refused; what the first one refuses alone, the error tells."""
    for at, one in enumerate(decided):
        refused = () if isinstance(one, Marker) else one.evidence.refused
        if at == 0 and len(refused) <= 1 and _changes_nothing(one):
            continue
        yield f"{one.kind}: {outcome(one)}, because {why(one)}"
        yield from (f"  not {each}" for each in refused)


def _set_pinned(
    identity: str, note_: str, asking: options.OfMemoryOptions, *, pinned: bool
) -> None:
    """Ask to pin or unpin a memory, unless it is as wanted."""
    source = asking.source()
    [found] = read(source, partial(_live, identities=[identity], scope=asking.scope))
    memory = found.memory
    if memory.pinned != pinned:
        _ask_about(source, memory, Pin, note_, asking, pinned=pinned)
        return
    how = "is pinned already" if pinned else "is not pinned"
    _show([], asking, [f"nothing changed: memory {memory.id} {how}"])


def _ask_about(
    source: LogTarget,
    memory: Memory,
    kind: type[Pin | Rate],
    note_: str,
    asking: options.OfMemoryOptions,
    **wish: object,
) -> None:
    """Ask for a change of a memory."""
    who = author_of(source.settings, asking.author)
    wish["memory_id"] = memory.id
    ask(source, [request(kind, memory.scope, memory.id, author=who, note=note_, **wish)], asking)


async def _updated(
    source: LogTarget, identity: str, text: str, who: str, asking: options.OfMemoryOptions
) -> list[Response] | str:
    """Have a live memory say a text; return what was decided, or that it says so already."""
    async with reading(source) as reader:
        memory = (await _live_one(reader, identity, asking.scope)).memory
        if same := says_already(memory, text):
            return same
        at = told_after(memory, SystemClock().now())
        given = {
            "event_id": request_id(memory.scope, "update", who, at, memory.id),
            "scope": memory.scope,
            "text": text,
            "occurred_at": at,
        }
        try:
            said = await renewing(
                reader, memory, lambda fields: Remember.model_validate({**given, **fields})
            )
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            raise options.UsageError(f"TEXT: {problem['msg']}") from error
    async with open_client(source, note, watched(asking.wait, note)) as client:
        return await renewed(client, said, memory, lambda: who)


async def _live(
    reader: StoreReader, identities: Sequence[str], scope: str | None
) -> list[StoredMemory]:
    """Return the live memories that the ids, or their beginnings, name."""
    return [await _live_one(reader, identity, scope) for identity in identities]


async def _live_one(reader: StoreReader, beginning: str, scope: str | None) -> StoredMemory:
    """Return the live memory that an id, or its beginning, means, or that stands for it now."""
    meant = await reader.stored(await options.memory_id(reader, beginning, scope))
    if meant is None:
        raise options.UnknownId(f"no memory in {reader.place} has the id {beginning}")
    found = await standing_for(beginning, meant, reader.stored)
    if not found.memory.live:
        raise options.UsageError(not_live(found.memory))
    return found
