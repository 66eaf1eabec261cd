"""The Python API of an agent in a world: what it does goes in, what it should know comes out."""

import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from schemas.turns import Place, State
from streams.memory.app.journal import ActionResult, Journal, journal
from streams.store.app import settings
from tests.commands.extract.test_extract import remembered
from tests.standin.llm import LlmServer, Reply, in_turn, said
from tests.support.encoding.models import models_dir
from tests.support.stage.stores import decisions

pytestmark = pytest.mark.process

CELLAR, ATTIC = Place(id=193, name="Cellar"), Place(id=7, name="Attic")
BARS = "The trap door crashes shut, and you hear someone barring it."
NOISE = "Nothing else happens here, and the dust on the steps settles again after a while."
FIRST = State(first_visit=True)


def opened(
    store: Path, episode: str = "1", *, llm: str | None = None
) -> AbstractAsyncContextManager[Journal]:
    """Open the journal of the test's world, with a Memories.md beside its store."""
    values: dict[str, Any] = {
        "store": store,
        "policy": "zork-semantic",
        "embedder": {"cache_dir": models_dir()},
        "sinks": {"memories_md": store.parent / "Memories.md", "memories_md_world": "zork"},
    }
    if llm is not None:
        values["llm"] = {"base_url": llm, "model": "tiny", "attempts_max": 1}
    chosen = settings.load(values)
    return journal(chosen, world="zork", episode=episode, llm=llm is not None)


async def go_down(agent: Journal) -> ActionResult:
    return await agent.record_action_outcome(CELLAR, "go down", BARS, FIRST)


@pytest.mark.covers("S3.2", "S3.29", "S3.38", "S3.45", "S3.47")
async def test_two_episode_persistence(tmp_path: Path) -> None:
    async with opened(tmp_path / "s", "1") as agent:
        first = await go_down(agent)
        assert (first.triggers, first.noted) == (("first-visit",), (BARS,))
        assert BARS in (tmp_path / "Memories.md").read_text("utf-8")
        assert BARS in await agent.get_location_memory(CELLAR.id)
    async with opened(tmp_path / "s", "2") as agent:
        block = await agent.get_location_memory(CELLAR.id)
        heading = f"Location Memory for Cellar (Location {CELLAR.id}): 1 visit, 1 episode"
        assert block == f"{heading}\n- [DISCOVERY] {BARS}"
        assert await agent.get_location_memory(ATTIC.id) == "First visit - no prior experiences"


@pytest.mark.covers("S3.8", "S3.11")
async def test_what_follows_a_move_is_noted_where_it_led_and_each_entry_is_a_visit(
    tmp_path: Path,
) -> None:
    dust = "The floor of the attic is covered with dust."
    up, down = State(location_after=ATTIC), State(location_after=CELLAR)
    async with opened(tmp_path / "s") as agent:
        for _ in range(2):
            await agent.record_action_outcome(CELLAR, "go up", dust, up)
            await agent.record_action_outcome(ATTIC, "go down", BARS, down)
        attic, cellar = [await agent.get_location_memory(one.id) for one in (ATTIC, CELLAR)]
    assert attic.startswith("Location Memory for Attic (Location 7): 2 visits, 1 episode\n")
    assert dust in attic
    assert cellar.startswith("Location Memory for Cellar (Location 193): 2 visits, 1 episode\n")
    kept = (tmp_path / "Memories.md").read_text("utf-8")
    assert "## Location 7: Attic\n**Visits:** 2 | **Episodes:** 1\n" in kept
    assert kept.index("## Location 7:") < kept.index("## Location 193:")


@pytest.mark.covers("S3.38", "S3.45")
async def test_the_same_action_twice_is_counted_and_the_status_tells(tmp_path: Path) -> None:
    async with opened(tmp_path / "s") as agent:
        await go_down(agent)
        await agent.reset_episode("2")
        await go_down(agent)
        assert f"- [DISCOVERY] {BARS} (seen 2x)" in await agent.get_location_memory(CELLAR.id)
        told = agent.get_status()
    assert (told.episode, told.turn, told.refused) == ("2", 1, None)
    assert (told.taken["turns"], told.taken["events"]) == (2, 2)
    assert told.decisions == {"insert": 1, "reinforce": 1}


@pytest.mark.covers("S0.47")
async def test_concurrent_memory_creation(tmp_path: Path) -> None:
    async with opened(tmp_path / "s") as agent:
        await asyncio.gather(
            *(go_down(agent) for _ in range(20)),
            *(agent.get_location_memory(CELLAR.id) for _ in range(5)),
        )
        assert "(seen 20x)" in await agent.get_location_memory(CELLAR.id)
    assert Counter(one.kind for one in await asyncio.to_thread(decisions, tmp_path / "s")) == {
        "insert": 1,
        "reinforce": 19,
    }


@pytest.mark.covers("S3.45", "S3.9", "S0.3")
async def test_the_model_is_asked_only_where_a_sign_fires(tmp_path: Path) -> None:
    with LlmServer(in_turn(remembered("The cellar's trap door is barred from above."))) as server:
        async with opened(tmp_path / "s", llm=server.url) as agent:
            quiet = await agent.record_action_outcome(CELLAR, "wait", "Time passes.")
            noted = await go_down(agent)
    assert (quiet.triggers, quiet.noted) == ((), ())
    assert noted.noted == ("The cellar's trap door is barred from above.",)
    assert len(server.asked) == 1


@pytest.mark.covers("S0.30", "S0.83", "B23")
async def test_what_is_ephemeral_ends_with_the_episode(tmp_path: Path) -> None:
    thief = "The thief is in the next room."
    lasting = "The cellar's trap door is barred from above."
    answers = in_turn(remembered(thief, persistence="ephemeral"), remembered(lasting))
    with LlmServer(answers) as server:
        async with opened(tmp_path / "s", llm=server.url) as agent:
            for _ in range(2):
                await agent.record_action_outcome(CELLAR, "listen", BARS, FIRST)
            assert thief in await agent.get_location_memory(CELLAR.id)
            await agent.reset_episode("2")
            block = await agent.get_location_memory(CELLAR.id)
    assert thief not in block
    assert lasting in block
    assert thief not in (tmp_path / "Memories.md").read_text("utf-8")


@pytest.mark.parametrize("failure", [Reply(hangs_up=True), Reply(401), said("{")], ids=repr)
async def test_the_agent_goes_on_where_a_memory_cannot_be_made(
    tmp_path: Path, failure: Reply
) -> None:
    answers = in_turn(failure, failure, remembered("The trap door is barred."))
    with LlmServer(answers) as server:
        async with opened(tmp_path / "s", llm=server.url) as agent:
            lost = await go_down(agent)
            assert lost.refused is not None
            assert agent.get_status().refused == lost.refused
            await go_down(agent)
            assert (await go_down(agent)).noted == ("The trap door is barred.",)
