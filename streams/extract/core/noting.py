"""Builds the event of a turn, with the place, time and turn in which something was learnt."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic import JsonValue

from schemas.events import Remember
from schemas.turns import Place, State, Turn
from streams.extract.core.triggers import FiredTrigger, score_change
from streams.model.identity import turn_event_id
from streams.model.places import LOCATION_NAME, SCORE


def event_of(
    turn: Turn,
    fired: Sequence[FiredTrigger],
    *,
    taken: str,
    fields: Mapping[str, Any],
    notes: Mapping[str, JsonValue] = MappingProxyType({}),
) -> Remember:
    """Return an event of a turn with the given fields; `taken` makes it unique within the turn.

    Everything else comes from the turn. `notes` are added as metadata.
    """
    metadata: dict[str, JsonValue] = {
        "turn_id": turn.turn_id,
        "triggers": [str(one.trigger) for one in fired],
        **_state(turn),
        **notes,
    }
    return Remember(
        event_id=turn_event_id(turn.scope, turn.turn_id, taken),
        scope=turn.scope,
        occurred_at=turn.occurred_at,
        turn=turn.number,
        session=turn.session,
        metadata=metadata,
        **fields,
    )


def place_of(turn: Turn) -> Place | None:
    """Return the place that a turn tells of; None if that is unknown.

    A scope that ends with the number of the place before is of that place, whoever chose it.
    """
    if turn.state is None:
        return None
    before, after = turn.state.location_before, turn.state.location_after
    number = turn.scope.rpartition("/")[2]
    if before is not None and number == str(before.id) and (after is None or after != before):
        return before
    return arrived(turn.state)


def arrived(state: State) -> Place | None:
    """Return where an action led: the world's answer tells of the place that was entered.

    After a death it tells of the place where that happened, wherever the agent wakes up.
    """
    before, after = state.location_before, state.location_after
    return before or after if state.died else after or before


def _state(turn: Turn) -> dict[str, JsonValue]:
    place = place_of(turn)
    told: dict[str, JsonValue] = {
        "location": None if place is None else place.id,
        LOCATION_NAME: None if place is None else place.name,
        SCORE: score_change(turn.state or State()),
    }
    return {name: value for name, value in told.items() if value is not None}
