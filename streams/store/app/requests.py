"""Requests for changes of memories, and their immediate decision by an embedded store."""

import getpass
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from pydantic import ValidationError

from schemas.base import ScopeName
from schemas.codec import EVENT
from schemas.decisions import Decision, Marker, OnEvent
from schemas.events import Event, Pin, Rate, Retire
from schemas.topics import DECISIONS
from streams.clock.system import SystemClock
from streams.model.identity import decision_id, request_id
from streams.model.ports import Fatal, Outgoing
from streams.stage.flow.decisions import DECISION_ID_HEADER, read_decision
from streams.stage.flow.incoming import addressed
from streams.store.app.embedding import Chosen, for_store
from streams.store.app.processes import EmbeddedPipeline, embedded
from streams.store.app.reading import Target, opened
from streams.store.app.setting_groups import IndexSettings, LogSettings
from streams.store.app.settings import InvalidSettings, Settings
from streams.store.world.store_directory import StoreDirectory

_Kind = TypeVar("_Kind", Pin, Rate, Retire)


def request(
    kind: type[_Kind], scope: ScopeName, *about: str, author: str, note: str, **fields: object
) -> _Kind:
    """Return the event by which `author` requests a change now; `about` makes its id unique.

    Raises InvalidSettings if author or note cannot be published.
    """
    at = SystemClock().now()
    values = {
        "event_id": request_id(scope, kind.__name__.lower(), author, at, *about),
        "scope": scope,
        "author": author,
        "occurred_at": at,
        "note": note,
        **fields,
    }
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise unpublishable(error) from error


def unpublishable(error: ValidationError) -> InvalidSettings:
    """Return an error that names the command option that cannot be published."""
    problem = error.errors(include_url=False, include_input=False)[0]
    return InvalidSettings(f"--{problem['loc'][0]}: {problem['msg']}")


def author_of(settings: Settings, given: str | None) -> str:
    """Return the author: the given one, else that of the settings, else the login name."""
    named = given if given is not None else settings.reviews.author or _login()
    if not named.strip():
        raise InvalidSettings("--author is empty: say who asks")
    return named.strip()


@asynccontextmanager
async def existing_store(
    settings: Settings, chosen: Chosen, report: Callable[[str], None]
) -> AsyncGenerator[EmbeddedPipeline]:
    """Open an existing store for writing, with the index and partitions it was made with.

    Pending work in it is finished first. Raises NoStore if there is none, or if another process
    writes it.
    """
    StoreDirectory(settings.store).require()
    kept = as_made(chosen.settings)
    async with embedded(kept, chosen.policy, chosen.embedder, report) as pipeline:
        await pipeline.recover()
        yield pipeline


def as_made(settings: Settings) -> Settings:
    """Return the settings with an existing store's index and partitions; unchanged without one."""
    made = StoreDirectory(settings.store).manifest()
    if made is None:
        return settings
    kept = {
        "index": IndexSettings(kind=made.index),
        "log": LogSettings(partitions=made.partitions),
    }
    return settings.model_copy(update=kept)


class Decider:
    """Decides on events at once in an embedded store."""

    def __init__(self, settings: Settings, report: Callable[[str], None]) -> None:
        self._settings = settings
        self._report = report
        self._chosen: Chosen | None = None

    async def decide(self, *events: Event) -> list[OnEvent]:
        """Decide on events in order and apply the decisions; return them.

        Events that already wait are finished first. Raises NoStore if another process writes the
        store.
        """
        StoreDirectory(self._settings.store).require()
        self._chosen = self._chosen or for_store(self._settings, self._report)
        async with existing_store(self._settings, self._chosen, self._report) as pipeline:
            return await decided_by(pipeline, events)


async def decided_by(pipeline: EmbeddedPipeline, events: Sequence[Event]) -> list[OnEvent]:
    """Decide on events in order and apply the decisions. Raises Fatal if one was set aside."""
    decided = await taken_by(pipeline, events)
    return [on_event(*one) for one in zip(decided, events, strict=True)]


async def taken_by(pipeline: EmbeddedPipeline, events: Sequence[Event]) -> list[Decision]:
    """Decide on events in order and apply the decisions; return them, whatever their kind."""
    partitions = await pipeline.partitions()
    return await pipeline.take([record_of(event, partitions) for event in events])


async def decisions_on(settings: Settings, events: Sequence[Event]) -> list[OnEvent]:
    """Return an embedded store's decisions on events. Raises Fatal if one has none."""
    ids = [decision_id(event.scope, event.event_id) for event in events]
    async with opened(Target(settings, embedded=True)) as log:
        records = await log.find(DECISIONS.name, DECISION_ID_HEADER, ids)
    decided = {one.decision_id: one for one in map(read_decision, records)}
    return [on_event(decided.get(i), e) for i, e in zip(ids, events, strict=True)]


def on_event(decision: Decision | None, event: Event) -> OnEvent:
    """Return `decision` as one on an event. Raises Fatal if the event was set aside instead."""
    if decision is None or isinstance(decision, Marker):
        raise Fatal(f"{event.kind} {event.event_id} was not decided on: memsieve dead-letters list")
    return decision


def record_of(event: Event, partitions: int) -> Outgoing:
    """Return the record that publishes an event, keyed by its scope."""
    return addressed(event.scope, EVENT.encode(event), partitions)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise InvalidSettings("no author: set --author or reviews.author") from error
