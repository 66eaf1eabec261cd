"""The language model as the settings ask for it."""

from pathlib import Path

import pytest

from schemas.base import ScopeName
from schemas.decisions import Verdict
from streams.model.merge import MergePart
from streams.model.ports.models import WordingRequest
from streams.model.verdict import Opinion, Pair
from streams.store.app import wiring
from streams.store.app.setting_groups import LlmSettings
from streams.store.app.settings import InvalidSettings, listing, load
from tests.builders import START, event, memory
from tests.fakes.clock import StandingClock
from tests.standin.llm import LlmServer, in_turn, opinion, worded

KEY = "sk-very-secret"
PAIR = Pair(event(), memory(), 1.0)
TO_WORD = WordingRequest(ScopeName("acme/ana"), (MergePart("1", "Ana likes tea.", START),), 40)


@pytest.mark.parametrize("llm", [{"model": "m"}, {"base_url": "http://127.0.0.1:1/v1"}])
def test_model_and_address_go_together(llm: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings, match=r"llm: .*base_url and model go together"):
        load({"llm": llm})


@pytest.mark.parametrize("url", ["http://ana:secret@host/v1", "https://host/v1?version=1", "host"])
def test_an_address_is_a_plain_one(url: str) -> None:
    with pytest.raises(InvalidSettings, match=r"llm\.base_url"):
        load({"llm": {"base_url": url, "model": "m"}})


def test_the_key_is_masked_where_settings_are_listed() -> None:
    llm = {"base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key": KEY}
    listed = listing(load({"llm": llm}))
    assert KEY not in str(listed)
    assert listed["llm.base_url"] == "http://127.0.0.1:1/v1"


def test_without_an_address_there_is_no_language_model() -> None:
    verifier = wiring.llm_verifier(LlmSettings(), StandingClock())
    assert verifier is None
    assert wiring.llm_wording(LlmSettings(), verifier) is None


async def test_judge_and_writer_are_made_from_the_settings(tmp_path: Path) -> None:
    prompt = tmp_path / "merge.txt"
    prompt.write_text("own words: {begin} {end} {characters_max}")
    with LlmServer(in_turn(opinion("same"), worded("a"))) as server:
        settings = LlmSettings.model_validate(
            {"base_url": f"{server.url}/", "model": "m", "api_key": KEY, "merge_prompt": prompt}
        )
        verifier = wiring.llm_verifier(settings, StandingClock())
        assert verifier is not None
        wording = wiring.llm_wording(settings, verifier)
        assert wording is not None
        assert await verifier.verify([PAIR]) == [Opinion(Verdict.SAME, "llm")]
        assert await wording.word(TO_WORD) == "a"
        await verifier.close()
    assert [asked.path for asked in server.asked] == ["/v1/chat/completions"] * 2
    assert server.asked[1].instructions.startswith("own words: ")
