"""A change of a memory beside others who change it, too: it is asked for again, but not for ever."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

import pytest

from schemas.base import MemoryId, Position
from schemas.decisions import Revise
from schemas.events import Event, Retire
from streams.index.exact import ExactIndex
from streams.memory.app.lifecycle import Lifecycle
from streams.model.neighbours import StoredMemory
from streams.recall.app.loading import Loading
from streams.stage.core.requests import changed
from streams.store.app.client import Client, Response
from streams.store.app.failures import DeclinedRequest, DeclineReason
from streams.store.app.product_settings import LoadSettings
from tests.builders import identity, judging, memory, policy, unit
from tests.fakes.clock import StandingClock
from tests.fakes.embedder import FakeEmbedder

TEA = MemoryId(identity(1))


class Elsewhere:
    """Services that decide on requests, and somebody who changes the memory before `races` of them."""

    def __init__(self, races: int, attempts: int = 3) -> None:
        self.memories = ExactIndex()
        self.races = races
        self.attempts_left = attempts
        self.notes: list[str] = []
        loading = Loading(
            self.index, FakeEmbedder({"tea": (1, 0)}), judging(), policy(), LoadSettings()
        )
        self.life = Lifecycle(loading, self, len, StandingClock(), note=self.notes.append)

    async def keep(self, version: int) -> None:
        await self.memories.write([StoredMemory(memory(id=TEA, version=version), unit(1))])

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        self.attempts_left -= 1
        if self.races:
            self.races -= 1
            await self.keep((await self.memories.get([TEA]))[TEA].memory.version + 1)
        held = await self.memories.get([TEA])
        [event] = events
        assert isinstance(event, Retire)
        where = Position(topic="memory.events", partition=0, offset=0)
        return [Response(event, changed(event, where, policy(), held))]

    decide = publish = submit

    def alone(self) -> AbstractAsyncContextManager[Client]:
        return nullcontext(self)

    async def index(self) -> ExactIndex:
        return self.memories


async def test_a_change_that_comes_too_late_is_asked_for_again_of_the_memory_as_it_is() -> None:
    there = Elsewhere(races=2)
    await there.keep(1)
    seen = await there.life.memory(TEA)
    [response] = await there.life.retire(seen, "ana", "", "unused")
    assert isinstance(response.decision, Revise)
    assert isinstance(response.event, Retire)
    assert [one.version for one in response.event.memories] == [3]
    assert len(there.notes) == 2


async def test_a_change_of_a_memory_that_goes_on_changing_is_declined_in_the_end() -> None:
    there = Elsewhere(races=9)
    await there.keep(1)
    seen = await there.life.memory(TEA)
    with pytest.raises(DeclinedRequest, match="has changed meanwhile; check it and") as declined:
        await there.life.retire(seen, "ana", "", "unused")
    assert (declined.value.why, declined.value.field) == (DeclineReason.CONFLICT, "memory_id")
    assert there.attempts_left == 0
