"""The whole flow over generated streams: owner, writer and consumer on a log, with an index."""

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle
from pathlib import Path
from typing import Any, Final, NoReturn, TypeGuard

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from schemas.base import EventId, MemoryId, Position, ScopeName
from schemas.codec import APPLIED, DEAD_LETTER, DECISION, EVENT
from schemas.decisions import (
    Change,
    Decision,
    Erase,
    Fence,
    Ignore,
    Marker,
    Reason,
    Reject,
    Replace,
)
from schemas.events import Consolidate, Event, Pin, Rate, Retire, Undo
from schemas.memories import Memory, Target
from schemas.outcomes import DeadLetter
from schemas.topics import CHANGES, DEAD_LETTERS, DECISIONS, EVENTS, TOPICS
from streams.forget.app.forgetting import ForgetTarget, PlanningDependencies, plans
from streams.index.exact import ExactIndex
from streams.log.consumer import Consumer
from streams.log.failures import RetryPolicy
from streams.log.local_broker import LocalBroker
from streams.model import wordings
from streams.model.identity import decision_id, memory_id, named_memory_id
from streams.model.neighbours import StoredMemory
from streams.model.ports.log import Log, OutgoingRecord, Process
from streams.model.scope import partition_of
from streams.stage.core.brake import RecentChanges
from streams.stage.core.ledger import fold
from streams.stage.core.lineage import CannotUndo, Wish, changing, plan
from streams.stage.core.tombstones import TombstoneKey
from streams.stage.flow.decided import DecidedInLog
from streams.stage.flow.decisions import INDEXED, DecisionsReader
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.partition_owner import PartitionOwner
from streams.stage.flow.writer import Writer
from tests.builders import at_cosine, event, judging, later, memory, policy, unit
from tests.fakes.clock import StandingClock
from tests.fakes.crashing import Crash, CrashingEmbedder, CrashingIndex, CrashingLog, Steps
from tests.fakes.sentences import SentenceEmbedder

SCOPES: Final = (ScopeName("acme/ana"), ScopeName("acme/ben"), ScopeName("zork/cellar"))
"""Over three partitions they fall into partitions 1, 0 and 2."""

LONG = "Ana likes coffee so very much that nobody has ever seen her drink coffee. " * 2

TABLE = {
    "Ana likes coffee.": unit(1),
    "ana LIKES  coffee": unit(1),
    "Ana really likes coffee.": at_cosine(0.97, 1),
    "Ana truly likes coffee.": at_cosine(0.97, 2),
    "Does Ana like coffee?": at_cosine(0.96, 3),
    "It cheers Ana up.": at_cosine(0.955, 4),
    "Ana likes coffee. Ben plays chess.": unit(0.85, 0, 0, 0, 0, 0.5268),
    "Ana drinks coffee at noon.": at_cosine(0.8, 6),
    "Ana buys cups.": at_cosine(0.72, 7),
    "Ana is abroad.": at_cosine(0.5, 1),
    "Ana is away.": at_cosine(0.499997, 2),
    "Tea:\n- green\n- black": at_cosine(0.96, 5),
    "Ben plays chess.": unit(0, 0, 0, 0, 0, 1),
    LONG: at_cosine(0.98, 6),
}
"""A small world in which every band, every kind of sentence and every way to differ occurs."""

TEXTS = tuple(TABLE)
NAMES = ("drink", "game")
POISON = (
    b"",
    b"\xff",
    b"{",
    b"[]",
    b'{"kind": "remember", "schema_version": 1}',
    b'{"kind": "forget", "schema_version": 1}',
    json.dumps({**json.loads(EVENT.encode(event())), "scope": "*"}).encode(),
    json.dumps({**json.loads(EVENT.encode(event())), "a\nb": 1}).encode(),
    EVENT.encode(event()).replace(b"2026-03-01T09:00:00Z", b"0001-01-01T00:00:00+01:00"),
)
ALL = 1_000_000
NOWHERE = Position(topic="nowhere", partition=0, offset=0)


@dataclass(frozen=True)
class Published:
    """One record of the events topic; `scope` says into which partition it goes."""

    scope: ScopeName
    value: bytes


