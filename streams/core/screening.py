"""Secrets and personal data in an event: kept, masked, or kept out, before anything is stored."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import JsonValue

from schemas.base import LABEL_MAX
from schemas.decisions import Block, Decision, Marker
from schemas.events import Remember
from streams.core.policy import Privacy, Screened

Sort: TypeAlias = Literal["secret", "personal"]


@dataclass(frozen=True)
class Spotted:
    """Characters `start` to `end` of a text that are, say, an "e-mail address"."""

    sort: Sort
    kind: str
    start: int
    end: int


Spot: TypeAlias = Callable[[str], Sequence[Spotted]]
"""Finds what may have to be kept out of a text."""


@dataclass(frozen=True)
class Screening:
    """What became of an event; `found` names the kinds that were found.

    `event` is None where it must not be kept; `asks` then says that a person is to look at it.
    """

    event: Remember | None
    found: tuple[str, ...] = ()
    asks: bool = False


def screened(event: Remember, rule: Privacy, spot: Spot) -> Screening:
    """Look through all that an event says, and do what the policy wants done with what is found.

    To keep it out goes before a person's look at it, and that before a mask.
    """
    found = [one for text in _texts(event) for one in spot(text)]
    wanted: dict[str, Screened] = {one.kind: rule.of(one.sort) for one in found}
    kinds = tuple(dict.fromkeys(kind for kind, act in wanted.items() if act != "keep"))
    acts = set(wanted.values())
    if "drop" in acts:
        return Screening(None, kinds)
    if "review" in acts:
        return Screening(None, kinds, asks=True)
    if "mask" in acts:
        return Screening(_masked(event, rule, spot), kinds)
    return Screening(event)


def was_screened(decision: Decision) -> bool:
    """Tell whether the record of the event says more than may be kept: the log is to let it go."""
    if isinstance(decision, Marker):
        return isinstance(decision, Block)
    return bool(decision.evidence.masked)


def _texts(event: Remember) -> Iterator[str]:
    """Yield what an event says in words; names such as its id and scope are its producer's own."""
    yield event.text
    yield from (text for text in (event.title, event.category) if text is not None)
    yield from (*event.tags, *event.entities)
    yield from _strings(event.metadata)


def _strings(value: JsonValue | Mapping[str, JsonValue]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _masked(event: Remember, rule: Privacy, spot: Spot) -> Remember:
    """Return the event with the kind of what was found in its place: `[e-mail address]`."""

    def mask(text: str) -> str:
        spots = [one for one in spot(text) if rule.of(one.sort) == "mask"]
        return _without(text, spots)

    update = {
        "text": mask(event.text),
        "title": None if event.title is None else mask(event.title)[:LABEL_MAX],
        "category": None if event.category is None else mask(event.category)[:LABEL_MAX],
        "tags": tuple(mask(tag)[:LABEL_MAX] for tag in event.tags),
        "entities": tuple(mask(entity)[:LABEL_MAX] for entity in event.entities),
        "metadata": _each(event.metadata, mask),
    }
    return event.model_copy(update=update)


def _each(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _each(inner, change) for key, inner in value.items()}
    return [_each(inner, change) for inner in value] if isinstance(value, list) else value


def _without(text: str, spots: Sequence[Spotted]) -> str:
    """Replace what was spotted, the longer of what overlaps."""
    parts: list[str] = []
    at = 0
    for one in sorted(spots, key=lambda one: (one.start, -one.end)):
        if one.start >= at:
            parts += [text[at : one.start], f"[{one.kind}]"]
        at = max(at, one.end)
    return "".join([*parts, text[at:]])
