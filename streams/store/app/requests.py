"""Requests for changes of memories, and the clients that have them decided on."""

import getpass
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from pydantic import ValidationError

from schemas.base import ScopeName
from schemas.events import Answer, Pin, Rate, Retire, Seen
from schemas.memories import Memory
from streams.clock.system import SystemClock
from streams.model.identity import pair_id, request_id
from streams.stage.flow.judging import Judging
from streams.store.app import wiring
from streams.store.app.client import Client
from streams.store.app.cluster_client import ClusterClient, Waiting
from streams.store.app.dry_run import DecidingDependencies, DryRunClient, over
from streams.store.app.embedding import ChosenModel, chosen_for
from streams.store.app.failures import UsageError
from streams.store.app.processes import StoreClient, existing_store
from streams.store.app.projection import memories
from streams.store.app.reading import LogTarget, opened, reading
from streams.store.app.settings import InvalidSettings, Settings

_Kind = TypeVar("_Kind", bound=Answer | Pin | Rate | Retire)


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


def distinct(one: Memory, other: Memory, *, author: str, note: str) -> Answer:
    """Return the event by which `author` says that two memories are both right.

    Raises UsageError unless they are two of one scope, and InvalidSettings as `request` does.
    """
    if one.id == other.id:
        raise UsageError(f"both are memory {one.id}; name two", "other_id")
    if one.scope != other.scope:
        said = f"memory {one.id} is of scope {one.scope}, and {other.id} of {other.scope}"
        raise UsageError(f"{said}; two scopes are never compared", "other_id")
    older, newer = sorted((one, other), key=lambda memory: (memory.created_at, memory.id))
    pair = (newer.id, older.id)
    return request(
        Answer,
        one.scope,
        *pair,
        author=author,
        note=note,
        review_id=pair_id(*pair),
        newer=Seen.of(newer),
        older=Seen.of(older),
        verdict="distinct",
    )


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
async def open_client(
    target: LogTarget,
    report: Callable[[str], None],
    waiting: Waiting,
    *,
    chosen: Callable[[], ChosenModel] | None = None,
    judging: Judging | None = None,
) -> AsyncGenerator[Client]:
    """Open the client of a store, held for writing, or of a cluster, which is waited for.

    A store decides with what `chosen` returns, and with `judging`; without them both are opened.
    Raises NoStore if there is no store, or if another process writes it.
    """
    if target.embedded:
        made = chosen() if chosen else chosen_for(target, report)
        async with (
            existing_store(made, report, judging) as pipeline,
            reading(target) as reader,
        ):
            yield StoreClient(pipeline, reader)
        return
    async with opened(target) as log, memories(target, log) as index:
        await wiring.partitions(target.settings.kafka)
        yield ClusterClient(log, index, waiting)


@asynccontextmanager
async def open_dry_run(
    target: LogTarget, report: Callable[[str], None], judging: Judging
) -> AsyncGenerator[DryRunClient]:
    """Open a client that decides on a copy of the memories, and keeps nothing."""
    chosen = chosen_for(target, report)
    async with opened(target) as log, memories(target, log) as index:
        yield await over(
            await index(), chosen.policy, DecidingDependencies(chosen.embedder, judging)
        )


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise InvalidSettings("no author: set --author or reviews.author") from error
