"""A policy at work in memory: real flow, guards and index, vectors from a table, scripted judges."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from schemas.base import DecisionId, MemoryId, Position
from schemas.decisions import Change, Decision, Verdict
from schemas.events import Event, Remember
from schemas.memories import Memory, Standing
from streams.index.exact import ExactIndex
from streams.judges.language import foreign_language
from streams.judges.lexicons import english
from streams.model import wordings
from streams.model.embedding import Vector
from streams.model.neighbours import KnownEvent
from streams.model.policy import JudgeName, Policy
from streams.model.ports.models import Embedder, NoAnswer, Verifier, WordingRequest
from streams.model.verdict import Pair
from streams.stage.core.overlay import Overlay
from streams.stage.flow.apply import apply
from streams.stage.flow.decisions import CountedDecision
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.incoming import ReceivedRecord
from streams.stage.flow.judging import Judging
from streams.store.app import policies
from streams.text.reading import TextAnalyzer
from tests.builders import record
from tests.fakes.judges import Said, ScriptedVerifier, ScriptedWording
from tests.fakes.sentences import SentenceEmbedder

Verdicts = Mapping[tuple[str, str], Said] | Callable[[Pair], Said]
Wordings = Sequence[str | NoAnswer] | Callable[[WordingRequest], str | NoAnswer]

lexicon = cache(english)


class NothingBefore:
    """Implements ports.DecidedEvents for a world that begins now."""

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        del ids
        return {}


class World:
    """What a policy makes of events; each batch is decided, then applied.

    `verdicts` is what the language model answers, `wordings` how it words merges; without them
    there is no language model.
    """

    def __init__(
        self,
        policy: str | Policy,
        vectors: Mapping[str, Vector] | Embedder,
        *,
        verdicts: Verdicts | None = None,
        wordings: Wordings | None = None,
        index: ExactIndex | None = None,
    ) -> None:
        embedder = (
            SentenceEmbedder(vectors, characters_max=500)
            if isinstance(vectors, Mapping)
            else vectors
        )
        self.policy = policies.load(policy) if isinstance(policy, str) else policy
        self.judge = None if verdicts is None else ScriptedVerifier(verdicts)
        self.writer = None if wordings is None else ScriptedWording(wordings)
        verifiers: dict[JudgeName, Verifier] = {} if self.judge is None else {"llm": self.judge}
        self._index = ExactIndex() if index is None else index
        self._heard = 0
        self.titles: Mapping[MemoryId, str] = {}
        self._overlay = Overlay()
        self._deduplicator = Deduplicator(
            embedder,
            self._index,
            NothingBefore(),
            self.policy,
            Judging(TextAnalyzer(lexicon(), foreign_language), verifiers, self.writer),
        )

    async def hear(self, *events: Event) -> list[Decision]:
        """Decide on a batch of events, and apply what was decided."""
        batch = [
            ReceivedRecord(record(b"", self._heard + at), said) for at, said in enumerate(events)
        ]
        decided = await self._deduplicator.deduplicate(batch, self._overlay.fork())
        made, self.titles = decided.decisions, decided.titles
        self._overlay.recall(made)
        places = (
            Position(topic="memory.decisions", partition=0, offset=self._heard + at)
            for at in range(len(made))
        )
        await apply(
            [CountedDecision(*one) for one in zip(made, places, strict=True)], index=self._index
        )
        self._heard += len(made)
        return made

    async def tell(self, said: Remember) -> Change:
        """Decide on one event that changes something."""
        [decision] = await self.hear(said)
        assert isinstance(decision, Change)
        return decision

    async def memories(self, scope: str | None = None) -> list[Memory]:
        """Return what is live, oldest first."""
        return [memory for memory in await self.every(scope) if memory.live]

    async def wordings(self, scope: str | None = None) -> list[list[str]]:
        """Return every wording of each live memory, the text that is shown first."""
        return [[one.text for one in wordings.of(memory)] for memory in await self.memories(scope)]

    async def texts(self, scope: str | None = None) -> list[str]:
        """Return the texts that are live, oldest first."""
        return [memory.text for memory in await self.memories(scope)]

    async def retired(self) -> dict[str, str]:
        """Return the text of each retired memory with the text of the one that took its place.

        Also asserts that this one is there: the invariant of the successor.
        """
        by_id = {memory.id: memory for memory in await self.every()}
        gone = [memory for memory in by_id.values() if memory.status is Standing.SUPERSEDED]
        for memory in gone:
            assert self._end(memory, by_id).live, f"no live successor: {memory.text}"
        return {
            memory.text: by_id[memory.superseded.by].text
            for memory in gone
            if memory.superseded is not None and memory.superseded.by is not None
        }

    def _end(self, memory: Memory, by_id: Mapping[MemoryId, Memory]) -> Memory:
        for _ in by_id:
            if memory.superseded is None or memory.superseded.by is None:
                break
            memory = by_id[memory.superseded.by]
        return memory

    async def every(self, scope: str | None = None) -> list[Memory]:
        """Return all memories, retired ones as well, oldest first."""
        found = [stored.memory async for stored in self._index.scan()]
        wanted = [memory for memory in found if scope in {None, memory.scope}]
        return sorted(wanted, key=lambda memory: (memory.created_at, memory.text))


def always(verdict: Verdict) -> Callable[[Pair], Said]:
    """Return what a judge of one opinion says."""
    return lambda _: verdict
