"""Problems that an audit of a log and its copies can find, the findings, and their remedies."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic_core import from_json

from schemas.base import Position
from schemas.codec import Unreadable
from schemas.topics import DECISIONS, EVENTS

SHOWN_MAX = 20
"""How many findings of one problem are shown; all are counted."""


class Problem(StrEnum):
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


_RESTORE = "restore the log from a copy"
_PARTITIONS = "restore the topics from a copy, or start over under another kafka.prefix"
_REPORT = f"{_RESTORE}; if no copy is better, please report this, with the log"
REMEDIES: Mapping[Problem, str] = {
    Problem.BEGINNING_LOST: f"{_RESTORE}, and keep {DECISIONS.name} forever",
    Problem.RECORD_LOST: f"{_RESTORE}; no request has erased it",
    Problem.CUT_SHORT: _RESTORE,
    Problem.DAMAGED: _RESTORE,
    Problem.NEWER: f"upgrade this memsieve; if no newer one wrote it, {_RESTORE}",
    Problem.MISLABELLED: _RESTORE,
    Problem.FENCE_DAMAGED: _RESTORE,
    Problem.FENCE_WITHOUT_OWNER: _RESTORE,
    Problem.PARTITIONS_DIFFER: _PARTITIONS,
    Problem.FENCE_MISPLACED: _PARTITIONS,
    Problem.UNDECIDED: f"{_RESTORE}; if it was never decided, publish the event again",
    Problem.NO_EVENT: _RESTORE,
    Problem.BEYOND_EVENTS: f"{_RESTORE}: {EVENTS.name} was recreated or has lost records",
    Problem.OTHER_EVENT: _RESTORE,
    Problem.DECIDED_TWICE: _REPORT,
    Problem.DOES_NOT_BUILD: _RESTORE,
    Problem.OTHER_ID: _RESTORE,
    Problem.OTHER_WORDS: _RESTORE,
    Problem.OTHER_SCOPE: _REPORT,
    Problem.OTHER_PARTITION: _REPORT,
    Problem.WORDING_LOST: _REPORT,
    Problem.NO_SUCCESSOR: _REPORT,
    Problem.SUCCESSOR_CYCLE: _REPORT,
    Problem.NO_DEAD_LETTER: "restore the log from a copy, or fix the event and publish it again",
    Problem.DEAD_LETTER_DAMAGED: _RESTORE,
    Problem.NOT_FORWARDED: "publish the event again, keyed by its scope",
    Problem.OTHER_LOG: "restore the copy of the log that is most complete; if there is none, "
    "delete what follows it, and what the log lacks is lost",
    Problem.UNEQUAL: "resolve what the other checks have found",
}
"""The remedies of the problems whose remedy does not depend on the component concerned."""


@dataclass(frozen=True)
class Finding:
    """A problem, its place, and a description."""

    problem: Problem
    place: str
    what: str


class Findings:
    """The first SHOWN_MAX findings of each problem, and the count of all."""

    def __init__(self) -> None:
        self.counts = Counter[Problem]()
        self._shown: dict[Problem, list[Finding]] = {}

    def add(self, problem: Problem, place: str, what: str) -> None:
        self.counts[problem] += 1
        if self.counts[problem] <= SHOWN_MAX:
            self._shown.setdefault(problem, []).append(Finding(problem, place, what))

    @property
    def shown(self) -> list[Finding]:
        return [finding for findings in self._shown.values() for finding in findings]


def place_of(position: Position) -> str:
    """Return a record's position for people: topic/partition/offset."""
    return f"{position.topic}/{position.partition}/{position.offset}"


def unreadable(value: bytes | None, error: Unreadable | None) -> Problem:
    """Return the problem of an unreadable decision or fence; `error` is None for a fence."""
    if not value or "EOF while parsing" in str(error):
        return Problem.CUT_SHORT
    if error is not None and error.field in {"kind", "schema_version"}:
        named: object = from_json(value).get(error.field)
        if type(named) in {str, int}:
            return Problem.NEWER
    return Problem.DAMAGED
