"""`memsieve service mcp`: memories as tools of an agent, over the Model Context Protocol."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from schemas.base import Scope, ScopeName
from streams.memory.app.problems import first_problem
from streams.store.app.failures import UsageError
from streams.store.cli import options
from streams.store.world.extras import require


def mcp(
    *,
    scope: Annotated[
        str | None,
        typer.Option(
            "--scope", help="Limit the tools to this scope; otherwise each call names one."
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http", metavar="HOST:PORT", help="Serve streamable HTTP there. [standard input]"
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", metavar="FILE", help="With --http: accepted tokens, as TOML."),
    ] = None,
    store: options.Store = None,
    policy: options.Policy = None,
    config: options.Config = None,
) -> None:
    """Serve memories as tools of an agent over MCP, until stopped.

    This is the one process that writes the store. An agent starts it and uses standard input and
    output; with --http, several agents share it, at the path /mcp. Needs memsieve[mcp].
    """
    require("mcp", "the MCP server")
    from streams.mcp.app import server  # noqa: PLC0415
    from streams.store.world.log_lines import log_lines, run_logged  # noqa: PLC0415 - only here is all this needed

    if tokens is not None and http is None:
        raise UsageError("--tokens requires --http: one agent at standard input needs none")
    fixed = None if scope is None else _exact(scope)
    settings = options.load(config, store=store, policy=policy, api__tokens=tokens)
    log = log_lines("mcp")
    if http is None:
        run_logged(server.over_stdio(settings, fixed, log.log), log)
    else:
        host, port = server.place(http)
        run_logged(server.over_http(settings, fixed, host, port, log.log), log)


def _exact(scope: str) -> ScopeName:
    try:
        return TypeAdapter[ScopeName](Scope).validate_python(scope)
    except ValidationError as error:
        _, said = first_problem(error, "")
        raise UsageError(f"--scope {said}") from None
