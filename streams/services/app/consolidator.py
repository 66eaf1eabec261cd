"""The consolidation service: a periodic pass over the scopes that are due."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from schemas.topics import DECISIONS
from streams.consolidate.app.consolidated import ConsolidationPass
from streams.consolidate.app.consolidating import ScopeSelection, consolidation
from streams.model.ports.failures import Transient
from streams.services.world.health import endpoints
from streams.store.app import wiring
from streams.store.app.embedding import policy_of
from streams.store.app.reading import LogTarget
from streams.store.app.settings import Settings
from streams.store.world.metrics import ConsolidationMetrics
from streams.store.world.signals import stop_signal


class Consolidator:
    """Makes passes alongside the services on Kafka, until it is stopped.

    It proposes and the deduplicators decide: several consolidators duplicate work but do no harm.
    """

    def __init__(
        self, settings: Settings, *, report: Callable[[str], None], warn: Callable[[str], None]
    ) -> None:
        """`report` receives progress lines, `warn` lines that a person should look at."""
        self._settings = settings
        self._report = report
        self._warn = warn
        self._retry = wiring.retry(settings.retry)
        self._metrics = ConsolidationMetrics()
        self._waits: str | None = "its first pass"

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT; raises errors that a retry cannot fix."""
        connection = wiring.connection(self._settings.kafka)  # fails before anything is waited for
        policy = policy_of(LogTarget.of_cluster(self._settings))
        self._metrics.identify(policy=policy.id, log=connection.named(DECISIONS.name))
        service = self._settings.service
        with stop_signal() as stop:
            async with endpoints(
                service.host,
                service.port,
                waits_for=self._waits_for,
                metrics=self._metrics,
            ) as port:
                self._report(f"health and metrics on port {port}")
                working = asyncio.create_task(self._work())
                await asyncio.wait({working, stop}, return_when=asyncio.FIRST_COMPLETED)
                self._report("stopping")
                working.cancel()  # proposals already published will still be decided on
                with suppress(asyncio.CancelledError):
                    await working
        self._report("stopped")

    async def _waits_for(self) -> Mapping[str, str]:
        return {} if self._waits is None else {"service": self._waits}

    async def _work(self) -> None:
        """Make passes in a loop; retry with back-off if a server does not answer."""
        attempt = 0
        while True:
            try:
                async with consolidation(
                    LogTarget.of_cluster(self._settings), dry_run=False, report=self._report
                ) as opened:
                    while True:
                        self._tell(await opened.run(ScopeSelection()))
                        self._waits, attempt = None, 0
                        await asyncio.sleep(self._settings.consolidate.minutes * 60)
            except Transient as error:
                attempt += 1
                delay = self._retry.delay(attempt)
                self._waits = str(error)
                self._warn(f"{error}; trying again in {delay:.1f} s")
                await asyncio.sleep(delay)

    def _tell(self, done: ConsolidationPass) -> None:
        told = done.as_json()
        self._metrics.passed(told)
        self._report(
            f"{len(done.scopes):,} scopes consolidated, {len(done.skipped):,} left alone: "
            f"{told['memories_before']:,} memories, {told['memories_after']:,} afterwards, "
            f"{done.groups:,} groups joined in {done.seconds:.1f} s"
        )
        for alert in done.alerts:
            self._warn(alert)
