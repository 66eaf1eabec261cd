"""Which memories an event is compared with, and which pairs a batch will ask the judges about."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from schemas.base import ScopeName
from schemas.events import Remember
from streams.model.embedding import SIMILARITY_DECIMALS, Vector
from streams.model.identity import decision_id, memory_id
from streams.model.neighbours import Neighbour, StoredMemory, rank
from streams.model.policy import Nominate, Policy, Rules
from streams.stage.core.overlay import Fork
from streams.stage.core.survivorship import born
from streams.stage.flow.judging import CandidatePair
from streams.stage.flow.seen import BatchKnowledge, free_name


def ranked(
    event: Remember, vector: Vector, candidates: Sequence[StoredMemory], rules: Rules
) -> list[Neighbour]:
    """Return an event's nearest neighbours among candidates, as its rules nominate them."""
    return rank(
        vector,
        candidates,
        bands=rules.bands,
        floor=rules.nominate.similarity_min,
        limit=rules.nominate.neighbours_max,
        title=event.title if rules.nominate.same_title else None,
    )


def floor_of(nominate: Nominate) -> float:
    """Return the similarity floor for the index: rounding may lift a hit up to the minimum."""
    return nominate.similarity_min - 10.0**-SIMILARITY_DECIMALS


def expected(
    events: Sequence[Remember], policy: Policy, seen: BatchKnowledge, fork: Fork
) -> list[CandidatePair]:
    """Return the pairs that a batch's events will probably be judged on, before any is decided.

    As if each event became a memory of its own. A pair too many is judged in vain, one too few is
    judged when its turn comes: the decisions are the same.
    """
    pairs: list[CandidatePair] = []
    for event, coming in _with_siblings(events, policy, seen, fork):
        rules, vector = policy.rules(event.scope), seen.encoded[event.text].vector
        hits = seen.hits[event.scope, event.text]
        nominate = rules.nominate
        known = fork.near(event.scope, vector, hits, nominate.neighbours_max, floor_of(nominate))
        near = ranked(event, vector, [*known, *coming], rules)
        pairs += [CandidatePair(event, neighbour, rules) for neighbour in near]
    return pairs


def _with_siblings(
    events: Sequence[Remember], policy: Policy, seen: BatchKnowledge, fork: Fork
) -> Iterator[tuple[Remember, list[StoredMemory]]]:
    """Yield each event with the memories of those before it that are near it, in the same scope."""
    by_scope = defaultdict[ScopeName, list[Remember]](list)
    for event in events:
        by_scope[event.scope].append(event)
    for scope, some in by_scope.items():
        rules = policy.rules(scope)
        if "llm" in rules.judges.chain:  # a question costs: only what will be asked
            yield from ((event, []) for event in some)
            continue
        vectors = np.stack([seen.encoded[event.text].vector for event in some])
        near = np.tril(vectors @ vectors.T >= floor_of(rules.nominate), -1)
        meant = np.flatnonzero(near.any(axis=0)).tolist()
        memories = {at: _as_memory(some[at], seen, fork) for at in meant}
        for event, row in zip(some, near, strict=True):
            yield event, [memories[at] for at in np.flatnonzero(row).tolist()]


def _as_memory(event: Remember, seen: BatchKnowledge, fork: Fork) -> StoredMemory:
    """Return the memory that an event becomes if it is inserted."""
    encoded = seen.encoded[event.text]
    named = free_name(event, seen, fork)
    identity = named or memory_id(decision_id(event.scope, event.event_id))
    return StoredMemory(born(event, identity, truncated=encoded.truncated), encoded.vector)
