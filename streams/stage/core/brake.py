"""The brake: it stops merging automatically if a scope or partition would lose too many memories.

It counts attempted removals, not actual ones: it releases when attempts fall to what the policy
allows, not because it was on.
"""

from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from schemas.base import ScopeName
from schemas.decisions import Change, Insert, Merge, Reason, Replace
from schemas.events import Remember
from streams.model.policy import Brake, Policy

WINDOW = 1_000
"""How many of a partition's newest changes count: enough to tell a rate of 50 % from 40 %, few
enough to be re-read at every takeover."""


def counts(decision: Change) -> bool:
    """Return whether the brake counts a decision: only those on `remember` events.

    A person's answer is not automatic. A proposal to join memories always retires some; a
    consolidation pass limits at its start how many it may retire.
    """
    return isinstance(decision.event, Remember)


def retires(decision: Change) -> bool:
    """Return whether a decision retires memories, or would have without the brake."""
    match decision:
        case Merge():
            return True
        case Replace():
            return any(target.memory_id != decision.memory.id for target in decision.targets)
        case Insert():
            return not decision.memory.live or decision.evidence.reason is Reason.BRAKED
        case _:
            return False


@dataclass(frozen=True)
class Rates:
    """The number of newest changes, and how many of them tried to retire memories, and merged."""

    changes: int = 0
    retiring: int = 0
    merging: int = 0

    def __add__(self, other: "Rates") -> "Rates":
        return Rates(
            self.changes + other.changes,
            self.retiring + other.retiring,
            self.merging + other.merging,
        )

    @property
    def removals(self) -> float:
        """The share of the changes that tried to retire memories."""
        return self.retiring / self.changes if self.changes else 0.0

    @property
    def merges(self) -> float:
        """The share of the changes that merged."""
        return self.merging / self.changes if self.changes else 0.0

    def too_many(self, rule: Brake) -> bool:
        """Return whether more removals are attempted than a policy allows."""
        return (
            rule.enabled
            and self.changes >= rule.decisions_min
            and self.retiring > rule.removals_max * self.changes
        )


@dataclass(frozen=True)
class _Seen:
    """What the brake keeps of a change."""

    scope: ScopeName
    retiring: bool
    merging: bool


@dataclass
class RecentChanges:
    """A partition's newest changes: their scopes, and whether they tried to retire memories."""

    _changes: deque[_Seen] = field(default_factory=deque[_Seen])
    _all: Counter[ScopeName] = field(default_factory=Counter[ScopeName])
    _retiring: Counter[ScopeName] = field(default_factory=Counter[ScopeName])
    _merging: int = 0
    _wanted: int = 0

    def fork(self) -> "RecentChanges":
        """Return an independent copy."""
        return replace(
            self,
            _changes=self._changes.copy(),
            _all=self._all.copy(),
            _retiring=self._retiring.copy(),
        )

    def add(self, decision: Change) -> None:
        if counts(decision):
            merging = isinstance(decision, Merge)
            self._add(_Seen(decision.event.scope, retires(decision), merging))

    def engaged(self, scope: ScopeName, rule: Brake) -> bool:
        """Return whether the brake forbids a scope's next merge or replacement."""
        return self.of(scope).too_many(rule) or self.overall.too_many(rule)

    @property
    def overall(self) -> Rates:
        return Rates(len(self._changes), self._wanted, self._merging)

    def of(self, scope: ScopeName) -> Rates:
        """Return the rates of a scope's own changes."""
        return Rates(self._all[scope], self._retiring[scope])

    def _add(self, change: _Seen) -> None:
        self._changes.append(change)
        self._count(change, 1)
        if len(self._changes) > WINDOW:
            self._count(self._changes.popleft(), -1)

    def _count(self, change: _Seen, by: int) -> None:
        self._merging += by * change.merging
        self._wanted += by * change.retiring
        self._retiring[change.scope] += by * change.retiring
        self._all[change.scope] += by
        if not self._all[change.scope]:  # over years, scopes come and go
            del self._all[change.scope], self._retiring[change.scope]


class Watch:
    """Tracks where the brake of a partition is on, and reports changes."""

    def __init__(self) -> None:
        self._on: set[ScopeName] = set()
        self._overall = False

    def turned(
        self, recent: RecentChanges, scopes: Collection[ScopeName], policy: Policy
    ) -> list[str]:
        """Return one line per brake that went on or off; `scopes` are those with new changes."""
        lines: list[str] = []
        for scope in sorted({*scopes, *self._on}):
            rule, rates = policy.rules(scope).brake, recent.of(scope)
            on = rates.too_many(rule)
            if on != (scope in self._on):
                self._on ^= {scope}
                lines.append(_line(f"scope {scope}", rates, rule, on=on))
        if recent.overall.too_many(policy.brake) != self._overall:
            self._overall = not self._overall
            where = "a partition as a whole"
            lines.append(_line(where, recent.overall, policy.brake, on=self._overall))
        return lines


def _line(where: str, rates: Rates, rule: Brake, *, on: bool) -> str:
    wanted = (
        f"{rates.retiring:,} of its newest {rates.changes:,} changes would retire memories, "
        f"{rule.removals_max:.0%} may"
    )
    if on:
        return f"the brake is on for {where}: {wanted}; both sides are kept meanwhile"
    return f"the brake is off for {where}: {wanted}"
