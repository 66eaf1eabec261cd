"""Screens events for content that must not be kept, before any other processing."""

from dataclasses import replace
from functools import partial

from schemas.codec import EVENT, Unreadable
from schemas.events import Remember
from streams.model.policy import Policy
from streams.model.ports import Poison, Screener
from streams.model.screening import screened
from streams.stage.flow.dead_letters import ATTEMPTS_HEADER, oversized
from streams.stage.flow.incoming import Received, Withheld


def screen(item: Received, policy: Policy, screener: Screener | None) -> Received:
    """Screen an event and treat the findings as the policy of its scope says.

    An event that a person has reviewed and requeued is not set aside again.
    """
    event = item.event
    if screener is None or not isinstance(event, Remember):
        return item
    rule = policy.rules(event.scope).privacy
    if not rule.screens:
        return item
    found = screened(event, rule, partial(screener.spot, region=rule.region))
    if found.event is not None:
        return _masked(item, found.event, found.found) if found.found else item
    if not found.asks:
        return replace(item, event=Withheld(event.event_id, event.scope, found.found))
    if ATTEMPTS_HEADER in dict(item.record.headers):
        return item
    kinds = ", ".join(found.found)
    return replace(
        item,
        event=Poison(
            f"may hold: {kinds}; check it, then requeue it unchanged or corrected, or drop it",
            "text",
        ),
    )


def _masked(item: Received, event: Remember, found: tuple[str, ...]) -> Received:
    """Return a masked event, or Poison if the masks made it too long."""
    value = EVENT.encode(event)
    poison = oversized(value)
    try:
        EVENT.decode(value, likely="remember")
    except Unreadable as error:
        poison = Poison(str(error), error.field)
    if poison is None:
        return Received(replace(item.record, value=value), event, found)
    return replace(item, event=Poison(f"with {', '.join(found)} masked: {poison}", poison.field))
