"""How workers share a machine: none is in another's way."""

import pytest

from streams.embedding import cores
from streams.services.app.sharing import as_worker, share
from streams.store.app import settings
from streams.store.app.settings import InvalidSettings


def test_each_worker_has_a_port_of_its_own() -> None:
    given = settings.load({"service": {"port": 9_000}})
    assert [share(given, number, 3).service.port for number in (1, 2, 3)] == [9_000, 9_001, 9_002]


def test_any_free_port_is_any_free_port_for_all() -> None:
    assert share(settings.load({"service": {"port": 0}}), 2, 2).service.port == 0


def test_the_cores_are_divided() -> None:
    given = settings.load({})
    assert share(given, 1, 1).embedder.threads == cores()
    assert share(given, 1, cores()).embedder.threads == 1
    assert share(given, 1, cores() + 1).embedder.threads == 1


def test_threads_that_are_set_are_those_of_each_worker() -> None:
    assert share(settings.load({"embedder": {"threads": 5}}), 2, 2).embedder.threads == 5


@pytest.mark.parametrize("kind", ["edge", "exact"])
def test_an_index_for_one_process_is_refused_before_anything_is_forked(kind: str) -> None:
    with pytest.raises(InvalidSettings, match=f"--workers 2: index.kind {kind} is for one process"):
        as_worker(settings.load({"index": {"kind": kind}}), 2, print)
