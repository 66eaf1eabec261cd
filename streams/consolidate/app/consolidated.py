"""The result of a consolidation pass: its groups and its figures."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from schemas.base import PolicyId, ScopeName
from schemas.decisions import OnEvent, Reason, Supersession
from schemas.events import Consolidate
from schemas.memories import Memory, Target
from streams.consolidate.core.redundancy import ALERT, Removal, rounded

Why: TypeAlias = Literal[
    "done",
    "unchanged",
    "few",
    "recent",
    "busy",
    "budget",
    "no-time",
    "no-answer",
    "degraded",
    "unfinished",
    "too-many",
]
"""How a scope's pass ended, or why there was none."""

MEANS: Mapping[Why, str] = {
    "done": "no more duplicates found",
    "unchanged": "nothing has changed since the last pass",
    "few": "too few memories (consolidate.memories_min)",
    "recent": "consolidated recently (consolidate.hours_min)",
    "busy": "recently active (consolidate.quiet_minutes)",
    "budget": "time or language model questions ran out: the next pass continues",
    "no-time": "not reached in time (consolidate.seconds_max): left to the next pass",
    "no-answer": "the services have not decided yet: the next pass checks again",
    "degraded": "a judge did not answer: the next pass asks again",
    "unfinished": "still changing after consolidate.rounds_max rounds: the next pass continues",
    "too-many": "more removals than the policy's brake allows: check them, then add --force",
}

SECONDS_ALERT = 60.0
"""A pass that takes longer does too much at once; under 30 s per 1,000 memories is usual."""

_ENOUGH = 20
"""Rates of scopes with fewer memories are not meaningful."""


@dataclass(frozen=True)
class DecidedProposal:
    """A proposal, its memories when they were proposed, and the owner's decision."""

    event: Consolidate
    members: tuple[Memory, ...]
    decision: OnEvent

    @property
    def survivor(self) -> Memory | None:
        """The memory that now stands for them; None if they were kept apart."""
        return self.decision.memory if isinstance(self.decision, Supersession) else None

    @property
    def targets(self) -> tuple[Target, ...]:
        """The memories that are joined; none if they were kept apart."""
        return self.decision.targets if isinstance(self.decision, Supersession) else ()

    def as_json(self) -> dict[str, Any]:
        decision = self.decision
        near = {one.memory_id: one for one in decision.evidence.neighbours}
        joined = {target.memory_id for target in self.targets}
        survivor = self.survivor
        return {
            "decision_id": decision.decision_id,
            "kind": decision.kind,
            "reason": decision.evidence.reason.value,
            "survivor": None if survivor is None else survivor.id,
            "text_after": None if survivor is None else survivor.text,
            "members": [
                {
                    "id": memory.id,
                    "text": memory.text,
                    "importance": memory.importance,
                    "joined": memory.id in joined,
                    "similarity": near[memory.id].similarity if memory.id in near else None,
                    "verdict": near[memory.id].verdict.value if memory.id in near else None,
                    "judge": near[memory.id].judge if memory.id in near else None,
                }
                for memory in self.members
            ],
        }


@dataclass(frozen=True)
class ScopePass:
    """One scope's part of a pass. `last_at`: when the one before ended, `at`: when this one did.

    `checked`: how many memories that were stored unchecked are so no more, but for those joined.
    """

    scope: ScopeName
    last_at: datetime | None
    at: datetime
    why: Why
    before: int
    after: int
    bytes_before: int
    bytes_after: int
    judged: int
    rounds: int
    depth_max: int
    without_live_successor: int
    groups: tuple[DecidedProposal, ...]
    checked: int = 0

    @property
    def churn(self) -> float:
        """The share of the scope's memories that were retired or changed."""
        changed = sum(len(one.targets) for one in self.groups)
        return changed / self.before if self.before else 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "scope": self.scope,
            "ended": self.why,
            **_sizes([self]),
            "last_deduplicated_at": self.at.isoformat(),
            "deduplicated_before_at": None if self.last_at is None else self.last_at.isoformat(),
            "pairs_judged": self.judged,
            "rounds": self.rounds,
            "checked": self.checked,
            "churn": rounded(self.churn),
            "depth_max": self.depth_max,
            "without_live_successor": self.without_live_successor,
            "groups": [one.as_json() for one in self.groups],
        }


@dataclass(frozen=True)
class ConsolidationPass:
    """A pass over scopes; `skipped` gives the reason for each scope left out."""

    policy: PolicyId
    scopes: tuple[ScopePass, ...]
    skipped: Mapping[ScopeName, Why]
    seconds: float

    @property
    def groups(self) -> int:
        """The number of groups that were joined."""
        return sum(joined.survivor is not None for one in self.scopes for joined in one.groups)

    @property
    def refused(self) -> int:
        """The number of proposals refused because their memories had changed meanwhile."""
        return sum(
            joined.decision.evidence.reason is Reason.OUT_OF_DATE
            for one in self.scopes
            for joined in one.groups
        )

    @property
    def alerts(self) -> list[str]:
        """What a person should look at."""
        told = [
            f"{one.scope}: {one.before - one.after:,} of {one.before:,} memories removed, more than "
            f"{ALERT:.0%}: is the policy too lenient?"
            for one in self.scopes
            if one.before >= _ENOUGH and _removal([one]).status == "alert"
        ]
        told += [f"{one.scope}: {MEANS[one.why]}" for one in self.scopes if one.why == "too-many"]
        if self.seconds > SECONDS_ALERT:
            told.append(f"the pass took {self.seconds:,.0f} s, more than {SECONDS_ALERT:.0f} s")
        return told

    def as_json(self) -> dict[str, Any]:
        """Return the result for programs, with stable keys."""
        return {
            "policy": self.policy,
            "scopes": [one.as_json() for one in self.scopes],
            "skipped": dict(Counter(self.skipped.values())),
            "groups": self.groups,
            "refused": self.refused,
            "checked": sum(one.checked for one in self.scopes),
            "pairs_judged": sum(one.judged for one in self.scopes),
            "depth_max": max((one.depth_max for one in self.scopes), default=0),
            **_sizes(self.scopes),
            "duration_ms": round(self.seconds * 1_000),
            "alerts": self.alerts,
        }


def _removal(passes: Sequence[ScopePass]) -> Removal:
    return Removal(events=sum(one.before for one in passes), live=sum(one.after for one in passes))


def _sizes(passes: Sequence[ScopePass]) -> dict[str, Any]:
    before = sum(one.bytes_before for one in passes)
    after = sum(one.bytes_after for one in passes)
    return {
        **_removal(passes).as_json(),
        "bytes_before": before,
        "bytes_after": after,
        "size_reduction": rounded(Removal(before, after).removal_rate),
    }
