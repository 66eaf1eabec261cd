"""Recalling from a log whose vectors a test has chosen."""

from collections.abc import Awaitable
from typing import Any

import pytest

from schemas.base import Position, ScopeName
from schemas.codec import DECISION
from schemas.decisions import Change, Evidence, Insert, Reason, Reinforce
from schemas.memories import Memory, Standing, Superseded, Target
from schemas.topics import DECISIONS
from streams.index.exact import ExactIndex
from streams.log.local_broker import LocalBroker
from streams.model.embedding import Vector, pack
from streams.model.fences import Epoch
from streams.model.neighbours import StoredMemory
from streams.model.ports.failures import Fatal, NoStore
from streams.recall.app.recalling import Recaller, RecallRequest, nothing
from streams.recall.app.recalling import recalled as of_index
from streams.recall.core.recall import PromptBlock
from streams.stage.core.decide import target_of
from streams.stage.core.survivorship import seen_again
from streams.stage.flow.decisions import INDEXED, decision_record, fence_record
from tests.builders import MODEL, at_cosine, event, identity, later, memory, policy, unit
from tests.fakes.embedder import FakeEmbedder

ANA, BEN = ScopeName("acme/ana"), ScopeName("acme/ben")
EMBEDDER = FakeEmbedder({"boats": (1, 0, 0, 0, 0, 0, 0, 0)})
KNOWN = (
    (memory("A raft.", id=identity(1), scope=ANA), at_cosine(0.5)),
    (memory("A ferry.", id=identity(2), scope=ANA), at_cosine(0.9)),
    (memory("A canoe.", id=identity(3), scope=BEN), at_cosine(0.7)),
    (memory("A train.", id=identity(4), scope=ScopeName("acme")), unit(0, 1)),
    (memory("A ship.", id=identity(5), scope=ScopeName("acmeship")), unit(1)),
)


def words(text: str) -> int:
    return len(text.split())


def made(number: int, kept: Memory, reason: Reason) -> dict[str, Any]:
    return {
        "decision_id": f"decision {number}",
        "event": event(kept.text, scope=kept.scope, occurred_at=later(number)),
        "source": Position(topic="memory.events", partition=0, offset=number),
        "policy_id": policy().id,
        "evidence": Evidence(reason=reason),
        "memory": kept,
    }


def insert(kept: Memory, vector: Vector) -> Insert:
    fields = made(int(kept.id[-3:]), kept, Reason.NOTHING_NEAR)
    return Insert(**fields, embedding=pack(vector, MODEL))


async def log_of(*decisions: Change) -> LocalBroker:
    log = LocalBroker(indexed=INDEXED)
    log.create(DECISIONS.name, 1)
    await log.append([fence_record("owner", 0, 1)])
    await log.append(
        [decision_record(one, DECISION.encode(one), 0, Epoch(0, "owner")) for one in decisions]
    )
    return log


async def recalled(**asked: Any) -> PromptBlock:
    log = await log_of(*(insert(kept, vector) for kept, vector in KNOWN))
    recaller = Recaller(log, lambda: EMBEDDER, words)
    return await recaller.recall(RecallRequest.model_validate({"query": "boats", **asked}))


async def test_the_nearest_of_a_scope_come_first() -> None:
    block = await recalled(scope=ANA)
    assert [(one.memory.text, one.similarity) for one in block.recalled] == [
        ("A ferry.", 0.9),
        ("A raft.", 0.5),
    ]
    assert block.text.split("\n") == ["Memory of acme/ana", "- A ferry.", "- A raft."]


@pytest.mark.covers("S0.79")
async def test_of_all_scopes_below_one_the_nearest_come_first_wherever_they_are() -> None:
    block = await recalled(scope="acme", across=True, lasting=2, recent=1)
    assert block.text.split("\n") == [
        "Memory of acme and below",
        "- A ferry. (acme/ana)",
        "- A canoe. (acme/ben)",
        "- A raft. (acme/ana)",
        "(1 more not shown)",
    ]


async def test_a_memory_is_found_by_another_wording_and_shown_by_its_text() -> None:
    boat = insert(memory("A dinghy.", id=identity(1), scope=ANA), unit(0, 1))
    said = event("A little boat.", scope=ANA, occurred_at=later(2))
    again = Reinforce.model_validate(
        {
            **made(2, boat.memory, Reason.SAME_FACT),
            "event": said,
            "memory": seen_again(boat.memory, said),
            "target": target_of(boat.memory),
            "embedding": pack(unit(1), MODEL),
        }
    )
    recaller = Recaller(await log_of(boat, again), lambda: EMBEDDER, words)
    block = await recaller.recall(RecallRequest.model_validate({"scope": ANA, "query": "boats"}))
    [one] = block.recalled
    assert (one.memory.text, one.similarity, one.wording) == ("A dinghy.", 1.0, "A little boat.")
    assert block.text.split("\n") == ["Memory of acme/ana", "- A dinghy. (seen 2x)"]
    assert block.as_json()["memories"][0]["wording"] == "A little boat."


