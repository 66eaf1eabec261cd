"""Read-only queries over a log: its decisions and memories."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from typing import Literal, Self, TypeAlias, TypeVar

from pydantic import ValidationError

from schemas.base import DecisionId, MemoryId, PolicyId, ScopeName
from schemas.decisions import Decision, Ignore, Marker
from schemas.memories import Memory
from schemas.topics import DECISIONS
from streams.model.fences import BEGINNING, ReadPosition
from streams.model.identity import named_memory_id
from streams.model.neighbours import StoredMemory
from streams.model.policy import Policy
from streams.model.ports.failures import NoStore
from streams.model.ports.index import Index
from streams.model.ports.log import PAGE, Log, LogRecord, SearchableLog, pages
from streams.model.scope import partition_of
from streams.stage.core.ledger import MissingTarget, advance, effects, fold, memory_of
from streams.stage.flow.decisions import (
    DECISION_ID_HEADER,
    EVENT_ID_HEADER,
    FENCE_HEADER,
    MEMORY_ID_HEADER,
    MEMORY_NAME_HEADER,
    CountedDecision,
    DecisionsReader,
    Fences,
    epoch_at,
    read_decision,
    scope_of,
)
from streams.stage.flow.takeover import applied
from streams.store.app import policies, wiring
from streams.store.app.settings import Settings
from streams.store.world.store_directory import StoreDirectory

_Found = TypeVar("_Found")

Identified: TypeAlias = Literal["decision", "event", "memory"]
"""What an id can name."""

_IDS: Mapping[Identified, str] = {
    "decision": DECISION_ID_HEADER,
    "event": EVENT_ID_HEADER,
    "memory": MEMORY_ID_HEADER,
}


class AmbiguousPrefix(Exception):
    """Several things have the given id, or one that starts with it."""


async def ends(log: Log, topic: str) -> list[int]:
    """Return the offset after the last record of each partition of a topic."""
    return [await log.end(topic, one) for one in range(await log.partitions(topic))]


async def unapplied(index: Index, log: Log) -> int:
    """Return how many records of decisions an index has not applied yet."""
    every = enumerate(await ends(log, DECISIONS.name))
    return sum([max(0, end - (await applied(index, p)).reached.offset) for p, end in every])


@dataclass(frozen=True)
class IdentifiedEntries:
    """What an id names, its full id, and its decisions."""

    what: Identified
    id: str
    entries: Sequence[CountedDecision]


def everywhere(_: ScopeName) -> bool:
    """Return that any scope will do."""
    return True


def only_in(
    scope: ScopeName | None, within: Callable[[ScopeName], bool] = everywhere
) -> Callable[[ScopeName], bool]:
    """Return what tells whether a scope will do: one scope if it is named, of those `within`."""
    return within if scope is None else lambda one: one == scope and within(one)


@dataclass(frozen=True)
class StoreReader:
    """Reads one store or cluster, even while other processes write it.

    `place` says where its log is; `policy_of` returns a policy by its id.
    """

    log: SearchableLog
    place: str
    policy_of: Callable[[PolicyId], Policy | None]

    async def decisions(self, newest: int | None = None) -> AsyncIterator[CountedDecision]:
        """Yield every decision that counts, or the `newest` of each partition, in log order."""
        for partition in range(await self.log.partitions(DECISIONS.name)):
            if newest is None:
                async for entry in self._from(partition):
                    yield entry
            else:
                end = await self.log.end(DECISIONS.name, partition)
                for entry in await self._last(partition, end, newest):
                    yield entry

    async def _last(
        self,
        partition: int,
        end: int,
        count: int,
        fits: Callable[[Decision], bool] = lambda _: True,
        scope: ScopeName | None = None,
    ) -> list[CountedDecision]:
        """Return the last `count` decisions that count and fit, reading back as far as needed.

        They are those before an offset and, if a scope is named, on its events.
        """
        back = max(count, PAGE)
        while True:
            offset = max(0, end - back)
            start = ReadPosition(offset, await epoch_at(self.log, partition, offset))
            every = self._from(partition, start, end, scope)
            found = [entry async for entry in every if fits(entry.decision)]
            if len(found) >= count or not offset:
                return found[-count:]
            back *= 4

    async def _from(
        self,
        partition: int,
        start: ReadPosition = BEGINNING,
        end: int | None = None,
        scope: ScopeName | None = None,
    ) -> AsyncIterator[CountedDecision]:
        reader = DecisionsReader(start)
        async for page in pages(self.log, DECISIONS.name, partition, start.offset, end):
            for logged in reader.window(page if scope is None else _of_scope(page, scope)):
                yield logged

    async def memories(self) -> list[Memory]:
        """Return every memory that the decisions add up to, retired ones included.

        By scope, then by creation time. Raises NoStore if the decisions do not add up.
        """
        return in_order(await self.state())

    async def state(self) -> dict[MemoryId, StoredMemory]:
        """Return the fold of the decisions, with vectors: what a store should hold.

        Raises NoStore if the decisions do not add up.
        """
        state: dict[MemoryId, StoredMemory] = {}
        async for entry in self.decisions():
            try:
                fold(state, entry.decision, holed=entry.holed)
            except MissingTarget as damage:
                place = entry.position.place
                raise NoStore(f"{place}: {damage}; restore the log from a copy") from damage
        return state

    async def about(
        self, identity: str, within: Callable[[ScopeName], bool] = everywhere
    ) -> IdentifiedEntries | None:
        """Return what an id names in the scopes `within`: an id, its beginning, or a memory's name.

        Raises AmbiguousPrefix if several things fit.
        """
        records = await self._counting(await self._fitting(identity, within))
        by_id: dict[Identified, dict[str, list[LogRecord]]] = {
            what: _by_value(records, header, identity) for what, header in _IDS.items()
        }
        for what, found in by_id.items():
            if identity in found:
                return IdentifiedEntries(what, identity, _entries(found[identity]))
        if (named := _one_meant(records, identity)) is not None:
            return IdentifiedEntries("memory", named, _entries(await self._of_memories([named])))
        for what, found in by_id.items():
            if found:
                only = only_one(found, identity)
                return IdentifiedEntries(what, only, _entries(found[only]))
        return None

    async def memory_id(
        self,
        identity: str,
        within: Callable[[ScopeName], bool] = everywhere,
        *,
        erased: bool = False,
    ) -> MemoryId | None:
        """Return the id of the memory that an id means in the scopes `within`, or None.

        It is a memory's id, the beginning of one, the name that its producer gave it, or the id of
        an event, which means the memory that the event made or changed. `erased` includes records
        that do not count: they may hold the text. Raises AmbiguousPrefix if several memories fit.
        """
        fitting = await self._fitting(identity, within)
        records = fitting if erased else await self._counting(fitting)
        ids = _by_value(records, MEMORY_ID_HEADER, identity)
        if identity in ids:
            return MemoryId(identity)
        named = _one_meant(records, identity)
        return named or (MemoryId(only_one(ids, identity)) if ids else None)

    async def decision_id(
        self, identity: str, within: Callable[[ScopeName], bool] = everywhere
    ) -> DecisionId | None:
        """Return the id of the decision that an id means in the scopes `within`, or None.

        It is a decision's id, that of its event, or the beginning of one. Raises AmbiguousPrefix if
        several decisions fit.
        """
        found = await self.about(identity, within)
        if found is None or found.what == "memory":
            return None
        ids = list(dict.fromkeys(entry.decision.decision_id for entry in found.entries))
        if len(ids) > 1:
            raise AmbiguousPrefix(
                f"events of several scopes have the id {identity}; name one of the decisions "
                f"{', '.join(ids)}"
            )
        return ids[0]

    async def versions(self, ids: Sequence[MemoryId]) -> dict[tuple[MemoryId, int], Memory]:
        """Return every version of memories that decisions state, by id and version."""
        stated: dict[tuple[MemoryId, int], Memory] = {}
        for record in await self._of_memories(ids):
            for effect in effects(read_decision(record)):
                if isinstance(effect, StoredMemory):
                    stated[effect.memory.id, effect.memory.version] = effect.memory
        return stated

    async def stored(self, identity: MemoryId) -> StoredMemory | None:
        """Return the newest state of a memory; None if there is no such memory."""
        state: StoredMemory | None = None
        for record in await self._of_memories([identity]):
            for effect in effects(read_decision(record)):
                if memory_of(effect) == identity:
                    state = advance(state, effect, holed=True) or state
        return state

    async def on_memories(self, ids: Sequence[MemoryId]) -> list[Decision]:
        """Return the decisions that changed any of these memories, in the order of the log."""
        return [read_decision(record) for record in await self._of_memories(ids)]

    async def of_scope(self, scope: ScopeName) -> list[Decision]:
        """Return the decisions on the events of a scope, in log order."""
        partition = partition_of(scope, await self.log.partitions(DECISIONS.name))
        return [entry.decision async for entry in self._from(partition, scope=scope)]

    async def newest_of(
        self, scope: ScopeName, kind: str | None, before: int | None, limit: int
    ) -> list[CountedDecision]:
        """Return up to `limit` decisions on the events of a scope, the newest first.

        Only those of a kind, if one is named, and those before an offset of the scope's partition.
        """
        partition = partition_of(scope, await self.log.partitions(DECISIONS.name))
        end = await self.log.end(DECISIONS.name, partition)
        end = end if before is None else min(end, before)
        found = await self._last(
            partition, end, limit, lambda decision: kind in {None, decision.kind}, scope
        )
        return found[::-1]

    async def on_events(self, ids: Sequence[DecisionId]) -> dict[DecisionId, Decision]:
        """Return the decisions with these ids; of several on one event, the one that holds.

        A repeated event is ignored, but an event that was ignored at first is decided on again.
        """
        found: dict[DecisionId, Decision] = {}
        records = await self.log.find(DECISIONS.name, DECISION_ID_HEADER, ids)
        for one in map(read_decision, await self._counting(records)):
            before = found.get(one.decision_id)
            if before is None or isinstance(before, Ignore):
                found[one.decision_id] = one
        return found

    def policy(self, decision: Decision) -> Policy | None:
        """Return the policy by which a decision was made; None if it is not known here."""
        return None if isinstance(decision, Marker) else self.policy_of(decision.policy_id)

    async def _fitting(self, identity: str, within: Callable[[ScopeName], bool]) -> list[LogRecord]:
        """Return the records on what has an id, or a name, that starts with `identity`."""
        if not identity:
            return []
        headers = [*_IDS.values(), MEMORY_NAME_HEADER]
        found = await self.log.find_beginning(DECISIONS.name, headers, identity)
        return [record for record in found if within(scope_of(record))]

    async def _of_memories(self, ids: Sequence[MemoryId]) -> list[LogRecord]:
        return await self._counting(await self.log.find(DECISIONS.name, MEMORY_ID_HEADER, ids))

    async def _counting(self, records: Sequence[LogRecord]) -> list[LogRecord]:
        """Leave out the records that do not count."""
        if not records:
            return []
        fences = Fences(await self.log.find_beginning(DECISIONS.name, [FENCE_HEADER], ""))
        return [record for record in records if fences.admit(record)]


def in_order(state: Mapping[MemoryId, StoredMemory]) -> list[Memory]:
    """Return the memories of a state by scope, then by the time they were created."""
    memories = (stored.memory for stored in state.values())
    return sorted(memories, key=lambda memory: (memory.scope, memory.created_at, memory.id))


@dataclass(frozen=True)
class LogTarget:
    """The log to read or to write: that of the settings' embedded store, or of their cluster."""

    settings: Settings
    embedded: bool

    @classmethod
    def of_store(cls, settings: Settings) -> Self:
        """Return the log of the settings' store."""
        return cls(settings, embedded=True)

    @classmethod
    def of_cluster(cls, settings: Settings) -> Self:
        """Return the log of the settings' cluster."""
        return cls(settings, embedded=False)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the log of the settings' cluster; without a broker, that of their store."""
        return cls(settings, embedded=settings.kafka.bootstrap is None)

    @property
    def decisions_topic(self) -> str:
        """The name of the topic of decisions in the cluster; empty for a store."""
        return "" if self.embedded else wiring.names(self.settings.kafka)(DECISIONS.name)

    @property
    def place(self) -> str:
        """Where the log is, for people."""
        return f"{self.settings.store if self.embedded else self.settings.kafka.bootstrap}"

    @property
    def directory(self) -> StoreDirectory | None:
        """The directory of a store; a cluster has none."""
        return StoreDirectory(self.settings.store) if self.embedded else None


