"""The exceptions: one family, each with one line that says what to do."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from memsieve.fields import EventFields
from streams.memory.app.problems import first_problem
from streams.store.app.failures import (
    DeclinedRequest,
    DeclineReason,
    Failure,
    UsageError,
    failure_of,
)

_Record = TypeVar("_Record", bound=BaseModel)


class MemsieveError(Exception):
    """The base of all exceptions of memsieve; the message is one line for people."""


class InvalidRequest(MemsieveError, ValueError):
    """The request is invalid. `field` names the argument or setting, if one is at fault."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class ConflictError(InvalidRequest):
    """An id was used for another text, or a request does not fit a memory's current state."""


class NotAllowed(MemsieveError):
    """The API does not accept the token, or the token does not cover the request."""


class NotFound(MemsieveError, LookupError):
    """The id is unknown."""


class StoreError(MemsieveError):
    """The store is closed, open elsewhere, damaged, full, or made for another model."""


class ModelError(MemsieveError):
    """The embedding model is missing, damaged or unknown."""


class ServerError(MemsieveError):
    """A configured server does not answer, or rejects the request."""


class Undecided(ServerError):
    """A cluster's services have not decided in time; the request stays queued."""


class Busy(ServerError):
    """The API is busy: repeat the request after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Stopped(MemsieveError):
    """Continuing would lose or damage data; a person has to act."""


_CLASSES: Mapping[Failure, type[MemsieveError]] = {
    Failure.REQUEST: InvalidRequest,
    Failure.NOT_FOUND: NotFound,
    Failure.STORE: StoreError,
    Failure.MODEL: ModelError,
    Failure.SERVER: ServerError,
    Failure.UNDECIDED: Undecided,
    Failure.STOPPED: Stopped,
}


_UNKNOWN = f"is not a field of an event; there are {', '.join(sorted(EventFields.__annotations__))}"


@contextmanager
def translated() -> Generator[None]:
    """Raise what fails in here as one of the family; what nobody foresaw stays as it is."""
    try:
        yield
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        if isinstance(error, DeclinedRequest) and error.why is DeclineReason.CONFLICT:
            raise ConflictError(str(error), error.field) from error
        if isinstance(error, DeclinedRequest | UsageError) and failure is Failure.REQUEST:
            raise InvalidRequest(str(error), error.field) from error
        raise _CLASSES[failure](str(error)) from error


@contextmanager
def checked(place: str = "") -> Generator[None]:
    """Raise what pydantic refuses in here as InvalidRequest, by its field.

    `place` is put before the field. Without the value, which may be what somebody wants kept.
    """
    try:
        yield
    except ValidationError as error:
        field, said = first_problem(error, _UNKNOWN)
        at = f"{place}{field}".removesuffix(".")
        raise InvalidRequest(f"{at}: {said}" if at else said, at or None) from None


def valid(kind: type[_Record], fields: Mapping[str, object]) -> _Record:
    """Make a record of arguments that were given. Raises InvalidRequest, naming the argument."""
    with checked():
        return kind.model_validate(fields)