async def index_of(*known: tuple[Memory, Vector]) -> ExactIndex:
    index = ExactIndex()
    await index.write([StoredMemory(kept, vector) for kept, vector in known])
    return index


def nobody(query: str) -> Awaitable[Vector]:
    raise AssertionError(query)


@pytest.mark.parametrize(
    ("asked", "most", "told"),
    [
        ({"scope": ANA}, None, None),
        ({"scope": "acme", "across": True}, None, None),  # they share nothing, but there are some
        ({"scope": "acme/anna"}, None, "; others have: acme/ana, acme, acmeship"),
        ({"scope": "acme/anna"}, 5, "; others have: acme/ana, acme, acmeship"),
        ({"scope": "acme/anna"}, 4, ""),
        ({"scope": "zeta", "across": True}, None, "; others have: acme/ana, acme, acmeship"),
        ({"scope": "zeta", "across": True}, 4, None),
    ],
)
async def test_where_nothing_is_kept_the_nearest_scopes_are_named_apart_from_the_block(
    asked: dict[str, Any], most: int | None, told: str | None
) -> None:
    wanted = RecallRequest.model_validate(asked)
    index = await index_of(*KNOWN)
    block = await of_index(index, wanted, nobody, words)
    said = await nothing(index, block, wanted, named=lambda one: one != BEN, most=most)
    assert said == (None if told is None else f"scope {wanted.scope} has no memories{told}")
    assert said is None or said not in block.text


async def test_a_scope_of_retired_memories_alone_has_none_and_nor_has_any_other() -> None:
    gone = Superseded(by=None, at=later(1), reason="expired")
    retired = memory(
        "A raft.", id=identity(1), scope=ANA, status=Standing.SUPERSEDED, superseded=gone
    )
    index = await index_of((retired, unit(1)))
    block = await of_index(index, RecallRequest(scope=ANA), nobody, words)
    assert await nothing(index, block, RecallRequest(scope=ANA)) == f"scope {ANA} has no memories"


async def test_where_nothing_is_kept_no_model_is_asked_for() -> None:
    def load() -> FakeEmbedder:
        raise AssertionError

    recaller = Recaller(await log_of(), load, words)
    asked = RecallRequest(scope=ANA, query="boats")
    assert (await recaller.recall(asked)).text == "No memories yet."


async def test_vectors_of_another_model_are_not_compared() -> None:
    log = await log_of(insert(*KNOWN[0]))
    other = FakeEmbedder({"boats": (1, 0)}, model="other")
    with pytest.raises(Fatal, match="holds vectors of fake, and this process makes those of other"):
        await Recaller(log, lambda: other, words).recall(RecallRequest(scope=ANA, query="boats"))


async def test_decisions_that_do_not_add_up_are_no_store() -> None:
    known = KNOWN[0][0]
    seen = known.model_copy(update={"version": 3})
    target = Target(memory_id=known.id, version=2)
    late = Reinforce(**made(9, seen, Reason.SAME_FACT), target=target)
    recaller = Recaller(await log_of(insert(*KNOWN[0]), late), lambda: EMBEDDER, words)
    with pytest.raises(NoStore, match=r"memory.decisions/0: .*; restore the log from a copy"):
        await recaller.recall(RecallRequest(scope=ANA))


@pytest.mark.parametrize("query", [None, "boats"])
async def test_the_newer_of_two_in_conflict_stands_before_the_older(query: str | None) -> None:
    """The older was seen more often, and is nearer to the query."""
    older = memory("The ferry runs.", id=identity(1), scope=ANA, observation_count=3)
    newer = memory("The ferry is closed.", id=identity(2), scope=ANA, last_seen_at=later(1))
    index = await index_of((older, unit(1)))
    contradicted = ((older.id, older.version),)
    await index.write([StoredMemory(newer, at_cosine(0.5), contradicted=contradicted)])

    async def boats(_: str) -> Vector:
        return unit(1)

    block = await of_index(index, RecallRequest(scope=ANA, query=query), boats, words)
    assert [one.memory for one in block.recalled] == [newer, older]
