"""A memory of a turn from a real server of a real, very small, language model.

What it says is of no interest; that the form of the answer can be asked for, and what came is taken
or refused, is.
"""

from collections.abc import Iterator

import pytest

from schemas.events import Remember
from streams.extract.core.looking import ExaminedTurn
from streams.extract.core.synthesis import Abstention, KnownMemory, Material, RejectedAnswer
from streams.extract.core.triggers import FiredTrigger, Trigger
from streams.extract.world.extracting import LlmExtractor
from streams.judges.chat import Chat, Endpoint
from tests.builders import memory, turn
from tests.fakes.clock import StandingClock
from tests.support.servers.llama import KEY, Llama, llama

TURN = turn(("model", "take oar"), ("world", "The oar is nailed to the bench."), turn_id="t-9")
KNOWN = KnownMemory.of(memory("The oar is under the bench."))


@pytest.fixture(scope="module")
def server() -> Iterator[Llama]:
    with llama() as started:
        yield started


async def test_an_answer_comes_in_the_form_that_is_asked_for(server: Llama) -> None:
    endpoint = Endpoint(server.url, "gemma", api_key=KEY, timeout_seconds=100.0)
    extractor = LlmExtractor(Chat(endpoint, StandingClock()), temperature=0.3)
    fired = (FiredTrigger(Trigger.LONG_RESPONSE, "the world answered much"),)
    looked = ExaminedTurn(TURN, fired, heard=(), earlier=(), recalled=frozenset())
    found = await extractor.extract(Material(looked, known=(KNOWN,)))
    await extractor.close()
    assert isinstance(found, Remember | Abstention | RejectedAnswer), found
