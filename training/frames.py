"""Labelled pairs from frames: families of sentences about one situation, with slots filled in."""

import re
from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import Any, NamedTuple

from training.values import draw

CONVERSE = {"refines": "refined-by", "refined-by": "refines"}
_SAME_PAIRS = 4
UPDATED = {
    "weekday", "month", "date", "year", "time", "duration", "number", "big", "amount", "version",
    "port", "percent", "size", "colour", "direction", "season",
}  # fmt: skip
"""Slots of which a fact has one value, so that another value contradicts it. Another person, thing
or place is more often another fact."""


class Labelled(NamedTuple):
    """A pair with the relation of the first text to the second; `weight` is its training weight."""

    event: str
    memory: str
    label: str
    source: str
    weight: float = 1.0


def of_frame(frame: dict[str, Any], fillings: int, chance: Random) -> Iterator[Labelled]:
    """Yield the pairs of a frame, filled in `fillings` times."""
    for _ in range(fillings if frame["slots"] else 1):
        yield from _filled(frame, chance)


def _filled(frame: dict[str, Any], chance: Random) -> Iterator[Labelled]:
    slots: dict[str, str] = frame["slots"]
    values = draw(slots, chance)
    same = [_said(text, values) for text in frame["same"]]
    for one, other in chance.sample(list(combinations(same, 2)), _SAME_PAIRS):
        yield _turned(Labelled(one, other, "same", "frame"), chance)
    for kind, label in (
        ("more", "refines"),
        ("contradicts", "contradicts"),
        ("distinct", "distinct"),
    ):
        for text in frame[kind]:
            yield _turned(
                Labelled(_said(text, values), chance.choice(same), label, "frame"), chance
            )
    for left, right in (("contradicts", "distinct"), ("more", "distinct"), ("contradicts", "more")):
        if frame[left] and frame[right]:
            texts = (
                _said(chance.choice(frame[left]), values),
                _said(chance.choice(frame[right]), values),
            )
            yield _turned(Labelled(*texts, "distinct", "frame", 0.5), chance)
    used = [slot for slot in slots if f"{{{slot}}}" in frame["same"][0]]
    if used:
        slot = chance.choice(used)
        changed = values | {slot: _other(slots, slot, values, chance)}
        label = "contradicts" if slots[slot] in UPDATED else "distinct"
        text = _said(chance.choice(frame["same"]), changed)
        yield Labelled(text, chance.choice(same), label, "frame-slot")
    persons = [slot for slot in used if slots[slot].startswith(("person", "city", "company"))]
    if len(persons) > 1:
        first, second = chance.sample(persons, 2)
        if slots[first] == slots[second]:
            exchanged = values | {first: values[second], second: values[first]}
            text = _said(chance.choice(frame["same"]), exchanged)
            yield Labelled(text, chance.choice(same), "distinct", "frame-swap", 0.7)


def exchanges(frame: dict[str, Any], fillings: int, chance: Random) -> Iterator[Labelled]:
    """Yield pairs of a frame of facts: in other words, with two values swapped, with one changed."""
    slots: dict[str, str] = frame["slots"]
    alike = [pair for pair in combinations(slots, 2) if slots[pair[0]] == slots[pair[1]]]
    for _ in range(fillings):
        values = draw(slots, chance)
        one, other = chance.sample(frame["same"], 2)
        yield Labelled(_said(one, values), _said(other, values), "same", "facts")
        told = one if chance.random() < 0.5 else other
        if alike:
            first, second = chance.choice(alike)
            exchanged = values | {first: values[second], second: values[first]}
            yield Labelled(_said(told, exchanged), _said(one, values), "distinct", "facts-swap")
        slot = chance.choice(list(slots))
        changed = values | {slot: _other(slots, slot, values, chance)}
        told = one if chance.random() < 0.5 else other
        label = "contradicts" if slots[slot] in UPDATED else "distinct"
        yield Labelled(_said(told, changed), _said(one, values), label, "facts-slot", 0.7)


def _other(slots: dict[str, str], slot: str, values: dict[str, str], chance: Random) -> str:
    while (value := draw(slots, chance)[slot]) in values.values():
        pass
    return value


def _turned(pair: Labelled, chance: Random) -> Labelled:
    return converse(pair) if chance.random() < 0.5 else pair


def converse(pair: Labelled) -> Labelled:
    """Return the pair with its texts swapped and the converse label."""
    label = CONVERSE.get(pair.label, pair.label)
    return pair._replace(event=pair.memory, memory=pair.event, label=label)


def _said(template: str, values: dict[str, str]) -> str:
    text = re.sub(r"\{(\w+)\}", lambda slot: values[slot[1]], template)
    text = re.sub(r"\b([Aa]) (?=[aeioAEIO]|8\b|11\b|18\b)", r"\1n ", text)
    return text[:1].upper() + text[1:] if template.startswith("{") else text
