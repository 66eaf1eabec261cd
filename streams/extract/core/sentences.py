"""Events without a language model: one per sentence, verbatim.

Taken are a user's sentences that fire a trigger, and a world's that are informative. What a model
says by itself is not taken, because nothing supports it; what it did is, where the world answers
that with points and few words.
"""

import re
from collections.abc import Iterator

from schemas.events import Remember
from schemas.turns import State, Turn
from streams.extract.core.looking import ExaminedTurn
from streams.extract.core.noting import event_of
from streams.extract.core.stating import only_names
from streams.extract.core.triggers import (
    Trigger,
    score_change,
    taken,
    talk_triggers,
    without_request,
)
from streams.extract.core.utterances import Utterance, words
from streams.text.function_words import FUNCTION_WORDS
from streams.text.lexicon import Lexicon

_WORDS_MIN = 3
_CONTENT_WORDS_MIN = 2
"""Shorter sentences are exclamations ("Taken.", "Oh no!") or depend on their context."""

_REFUSAL = re.compile(
    r"\b(?:can(?:no|['\u2019])t|can not|could(?:n['\u2019]t| not)|won['\u2019]t|will not"
    r"|do(?:es)?n['\u2019]t (?:work|budge|move|open|fit)|unable|impossible|refuses|fails|nothing happens"
    r"|not allowed|error)\b",
    re.IGNORECASE,
)
_TALK_CATEGORIES = {
    Trigger.PREFERENCE: "PREFERENCE",
    Trigger.FACT: "FACT",
    Trigger.CORRECTION: "FACT",
    Trigger.REMEMBER: "NOTE",
}
"""In order of precedence: the first that fired gives the category."""


def events_of(looked: ExaminedTurn, lexicon: Lexicon) -> tuple[Remember, ...]:
    """Return an event for each distinct informative sentence; none if no trigger fired.

    A change of the score is never left without one: if the world says no such sentence, what was
    done is noted with its answer.
    """
    on = {one.trigger for one in looked.fired}
    told = [
        said for said in looked.heard if said.by == "user" or not only_names(said.sentence, lexicon)
    ]
    found = {event.event_id: event for said in told for event in _event(looked, said, on)}
    if Trigger.SCORE in on and not any(event.source == "world" for event in found.values()):
        found |= {event.event_id: event for event in _scored(looked, on)}
    return tuple(found.values())


def is_informative(sentence: str) -> bool:
    """Return whether a sentence makes a self-contained statement."""
    said = words(sentence)
    content = [word for word in said if word not in FUNCTION_WORDS]
    asks = sentence.rstrip("\"')\u201d\u2019 ").endswith("?")
    return len(said) >= _WORDS_MIN and len(content) >= _CONTENT_WORDS_MIN and not asks


def _event(looked: ExaminedTurn, said: Utterance, on: set[Trigger]) -> Iterator[Remember]:
    turn, sentence = looked.turn, said.sentence
    category: str | None = None
    if said.by == "user":
        category = _of_talk(sentence, on)
        sentence = without_request(sentence).removesuffix("?").strip()
    elif said.by == "world" and on - _TALK_CATEGORIES.keys():
        category = _of_world(turn, sentence, on)
    if category is not None and is_informative(sentence):
        fields = {"text": sentence, "category": category, "source": said.by}
        yield event_of(turn, looked.fired, taken=" ".join(words(sentence)), fields=fields)


def _scored(looked: ExaminedTurn, on: set[Trigger]) -> Iterator[Remember]:
    """Yield what was done, with all that the world answers: "take lamp: Taken."."""
    answer = " ".join(said.sentence for said in looked.heard if said.by == "world")
    if not answer:
        return
    turn = looked.turn
    text = f"{action}: {answer}" if (action := _action(turn)) else answer
    fields = {"text": text, "category": _of_world(turn, text, on), "source": "world"}
    yield event_of(turn, looked.fired, taken=" ".join(words(text)), fields=fields)


def _action(turn: Turn) -> str:
    """Return what the model did, in its last line: a plan may come before it."""
    said = [part.text for part in turn.said if part.by == "model"]
    lines = said[-1].strip().splitlines() if said else []
    return lines[-1].strip().rstrip(".:") if lines else ""


def _of_talk(sentence: str, on: set[Trigger]) -> str | None:
    found = set(talk_triggers(sentence)) & on
    return next((name for one, name in _TALK_CATEGORIES.items() if one in found), None)


def _of_world(turn: Turn, sentence: str, on: set[Trigger]) -> str:
    """Guess a category from what happened: the strongest trigger decides."""
    state = turn.state or State()
    change = score_change(state) or 0
    if Trigger.DEATH in on or (Trigger.SCORE in on and change < 0):
        return "DANGER"
    if Trigger.SCORE in on or (Trigger.INVENTORY in on and taken(state)):
        return "SUCCESS"
    if Trigger.LOCATION in on or Trigger.FIRST_VISIT in on:
        return "DISCOVERY"
    return "FAILURE" if _REFUSAL.search(sentence) else "NOTE"
