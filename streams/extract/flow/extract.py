"""Turns become events: sentence by sentence, or in the words of a language model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from schemas.events import Remember
from schemas.outcomes import DeadLetter
from schemas.turns import Turn
from streams.extract.core import sentences, synthesis
from streams.extract.core.looking import ExaminedTurn
from streams.extract.core.notes import Notes
from streams.extract.core.synthesis import Abstention, KnownMemory, Material, RejectedAnswer
from streams.extract.core.triggers import FiredTrigger
from streams.extract.port import Extracting
from streams.model.places import ENTERED
from streams.model.ports.failures import NoServer, Poison
from streams.model.ports.models import NoAnswer
from streams.text.lexicon import Lexicon

OVER_BUDGET = NoAnswer("over budget")
_SILENT = frozenset({OVER_BUDGET.reason, "unreachable", "rate limited", "timeout"})
_REFUSES_US = frozenset({"http 401", "http 403", "http 404"})


Made: TypeAlias = tuple[Remember, ...] | Abstention | RejectedAnswer
"""The events made from a turn, or why there are none."""


@dataclass(frozen=True)
class TurnResult:
    """The result of a turn: events, or why there are none.

    `place` is the turn's location as shown to a person. `known` counts its events that were taken
    before. `letter` holds what could not be used.
    """

    place: str
    looked: ExaminedTurn | None = None
    events: tuple[Remember, ...] = ()
    known: int = 0
    declined: str | None = None
    letter: DeadLetter | None = None

    @property
    def turn(self) -> Turn | None:
        return None if self.looked is None else self.looked.turn

    @property
    def fired(self) -> tuple[FiredTrigger, ...]:
        return () if self.looked is None else self.looked.fired

    @property
    def kind(self) -> str:
        """The result as one word."""
        if self.letter is not None:
            return "set-aside"
        if self.events:
            return "events"
        return "known" if self.known else "nothing" if self.fired else "untriggered"


@dataclass
class ModelAttempts:
    """The state of asking a model about a turn: how many answers were rejected, and why."""

    answers: int = 0
    refused: str | None = None


@dataclass(frozen=True)
class Maker:
    """Makes events from turns.

    Without a `model`, sentences are taken verbatim; `lexicon` tells which of them state something.
    The model gets `attempts_max` answers per turn and may ask to retire `retired_max` memories.
    """

    lexicon: Callable[[], Lexicon]
    model: Extracting | None = None
    attempts_max: int = 2
    retired_max: int = 3

    async def made(
        self, looked: ExaminedTurn, known: Sequence[KnownMemory], asking: ModelAttempts
    ) -> Made | NoAnswer:
        """Return the events of a turn, or why there are none; none if no trigger fired.

        Returns NoAnswer if the model was not asked or said nothing: a retry with the same `asking`
        may succeed later. Raises NoServer if the model's server refuses the request.
        """
        if not looked.fired:
            return ()
        if self.model is None:
            return sentences.events_of(looked, self.lexicon())
        material = Material(looked, tuple(known), self.retired_max)
        while asking.answers < self.attempts_max:
            answer = await self.model.extract(material, asking.refused)
            if isinstance(answer, Remember):
                return (answer,)
            if isinstance(answer, Abstention):
                return answer
            if isinstance(answer, NoAnswer) and _is_silent(answer):
                return answer
            asking.answers += 1
            asking.refused = answer.reason
        return RejectedAnswer(f"the language model gave no usable answer: {asking.refused}")

    async def close(self) -> None:
        if self.model is not None:
            await self.model.close()

    def is_known(self, turn: Turn, notes: Notes) -> bool:
        """Return whether a model has made an event from a turn before, in whatever words."""
        return self.model is not None and notes.taken(turn.scope, synthesis.event_id_of(turn))


def outcome(
    taken: TurnResult, made: Made, notes: Notes, letter: Callable[[Poison], DeadLetter]
) -> TurnResult:
    """Return a turn with the events made from it; new events are added to the notes.

    `letter` describes the turn if nothing could be made from it.
    """
    if isinstance(made, RejectedAnswer):
        return replace(taken, letter=letter(Poison(made.reason)))
    if isinstance(made, Abstention):
        return replace(taken, declined=made.reason)
    told = [_visited(event, taken.looked) for event in made]
    events = tuple(event for event in told if not notes.taken(event.scope, event.event_id))
    for event in events:
        notes.add(event)
    return replace(taken, events=events, known=len(made) - len(events))


def _visited(event: Remember, looked: ExaminedTurn | None) -> Remember:
    """Return an event with how often sessions entered its place."""
    if looked is None or not looked.visits:
        return event
    metadata = {**event.metadata, ENTERED: dict(looked.visits)}
    return event.model_copy(update={"metadata": metadata})


def _is_silent(answer: NoAnswer) -> bool:
    """Return whether a model gave no answer at all. Raises NoServer if it refuses the request."""
    if answer.reason in _REFUSES_US:
        raise NoServer(
            f"the language model rejects us ({answer.reason}): check llm.base_url, llm.model and "
            "llm.api_key"
        )
    return answer.reason in _SILENT or answer.reason.startswith("http ")
