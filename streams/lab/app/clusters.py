"""Grades the decisions on a stream whose clusters are known, one by one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from schemas.base import DecisionId, MemoryId, ScopeName
from schemas.decisions import Change, Ignore, Insert, targets_of
from schemas.memories import Memory
from streams.consolidate.core.redundancy import chain
from streams.lab.app.evaluated import EvaluatedRow, Item
from streams.lab.app.labelled import LabelledEvent
from streams.lab.core.grading import (
    KEPT,
    Grade,
    Truth,
    asks,
    dropped,
    grade,
    outcome,
    score,
    together,
)
from streams.model.embedding import Vector
from streams.model.neighbours import StoredMemory
from streams.stage.core.ledger import fold


@dataclass(frozen=True)
class BaselineResult:
    """The baseline's result for an event: its grade, and the first event of its cluster."""

    grade: Grade
    found: str


def by_threshold(
    stream: Sequence[LabelledEvent], vectors: Sequence[Vector], threshold: float
) -> Iterator[BaselineResult]:
    """Treat an event as known if a kept event of its scope is at least that similar."""
    matrix = np.stack(vectors)
    kept: dict[ScopeName, list[int]] = {}
    facts = set[tuple[ScopeName, str]]()
    for at, one in enumerate(stream):
        scope = one.event.scope
        places = kept.setdefault(scope, [])
        near = matrix[places] @ matrix[at]
        best = int(near.argmax()) if places else -1
        if best >= 0 and near[best] >= threshold:
            known = stream[places[best]]
            truth = Truth.ONE if known.fact == one.fact else Truth.TWO
            made = grade(truth, dropped(one.event.text, known.event.text))
            yield BaselineResult(made, known.place)
            continue
        truth = Truth.ONE if (scope, one.fact) in facts else Truth.TWO
        yield BaselineResult(grade(truth, KEPT), one.place)
        places.append(at)
        facts.add((scope, one.fact))


class Clusters:
    """The facts that each memory states, and the memory that each event ended up in."""

    def __init__(self) -> None:
        self._state = dict[MemoryId, StoredMemory]()
        self._facts: dict[MemoryId, frozenset[str]] = {}
        self._stated: dict[tuple[ScopeName, str], set[MemoryId]] = {}
        self._ended: dict[DecisionId, MemoryId] = {}
        self._rows: list[tuple[EvaluatedRow, MemoryId, BaselineResult]] = []

    def take(self, one: LabelledEvent, decision: Change | Ignore, cosine: BaselineResult) -> None:
        """Grade and apply the next decision of the stream."""
        if isinstance(decision, Ignore):
            ended = self._ended[decision.decision_id]
        else:
            ended = self._ended[decision.decision_id] = decision.memory.id
        if one.cluster is not None:
            self._rows.append((self._row(one, decision, cosine), ended, cosine))
        if not isinstance(decision, Ignore):
            facts = self._facts_after(one, decision)
            fold(self._state, decision)
            self._facts[decision.memory.id] = facts
            for fact in facts:
                self._stated.setdefault((one.event.scope, fact), set()).add(decision.memory.id)

    def rows(self) -> list[EvaluatedRow]:
        """Return the rows, each in the cluster of the live memory that stands for it at the end."""
        memories = {identity: stored.memory for identity, stored in self._state.items()}
        return [
            replace(row, items=(Item(row.label, chain(ended, memories)[-1].id, cosine.found),))
            for row, ended, cosine in self._rows
        ]

    def live(self) -> int:
        return sum(stored.memory.live for stored in self._state.values())

    def _row(
        self, one: LabelledEvent, decision: Change | Ignore, cosine: BaselineResult
    ) -> EvaluatedRow:
        compared = decision.evidence.neighbours[0] if decision.evidence.neighbours else None
        targets = self._targets(decision)
        shown = targets or ([self._state[compared.memory_id].memory] if compared else [])
        return EvaluatedRow(
            given=one,
            label=one.fact,
            memory=shown[0].text if shown else "",
            decision=decision.kind,
            reason=decision.evidence.reason.value,
            result="" if isinstance(decision, Ignore) else decision.memory.text,
            similarity=compared.similarity if compared else None,
            compared=compared,
            score=score(compared) if compared else None,
            one=one.fact in self._facts[compared.memory_id] if compared else None,
            review=asks(decision),
            ours=self._grade(one, decision, targets),
            cosine=cosine.grade,
            made_of=decision.evidence.merge,
        )

    def _grade(
        self, one: LabelledEvent, decision: Change | Ignore, targets: Sequence[Memory]
    ) -> Grade:
        """Grade a decision against each memory it changed; a kept event against its whole scope."""
        if not targets:
            stated = self._stated.get((one.event.scope, one.fact), ())
            said = any(self._state[i].memory.live for i in stated)
            return grade(Truth.ONE if said else Truth.TWO, KEPT)
        return together(
            grade(
                Truth.ONE if one.fact in self._facts[memory.id] else Truth.TWO,
                outcome(decision, one.event, memory),
            )
            for memory in targets
        )

    def _targets(self, decision: Change | Ignore) -> list[Memory]:
        """Return the memories that a decision changes, in their state before it."""
        if isinstance(decision, Ignore):
            ids = [self._ended[decision.decision_id]]
        else:
            ids = [target.memory_id for target in targets_of(decision)]
        return [self._state[identity].memory for identity in ids]

    def _facts_after(self, one: LabelledEvent, decision: Change) -> frozenset[str]:
        """Return the clusters whose facts the decision's memory states."""
        stated = set[str]()
        event_stands = isinstance(decision, Insert)
        for memory in self._targets(decision):
            made = outcome(decision, one.event, memory)
            event_stands |= made.event_stands
            if made.memory_stands:
                stated |= self._facts[memory.id]
        return frozenset(stated | {one.fact} if event_stands else stated)
