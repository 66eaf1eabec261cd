"""`memsieve undo`: reverses a decision, and the decisions that depend on it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from schemas.base import MemoryId
from schemas.decisions import Decision, Ignore, Marker
from schemas.memories import Memory
from streams.changes.app import lineages
from streams.changes.app.lineages import IncompleteUndo, planned, twins
from streams.changes.cli.requests import ask
from streams.changes.core.history import standing
from streams.clock.system import SystemClock
from streams.stage.core.explain import outcome, why
from streams.stage.core.lineage import CannotUndo, Changing, UndoPlan, Wish
from streams.store.app.client import Response, decisions_of, require_decided, undecided
from streams.store.app.cluster_client import watched
from streams.store.app.reading import AmbiguousPrefix, LogTarget, reading
from streams.store.app.requests import author_of, open_client
from streams.store.cli import options
from streams.store.cli.console import note, quoted, tell
from streams.store.cli.replies import decision_json, heard, places, published

_TEXT_WIDTH = 80


def undo(
    decision: Annotated[
        str, typer.Argument(metavar="DECISION", help="Its id, its event's id, or an id prefix.")
    ],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be undone.")
    ] = False,
    note_: options.Note = "",
    asking: options.ChangeOptions,
) -> None:
    """Undo a decision, and restore its memories.

    What a later event added to a memory becomes a memory of its own. Later decisions on the same
    memories are undone too, and their events decided again. An undo can itself be undone. On a
    cluster, the services decide; if memories change meanwhile, the undo is planned again.
    """
    if not decision:
        raise options.UsageError("DECISION is empty")
    source, wait = asking.source(), asking.wait
    wish = Wish(author_of(source.settings, asking.author), SystemClock().now(), note_)
    try:
        told = heard(source, _undo(source, decision, wish, wait, dry_run=dry_run))
    except (CannotUndo, AmbiguousPrefix) as error:
        if isinstance(error, IncompleteUndo) and not dry_run:
            note(str(error))
            ask(source, error.events, asking)
            return
        raise options.UsageError(str(error)) from error
    if told is None:
        raise options.UnknownId(f"no decision has the id {decision}: memsieve decisions")
    tell(told.lines, told.as_json, as_json=asking.as_json)
    require_decided(told.responses, wait)
    if told.decided and isinstance(told.decided[0], Ignore | Marker):
        raise options.UsageError(f"nothing was undone: {why(told.decided[0])}")


@dataclass(frozen=True)
class _Told:
    """An undo as people are told of it: the plan, and the responses to what it asks for.

    `twins` pairs its memories with others that have the same text.
    """

    plan: UndoPlan
    responses: Sequence[Response] = ()
    twins: Mapping[MemoryId, MemoryId] = field(default_factory=dict[MemoryId, MemoryId])

    @property
    def decided(self) -> list[Decision]:
        return decisions_of(self.responses)

    @property
    def lines(self) -> Iterator[str]:
        plan = self.plan
        yield f"undo   {_in_a_line(plan.meant)}"
        for one in plan.resting:
            yield f"with   {_in_a_line(one)}"
            if one in plan.unsettled:
                yield f"       {why(one)}; it is not repeated: check it"
        for before, after in plan.memories:
            # The id of a new memory comes from the request's time: a dry run has another one.
            named = f"memory {after.id}" if before or self.responses else "a new memory"
            yield f"{named} {_becomes(before, after)}"
            yield f"       {quoted(after.text, _TEXT_WIDTH)}"
            if (twin := self.twins.get(after.id)) is not None:
                join = f"memsieve consolidate --now --scope {after.scope}"
                yield f"       memory {twin} says the same; join them with: {join}"
        for one in self.decided:
            yield f"{one.kind}: {outcome(one)}, because {why(one)}"
        yield from places(undecided(self.responses)[:1])

    @property
    def as_json(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "request": plan.request.model_dump(mode="json"),
            "republished": [event.model_dump(mode="json") for event in plan.republished],
            "to_be_looked_at": [one.decision_id for one in plan.unsettled],
            "decisions": [*map(decision_json, self.decided)],
            **published(self.responses),
        }


async def _undo(
    source: LogTarget, identity: str, wish: Wish, wait: int, *, dry_run: bool
) -> _Told | None:
    if dry_run:
        async with reading(source) as reader:
            plan = await planned(reader, identity, wish)
        return None if plan is None else _Told(plan)
    async with (
        open_client(source, note, watched(wait, note)) as client,
        reading(source) as reader,
    ):
        undone = await lineages.undo(client, reader, identity, wish, note)
        return None if undone is None else _Told(*undone, await twins(client, undone[0]))


def _in_a_line(decision: Changing) -> str:
    event = decision.event
    said = quoted(event.text, _TEXT_WIDTH)
    return f"{decision.decision_id}  {decision.kind:<9}  {event.occurred_at:%Y-%m-%d}  {said}"


def _becomes(before: Memory | None, after: Memory) -> str:
    """Tell what an undo makes of a memory."""
    if before is None:
        return "begins"
    if not after.live:
        return standing(after)
    if not before.live:
        return "is back"
    return "stays" if before.content_key == after.content_key else "says again"
