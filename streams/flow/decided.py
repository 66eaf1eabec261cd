"""Which events were decided before, as the log itself remembers it."""

from collections.abc import Mapping, Sequence

from schemas.base import ContentKey, DecisionId
from schemas.decisions import Ignore, kind_of
from schemas.topics import DECISIONS
from streams.core.neighbours import Known
from streams.flow.decisions import CONTENT_KEY_HEADER, DECISION_ID_HEADER, KIND_HEADER
from streams.ports import Lookup, Record

_IGNORE = kind_of(Ignore).encode()


class DecidedInLog:
    """Implements ports.Decided for a log that finds its records by header.

    For a log with one writer at a time: it does not look whether a decision counts. As with an
    index, an event that changed nothing is decided on again when it comes again.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, Known]:
        records = await self._lookup.find(DECISIONS.name, DECISION_ID_HEADER, ids)
        # The first decision on an event is the one that counts; rejects are on no event.
        return dict(reversed([pair for record in records if (pair := _pair(record)) is not None]))


def _pair(record: Record) -> tuple[DecisionId, Known] | None:
    headers = dict(record.headers)
    identity, key = headers.get(DECISION_ID_HEADER), headers.get(CONTENT_KEY_HEADER)
    if identity is None or key is None or headers.get(KIND_HEADER) == _IGNORE:
        return None
    known = Known(ContentKey(key.decode()), offset=record.offset)
    return DecisionId(identity.decode()), known
