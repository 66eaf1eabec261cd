"""Screening of events for secrets and personal data: keep, mask or drop before storing anything."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import JsonValue

from schemas.base import LABEL_MAX
from schemas.decisions import Block, Decision, Marker
from schemas.events import Remember
from streams.model.policy import Privacy, Screened

Sort: TypeAlias = Literal["secret", "personal"]


@dataclass(frozen=True)
class SensitiveSpan:
    """A span of a text, from `start` to before `end`, of a kind such as "e-mail address"."""

    sort: Sort
    kind: str
    start: int
    end: int


Spot: TypeAlias = Callable[[str], Sequence[SensitiveSpan]]
"""Finds the spans of a text that may be sensitive."""


@dataclass(frozen=True)
class Screening:
    """The outcome of screening an event; `found` lists the kinds found that are not kept.

    `event` is None if it must not be kept; `asks` then says that a person must look at it.
    """

    event: Remember | None
    found: tuple[str, ...] = ()
    asks: bool = False


def screened(event: Remember, rule: Privacy, spot: Spot) -> Screening:
    """Screen all texts of an event and apply the policy to what is found.

    If several actions apply, `drop` takes precedence over `review`, and `review` over `mask`.
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
    """Return whether the event's record has content that may not be kept: the log must erase it."""
    if isinstance(decision, Marker):
        return isinstance(decision, Block)
    return bool(decision.evidence.masked)


def _texts(event: Remember) -> Iterator[str]:
    """Yield all texts of an event, except the producer's identifiers such as its id and scope."""
    labels = (event.title, event.category, *event.tags, *event.entities)
    yield from (text for text in (event.text, *labels) if text is not None)
    yield from _strings(event.metadata)


def _strings(value: JsonValue | Mapping[str, JsonValue]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(inner)


def _masked(event: Remember, rule: Privacy, spot: Spot) -> Remember:
    """Return the event with each finding replaced by its kind: `[e-mail address]`."""

    def mask(text: str) -> str:
        spots = [one for one in spot(text) if rule.of(one.sort) == "mask"]
        return _without(text, spots)

    def label(text: str) -> str:
        return mask(text)[:LABEL_MAX]

    update = {
        "text": mask(event.text),
        "title": event.title and label(event.title),
        "category": event.category and label(event.category),
        "tags": tuple(map(label, event.tags)),
        "entities": tuple(map(label, event.entities)),
        "metadata": _each(event.metadata, mask),
    }
    return event.model_copy(update=update)


def _each(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _each(inner, change) for key, inner in value.items()}
    return [_each(inner, change) for inner in value] if isinstance(value, list) else value


def _without(text: str, spots: Sequence[SensitiveSpan]) -> str:
    """Return a text with each span replaced by its kind; overlapping spans are replaced once."""
    parts: list[str] = []
    at = 0
    for one in sorted(spots, key=lambda one: (one.start, -one.end)):
        if one.start >= at:
            parts += [text[at : one.start], f"[{one.kind}]"]
        at = max(at, one.end)
    return "".join([*parts, text[at:]])
