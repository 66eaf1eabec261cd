"""New memories and corrections as they are asked for, and the events that they become."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from schemas.base import Count, EventName, FewLabels, Label, Metadata, Moment, Record, Text, Unit
from schemas.codec import EVENT
from schemas.events import Remember
from schemas.memories import Memory, Persistence
from streams.changes.app.updating import told_after
from streams.model.identity import said_event_id
from streams.model.observed import is_ahead
from streams.model.ports.failures import Poison
from streams.stage.flow.dead_letters import oversized


class Fresh(Remember):
    """A new memory. `event_id` defaults to a new id, `occurred_at` to now.

    Sent again with its id, it is ignored. The other fields are those of the event `remember`.
    """

    model_config = ConfigDict(json_schema_extra=None)

    event_id: EventName | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - until it is an event
    occurred_at: Moment | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - until it is an event


class Correction(Record):
    """The new text of a memory; an omitted field keeps its value."""

    text: Text
    event_id: EventName | None = None
    occurred_at: Moment | None = None
    source: Label | None = None
    title: Label | None = None
    category: Label | None = None
    importance: Unit | None = None
    confidence: Unit | None = None
    tags: FewLabels | None = None
    entities: FewLabels | None = None
    persistence: Persistence | None = None
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    metadata: Annotated[Metadata, Field(max_length=256)] | None = None
    status: Literal["active", "tentative"] | None = None
    turn: Count | None = None
    session: Label | None = None
    pinned: bool | None = None


def event_of(fresh: Fresh, by: str, now: datetime) -> Remember | Poison:
    """Return `fresh` as an event, or why it is invalid.

    `by` tells apart who says the same at the same time. A memory without a name is named after its
    event: an update keeps the id of a named one.
    """
    at = fresh.occurred_at or now
    if is_ahead(at, now):
        said = (
            f"is {at:%Y-%m-%d %H:%M:%S} UTC, in the future; give the time at which it was observed, "
            "or leave it out, and valid_from for when it begins"
        )
        return Poison(said, "occurred_at")
    identity = fresh.event_id or said_event_id(fresh.scope, by, at, fresh.text)
    name = fresh.memory_id if "memory_id" in fresh.model_fields_set else identity
    given = {**dict(fresh), "event_id": identity, "occurred_at": at, "memory_id": name}
    event = Remember.model_validate(given)
    return oversized(EVENT.encode(event)) or event


def correcting(
    memory: Memory, correction: Correction, address: Mapping[str, object], now: datetime
) -> Fresh:
    """Return the correction of a memory, which `address` names; fields that it omits stay."""
    kept = (Correction.model_fields.keys() & Memory.model_fields.keys()) - {"status"}
    values = {name: getattr(memory, name) for name in kept}
    values["occurred_at"] = told_after(memory, now)
    values |= correction.model_dump(exclude_none=True)
    return Fresh.model_validate({**values, "scope": memory.scope, **address})
