"""The adapters in examples/peers, with the real libraries, where these are installed."""

import asyncio
import gc
import importlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from memsieve import Memory
from schemas.topics import CHANGES

PEERS = Path(__file__).parents[2] / "examples" / "peers"


def adapter(name: str, library: str) -> ModuleType:
    pytest.importorskip(library, reason=f"pip install {library.partition('.')[0]} to run this")
    spec = importlib.util.spec_from_file_location(name, PEERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "notes") as opened:
        yield opened


LYON, CATS = "Ana lives in Lyon.", "Ana lives in Lyon. She has two cats."


def test_a_langgraph_store_keeps_each_fact_once(memory: Memory) -> None:
    store = adapter("langgraph_store", "langgraph.store.base").MemsieveStore(memory)
    ana = ("memories", "ana")
    store.put(ana, "home", {"content": LYON, "by": "chat-1"})
    store.put(ana, "again", {"content": LYON, "by": "chat-2"})
    store.put(ana, "cats", {"content": CATS})
    store.put(("memories", "bo"), "job", {"content": "Bo sings in a choir."})
    assert [one.text for one in memory.memories("memories/ana")] == [CATS]
    assert store.get(ana, "home").value == {"content": CATS, "by": "chat-1"}
    assert store.get(ana, "again").value == {"content": CATS, "by": "chat-2"}
    assert store.get(("memories", "bo"), "home") is None
    [near, *_] = store.search(("memories",), query="who makes music?")
    assert (near.namespace, near.key, near.score > 0) == (("memories", "bo"), "job", True)
    assert [one.key for one in store.search(("memories",), filter={"by": "chat-2"})] == ["again"]
    with pytest.raises(ValueError, match="only equality"):
        store.search(("memories",), filter={"by": {"$ne": "chat-2"}})
    assert store.list_namespaces(prefix=("memories",)) == [ana, ("memories", "bo")]
    assert store.list_namespaces(suffix=("*", "bo")) == [("memories", "bo")]
    assert store.list_namespaces(max_depth=1) == [("memories",)]


def test_a_langgraph_store_changes_and_deletes_by_key(memory: Memory) -> None:
    store = adapter("langgraph_store", "langgraph.store.base").MemsieveStore(memory)
    asyncio.run(store.aput(("bo",), "job", {"content": "Bo sings."}))
    asyncio.run(store.aput(("bo",), "job", {"content": "Bo dances."}))
    assert store.get(("bo",), "job").value == {"content": "Bo dances."}
    assert len(memory.memories("bo")) == 1
    store.delete(("bo",), "job")
    assert store.get(("bo",), "job") is None
    assert memory.memories("bo") == []
    with pytest.raises(ValueError, match="give it as 'content'"):
        store.put(("bo",), "job", {"text": "Bo sings."})
    with pytest.raises(ValueError, match="slash"):
        store.put(("a/b",), "job", {"content": "Bo sings."})


def test_a_langmem_tool_writes_to_the_store(memory: Memory) -> None:
    store = adapter("langgraph_store", "langgraph.store.base").MemsieveStore(memory)
    langmem = pytest.importorskip("langmem", reason="pip install langmem to run this")
    tool = langmem.create_manage_memory_tool(namespace=("memories", "{user}"), store=store)
    for _ in range(2):
        given = {"content": LYON, "action": "create"}
        tool.invoke(given, config={"configurable": {"user": "ana"}})
    assert [one.observation_count for one in memory.memories("memories/ana")] == [2]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of LlamaIndex's own table of the chat
def test_a_llamaindex_memory_recalls_what_left_the_short_term_memory(memory: Memory) -> None:
    module = adapter("llamaindex_memory", "llama_index.core.memory")
    block: Any = module.MemsieveBlock(memory=memory, scope="acme/ana")
    message = module.ChatMessage
    chat = importlib.import_module("llama_index.core.memory").Memory.from_defaults(
        session_id="chat-1",
        token_limit=40,
        token_flush_size=10,
        chat_history_token_ratio=0.5,
        memory_blocks=[block],
        tokenizer_fn=str.split,
    )

    async def talk(chat: Any) -> list[Any]:
        for n in range(6):
            await chat.aput(message(role="user", content=LYON))
            await chat.aput(message(role="assistant", content=f"Noted for the {n}th time."))
        return await chat.aget()

    told = asyncio.run(talk(chat))
    del chat
    gc.collect()
    [kept] = memory.memories("acme/ana")
    assert (kept.text, kept.observation_count > 1, kept.sessions) == (LYON, True, ("chat-1",))
    assert any(
        LYON in str(one.content) and "Memory of acme/ana" in str(one.content) for one in told
    )


def test_the_connector_follows_the_changes_with_a_document_per_memory() -> None:
    config = json.loads((PEERS / "elasticsearch.json").read_text("utf-8"))["config"]
    assert (config["topics"], CHANGES.key) == (CHANGES.name, "memory id")
    assert (config["key.ignore"], config["schema.ignore"]) == ("false", "true")
