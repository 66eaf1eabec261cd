"""`memsieve`: one subcommand per task. Parse, wire, run, print."""

import os
import signal
import sys
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


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    """End at once: libraries turn an interrupt of their import into errors of their own.

    Nothing has to be put away; what a kill leaves, the next run goes on from.
    """
    sys.stderr.write("memsieve: interrupted; run the same command again to continue\n")
    sys.stderr.flush()
    os._exit(130)
