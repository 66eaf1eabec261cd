"""Commands about the embedding model."""

from typing import Annotated

import typer

from streams.store.app import wiring
from streams.store.cli import options
from streams.store.cli.console import note, say


def install(
    *,
    model: Annotated[
        str | None, typer.Option("--model", help="An embedding model that fastembed lists.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Reinstall what is installed.")] = False,
    config: options.Config = None,
) -> None:
    """Fetch and check the embedding model; print its directory.

    Commands that need the model do this on first use.
    """
    settings = options.load(config, embedder__model=model)
    path = wiring.install_model(settings.embedder, note, force=force)
    say(str(path))
