from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.base import ScopeName
from streams.index.edge import EdgeIndex
from streams.index.large_scopes import CopyLimits
from streams.model.neighbours import StoredMemory
from streams.model.ports.index import Query
from tests.builders import identity, memory
from tests.commands.conftest import Memsieve

_LARGE = ScopeName("acme/archive")
_COUNT = 7_000
"""From about 6,700 vectors of 384 numbers on the engine builds a graph."""


def _scattered(count: int, number: int) -> NDArray[np.float64]:
    """Return as many vectors, the same each time, that lie as far apart as chance would put them."""
    return np.sin(np.arange(count * 384, dtype=np.float64) ** 2 * number).reshape(count, 384)


@pytest.mark.covers("B133")
async def test_a_large_scope_gets_a_graph_that_finds_what_was_found_before(tmp_path: Path) -> None:
    around = _scattered(_COUNT // 10, 1).repeat(10, axis=0) + 0.3 * _scattered(_COUNT, 2)
    vectors = (around / np.linalg.norm(around, axis=1, keepdims=True)).astype(np.float32)
    uncopied = CopyLimits(memories_min=_COUNT + 1)
    index = EdgeIndex(tmp_path / "index", 384, copying=uncopied)
    held = [memory(f"Box {n}.", scope=_LARGE, id=identity(n + 1)) for n in range(_COUNT)]
    await index.write([StoredMemory(*one) for one in zip(held, vectors, strict=True)])
    queries = [Query(_LARGE, vector, 5, 0.5) for vector in vectors[::100]]
    before = await index.search(queries)
    assert index.in_graphs == 0
    assert index.optimise()
    assert index.in_graphs >= _COUNT
    after = await index.search(queries)
    assert [found[0].memory.id for found in after] == [found[0].memory.id for found in before]
    again = [{one.memory.id for one in found} for found in after]
    known = [{one.memory.id for one in found} for found in before]
    missed = sum(len(one - other) for one, other in zip(known, again, strict=True))
    assert missed <= sum(map(len, known)) // 50
    assert not index.optimise()
    await index.close()


@pytest.fixture
def store(memsieve: Memsieve, tmp_path: Path) -> Path:
    events = tmp_path / "events.jsonl"
    events.write_text('{"scope": "acme/ana", "text": "Ana likes coffee."}\n', "utf-8")
    made = tmp_path / "store"
    memsieve("run", str(events), "--store", str(made))
    return made


def test_a_store_of_small_scopes_needs_none_and_works_on(memsieve: Memsieve, store: Path) -> None:
    told = memsieve("store", "optimize", "--store", str(store), "--json").json()
    assert told == {"memories": 1, "in_graphs": 0, "built": False}
    assert "nothing to do" in memsieve("store", "optimize", "--store", str(store)).out
    assert "Ana likes coffee." in memsieve("memory", "list", "--store", str(store)).out


def test_what_has_no_graphs_is_told_by_name(memsieve: Memsieve, tmp_path: Path) -> None:
    absent = memsieve("store", "optimize", "--store", str(tmp_path / "nowhere"))
    assert (absent.code, "holds no store" in absent.err) == (3, True)
