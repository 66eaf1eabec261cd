"""Commands for producers and consumers in other languages."""

from pathlib import Path
from typing import Annotated

import typer

from streams.maintain.app import contracts
from streams.store.cli.console import say
from streams.store.cli.options import UsageError


def export(
    directory: Annotated[Path, typer.Argument(help="The output directory.")],
) -> None:
    """Write JSON Schemas of all records, and an AsyncAPI document."""
    try:
        written = contracts.write(directory)
    except OSError as error:
        raise UsageError(f"{directory} cannot be written: {error.strerror}") from error
    for path in written:
        say(str(path))
