"""`memsieve.search`, `recall` and `partition_of`: one call each, for scripts."""

from pathlib import Path

import pytest

import memsieve
from memsieve import InvalidRequest, Memory, StoreError
from streams.embedding import HASHING

ANA = "acme/ana"
BEES = "Ana keeps bees."


def test_a_script_reads_a_store_that_another_holds_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIEVE_EMBEDDER__MODEL", HASHING)
    monkeypatch.setenv("MEMSIEVE_POLICY", "default-hashing")
    with Memory(tmp_path / "notes", settings={"index": {"kind": "exact"}}) as memory:
        made = memory.add(BEES, scope=ANA)
        [fact] = memsieve.search("bees", scope=ANA, store=tmp_path / "notes")
        assert (fact.text, fact.memory_id) == (BEES, made.memory_id)
        told = memory.recall(scope=ANA)
        assert BEES in told
        assert memsieve.recall(scope=ANA, store=tmp_path / "notes") == told
        assert memsieve.recall("bees", scope=ANA, store=tmp_path / "notes", budget=1) == ""
        assert memsieve.search("bees", store=tmp_path / "notes") == [fact]
        assert memsieve.recall(store=tmp_path / "notes") == told
        memory.add(BEES, scope="acme/ben")
        several = "name one of 2 scopes with scope=, such as acme/ana, acme/ben"
        with pytest.raises(InvalidRequest, match=several):
            memsieve.search("bees", store=tmp_path / "notes")
        with pytest.raises(InvalidRequest, match=several):
            memsieve.recall(store=tmp_path / "notes")


def test_a_memory_without_a_store_is_the_one_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIEVE_EMBEDDER__MODEL", HASHING)
    monkeypatch.setenv("MEMSIEVE_POLICY", "default-hashing")
    monkeypatch.setenv("MEMSIEVE_STORE", str(tmp_path / "notes"))
    with Memory() as memory:
        memory.add(BEES, scope=ANA)
    with Memory(tmp_path / "notes") as memory:
        assert [one.text for one in memory.memories(ANA)] == [BEES]


def test_what_a_script_asks_for_wrongly_is_told_as_everywhere(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no store"):
        memsieve.search("bees", scope=ANA, store=tmp_path)
    with pytest.raises(StoreError, match="holds no store"):
        memsieve.recall(scope=ANA, store=tmp_path)
    with pytest.raises(InvalidRequest, match="wildcard"):
        memsieve.recall(scope="acme/*", store=tmp_path)
    with pytest.raises(InvalidRequest, match="limit"):
        memsieve.search("bees", scope=ANA, store=tmp_path, limit=0)


def test_the_partition_is_the_one_of_javas_client() -> None:
    assert memsieve.partition_of("northwind/mara", 6) == 2
    with pytest.raises(InvalidRequest, match="scope"):
        memsieve.partition_of("northwind/*", 6)
    with pytest.raises(InvalidRequest, match="partitions"):
        memsieve.partition_of("northwind/mara", 0)
