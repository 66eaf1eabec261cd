"""What a failure means to whoever asked: the exit codes of commands follow from it."""

from enum import StrEnum, auto

from streams.apps.reading import Ambiguous
from streams.apps.settings import InvalidSettings
from streams.core.lineage import CannotUndo
from streams.core.policy import InvalidPolicy
from streams.ports import Fatal, NoModel, NoServer, NoStore, Transient, Unreachable, Unusable


class UsageError(Exception):
    """What was asked for cannot be done as asked."""


class NotFound(Exception):
    """Nothing has the id that was asked for."""


class Failure(StrEnum):
    """What failed: the request itself, or one of the things that it needs."""

    REQUEST = auto()
    NOT_FOUND = auto()
    STORE = auto()
    MODEL = auto()
    SERVER = auto()
    STOPPED = auto()


_KINDS: tuple[tuple[tuple[type[Exception], ...], Failure], ...] = (
    ((UsageError, InvalidSettings, InvalidPolicy, Unusable), Failure.REQUEST),
    ((Ambiguous, CannotUndo), Failure.REQUEST),
    ((NotFound,), Failure.NOT_FOUND),
    ((NoStore,), Failure.STORE),
    ((NoModel,), Failure.MODEL),
    ((NoServer, Unreachable), Failure.SERVER),
    ((Fatal, Transient), Failure.STOPPED),
)
"""The first that fits counts: most of these are Fatal or Transient, too."""


def failure_of(error: BaseException) -> Failure | None:
    """Return what an error means; None where nobody foresaw it."""
    return next((failure for types, failure in _KINDS if isinstance(error, types)), None)
