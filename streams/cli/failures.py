"""How a failure is told, and the exit code that it ends with."""

import traceback

from streams.apps.awaiting import Interrupted
from streams.apps.labelled import Unmeasurable
from streams.apps.settings import InvalidSettings
from streams.cli.console import note
from streams.cli.options import NotFound, Undecided, UsageError
from streams.core.policy import InvalidPolicy
from streams.ports import (
    Fatal,
    NoModel,
    NoServer,
    NoStore,
    Transient,
    Unreachable,
    Unusable,
)

INTERRUPTED = 130


def tell(error: Exception, *, debug: bool) -> int:
    """Tell a failure in one line; return its exit code."""
    code = _exit_code(error)
    if debug:
        traceback.print_exc()
    hint = f" ({type(error).__name__}); --debug shows where" if code == 1 else ""
    note(f"memsieve: {error}{hint}", style="red")
    return code


def tell_interrupted() -> None:
    """Tell that a command was interrupted before it was done."""
    note("memsieve: interrupted; run the same command again to go on", style="red")


def _exit_code(error: Exception) -> int:
    codes: list[tuple[tuple[type[Exception], ...], int]] = [
        ((InvalidSettings, InvalidPolicy, Unmeasurable, UsageError, Unusable), 2),
        ((NoStore,), 3),
        ((NoModel,), 4),
        ((NoServer, Unreachable, Undecided), 7),
        ((NotFound,), 5),
        ((Fatal, Transient), 6),
        ((Interrupted,), INTERRUPTED),
    ]
    return next((code for types, code in codes if isinstance(error, types)), 1)
