"""Scrubbing: removes the remains of forgotten memories for good, outside the log's decisions.

An index keeps deleted bytes for a while, and records that only mention other records are not looked
up when something is forgotten. So this reads all of them, and rewrites log and index.
"""

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from pydantic import JsonValue
from pydantic_core import from_json

from schemas.base import MemoryId, ScopeName
from schemas.codec import APPLIED, DEAD_LETTER, REVIEW, Unreadable
from schemas.decisions import Erase
from schemas.memories import Memory, Standing
from schemas.outcomes import DeadLetter, Settled
from schemas.topics import CHANGES, DEAD_LETTERS, DECISIONS, EVENTS, REVIEWS
from streams.forget.app.forgetting import ForgetTarget
from streams.log.local_broker import LocalBroker
from streams.model.ports.log import Log, LogRecord, OutgoingRecord, records
from streams.replay.app import rematerialising
from streams.stage.core.tombstones import TombstoneKey, tombstone_of
from streams.stage.flow.decisions import KIND_HEADER, read_decision
from streams.stage.flow.forgetting import erase
from streams.store.app import wiring
from streams.store.app.reading import LogTarget

_QUOTED = re.compile(r'"([^"\r\n]+)"')
_ERASE = Erase.model_fields["kind"].default.encode()


@dataclass
class _Forgotten:
    """The forgotten memories, and the fingerprints of their texts by scope."""

    key: TombstoneKey
    memories: set[MemoryId] = field(default_factory=set[MemoryId])
    fingerprints: dict[ScopeName, set[str]] = field(default_factory=dict[ScopeName, set[str]])

    def add(self, memory: Memory) -> None:
        if memory.status is Standing.FORGOTTEN:
            self.memories.add(memory.id)
            found = tombstone_of(memory)
            known = self.fingerprints.setdefault(memory.scope, set())
            known.update(() if found is None else found.fingerprints)

    def in_change(self, value: bytes) -> bool:
        memory = APPLIED.decode(value).memory
        return memory.id in self.memories and memory.status is not Standing.FORGOTTEN

    def in_review(self, value: bytes) -> bool:
        review = REVIEW.decode(value)
        return not self.memories.isdisjoint((review.newer.id, review.older.id))

    def in_letter(self, value: bytes) -> bool:
        """Return whether a dead letter's bytes contain a forgotten text."""
        try:
            letter = DEAD_LETTER.decode(value)
        except Unreadable:
            return False
        said = base64.b64decode(letter.value) if isinstance(letter, DeadLetter) else b""
        return any(
            self.key.fingerprint(scope, text) in known
            for text in _texts_in(said)
            for scope, known in self.fingerprints.items()
        )


async def clear(
    target: LogTarget, wanted: ForgetTarget, report: Callable[[str], None], *, later: bool
) -> None:
    """Erase the dead letters of wholly forgotten scopes, then `scrub` unless that is for `later`.

    No tombstone tells what such letters say, so a later scrub would not find them. Raises NoStore
    if another process writes the store.
    """
    directory = target.directory
    if directory is not None and wanted.memory is None:
        with (
            directory.written_by_us(directory.require()),
            closing(wiring.log(directory, read_only=False)) as log,
        ):
            await _erase(log, DEAD_LETTERS.name, partial(_is_addressed, holds=wanted.holds))
    if not later:
        await scrub(target, report)


def _is_addressed(value: bytes, holds: Callable[[ScopeName], bool]) -> bool:
    """Return whether a dead letter's record belongs to a scope that `holds` selects."""
    try:
        letter = DEAD_LETTER.decode(value)
    except Unreadable:
        return False
    key = letter.key if isinstance(letter, DeadLetter) else None
    return key is not None and holds(ScopeName(key))


async def scrub(target: LogTarget, report: Callable[[str], None]) -> int:
    """Remove the remains of forgotten memories from a store's files; return how many records.

    A cluster has no files: Kafka's compaction removes them.

    Idempotent, and safe to kill: the next call removes what is left. It reads the log once and
    rewrites log and index. Raises NoStore if another process writes the store.
    """
    if (directory := target.directory) is None:
        return 0
    made = directory.require()
    key = wiring.forget_key(target.settings.forget, directory)
    with directory.written_by_us(made), closing(wiring.log(directory, read_only=False)) as log:
        report("searching for remaining data")
        taken = 0 if key is None else await _take(log, key)
        report("rewriting the log")
        log.vacuum()
    if made.index.durable:
        report("rewriting the index")
        await rematerialising.rebuild_index(target, lambda _, __: None)
    return taken


async def _take(log: LocalBroker, key: TombstoneKey) -> int:
    """Erase the records that reveal anything of forgotten memories; return their number."""
    forgotten = await _forgotten(log, key)
    told_in = {
        CHANGES.name: forgotten.in_change,
        REVIEWS.name: forgotten.in_review,
        DEAD_LETTERS.name: forgotten.in_letter,
    }
    return sum([await _erase(log, topic, tells) for topic, tells in told_in.items()])


async def _erase(log: LocalBroker, topic: str, tells: Callable[[bytes], bool]) -> int:
    """Erase the records of a topic whose value `tells` of something; return their number."""
    gone: dict[int, list[LogRecord]] = {}
    async for record in records(log, topic):
        if tells(record.value or b""):
            gone.setdefault(record.partition, []).append(record)
    for partition, found in gone.items():
        if topic == DEAD_LETTERS.name:
            await _drop(log, found)
        await log.erase(topic, partition, [record.offset for record in found])
    return sum(map(len, gone.values()))


async def _drop(log: LocalBroker, found: Sequence[LogRecord]) -> None:
    """Settle dead letters as dropped, and erase the events that they repeat."""
    letters = [_letter(record) for record in found]
    settled = [_dropped(*one) for one in zip(found, letters, strict=True)]
    await log.append(settled)
    sources = (one.position for one in letters if one.position is not None)
    await erase(log, [source for source in sources if source.topic == EVENTS.name])


def _letter(record: LogRecord) -> DeadLetter:
    letter = DEAD_LETTER.decode(record.value or b"")
    if not isinstance(letter, DeadLetter):
        raise TypeError(f"{record.place} is not a dead letter")
    return letter


def _dropped(record: LogRecord, letter: DeadLetter) -> OutgoingRecord:
    """Return the record that marks a dead letter as deliberately dropped."""
    settled = Settled(dead_letter_id=letter.id, how="dropped", attempts=letter.attempts)
    value = DEAD_LETTER.encode(settled)
    return OutgoingRecord(DEAD_LETTERS.name, record.partition, record.key, value)


async def _forgotten(log: Log, key: TombstoneKey) -> _Forgotten:
    found = _Forgotten(key)
    async for record in records(log, DECISIONS.name):
        if dict(record.headers).get(KIND_HEADER) == _ERASE:
            decision = read_decision(record)
            for one in decision.memories if isinstance(decision, Erase) else ():
                found.add(one.memory)
    return found


def _texts_in(said: bytes) -> Iterator[str]:
    """Yield the strings of JSON, even if truncated; of other bytes, lines and quoted strings."""
    try:
        yield from _texts(from_json(said, allow_partial="trailing-strings"))
    except ValueError:
        text = said.decode("utf-8", "replace")
        yield from text.splitlines()
        yield from (quoted.group(1) for quoted in _QUOTED.finditer(text))


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
