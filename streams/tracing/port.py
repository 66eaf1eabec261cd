"""Where traces go to, as the flow sees it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
Attributes: TypeAlias = Mapping[str, str | int | Sequence[str]]

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
"""The headers of the W3C trace context."""


class TraceStep(Protocol):
    """One step in the trace of a record. It is recorded only if it ends."""

    @property
    def headers(self) -> Headers:
        """The trace context that the records made in this step carry on; none if there is none."""
        ...

    def end(self) -> None:
        """End the step now."""
        ...


class Tracing(Protocol):
    """Records the steps of traces. Never raises, whatever a record came with."""

    def now(self) -> int:
        """Return the time, in nanoseconds since 1970."""
        ...

    def step(
        self, name: str, came_with: Headers, since: int, attributes: Callable[[], Attributes]
    ) -> TraceStep:
        """Begin a step, as of `since`, in the trace whose context a record came with.

        Without a valid context a trace begins. `attributes` is asked only if the step is sampled.
        """
        ...
