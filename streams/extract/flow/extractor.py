"""The extractor as a process on the turns topic: turns become events.

It commits what the log has acknowledged. A repeated turn makes events with the same ids. A model's
words differ from answer to answer, so it is asked only about turns that have no event yet.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeAlias

from schemas.base import EventId, ScopeName
from schemas.codec import EVENT, TURN
from schemas.events import Remember
from schemas.outcomes import Stage
from schemas.topics import DEAD_LETTERS, EVENTS, TURNS
from schemas.turns import Turn
from streams.extract.core.looking import ExaminedTurn, look
from streams.extract.core.notes import Notes
from streams.extract.core.synthesis import RejectedAnswer, event_id_of
from streams.extract.core.triggers import TriggerRules
from streams.extract.core.window import REACH, Window
from streams.extract.flow.extract import (
    OVER_BUDGET,
    Made,
    Maker,
    ModelAttempts,
    TurnResult,
    outcome,
)
from streams.extract.flow.knowledge import Knowledge
from streams.model.ports.failures import NotYet, Poison, Unreachable
from streams.model.ports.log import HandledBatch, Log, LogRecord, OutgoingRecord, pages
from streams.model.ports.models import NoAnswer
from streams.stage.flow.dead_letters import ORIGIN_HEADER, dead_letter, letter_record
from streams.stage.flow.incoming import addressed, forwarded, misrouted, read

EXTRACTOR_GROUP = "memsieve-extractor"


@dataclass
class _Attempts(ModelAttempts):
    """The state of asking about a turn, until its events are acknowledged."""

    failures: int = 0
    made: Made | None = None


@dataclass
class _Held:
    """A partition that was claimed. `knowledge` is present if a model is asked."""

    partitions: int
    letters_partitions: int
    window: Window
    knowledge: Knowledge | None
    attempts: dict[EventId, _Attempts]


_Looked: TypeAlias = ExaminedTurn | OutgoingRecord | Poison
"""A turn; or a record that forwards it to its scope's partition; or why it has none."""

_Read: TypeAlias = tuple[LogRecord, _Looked]


