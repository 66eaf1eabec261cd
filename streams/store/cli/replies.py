"""Prints what a cluster's owners have decided so far, for people and programs."""

import asyncio
import signal
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from streams.store.app.client import Response, undecided
from streams.store.app.reading import LogTarget

_Result = TypeVar("_Result")


def heard(source: LogTarget, asking: Coroutine[Any, Any, _Result]) -> _Result:
    """Run what may wait for a cluster: Ctrl-C ends the waiting in order."""
    if not source.embedded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return asyncio.run(asking)


def places(responses: Sequence[Response]) -> Iterator[str]:
    """Tell where those requests lie that are not decided on, and how to look."""
    for one in undecided(responses):
        event = one.event.event_id
        yield f"published as {one.place}; for the result: memsieve explain {event}"
