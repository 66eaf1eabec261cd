"""A log as people ask about it: its decisions, memories and dead letters. Changes nothing."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial

from pydantic import ValidationError

from schemas.base import MemoryId, PolicyId
from schemas.codec import DEAD_LETTER, Unreadable
from schemas.decisions import Decision, Reject
from schemas.memories import Memory
from schemas.outcomes import DeadLetter
from schemas.topics import DEAD_LETTERS, DECISIONS
from streams.adapters.store_directory import StoreDirectory
from streams.apps import policies, wiring
from streams.apps.settings import Settings
from streams.core.ledger import MissingTarget, advance, effects, fold, memory_of
from streams.core.neighbours import Stored
from streams.core.policy import Policy
from streams.flow.owner import DECISION_ID_HEADER, EVENT_ID_HEADER, MEMORY_ID_HEADER
from streams.flow.takeover import read_decision
from streams.ports import Fatal, NoStore, Record, SearchableLog

_PAGE = 500
_NAMES = {
    "decision": DECISION_ID_HEADER,
    "event": EVENT_ID_HEADER,
    "memory": MEMORY_ID_HEADER,
}


class Ambiguous(Exception):
    """Several things begin with what was asked for."""


@dataclass(frozen=True)
class Entry:
    """A decision and its place in the log."""

    partition: int
    offset: int
    decision: Decision


class StoreReader:
    """Reads one store or cluster, also while other processes write it."""

    def __init__(
        self, log: SearchableLog, place: str, policy: Callable[[PolicyId], Policy | None]
    ) -> None:
        """`place` says where the log is; `policy` returns a policy that decisions name."""
        self._log = log
        self.place = place
        self._policy = policy

    async def decisions(self, newest: int | None = None) -> AsyncIterator[Entry]:
        """Yield every decision, or the newest of each partition, in the order of the log."""
        async for record in self._records(DECISIONS.name, newest):
            yield _entry(record)

    async def count(self) -> int:
        """Return how many decisions there are."""
        partitions = range(await self._log.partitions(DECISIONS.name))
        return sum([await self._log.end(DECISIONS.name, p) for p in partitions])

    async def memories(self) -> list[Memory]:
        """Return every memory that the decisions add up to, retired ones included.

        By scope, then by the time they were created. Raises NoStore where they do not add up.
        """
        memories = [stored.memory for stored in (await self.state()).values()]
        return sorted(memories, key=lambda memory: (memory.scope, memory.created_at, memory.id))

    async def state(self) -> dict[MemoryId, Stored]:
        """Return what the decisions add up to, with the vectors: what a store should hold.

        Raises NoStore where they do not add up.
        """
        state: dict[MemoryId, Stored] = {}
        async for entry in self.decisions():
            place = f"{DECISIONS.name}/{entry.partition}/{entry.offset}"
            try:
                fold(state, entry.decision)
            except MissingTarget as damage:
                raise NoStore(f"{place}: {damage}; restore the log from a copy") from damage
        return state

    async def dead_letters(self) -> list[tuple[DeadLetter, int]]:
        """Return the dead letters, each once, with how often it was written."""
        letters: dict[str, tuple[DeadLetter, int]] = {}
        async for record in self._records(DEAD_LETTERS.name):
            try:
                letter = DEAD_LETTER.decode(record.value or b"")
            except Unreadable as error:
                raise Fatal(f"{record.place} is no dead letter: {error}") from error
            letters[letter.id] = (letter, letters.get(letter.id, (letter, 0))[1] + 1)
        return list(letters.values())

    async def about(self, identity: str) -> tuple[str, list[Entry]]:
        """Return what an id names ("decision", "event", "memory") and its decisions.

        The beginning of an id will do where only one begins so. ("", []) where nothing has it.
        Raises Ambiguous where several begin so.
        """
        headers = list(_NAMES.values())
        found = await self._log.find_beginning(DECISIONS.name, headers, identity)
        named = {what: _by_value(found, _NAMES[what], identity) for what in _NAMES}
        for what, records in named.items():
            if identity in records:
                return what, [_entry(record) for record in records[identity]]
        for what, records in named.items():
            if len(records) > 1:
                shown = ", ".join(sorted(records)[:5])
                raise Ambiguous(f"{len(records):,} ids begin with {identity}: {shown}")
            for only in records.values():
                return what, [_entry(record) for record in only]
        return "", []

    async def texts(self, ids: Sequence[MemoryId]) -> dict[tuple[MemoryId, int], str]:
        """Return the texts that memories had, by id and version."""
        texts: dict[tuple[MemoryId, int], str] = {}
        for record in await self._log.find(DECISIONS.name, MEMORY_ID_HEADER, ids):
            for effect in effects(read_decision(record)):
                if isinstance(effect, Stored):
                    texts[effect.memory.id, effect.memory.version] = effect.memory.text
        return texts

    async def memory(self, identity: MemoryId) -> Memory | None:
        """Return a memory in its newest state."""
        state: Stored | None = None
        for record in await self._log.find(DECISIONS.name, MEMORY_ID_HEADER, [identity]):
            for effect in effects(read_decision(record)):
                if memory_of(effect) == identity:
                    state = advance(state, effect) or state
        return None if state is None else state.memory

    def policy(self, decision: Decision) -> Policy | None:
        """Return the policy that a decision was made by, if it is known here."""
        return None if isinstance(decision, Reject) else self._policy(decision.policy_id)

    async def _records(self, topic: str, newest: int | None = None) -> AsyncIterator[Record]:
        for partition in range(await self._log.partitions(topic)):
            end = await self._log.end(topic, partition)
            offset = 0 if newest is None else max(0, end - newest)
            while page := await self._log.read(topic, partition, offset, _PAGE):
                for record in page:
                    yield record
                offset = page[-1].offset + 1


@asynccontextmanager
async def reading(settings: Settings, *, embedded: bool) -> AsyncGenerator[StoreReader]:
    """Open the embedded store, or the cluster's log. Raises NoStore where there is no store."""
    if embedded:
        directory = StoreDirectory(settings.store)
        directory.require()
        with closing(wiring.log(directory, read_only=True)) as log:
            yield StoreReader(log, str(settings.store), partial(_kept_policy, directory))
        return
    cluster = wiring.kafka_log(settings.kafka)
    try:
        yield StoreReader(cluster, f"{settings.kafka.bootstrap}", partial(_own_policy, settings))
    finally:
        await cluster.close()


def _kept_policy(directory: StoreDirectory, identity: PolicyId) -> Policy | None:
    content = directory.policy(identity)
    try:
        return None if content is None else Policy.model_validate_json(content)
    except ValidationError as error:
        raise NoStore(f"policy {identity} of the store is damaged: delete its file") from error


def _own_policy(settings: Settings, identity: PolicyId) -> Policy | None:
    """Return a policy that comes with memsieve or is in force: a cluster keeps none."""
    loaded = (policies.load(name) for name in dict.fromkeys([settings.policy, *policies.names()]))
    return next((policy for policy in loaded if policy.id == identity), None)


def _by_value(found: Sequence[Record], header: str, beginning: str) -> dict[str, list[Record]]:
    """Sort records by the values that begin so; each record once per value."""
    by_value: dict[str, list[Record]] = {}
    for record in found:
        values = {
            value.decode("utf-8", "replace")
            for name, value in record.headers
            if name == header and value is not None
        }
        for value in values:
            if value.startswith(beginning):
                by_value.setdefault(value, []).append(record)
    return by_value


def _entry(record: Record) -> Entry:
    return Entry(record.partition, record.offset, read_decision(record))
