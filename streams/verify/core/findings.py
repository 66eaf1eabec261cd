"""Problems that an audit of a log and its copies can find, the findings, and their remedies."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic_core import from_json

from schemas.codec import Unreadable
from schemas.topics import DECISIONS, EVENTS

SHOWN_MAX = 20
"""How many findings of one problem are shown; all are counted."""


class Violation(StrEnum):
    """A violated invariant; the values are names for programs."""

    BEGINNING_LOST = "beginning-lost"
    RECORD_LOST = "record-lost"
    CUT_SHORT = "cut-short"
    DAMAGED = "damaged"
    NEWER = "newer"
    MISLABELLED = "mislabelled"
    FENCE_DAMAGED = "fence-damaged"
    FENCE_WITHOUT_OWNER = "fence-without-owner"
    PARTITIONS_DIFFER = "partitions-differ"
    FENCE_MISPLACED = "fence-misplaced"
    UNDECIDED = "undecided"
    NO_EVENT = "no-event"
    BEYOND_EVENTS = "beyond-events"
    OTHER_EVENT = "other-event"
    DECIDED_TWICE = "decided-twice"
    DOES_NOT_BUILD = "does-not-build"
    OTHER_ID = "other-id"
    OTHER_WORDS = "other-words"
    OTHER_SCOPE = "other-scope"
    OTHER_PARTITION = "other-partition"
    WORDING_LOST = "wording-lost"
    NO_SUCCESSOR = "no-successor"
    SUCCESSOR_CYCLE = "successor-cycle"
    NO_DEAD_LETTER = "no-dead-letter"
    DEAD_LETTER_DAMAGED = "dead-letter-damaged"
    NOT_FORWARDED = "not-forwarded"
    OTHER_LOG = "other-log"
    UNUSABLE = "unusable"
    LACKING = "lacking"
    EXTRA = "extra"
    DIFFERING = "differing"
    UNEQUAL = "unequal"


RESTORE = "restore the log from a copy"
_PARTITIONS = "restore the topics from a copy, or start over under another kafka.prefix"
_REPORT = f"{RESTORE}; if no copy is better, please report this, with the log"
REMEDIES: Mapping[Violation, str] = {
    Violation.BEGINNING_LOST: f"{RESTORE}, and keep {DECISIONS.name} forever",
    Violation.RECORD_LOST: f"{RESTORE}; no request has erased it",
    Violation.NEWER: f"upgrade this memsieve; if no newer one wrote it, {RESTORE}",
    Violation.PARTITIONS_DIFFER: _PARTITIONS,
    Violation.FENCE_MISPLACED: _PARTITIONS,
    Violation.UNDECIDED: f"{RESTORE}; if it was never decided, publish the event again",
    Violation.BEYOND_EVENTS: f"{RESTORE}: {EVENTS.name} was recreated or has lost records",
    Violation.DECIDED_TWICE: _REPORT,
    Violation.OTHER_SCOPE: _REPORT,
    Violation.OTHER_PARTITION: _REPORT,
    Violation.WORDING_LOST: _REPORT,
    Violation.NO_SUCCESSOR: _REPORT,
    Violation.SUCCESSOR_CYCLE: _REPORT,
    Violation.NO_DEAD_LETTER: "restore the log from a copy, or fix the event and publish it again",
    Violation.NOT_FORWARDED: "publish the event again, keyed by its scope",
    Violation.OTHER_LOG: "restore the copy of the log that is most complete; if there is none, "
    "delete what follows it, and what the log lacks is lost",
    Violation.UNEQUAL: "resolve what the other checks have found",
}
"""The remedies of the problems that have one of their own.

The others have that of the check: a copy's own, and RESTORE for the log.
"""


@dataclass(frozen=True)
class AuditFinding:
    """A problem, its place, and a description."""

    problem: Violation
    place: str
    what: str


class AuditFindings:
    """The first SHOWN_MAX findings of each problem, and the count of all."""

    def __init__(self) -> None:
        self.counts = Counter[Violation]()
        self._shown: dict[Violation, list[AuditFinding]] = {}

    def add(self, problem: Violation, place: str, what: str) -> None:
        self.counts[problem] += 1
        if self.counts[problem] <= SHOWN_MAX:
            self._shown.setdefault(problem, []).append(AuditFinding(problem, place, what))

    @property
    def shown(self) -> list[AuditFinding]:
        return [finding for findings in self._shown.values() for finding in findings]


def unreadable(value: bytes | None, error: Unreadable | None) -> Violation:
    """Return the problem of an unreadable decision or fence; `error` is None for a fence."""
    if not value or "EOF while parsing" in str(error):
        return Violation.CUT_SHORT
    if error is not None and error.field in {"kind", "schema_version"}:
        named: object = from_json(value).get(error.field)
        if type(named) in {str, int}:
            return Violation.NEWER
    return Violation.DAMAGED
