"""Models that embed, judge, screen and word texts."""

from collections.abc import (
    Iterable,
    Sequence,
)
from dataclasses import dataclass
from typing import Protocol

from schemas.base import ModelId, ScopeName
from streams.model.embedding import TextVector
from streams.model.merge import MergePart
from streams.model.screening import SensitiveSpan
from streams.model.verdict import Opinion, Pair


@dataclass(frozen=True)
class NoAnswer:
    """Why a judge gives no answer: a short reason without any memory's text, like "timeout"."""

    reason: str


NOT_CONFIGURED = NoAnswer("not configured")
"""The answer of a judge or writer that a policy names and this process lacks."""


@dataclass(frozen=True)
class WordingRequest:
    """The texts to merge into one, oldest first, each with when it was last said and by whom.

    `missing` is what an earlier attempt left out, `invented` what it added: it asks for one repair.
    """

    scope: ScopeName
    parts: tuple[MergePart, ...]
    characters_max: int
    attempt: str | None = None
    missing: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()


class Embedder(Protocol):
    """Turns texts into unit vectors of one model.

    Deterministic: a text always has the same vector, within about 1e-7 across batches.
    """

    @property
    def model(self) -> ModelId:
        """The identity of the vector space; two embedders with equal `model` may be mixed."""
        ...

    @property
    def dimension(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        """Return one result per text, in order. Texts are not blank; any length."""
        ...


class PrefetchingEmbedder(Protocol):
    """An embedder that accepts hints about upcoming texts."""

    def is_known(self, text: str) -> bool:
        """Return whether a text needs no encoding: its vector is cached or being computed."""
        ...

    def expect(self, texts: Iterable[str]) -> None:
        """Start to encode texts in the background. Harmless if they are never requested."""
        ...


class Verifier(Protocol):
    """Judges pairs of an event and a memory that similarity nominated and no guard kept apart.

    Its answer is advice: the guards decide as well, whatever it says.
    """

    @property
    def name(self) -> str:
        """The name of the judge in policies and evidence."""
        ...

    async def verify(self, pairs: Sequence[Pair]) -> list[Opinion | NoAnswer]:
        """Return one answer per pair, in order. Never raises because of a pair's content."""
        ...

    async def close(self) -> None: ...


class Screener(Protocol):
    """Finds secrets and personal data in texts. Pure: the same text gives the same findings."""

    def spot(self, text: str, region: str | None) -> Sequence[SensitiveSpan]:
        """Return the findings in any order; `region` is the region of local telephone numbers."""
        ...


class Wording(Protocol):
    """Words one text for several that each state part of the same fact."""

    async def word(self, request: WordingRequest) -> str | NoAnswer:
        """Return the text, untrusted and unchecked. Never raises because of the parts' content."""
        ...