def _published(sent: Published, partitions: int) -> OutgoingRecord:
    partition = partition_of(sent.scope, partitions)
    return OutgoingRecord(EVENTS.name, partition, sent.scope.encode(), sent.value)


@dataclass(frozen=True)
class Outcome:
    """What a stream came to: the log's content, the store, and what the owner still holds."""

    decisions: tuple[bytes, ...]
    """One per event, in the order of publication; nothing of one that was erased."""
    records: tuple[tuple[bytes, ...], ...]
    """Per partition, those that count, as the log has them."""
    dead_letters: tuple[bytes, ...]
    changed: frozenset[bytes]
    """Without the places of their decisions."""
    store: Mapping[MemoryId, tuple[Memory, bytes]]
    held: int
    steps: int

    def decoded(self) -> list[Decision]:
        return [_decision(value) for value in self.decisions if value]

    def told(self) -> dict[MemoryId, Memory]:
        """Return the newest state of each memory that memory.changes tells."""
        changes = [APPLIED.decode(value).memory for value in self.changed]
        return {one.id: one for one in sorted(changes, key=lambda one: one.version)}

    def anywhere(self) -> tuple[list[Any], list[Any], Mapping[MemoryId, tuple[Memory, bytes]]]:
        """Return decisions, dead letters and store without the places that the log gave them."""
        letters = [_letter(value) for value in self.dead_letters]
        return [_placeless(d) for d in self.decoded()], sorted(map(_wrong, letters)), self.store


def _decision(value: bytes) -> Decision:
    decision = DECISION.decode(value)
    assert not isinstance(decision, Fence)
    return decision


def _letter(value: bytes) -> DeadLetter:
    letter = DEAD_LETTER.decode(value)
    assert isinstance(letter, DeadLetter)
    return letter


def _placeless(decision: Decision) -> object:
    if isinstance(decision, Reject):
        return decision.kind
    return decision.model_dump(mode="json", exclude={"source"})


def _wrong(letter: DeadLetter) -> tuple[str, str, str, str]:
    return letter.stage.value, letter.field or "", letter.error, letter.value


@dataclass(frozen=True)
class Way:
    """How a stream is worked through: nothing of this may show in what is decided."""

    batch: int = 7
    partitions: int = 1
    writes: tuple[int, ...] = (ALL,)
    """How many decisions the writer applies after each batch, over and over."""


STRICT = policy(merge={"characters_max": 100})
KEY = TombstoneKey(b"a secret of thirty-two characters")


def _consumer(process: Process, log: Log, partition: int) -> Consumer:
    return Consumer(process, log, partition, retry=RetryPolicy(), sleep=_never, report=_never)


def _never(problem: object) -> NoReturn:
    raise AssertionError(f"nothing here fails for a while, but: {problem}")


class Life:
    """One process over a store directory, from its start to its end or crash."""

    def __init__(self, broker: LocalBroker, index: ExactIndex, steps: Steps, way: Way) -> None:
        log = CrashingLog(broker, steps)
        shaky = CrashingIndex(index, steps)
        embedder = CrashingEmbedder(SentenceEmbedder(TABLE, characters_max=85), steps)
        self._owner = PartitionOwner(
            Deduplicator(embedder, shaky, DecidedInLog(log), STRICT, judging(), KEY),
            log,
            shaky,
            lambda _: None,
            token=f"born at step {steps.taken}",
            clock=StandingClock(),
        )
        writer = Writer(shaky, log, lambda _: None)
        partitions = range(way.partitions)
        self._way = way
        self._owners = [_consumer(self._owner, log, partition) for partition in partitions]
        self._writers = [_consumer(writer, log, partition) for partition in partitions]

    async def work(self, *, applied: bool) -> None:
        """Decide on everything, let the writer follow in its own time, then, if told, catch up."""
        lag = cycle(self._way.writes)
        going = True
        while going:
            going = False
            for owner, writer in zip(self._owners, self._writers, strict=True):
                going = bool(await owner.step(self._way.batch)) or going
                if records := next(lag):
                    await writer.step(records)
        for writer in self._writers if applied else ():
            await writer.drain(ALL)

    async def held(self) -> int:
        """Return how much the overlays hold after they have been told to settle."""
        owned: dict[int, Any] = vars(self._owner)["_owned"]
        for partition in owned:
            await self._owner.settle(partition)
        return sum(_size(one.overlay) for one in owned.values())


