"""Lineage from a log: the undo of a decision, and the history of a memory."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from schemas.base import MemoryId
from schemas.codec import EVENT
from schemas.decisions import Marker, OnEvent
from schemas.events import Remember
from schemas.memories import Memory
from streams.changes.core.history import MemoryVersion, replaced, versions
from streams.clock.system import SystemClock
from streams.model.neighbours import StoredMemory
from streams.stage.core.lineage import CannotUndo, UndoneAlready, UndoPlan, Wish, cut_off, plan
from streams.stage.flow.dead_letters import oversized
from streams.store.app.client import Client, Response, may_retry
from streams.store.app.reading import StoreReader
from streams.store.app.requests import unpublishable


class IncompleteUndo(CannotUndo):
    """The decision is already undone, but `events` behind the undo were never decided on."""

    def __init__(self, already: UndoneAlready, events: Sequence[Remember]) -> None:
        super().__init__(f"{already}; {len(events):,} later events were not decided again")
        self.events = events


async def planned(reader: StoreReader, identity: str, wish: Wish) -> UndoPlan | None:
    """Plan the undo of a decision, given its id or the id of its event.

    A prefix of an id is enough; None if nothing matches. Raises CannotUndo, AmbiguousPrefix, and
    InvalidSettings if the wish cannot be published.
    """
    meant = await _meant(reader, identity)
    if meant is None:
        return None
    decisions = await reader.of_scope(meant.event.scope)
    try:
        found = plan(decisions, meant.decision_id, wish)
    except ValidationError as error:
        raise unpublishable(error) from error
    except UndoneAlready as already:
        if lacking := cut_off(decisions, already.undo):
            raise IncompleteUndo(already, lacking) from already
        raise
    if too_long := oversized(EVENT.encode(found.request)):
        newest = (found.meant, *found.resting)[-1]
        raise CannotUndo(f"the undo {too_long}: undo decision {newest.decision_id} first")
    return found


async def _meant(reader: StoreReader, identity: str) -> OnEvent | None:
    found = await reader.decision_id(identity)
    if found is None and await reader.memory_id(identity) is not None:
        raise CannotUndo(
            f"{identity} is a memory: memsieve memory history {identity} lists its decisions"
        )
    decision = None if found is None else (await reader.on_events([found])).get(found)
    if isinstance(decision, Marker):
        raise CannotUndo(f"decision {identity} is a {decision.kind}: it changed nothing")
    return decision


async def undo(
    client: Client,
    reader: StoreReader,
    identity: str,
    wish: Wish,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[UndoPlan, list[Response]] | None:
    """Undo a decision; return the plan and the responses to its events.

    Returns None and raises as `planned` does. If memories changed between planning and the
    request's turn, nothing was undone, and the undo is planned and requested again.
    """
    while True:
        found = await planned(reader, identity, wish)
        if found is None:
            return None
        responses = await client.submit(found.events)
        if not may_retry(client, responses[:1], report):
            return found, responses
        identity = found.meant.decision_id
        wish = replace(wish, at=SystemClock().now())


async def twins(client: Client, undone: UndoPlan) -> dict[MemoryId, MemoryId]:
    """Return the memories that an undo left live beside another live one with the same text."""
    live = [after for _, after in undone.memories if after.live]
    found = await (await client.index()).with_content([one.content_key for one in live])
    return {
        one.id: other.memory.id
        for one in live
        for other in found.get(one.content_key, ())
        if other.memory.id != one.id and other.memory.content_key == one.content_key
    }


@dataclass(frozen=True)
class Ancestor:
    """A memory that another one stands for, and the number of steps between them."""

    steps: int
    memory: Memory


@dataclass(frozen=True)
class MemoryLineage:
    """A memory's life: its versions, its ancestors and its successors, nearest first."""

    versions: list[MemoryVersion]
    ancestors: list[Ancestor]
    successors: list[Memory]

    @property
    def memory(self) -> Memory:
        """The memory in its newest version."""
        return self.versions[-1].memory


async def history(reader: StoreReader, identity: MemoryId) -> MemoryLineage:
    """Return the life of a memory, found by the memory ids in the headers of the log's records."""
    known = versions(identity, await reader.on_memories([identity]))
    ancestors = await _ancestors(reader, [identity])
    after = [one.memory for one in await successors(known[-1].memory, reader.stored)]
    return MemoryLineage(known, ancestors, after)


async def _ancestors(reader: StoreReader, ids: Sequence[MemoryId]) -> list[Ancestor]:
    """Return the memories superseded by these, directly or not, those of fewer steps first."""
    found: dict[MemoryId, Ancestor] = {}
    level, steps = list(ids), 1
    while level:
        decisions = await reader.on_memories(level)
        asked = list(dict.fromkeys(t for one in level for t in replaced(one, decisions)))
        states = await _now(reader, asked)
        led = [m for m in states if m.superseded is not None and m.superseded.by in level]
        new = {memory.id: Ancestor(steps, memory) for memory in led if memory.id not in found}
        found |= new
        level, steps = list(new), steps + 1
    return list(found.values())


async def successors(
    memory: Memory, state: Callable[[MemoryId], Awaitable[StoredMemory | None]]
) -> list[StoredMemory]:
    """Return the successors of a memory, up to the one that is live or has ended.

    `state` returns the newest state of a memory.
    """
    found: dict[MemoryId, StoredMemory] = {}
    while memory.superseded is not None and memory.superseded.by is not None:
        after = await state(memory.superseded.by)
        if after is None or after.memory.id in found:
            break  # damaged: memsieve check --full reports it
        memory = after.memory
        found[memory.id] = after
    return list(found.values())


async def standing_for(
    identity: str, meant: StoredMemory, state: Callable[[MemoryId], Awaitable[StoredMemory | None]]
) -> StoredMemory:
    """Return the memory to change, given what an id means: an event's, or a name, goes on.

    A memory's own id, or its beginning, means no other. `state` is as for `successors`.
    """
    if meant.memory.id.startswith(identity):
        return meant
    return [meant, *await successors(meant.memory, state)][-1]


async def _now(reader: StoreReader, ids: Sequence[MemoryId]) -> list[Memory]:
    """Return the newest states of memories."""
    decisions = await reader.on_memories(ids) if ids else []
    lives = (versions(identity, decisions) for identity in ids)
    return [life[-1].memory for life in lives if life]
