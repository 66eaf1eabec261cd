"""The models that settings name, and the policies that are for them."""

from typing import Any

import pytest

from streams.embedding import DEFAULT_MODEL, HASHING
from streams.embedding.tokens import estimated
from streams.model.embedding import base_model
from streams.model.policy import InvalidPolicy, parse
from streams.model.ports.failures import NoModel
from streams.store.app import policies, wiring
from streams.store.app.setting_groups import EmbedderSettings
from streams.store.app.settings import InvalidSettings, listing, load


@pytest.mark.covers("B110", "S0.85")
def test_the_model_is_what_the_settings_name_and_nothing_is_chosen_by_itself() -> None:
    settings = load({})
    assert settings.embedder.model == DEFAULT_MODEL
    assert settings.embedder.fallback == ()


def test_the_key_of_the_endpoint_is_masked() -> None:
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "api_key": "sk-very-secret"}
    assert "sk-very-secret" not in str(listing(load({"embedder": {"endpoint": endpoint}})))


@pytest.mark.parametrize("url", ["http://ana:secret@host/v1", "https://host/v1?version=1", "host"])
def test_the_address_of_the_endpoint_is_a_plain_one(url: str) -> None:
    with pytest.raises(InvalidSettings, match=r"embedder\.endpoint\.base_url"):
        load({"embedder": {"endpoint": {"base_url": url}}})


def test_services_share_one_model() -> None:
    settings = EmbedderSettings(fallback=(HASHING,))
    with pytest.raises(InvalidSettings, match=r"embedder\.fallback would give the services"):
        wiring.shared_model_of(settings)
    for precision in ("exact", "auto"):
        alone = EmbedderSettings(model=HASHING, precision=precision)
        assert wiring.shared_model_of(alone) == wiring.model_of(alone) == HASHING


def test_what_has_no_files_is_not_installed() -> None:
    with pytest.raises(NoModel, match="has no files: there is nothing to install"):
        wiring.install_model(EmbedderSettings(model=HASHING), print, force=False)


def test_tokens_are_estimated_where_no_tokenizer_is_there() -> None:
    count = wiring.token_counter(EmbedderSettings(model=HASHING), print)
    assert count is estimated
    assert [count(text) for text in ("", "tea", "Ana likes tea.", "寿司")] == [0, 1, 5, 2]


def test_only_the_precision_is_left_out_of_a_models_name() -> None:
    assert base_model(f"{DEFAULT_MODEL}@bf16") == DEFAULT_MODEL
    assert base_model("endpoint:@cf/baai/bge-m3") == "endpoint:@cf/baai/bge-m3"


# Policies


@pytest.mark.parametrize("model", [DEFAULT_MODEL, HASHING, "endpoint:anything"])
def test_keep_both_is_for_any_model(model: str) -> None:
    policies.require_model(policies.load("keep-both"), model)


def test_the_hashing_policy_is_for_the_hashing_model_alone() -> None:
    policy = policies.load("default-hashing")
    policies.require_model(policy, HASHING)
    with pytest.raises(InvalidPolicy, match=f"calibrated for {HASHING}"):
        policies.require_model(policy, DEFAULT_MODEL)


ANY: dict[str, Any] = {
    "bands": ("match = 1.0\nreview = 1.0\nlog = 1.0", "match = 1.0\nreview = 1.0\nlog = 0.9"),
    "judges": ("chain = []", 'chain = ["built-in"]'),
    "acts": ("[judges]", '[without_verdict]\nmatch = "merge"\n\n[judges]'),
    "titles": ("similarity_min = 0.5", "similarity_min = 0.5\nsame_title = true"),
    "scopes": ("[calibration]", "[scopes.zork.bands]\nlog = 0.8\n\n[calibration]"),
}


@pytest.mark.parametrize("part", ANY)
def test_a_policy_for_any_model_decides_nothing_by_similarity(part: str) -> None:
    before, after = ANY[part]
    written = policies.text("keep-both")
    assert before in written
    with pytest.raises(InvalidPolicy, match="a policy for any model may not use similarity"):
        parse(written.replace(before, after))
