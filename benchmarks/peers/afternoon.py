"""Dedup as somebody writes it in an afternoon; beside_afternoon.py runs it.

A FastStream subscriber takes one event at a time, embeds its text with fastembed, looks for the
nearest memory of the scope in Qdrant's local mode, and counts it where one is at .85, else stores
it. Each event's decision is published. The libraries' own defaults throughout: offsets are committed
in the background, before anything is known to be stored.
"""

import argparse
import asyncio
import uuid
from pathlib import Path
from typing import Literal

from fastembed import TextEmbedding
from faststream import FastStream
from faststream.kafka import KafkaBroker
from pydantic import BaseModel
from qdrant_client import QdrantClient
from qdrant_client.models import (
    Distance,
    FieldCondition,
    Filter,
    MatchValue,
    PointStruct,
    VectorParams,
)

_COLLECTION = "memories"
_THRESHOLD = 0.85


class Event(BaseModel):
    event_id: str
    scope: str
    text: str


class Decision(BaseModel):
    event_id: str
    kind: Literal["new", "known"]
    memory_id: str


class Memories:
    """The store: one collection, all scopes in it."""

    def __init__(self, path: Path, model: TextEmbedding) -> None:
        self._client = QdrantClient(path=str(path))
        self._model = model
        size = len(self._embedded("How long is a vector?"))
        vectors = VectorParams(size=size, distance=Distance.COSINE)
        self._client.create_collection(_COLLECTION, vectors_config=vectors)

    def decide(self, event: Event) -> Decision:
        vector = self._embedded(event.text)
        of_scope = FieldCondition(key="scope", match=MatchValue(value=event.scope))
        found = self._client.query_points(
            _COLLECTION,
            query=vector,
            query_filter=Filter(must=[of_scope]),
            limit=1,
            score_threshold=_THRESHOLD,
        ).points
        if found:
            nearest = found[0]
            count = (nearest.payload or {})["count"] + 1
            self._client.set_payload(_COLLECTION, {"count": count}, points=[nearest.id])
            return Decision(event_id=event.event_id, kind="known", memory_id=str(nearest.id))
        identity = str(uuid.uuid5(uuid.NAMESPACE_OID, event.event_id))
        payload = {"scope": event.scope, "text": event.text, "count": 1}
        point = PointStruct(id=identity, vector=vector, payload=payload)
        self._client.upsert(_COLLECTION, [point])
        return Decision(event_id=event.event_id, kind="new", memory_id=identity)

    def _embedded(self, text: str) -> list[float]:
        [vector] = self._model.embed([text])
        return vector.tolist()


def main() -> None:
    options = _options()
    model = TextEmbedding(options.model, specific_model_path=str(options.model_path))
    memories = Memories(options.store, model)
    broker = KafkaBroker(options.bootstrap)

    @broker.subscriber(
        options.events, group_id=f"{options.events}-afternoon", auto_offset_reset="earliest"
    )
    @broker.publisher(options.decisions)
    async def decide(event: Event) -> Decision:
        return memories.decide(event)

    asyncio.run(FastStream(broker).run())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--events", required=True, metavar="TOPIC")
    parser.add_argument("--decisions", required=True, metavar="TOPIC")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--model-path", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
