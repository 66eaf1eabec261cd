"""The owner of a partition: events in, exactly one decision per event out.

Map, map, fold: what can be asked for a whole batch is asked once; judging goes one by one in the
order of the log, each event seeing the decisions before it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from schemas.codec import DECISION
from schemas.decisions import Change, Decision, Reason
from schemas.events import Event, Remember
from schemas.outcomes import DeadLetter, Stage
from streams.core.decide import (
    Case,
    Encoded,
    Undecided,
    decide,
    forward,
    ignore,
    recognise,
    reject,
    rename,
)
from streams.core.embedding import NEAR_TIE, SIMILARITY_DECIMALS, Vector, pack, similarity
from streams.core.identity import content_key, decision_id, named_memory_id
from streams.core.neighbours import Neighbour, Stored, rank
from streams.core.overlay import Fork
from streams.core.policy import Policy
from streams.core.verdict import judge
from streams.flow.dead_letters import dead_letter
from streams.ports import Decided, Embedder, Index, Poison, Query, Record

DECISION_BYTES_MAX = 14_680_064
"""A longer decision would not fit into a record, with its headers."""

_OVERFETCH = 8
"""Asked of the index beyond the policy's limit: memories that the overlay has retired since, and
near ties that float32 orders differently from the measure."""


@dataclass(frozen=True)
class Elsewhere:
    """An event that lies in another partition than its scope's, and is published anew there."""

    event: Event
    partition: int


@dataclass(frozen=True)
class Received:
    """One record of the events topic, read; `event` is what it says, or why it says nothing."""

    record: Record
    event: Event | Elsewhere | Poison


@dataclass(frozen=True)
class Decisions:
    """One decision per received record, in order, and the dead letters that rejects refer to.

    `encoded` are the decisions as they travel.
    """

    decisions: list[Decision]
    encoded: list[bytes]
    dead_letters: list[DeadLetter]


@dataclass
class _Seen:
    """What the world knew of a batch's events before the first was decided."""

    decided: Mapping[DecisionId, ContentKey]
    contents: Mapping[ContentKey, Sequence[Stored]]
    named: Mapping[MemoryId, Stored]
    encoded: dict[str, Encoded] = field(default_factory=dict[str, Encoded])
    hits: dict[tuple[ScopeName, str], list[Stored]] = field(
        default_factory=dict[tuple[ScopeName, str], list[Stored]]
    )


