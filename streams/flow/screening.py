"""Events looked through for what must not be kept, before anything is made of them."""

from dataclasses import replace
from functools import partial

from schemas.codec import EVENT, Unreadable
from schemas.events import Remember
from streams.core.policy import Policy
from streams.core.screening import screened
from streams.flow.dead_letters import ATTEMPTS_HEADER, oversized
from streams.flow.deduplicate import Received, Withheld
from streams.ports import Poison, Screener


def screen(item: Received, policy: Policy, screener: Screener | None) -> Received:
    """Do with an event what the policy of its scope wants done with what is found in it.

    What a person has looked at and published again is not set aside once more.
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
            f"may hold: {kinds}; look at it, then requeue it as it is or mended, or drop it", "text"
        ),
    )


def _masked(item: Received, event: Remember, found: tuple[str, ...]) -> Received:
    """Go on with an event whose masks may have made it longer than an event can be."""
    value = EVENT.encode(event)
    poison = oversized(value)
    try:
        EVENT.decode(value, likely="remember")
    except Unreadable as error:
        poison = Poison(str(error), error.field)
    if poison is None:
        return Received(replace(item.record, value=value), event, found)
    return replace(item, event=Poison(f"with {', '.join(found)} masked: {poison}", poison.field))
