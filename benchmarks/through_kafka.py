"""Events through `memsieve serve`: a broker, topics and a process of their own for each round."""

import asyncio
import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from streams.adapters.files import FileSource
from streams.apps import settings
from streams.apps.publishing import publisher
from streams.apps.settings import Settings
from streams.core.mapping import FieldMapping
from tests.support.kafka import NativeKafka, NoBroker
from tests.support.services import Installation, Running

_PARTITIONS = 3
_PAUSE_SECONDS = 0.02


@contextmanager
def broker() -> Generator[str | None]:
    """Give a broker's address: that of KAFKA_BOOTSTRAP, or one started here; None without Java."""
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


@contextmanager
def serving(bootstrap: str, name: str) -> "Generator[Served]":
    """Run `memsieve serve`, ready for its first event."""
    with tempfile.TemporaryDirectory() as directory:
        installation = Installation.on(Path(directory), bootstrap, f"bench-{name}.")
        installation.memsieve("topics", "create", "--partitions", str(_PARTITIONS))
        with installation.running("serve") as service:
            service.wait_until_ready()
            yield Served(service, _settings(bootstrap, f"bench-{name}."))
            service.stop()


class Served:
    """A service that waits for events."""

    def __init__(self, service: Running, chosen: Settings) -> None:
        self._service = service
        self._settings = chosen

    def run(self, file: Path, count: int) -> None:
        """Publish a file, and return once every event is decided on and applied."""
        asyncio.run(self._publish(file))
        while self._applied() < count:
            time.sleep(_PAUSE_SECONDS)

    def _applied(self) -> float:
        return self._service.metric("memsieve_batch_records_sum", topic="memory.decisions")

    async def _publish(self, file: Path) -> None:
        async with publisher(self._settings) as target:
            await target.publish(FileSource(str(file)), FieldMapping(), 0, lambda _: None)


def _settings(bootstrap: str, prefix: str) -> Settings:
    return settings.load({"kafka": {"bootstrap": bootstrap, "prefix": prefix}})
