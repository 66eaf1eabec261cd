"""Triggers: cheap checks of whether a turn is worth a closer look, each with its reason.

A trigger says when to look, never what to remember. A world's triggers come from its state, which
is certain; a conversation's from the user's words, in English.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from schemas.turns import Place, State, Turn
from streams.extract.core.utterances import Utterance


class Trigger(StrEnum):
    """The signs that may make a turn worth remembering."""

    SCORE = "score"
    LOCATION = "location"
    INVENTORY = "inventory"
    DEATH = "death"
    FIRST_VISIT = "first-visit"
    LONG_RESPONSE = "long-response"
    REMEMBER = "remember"
    PREFERENCE = "preference"
    FACT = "fact"
    CORRECTION = "correction"


RESPONSE_CHARACTERS = 100


@dataclass(frozen=True)
class TriggerRules:
    """The triggers to look for.

    `response_characters`: a longer answer from a world counts as long.
    """

    on: frozenset[Trigger] = frozenset(Trigger)
    response_characters: int = RESPONSE_CHARACTERS


@dataclass(frozen=True, slots=True)
class FiredTrigger:
    """A trigger that fired, and why."""

    trigger: Trigger
    why: str


def fired(turn: Turn, heard: Sequence[Utterance], rules: TriggerRules) -> tuple[FiredTrigger, ...]:
    """Return the triggers of a turn, each once; `heard` is what it says without echoes."""
    state = turn.state or State()
    found = {
        Trigger.SCORE: _score(state),
        Trigger.LOCATION: _location(state),
        Trigger.INVENTORY: _inventory(state),
        Trigger.DEATH: "died in this turn" if state.died else None,
        Trigger.FIRST_VISIT: "was never here before" if state.first_visit else None,
        Trigger.LONG_RESPONSE: _long_response(heard, rules.response_characters),
        **_of_talk(heard),
    }
    return tuple(
        FiredTrigger(trigger, why)
        for trigger in Trigger
        if trigger in rules.on and (why := found.get(trigger)) is not None
    )


def score_change(state: State) -> int | None:
    """Return the change of the score; None if it is unknown."""
    if state.score_before is None or state.score_after is None:
        return None
    return state.score_after - state.score_before


def taken(state: State) -> list[str]:
    """Return what was not carried before."""
    return _more(state.inventory_after, state.inventory_before)


def talk_triggers(sentence: str) -> Iterator[Trigger]:
    """Yield the triggers of a user's sentence; a question may only ask to remember something."""
    if sentence.rstrip("\"')\u201d\u2019 ").endswith("?"):
        if _ASKED_TO_REMEMBER.search(sentence):
            yield Trigger.REMEMBER
        return
    for trigger, pattern in _TALK.items():
        if pattern.search(sentence) and not (trigger is Trigger.FACT and _MOOD.search(sentence)):
            yield trigger


def without_request(sentence: str) -> str:
    """Return what is to be remembered, without the words that ask for it."""
    rest = _REQUEST.sub("", sentence, count=1)
    return rest if rest == sentence else f"{rest[:1].upper()}{rest[1:]}"


def _score(state: State) -> str | None:
    change = score_change(state)
    return f"score {state.score_before} to {state.score_after} ({change:+})" if change else None


def _location(state: State) -> str | None:
    before, after = state.location_before, state.location_after
    if before is None or after is None or before.id == after.id:
        return None
    return f"from {_shown(before)} to {_shown(after)}"


def _shown(place: Place) -> str:
    return str(place.id) if place.name is None else f"{place.id} {place.name}"


def _inventory(state: State) -> str | None:
    dropped = _more(state.inventory_before, state.inventory_after)
    changes = {"taken": taken(state), "dropped": dropped}
    told = [f"{what} {', '.join(things)}" for what, things in changes.items() if things]
    return "; ".join(told) or None


def _more(more: Sequence[str] | None, less: Sequence[str] | None) -> list[str]:
    """Return what one side has more of than the other; nothing if one is unknown."""
    if more is None or less is None:
        return []
    return sorted((Counter(more) - Counter(less)).elements())


