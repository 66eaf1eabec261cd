"""Encodes the next batch's new texts while the current batch is being decided.

A wrong guess costs nothing: the decisions are made later, on what is known by then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic_core import from_json

from schemas.base import TEXT_MAX, EventId, ScopeName
from schemas.topics import EVENTS
from streams.model.identity import content_key, decision_id
from streams.model.ports.index import DecidedEvents, Index
from streams.model.ports.log import OutgoingRecord
from streams.model.ports.models import PrefetchingEmbedder


@dataclass(frozen=True)
class Prefetcher:
    """Finds the texts that neither index nor log knows, and passes them to the embedder."""

    embedder: PrefetchingEmbedder
    index: Index
    decided: DecidedEvents

    async def prefetch(self, records: Sequence[OutgoingRecord]) -> None:
        """Start to encode the new texts of records that will soon be decided."""
        events = [said for record in records if (said := _said(record)) is not None]
        new = [event for event in events if not self.embedder.is_known(event.text)]
        if not new:
            return
        decided = await self.decided.decided(
            [decision_id(event.scope, event.event_id) for event in new]
        )
        contents = await self.index.with_content(
            [content_key(event.scope, event.text) for event in new]
        )
        self.embedder.expect(
            event.text
            for event in new
            if decision_id(event.scope, event.event_id) not in decided
            and content_key(event.scope, event.text) not in contents
        )


class _Said(NamedTuple):
    """The fields of an event that show whether its text is new."""

    scope: ScopeName
    event_id: EventId
    text: str


def _said(record: OutgoingRecord) -> _Said | None:
    """Read a record unchecked; None if it is no event: its own turn will report that."""
    if record.topic != EVENTS.name:
        return None
    try:
        fields: Any = from_json(record.value)
        parts = [fields["scope"], fields["event_id"], fields["text"]]
    except (ValueError, TypeError, KeyError):
        return None
    if not all(isinstance(part, str) and len(part) <= TEXT_MAX for part in parts):
        return None
    return _Said(*parts)
