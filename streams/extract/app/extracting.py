"""Extraction of events from a source's turns in order; each turn sees what was taken before it."""

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial

from schemas.codec import TURN, Unreadable
from schemas.outcomes import Stage
from schemas.turns import Turn
from streams.extract.app import opening
from streams.extract.core.looking import ExaminedTurn, look
from streams.extract.core.notes import Notes
from streams.extract.core.synthesis import RejectedAnswer
from streams.extract.core.window import Window
from streams.extract.flow.extract import OVER_BUDGET, Made, ModelAttempts, TurnResult, outcome
from streams.extract.flow.turn_rows import read_turn, row_letter
from streams.extract.port import Extracting
from streams.model.ports.failures import Poison, Unreachable
from streams.model.ports.models import NoAnswer
from streams.model.ports.sources import Source, SourceLine
from streams.store.app.product_settings import ExtractionSettings

_AWAY = frozenset({"unreachable", "rate limited"})
_BUDGET_PAUSE_SECONDS = 0.5
"""Pause before retrying when the budget of requests per minute is used up."""


@dataclass
class ExtractionCounts:
    """Totals over all lines."""

    turns: int = 0
    triggered: int = 0
    events: int = 0
    known: int = 0
    declined: int = 0
    refused: int = 0
    by_trigger: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, taken: TurnResult) -> None:
        self.turns += 1
        self.triggered += bool(taken.fired)
        self.events += len(taken.events)
        self.known += taken.known
        self.declined += taken.declined is not None
        self.refused += taken.letter is not None
        for one in taken.fired:
            self.by_trigger[one.trigger] = self.by_trigger.get(one.trigger, 0) + 1


class Extraction:
    """Processes turns in order."""

    def __init__(
        self,
        settings: ExtractionSettings,
        notes: Notes,
        *,
        model: Extracting | None = None,
        scope: str | None = None,
    ) -> None:
        """Without a `model`, sentences become events unchanged.

        `scope` applies to turns that name none; `{location}` in it stands for the place's number.
        """
        self._maker = opening.maker(settings, model)
        self._notes = notes
        self._rules = opening.rules(settings)
        self._scope = scope
        self._window = Window(settings.earlier_turns)
        self._turns = 0

    async def take(self, source: Source, line: SourceLine) -> TurnResult:
        """Return what is taken from a line, and remember it for later turns.

        Raises Unreachable or NoServer if asking the model would fail for every turn.
        """
        return await self._take(self.look(source, line), line.content)

    async def take_turn(self, place: str, turn: Turn) -> TurnResult:
        """Do as `take` for a turn that is in no file; `place` names its origin to people."""
        return await self._take(self._look(place, turn), TURN.encode(turn))

    def look(self, source: Source, line: SourceLine) -> TurnResult:
        """Return which triggers a line's turn fires; take nothing."""
        place = f"{source.place}:{line.number}"
        try:
            turn = read_turn(line, self._scope)
        except (Poison, Unreadable) as error:
            return TurnResult(place, letter=row_letter(line.content, place, Stage.DECODE, error))
        return self._look(place, turn)

    async def close(self) -> None:
        await self._maker.close()

    def _look(self, place: str, turn: Turn) -> TurnResult:
        self._turns += 1
        return TurnResult(place, look(turn, self._turns, self._window, self._rules))

    async def _take(self, taken: TurnResult, content: bytes) -> TurnResult:
        if taken.looked is None or not taken.fired:
            return taken
        if self._maker.is_known(taken.looked.turn, self._notes):
            return replace(taken, known=1)
        made = await self._made(taken.looked)
        letter = partial(row_letter, content, taken.place, Stage.EXTRACT)
        return outcome(taken, made, self._notes, letter)

    async def _made(self, looked: ExaminedTurn) -> Made:
        asking, known = ModelAttempts(), self._notes.of(looked.turn.scope)
        answer = await self._maker.made(looked, known, asking)
        while answer == OVER_BUDGET:
            await asyncio.sleep(_BUDGET_PAUSE_SECONDS)
            answer = await self._maker.made(looked, known, asking)
        if not isinstance(answer, NoAnswer):
            return answer
        if answer.reason in _AWAY:
            raise Unreachable(
                f"the language model does not answer ({answer.reason}); what was extracted is "
                "kept: run the same command again once it does"
            )
        return RejectedAnswer(f"the language model does not answer: {answer.reason}")