def _size(thing: object) -> int:
    """Count what the containers inside an object hold, however deep; the brake's are bounded."""
    parts: list[Any] = [
        part for part in vars(thing).values() if not isinstance(part, int | RecentChanges)
    ]
    return sum(len(part) if hasattr(part, "keys") else _size(part) for part in parts)


class World:
    """A store directory: the log's file and the index, which outlive every process."""

    def __init__(self, folder: str, way: Way) -> None:
        self._path = Path(folder) / "log.db"
        self._index = ExactIndex()
        self._way = way
        self._places: list[tuple[int, int]] = []
        self._steps = Steps()

    async def publish(self, stream: Iterable[Published]) -> None:
        broker = self._open()
        for topic in TOPICS:
            broker.create(topic.name, self._way.partitions)
        records = [_published(sent, self._way.partitions) for sent in stream]
        offsets = await broker.append(records)
        self._places += [(r.partition, o) for r, o in zip(records, offsets, strict=True)]
        broker.close()

    async def to_forget(self, identity: MemoryId) -> list[Published]:
        """Return the requests by which somebody who looks at the log now has a memory forgotten."""
        broker = self._open()
        means = PlanningDependencies(
            KEY, STRICT, SentenceEmbedder(TABLE, characters_max=85), judging()
        )
        wanted, wish = ForgetTarget(memory=identity), Wish("cleo", later(20))
        [plan] = await plans(broker, wanted, means, wish)
        broker.close()
        return [Published(one.scope, EVENT.encode(one)) for one in plan.requests]

    async def live(self, crashes: Collection[int] = (), *, applied: bool = True) -> Outcome:
        """Work to the end, starting again after every crash."""
        self._steps = Steps(crashes)
        while True:
            broker = self._open()
            life = Life(broker, self._index, self._steps, self._way)
            try:
                await life.work(applied=applied)
                steps, held = self._steps.taken, await life.held()
            except Crash:
                continue
            else:
                return await self._outcome(broker, held=held, steps=steps)
            finally:
                broker.close()

    def _open(self) -> LocalBroker:
        return LocalBroker(self._path, indexed=INDEXED)

    async def _outcome(self, broker: LocalBroker, *, held: int, steps: int) -> Outcome:
        made = [await self._decisions(broker, p) for p in self._partitions()]
        letters = [await self._values(broker, DEAD_LETTERS.name, p) for p in self._partitions()]
        changes = [await self._values(broker, CHANGES.name, p) for p in self._partitions()]
        for partition, values in enumerate(made):
            end = await broker.end(EVENTS.name, partition)
            assert values.keys() | _erased(values.values()) == set(range(end))
        return Outcome(
            decisions=tuple(made[partition].get(offset, b"") for partition, offset in self._places),
            records=tuple(tuple(values.values()) for values in made),
            dead_letters=tuple(chain.from_iterable(letters)),
            changed=frozenset(map(_change, chain.from_iterable(changes))),
            store={s.memory.id: _frozen(s) async for s in self._index.scan()},
            held=held,
            steps=steps,
        )

    @staticmethod
    async def _decisions(broker: LocalBroker, partition: int) -> dict[int, bytes]:
        """Return those that count and are there, by the events that they are on."""
        records = await broker.read(DECISIONS.name, partition, 0, ALL)
        values = {record.offset: record.value or b"" for record in records}
        counting = DecisionsReader().window(records)
        made = [(one.decision.source.offset, values[one.position.offset]) for one in counting]
        assert len(dict(made)) == len(made)
        return dict(made)

    def _partitions(self) -> Iterator[int]:
        return iter(range(self._way.partitions))

    @staticmethod
    async def _values(broker: LocalBroker, topic: str, partition: int) -> tuple[bytes, ...]:
        return tuple(r.value or b"" for r in await broker.read(topic, partition, 0, ALL))


