"""The status of a service: liveness, what it waits for, and its lag."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from streams.log.kafka.subscribe import Subscription
from streams.log.partitions import Partitions
from streams.model.ports.log import Process
from streams.services.world.health import without_answer
from streams.store.world.metrics import Metrics


@dataclass(frozen=True)
class TopicConsumer:
    """A process on one topic, with the subscription that feeds it, and its partitions.

    Idle partitions are settled every `settle_seconds`.
    """

    process: Process
    subscription: Subscription
    partitions: Partitions
    settle_seconds: int


class ServiceStatus:
    """The status that the service updates and its health endpoint reads.

    `waits` says what the service as a whole waits for, None while it works. `servers` are the
    probes of the servers it uses.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.waits: str | None = "its start"
        self.consumers: list[TopicConsumer] = []
        self.servers: dict[str, Callable[[], Awaitable[object]]] = {}
        self._metrics = metrics

    def is_live(self) -> bool:
        """Return whether the consumer loops run; True while they need not run yet."""
        return self.waits is not None or all(
            consumer.subscription.polling for consumer in self.consumers
        )

    async def waits_for(self) -> Mapping[str, str]:
        """Return what keeps the service from full operation, by part."""
        missing = {} if self.waits is None else {"service": self.waits}
        for consumer in self.consumers:
            topic = consumer.process.topic
            for partition, held in consumer.partitions.held.items():
                if held.waits_for:
                    missing[f"{topic}/{partition}"] = held.waits_for
            if not consumer.partitions.joined:
                missing[topic] = "its partitions"
        return missing or await without_answer(self.servers)

    def collect(self) -> None:
        """Update the gauges."""
        self._metrics.lag.clear()
        for consumer in self.consumers:
            topic = consumer.process.topic
            held = consumer.partitions.held
            waiting = sum(bool(one.waits_for) for one in held.values())
            self._metrics.partitions.labels(topic, "ready").set(len(held) - waiting)
            self._metrics.partitions.labels(topic, "waiting").set(waiting)
            for partition, one in held.items():
                if one.next is not None:
                    behind = consumer.subscription.behind(partition, one.next)
                    self._metrics.lag.labels(topic, str(partition)).set(behind)
