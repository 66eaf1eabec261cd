"""A store as people ask about it: its decisions, memories and dead letters. Changes nothing."""

from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from schemas.base import MemoryId
from schemas.codec import DEAD_LETTER, Unreadable
from schemas.decisions import Decision, Reject
from schemas.memories import Memory
from schemas.outcomes import DeadLetter
from schemas.topics import DEAD_LETTERS, DECISIONS
from streams.adapters.store_directory import StoreDirectory
from streams.apps import wiring
from streams.core.ledger import MissingTarget, advance, effects, fold, memory_of, touched
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
    """Reads one store, also while another process writes it."""

    def __init__(self, directory: StoreDirectory, log: SearchableLog) -> None:
        self._directory = directory
        self._log = log

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
                changed = fold(state, entry.decision)
            except MissingTarget as damage:
                raise NoStore(f"{place}: {damage}; restore the log from a copy") from damage
            if len(changed) != len(touched(entry.decision)):
                raise NoStore(f"{place} was decided on memories older than the log's own")
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
        for what, header in _NAMES.items():
            if found := await self._log.find(DECISIONS.name, header, [identity]):
                return what, [_entry(record) for record in found]
        for what, header in _NAMES.items():
            found = await self._log.find_beginning(DECISIONS.name, header, identity)
            values = {
                value.decode("utf-8", "replace")
                for record in found
                for name, value in record.headers
                if name == header and value is not None
            }
            meant = sorted(value for value in values if value.startswith(identity))
            if len(meant) > 1:
                raise Ambiguous(f"{len(meant):,} ids begin with {identity}: {', '.join(meant[:5])}")
            if meant:
                return what, [_entry(record) for record in found]
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
        """Return the policy that a decision was made by, if the store keeps it."""
        if isinstance(decision, Reject):
            return None
        content = self._directory.policy(decision.policy_id)
        try:
            return None if content is None else Policy.model_validate_json(content)
        except ValidationError as error:
            raise NoStore(
                f"policy {decision.policy_id} of the store is damaged: delete its file"
            ) from error

    async def _records(self, topic: str, newest: int | None = None) -> AsyncIterator[Record]:
        for partition in range(await self._log.partitions(topic)):
            end = await self._log.end(topic, partition)
            offset = 0 if newest is None else max(0, end - newest)
            while page := await self._log.read(topic, partition, offset, _PAGE):
                for record in page:
                    yield record
                offset = page[-1].offset + 1


@contextmanager
def reading(path: Path) -> Generator[StoreReader]:
    """Open a store for reading. Raises NoStore where there is none."""
    directory = StoreDirectory(path)
    directory.require()
    with closing(wiring.log(directory, read_only=True)) as log:
        yield StoreReader(directory, log)


def _entry(record: Record) -> Entry:
    return Entry(record.partition, record.offset, read_decision(record))
