"""Events through `memsieve service serve`, with new topics and a new process for each round."""

import asyncio
import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from streams.publish.app import publisher
from streams.stage.core.mapping import FieldMapping
from streams.store.app import settings
from streams.store.world.files import FileSource
from tests.support.servers.kafka import NativeKafka, NoBroker
from tests.support.servers.services import Installation, Running

PARTITIONS = 3
_PAUSE_SECONDS = 0.02


@contextmanager
def broker() -> Generator[str | None]:
    """Yield the address of KAFKA_BOOTSTRAP or of a broker started here; None without Java."""
    named = os.environ.get("KAFKA_BOOTSTRAP")  # noqa: TID251 - the switch that the tests have
    if named:
        yield named
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        try:
            started = NativeKafka(Path(directory))
            started.start()
        except NoBroker as none:
            print(f"without Kafka: {none}")
            yield None
            return
        try:
            yield started.bootstrap
        finally:
            started.stop()


def installed(
    directory: Path, bootstrap: str, name: str, partitions: int = PARTITIONS, **settings: str
) -> tuple[Installation, str]:
    """Create an installation with its own topics; return it with their prefix."""
    prefix = f"bench-{name}."
    installation = Installation.on(directory, bootstrap, prefix, **settings)
    installation.memsieve("service", "topics", "create", "--partitions", str(partitions))
    return installation, prefix


@contextmanager
def serving(bootstrap: str, name: str) -> "Generator[Served]":
    """Run `memsieve service serve`, and yield once it is ready for events."""
    with tempfile.TemporaryDirectory() as directory:
        installation, prefix = installed(Path(directory), bootstrap, name)
        with installation.running("serve") as service:
            service.wait_until_ready()
            yield Served(service, bootstrap, prefix)
            service.stop()


def publish(file: Path, bootstrap: str, prefix: str) -> None:
    """Publish the events of a file, as `memsieve publish` does."""
    chosen = settings.load({"kafka": {"bootstrap": bootstrap, "prefix": prefix}})

    async def work() -> None:
        async with publisher(chosen) as target:
            await target.publish(FileSource(str(file)), FieldMapping(), 0, lambda _: None)

    asyncio.run(work())


class Served:
    """A running service that waits for events."""

    def __init__(self, service: Running, bootstrap: str, prefix: str) -> None:
        self._service = service
        self._bootstrap = bootstrap
        self.prefix = prefix

    def run(self, file: Path, count: int) -> None:
        """Publish a file, and return once `count` events in total are decided on and applied."""
        publish(file, self._bootstrap, self.prefix)
        while self._applied() < count:
            time.sleep(_PAUSE_SECONDS)

    def _applied(self) -> float:
        """Return the decisions that the writer has applied: the records it read, minus fences."""
        read = self._service.metric("memsieve_batch_records_sum", topic="memory.decisions")
        return read - self._service.metric("memsieve_fences_total")
