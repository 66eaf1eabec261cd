"""The fields that an event may have besides text and scope, as keyword arguments."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, TypedDict

from pydantic import JsonValue


class AboutText(TypedDict, total=False):
    """The optional fields of a text, as in the `remember` event.

    `occurred_at` is when it was learnt, with a time zone; the default is now. `event_id` is unique
    in its scope: the same event with the same id changes nothing. `importance` and `confidence`
    are from 0 to 1.
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

    `memory_id` is a name that you choose for the memory: a later text of the same scope and name
    replaces this one. `supersedes` are ids of memories that this one replaces, if the policy
    allows it.
    """

    memory_id: str
    supersedes: Sequence[str]
