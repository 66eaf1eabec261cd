"""The fields that an event may have besides text and scope, as keyword arguments."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, TypedDict

from pydantic import JsonValue


class AboutText(TypedDict, total=False):
    """What may be said of a text; each is as the field of that name of the `remember` event.

    `occurred_at` is when it was learnt, with a time zone; now where it is not given. `event_id` is
    unique in its scope: the same event given again, with its id, changes nothing. `importance` and
    `confidence` are from 0 to 1.
    """

    event_id: str
    occurred_at: datetime
    title: str
    category: str
    importance: float
    confidence: float
    tags: Sequence[str]
    entities: Sequence[str]
    persistence: Literal["core", "permanent", "ephemeral"]
    status: Literal["active", "tentative"]
    source: str
    turn: int
    session: str
    valid_from: datetime
    valid_until: datetime
    pinned: bool
    metadata: Mapping[str, JsonValue]


class EventFields(AboutText, total=False):
    """The same, and the memories that an event is about.

    `memory_id` is a name of your own for the memory: a later text of the same scope and name takes
    the place of this one. `supersedes` are ids of memories that this one replaces, as far
    as the policy allows.
    """

    memory_id: str
    supersedes: Sequence[str]
