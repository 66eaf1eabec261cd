"""What a model is shown of a scope: the index's memories and the events not yet applied."""

from collections import deque
from collections.abc import Sequence

from schemas.base import ScopeName
from schemas.codec import EVENT, Unreadable
from schemas.events import Remember
from schemas.topics import EVENTS, TURNS
from schemas.turns import Turn
from streams.extract.core.notes import Notes
from streams.extract.core.synthesis import event_id_of
from streams.model.identity import decision_id
from streams.model.ports.failures import NotYet, Transient
from streams.model.ports.index import Index
from streams.model.ports.log import Log, LogRecord, pages
from streams.stage.flow.dead_letters import ORIGIN_HEADER
from streams.stage.flow.takeover import applied

_FROM_A_TURN = f"{TURNS.name}/".encode()


class Knowledge:
    """What is known in the scopes of one partition.

    The index says how far it has followed the events: later ones are kept here until it has them.
    """

    def __init__(
        self, log: Log, index: Index, partition: int, *, known_max: int, undecided_max: int
    ) -> None:
        """Show a model the `known_max` memories of a scope that were seen last.

        If `undecided_max` of the partition's events are not yet decided and applied, it is not
        asked: it would not see their content.
        """
        self._log = log
        self._index = index
        self._partition = partition
        self._known_max = known_max
        self._undecided_max = undecided_max
        self._waiting: deque[tuple[int, Remember]] = deque()

    async def recall(self) -> None:
        """Read the events of turns that the index lacks. Raises Transient if it is far behind.

        Call it before any other method.
        """
        at = (await applied(self._index, self._partition)).reached.next_event
        end = await self._log.end(EVENTS.name, self._partition)
        if end - at >= self._undecided_max:
            raise Transient(_behind(end - at))
        self._waiting.clear()
        async for page in pages(self._log, EVENTS.name, self._partition, at):
            self._waiting += [(r.offset, event) for r in page if (event := _of_a_turn(r))]

    async def settle(self) -> None:
        """Drop the events that the index now has. Raises NotYet if it is far behind."""
        reached = (await applied(self._index, self._partition)).reached
        while self._waiting and self._waiting[0][0] < reached.next_event:
            self._waiting.popleft()
        if len(self._waiting) >= self._undecided_max:
            raise NotYet(_behind(len(self._waiting)))

    def add(self, offsets: Sequence[int], events: Sequence[Remember]) -> None:
        """Add events that the log has acknowledged."""
        self._waiting.extend(zip(offsets, events, strict=True))

    async def of(self, scope: ScopeName, turns: Sequence[Turn]) -> Notes:
        """Return what is known of a scope, and which of its turns have an event.

        Reads all memories of the scope.
        """
        memories = [stored.memory async for stored in self._index.scan(scope)]
        waiting = [event for _, event in self._waiting if event.scope == scope]
        notes = Notes(memories, waiting, self._known_max)
        ids = {decision_id(scope, event): event for event in map(event_id_of, turns)}
        notes.know(scope, [ids[one] for one in await self._index.decided(list(ids))])
        return notes


def _of_a_turn(record: LogRecord) -> Remember | None:
    """Return the event of a record if it was made from a turn; None otherwise."""
    if not (dict(record.headers).get(ORIGIN_HEADER) or b"").startswith(_FROM_A_TURN):
        return None
    try:
        event = EVENT.decode(record.value or b"", likely="remember")
    except Unreadable:
        return None
    return event if isinstance(event, Remember) else None


def _behind(count: int) -> str:
    return f"{count:,} events wait to be decided on and applied: is the deduplicator running?"
