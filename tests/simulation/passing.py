"""A pass of `memsieve consolidate` over simulated processes that have nothing else to do."""

from collections.abc import Callable, Sequence

from schemas.decisions import Marker, OnEvent
from schemas.events import Consolidate, Event
from schemas.topics import DECISIONS
from streams.consolidate.app.consolidating import Consolidation, ScopeSelection
from streams.consolidate.world import Passes
from streams.model.ports.index import Index
from streams.stage.flow.decisions import DecisionsReader
from streams.store.app.client import Response
from streams.store.app.product_settings import ConsolidateSettings
from tests.builders import judging
from tests.fakes.clock import StandingClock
from tests.simulation.asking import record
from tests.simulation.cluster import Cluster, at_once

_ALL = 1_000_000
_SETTINGS = ConsolidateSettings(quiet_minutes=0, hours_min=0, seconds_max=_ALL)


def consolidate(cluster: Cluster, settle: Callable[[], None]) -> None:
    """Make one pass over all scopes; `settle` lets the processes do what is asked of them."""
    clock = StandingClock()
    clock.move(_ALL + cluster.turns)
    place = _AtRest(cluster, settle)
    made = Consolidation(place, cluster.rule.policy, judging(), _SETTINGS, Passes(None), clock)
    at_once(made.run(ScopeSelection(now=True)))


class _AtRest:
    """Implements Client over processes that are at rest."""

    attempts_left = 0

    def __init__(self, cluster: Cluster, settle: Callable[[], None]) -> None:
        self._cluster = cluster
        self._settle = settle

    async def index(self) -> Index:
        return self._cluster.index

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        wishes = [one for one in events if isinstance(one, Consolidate)]
        asked = [record(one, self._cluster.partitions) for one in wishes]
        await self._cluster.append("consolidation", asked)
        self._settle()
        made = await self._decided()
        return [Response(one, made.get(one.event_id)) for one in events]

    async def _decided(self) -> dict[str, OnEvent]:
        """Return the newest decision that counts on each event id."""
        found: dict[str, OnEvent] = {}
        for partition in range(self._cluster.partitions):
            records = await self._cluster.log.read(DECISIONS.name, partition, 0, _ALL)
            for one in (logged.decision for logged in DecisionsReader().window(records)):
                if not isinstance(one, Marker):
                    found[one.event.event_id] = one
        return found
