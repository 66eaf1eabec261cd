"""Turns become events: sentence by sentence, or in the words of a model that is asked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from schemas.events import Remember
from schemas.outcomes import DeadLetter
from schemas.turns import Turn
from streams.core.extraction import sentences, synthesis
from streams.core.extraction.looking import Looked
from streams.core.extraction.notes import Notes
from streams.core.extraction.synthesis import Declined, Known, Material, Refused
from streams.core.extraction.triggers import Fired
from streams.ports import Extracting, NoAnswer, NoServer, Poison

OVER_BUDGET = NoAnswer("over budget")
_SILENT = frozenset({OVER_BUDGET.reason, "unreachable", "rate limited", "timeout"})
_REFUSES_US = frozenset({"http 401", "http 403", "http 404"})


Made: TypeAlias = tuple[Remember, ...] | Declined | Refused
"""The events that were made of a turn, or why there are none."""


@dataclass(frozen=True)
class Taken:
    """What became of a turn: events, or why there are none.

    `place` is where a person finds it. `known` of its events were taken before. `letter` holds
    what could not be used.
    """

    place: str
    looked: Looked | None = None
    events: tuple[Remember, ...] = ()
    known: int = 0
    declined: str | None = None
    letter: DeadLetter | None = None

    @property
    def turn(self) -> Turn | None:
        return None if self.looked is None else self.looked.turn

    @property
    def fired(self) -> tuple[Fired, ...]:
        return () if self.looked is None else self.looked.fired

    @property
    def kind(self) -> str:
        """What came of it, in a word."""
        if self.letter is not None:
            return "set-aside"
        if self.events:
            return "events"
        return "known" if self.known else "nothing" if self.fired else "untriggered"


@dataclass
class Asking:
    """How far asking a model about a turn has got: answers that could not be taken, and why."""

    answers: int = 0
    refused: str | None = None


@dataclass(frozen=True)
class Maker:
    """Makes events of turns that were looked at.

    Without a `model`, sentences are taken as they are. It is asked for `attempts_max` answers
    about a turn, and may ask to retire `retired_max` memories.
    """

    model: Extracting | None = None
    attempts_max: int = 2
    retired_max: int = 3

    async def made(self, looked: Looked, known: Sequence[Known], asking: Asking) -> Made | NoAnswer:
        """Return the events of a turn, or why there are none; none where no sign fired.

        NoAnswer where the model was not asked, or said nothing: the same may succeed later, with
        `asking` given again. Raises NoServer where it refuses us.
        """
        if self.model is None or not looked.fired:
            return sentences.events_of(looked.turn, looked.heard, looked.fired)
        material = Material(
            turn=looked.turn,
            fired=looked.fired,
            earlier=looked.earlier,
            known=tuple(known),
            recalled=looked.recalled,
            retired_max=self.retired_max,
        )
        while asking.answers < self.attempts_max:
            answer = await self.model.extract(material, asking.refused)
            if isinstance(answer, Remember):
                return (answer,)
            if isinstance(answer, Declined):
                return answer
            if isinstance(answer, NoAnswer) and _is_silent(answer):
                return answer
            asking.answers += 1
            asking.refused = answer.reason
        return Refused(f"the language model gave no answer that can be taken: {asking.refused}")

    async def close(self) -> None:
        if self.model is not None:
            await self.model.close()

    def is_known(self, turn: Turn, notes: Notes) -> bool:
        """Tell whether a model has made its event of a turn before, in whatever words."""
        return self.model is not None and notes.taken(turn.scope, synthesis.event_id_of(turn))


def outcome(
    taken: Taken, made: Made, notes: Notes, letter: Callable[[Poison], DeadLetter]
) -> Taken:
    """Return a turn with what was made of it; events that are new are noted.

    `letter` describes the turn where nothing could be made of it.
    """
    if isinstance(made, Refused):
        return replace(taken, letter=letter(Poison(made.reason)))
    if isinstance(made, Declined):
        return replace(taken, declined=made.reason)
    events = tuple(event for event in made if not notes.taken(event.scope, event.event_id))
    for event in events:
        notes.add(event)
    return replace(taken, events=events, known=len(made) - len(events))


def _is_silent(answer: NoAnswer) -> bool:
    """Tell whether a model has said nothing at all. Raises NoServer where it refuses us."""
    if answer.reason in _REFUSES_US:
        raise NoServer(
            f"the language model refuses us ({answer.reason}): check llm.base_url, llm.model and "
            "llm.api_key"
        )
    return answer.reason in _SILENT or answer.reason.startswith("http ")