class Extractor:
    """Implements ports.Process for memory.turns."""

    topic = TURNS.name
    group = EXTRACTOR_GROUP

    def __init__(
        self,
        maker: Maker,
        log: Log,
        *,
        rules: TriggerRules,
        earlier_turns: int,
        failures_max: int,
        knowledge: Callable[[int], Knowledge] | None,
        observe: Callable[[Sequence[TurnResult]], None] = lambda _: None,
    ) -> None:
        """`knowledge` returns what is known in a partition; present if the maker asks a model.

        The maker sees `earlier_turns` of the same scope and session with a turn; after
        `failures_max` failed model calls the turn becomes a dead letter. `observe` gets what the
        log has acknowledged.
        """
        self._maker = maker
        self._log = log
        self._rules = rules
        self._earlier_turns = earlier_turns
        self._failures_max = failures_max
        self._knowledge = knowledge
        self._observe = observe
        self._held: dict[int, _Held] = {}

    async def claim(self, partition: int) -> int:
        """Rebuild the window of earlier turns, and what was extracted from them.

        A model's answers since the last commit are kept: they depend only on the turn's content.
        """
        before = self._held.get(partition)
        position = await self._position(partition)
        knowledge = None if self._knowledge is None else self._knowledge(partition)
        if knowledge is not None:
            await knowledge.recall()
        self._held[partition] = _Held(
            partitions=await self._log.partitions(EVENTS.name),
            letters_partitions=await self._log.partitions(DEAD_LETTERS.name),
            window=await self._window(partition, position),
            knowledge=knowledge,
            attempts={} if before is None else before.attempts,
        )
        return position

    async def handle(self, partition: int, records: Sequence[LogRecord]) -> HandledBatch:
        held = self._held[partition]
        if held.knowledge is not None:
            await held.knowledge.settle()
        window = held.window.fork()
        read = [(record, self._read(held, window, record)) for record in records]
        taken = [*_unreadable(read), *await self._taken(held, read)]
        place = partition % held.letters_partitions
        before = [
            *(letter_record(one.letter, place) for one in taken if one.letter is not None),
            *(said for _, said in read if isinstance(said, OutgoingRecord)),
        ]
        events = [
            _event_record(event, one, held.partitions) for one in taken for event in one.events
        ]

        async def appended(offsets: list[int]) -> None:
            held.window = window
            held.attempts.clear()
            if held.knowledge is not None:
                made = [event for one in taken for event in one.events]
                held.knowledge.add(offsets[len(before) :], made)
            self._observe(taken)

        return HandledBatch([*before, *events], appended)

    async def settle(self, partition: int) -> None:
        """Nothing waits between two batches."""

    def release(self, partition: int) -> None:
        self._held.pop(partition, None)

    async def _position(self, partition: int) -> int:
        """Return the group's position; 0 if the topic was recreated."""
        committed = await self._log.committed(self.group, TURNS.name, partition)
        position = 0 if committed is None else committed.offset
        return position if position <= await self._log.end(TURNS.name, partition) else 0

    async def _window(self, partition: int, position: int) -> Window:
        """Read back as many turns as later turns may refer to."""
        window = Window(self._earlier_turns)
        at = max(position - REACH, await self._log.beginning(TURNS.name, partition))
        async for page in pages(self._log, TURNS.name, partition, at, position):
            for record in page:
                turn = read(record, TURN, likely="turn")
                if isinstance(turn, Turn):
                    window.add(record.offset, turn)
        return window

    def _read(self, held: _Held, window: Window, record: LogRecord) -> _Looked:
        turn = read(record, TURN, likely="turn")
        if isinstance(turn, Poison):
            return turn
        place = misrouted(record, turn.scope, held.partitions)
        if place is not None:
            return place if isinstance(place, Poison) else forwarded(record, turn.scope, place)
        return look(turn, record.offset, window, self._rules)

    async def _taken(self, held: _Held, read: Sequence[_Read]) -> list[TurnResult]:
        """Return the results of turns: scopes concurrently, the turns of each in order."""
        looked = [(record, said) for record, said in read if isinstance(said, ExaminedTurn)]
        by_scope: defaultdict[ScopeName, list[tuple[LogRecord, ExaminedTurn]]] = defaultdict(list)
        for record, one in looked:
            if one.fired:
                by_scope[one.turn.scope].append((record, one))
        found = await asyncio.gather(
            *(self._of_scope(held, scope, turns) for scope, turns in by_scope.items()),
            return_exceptions=True,  # keep the answers that the others got
        )
        for failure in found:
            if isinstance(failure, BaseException):
                raise failure
        quiet = [TurnResult(record.place, one) for record, one in looked if not one.fired]
        return [*quiet, *chain.from_iterable(one for one in found if isinstance(one, list))]

    async def _of_scope(
        self, held: _Held, scope: ScopeName, turns: Sequence[tuple[LogRecord, ExaminedTurn]]
    ) -> list[TurnResult]:
        """Process turns in order, so that each sees what was taken before it."""
        notes = Notes()
        if held.knowledge is not None:
            notes = await held.knowledge.of(scope, [looked.turn for _, looked in turns])
        return [await self._of_turn(held, record, looked, notes) for record, looked in turns]

    async def _of_turn(
        self, held: _Held, record: LogRecord, looked: ExaminedTurn, notes: Notes
    ) -> TurnResult:
        taken = TurnResult(record.place, looked)
        if self._maker.is_known(looked.turn, notes):
            return replace(taken, known=1)
        attempts = held.attempts.setdefault(event_id_of(looked.turn), _Attempts())
        if attempts.made is None:
            attempts.made = await self._made(attempts, looked, notes)
        return outcome(taken, attempts.made, notes, partial(dead_letter, record, Stage.EXTRACT))

    async def _made(self, attempts: _Attempts, looked: ExaminedTurn, notes: Notes) -> Made:
        """Return what is made of a turn. Raises NotYet or Unreachable if the model is silent."""
        known = notes.of(looked.turn.scope)
        answer = await self._maker.made(looked, known, attempts)
        if not isinstance(answer, NoAnswer):
            return answer
        if answer == OVER_BUDGET:
            raise NotYet("the requests of this minute are used up: llm.requests_per_minute")
        attempts.failures += 1
        silent = f"the language model does not answer ({answer.reason})"
        if attempts.failures < self._failures_max:
            raise Unreachable(silent)
        return RejectedAnswer(f"{silent}; it was asked {attempts.failures:,} times")


def _unreadable(read: Sequence[_Read]) -> list[TurnResult]:
    return [
        TurnResult(record.place, letter=dead_letter(record, Stage.DECODE, said))
        for record, said in read
        if isinstance(said, Poison)
    ]


def _event_record(event: Remember, taken: TurnResult, partitions: int) -> OutgoingRecord:
    """Return the record of a turn's event, with the turn's location as origin."""
    origin = (ORIGIN_HEADER, taken.place.encode())
    made = addressed(event.scope, EVENT.encode(event), partitions, (origin,))
    return replace(made, cause=int(taken.place.rpartition("/")[2]))
