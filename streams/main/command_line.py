"""The command line: its subcommands, exit codes and error messages."""

import logging
import sys
from importlib import metadata
from typing import Annotated

import typer
from typer.exceptions import TyperException

from streams.main import error_json
from streams.main.groups import Commands

EXIT_CODES = {
    0: "done",
    1: "an internal error in memsieve; --debug shows where",
    2: "invalid command, setting, policy or input file, or no usable row",
    3: "the store, index or topics are busy, damaged, full, missing or incompatible",
    4: "the embedding model is missing, damaged or unknown",
    5: "no item has the given id",
    6: "stopped: continuing would lose or damage data",
    7: "a server does not answer or rejects the request",
    8: "check --full found problems",
    9: "extract set turns aside",
    130: "interrupted; the message says if the same command continues",
}

_INTERRUPTED = 130

app = typer.Typer(
    name="memsieve",
    cls=Commands,
    help="Streaming dedup for the memories of AI agents: one explained decision per event.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: " + "; ".join(f"{code} {text}" for code, text in EXIT_CODES.items()) + ".",
)


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        typer.echo(f"memsieve {metadata.version('memsieve')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del debug, version  # read by main(), and by its callback


def main() -> None:
    """Run the command line; tell every failure in one line and by the exit code.

    With --json, that line is an object.
    """
    debug, as_json = "--debug" in sys.argv, "--json" in sys.argv
    if not debug:  # the client tells of each attempt; we tell once, with what to do
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        code = app(standalone_mode=False) or 0
    except TyperException as error:
        code = 2
        tell = getattr(error, "show", None)  # all of typer's own have it; their base class has not
        if as_json:
            sys.stderr.write(error_json(error.format_message(), code))
        else:
            tell() if callable(tell) else sys.stderr.write(f"memsieve: {error}\n")
    except Exception as error:  # noqa: BLE001 - the last place that can tell a person
        from streams.main import failures  # noqa: PLC0415 - knows what can fail: most of memsieve

        code = failures.tell(error, debug=debug, as_json=as_json)
    else:
        if code == _INTERRUPTED:
            from streams.main import failures  # noqa: PLC0415

            failures.tell_interrupted()
    sys.exit(code)