def _erased(decisions: Iterable[bytes]) -> set[int]:
    """Return the events whose decisions were erased."""
    found = (_decision(value) for value in decisions)
    return {gone.event for one in found if isinstance(one, Erase) for gone in one.erased}


def _change(value: bytes) -> bytes:
    """Return a change without the place that the log gave its decision."""
    change = APPLIED.decode(value)
    return APPLIED.encode(change.model_copy(update={"decided": NOWHERE}))


def _frozen(stored: StoredMemory) -> tuple[Memory, bytes]:
    assert stored.vector is not None
    return stored.memory, stored.vector.tobytes()


def play(
    *streams: Sequence[Published], way: Way | None = None, crashes: Collection[int] = ()
) -> Outcome:
    """Publish and work through one stream after the other in a fresh world."""

    async def all_of_it() -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            world = World(folder, way or Way())
            outcome: Outcome | None = None
            for stream in streams:
                await world.publish(stream)
                outcome = await world.live(crashes)
            assert outcome is not None
            return outcome

    return asyncio.run(all_of_it())


def remember(text: str = TEXTS[0], scope: ScopeName = SCOPES[0], **fields: Any) -> Published:
    return Published(scope, EVENT.encode(event(text, scope=scope, **fields)))


REMEMBERED = st.tuples(
    st.sampled_from(SCOPES[:1] * 4 + SCOPES),
    st.sampled_from(TEXTS),
    st.sampled_from([None] * 12 + ["e1", "e2", "e3"]),
    st.sampled_from([None] * 6 + list(NAMES)),
    st.integers(0, 3),
)
POISONED = st.tuples(st.sampled_from(SCOPES), st.sampled_from(POISON))
SHAPES = st.sampled_from([0] * 12 + [1, 1, 2])


ASKS = st.sampled_from([Pin, Pin, Rate, Retire, Undo, Undo, Undo, Consolidate, Consolidate])


