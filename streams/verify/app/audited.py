"""The result of an audit: its checks and its figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from streams.verify.core.findings import REMEDIES, RESTORE, AuditFindings, Violation


@dataclass(frozen=True)
class Check:
    """One check: what was examined, the fact found, and the problems found."""

    name: str
    fact: str
    findings: AuditFindings = field(default_factory=AuditFindings)
    remedy: str = RESTORE

    @property
    def healthy(self) -> bool:
        return not self.findings.counts

    @property
    def told(self) -> str:
        """The result: the fact, or the number of problems of each kind."""
        counts = self.findings.counts
        return ", ".join(f"{n:,} {p.value}" for p, n in counts.items()) if counts else self.fact

    def remedy_of(self, problem: Violation) -> str:
        """Return how to fix a problem."""
        return REMEDIES.get(problem, self.remedy)


@dataclass(frozen=True)
class LogCounts:
    """The figures of a log; expired events are counted by their decisions."""

    events: int
    decisions: Mapping[str, int]
    waiting: int
    in_doubt: int
    fences: int
    refused: Mapping[str, int]
    memories: Mapping[str, int]


@dataclass(frozen=True)
class Report:
    """All checks, the figures, and notes about what is harmless but worth knowing."""

    checks: list[Check]
    counts: LogCounts
    notes: list[str]

    @property
    def healthy(self) -> bool:
        return all(check.healthy for check in self.checks)


def unusable(name: str, place: str, error: Exception, remedy: str) -> Check:
    """Return the check of an unreadable copy; `error` gives the reason, `remedy` what to do."""
    findings = AuditFindings()
    findings.add(Violation.UNUSABLE, place, str(error))
    return Check(name, place, findings, remedy)
