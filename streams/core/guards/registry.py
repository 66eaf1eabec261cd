"""All guards in their order, and what they find in a pair."""

from collections.abc import Callable, Mapping

from schemas.decisions import SAID_MAX, Finding
from streams.core.guards import modes, polarity, records, roles, things, values
from streams.core.guards.statement import (
    COMPATIBLE,
    Answer,
    CannotTell,
    Compatible,
    Sides,
    Statement,
)
from streams.core.language.lexicon import Lexicon

Guard = Callable[[Sides], Answer]

OF_RECORDS: Mapping[str, Guard] = {
    "category": records.category,
    "persistence": records.persistence,
    "status": records.status,
    "pin": records.pin,
    "validity": records.validity,
    "attribution": records.attribution,
    "wholeness": records.wholeness,
}
OF_TEXTS: Mapping[str, Guard] = {
    "numbers": values.numbers,
    "amounts": values.amounts,
    "dates": values.dates,
    "times": values.times,
    "durations": values.durations,
    "versions": values.versions,
    "identifiers": values.identifiers,
    "placeholders": values.placeholders,
    "negation": polarity.negation,
    "opposites": polarity.opposites,
    "names": things.names,
    "owners": things.owners,
    "persons": things.persons,
    "roles": roles.roles,
    "attributes": things.attributes,
    "generality": things.generality,
    "quantifiers": modes.quantifiers,
    "comparison": modes.comparison,
    "modality": modes.modality,
    "question": modes.question,
    "tense": modes.tense,
    "substance": things.substance,
}
GUARDS: Mapping[str, Guard] = {**OF_RECORDS, **OF_TEXTS}
"""Every guard by its name, which decisions carry as evidence: names never change."""

DIRECTED = frozenset(["persistence", "status", "pin"])
"""Guards that protect the memory from the event, and not the other way round."""


def examine(event: Statement, memory: Statement, lexicon: Lexicon) -> tuple[Finding, ...]:
    """Return what stands against joining an event with a memory, in the guards' order."""
    sides = Sides(event, memory, lexicon)
    guards = OF_RECORDS if sides.worded_alike else GUARDS
    answers = ((name, guard(sides)) for name, guard in guards.items())
    return tuple(_finding(name, answer) for name, answer in answers if answer is not COMPATIBLE)


def _finding(guard: str, answer: Answer) -> Finding:
    if isinstance(answer, CannotTell):
        return Finding(guard=guard, outcome="cannot-tell", what=answer.why[:SAID_MAX])
    if isinstance(answer, Compatible):
        raise TypeError(f"guard {guard}: answer with COMPATIBLE itself")
    what, event, memory = (
        said[:SAID_MAX] for said in (answer.what, answer.event_says, answer.memory_says)
    )
    return Finding(guard=guard, outcome="differs", what=what, event_says=event, memory_says=memory)
