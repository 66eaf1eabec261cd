"""Looks up in the log itself which events were decided before."""

from collections.abc import Mapping, Sequence

from schemas.base import ContentKey, DecisionId
from schemas.decisions import Change, Decision, Ignore, Revision, kind_of
from schemas.topics import DECISIONS
from streams.model.identity import event_key
from streams.model.neighbours import KnownEvent
from streams.model.ports.log import Log, LogRecord, Lookup, pages
from streams.stage.core.ledger import restated
from streams.stage.flow.decisions import (
    CONTENT_KEY_HEADER,
    DECISION_ID_HEADER,
    KIND_HEADER,
    RESTATED_ID_HEADER,
    CountedDecision,
    DecisionsReader,
    read_decision,
)

_IGNORE = kind_of(Ignore).encode()


class DecidedInLog:
    """Implements ports.DecidedEvents for a log that finds its records by header.

    For a log with one writer at a time: it does not check whether a decision counts. As with an
    index, a redelivered event that changed nothing is decided again.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        records = await self._lookup.find(DECISIONS.name, DECISION_ID_HEADER, ids)
        # The first decision on an event is the one that counts; rejects have no event.
        pairs = [pair for record in records if (pair := _pair(record)) is not None]
        known = dict(reversed(pairs))
        return await self._restated([one for one in ids if one not in known]) | known

    async def _restated(self, ids: Sequence[DecisionId]) -> dict[DecisionId, KnownEvent]:
        """Return what erasures tell of decisions whose own records they erased."""
        records = await self._lookup.find(DECISIONS.name, RESTATED_ID_HEADER, ids)
        told = (_told_by(read_decision(record), record.offset) for record in records)
        return {identity: event for one in told for identity, event in one.items()}


def _pair(record: LogRecord) -> tuple[DecisionId, KnownEvent] | None:
    headers = dict(record.headers)
    identity, key = headers.get(DECISION_ID_HEADER), headers.get(CONTENT_KEY_HEADER)
    if identity is None or key is None or headers.get(KIND_HEADER) == _IGNORE:
        return None
    known = KnownEvent(ContentKey(key.decode()), offset=record.offset)
    return DecisionId(identity.decode()), known


def _told_by(decision: Decision, offset: int) -> dict[DecisionId, KnownEvent]:
    """Return the events that an erasure at an offset lets know; nothing for other decisions."""
    found = restated(decision).items()
    return {identity: KnownEvent(key, offset=offset) for identity, key in found}


class DecidedInPartition:
    """Implements ports.DecidedEvents for a partition up to `end`, by reading all of it, once.

    For whoever has no index to ask, and a log that finds nothing: each decision takes some 300
    bytes of memory.
    """

    def __init__(self, log: Log, partition: int) -> None:
        self._log = log
        self._partition = partition
        self._reader = DecisionsReader()
        self._known: dict[DecisionId, KnownEvent] = {}
        self.end = 0

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        start = self._reader.reached.offset
        async for records in pages(self._log, DECISIONS.name, self._partition, start, self.end):
            for one in self._reader.window(records):
                self._note(one)
        return {identity: self._known[identity] for identity in ids if identity in self._known}

    def _note(self, one: CountedDecision) -> None:
        decision = one.decision
        if isinstance(decision, Change | Revision):
            known = KnownEvent(event_key(decision.event), offset=one.position.offset)
            self._known.setdefault(decision.decision_id, known)
            self._known |= _told_by(decision, one.position.offset)
