"""Commands for producers and consumers in other languages."""

from pathlib import Path
from typing import Annotated

import typer

from streams.maintain.app import contracts
from streams.store.cli import options
from streams.store.cli.console import tell


def export(
    directory: Annotated[Path, typer.Argument(help="The output directory.")],
    *,
    as_json: options.AsJson = False,
) -> None:
    """Write JSON Schemas of all records, and an AsyncAPI document."""
    try:
        written = contracts.write(directory)
    except OSError as error:
        raise options.UsageError(f"{directory} cannot be written: {error.strerror}") from error
    paths = [str(path) for path in written]
    tell(paths, paths, as_json=as_json)
