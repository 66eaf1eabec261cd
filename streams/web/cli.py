"""`memsieve service web`: serves the web page."""

from pathlib import Path
from typing import Annotated

import typer

from streams.store.cli import options
from streams.store.world.extras import require


def web(
    *,
    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens", metavar="FILE", help="The tokens that may log in, as TOML. [api.tokens]"
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Address to serve on. [127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65_535, help="The port; 0: any. [8091]"),
    ] = None,
    policy: options.Policy = None,
    where: options.LogOptions,
) -> None:
    """Serve the web pages to review and explore, until stopped.

    With --store, this is the one process that writes the store. With --kafka, it publishes the
    answers, and the services decide. Needs memsieve[web].
    """
    require("web", "the page")
    from streams.api.app.serving import serve  # noqa: PLC0415
    from streams.store.world.log_lines import log_lines, run_logged  # noqa: PLC0415 - only here is all this needed
    from streams.web.app.app import served  # noqa: PLC0415

    source = where.source(policy=policy, api__tokens=tokens, web__host=host, web__port=port)
    log = log_lines("web")
    app = served(source, log.log)
    run_logged(serve(source, app, report=log.info, warn=log.warning), log)
