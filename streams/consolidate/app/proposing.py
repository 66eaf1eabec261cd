"""Proposals to join memories; each is decided on only once if that can be looked up."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.events import Event
from streams.model.identity import decision_id
from streams.model.ports.index import Index
from streams.store.app.client import Client, Response
from streams.store.app.reading import StoreReader


@dataclass(frozen=True)
class OnceClient:
    """Implements Client: an event that was decided on before is not submitted again."""

    client: Client
    reader: StoreReader
    attempts_left = 0

    async def index(self) -> Index:
        return await self.client.index()

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        ids = [decision_id(one.scope, one.event_id) for one in events]
        known = await self.reader.on_events(ids)
        new = [one for identity, one in zip(ids, events, strict=True) if identity not in known]
        made = {one.event.event_id: one for one in await self.client.submit(new)}
        return [
            made.get(event.event_id) or Response(event, known[identity])
            for identity, event in zip(ids, events, strict=True)
        ]
