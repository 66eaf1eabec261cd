"""An embedder that fails: what was taken in waits, unless the policy lets it through unchecked."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from streams.consolidate.app.consolidating import ScopeSelection, consolidation
from streams.model.embedding import TextVector
from streams.model.ports.failures import Fatal, Transient
from streams.stage.core.mapping import FieldMapping
from streams.store.app import policies, settings
from streams.store.app.processes import RunTally, embedded
from streams.store.app.reading import LogTarget, reading
from streams.store.world.files import FileSource
from tests.builders import START
from tests.support.encoding.models import default_embedder
from tests.support.stage.stores import decisions

pytestmark = pytest.mark.process

TEXTS = ("Trap door bars after descending.", "TRAP DOOR bars after descending!", "A lamp is here.")
ROWS = "text,scope,occurred_at\n" + "".join(
    f"{text},zork/193,{START.isoformat()}\n" for text in TEXTS
)


class Failing:
    """Implements ports.Embedder by the real model, which is away for the first `failures` calls."""

    def __init__(self, failures: int) -> None:
        self._embedder = default_embedder()
        self._failures = failures
        self.model, self.dimension = self._embedder.model, self._embedder.dimension

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        self._failures -= 1
        if self._failures >= 0:
            raise Transient("the embedding model does not answer")
        return await self._embedder.embed(texts)


LENIENT = "zork-semantic {fail_open.enabled = true, fail_open.attempts = 1}"


async def run(
    directory: Path, embedder: Failing, report: list[str], rules: str = "zork-semantic"
) -> RunTally:
    """Take the rows into the directory's store, with two attempts at what fails."""
    (directory / "rows.csv").write_text(ROWS, "utf-8")
    chosen = settings.load({"store": directory / "store", "retry": {"attempts_max": 2}})
    policy = policies.load(rules)
    async with embedded(chosen, policy, embedder, report.append) as pipeline:
        await pipeline.recover()
        await pipeline.run(FileSource(str(directory / "rows.csv")), FieldMapping(), lambda _: None)
        return pipeline.tally


@pytest.mark.covers("S0.47")
async def test_error_handling_embedding_failure(tmp_path: Path) -> None:
    told: list[str] = []
    tally = await run(tmp_path, Failing(1), told)
    assert (tally.rows, tally.kinds["insert"], tally.kinds["reinforce"]) == (3, 2, 1)
    assert "the embedding model does not answer; trying again in" in told[0]


@pytest.mark.covers("S0.47")
def test_where_it_stays_away_nothing_is_stored_unchecked_and_the_next_run_goes_on(
    tmp_path: Path,
) -> None:
    with pytest.raises(Fatal, match="does not answer; gave up after 2 attempts"):
        asyncio.run(run(tmp_path, Failing(99), []))
    assert decisions(tmp_path / "store") == []
    asyncio.run(run(tmp_path, Failing(0), []))
    made = decisions(tmp_path / "store")
    assert [one.kind for one in made] == ["insert", "reinforce", "insert"]


@pytest.mark.covers("S0.53", "S0.56")
async def test_with_the_switch_creation_proceeds_and_the_next_consolidation_checks(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    tally = await run(tmp_path, Failing(99), told, LENIENT)
    assert (tally.rows, tally.kinds["insert"]) == (3, 3)
    assert "stored unchecked, as the policy allows: 3 events; embedder: the embedding" in told[-1]
    assert await unchecked(tmp_path / "store") == ["not-embedded"] * 3
    chosen = settings.load({"store": tmp_path / "store", "policy": LENIENT})
    async with consolidation(
        LogTarget.of_store(chosen), dry_run=False, report=told.append
    ) as opened:
        [done] = (await opened.run(ScopeSelection())).scopes
    assert (done.before, done.after, done.checked) == (3, 2, 1)
    assert await unchecked(tmp_path / "store") == [None, None]


async def unchecked(store: Path) -> list[str | None]:
    async with reading(LogTarget.of_store(settings.load({"store": store}))) as reader:
        return [memory.unchecked for memory in await reader.memories() if memory.live]
