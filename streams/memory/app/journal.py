"""A Python API that gives an agent's loop a memory of the places of its world."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass

from pydantic import ValidationError

from schemas.base import ScopeName
from schemas.turns import Place, Said, State, Turn
from streams.changes.app.retiring import session_over
from streams.clock.system import SystemClock
from streams.extract.app import opening
from streams.extract.app.extracting import Extraction, ExtractionCounts
from streams.extract.core.notes import Notes
from streams.extract.core.noting import arrived
from streams.extract.flow.extract import TurnResult
from streams.model.ports.clock import Clock
from streams.model.ports.failures import NoServer, Unreachable
from streams.recall.app.recalling import Recaller, RecallRequest, recalling
from streams.recall.core.recall import BUDGET
from streams.store.app.embedding import for_store
from streams.store.app.processes import EmbeddedPipeline, StoreClient, embedded
from streams.store.app.reading import LogTarget, StoreReader, reading
from streams.store.app.settings import Settings

_PLACE = "the journal"


@dataclass(frozen=True)
class ActionResult:
    """The result of recording an action: the triggers that fired, and what was noted.

    `refused` says why something could not be noted, for example an unreachable language model: the
    agent continues and may record the same again.
    """

    triggers: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()
    refused: str | None = None


@dataclass(frozen=True)
class JournalStatus:
    """What a journal has done since it was opened, for monitoring the agent.

    `taken` counts turns, turns with triggers, and events; `decisions` counts decisions by kind.
    `refused` is the most recent reason why something could not be noted.
    """

    episode: str
    turn: int
    taken: Mapping[str, object]
    decisions: Mapping[str, int]
    refused: str | None


class Journal:
    """Records the outcomes of actions, and recalls what is known about a place.

    Each place has its own scope, WORLD/ID. When a call returns, what it noted is in the store and
    its sinks. For one event loop; calls may overlap.
    """

    def __init__(
        self,
        pipeline: EmbeddedPipeline,
        reader: StoreReader,
        extraction: Extraction,
        recaller: Recaller,
        *,
        world: str,
        episode: str,
        clock: Clock,
    ) -> None:
        self._pipeline = pipeline
        self._reader = reader
        self._client = StoreClient(pipeline, reader)
        self._extraction = extraction
        self._recaller = recaller
        self._world = world
        self._clock = clock
        self._episode = episode
        self._turn = 0
        self._counts = ExtractionCounts()
        self._refused: str | None = None
        self._writing = asyncio.Lock()

    async def record_action_outcome(
        self, place: Place, action: str, response: str, state: State | None = None
    ) -> ActionResult:
        """Note what is worth remembering of an action at a place and of the world's response.

        `state` is what the world knows for certain; it helps decide whether the turn is examined.
        What follows a move is noted under the place that was entered, its `location_after`.
        """
        async with self._writing:
            self._turn += 1
            outcome = await self._record(place, action, response, state or State())
            self._refused = outcome.refused or self._refused
            return outcome

    async def get_location_memory(
        self, location_id: int, *, query: str | None = None, budget: int = BUDGET
    ) -> str:
        """Return a place's block of memories for the agent's prompt, within a token budget."""
        asked = RecallRequest(scope=self._scope(location_id), query=query, budget=budget)
        return (await self._recaller.recall(asked)).text

    async def reset_episode(self, episode: str) -> None:
        """Start an episode with a unique name; the last one's ephemeral memories end."""
        async with self._writing:
            memories = await self._reader.memories()
            over = session_over(self._episode, memories, author=self._world, now=self._clock.now())
            await self._client.submit(over)
            self._episode, self._turn = episode, 0

    def get_status(self) -> JournalStatus:
        """Return what the journal has done so far."""
        kinds = dict(self._pipeline.tally.kinds)
        return JournalStatus(self._episode, self._turn, asdict(self._counts), kinds, self._refused)

    async def _record(self, place: Place, action: str, response: str, state: State) -> ActionResult:
        try:
            turn = self._turn_of(place, action, response, state)
        except ValidationError as error:
            return ActionResult(
                refused=error.errors(include_url=False, include_input=False)[0]["msg"]
            )
        try:
            taken = await self._extraction.take_turn(_PLACE, turn)
        except (Unreachable, NoServer) as error:
            return ActionResult(refused=str(error))
        self._counts.add(taken)
        await self._client.submit(taken.events)
        return _outcome(taken)

    def _turn_of(self, place: Place, action: str, response: str, state: State) -> Turn:
        said = (Said(by="model", text=action), Said(by="world", text=response))
        known = state.model_copy(update={"location_before": state.location_before or place})
        told = arrived(known) or place
        return Turn(
            turn_id=f"{self._episode}-t{self._turn}",
            scope=self._scope(told.id),
            occurred_at=self._clock.now(),
            number=self._turn,
            session=self._episode,
            said=said,
            state=known,
        )

    def _scope(self, location_id: int) -> ScopeName:
        return ScopeName(f"{self._world}/{location_id}")


def _outcome(taken: TurnResult) -> ActionResult:
    return ActionResult(
        triggers=tuple(str(one.trigger) for one in taken.fired),
        noted=tuple(event.text for event in taken.events),
        refused=None if taken.letter is None else taken.letter.error,
    )


@asynccontextmanager
async def journal(
    settings: Settings,
    *,
    world: str,
    episode: str,
    llm: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[Journal]:
    """Open the settings' store as an agent's journal of a world; no other process may write it.

    Use each episode name only once. With `llm` the configured language model words what is noted;
    otherwise each informative sentence of the world is noted. `report` receives a line about each
    wait.
    """
    chosen, clock = for_store(settings, report), SystemClock()
    target = LogTarget.of_store(chosen.settings)
    model = opening.llm_extractor(settings, clock) if llm else None
    async with (
        embedded(chosen.settings, chosen.policy, chosen.embedder, report) as pipeline,
        recalling(target, report=report) as recaller,
        reading(target) as reader,
    ):
        await pipeline.recover()
        notes = Notes(await reader.memories(), (), settings.extraction.known_max)
        extraction = Extraction(settings.extraction, notes, model=model)
        try:
            yield Journal(
                pipeline, reader, extraction, recaller, world=world, episode=episode, clock=clock
            )
        finally:
            await extraction.close()
