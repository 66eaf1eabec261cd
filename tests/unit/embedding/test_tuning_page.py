"""docs/tuning.md: its settings can be used, and say what the page says of them."""

import re
import tomllib
from pathlib import Path

import pytest

from streams.embedding import DEFAULT_MODEL
from streams.embedding.install import describe
from streams.model.bands import Bands
from streams.model.policy import InvalidPolicy, parse
from streams.store.app import policies
from streams.store.app.settings import Settings, load

PAGE = (Path(__file__).parents[3] / "docs" / "tuning.md").read_text("utf-8")
BLOCKS = re.findall(r"^```toml\n# memsieve\.toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
OWN, ENDPOINT, FALLBACK, FAST, GOOD, CHEAP = BLOCKS


def loaded(block: str) -> Settings:
    return load(tomllib.loads(block))


@pytest.mark.covers("S0.20")
def test_the_documents_other_local_model_is_a_folder() -> None:
    assert loaded(OWN).embedder.model == "folder:/models/all-mpnet-base-v2"


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_is_valid_and_its_policy_is_for_its_model(block: str) -> None:
    settings = loaded(block)
    policies.require_model(policies.load(settings.policy), settings.embedder.model)


@pytest.mark.covers("S0.23", "S0.24", "S0.60", "B110")
def test_the_chain_names_local_models_an_endpoint_and_the_last_resort() -> None:
    chain = (loaded(FALLBACK).embedder.model, *loaded(FALLBACK).embedder.fallback)
    assert [model.partition(":")[0] for model in chain] == [
        DEFAULT_MODEL,
        "BAAI/bge-small-en-v1.5",
        "endpoint",
        "memsieve/hashing-ngrams-v1",
    ]
    assert all(describe(model).model == model for model in chain[:2])
    assert loaded(ENDPOINT).embedder.endpoint.tokens_max == 8_191


@pytest.mark.covers("S0.61", "B111")
def test_the_fast_profile_takes_the_small_model_and_large_batches() -> None:
    fast = loaded(FAST)
    assert fast.embedder.model == DEFAULT_MODEL
    assert fast.embedder.precision == "auto"
    assert fast.run.batch_records > Settings().run.batch_records


@pytest.mark.covers("S0.62", "B111")
def test_the_good_profile_takes_a_wider_model() -> None:
    assert describe(loaded(GOOD).embedder.model).dim == 768


@pytest.mark.covers("S0.63", "B111")
def test_the_cheap_profile_asks_the_endpoint_for_a_hundred_texts_at_once() -> None:
    cheap = loaded(CHEAP).embedder
    assert cheap.model == "endpoint:text-embedding-3-small"
    assert cheap.endpoint.batch_texts == 100


@pytest.mark.covers("S0.57", "S0.58", "S0.59", "B111")
def test_the_three_settings_lie_in_the_ranges_of_their_document() -> None:
    told = dict(
        re.findall(r"^\| (conservative|balanced|aggressive) \| (0\.\d+)", PAGE, re.MULTILINE)
    )
    assert 0.90 <= float(told["conservative"]) <= 0.95
    assert 0.85 <= float(told["balanced"]) <= 0.90
    assert 0.75 <= float(told["aggressive"]) <= 0.85
    assert policies.load("zork-semantic").bands.review == float(told["balanced"])


@pytest.mark.covers("S1.25", "S1.26", "S1.27")
def test_the_two_thresholds_are_bounded_and_can_be_switched_off() -> None:
    written = policies.text("two-threshold")
    policy = parse(written)
    assert policy.enabled
    assert policy.bands == Bands(match=0.95, review=0.90, log=policy.bands.log)
    assert not parse(f"enabled = false\n{written}").enabled
    for key, value in (("match", 0.95), ("review", 0.9)):
        [line] = re.findall(rf"^{key} = {value}0?\b", written, re.MULTILINE)
        for outside in (1.01, -0.01, -0.5):
            with pytest.raises(InvalidPolicy, match=f"bands.{key}"):
                parse(written.replace(line, f"{key} = {outside}"))


@pytest.mark.covers("S1.10")
def test_the_deduplicator_is_given_its_model_key_and_thresholds() -> None:
    llm = {"base_url": "https://host/v1", "model": "gemini-3-flash-preview", "api_key": "secret"}
    settings = load({"store": "memories", "policy": "two-threshold", "llm": llm})
    assert settings.llm.model == "gemini-3-flash-preview"
    assert settings.llm.api_key is not None
    assert settings.llm.api_key.get_secret_value() == "secret"
