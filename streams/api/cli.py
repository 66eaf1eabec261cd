"""`memsieve service api`: memories over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from streams.store.cli import options
from streams.store.world.extras import require


def api(
    *,
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", metavar="FILE", help="The accepted tokens, as TOML."),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Address to serve on. [127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65_535, help="The port; 0: any. [8090]"),
    ] = None,
    policy: options.Policy = None,
    where: options.LogOptions,
) -> None:
    """Serve memories over HTTP, until stopped.

    With --store, this is the one process that writes the store, and it decides before it answers.
    With --kafka, it publishes the requests, and the services decide. Needs memsieve[api].
    """
    require("api", "the API")
    from streams.api.app.application import served  # noqa: PLC0415
    from streams.api.app.serving import serve  # noqa: PLC0415
    from streams.store.world.log_lines import log_lines, run_logged  # noqa: PLC0415 - only here is all this needed

    source = where.source(policy=policy, api__tokens=tokens, api__host=host, api__port=port)
    log = log_lines("api")
    app = served(source.settings, log.log)
    run_logged(serve(source, app, report=log.info, warn=log.warning), log)
