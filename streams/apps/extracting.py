"""Turns of a source become events, one after the other: each sees what was taken before it."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from schemas.base import EventId, MemoryId, Scope, ScopeName
from schemas.codec import TURN, Unreadable
from schemas.events import Remember
from schemas.memories import Memory
from schemas.outcomes import DeadLetter, Stage
from schemas.turns import Turn
from streams.adapters.verifiers.extracting import LlmExtractor
from streams.apps.settings import ExtractionSettings
from streams.core.extraction import sentences, synthesis
from streams.core.extraction.hearing import Heard, Recalled, heard, recalled_in
from streams.core.extraction.noting import place_of
from streams.core.extraction.synthesis import Declined, Known, Material, Refused
from streams.core.extraction.triggers import Fired, Rules, fired
from streams.core.identity import normalised
from streams.flow.dead_letters import describe
from streams.ports import Line, NoAnswer, NoServer, Poison, Source, Unreachable

_LOCATION = "{location}"
_SCOPE: TypeAdapter[ScopeName] = TypeAdapter(Scope)
_AWAY = frozenset({"unreachable", "rate limited"})
_REFUSES_US = frozenset({"http 401", "http 403", "http 404"})
_BUDGET_PAUSE_SECONDS = 0.5
"""How long to wait before asking again whether the minute's budget has one more request."""


@dataclass(frozen=True)
class Taken:
    """What became of a line: events, or why there are none.

    `heard` is what the turn says without echoes, `earlier` are the turns before it. `known` of its
    events were taken before. `letter` holds what could not be used.
    """

    place: str
    turn: Turn | None = None
    fired: tuple[Fired, ...] = ()
    heard: tuple[Heard, ...] = ()
    earlier: tuple[Turn, ...] = ()
    recalled: Recalled = frozenset()
    events: tuple[Remember, ...] = ()
    known: int = 0
    declined: str | None = None
    letter: DeadLetter | None = None


@dataclass
class Counts:
    """What all lines came to."""

    turns: int = 0
    triggered: int = 0
    events: int = 0
    known: int = 0
    declined: int = 0
    refused: int = 0
    by_trigger: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, taken: Taken) -> None:
        self.turns += 1
        self.triggered += bool(taken.fired)
        self.events += len(taken.events)
        self.known += taken.known
        self.declined += taken.declined is not None
        self.refused += taken.letter is not None
        for one in taken.fired:
            self.by_trigger[one.trigger] = self.by_trigger.get(one.trigger, 0) + 1


class Notes:
    """What is known, scope by scope: the memories of a store, and the events taken so far."""

    def __init__(
        self, memories: Iterable[Memory] = (), events: Iterable[Remember] = (), known_max: int = 0
    ) -> None:
        """`memories` may hold retired ones: they are not shown, and not taken for new.

        `events` were taken before; of a scope's memories, `known_max` are shown.
        """
        self._known_max = known_max
        self._taken: set[tuple[ScopeName, EventId]] = set()
        self._stored: set[MemoryId] = set()
        self._by_scope: defaultdict[ScopeName, dict[str, Known]] = defaultdict(dict)  # by words
        for memory in sorted(memories, key=lambda memory: memory.last_seen_at):
            self._stored.add(memory.id)
            if memory.live:
                self._by_scope[memory.scope][normalised(memory.text)] = Known.of(memory)
        for event in events:
            self.add(event)

    def taken(self, scope: ScopeName, event: EventId) -> bool:
        """Tell whether an event was taken before."""
        return (scope, event) in self._taken

    def add(self, event: Remember) -> None:
        self._taken.add((event.scope, event.event_id))
        known = self._by_scope[event.scope]
        if event.supersedes:
            for gone in [said for said, one in known.items() if one.id in event.supersedes]:
                del known[gone]
        coming = Known.coming(event)
        if coming.id not in self._stored:
            known.setdefault(normalised(event.text), coming)

    def of(self, scope: ScopeName) -> tuple[Known, ...]:
        """Return the memories of a scope that are shown: those seen last, in that order."""
        newest = islice(reversed(self._by_scope[scope].values()), self._known_max)
        return tuple(newest)[::-1]


def scope_of_turns(template: str) -> str:
    """Check the scope of turns that name none. Raises ValueError where it is none."""
    try:
        _SCOPE.validate_python(template.replace(_LOCATION, "0"))
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"]) from error
    if set("{}") & set(template.replace(_LOCATION, "")):
        raise ValueError("only {location} is filled in")
    return template


