"""Evaluation: decides on labelled rows by a policy and by a cosine threshold, and grades both."""

import time
from collections.abc import Callable, Sequence

from schemas.decisions import Change, Compared, Ignore, Insert, Reason
from schemas.memories import Memory
from streams.lab.app.clusters import Clusters, by_threshold
from streams.lab.app.evaluated import EvaluatedRow, Evaluation, Item, StreamGrowth
from streams.lab.app.labelled import LabelledEvent, LabelledPair, LabelledRows
from streams.lab.core.grading import (
    APART,
    DUPLICATES,
    KEPT,
    SAYS_MORE,
    asks,
    dropped,
    grade,
    outcome,
    score,
)
from streams.model.embedding import similarity
from streams.model.policy import Policy
from streams.store.app.dry_run import DecidingDependencies, decide_in_memory, without_brake

BASELINE = 0.85
"""The common alternative: an event at or above this cosine similarity counts as known."""

_CHUNK = 2_048
"""Pairs per in-memory log, which bounds RAM. Each pair has its own scope, so the result does not
depend on this number."""

Done = Callable[[int], None]


async def evaluate(
    labelled: LabelledRows,
    policy: Policy,
    means: DecidingDependencies,
    done: Done = lambda _: None,
) -> Evaluation:
    """Decide on every row as `memsieve run` would, and grade the decisions.

    For pairs the policy's brake is off: many duplicates among them are no flood of removals.
    `done` receives the number of rows decided on since its last call.
    """
    known = means.knowing()
    made = Evaluation(policy.id, means.embedder.model, BASELINE, labelled.read, labelled.skipped)
    made.rejected = len(labelled.refused)
    for start in range(0, len(labelled.pairs), _CHUNK):
        chunk = labelled.pairs[start : start + _CHUNK]
        await _evaluate_pairs(made, chunk, without_brake(policy), known, done)
    if labelled.stream:
        await _evaluate_stream(made, labelled.stream, policy, known, done)
    return made


async def _evaluate_pairs(
    made: Evaluation,
    pairs: Sequence[LabelledPair],
    policy: Policy,
    known: DecidingDependencies,
    done: Done,
) -> None:
    """Decide on all memories first, then on all events."""
    events = [*(pair.memory for pair in pairs), *(pair.event for pair in pairs)]
    seen = 0

    def advance(count: int) -> None:
        nonlocal seen
        done(max(0, seen + count - len(pairs)) - max(0, seen - len(pairs)))
        seen += count

    decided = await decide_in_memory(events, policy, known, advance)
    for pair, stored, decision in zip(pairs, decided, decided[len(pairs) :], strict=False):
        if not isinstance(decision, Change | Ignore) or not isinstance(stored, Insert):
            made.rejected += 1
        else:
            made.rows.append(await _row(pair, stored.memory, decision, known))


async def _row(
    pair: LabelledPair, memory: Memory, decision: Change | Ignore, known: DecidingDependencies
) -> EvaluatedRow:
    first, second = await known.embedder.embed([pair.event.text, pair.memory.text])
    near = similarity(first.vector, second.vector)
    near_enough = near >= BASELINE
    ours = outcome(decision, pair.event, memory)
    cosine = dropped(pair.event.text, memory.text) if near_enough else KEPT
    compared = decision.evidence.neighbours[0] if decision.evidence.neighbours else None
    return EvaluatedRow(
        given=pair,
        label=pair.truth.value,
        memory=pair.memory.text,
        decision=decision.kind,
        reason=decision.evidence.reason.value,
        result="" if isinstance(decision, Ignore) else decision.memory.text,
        similarity=near,
        compared=compared,
        score=_score(decision, compared),
        one=None if pair.truth in SAYS_MORE else pair.truth in DUPLICATES,
        review=asks(decision),
        ours=grade(pair.truth, ours),
        cosine=grade(pair.truth, cosine),
        made_of=decision.evidence.merge,
        items=_items(pair, ours=ours.joined, cosine=near_enough),
    )


def _score(decision: Change | Ignore, compared: Compared | None) -> float | None:
    """Return the row's rank key; a known wording is not compared, so it scores 1."""
    if decision.evidence.reason is Reason.SAME_CONTENT:
        return 1.0
    return None if compared is None else score(compared)


def _items(pair: LabelledPair, *, ours: bool, cosine: bool) -> tuple[Item, ...]:
    """Return both sides as clustered facts; none if one says more: their number is unclear."""
    if pair.truth in SAYS_MORE:
        return ()
    first = f"{pair.place}:a"

    def other(*, joined: bool) -> str:
        return first if joined else f"{pair.place}:b"

    second = other(joined=pair.truth not in APART)
    return (
        Item(first, first, first),
        Item(second, other(joined=ours), other(joined=cosine)),
    )


async def _evaluate_stream(
    made: Evaluation,
    stream: Sequence[LabelledEvent],
    policy: Policy,
    known: DecidingDependencies,
    done: Done,
) -> None:
    """Decide on the events in order, by the policy and by the cosine threshold."""
    events = [one.event for one in stream]
    started = time.perf_counter()
    decided = await decide_in_memory(events, policy, known, done)
    seconds = time.perf_counter() - started
    vectors = [one.vector for one in await known.embedder.embed([event.text for event in events])]
    clusters = Clusters()
    for one, decision, cosine in zip(
        stream, decided, by_threshold(stream, vectors, BASELINE), strict=True
    ):
        if not isinstance(decision, Change | Ignore):
            made.rejected += 1
        else:
            clusters.take(one, decision, cosine)
    made.rows.extend(clusters.rows())
    made.growth = StreamGrowth(len(events), clusters.live(), seconds)
