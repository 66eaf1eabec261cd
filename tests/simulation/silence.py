"""Who was silent when an event was decided on, as its decision tells, and the same once more.

An undisturbed process decides alike only where it hears as little.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.base import ContentKey, DecisionId
from schemas.decisions import Decision, Ignore, Insert, Marker, Reason, Reinforce, Replace
from schemas.events import Consolidate, Remember
from streams.index.exact import ExactIndex
from streams.model.embedding import TextVector
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.ports.failures import Transient
from streams.model.ports.index import IndexLevel
from streams.model.ports.models import Embedder
from streams.model.wrapping import WrappedEmbedder


@dataclass(frozen=True)
class Silence:
    """Who does not answer, and what they answer of.

    The embedder may answer about the text `embeds` alone. Of memories with the same words the index
    may tell one alone, `knows`: another may be so far behind that nobody saw it.
    """

    index: bool = False
    embedder: bool = False
    embeds: str | None = None
    knows: str | None = None


ALL_ANSWER = Silence()


def silence(decision: Decision) -> Silence:
    """Return who was silent when a decision was made."""
    if isinstance(decision, Marker):
        return ALL_ANSWER
    because = decision.evidence
    if isinstance(decision, Insert | Replace) and decision.memory.unchecked is not None:
        own = decision.memory.unchecked == "not-embedded"
        text = decision.event.text if isinstance(decision.event, Remember) else None
        return Silence(
            index="index: no answer" in because.degraded,
            embedder="embedder: no answer" in because.degraded,
            embeds=None if own else text,
        )
    if isinstance(decision, Reinforce) and because.reason is Reason.SAME_CONTENT:
        return Silence(knows=decision.target.memory_id)
    asked = isinstance(decision, Ignore) and isinstance(decision.event, Consolidate)
    return Silence(embedder=asked and because.reason is Reason.UNCHECKED)


class SilentIndex(ExactIndex):
    """An index that may answer nothing, or tell one memory alone."""

    def __init__(self) -> None:
        super().__init__()
        self.silence = ALL_ANSWER

    async def level(self) -> IndexLevel | None:
        self._require_there()
        return await super().level()

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        self._require_there()
        return await super().decided(ids)

    async def with_content(
        self, keys: Sequence[ContentKey]
    ) -> dict[ContentKey, list[StoredMemory]]:
        """Return what was known, where that is among those with these words."""
        found = await super().with_content(keys)
        known = self.silence.knows
        chosen = {
            key: [one for one in all_ if one.memory.id == known] for key, all_ in found.items()
        }
        return {key: chosen[key] or all_ for key, all_ in found.items()}

    def _require_there(self) -> None:
        if self.silence.index:
            raise Transient("the index is silent")


class SilentEmbedder(WrappedEmbedder):
    """Implements ports.Embedder over another one that may be silent."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self.silence = ALL_ANSWER

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        if self.silence.embedder and set(texts) != {self.silence.embeds}:
            raise Transient("the embedder is silent")
        return await self._embedder.embed(texts)
