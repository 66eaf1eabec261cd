"""Differences between two runs of decisions on the same events: counts by kind, and examples."""

from collections import Counter
from dataclasses import dataclass, field

from schemas.decisions import Decision, NoChange, Revision, targets_of

EXAMPLES_MAX = 5
"""How many examples of each kind of difference are kept."""


@dataclass(frozen=True)
class DecisionDifference:
    """The two decisions on one event."""

    before: Decision
    after: Decision

    @property
    def kinds(self) -> tuple[str, str]:
        return self.before.kind, self.after.kind


@dataclass
class DecisionDifferences:
    """All events compared so far; `changed` counts differences by kind before and after."""

    compared: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    changed: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    examples: dict[tuple[str, str], list[DecisionDifference]] = field(
        default_factory=dict[tuple[str, str], list[DecisionDifference]]
    )
    new: int = 0
    """Events without an earlier decision to compare with."""

    def compare(self, before: Decision | None, after: Decision) -> DecisionDifference | None:
        """Count an event's two decisions; return their difference, None if there is none."""
        if before is None:
            self.new += 1
            return None
        difference = DecisionDifference(before, after)
        self.compared[difference.kinds] += 1
        if _essence(before) == _essence(after):
            return None
        self.changed[difference.kinds] += 1
        shown = self.examples.setdefault(difference.kinds, [])
        if len(shown) < EXAMPLES_MAX:
            shown.append(difference)
        return difference


def _essence(decision: Decision) -> tuple[object, ...]:
    """Return a decision's outcome: its kind, its memories, and their texts."""
    if isinstance(decision, NoChange):
        return (decision.kind,)
    if isinstance(decision, Revision):
        return decision.kind, tuple(
            (one.memory.id, one.memory.text, one.memory.live) for one in decision.memories
        )
    targets = frozenset(target.memory_id for target in targets_of(decision))
    return decision.kind, decision.memory.id, decision.memory.text, targets
