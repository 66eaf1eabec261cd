"""Commands that run as services on Kafka: deduplicator, writer, serve."""

import asyncio
from typing import Annotated, Any

import typer

from streams.cli import options

Port = Annotated[
    int | None,
    typer.Option("--port", min=0, max=65_535, help="Of health and metrics; 0: any. [8080]"),
]


def register(app: typer.Typer) -> None:
    app.command(name="deduplicator")(deduplicator)
    app.command(name="writer")(writer)
    app.command(name="serve")(serve)


def deduplicator(
    *,
    kafka: options.Kafka = None,
    port: Port = None,
    policy: options.Policy = None,
    config: options.Config = None,
) -> None:
    """Decide on the events of memory.events and publish the decisions, until stopped.

    Start as many as there are partitions; they share the work. Needs index.kind = qdrant.
    """
    _run("deduplicator", kafka, port, config, policy=policy)


def writer(
    *, kafka: options.Kafka = None, port: Port = None, config: options.Config = None
) -> None:
    """Apply the decisions to the index and publish what changed, until stopped.

    Needs index.kind = qdrant.
    """
    _run("writer", kafka, port, config)


def serve(
    *,
    kafka: options.Kafka = None,
    port: Port = None,
    policy: options.Policy = None,
    store: options.Store = None,
    config: options.Config = None,
) -> None:
    """Do both in one process: right for small installations, and for an index that is no server.

    With index.kind edge or exact start only one: each would have an index of its own.
    """
    _run("serve", kafka, port, config, policy=policy, store=store)


def _run(
    name: str,
    kafka: str | None,
    port: int | None,
    config: Any,  # noqa: ANN401 - see options.Config
    **flags: Any,  # noqa: ANN401 - typer's values
) -> None:
    from streams.adapters.telemetry import log_lines  # noqa: PLC0415 - only services need all this
    from streams.apps.services import Roles, Service  # noqa: PLC0415

    settings = options.load(config, kafka__bootstrap=kafka, service__port=port, **flags)
    log = log_lines(name)
    roles = Roles(deduplicates=name != "writer", writes=name != "deduplicator")
    asyncio.run(Service(settings, roles, report=log.info, warn=log.warning).run())
