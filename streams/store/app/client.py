"""The port that has events decided on, by a store, a cluster or a dry run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

from schemas.codec import EVENT
from schemas.decisions import Decision, Ignore, Marker, OnEvent, Reason
from schemas.events import Event
from streams.model.ports.failures import Fatal, Poison
from streams.model.ports.index import Index
from streams.model.ports.log import OutgoingRecord
from streams.stage.flow.incoming import addressed

ATTEMPTS = 5
"""Attempts at one request: memories that change that often meanwhile will go on changing."""


class DecisionTimeout(Exception):
    """The services have not decided on a request in time. It stays queued."""


@dataclass(frozen=True)
class Response:
    """What became of a submitted event.

    `own` is the decision on it, None if there is none yet. If it repeats an event, `first` is the
    decision on that one, where it is at hand. `place` is where it waits for the services; None if
    it was decided on at once. `refused` says why it can never be decided on, where that is looked up.
    """

    event: Event
    own: Decision | None = None
    first: Decision | None = None
    place: str | None = None
    refused: Poison | None = None

    @property
    def repeated(self) -> bool:
        """Whether the event is a repetition, and the decision that holds is an earlier one."""
        return self.first is not None

    @property
    def decision(self) -> Decision | None:
        """The decision that holds."""
        return self.first or self.own

    @property
    def on_event(self) -> OnEvent:
        """The decision that holds. Raises Fatal if the event was set aside instead."""
        decision, event = self.decision, self.event
        if decision is None or isinstance(decision, Marker):
            raise Fatal(
                f"{event.kind} {event.event_id} was not decided on: memsieve dead-letters list"
            )
        return decision


class Client(Protocol):
    """Has events decided on."""

    @property
    def attempts_left(self) -> int:
        """How often a request that came too late may be planned and submitted again.

        0 where nobody else writes, so that nothing comes too late.
        """
        ...

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        """Have events decided on in order; return the response to each, in order."""
        ...

    async def index(self) -> Index:
        """Return the memories, with the decisions of all responses applied."""
        ...


def undecided(responses: Sequence[Response]) -> list[Response]:
    """Return the responses whose decision is still to come."""
    return [one for one in responses if one.own is None and one.refused is None]


def require_decided(responses: Sequence[Response], seconds: float) -> None:
    """Raise DecisionTimeout if a response has no decision after so many seconds, if any."""
    if seconds and (waiting := undecided(responses)):
        raise DecisionTimeout(
            f"no owner has decided on {len(waiting):,} of {len(responses):,} requests within "
            f"{seconds:g} s: they stay queued and will be decided; is the deduplicator "
            f"running? memsieve explain {waiting[0].event.event_id}"
        )


def decisions_of(responses: Sequence[Response]) -> list[Decision]:
    """Return the decisions made so far."""
    return [one.decision for one in responses if one.decision is not None]


def is_out_of_date(decision: Decision | None) -> bool:
    """Return whether a request was refused because its memories had changed before its turn."""
    late = {Reason.OUT_OF_DATE, Reason.ANSWERED_TOO_LATE}
    return isinstance(decision, Ignore) and decision.evidence.reason in late


def is_again(decision: Decision | None) -> TypeGuard[Ignore]:
    """Return whether an event was ignored as a repetition."""
    return isinstance(decision, Ignore) and decision.evidence.reason is Reason.SAME_EVENT


def may_retry(client: Client, responses: Sequence[Response], report: Callable[[str], None]) -> bool:
    """Return whether to plan requests again that were refused as out of date; report it if so."""
    refused = sum(is_out_of_date(one.decision) for one in responses)
    left = client.attempts_left
    if not refused or not left:
        return False
    report(
        f"{refused:,} of {len(responses):,} refused: its memories have changed since it was "
        f"planned; it is planned and requested again ({ATTEMPTS - left + 1} of {ATTEMPTS})"
    )
    return True


def record_of(event: Event, partitions: int) -> OutgoingRecord:
    """Return the record that publishes an event, keyed by its scope."""
    return addressed(event.scope, EVENT.encode(event), partitions)
