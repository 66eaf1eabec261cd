"""What two ways of deciding made of the same events: counted by kind, and shown by example."""

from collections import Counter
from dataclasses import dataclass, field

from schemas.decisions import Decision, Erase, Insert, Merge, Reinforce, Replace, Revise

EXAMPLES_MAX = 5
"""Of each way to differ, so many are kept to be shown."""


@dataclass(frozen=True)
class Difference:
    """One event, decided in two ways."""

    before: Decision
    after: Decision

    @property
    def kinds(self) -> tuple[str, str]:
        return self.before.kind, self.after.kind


@dataclass
class Differences:
    """All events compared so far. `changed` counts what differs, by kind before and after."""

    compared: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    changed: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    examples: dict[tuple[str, str], list[Difference]] = field(
        default_factory=dict[tuple[str, str], list[Difference]]
    )
    new: int = 0
    """Events that have no decision yet to be compared with."""

    def compare(self, before: Decision | None, after: Decision) -> Difference | None:
        """Take an event's two decisions in; return how they differ, None where they do not."""
        if before is None:
            self.new += 1
            return None
        difference = Difference(before, after)
        self.compared[difference.kinds] += 1
        if _essence(before) == _essence(after):
            return None
        self.changed[difference.kinds] += 1
        shown = self.examples.setdefault(difference.kinds, [])
        if len(shown) < EXAMPLES_MAX:
            shown.append(difference)
        return difference


def _essence(decision: Decision) -> tuple[object, ...]:
    """Return what a decision comes to: its kind, which memories, and what they then say."""
    match decision:
        case Insert() | Reinforce():
            return decision.kind, decision.memory.id, decision.memory.text
        case Replace() | Merge():
            targets = frozenset(target.memory_id for target in decision.targets)
            return decision.kind, decision.memory.id, decision.memory.text, targets
        case Revise() | Erase():
            return decision.kind, tuple(
                (one.memory.id, one.memory.text, one.memory.live) for one in decision.memories
            )
        case _:
            return (decision.kind,)