def _long_response(heard: Sequence[Utterance], characters_max: int) -> str | None:
    characters = sum(len(said.sentence) for said in heard if said.by == "world")
    if characters <= characters_max:
        return None
    return f"the world answered {characters:,} characters, more than {characters_max:,}"


def _of_talk(heard: Sequence[Utterance]) -> Mapping[Trigger, str]:
    found: dict[Trigger, str] = {}
    for said in heard:
        if said.by == "user":
            for trigger in talk_triggers(said.sentence):
                found.setdefault(trigger, _WHY[trigger])
    return found


_WHY = {
    Trigger.REMEMBER: "the user asks to remember something",
    Trigger.PREFERENCE: "the user likes or dislikes something",
    Trigger.FACT: "the user states a fact about themselves",
    Trigger.CORRECTION: "the user corrects something",
}

_KEEP = (
    r"(?:remember|note|keep in mind|bear in mind|make a note|do not forget|don['\u2019]t forget"
    r"|never forget)"
)
_REQUEST = re.compile(
    rf"^(?:(?:hi|hello|hey|oh|please|and|also|so|ok|okay)[\s,.!]+)*(?:(?:can|could|will|would) you (?:please )?)?"
    rf"{_KEEP}(?: of it| down)?(?:[\s,:]+that|:|,)\s+",
    re.IGNORECASE,
)
_ASKED_TO_REMEMBER = re.compile(
    rf"\b(?:can|could|will|would) you (?:please )?{_KEEP} that\b", re.IGNORECASE
)
_ADVERBS = r"(?: (?:really|also|always|usually|often|now|still|much|absolutely|do|would|rather))*"
_NEGATED = r"(?: (?:do not|don['\u2019]t|never|no longer|cannot|can['\u2019]t))?"
_TALK = {
    Trigger.REMEMBER: re.compile(
        rf"(?:^|\b(?:please|and|also|then|to|so|ok|okay)[\s,]+){_KEEP}\b", re.IGNORECASE
    ),
    Trigger.PREFERENCE: re.compile(
        rf"\b(?:i|we)(?:['\u2019]d)?{_ADVERBS}{_NEGATED}{_ADVERBS} (?:like|love|enjoy|prefer|hate"
        r"|dislike|avoid|stand|adore|favou?r)\b|\b(?:my|our) favou?rite\b|\b(?:i|we)['\u2019]d rather\b",
        re.IGNORECASE,
    ),
    Trigger.FACT: re.compile(
        r"\b(?:i|we)(?: (?:am|are|was|were|have|had|own|live|lived|work|worked|use|used|moved|joined"
        r"|started|left|bought|study|studied|speak|grew|got|changed|switched)\b|['\u2019](?:m|re|ve)\b)"
        r"|\b(?:my|our) (?:[\w-]+ ){1,4}(?:is|are|was|were|has|have|had|lives|works|likes)\b",
        re.IGNORECASE,
    ),
    Trigger.CORRECTION: re.compile(
        r"^(?:no|nope|actually|correction|wait|sorry)\b[,:.\u2014 -]+\w"
        r"|\b(?:that|it|this|what you said)(?:['\u2019]s| is| was) (?:wrong|incorrect|not right"
        r"|not true|not correct|outdated|a mistake)\b|\byou(?:['\u2019]re| are) (?:wrong|mistaken)\b"
        r"|\b(?:i|we) meant\b|\b(?:no longer|not any ?more|any ?more)\b",
        re.IGNORECASE,
    ),
}
_MOOD = re.compile(
    r"\b(?:i|we)(?: am| are| was|['\u2019]m|['\u2019]re)(?: (?:just|not|so|very|really|also|a bit|still))*"
    r" (?:sorry|sure|afraid|fine|ok|okay|good|glad|happy to|wondering|asking|looking|trying|done|back"
    r"|here|ready|curious|confused|stuck)\b|\b(?:i|we) have (?:a|another|one more|some) questions?\b",
    re.IGNORECASE,
)
"""How the user feels, or what they are doing, at the moment: true only in this turn."""
