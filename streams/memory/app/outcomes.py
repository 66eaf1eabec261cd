"""What was decided on an event, as every surface tells it."""

from typing import Any

from schemas.base import DecisionId, EventId, MemoryId, Record, Scope
from schemas.decisions import Change, Decision, Marker, Revision
from schemas.memories import Memory
from streams.stage.core.explain import DECIDED_BEFORE, NOTHING_CHANGED, outcome, why
from streams.stage.core.ledger import touched
from streams.store.app.client import Response
from streams.store.app.conflicts import Contradicted, Contradictions


class Outcome(Record):
    """What was decided on an event; `effect` and `why` say in words what was done, and why.

    `memory_id` is the memory that stands for it now, `memory_text` its text, `changed` are all that
    it changed. `refused` are memories that it named and may not change, `contradicts` those that it
    was found to contradict, replaced or not, `reviews` the questions put to a person. `repeated`:
    it came before, and was decided then. Beside a cluster, where its services have not decided in
    time, only scope and ids are there.
    """

    event_id: EventId
    scope: Scope
    decision_id: DecisionId | None = None
    kind: str | None = None
    effect: str | None = None
    why: str | None = None
    memory_id: MemoryId | None = None
    memory_text: str | None = None
    changed: tuple[MemoryId, ...] = ()
    refused: tuple[str, ...] = ()
    contradicts: tuple[Contradicted, ...] = ()
    reviews: tuple[str, ...] = ()
    repeated: bool = False

    def of_this_event(self) -> "Outcome":
        """Return the outcome with what came of this very event: nothing, if it is a repetition."""
        if not self.repeated:
            return self
        ignored = {"kind": "ignore", "why": DECIDED_BEFORE, "effect": NOTHING_CHANGED}
        return self.model_copy(update=ignored)


def outcome_of(response: Response, known: Contradictions) -> Outcome:
    """Return the outcome of an event; `known` has what its decision found contradicted."""
    named = {"event_id": response.event.event_id, "scope": response.event.scope}
    if response.decision is None:
        return Outcome.model_validate(named)
    return Outcome(**named, repeated=response.repeated, **facts(response.decision, known))


def facts(decision: Decision, known: Contradictions) -> dict[str, Any]:
    """Return the fields of an Outcome that a decision gives; `known` is as for `outcome_of`."""
    evidence = None if isinstance(decision, Marker) else decision.evidence
    memory = _about(decision)
    return {
        "decision_id": decision.decision_id,
        "kind": decision.kind,
        "effect": outcome(decision),
        "why": why(decision),
        "memory_id": None if memory is None else memory.id,
        "memory_text": None if memory is None else memory.text,
        "changed": tuple(touched(decision)),
        "refused": () if evidence is None else evidence.refused,
        "contradicts": known.get(decision.decision_id, ()),
        "reviews": () if evidence is None else evidence.reviews,
    }


def _about(decision: Decision) -> Memory | None:
    """Return the memory after a decision, the first if there are several."""
    if isinstance(decision, Change):
        return decision.memory
    return decision.memories[0].memory if isinstance(decision, Revision) else None