@asynccontextmanager
async def opened(target: LogTarget) -> AsyncGenerator[SearchableLog]:
    """Open a log for reading. Raises NoStore if it is missing."""
    if (directory := target.directory) is not None:
        directory.require()
        with closing(wiring.log(directory, read_only=True)) as log:
            yield log
        return
    cluster = wiring.kafka_log(target.settings)
    try:
        yield cluster
    finally:
        await cluster.close()


@asynccontextmanager
async def reading(target: LogTarget) -> AsyncGenerator[StoreReader]:
    """Open a log and yield its reader. Raises NoStore if there is none."""
    async with opened(target) as log:
        yield reader_of(log, target)


def read(target: LogTarget, ask: Callable[[StoreReader], Awaitable[_Found]]) -> _Found:
    """Return what is asked of a log's reader; for commands, since it blocks. Raises NoStore."""

    async def asked() -> _Found:
        async with reading(target) as reader:
            return await ask(reader)

    return asyncio.run(asked())


def reader_of(log: SearchableLog, target: LogTarget) -> StoreReader:
    """Return a reader of a log that is open."""
    directory = target.directory
    return StoreReader(
        log,
        target.place,
        partial(_own_policy, target.settings)
        if directory is None
        else partial(_kept_policy, directory),
    )


def _kept_policy(directory: StoreDirectory, identity: PolicyId) -> Policy | None:
    content = directory.policy(identity)
    try:
        return None if content is None else Policy.model_validate_json(content)
    except ValidationError as error:
        raise NoStore(f"policy {identity} of the store is damaged: delete its file") from error


