"""The classification of failures that callers see, and the exit code of each."""

from enum import Enum, StrEnum, auto

from streams.model.policy import InvalidPolicy
from streams.model.ports.failures import (
    Fatal,
    NoModel,
    NoServer,
    NoStore,
    Transient,
    Unreachable,
    Unusable,
)
from streams.stage.core.lineage import CannotUndo
from streams.store.app.client import DecisionTimeout
from streams.store.app.reading import AmbiguousPrefix
from streams.store.app.settings import InvalidSettings


class UsageError(Exception):
    """The request cannot be carried out as given; `field` names the part that is wrong, if one."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnknownId(Exception):
    """Nothing has the requested id."""


class DeclineReason(Enum):
    """Why a request about memories is declined."""

    UNKNOWN = "unknown"
    FORGOTTEN = "forgotten"
    CONFLICT = "conflict"
    UNFIT = "unfit"
    NOT_HERE = "not-here"


class DeclinedRequest(Exception):
    """A declined request about memories: one line that says why, and what to do instead."""

    def __init__(self, why: DeclineReason, message: str, field: str | None = None) -> None:
        """`field` names the field of the request at fault."""
        super().__init__(message)
        self.why = why
        self.field = field


class Failure(StrEnum):
    """What failed: the request itself, or something that it needs."""

    REQUEST = auto()
    NOT_FOUND = auto()
    STORE = auto()
    MODEL = auto()
    SERVER = auto()
    UNDECIDED = auto()
    STOPPED = auto()

    @property
    def exit_code(self) -> int:
        """The code with which a command ends."""
        return _EXIT_CODES[self]


_EXIT_CODES = {
    Failure.REQUEST: 2,
    Failure.STORE: 3,
    Failure.MODEL: 4,
    Failure.NOT_FOUND: 5,
    Failure.STOPPED: 6,
    Failure.SERVER: 7,
    Failure.UNDECIDED: 7,
}

_KINDS: tuple[tuple[tuple[type[Exception], ...], Failure], ...] = (
    ((UsageError, InvalidSettings, InvalidPolicy, Unusable), Failure.REQUEST),
    ((AmbiguousPrefix, CannotUndo), Failure.REQUEST),
    ((UnknownId,), Failure.NOT_FOUND),
    ((NoStore,), Failure.STORE),
    ((NoModel,), Failure.MODEL),
    ((NoServer, Unreachable), Failure.SERVER),
    ((DecisionTimeout,), Failure.UNDECIDED),
    ((Fatal, Transient), Failure.STOPPED),
)
"""The first match counts: most of these are also Fatal or Transient."""


def failure_of(error: BaseException) -> Failure | None:
    """Return the class of an error; None if it is unexpected."""
    if isinstance(error, DeclinedRequest):
        missing = error.why in {DeclineReason.UNKNOWN, DeclineReason.FORGOTTEN}
        return Failure.NOT_FOUND if missing else Failure.REQUEST
    return next((failure for types, failure in _KINDS if isinstance(error, types)), None)
