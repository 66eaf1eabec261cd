"""Retirement of memories without a successor: the events that request it, scope by scope."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from schemas.base import ScopeName
from schemas.decisions import Revise
from schemas.events import MEMBERS_MAX, Ended, Event, Retire
from schemas.memories import Memory, Target
from streams.changes.core.expiry import due
from streams.model.identity import retirement_id
from streams.model.policy import Policy
from streams.stage.core.sessions import ending_with
from streams.store.app.client import Response, undecided
from streams.store.app.cluster_client import watched
from streams.store.app.reading import LogTarget
from streams.store.app.requests import open_client


@dataclass(frozen=True)
class Retirement:
    """A memory to be retired, and why."""

    memory: Memory
    reason: Ended


def expiring(memories: Iterable[Memory], policy: Policy, now: datetime) -> list[Retirement]:
    """Return the live memories that have expired under the policy."""
    return [
        Retirement(memory, reason)
        for memory in memories
        if memory.live and (reason := due(memory, now, policy.rules(memory.scope)))
    ]


def session_over(
    session: str, memories: Iterable[Memory], *, author: str, now: datetime
) -> list[Retire]:
    """Return the events that end the memories that were only for a session, which is over."""
    endings = [Retirement(memory, "ended") for memory in ending_with(session, memories)]
    return requests(endings, author=author, note=f"session {session} is over", now=now)


def requests(
    endings: Sequence[Retirement], *, author: str, note: str, now: datetime
) -> list[Retire]:
    """Return the events that end memories; a memory that changes before its event's turn stays."""
    in_order = sorted(endings, key=lambda one: (*_scope_and_reason(one), one.memory.id))
    made: list[Retire] = []
    for (scope, reason), some in groupby(in_order, key=_scope_and_reason):
        targets = [Target(memory_id=one.memory.id, version=one.memory.version) for one in some]
        made += [
            Retire(
                event_id=retirement_id(scope, reason, part),
                scope=scope,
                author=author,
                occurred_at=now,
                note=note,
                memories=part,
                reason=reason,
            )
            for part in (
                tuple(targets[start : start + MEMBERS_MAX])
                for start in range(0, len(targets), MEMBERS_MAX)
            )
        ]
    return made


@dataclass(frozen=True)
class RetirementResult:
    """The number of memories that ended, and of those that stay, being changed or pinned.

    `waiting` are the undecided requests, which are about `asked` memories.
    """

    ended: int
    stay: int
    asked: int
    waiting: Sequence[Response]


async def end(
    target: LogTarget, asked: Sequence[Retire], seconds: float, report: Callable[[str], None]
) -> RetirementResult:
    """End memories; a cluster is waited for `seconds`."""
    if not asked:
        return RetirementResult(0, 0, 0, ())
    async with open_client(target, report, watched(seconds, report)) as client:
        responses = await client.submit(asked)
    waiting = undecided(responses)
    decided = [one.on_event for one in responses if one.decision is not None]
    ended = sum(len(one.memories) for one in decided if isinstance(one, Revise))
    open_ = _members(one.event for one in waiting)
    return RetirementResult(ended, _members(asked) - open_ - ended, open_, waiting)


def _members(asked: Iterable[Event]) -> int:
    return sum(len(one.memories) for one in asked if isinstance(one, Retire))


def _scope_and_reason(ending: Retirement) -> tuple[ScopeName, Ended]:
    return ending.memory.scope, ending.reason
