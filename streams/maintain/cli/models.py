"""Commands about the embedding model."""

from typing import Annotated

import typer

from streams.store.app import wiring
from streams.store.cli import options
from streams.store.cli.console import note, tell


def install(
    *,
    model: Annotated[
        str | None, typer.Option("--model", help="An embedding model that fastembed lists.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Install it again if it is installed.")
    ] = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Fetch and check the embedding model; print its directory.

    Commands that need the model do this on first use.
    """
    settings = options.load(config, embedder__model=model)
    path = str(wiring.install_model(settings.embedder, note, force=force))
    tell([path], {"directory": path}, as_json=as_json)
