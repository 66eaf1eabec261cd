"""How several workers of one service share a machine."""

from collections.abc import Callable

from streams.embedding import cores
from streams.services.world.workers import fork_workers
from streams.store.app.settings import InvalidSettings, Settings
from streams.store.world.log_lines import name_worker


def as_worker(settings: Settings, count: int, report: Callable[[str], None]) -> Settings:
    """Fork `count` workers; return, in each of them, with its settings.

    This process does not return. Raises InvalidSettings if its index is for one process.
    """
    if not settings.index.kind.shared:
        raise InvalidSettings(
            f"--workers {count}: index.kind {settings.index.kind} is for one process; set "
            "MEMSIEVE_INDEX__KIND=qdrant, or leave --workers out"
        )
    number = fork_workers(count, report)
    name_worker(number)
    return share(settings, number, count)


def share(settings: Settings, number: int, count: int) -> Settings:
    """Return the settings of a worker: a port of its own, and its share of the cores."""
    service, embedder = settings.service, settings.embedder
    port = service.port and service.port + number - 1
    threads = embedder.threads or max(1, cores() // count)
    return settings.model_copy(
        update={
            "service": service.model_copy(update={"port": port}),
            "embedder": embedder.model_copy(update={"threads": threads}),
        }
    )