class Extraction:
    """Works through turns in their order."""

    def __init__(
        self,
        settings: ExtractionSettings,
        notes: Notes,
        *,
        model: LlmExtractor | None = None,
        scope: str | None = None,
    ) -> None:
        """Without a `model`, sentences are taken as they are.

        `scope` is that of turns that name none; `{location}` in it stands for the place's number.
        """
        self._settings = settings
        self._rules = Rules(frozenset(settings.triggers), settings.response_characters)
        self._notes = notes
        self._model = model
        self._scope = scope
        recent = partial(deque[Turn], maxlen=settings.earlier_turns)
        self._recent: defaultdict[tuple[ScopeName, str | None], deque[Turn]] = defaultdict(recent)

    async def take(self, source: Source, line: Line) -> Taken:
        """Return what a line comes to, and remember it for the turns behind it.

        Raises Unreachable and NoServer where there is no use in asking the model for any turn.
        """
        looked = self.look(source, line)
        turn = looked.turn
        if turn is None or not looked.fired:
            return looked
        if self._model is not None and self._notes.taken(turn.scope, synthesis.event_id_of(turn)):
            return replace(looked, known=1)  # in whatever words: it is not asked about again
        made = await self._made(turn, looked)
        if isinstance(made, Refused):
            letter = _letter(looked.place, line, Stage.DECIDE, Poison(made.reason))
            return replace(looked, letter=letter)
        if isinstance(made, Declined):
            return replace(looked, declined=made.reason)
        events = tuple(
            event for event in made if not self._notes.taken(event.scope, event.event_id)
        )
        for event in events:
            self._notes.add(event)
        return replace(looked, events=events, known=len(made) - len(events))

    def look(self, source: Source, line: Line) -> Taken:
        """Return which signs a line's turn has; take nothing."""
        place = f"{source.place}:{line.number}"
        try:
            turn = _turn(line, self._scope)
        except (Poison, Unreadable) as error:
            return Taken(place, letter=_letter(place, line, Stage.DECODE, error))
        recent = self._recent[turn.scope, turn.session]
        earlier = tuple(recent)
        recent.append(turn)
        recalled = recalled_in((*earlier, turn))
        said = heard(turn, recalled)
        return Taken(place, turn, fired(turn, said, self._rules), said, earlier, recalled)

    async def close(self) -> None:
        if self._model is not None:
            await self._model.close()

    async def _made(self, turn: Turn, looked: Taken) -> Sequence[Remember] | Declined | Refused:
        if self._model is None:
            return sentences.events_of(turn, looked.heard, looked.fired)
        material = Material(
            turn=turn,
            fired=looked.fired,
            earlier=looked.earlier,
            known=self._notes.of(turn.scope),
            recalled=looked.recalled,
            retired_max=self._settings.retired_max,
        )
        answer = await self._answer(self._model, material)
        return (answer,) if isinstance(answer, Remember) else answer

    async def _answer(
        self, model: LlmExtractor, material: Material
    ) -> Remember | Declined | Refused:
        """Ask until an answer can be taken; the model is told what was wrong with its last one."""
        refused: str | None = None
        for _ in range(self._settings.attempts_max):
            answer = await model.extract(material, refused)
            while answer == NoAnswer("over budget"):
                await asyncio.sleep(_BUDGET_PAUSE_SECONDS)
                answer = await model.extract(material, refused)
            if isinstance(answer, Remember | Declined):
                return answer
            refused = answer.reason
            if isinstance(answer, NoAnswer):
                _stop_where_nobody_answers(answer)
        return Refused(f"the language model gave no answer that can be taken: {refused}")


def _stop_where_nobody_answers(answer: NoAnswer) -> None:
    if answer.reason in _AWAY:
        raise Unreachable(
            f"the language model does not answer ({answer.reason}); what was taken so far is kept: "
            "give the same command again once it does"
        )
    if answer.reason in _REFUSES_US:
        raise NoServer(
            f"the language model refuses us ({answer.reason}): check llm.base_url, llm.model and "
            "llm.api_key"
        )


def _turn(line: Line, scope: str | None) -> Turn:
    """Read a line's turn; kind, version and scope are filled in. Raises Poison and Unreadable."""
    if isinstance(line.row, Poison):
        raise line.row
    row: Mapping[str, Any] = {"kind": "turn", "schema_version": 1, **line.row}
    if scope is None or "scope" in row:
        return TURN.decode(to_json(row))
    turn = TURN.decode(to_json({**row, "scope": scope.replace(_LOCATION, "0")}))
    if _LOCATION not in scope:
        return turn
    place = place_of(turn)
    if place is None:
        raise Unreadable(
            "state.location_before is missing, and the scope is to be made of it; add it, or a "
            "scope",
            "state.location_before",
        )
    return TURN.decode(to_json({**row, "scope": scope.replace(_LOCATION, str(place.id))}))


def _letter(place: str, line: Line, stage: Stage, error: Poison | Unreadable) -> DeadLetter:
    poison = error if isinstance(error, Poison) else Poison(str(error), error.field)
    return describe(value=line.content, stage=stage, poison=poison, origin=place)
