"""Requests worked out from the log as it is at the moment: memories to be joined, and forgotten."""

from itertools import combinations
from random import Random

from schemas.base import MemoryId, ScopeName
from schemas.codec import EVENT
from schemas.events import Request
from schemas.memories import Standing
from schemas.topics import DECISIONS, EVENTS
from streams.forget.app.forgetting import ForgetTarget, PlanningDependencies, UnknownTarget, plans
from streams.log.local_broker import LocalBroker
from streams.model.embedding import similarity
from streams.model.neighbours import StoredMemory
from streams.model.ports.log import OutgoingRecord
from streams.model.scope import partition_of
from streams.stage.core.consolidation import proposed
from streams.stage.core.ledger import fold
from streams.stage.core.lineage import Wish
from streams.stage.flow.decisions import DecisionsReader
from tests.builders import judging, later
from tests.simulation.cluster import at_once
from tests.simulation.stream import KEY, STRICT, Asked, embedder

_ALL = 1_000_000
_NEAREST = 0.8
_STALE = 0.1


def requests(asked: Asked, log: LocalBroker, partitions: int) -> list[OutgoingRecord]:
    """Return the events by which somebody asks for what is wanted; none where nothing is there."""
    rng = Random(asked.seed)  # noqa: S311
    known = [one for partition in range(partitions) for one in _known(log, partition)]
    if not known:
        return []
    events = _joining(rng, known) if asked.kind == "consolidate" else _forgetting(rng, known, log)
    return [record(one, partitions) for one in events]


def left_of_forgotten(log: LocalBroker, partitions: int, hours: float) -> list[OutgoingRecord]:
    """Return the requests for what the log still says of memories that were forgotten."""
    gone = [
        one.memory.id
        for partition in range(partitions)
        for one in _known(log, partition)
        if one.memory.status is Standing.FORGOTTEN
    ]
    asked = (request for one in gone for request in forgetting(one, log, hours))
    return [record(request, partitions) for request in asked]


def record(event: Request, partitions: int) -> OutgoingRecord:
    partition = partition_of(event.scope, partitions)
    return OutgoingRecord(EVENTS.name, partition, event.scope.encode(), EVENT.encode(event))


def forgetting(identity: MemoryId, log: LocalBroker, hours: float) -> list[Request]:
    """Return what `memsieve forget` would ask for now, of a memory that the log knows or knew."""
    means = PlanningDependencies(KEY, STRICT.policy, embedder(), judging())
    wish = Wish("cleo", later(hours))
    try:
        found = at_once(plans(log, ForgetTarget(memory=identity), means, wish))
    except UnknownTarget:
        return []
    return [request for plan in found for request in plan.requests]


def _known(log: LocalBroker, partition: int) -> list[StoredMemory]:
    """Return the memories of a partition as the decisions leave them by now."""
    state: dict[MemoryId, StoredMemory] = {}
    records = at_once(log.read(DECISIONS.name, partition, 0, _ALL))
    for one in DecisionsReader().window(records):
        fold(state, one.decision, holed=one.holed)
    return list(state.values())


def _joining(rng: Random, known: list[StoredMemory]) -> list[Request]:
    """Propose live memories, mostly two that are near; seldom one in a version it is not in."""
    live = [one for one in known if one.memory.live]
    pairs = [(one, two) for one, two in combinations(live, 2) if _scope(one) == _scope(two)]
    if not pairs:
        return []
    nearest = max(pairs, key=_similarity)
    members = [one.memory for one in (nearest if rng.random() < _NEAREST else rng.choice(pairs))]
    if rng.random() < _STALE:
        members[0] = members[0].model_copy(update={"version": members[0].version + 1})
    return [proposed(members[0].scope, f"cleo {rng.random()}", members)]


def _forgetting(rng: Random, known: list[StoredMemory], log: LocalBroker) -> list[Request]:
    said = [one.memory.id for one in known if one.memory.status is not Standing.FORGOTTEN]
    return forgetting(rng.choice(said), log, hours=100 + rng.random()) if said else []


def _scope(one: StoredMemory) -> ScopeName:
    return one.memory.scope


def _similarity(pair: tuple[StoredMemory, StoredMemory]) -> float:
    one, other = (stored.vector for stored in pair)
    assert one is not None
    assert other is not None
    return similarity(one, other)
