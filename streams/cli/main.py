"""The command line as a whole: its subcommands, its exit codes, and how errors are told."""

import logging
import sys
import traceback
from importlib import metadata
from typing import Annotated

import typer
from typer.exceptions import TyperException

from streams.apps.awaiting import Interrupted
from streams.apps.labelled import Unmeasurable
from streams.apps.settings import InvalidSettings
from streams.cli import (
    analyze,
    api,
    calibrate,
    capacity,
    clean,
    configuration,
    consolidate,
    dead_letters,
    dedupe,
    evaluate,
    expire,
    extract,
    forget,
    history,
    load,
    memories_md,
    models,
    optimize,
    policies,
    publish,
    recall,
    replay,
    requests,
    reviews,
    run,
    schema,
    services,
    sessions,
    shadow,
    stores,
    topics,
    undo,
    verify,
)
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

EXIT_CODES = {
    0: "done",
    1: "an error in memsieve itself; --debug shows where",
    2: "the command, a setting, a policy or an input file cannot be used",
    3: "the store, index or topics are busy, damaged, full, missing, or made for something else",
    4: "the embedding model is missing, damaged or unknown",
    5: "nothing has the id that was asked for",
    6: "stopped: going on would lose or damage something",
    7: "a server does not answer, or refuses us",
    8: "verify found what must not be",
    9: "extract set turns aside",
    130: "interrupted; the next run goes on from there",
}

_INTERRUPTED = 130

app = typer.Typer(
    name="memsieve",
    help="Streaming dedup for the memories of AI agents: one explained decision per event.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: " + "; ".join(f"{code} {text}" for code, text in EXIT_CODES.items()) + ".",
)
run.register(app)
services.register(app)
api.register(app)
publish.register(app)
topics.register(app)
stores.register(app)
memories_md.register(app)
recall.register(app)
load.register(app)
sessions.register(app)
expire.register(app)
consolidate.register(app)
dead_letters.register(app)
reviews.register(app)
history.register(app)
undo.register(app)
requests.register(app)
forget.register(app)
replay.register(app)
shadow.register(app)
extract.register(app)
evaluate.register(app)
calibrate.register(app)
analyze.register(app)
capacity.register(app)
clean.register(app)
dedupe.register(app)
optimize.register(app)
policies.register(app)
configuration.register(app)
verify.register(app)
models.register(app)
schema.register(app)


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        typer.echo(f"memsieve {metadata.version('memsieve')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del debug, version  # read by main(), and by its callback


def main() -> None:
    """Run the command line; tell every failure in one line and by the exit code."""
    debug = "--debug" in sys.argv
    if not debug:  # the client tells of each attempt; we tell once, with what to do
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        code = app(standalone_mode=False) or 0
        if code == _INTERRUPTED:
            note("memsieve: interrupted; run the same command again to go on", style="red")
        sys.exit(code)
    except TyperException as error:
        tell = getattr(error, "show", None)  # all of typer's own have it; their base class has not
        tell() if callable(tell) else note(f"memsieve: {error}", style="red")
        sys.exit(2)
    except Exception as error:  # noqa: BLE001 - the last place that can tell a person
        code = exit_code(error)
        if debug:
            traceback.print_exc()
        hint = f" ({type(error).__name__}); --debug shows where" if code == 1 else ""
        note(f"memsieve: {error}{hint}", style="red")
        sys.exit(code)


def exit_code(error: Exception) -> int:
    """Return the exit code of a failure."""
    codes: list[tuple[tuple[type[Exception], ...], int]] = [
        ((InvalidSettings, InvalidPolicy, Unmeasurable, UsageError, Unusable), 2),
        ((NoStore,), 3),
        ((NoModel,), 4),
        ((NoServer, Unreachable, Undecided), 7),
        ((NotFound,), 5),
        ((Fatal, Transient), 6),
        ((Interrupted,), _INTERRUPTED),
    ]
    return next((code for types, code in codes if isinstance(error, types)), 1)
