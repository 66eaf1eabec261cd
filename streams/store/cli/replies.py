"""Prints what a cluster's owners have decided so far, for people and programs."""

import asyncio
import signal
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from schemas.decisions import Decision
from streams.stage.core.explain import why
from streams.store.app.client import Response, undecided
from streams.store.app.reading import LogTarget

_Result = TypeVar("_Result")

_ONE = {"values"}
_EACH = {"__all__": _ONE}
_VECTORS: dict[str, Any] = {
    "embedding": _ONE,
    "event_embedding": _ONE,
    "variant_embeddings": _EACH,
    "memories": {"__all__": {"embedding": _ONE, "variant_embeddings": _EACH}},
    "event": {"memories": {"__all__": {"embedding": _ONE}}},
}
"""The parts of a decision that hold vectors: two kilobytes each."""


def heard(source: LogTarget, asking: Coroutine[Any, Any, _Result]) -> _Result:
    """Run what may wait for a cluster: Ctrl-C ends the waiting in order."""
    if not source.embedded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return asyncio.run(asking)


def decision_json(decision: Decision, *, vectors: bool = False) -> dict[str, Any]:
    """Return a decision for programs: its record, and in words why it was made.

    Without `vectors`, an embedding has only its model and dimension.
    """
    record = decision.model_dump(mode="json", exclude=None if vectors else _VECTORS)
    return {"why": why(decision), **record}


def published(responses: Sequence[Response]) -> dict[str, Any]:
    """Return for programs which events were published where, and which are not decided on yet."""
    placed = ((one.event.event_id, one.place) for one in responses if one.place is not None)
    return {
        "published": [{"event_id": identity, "place": place} for identity, place in placed],
        "undecided": [one.event.event_id for one in undecided(responses)],
    }


def places(responses: Sequence[Response]) -> Iterator[str]:
    """Tell where those requests lie that are not decided on, and how to look."""
    for one in undecided(responses):
        event = one.event.event_id
        yield f"published as {one.place}; for the result: memsieve explain {event}"
