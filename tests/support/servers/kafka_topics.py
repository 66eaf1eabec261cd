"""An admin client for tests, and topics that are not those of the registry."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams.log.kafka.connection import Connection
from streams.log.kafka.log import REQUEST_BYTES_MAX


@asynccontextmanager
async def administered(connection: Connection) -> AsyncGenerator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**connection.options())
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def make_topics(connection: Connection, topics: Mapping[str, int]) -> None:
    """Create topics of so many partitions each, which take records as large as ours."""
    settings = {"max.message.bytes": str(REQUEST_BYTES_MAX)}
    made = [
        NewTopic(connection.named(name), partitions, 1, topic_configs=settings)
        for name, partitions in topics.items()
    ]
    async with administered(connection) as admin:
        answer = await admin.create_topics(made)
        assert all(code == 0 for _, code, _ in answer.topic_errors)
        # The broker answers before it has learnt of a new topic itself.
        while not await _are_there(admin, [connection.named(name) for name in topics]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _are_there(admin: AIOKafkaAdminClient, names: Sequence[str]) -> bool:
    found = await admin.describe_topics(names)
    return all(topic["error_code"] == 0 and topic["partitions"] for topic in found)
