"""Small streams of events in which every kind of decision occurs, and most depend on others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from schemas.base import EventId, ScopeName
from schemas.codec import EVENT
from schemas.events import Event, Pin, Rate, Retire, Undo
from schemas.memories import Target
from schemas.topics import EVENTS
from streams.model.embedding import Vector
from streams.model.identity import decision_id, memory_id, named_memory_id
from streams.model.policy import Policy
from streams.model.ports.log import OutgoingRecord
from streams.model.ports.models import Embedder
from streams.model.scope import partition_of
from streams.stage.core.tombstones import TombstoneKey
from tests.builders import at_cosine, event, later, memory, policy, unit
from tests.fakes.sentences import SentenceEmbedder

TABLE: Mapping[str, Vector] = {
    "Ana likes coffee.": unit(1),
    "ana LIKES  coffee.": unit(1),
    "Ana truly likes coffee.": at_cosine(0.97, 2),
    "Does Ana like coffee?": at_cosine(0.96, 3),
    "Ana likes coffee. Ben plays chess.": unit(0.85, 0, 0, 0, 0, 0.5268),
    "Ana buys cups.": at_cosine(0.72, 7),
    "Ben plays chess.": unit(0, 0, 0, 0, 0, 1),
}
TEXTS = tuple(TABLE)
SCOPES = (ScopeName("acme/ana"), ScopeName("acme/ben"))
"""Of two partitions they have one each."""


@dataclass(frozen=True, eq=False)
class Rule:
    """What is decided by. Nothing is stored unchecked where something may be forgotten."""

    policy: Policy
    key: TombstoneKey | None

    @property
    def is_lenient(self) -> bool:
        """Whether events are stored unchecked where index or embedder have been silent."""
        return self.policy.fail_open.enabled


KEY = TombstoneKey(b"a secret of thirty-two characters")
STRICT = Rule(policy(merge={"characters_max": 100}), KEY)
LENIENT = Rule(
    policy(merge={"characters_max": 100}, fail_open={"enabled": True, "attempts": 1}), None
)


Kind = Literal["consolidate", "forget"]


@dataclass(frozen=True)
class Asked:
    """A wish that is worked out when its turn comes: of what memories, follows from `seed`.

    Who is `patient` waits until all is decided on.
    """

    kind: Kind
    seed: int
    patient: bool


Step = OutgoingRecord | Asked


def embedder() -> Embedder:
    return SentenceEmbedder(TABLE, characters_max=85)


def stream(rng: Random, partitions: int, rule: Rule) -> list[OutgoingRecord]:
    """Return 6 to 14 events on one or more texts: new, repeated, reused, renamed, redelivered, astray, and unreadable.

    Some ask for changes of what others have made, or may have. By a lenient rule none has a name:
    what names a memory waits for the index, and so does all behind it.
    """
    made: list[OutgoingRecord] = []
    names = (None,) if rule.is_lenient else (None, None, None, "drink", "game")
    texts = rng.sample(TEXTS, rng.randint(1, len(TEXTS)))
    for number in range(rng.randint(6, 14)):
        shape = rng.random()
        if made and shape < 0.2:
            made.append(rng.choice(made))
        elif shape < 0.25:
            made.append(_record(rng.choice(SCOPES), b"{", partitions))
        elif shape < 0.35:
            made.append(_request(rng, number, partitions))
        else:
            made.append(_event(rng, rng.choice(texts), number, names, partitions))
    return made


def wishes(rng: Random, events: list[OutgoingRecord], partitions: int, rule: Rule) -> list[Step]:
    """Return events, and in each third stream amid them wishes that memories be one, or forgotten.

    Events that come again are left out there. Every other of them begins with two memories that
    came to be nearly the same. Without a key nothing can be forgotten.
    """
    if rng.random() < 0.67:
        return list(events)
    near = _come_near(partitions) if rng.random() < 0.5 else []
    steps: list[Step] = list(dict.fromkeys([*near, *events]))
    for _ in range(rng.randint(1, 4)):
        kind: Kind = rng.choice(("consolidate", "consolidate" if rule.key is None else "forget"))
        asked = Asked(kind, rng.getrandbits(32), patient=rng.random() < 0.6)
        steps.insert(rng.randint(len(steps) // 2, len(steps)), asked)
    return steps


def _come_near(partitions: int) -> list[OutgoingRecord]:
    """Return events of which the last gives a memory a new text, near to that of another one."""
    said = (
        ("Ana buys cups.", "cup"),
        ("Ana likes coffee.", None),
        ("Ana truly likes coffee.", "cup"),
    )
    events = (
        event(text, memory_id=name, event_id=f"near {number}", occurred_at=later(number))
        for number, (text, name) in enumerate(said)
    )
    return [_record(one.scope, EVENT.encode(one), partitions) for one in events]


def _event(
    rng: Random, text: str, number: int, names: Sequence[str | None], partitions: int
) -> OutgoingRecord:
    scope = rng.choice((*SCOPES[:1] * 3, *SCOPES))
    said = event(
        text,
        scope=scope,
        event_id=f"e{rng.randint(0, 2)}" if rng.random() < 0.15 else f"event {number}",
        memory_id=rng.choice(names),
        occurred_at=later(rng.randint(0, 3)),
        tags=[f"seen {number}"],
    )
    record = _record(scope, EVENT.encode(said), partitions)
    if rng.random() < 0.07:
        partition = rng.randrange(partitions)
        return OutgoingRecord(EVENTS.name, partition, b"no scope", record.value)
    return record


def _request(rng: Random, number: int, partitions: int) -> OutgoingRecord:
    """Ask for a change of a memory that is there, or not yet, or in another version."""
    scope, version = rng.choice((*SCOPES[:1] * 3, *SCOPES)), rng.choice((1, 1, 2, 3))
    made_by = EventId(f"event {rng.randrange(number + 1)}")
    known = memory_id(decision_id(scope, made_by))
    identity = rng.choice((known, known, named_memory_id(scope, rng.choice(("drink", "game")))))
    back = memory(rng.choice(TEXTS), id=identity, scope=scope, version=version)
    kinds: Mapping[type[Event], Mapping[str, object]] = {
        Pin: {"memory_id": identity, "pinned": rng.random() < 0.5},
        Rate: {"memory_id": identity, "helpful": 1},
        Retire: {
            "memories": [Target(memory_id=identity, version=version)],
            "reason": "invalid",
        },
        Undo: {"undoes": [decision_id(scope, made_by)], "memories": [back]},
    }
    kind = rng.choice(list(kinds))
    asked = {"event_id": f"asked {number}", "scope": scope, "author": "cleo"}
    event_ = kind.model_validate({**asked, "occurred_at": later(rng.randint(0, 9)), **kinds[kind]})
    return _record(scope, EVENT.encode(event_), partitions)


def _record(scope: ScopeName, value: bytes, partitions: int) -> OutgoingRecord:
    return OutgoingRecord(EVENTS.name, partition_of(scope, partitions), scope.encode(), value)
