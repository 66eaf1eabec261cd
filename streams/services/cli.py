"""Commands that run as services on Kafka: extractor, deduplicator, writer, serve, consolidator."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from streams.store.app.settings import Settings
from streams.store.cli import options
from streams.store.world.extras import require

Port = Annotated[
    int | None,
    typer.Option("--port", min=0, max=65_535, help="Port of health and metrics; 0: any. [8080]"),
]

Llm = Annotated[
    bool,
    typer.Option("--llm", help="Let the configured language model write memories of turns."),
]


Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        min=1,
        help="Processes that share partitions and cores; the Nth has the port N - 1 higher.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """The options of every service. Each field is an option; see main/groups.py."""

    kafka: options.Kafka = None
    port: Port = None
    config: options.Config = None

    def settings(self, **flags: Any) -> Settings:  # noqa: ANN401 - typer's values
        """Return the settings. Raises Unusable if the packages of the services are missing."""
        require("kafka", "a service")
        return options.load(
            self.config, kafka__bootstrap=self.kafka, service__port=self.port, **flags
        )


def deduplicator(*, policy: options.Policy = None, where: ServiceOptions) -> None:
    """Decide on events and publish the decisions, until stopped.

    Start up to one per partition; they share the work. Needs index.kind = qdrant.
    """
    _run("deduplicator", where.settings(policy=policy))


def writer(*, where: ServiceOptions) -> None:
    """Apply decisions to the index and publish changes, until stopped.

    Needs index.kind = qdrant.
    """
    _run("writer", where.settings())


def extractor(*, llm: Llm = False, where: ServiceOptions) -> None:
    """Extract events from turns and publish them, until stopped.

    Works as `extract` does with files. With a language model it needs index.kind = qdrant, because
    the model must see the existing memories.
    """
    _run("extractor", where.settings(extraction__llm=llm or None), extracts=True)


def consolidator(*, policy: options.Policy = None, where: ServiceOptions) -> None:
    """Consolidate the scopes that are due, until stopped.

    Works as `consolidate` does. Run only one, with the policy of the deduplicators.
    """
    settings = where.settings(policy=policy)
    from streams.services.app.consolidator import Consolidator  # noqa: PLC0415
    from streams.store.world.log_lines import log_lines, run_logged  # noqa: PLC0415 - only services need all this

    log = log_lines("consolidator")
    run_logged(Consolidator(settings, report=log.info, warn=log.warning).run(), log)


def serve(
    *,
    policy: options.Policy = None,
    store: options.Store = None,
    workers: Workers = 1,
    extract: Annotated[
        bool, typer.Option("--extract", help="Also extract events from turns, as `extractor` does.")
    ] = False,
    llm: Llm = False,
    where: ServiceOptions,
) -> None:
    """Decide and apply in one process, or with --workers in several on one machine.

    With index.kind edge or exact, start only one: each process would have an index of its own.
    """
    if llm and not extract:
        raise options.UsageError("--llm is for turns: give --extract too")
    settings = where.settings(policy=policy, store=store, extraction__llm=llm or None)
    _run("serve", settings, extracts=extract, workers=workers)


def _run(name: str, settings: Settings, *, extracts: bool = False, workers: int = 1) -> None:
    from streams.services.app.sharing import as_worker  # noqa: PLC0415
    from streams.store.world.log_lines import log_lines, run_logged  # noqa: PLC0415

    log = log_lines(name)
    if workers > 1:
        settings = as_worker(settings, workers, log.info)
    from streams.services.app.services import Roles, Service  # noqa: PLC0415 - only services need all this

    roles = Roles(name, extracts=extracts)
    run_logged(Service(settings, roles, report=log.info, warn=log.warning).run(), log)
