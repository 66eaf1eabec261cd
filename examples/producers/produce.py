# /// script
# requires-python = ">=3.11"
# dependencies = ["aiokafka>=0.14,<0.15"]
# ///
"""Publish what was learnt as events: produce.py HOST:PORT [TOPIC]."""

import asyncio
import json
import sys
from typing import NamedTuple

from aiokafka import AIOKafkaProducer

SECONDS_MAX = 30


class Learnt(NamedTuple):
    scope: str
    session: str
    turn: int
    said_at: str
    text: str

    def event(self) -> dict[str, object]:
        """Return an event. Made again of the same turn it has the same id, and counts once."""
        return {
            "kind": "remember",
            "schema_version": 1,
            "event_id": f"{self.session}/{self.turn}",
            "scope": self.scope,
            "text": self.text,
            "occurred_at": self.said_at,
        }


LEARNT = [
    Learnt("cafe/ana", "chat-7", 1, "2026-03-01T09:00:00Z", "Ana usually orders a flat white."),
    Learnt("cafe/ana", "chat-7", 2, "2026-03-01T09:01:30Z", "Ana is allergic to hazelnuts."),
    Learnt("cafe/ben", "chat-8", 1, "2026-03-01T09:15:00Z", "Ben takes the window seat."),
    Learnt("cafe/eve", "chat-9", 1, "2026-03-02T08:40:00Z", "Eve pays in cash."),
    Learnt("cafe/max", "chat-10", 4, "2026-03-02T12:05:00Z", "Max works at the bakery next door."),
    Learnt("cafe/zoë", "chat-11", 1, "2026-03-03T16:20:00Z", "Zoë comes by on Tuesdays."),
]


async def publish(bootstrap: str, topic: str = "memory.events") -> None:
    """Return when the cluster has every event. Leave the partitioner as it is: it is Java's."""
    async with (
        asyncio.timeout(SECONDS_MAX),
        AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer,
    ):
        sent = [
            await producer.send(
                topic,
                key=learnt.scope.encode(),
                value=json.dumps(learnt.event(), ensure_ascii=False).encode(),
            )
            for learnt in LEARNT
        ]
        await asyncio.gather(*sent)


if __name__ == "__main__":
    asyncio.run(publish(*sys.argv[1:]))
