"""Extracts one memory from a turn in a model's own words: its input, and the checks of its answer.

The model sees what is already known, so that it can skip repeats and name what no longer holds. It
may be wrong, or manipulated by what it read: an answer that is not entirely valid is rejected, with
a reason that can be sent back to it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, StringConstraints, ValidationError

from schemas.base import EventId, MemoryId, Record
from schemas.codec import TURN
from schemas.events import Remember
from schemas.memories import Memory, Persistence
from schemas.turns import State, Turn
from streams.extract.core.looking import ExaminedTurn
from streams.extract.core.noting import event_of, place_of
from streams.extract.core.utterances import echoes
from streams.model.identity import decision_id, memory_id, turn_event_id

TITLE_CHARACTERS = 100
TEXT_CHARACTERS = 800
"""A few self-contained sentences: about 200 tokens, of the 256 that the default embedding model
reads."""
REASON_CHARACTERS = 200
REASONING_CHARACTERS = 500
_EARLIER_CHARACTERS = 2_000
"""The maximum shown of each part of an earlier turn: it is context, not something to note."""

Status = Literal["active", "tentative"]


@dataclass(frozen=True)
class KnownMemory:
    """A live memory as the model sees it."""

    id: MemoryId
    category: str | None
    title: str | None
    text: str
    status: str
    persistence: Persistence | None

    @classmethod
    def of(cls, said: Memory | Remember) -> Self:
        """Return a memory, or the one that an event will create if nothing near it is known."""
        is_event = isinstance(said, Remember)
        made = memory_id(decision_id(said.scope, said.event_id)) if is_event else said.id
        return cls(made, said.category, said.title, said.text, str(said.status), said.persistence)


@dataclass(frozen=True)
class Material:
    """Everything that a memory of a turn is made from; it may retire `retired_max` memories."""

    looked: ExaminedTurn
    known: tuple[KnownMemory, ...] = ()
    retired_max: int = 3


@dataclass(frozen=True)
class Abstention:
    """Nothing is to be remembered; `reason` says why."""

    reason: str


@dataclass(frozen=True)
class RejectedAnswer:
    """An answer was rejected; `reason` says why, without the words of any memory."""

    reason: str


_Line = Annotated[str, StringConstraints(strip_whitespace=True)]


class _Invalidated(Record):
    id: str
    reason: Annotated[_Line, Field(max_length=REASON_CHARACTERS)]


class _Answer(Record):
    should_remember: bool
    reasoning: Annotated[_Line, Field(max_length=REASONING_CHARACTERS)]
    category: Annotated[_Line, Field(max_length=40)] = ""
    memory_title: Annotated[_Line, Field(max_length=TITLE_CHARACTERS)] = ""
    memory_text: Annotated[_Line, Field(max_length=TEXT_CHARACTERS)] = ""
    said_by: Literal["", "user", "model", "world"] = ""
    persistence: Persistence = Persistence.PERMANENT
    status: Status = "active"
    supersedes: tuple[str, ...] = ()
    invalidates: tuple[_Invalidated, ...] = ()


_FIELDS: dict[str, JsonValue] = {
    # in this order, so that the findings lead to the memory instead of defending it
    "reasoning": {"type": "string", "maxLength": REASONING_CHARACTERS},
    "should_remember": {"type": "boolean"},
    "category": {"type": "string"},
    "memory_title": {"type": "string"},  # the prompt sets the length: grammars stay small
    "memory_text": {"type": "string"},
    "said_by": {"type": "string", "enum": ["user", "model", "world"]},
    "persistence": {"type": "string", "enum": [str(one) for one in Persistence]},
    "status": {"type": "string", "enum": ["active", "tentative"]},
    "supersedes": {"type": "array", "items": {"type": "string"}},
    "invalidates": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"id": {"type": "string"}, "reason": {"type": "string"}},
            "required": ["id", "reason"],
            "additionalProperties": False,
        },
    },
}
ANSWER: dict[str, JsonValue] = {
    "type": "object",
    "properties": _FIELDS,
    "required": list(_FIELDS),
    "additionalProperties": False,
}
"""The JSON Schema of an answer."""

REQUIRED = frozenset({"reasoning", "should_remember"})
"""The fields that every answer needs, however it was requested."""
OPTIONAL = frozenset(_Answer.model_fields) - REQUIRED


def shown(material: Material, refused: str | None = None) -> JsonValue:
    """Return the model's input; `refused` says why its previous answer was rejected."""
    looked, turn = material.looked, material.looked.turn
    place = place_of(turn)
    told: dict[str, JsonValue] = {
        "place": None if place is None else {"id": place.id, "name": place.name},
        "known": [_known(one) for one in material.known],
        "earlier": [
            {"turn": one.number, "said": _said(one, _EARLIER_CHARACTERS)} for one in looked.earlier
        ],
        "now": {
            "turn": turn.number,
            "day": turn.occurred_at.date().isoformat(),
            "said": _said(turn),
            "changed": [one.why for one in looked.fired],
            "state": _state(turn.state),
        },
        "refused": refused,
    }
    return {name: value for name, value in told.items() if value is not None}