@dataclass(frozen=True)
class Deduplicator:
    """What deciding needs of the world, bound once."""

    embedder: Embedder
    index: Index
    decided: Decided
    policy: Policy

    async def deduplicate(self, batch: Sequence[Received], fork: Fork) -> Decisions:
        """Decide on a batch in the order of the log, recording each decision on the fork.

        Equal to deciding the records one by one. Changes nothing but the fork.
        """
        seen = await self._look_up([i.event for i in batch if isinstance(i.event, Remember)], fork)
        made = Decisions([], [], [])
        for item in batch:
            await asyncio.sleep(0)  # heartbeats go out meanwhile
            outcome, encoded = _fitting(item.record, await self._outcome(item, seen, fork))
            if isinstance(outcome, DeadLetter):
                made.dead_letters.append(outcome)
                outcome = reject(item.record.position, outcome)
            fork.record(outcome)
            made.decisions.append(outcome)
            made.encoded.append(encoded or DECISION.encode(outcome))
        return made

    async def _look_up(self, events: Sequence[Remember], fork: Fork) -> _Seen:
        """Ask, once for the whole batch, what log and index know; embed and search what is new."""
        ids = [decision_id(event.scope, event.event_id) for event in events]
        unsettled = dict.fromkeys(identity for identity in ids if fork.decided(identity) is None)
        decided = await self.decided.decided(list(unsettled))
        undecided = [e for e, identity in zip(events, ids, strict=True) if identity not in decided]
        contents = {content_key(event.scope, event.text) for event in undecided}
        names = {name for event in undecided if (name := _named_id(event)) is not None}
        seen = _Seen(
            decided=decided,
            contents=await self.index.with_content(list(contents)) if contents else {},
            named=await self.index.get(list(names)) if names else {},
        )
        unknown = [event for event in undecided if _with_content(event, seen, fork) is None]
        await self._embed([event.text for event in unknown], seen)
        await self._search(unknown, seen)
        return seen

    async def _outcome(self, item: Received, seen: _Seen, fork: Fork) -> Decision | DeadLetter:
        """Go down the ladder: seen before, addressed by name, known by its words, compared."""
        if isinstance(item.event, Poison):
            return dead_letter(item.record, Stage.DECODE, item.event)
        if isinstance(item.event, Elsewhere):
            return forward(item.record.position, item.event.event, item.event.partition)
        event = item.event
        case = Case(event, item.record.position, self.policy, _free_name(event, seen, fork))
        key = content_key(event.scope, event.text)
        before = fork.decided(case.decision_id) or seen.decided.get(case.decision_id)
        if before is not None:
            reused = before != key
            return _reused(item.record) if reused else ignore(case, Reason.SAME_EVENT)
        addressed = _addressed(event, seen, fork)
        if addressed is not None and addressed.memory.content_key != key:
            if event.occurred_at < addressed.memory.last_seen_at:
                return await self._compare(case, seen, fork)  # older news under a known name
            return rename(case, addressed.memory, await self._encoded(event.text, seen))
        known = addressed or _with_content(event, seen, fork)
        if known is not None:
            return recognise(case, known.memory)
        return await self._compare(case, seen, fork)

    async def _compare(self, case: Case, seen: _Seen, fork: Fork) -> Change:
        """Judge an event against what is near it."""
        encoded = await self._encoded(case.event.text, seen)
        near = await self._near(case.event, encoded.vector, seen, fork)
        verdicts = [judge(case.event, neighbour) for neighbour in near]
        outcome = decide(case, encoded, near, verdicts)
        if isinstance(outcome, Undecided):
            return outcome.complete(await self._encoded(outcome.text, seen))
        return outcome

    async def _near(
        self, event: Remember, vector: Vector, seen: _Seen, fork: Fork
    ) -> list[Neighbour]:
        """Return the nearest live memories, those of the batch's own decisions included."""
        nominate = self.policy.nominate
        wanted, floor = nominate.neighbours_max, nominate.similarity_min
        await self._search([event], seen)
        hits = seen.hits[event.scope, event.text]
        limit = wanted + _OVERFETCH
        while True:
            candidates = fork.near(event.scope, vector, hits, wanted)
            near = rank(vector, candidates, bands=self.policy.bands, floor=floor, limit=wanted)
            least = near[-1].similarity if len(near) == wanted else floor
            if len(hits) < limit or _similarity(vector, hits[-1]) + NEAR_TIE < least:
                return near
            # Behind the last hit others may stand that are as near: many were retired, or tie.
            limit *= 2
            query = Query(event.scope, vector, limit, self._floor)
            [hits] = await self.index.search([query])

    @property
    def _floor(self) -> float:
        """What the index is asked for: also what only rounding lifts over the policy's minimum."""
        return self.policy.nominate.similarity_min - 10.0**-SIMILARITY_DECIMALS

    async def _encoded(self, text: str, seen: _Seen) -> Encoded:
        """Return a text's embedding, made now where the batch did not foresee the need."""
        await self._embed([text], seen)
        return seen.encoded[text]

    async def _embed(self, texts: Sequence[str], seen: _Seen) -> None:
        """Embed each distinct text that has no embedding yet."""
        missing = [text for text in dict.fromkeys(texts) if text not in seen.encoded]
        if missing:
            for text, made in zip(missing, await self.embedder.embed(missing), strict=True):
                embedding = pack(made.vector, self.embedder.model)
                seen.encoded[text] = Encoded(made.vector, embedding, made.truncated)

    async def _search(self, events: Sequence[Remember], seen: _Seen) -> None:
        """Ask the index for the neighbours of each event that was not asked about yet."""
        nominate = self.policy.nominate
        limit = nominate.neighbours_max + _OVERFETCH
        places = dict.fromkeys((event.scope, event.text) for event in events)
        asked = [place for place in places if place not in seen.hits]
        queries = [
            Query(scope, seen.encoded[text].vector, limit, self._floor) for scope, text in asked
        ]
        if queries:
            seen.hits.update(zip(asked, await self.index.search(queries), strict=True))


def _fitting(
    record: Record, outcome: Decision | DeadLetter
) -> tuple[Decision | DeadLetter, bytes | None]:
    """Encode a decision; refuse one that no topic would take, before anything builds on it."""
    if isinstance(outcome, DeadLetter):
        return outcome, None
    encoded = DECISION.encode(outcome)
    if len(encoded) <= DECISION_BYTES_MAX:
        return outcome, encoded
    poison = Poison(
        f"the decision would be {len(encoded):,} bytes long, and {DECISION_BYTES_MAX:,} can be "
        "published: the memory has gathered too much metadata; publish less with the event",
        "metadata",
    )
    return dead_letter(record, Stage.DECIDE, poison), None


def _similarity(vector: Vector, hit: Stored) -> float:
    return -1.0 if hit.vector is None else similarity(vector, hit.vector)


def _named_id(event: Remember) -> MemoryId | None:
    name = event.memory_id
    return None if name is None else named_memory_id(event.scope, name)


def _free_name(event: Remember, seen: _Seen, fork: Fork) -> MemoryId | None:
    """Return the id that the event's name stands for, where no memory has had it yet."""
    named = _named_id(event)
    if named is None or named in seen.named or named in fork.changed(event.scope):
        return None
    return named


def _addressed(event: Remember, seen: _Seen, fork: Fork) -> Stored | None:
    """Return the live memory that the event's producer addresses by name."""
    named = _named_id(event)
    if named is None:
        return None
    changed = fork.changed(event.scope)
    stored = seen.named.get(named)
    current = fork.current(event.scope, stored) if stored is not None else changed.get(named)
    return current if current is not None and current.memory.live else None


def _with_content(event: Remember, seen: _Seen, fork: Fork) -> Stored | None:
    """Return the live memory that says the very words of the event."""
    key = content_key(event.scope, event.text)
    return fork.with_content(event.scope, key, seen.contents.get(key, ()))


def _reused(record: Record) -> DeadLetter:
    """Refuse an event id that comes with other words: ignoring it would lose what it says."""
    poison = Poison(
        "event_id was used before in this scope for another text; give this event its own id",
        "event_id",
    )
    return dead_letter(record, Stage.DECIDE, poison)
