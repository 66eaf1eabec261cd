"""The message and the exit code of a failure."""

import sys
import traceback

from streams.lab.app.labelled import Unmeasurable
from streams.main import error_json, interrupted
from streams.store.app.cluster_client import Interrupted
from streams.store.app.failures import failure_of
from streams.store.cli.console import note

INTERRUPTED = 130


def tell(error: Exception, *, debug: bool, as_json: bool) -> int:
    """Tell a failure in one line, for a person or as JSON; return its exit code."""
    code = _exit_code(error)
    if debug:
        traceback.print_exc()
    hint = f" ({type(error).__name__}); --debug shows where" if code == 1 else ""
    message = f"{error}{hint}"
    if as_json:
        sys.stderr.write(error_json(message, code))
    else:
        note(f"memsieve: {message}", style="red")
    return code


def tell_interrupted() -> None:
    """Tell that a command was interrupted before it was done."""
    note(interrupted(sys.argv[1:]), style="red")


def _exit_code(error: Exception) -> int:
    if (failure := failure_of(error)) is not None:
        return failure.exit_code
    if isinstance(error, Unmeasurable):
        return 2
    return INTERRUPTED if isinstance(error, Interrupted) else 1