@st.composite
def streams(draw: st.DrawFn, longest: int = 40, *, asks: bool = True) -> list[Published]:
    """Events new, repeated, reused, addressed by name and redelivered, and bytes that are none.

    Amid them people ask for changes, of what the events before have led to.
    """
    stream: list[Published] = []
    least = draw(st.sampled_from([2, longest // 3, longest // 2]))
    for i, shape in enumerate(draw(st.lists(SHAPES, min_size=least, max_size=longest))):
        if shape == 0:
            scope, text, event_id, name, hours = draw(REMEMBERED)
            fields = {"event_id": event_id or f"event {i}", "occurred_at": later(hours)}
            stream.append(remember(text, scope, memory_id=name, tags=[f"seen {i}"], **fields))
        elif shape == 1 and stream:
            stream.append(draw(st.sampled_from(stream)))
        else:
            stream.append(Published(*draw(POISONED)))
    if not asks:
        return stream
    begun = draw(st.integers(1, len(stream)))
    asking, rest = stream[:begun], stream[begun:]
    for number, kind in enumerate(draw(st.lists(ASKS, max_size=3))):
        asking += asked(kind, f"asked {number}", asking, draw)
    return [*asking, *rest]


def asked(
    kind: type[Event], name: str, before: Sequence[Published], draw: st.DrawFn
) -> list[Published]:
    """Return the events by which somebody asks for a change of what is there, if anything is."""
    decisions = [one for one in play(before).decoded() if not isinstance(one, Marker)]
    changes = changing(decisions)
    if not changes:
        return []
    meant = draw(st.sampled_from(changes))
    scope = meant.event.scope
    if kind is Undo:
        of_scope = [one for one in decisions if one.event.scope == scope]
        try:
            planned = plan(
                of_scope, meant.decision_id, Wish("cleo", later(draw(st.integers(0, 9))))
            )
        except CannotUndo:
            return []
        return [Published(scope, EVENT.encode(one)) for one in planned.events]
    state: dict[MemoryId, StoredMemory] = {}
    for one in decisions:
        fold(state, one)
    of_scope = [s.memory for s in state.values() if s.memory.scope == scope]
    if kind is Consolidate:
        return _proposed(name, scope, of_scope, draw)
    known = draw(st.sampled_from(of_scope))
    fields: dict[type[Event], dict[str, Any]] = {
        Pin: {"memory_id": known.id, "pinned": draw(st.booleans())},
        Rate: {"memory_id": known.id, "helpful": draw(st.integers(0, 2))},
        Retire: {
            "memories": [Target(memory_id=known.id, version=known.version)],
            "reason": "invalid",
        },
    }
    return [request(kind, scope, event_id=name, **fields[kind])]


def _proposed(
    name: str, scope: ScopeName, memories: Sequence[Memory], draw: st.DrawFn
) -> list[Published]:
    """Return the proposal that some live memories be one; none where there are not two."""
    live = [Target(memory_id=one.id, version=one.version) for one in memories if one.live]
    if len(live) < 2:
        return []
    members = draw(st.lists(st.sampled_from(live), min_size=2, max_size=4, unique=True))
    return [request(Consolidate, scope, event_id=name, members=members)]


def request(kind: type[Event], scope: ScopeName = SCOPES[0], **fields: Any) -> Published:
    said = {"author": "cleo", "occurred_at": later(9), "scope": scope, **fields}
    return Published(scope, EVENT.encode(kind.model_validate(said)))


EXAMPLES = settings(
    max_examples=25,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""Without shrinking, which replays streams for minutes: add the phase to study a failure."""

PUT_BACK = memory("Ana is away.", id=memory_id(decision_id(SCOPES[0], EventId("list"))), version=2)
"""What an undo makes of the last memory of the stream below."""

RICH = (
    remember("Ana likes coffee.", event_id="e1"),
    remember("Ana truly likes coffee."),
    remember("Ana likes coffee.", event_id="again"),
    remember("Ben plays chess.", memory_id="game"),
    request(Rate, event_id="rate", memory_id=named_memory_id(SCOPES[0], "game"), helpful=1),
    remember("Ana drinks coffee at noon."),
    Published(SCOPES[0], b"{"),
    remember("Ana likes coffee. Ben plays chess.", event_id="more"),
    remember("Ana buys cups.", memory_id="game"),
    remember("Ana likes coffee.", event_id="e1"),
    remember("Ana is abroad.", event_id="e1"),
    remember(LONG),
    remember("Ana really likes coffee."),
    remember("Ana likes coffee.", SCOPES[1]),
    remember("Ana buys cups.", event_id="cups again"),
    remember("Tea:\n- green\n- black", event_id="list"),
    request(Undo, event_id="undo", undoes=["that"], memories=[PUT_BACK]),
    remember("Ana is abroad.", event_id="abroad again"),
)
"""Every kind of decision, in eighteen records."""


def kinds(outcome: Outcome) -> Counter[str]:
    return Counter(decision.kind for decision in outcome.decoded())


def test_the_rich_stream_has_every_kind_of_decision() -> None:
    assert kinds(play(RICH)).keys() == {
        "insert",
        "merge",
        "reinforce",
        "replace",
        "revise",
        "ignore",
        "reject",
    }


@pytest.mark.covers("C7", "C15", "D27", "B75")
@given(streams())
@example([remember("Ana likes coffee."), *RICH])
@EXAMPLES
def test_batch_size_shows_in_no_byte(stream: list[Published]) -> None:
    one_by_one = play(stream, way=Way(batch=1))
    for batch in (2, 7, ALL):
        together = play(stream, way=Way(batch=batch))
        assert together.records == one_by_one.records
        assert together.dead_letters == one_by_one.dead_letters
        assert together.changed == one_by_one.changed
        assert together.store == one_by_one.store


@pytest.mark.covers("C7")
@given(streams(), st.sampled_from([1, 3, 7]))
@EXAMPLES
def test_partition_count_shows_only_in_places(stream: list[Published], batch: int) -> None:
    alone = play(stream, way=Way(batch=batch))
    assert play(stream, way=Way(batch=batch, partitions=3)).anywhere() == alone.anywhere()


@pytest.mark.covers("B119")
@given(streams(), st.sampled_from([1, 3, 7]), st.lists(st.integers(0, 6), min_size=1, max_size=6))
@EXAMPLES
def test_a_writer_that_lags_shows_in_nothing(
    stream: list[Published], batch: int, amounts: list[int]
) -> None:
    at_once = play(stream, way=Way(batch=batch))
    for writes in ((0,), tuple(amounts)):
        late = play(stream, way=Way(batch=batch, writes=writes))
        assert late.records == at_once.records
        assert late.changed == at_once.changed
        assert late.store == at_once.store


@given(streams(), st.sampled_from([(ALL,), (0,), (1, 4)]))
@EXAMPLES
def test_the_store_is_what_the_decisions_add_up_to(
    stream: list[Published], writes: tuple[int, ...]
) -> None:
    outcome = play(stream, way=Way(batch=3, writes=writes))
    decisions = [json.loads(value) for value in outcome.decisions]
    assert {
        identity: memory.model_dump(mode="json") for identity, (memory, _) in outcome.store.items()
    } == _added_up(decisions)
    state: dict[MemoryId, StoredMemory] = {}
    for decision in outcome.decoded():
        fold(state, decision)
    assert outcome.store == {identity: _frozen(stored) for identity, stored in state.items()}


def _added_up(decisions: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Add decisions up from their JSON alone, as another reader of the topic would."""
    memories: dict[str, dict[str, Any]] = {}
    for decision in decisions:
        made: dict[str, Any] = decision.get("memory", {})
        for target in decision.get("targets", []):
            if target["memory_id"] != made["id"]:
                known = memories[target["memory_id"]]
                reason = decision["evidence"]["reason"]
                at = decision["event"]["occurred_at"]
                superseded = {"by": made["id"], "at": at, "reason": reason}
                version = target["version"] + 1
                known |= {"status": "superseded", "superseded": superseded, "version": version}
        if made:
            memories[made["id"]] = made
        memories |= {one["memory"]["id"]: one["memory"] for one in decision.get("memories", [])}
    return memories


@pytest.mark.covers("B123")
@given(streams(longest=24), st.data())
@EXAMPLES
def test_redelivery_changes_no_memory(stream: list[Published], data: st.DataObject) -> None:
    prefix = stream[: data.draw(st.integers(1, len(stream)))]
    before = play(stream)
    after = play(stream, prefix)
    assert after.store == before.store
    assert after.decisions[: len(stream)] == before.decisions
    again = after.decoded()[len(stream) :]
    assert [d.kind for d in again] == [
        "reject" if isinstance(d, Reject) else "ignore" for d in before.decoded()[: len(prefix)]
    ]


@pytest.mark.covers("B125")
@given(streams(), st.sampled_from([1, 3]))
@EXAMPLES
def test_every_event_has_one_decision_in_order_and_every_reject_its_dead_letter(
    stream: list[Published], partitions: int
) -> None:
    outcome = play(stream, way=Way(batch=3, partitions=partitions))
    for values in outcome.records:
        sources = [_decision(value).source for value in values]
        assert [source.offset for source in sources] == list(range(len(values)))
    rejected = [d.dead_letter_id for d in outcome.decoded() if isinstance(d, Reject)]
    letters = [_letter(value).id for value in outcome.dead_letters]
    assert sorted(letters) == sorted(rejected)
    assert sum(map(len, outcome.records)) == len(stream)


@given(streams(), st.sampled_from([(ALL,), (0,), (1, 4)]))
@EXAMPLES
def test_nothing_is_held_once_all_is_applied_and_settled(
    stream: list[Published], writes: tuple[int, ...]
) -> None:
    assert play(stream, way=Way(batch=3, partitions=3, writes=writes)).held == 0


CHESS, CUPS, ABROAD = "Ben plays chess.", "Ana buys cups.", "Ana is abroad."
TRAPS: Mapping[str, Sequence[Published]] = {
    "rich": RICH,
    "an event id used again for another text, in one batch": [
        remember(CUPS, event_id="a", memory_id="drink"),
        remember(CHESS, event_id="b"),
        remember(ABROAD, event_id="c", memory_id="drink"),
        remember(TEXTS[0], event_id="c"),
        remember(CHESS, event_id="d"),
        remember(TEXTS[0], event_id="d"),
    ],
    "two memories that came to say the same": [
        remember(CHESS, event_id="a", memory_id="drink"),
        remember(CUPS, event_id="b", memory_id="game"),
        remember(CHESS, event_id="c", memory_id="game"),
        remember(CHESS, event_id="d"),
    ],
    "two that say the same, of which one is renamed": [
        remember(CUPS, event_id="a", memory_id="game"),
        remember(CHESS, event_id="b", memory_id="drink"),
        remember(CHESS, event_id="c", memory_id="game"),
        remember(ABROAD, event_id="d", memory_id="drink"),
        remember(CHESS, event_id="e"),
    ],
    "the other of the two is renamed": [
        remember(CUPS, event_id="a", memory_id="drink"),
        remember(CHESS, event_id="b", memory_id="game"),
        remember(CHESS, event_id="c", memory_id="drink"),
        remember(ABROAD, event_id="d", memory_id="game"),
        remember(CHESS, event_id="e"),
    ],
    "similarities at the policy's floor": [
        remember("Ana is away.", event_id="a"),
        remember(ABROAD, event_id="b"),
        remember(TEXTS[0], event_id="c"),
    ],
    "more equally near memories than are looked at": [
        *(remember(f"{LONG} {n}", event_id=f"{n}", tags=[f"{n}"]) for n in range(24)),
    ],
}


@pytest.mark.covers("C7", "C15", "B119")
@pytest.mark.parametrize("stream", TRAPS.values(), ids=TRAPS.keys())
def test_no_way_of_working_through_a_trap_shows_in_any_byte(stream: Sequence[Published]) -> None:
    one_by_one = play(stream, way=Way(batch=1))
    for batch in (1, 2, 3, ALL):
        for writes in ((ALL,), (0,), (1, 0), (1, 1, 0), (0, 0, 2)):
            other = play(stream, way=Way(batch=batch, writes=writes))
            assert other.records == one_by_one.records
            assert other.changed == one_by_one.changed
            assert other.store == one_by_one.store


CRASHED = Way(batch=4, writes=(3, 0, ALL))


def assert_unharmed(stream: Sequence[Published], crashes: Collection[int], calm: Outcome) -> None:
    torn = play(stream, way=CRASHED, crashes=crashes)
    assert torn.records == calm.records
    assert torn.dead_letters == calm.dead_letters
    assert torn.changed == calm.changed
    assert torn.store == calm.store
    assert torn.held == 0


@pytest.mark.covers("D15")
def test_a_crash_at_any_step_of_the_rich_stream_shows_in_nothing() -> None:
    calm = play(RICH, way=CRASHED)
    for step in range(1, calm.steps + 1):
        assert_unharmed(RICH, {step}, calm)


COFFEE, MILK = (memory_id(decision_id(SCOPES[0], EventId(name))) for name in ("coffee", "truly"))
SAID = (
    remember("Ana likes coffee.", event_id="coffee", pinned=True),
    remember("Ana truly likes coffee.", event_id="truly"),
    request(Pin, event_id="unpin", memory_id=COFFEE, pinned=False),
    request(
        Consolidate,
        event_id="one",
        members=[Target(memory_id=COFFEE, version=2), Target(memory_id=MILK, version=1)],
    ),
    remember("Ben plays chess.", event_id="chess"),
)
"""Two memories that become one."""
SINCE = (
    remember("ana LIKES  coffee", event_id="another"),
    remember("Ana is abroad.", event_id="abroad"),
)
"""What is published behind the request to forget one of the two."""


def play_forgetting(way: Way, crashes: Collection[int] = ()) -> Outcome:
    """Let two memories become one, and then one of the two be forgotten: there crashes happen.

    Before that nothing is applied.
    """

    async def all_of_it() -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            world = World(folder, way)
            await world.publish(SAID)
            await world.live(applied=False)
            await world.publish([*await world.to_forget(COFFEE), *SINCE])
            return await world.live(crashes)

    return asyncio.run(all_of_it())


@pytest.mark.covers("B137", "C10")
def test_what_was_joined_with_what_is_forgotten_is_said_again() -> None:
    outcome = play_forgetting(Way(writes=(0,)))
    assert kinds(outcome) == {"insert": 2, "erase": 1, "block": 1}
    live = {memory.text for memory, _ in outcome.store.values() if memory.live}
    assert live == {"Ana truly likes coffee.", "Ben plays chess.", "Ana is abroad."}


@pytest.mark.covers("C7", "B119")
def test_no_way_of_working_through_a_request_to_forget_shows_in_any_byte() -> None:
    one_by_one = play_forgetting(Way(batch=1, writes=(0,)))
    for batch in (1, 2, ALL):
        for writes in ((0,), (1, 0), (0, 0, 2), (0, 0, ALL)):
            other = play_forgetting(Way(batch=batch, writes=writes))
            assert other.records == one_by_one.records
            assert other.told() == one_by_one.told()
            assert other.store == one_by_one.store


@pytest.mark.covers("D15", "B135")
def test_a_crash_at_any_step_of_forgetting_shows_in_nothing() -> None:
    """What is to be decided anew may be published twice then: it is decided on once."""
    calm = play_forgetting(FORGETTING)
    for step in range(1, calm.steps + 1):
        torn = play_forgetting(FORGETTING, {step})
        assert _without_repeated(torn) == _without_repeated(calm)
        assert torn.told() == calm.told()
        assert torn.store == calm.store
        assert torn.held == 0


FORGETTING = Way(batch=2, writes=(0, 3, ALL))


def _without_repeated(outcome: Outcome) -> list[bytes]:
    return [value for [*values] in outcome.records for value in values if not _repeats(value)]


def _repeats(value: bytes) -> bool:
    decision = _decision(value)
    return isinstance(decision, Ignore) and decision.evidence.reason is Reason.SAME_EVENT


@given(streams(longest=24), st.sets(st.integers(1, 150), min_size=1, max_size=5))
@EXAMPLES
def test_crashes_at_any_steps_show_in_nothing(stream: list[Published], crashes: set[int]) -> None:
    assert_unharmed(stream, crashes, play(stream, way=CRASHED))


@pytest.mark.covers("B66")
@given(streams())
@EXAMPLES
def test_every_superseded_memory_reaches_one_live_memory_or_its_end(
    stream: list[Published],
) -> None:
    store = {identity: memory for identity, (memory, _) in play(stream).store.items()}
    for identity in store:
        *_, last = lineage(store, identity)
        end = store[last].superseded
        assert end is None or end.reason in {"undone", "invalid"}


@pytest.mark.covers("S4.29")
@given(streams(asks=False))
@EXAMPLES
def test_what_was_accepted_is_a_wording_of_the_live_memory_that_it_leads_to(
    stream: list[Published],
) -> None:
    outcome = play(stream)
    store = {identity: memory for identity, (memory, _) in outcome.store.items()}
    decisions = outcome.decoded()
    for i, decision in enumerate(decisions):
        if not isinstance(decision, Change):
            continue
        chain = lineage(store, decision.memory.id)
        renamed = {d.memory.id for d in decisions[i + 1 :] if is_renaming(d)}
        if renamed.isdisjoint(chain):
            assert [store[one].live for one in chain] == [False] * (len(chain) - 1) + [True]
            assert wordings.has(store[chain[-1]], decision.event.text)


def is_renaming(decision: Decision) -> TypeGuard[Replace]:
    return isinstance(decision, Replace) and decision.evidence.reason is Reason.SAME_MEMORY_ID


def lineage(store: Mapping[MemoryId, Memory], identity: MemoryId) -> list[MemoryId]:
    """Return the memory and its successors, up to the one that is live or has ended."""
    path = [identity]
    while (superseded := store[path[-1]].superseded) is not None and superseded.by is not None:
        assert superseded.by not in path
        path.append(superseded.by)
    return path
