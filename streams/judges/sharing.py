"""A cache of answers that also shares questions in flight."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from streams.model.ports.models import NoAnswer

Answer = TypeVar("Answer")


@dataclass
class _Flight(Generic[Answer]):
    """A question in flight, and the number of its waiters."""

    task: asyncio.Task[Answer | NoAnswer]
    waiting: int = 0


class SharedAnswers(Generic[Answer]):
    """Caches the latest answers by key; a missing answer is not cached, so the next may succeed.

    A caller whose question is already in flight waits for that answer. A question without waiters
    is cancelled.
    """

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._kept: OrderedDict[str, Answer] = OrderedDict()
        self._flights: dict[str, _Flight[Answer]] = {}

    async def get(
        self, key: str, ask: Callable[[], Coroutine[Any, Any, Answer | NoAnswer]]
    ) -> Answer | NoAnswer:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.create_task(self._asked(key, ask)))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if flight.waiting == 0:
                flight.task.cancel()
                del self._flights[key]

    async def _asked(
        self, key: str, ask: Callable[[], Coroutine[Any, Any, Answer | NoAnswer]]
    ) -> Answer | NoAnswer:
        answer = await ask()
        if not isinstance(answer, NoAnswer):
            self._kept[key] = answer
            if len(self._kept) > self._entries_max:
                self._kept.popitem(last=False)
        return answer