def _own_policy(settings: Settings, identity: PolicyId) -> Policy | None:
    """Return a configured or shipped policy, since a cluster stores none; None if unknown."""
    loaded = (policies.load(name) for name in dict.fromkeys([settings.policy, *policies.names()]))
    return next((policy for policy in loaded if policy.id == identity), None)


def _of_scope(page: Sequence[LogRecord], scope: ScopeName) -> list[LogRecord]:
    """Return the records that belong to a scope, with the fences, which say which of them count."""
    return [r for r in page if scope_of(r) == scope or FENCE_HEADER in dict(r.headers)]


def _by_value(
    found: Sequence[LogRecord], header: str, beginning: str
) -> dict[str, list[LogRecord]]:
    """Group records by the header values that start with a prefix; once per value."""
    by_value: dict[str, list[LogRecord]] = {}
    for record in found:
        for value in dict.fromkeys(_values(record, header)):
            if value.startswith(beginning):
                by_value.setdefault(value, []).append(record)
    return by_value


def _values(record: LogRecord, *headers: str) -> list[str]:
    return [
        value.decode("utf-8", "replace")
        for name, value in record.headers
        if name in headers and value is not None
    ]


def _one_meant(found: Sequence[LogRecord], identity: str) -> MemoryId | None:
    """Return the memory that a producer's name or an event's id means, or None.

    An event that gave a name to words that another memory has already means that memory. Raises
    AmbiguousPrefix if memories of several scopes are meant.
    """
    meant: dict[ScopeName, MemoryId] = {}
    for record in found:
        changed = _values(record, MEMORY_ID_HEADER)
        if changed and identity in _values(record, EVENT_ID_HEADER, MEMORY_NAME_HEADER):
            scope = scope_of(record)
            own = named_memory_id(scope, identity)
            if meant.get(scope) != own:
                meant[scope] = own if own in changed else MemoryId(changed[0])
    if len(meant) > 1:
        shown = ", ".join(f"{one} of {scope}" for scope, one in sorted(meant.items())[:5])
        raise AmbiguousPrefix(
            f"{identity} names {len(meant):,} memories; give its scope as well, or an id: {shown}"
        )
    return next(iter(meant.values()), None)


_BEGINNING_MIN = 6
"""The fewest characters that may stand for an id, so that a name of the user's own, such as "c4", hits
none: among a million ids, one begins with six given hexadecimal digits with a chance of 6 %."""


def only_one(things: Collection[str], beginning: str) -> str:
    """Return the only id that has a beginning. Raises AmbiguousPrefix if several do, or it is short.

    `things` are the ids that have it.
    """
    if len(beginning) < _BEGINNING_MIN:
        raise AmbiguousPrefix(
            f"{beginning} is no id or name; to shorten an id, write {_BEGINNING_MIN} characters "
            "at least"
        )
    if len(things) > 1:
        shown = ", ".join(sorted(things)[:5])
        raise AmbiguousPrefix(f"{len(things):,} ids begin with {beginning}: {shown}")
    return next(iter(things))


def _entries(records: Sequence[LogRecord]) -> list[CountedDecision]:
    return [CountedDecision(read_decision(one), one.position) for one in records]
