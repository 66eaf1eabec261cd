"""`memsieve`: one subcommand per task. Parse, wire, run, print."""

import json
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType


def main() -> None:
    """Start the command line. The imports take a moment, in which Ctrl-C must work as well."""
    signal.signal(signal.SIGINT, _interrupted)
    # Read when numpy is imported. Its threads spin between two small products, of which a pass over
    # many scopes makes thousands: that takes a core from the encoder and from everybody else.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # noqa: TID251 - numpy asks nowhere else
    from streams.main.collector import search_seldom  # noqa: PLC0415
    from streams.main.command_line import main as start  # noqa: PLC0415 - see above

    search_seldom()
    start()


_CONTINUED = (
    "run",
    "extract",
    "undo",
    "forget",
    "consolidate",
    "store scrub",
    "store replay",
    "dead-letters requeue",
    "memories-md import",
    "model install",
)
"""The commands that keep what they have done, and then do the rest."""


def interrupted(arguments: Sequence[str]) -> str:
    """Return the message of a command that was interrupted; what a pipe has given is gone."""
    called = " ".join(one for one in arguments if one != "--debug")
    continues = called.startswith(_CONTINUED) and "-" not in arguments
    more = "; run the same command again to continue" if continues else ""
    return f"memsieve: interrupted{more}"


def error_json(message: str, code: int) -> str:
    """Return the line that tells a program of a failure."""
    return json.dumps({"error": message, "exit_code": code}) + "\n"


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    """End at once: libraries turn an interrupt of their import into errors of their own.

    Nothing has to be put away; what a kill leaves, the next run goes on from.
    """
    sys.stderr.write(f"{interrupted(sys.argv[1:])}\n")
    sys.stderr.flush()
    os._exit(130)
