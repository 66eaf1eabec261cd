"""The registry of all guards in order, and their findings on a pair."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from schemas.decisions import SAID_MAX, Finding
from streams.text.guards import foreign, marks, modes, polarity, records, roles, things, values
from streams.text.guards.statement import (
    COMPATIBLE,
    Answer,
    CannotTell,
    Compatible,
    Sides,
    StatementReading,
)
from streams.text.lexicon import Lexicon


@dataclass(frozen=True)
class Guard:
    """A guard's check of a pair, and what its objection means.

    `of_one_thing`: the objection means two answers to one question; otherwise two separate things.
    `may_name`: what differs may be the name of a thing, and the judge does not read it: C and C++.
    """

    ask: Callable[[Sides], Answer]
    of_one_thing: bool = False
    may_name: bool = False


OF_RECORDS: Mapping[str, Guard] = {
    "category": Guard(records.category, of_one_thing=True),
    "persistence": Guard(records.persistence),
    "status": Guard(records.status),
    "pin": Guard(records.pin),
    "validity": Guard(records.validity),
    "attribution": Guard(records.attribution),
    "wholeness": Guard(records.wholeness),
}
OF_VALUES: Mapping[str, Guard] = {
    "numbers": Guard(values.numbers),
    "amounts": Guard(values.amounts),
    "dates": Guard(values.dates),
    "times": Guard(values.times),
    "durations": Guard(values.durations),
    "versions": Guard(values.versions),
    "identifiers": Guard(values.identifiers),
    "placeholders": Guard(values.placeholders, may_name=True),
}
OF_MARKS: Mapping[str, Guard] = {
    "symbols": Guard(marks.symbols, may_name=True),
    "code": Guard(marks.code, may_name=True),
}
OF_TEXTS: Mapping[str, Guard] = {
    **OF_VALUES,
    **OF_MARKS,
    "negation": Guard(polarity.negation, of_one_thing=True),
    "opposites": Guard(polarity.opposites, of_one_thing=True),
    "names": Guard(things.names),
    "owners": Guard(things.owners),
    "persons": Guard(things.persons),
    "roles": Guard(roles.roles),
    "attributes": Guard(things.attributes),
    "generality": Guard(things.generality),
    "quantifiers": Guard(modes.quantifiers, of_one_thing=True),
    "comparison": Guard(modes.comparison, of_one_thing=True),
    "modality": Guard(modes.modality, of_one_thing=True),
    "question": Guard(modes.question, of_one_thing=True),
    "tense": Guard(modes.tense, of_one_thing=True),
    "substance": Guard(things.substance, of_one_thing=True),
}
GUARDS: Mapping[str, Guard] = {**OF_RECORDS, **OF_TEXTS}
"""Every guard by name. Decisions carry the names as evidence, so names never change."""
OF_SAME_WORDS: Mapping[str, Guard] = {**OF_RECORDS, **OF_MARKS}
"""The guards for texts of the same words: the others compare words."""
IN_ANY_LANGUAGE: Mapping[str, Guard] = {
    **OF_RECORDS,
    **OF_VALUES,
    **OF_MARKS,
    "names": Guard(foreign.names),
}
"""The guards for texts that are not in English: the others know its words alone."""


def examine(
    event: StatementReading, memory: StatementReading, lexicon: Lexicon
) -> tuple[Finding, ...]:
    """Return what stands against merging an event into a memory, in the guards' order."""
    sides = Sides(event, memory, lexicon)
    of_language = IN_ANY_LANGUAGE if sides.foreign else GUARDS
    guards = OF_SAME_WORDS if sides.worded_alike else of_language
    answers = ((name, guard.ask(sides)) for name, guard in guards.items())
    return tuple(_finding(name, answer) for name, answer in answers if answer is not COMPATIBLE)


def may_be_of_two(findings: Iterable[Finding]) -> bool:
    """Return whether texts differ in what may name two things, unread by the judge.

    C++ does not outdate C. Of numbers, versions and identifiers the judge knows which is a name
    (bus 46) and which a value (port 9090): all 245 development pairs that it was sure of contradict.
    """
    return any(GUARDS[finding.guard].may_name for finding in findings)


def _finding(guard: str, answer: Answer) -> Finding:
    if isinstance(answer, CannotTell):
        return Finding(guard=guard, outcome="cannot-tell", what=answer.why[:SAID_MAX])
    if isinstance(answer, Compatible):
        raise TypeError(f"guard {guard}: answer with COMPATIBLE itself")
    what, event, memory = (
        said[:SAID_MAX] for said in (answer.what, answer.event_says, answer.memory_says)
    )
    return Finding(guard=guard, outcome="differs", what=what, event_says=event, memory_says=memory)
