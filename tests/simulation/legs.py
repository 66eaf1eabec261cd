"""The protections, each of which can be taken away to see what it is there for."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from schemas.base import DecisionId
from streams.index.exact import ExactIndex
from streams.model.fences import Epoch, ReadPosition
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.ports.index import IndexLevel, PartitionLevel
from streams.model.ports.log import Log
from streams.stage.core import ledger, survivorship
from streams.stage.core.ledger import Effect, MissingTarget, memory_of
from streams.stage.core.overlay import Fork
from streams.stage.flow import decisions, writer
from streams.stage.flow.decided import DecidedInPartition
from streams.stage.flow.partition_owner import PartitionOwner


@dataclass(frozen=True)
class Leg:
    """A protection: `take` takes it away. Where it is not `fenced`, everybody's decisions count."""

    take: Callable[[pytest.MonkeyPatch], None]
    fenced: bool = True


@contextmanager
def without(leg: Leg | None) -> Generator[None]:
    """Go without a protection, or with all."""
    with pytest.MonkeyPatch.context() as patch:
        if leg is not None:
            leg.take(patch)
        yield


def _no_fence(patch: pytest.MonkeyPatch) -> None:
    """Let readers accept the decisions of everybody, the first on each event."""

    def admits(newest: Epoch | None, claimed: Epoch | None) -> bool:
        return newest is not None and claimed is not None

    patch.setattr(decisions, "admits", admits)


def _no_gap_check(patch: pytest.MonkeyPatch) -> None:
    """Let an owner never look whether somebody else wrote between its records."""

    async def require_owned(*_: object) -> None:
        pass

    patch.setattr(PartitionOwner, "_require_owned", require_owned)


def _no_decided_ids(patch: pytest.MonkeyPatch) -> None:
    """Let neither overlay nor index know which events were decided on."""

    async def decided(_: ExactIndex, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        del ids
        return {}

    def unknown(*_: object) -> None:
        return None

    patch.setattr(Fork, "decided", unknown)
    patch.setattr(ExactIndex, "decided", decided)


def _no_versions(patch: pytest.MonkeyPatch) -> None:
    """Do whatever a decision does to what is there, also when it was done before."""

    def advance(
        before: StoredMemory | None, effect: Effect, *, holed: bool = False
    ) -> StoredMemory | None:
        del holed
        if isinstance(effect, StoredMemory):
            known = () if before is None else before.decided
            vector = before.vector if before and effect.vector is None else effect.vector
            return replace(effect, vector=vector, decided=(*known, *effect.decided))
        if before is None:
            raise MissingTarget(f"memory {memory_of(effect)} is not there")
        return replace(before, memory=survivorship.retired(before.memory, effect.superseded))

    patch.setattr(ledger, "advance", advance)


def _no_condition(patch: pytest.MonkeyPatch) -> None:
    """Let the index take what comes last, however old it is."""

    async def write(index: ExactIndex, changes: Sequence[StoredMemory]) -> None:
        inside: dict[str, Any] = vars(index)
        for change in changes:
            inside["_stored"].pop(change.memory.id, None)
        await kept_write(index, changes)

    kept_write = ExactIndex.write
    patch.setattr(ExactIndex, "write", write)


def _no_level(patch: pytest.MonkeyPatch) -> None:
    """Let the index note what comes last as how far it has followed the log."""

    async def keep_level(
        index: ExactIndex, partition: int, reached: ReadPosition, *, since: PartitionLevel
    ) -> PartitionLevel:
        level = await index.level()
        kept = {} if level is None else dict(level.partitions)
        followed = PartitionLevel(reached, kept.get(partition, since).index or "index")
        vars(index)["_level"] = IndexLevel({**kept, partition: followed}, await index.count())
        return followed

    patch.setattr(ExactIndex, "keep_level", keep_level)


def _no_note(patch: pytest.MonkeyPatch) -> None:
    """Let a writer that begins in the middle know no fence."""
    written = writer.written

    async def forgotten(log: Log, partition: int) -> ReadPosition:
        return ReadPosition((await written(log, partition)).offset)

    patch.setattr(writer, "written", forgotten)


def _no_look(patch: pytest.MonkeyPatch) -> None:
    """Let a writer never look whether its index is still the one that it knows."""

    async def require_index(_: object) -> None:
        pass

    patch.setattr(vars(writer)["_Follower"], "require_index", require_index)


def _no_log(patch: pytest.MonkeyPatch) -> None:
    """Let nobody know, where the index is away, what was decided on before it went."""

    async def decided(
        _: DecidedInPartition, ids: Sequence[DecisionId]
    ) -> Mapping[DecisionId, KnownEvent]:
        del ids
        return {}

    patch.setattr(DecidedInPartition, "decided", decided)


LEGS: Mapping[str, Leg] = {
    "fence": Leg(_no_fence, fenced=False),
    "gap-check": Leg(_no_gap_check),
    "decided-ids": Leg(_no_decided_ids),
    "versions": Leg(_no_versions),
    "conditional-write": Leg(_no_condition),
    "level": Leg(_no_level),
    "commit-note": Leg(_no_note),
    "look": Leg(_no_look),
    "log-instead": Leg(_no_log),
}