def understood(
    answer: Mapping[str, JsonValue], material: Material
) -> Remember | Abstention | RejectedAnswer:
    """Return the event that an answer asks for, or why there is none."""
    try:
        read = _Answer.model_validate_json(json.dumps(answer), strict=True)
    except ValidationError as error:
        return RejectedAnswer(_problem(error))
    retired = [*read.supersedes, *(one.id for one in read.invalidates)]
    wrong = _wrong(read, retired, material)
    if wrong is not None:
        return RejectedAnswer(wrong)
    if not read.should_remember:
        return Abstention(read.reasoning)
    if echoes(read.memory_text, material.looked.recalled):
        return Abstention("says only what was recalled into the prompt")
    return _event(read, retired, material.looked)


def event_id_of(turn: Turn) -> EventId:
    """Return the id of the turn's event, which does not depend on what the event says."""
    return turn_event_id(turn.scope, turn.turn_id, _digest(turn))


def _event(
    read: _Answer, retired: Sequence[str], looked: ExaminedTurn
) -> Remember | RejectedAnswer:
    fields = {
        "text": read.memory_text,
        "title": read.memory_title,
        "category": read.category.upper(),
        "source": _speaker(read, looked.turn),
        "persistence": read.persistence,
        "status": read.status,
        "supersedes": tuple(retired),
    }
    notes: dict[str, JsonValue] = {"reasoning": read.reasoning}
    if read.invalidates:
        notes["invalidates"] = {one.id: one.reason for one in read.invalidates}
    turn = looked.turn
    try:
        return event_of(turn, looked.fired, taken=_digest(turn), fields=fields, notes=notes)
    except ValidationError as error:
        return RejectedAnswer(_problem(error))


def _wrong(read: _Answer, retired: Sequence[str], material: Material) -> str | None:
    """Return what is wrong with an answer whose fields have the right types; None if nothing is."""
    if not read.reasoning:
        return "reasoning is blank; say why"
    if not read.should_remember:
        return (
            "memories are to be retired, but nothing is remembered; say in memory_text what holds instead"
            if retired
            else None
        )
    filled = ("category", "memory_title", "memory_text")
    if blank := [name for name in filled if not getattr(read, name)]:
        return f"{blank[0]} is blank; fill it in"
    if not read.category.replace(" ", "").replace("-", "").isalnum():
        return "category has marks in it; write one word, such as DISCOVERY"
    turn = material.looked.turn
    speaker = _speaker(read, turn)
    if not speaker:
        return "said_by is blank; fill it in"
    if speaker not in {part.by for part in turn.said}:
        return f"said_by is {speaker}, who says nothing in this turn"
    return _wrongly_retired(read, retired, material)


def _speaker(read: _Answer, turn: Turn) -> str:
    """Return the speaker that the memory relies on: the one named, or the only non-model one."""
    others = {part.by for part in turn.said} - {"model", "recalled"}
    return read.said_by or (others.pop() if len(others) == 1 else "")


def _wrongly_retired(read: _Answer, retired: Sequence[str], material: Material) -> str | None:
    known = {str(one.id): one for one in material.known}
    if unknown := sum(identity not in known for identity in retired):
        return f"{unknown} of the ids to be retired are none of known; copy ids from there"
    if {*read.supersedes} & {one.id for one in read.invalidates}:
        return "a memory is in both supersedes and invalidates; put it into one of them"
    if len(set(retired)) < len(retired):
        return "a memory is named twice; name it once"
    if not all(one.reason for one in read.invalidates):
        return "a reason in invalidates is blank; say what proves the memory wrong"
    if len(retired) > material.retired_max:
        return f"{len(retired)} memories are to be retired; at most {material.retired_max} may be"
    if any(_outlives(known[identity], read.persistence) for identity in retired):
        return f"persistence {read.persistence} is weaker than that of a memory to be retired"
    return None


def _outlives(known: KnownMemory, persistence: Persistence) -> bool:
    return known.persistence is not None and known.persistence.rank > persistence.rank


def _known(one: KnownMemory) -> dict[str, JsonValue]:
    return {name: value for name, value in asdict(one).items() if value is not None}


def _said(turn: Turn, characters_max: int | None = None) -> JsonValue:
    return [{"by": part.by, "text": part.text[:characters_max]} for part in turn.said]


def _state(state: State | None) -> JsonValue:
    """Return the known parts of a world's state."""
    return None if state is None else state.model_dump(mode="json", exclude_defaults=True)


def _digest(turn: Turn) -> str:
    """Return a digest of the turn: a corrected turn with the same id is read again."""
    return sha256(TURN.encode(turn)).hexdigest()


_CALLED = {"title": "memory_title", "text": "memory_text"}
"""The answer's names for fields of the event."""


def _problem(error: ValidationError) -> str:
    """Name the first field that is wrong, without its content."""
    first = error.errors(include_url=False, include_input=False)[0]
    parts = [str(part)[:40] for part in first["loc"]]
    field = ".".join(_CALLED.get(part, part) for part in parts) or "the answer"
    return f"{field}: {first['msg'].removeprefix('Input ')}"
