"""Events as a hard day brings them: new, repeated, nearly repeated, redelivered, astray, poisoned.

Amid them are requests: memories pinned, rated, ended, put back, joined and forgotten, that are
there or not yet.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from schemas.base import EventId, MemoryId, ModelId, ScopeName
from schemas.codec import EVENT
from schemas.events import Consolidate, Event, Forget, Forgotten, Pin, Rate, Retire, Undo
from schemas.memories import Target
from schemas.topics import EVENTS
from streams.embedding import DEFAULT_MODEL
from streams.model.identity import decision_id, memory_id, named_memory_id
from streams.model.ports.log import OutgoingRecord
from streams.model.scope import partition_of
from streams.stage.core.tombstones import Texts, TombstoneKey, tombstone
from streams.stage.flow.incoming import FORWARDED_HEADER
from tests.builders import START, event, judging, memory
from tests.chaos.embedder import FILLERS, vector_of

SECRET = "a secret of more than 32 characters, for chaos"  # noqa: S105
KEY = TombstoneKey(SECRET.encode())

_SHAPES = {
    "new": 46,
    "asked": 8,
    "repeated": 10,
    "nearly repeated": 14,
    "joined": 1,
    "punctuated": 3,
    "extended": 5,
    "named": 8,
    "redelivered": 5,
    "poisoned": 1,
}
_ASTRAY = 0.03
_OLDER = 0.1
_RECENT = 300

_PEOPLE = (
    "Ana",
    "Ben",
    "Carla",
    "Dmitri",
    "Esther",
    "Farouk",
    "Gudrun",
    "Hiroshi",
    "Ida",
    "Jonas",
)
_VERBS = ("keeps", "needs", "wants", "repairs", "borrowed", "paints", "forgot", "measures")
_COLOURS = ("amber", "blue", "crimson", "green", "ivory", "silver", "violet", "yellow")
_THINGS = (
    *("lantern", "compass", "kettle", "violin", "bicycle", "notebook", "blanket", "telescope"),
    *("hammer", "mirror", "basket", "ladder", "umbrella", "suitcase", "chessboard", "microscope"),
)
_PLACES = (
    *("kitchen", "cellar", "attic", "garden", "workshop", "library", "harbour", "orchard"),
    *("stable", "chapel", "tower", "bakery", "cottage", "meadow", "station", "greenhouse"),
)


@dataclass
class _Scope:
    """What has been said of a scope, and under which ids; of which event which text."""

    name: ScopeName
    said: list[str] = field(default_factory=list[str])
    ids: list[str] = field(default_factory=list[str])
    texts: dict[str, str] = field(default_factory=dict[str, str])


class Stream:
    """Makes events of many scopes, each depending on those before; the same seed, the same events.

    With `astray`, some lie in another partition than their scope's, or under another key.
    """

    def __init__(
        self, rng: Random, partitions: int, *, scopes: int = 60, astray: bool = True
    ) -> None:
        self._rng = rng
        self._partitions = partitions
        self._scopes = [_Scope(ScopeName(f"chaos/scope-{n}")) for n in range(scopes)]
        self._astray = astray
        self._number = 0
        self._sent: list[OutgoingRecord] = []
        self._ahead: list[OutgoingRecord] = []

    def take(self, count: int) -> list[OutgoingRecord]:
        """Return the records of the next events."""
        return [self._next() for _ in range(count)]

    def _next(self) -> OutgoingRecord:
        self._number += 1
        if self._ahead:
            return self._ahead.pop(0)
        [shape] = self._rng.choices(list(_SHAPES), list(_SHAPES.values()))
        scope = self._rng.choice(self._scopes)
        if shape == "redelivered" and self._sent:
            return self._rng.choice(self._sent[-_RECENT:] if self._chance(0.7) else self._sent)
        if shape == "poisoned":
            return self._poison(scope)
        if shape == "joined":
            self._ahead = [self._placed(scope, value) for value in self._joined(scope)]
            return self._ahead.pop(0)
        value = (
            self._request(scope)
            if shape == "asked"
            else self._encoded(scope, **self._content(shape, scope))
        )
        record = self._placed(scope, value)
        self._sent.append(record)
        return record

    def _content(self, shape: str, scope: _Scope) -> dict[str, Any]:
        """Return an event's text, and its name for the memory where it has one."""
        if shape == "named":
            return {"text": self._fact(scope), "memory_id": f"name-{self._rng.randrange(5)}"}
        if not scope.said or shape in {"new", "redelivered"}:
            return {"text": self._fact(scope)}
        known = self._rng.choice(scope.said)
        if shape == "nearly repeated":
            first, rest = known.split(" ", 1)
            said = f"{first} {self._rng.choice(FILLERS)} {rest}"
            scope.said.append(said)
            return {"text": said}
        if shape == "punctuated":
            return {"text": f"{known.removesuffix('.')}!"}
        if shape == "extended":
            return {"text": _extended(known)}
        return {"text": self._rng.choice([known, known.upper(), known.replace(" ", "  ")])}

    def _fact(self, scope: _Scope) -> str:
        choose = self._rng.choice
        number = self._rng.randrange(1, 2_000)
        made = (
            f"{choose(_PEOPLE)} {choose(_VERBS)} the {choose(_COLOURS)} {choose(_THINGS)} {number} "
            f"in the {choose(_PLACES)}."
        )
        scope.said.append(made)
        return made

    def _encoded(self, scope: _Scope, **fields: Any) -> bytes:
        """Encode an event with an id of its own, later than those before or, seldom, older."""
        name = fields.pop("event_id", f"event-{self._number}")
        scope.ids.append(name)
        scope.texts.setdefault(name, fields["text"])
        minutes = self._number - (self._rng.randrange(2_000) if self._chance(_OLDER) else 0)
        made = event(
            scope=scope.name,
            event_id=name,
            occurred_at=START + timedelta(minutes=minutes),
            turn=self._number,
            tags=[f"tag-{self._number % 7}"],
            **fields,
        )
        return EVENT.encode(made)

    def _request(self, scope: _Scope) -> bytes:
        """Ask for a change of a memory that an event has made, or may have, or will."""
        made_by = EventId(self._rng.choice(scope.ids) if scope.ids else f"event-{self._number}")
        made = memory_id(decision_id(scope.name, made_by))
        identity = self._rng.choice(
            [made, named_memory_id(scope.name, f"name-{self._rng.randrange(5)}")]
        )
        version = self._rng.choice([1, 1, 2, 3])
        back = memory(self._fact(scope), id=identity, scope=scope.name, version=version)
        kinds: dict[type[Event], dict[str, Any]] = {
            Pin: {"memory_id": identity, "pinned": self._chance(0.5)},
            Rate: {"memory_id": identity, "helpful": 1},
            Retire: {
                "memories": [Target(memory_id=identity, version=version)],
                "reason": "invalid",
            },
            Undo: {"undoes": [decision_id(scope.name, made_by)], "memories": [back]},
            Forget: {"memories": [self._buried(scope, made_by, made, version)]},
        }
        kind = self._rng.choice(list(kinds))
        return self._asked(scope, kind, kinds[kind])

    def _asked(self, scope: _Scope, kind: type[Event], fields: Mapping[str, Any]) -> bytes:
        asked = {
            "event_id": f"asked-{self._number}",
            "scope": scope.name,
            "author": "chaos",
            "occurred_at": START + timedelta(minutes=self._number),
            **fields,
        }
        return EVENT.encode(kind.model_validate(asked))

    def _joined(self, scope: _Scope) -> Iterator[bytes]:
        """Yield events by which a memory comes to say all of another one, and more; join them."""
        name, other = f"joined-{self._number}", EventId(f"other-{self._number}")
        said = self._fact(scope)
        yield self._encoded(scope, text=self._fact(scope), memory_id=name)
        yield self._encoded(scope, text=said, event_id=other)
        more = {"text": _extended(said), "event_id": f"more-{self._number}"}
        yield self._encoded(scope, memory_id=name, **more)
        ids = (memory_id(decision_id(scope.name, other)), named_memory_id(scope.name, name))
        members = [Target(memory_id=one, version=at) for one, at in zip(ids, (1, 2), strict=True)]
        yield self._asked(scope, Consolidate, {"members": members})

    def _buried(
        self, scope: _Scope, made_by: EventId, identity: MemoryId, version: int
    ) -> Forgotten:
        """Return what is left of a memory that says what its event said; no record goes with it."""
        text = scope.texts.get(made_by) or self._fact(scope)
        meant = memory(text, id=identity, scope=scope.name, version=version)
        reading = judging().readings.of(text)
        model = ModelId(DEFAULT_MODEL)
        return tombstone(KEY, meant, vector_of(text), Texts([text]), reading, model)

    def _placed(self, scope: _Scope, value: bytes) -> OutgoingRecord:
        place = partition_of(scope.name, self._partitions)
        right = OutgoingRecord(EVENTS.name, place, scope.name.encode(), value)
        if not self._astray or not self._chance(_ASTRAY):
            return right
        elsewhere = self._rng.randrange(self._partitions)
        return self._rng.choice(
            [
                OutgoingRecord(EVENTS.name, elsewhere, right.key, value),
                OutgoingRecord(EVENTS.name, elsewhere, None, value),
                OutgoingRecord(EVENTS.name, place, None, value),
                OutgoingRecord(EVENTS.name, place, b"chaos/nobody", value),
            ]
        )

    def _poison(self, scope: _Scope) -> OutgoingRecord:
        """Return a record that can never be decided on."""
        good = self._encoded(scope, text=self._fact(scope))
        place, key = partition_of(scope.name, self._partitions), scope.name.encode()
        reused = self._encoded(scope, text=self._fact(scope), event_id=self._rng.choice(scope.ids))
        value, headers = self._rng.choice(
            [
                (b"{", ()),
                (b"", ()),
                (good.replace(b'"schema_version":1', b'"schema_version":99'), ()),
                (good.replace(key, b"chaos/*"), ()),
                (reused, ()),
                (good, ((FORWARDED_HEADER, b"memory.events/0/0"),)),
            ]
        )
        return OutgoingRecord(EVENTS.name, place, b"astray" if headers else key, value, headers)

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share


def _extended(known: str) -> str:
    return f"{known} {known.split(' ', 1)[0]} is certain."
