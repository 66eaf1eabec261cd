"""Topics for tests that are not those of the registry."""

from collections.abc import Mapping

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams.adapters.kafka.connection import Connection
from streams.adapters.kafka.log import REQUEST_BYTES_MAX


async def make_topics(connection: Connection, topics: Mapping[str, int]) -> None:
    """Create topics of so many partitions each, which take records as large as ours."""
    settings = {"max.message.bytes": str(REQUEST_BYTES_MAX)}
    admin = AIOKafkaAdminClient(**connection.options())
    await admin.start()
    try:
        made = [
            NewTopic(connection.named(name), partitions, 1, topic_configs=settings)
            for name, partitions in topics.items()
        ]
        answer = await admin.create_topics(made)
        assert all(code == 0 for _, code, _ in answer.topic_errors)
    finally:
        await admin.close()
