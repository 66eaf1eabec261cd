"""The encoder in bf16: as near to fp32 as it is said to be, under a name of its own."""

import asyncio
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from streams.embedding import DEFAULT_MODEL, bf16
from streams.embedding.fastembed_text import FastembedEmbedder
from streams.embedding.install import describe
from streams.embedding.precision import identity, settled
from streams.index.qdrant import collection_name
from streams.model.embedding import base_model
from streams.model.policy import InvalidPolicy
from streams.model.ports.failures import NoModel
from streams.store.app import policies, wiring
from streams.store.app.setting_groups import EmbedderSettings
from streams.store.app.settings import InvalidSettings
from tests.support.encoding.bf16_models import fast_embedder, has_bf16
from tests.support.encoding.models import default_embedder, models_dir
from tests.support.encoding.texts import varied_texts

TEXTS = varied_texts(320)
ROOT = Path(__file__).parents[3]
NAME = f"{DEFAULT_MODEL}@bf16"
STATIC = "minishlab/potion-base-8M"


def vectors(embedder: FastembedEmbedder, texts: list[str]) -> NDArray[np.float64]:
    made = asyncio.run(embedder.embed(texts))
    return np.array([one.vector for one in made], np.float64)


def no_package(_: str) -> None:
    """Find no package."""


def no_bf16() -> bool:
    return False


@has_bf16
def test_cosines_drift_by_less_than_half_a_hundredth() -> None:
    exact, drifted = vectors(default_embedder(), TEXTS), vectors(fast_embedder(), TEXTS)
    drift = np.abs(drifted @ drifted.T - exact @ exact.T)
    assert len(TEXTS) >= 300
    assert drift.max() < 0.005
    assert drift.max() > 1e-5, "it must compute in another precision at all"


@has_bf16
@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_a_vector_does_not_depend_on_the_batch(size: int) -> None:
    together = vectors(fast_embedder(), TEXTS)
    some = range(0, len(TEXTS), size * 5)
    for at in some:
        batch = TEXTS[at : at + size]
        np.testing.assert_allclose(
            vectors(fast_embedder(), batch), together[at : at + size], atol=1e-6, rtol=0
        )


@has_bf16
@pytest.mark.covers("B131")
def test_each_precision_has_its_own_name() -> None:
    assert default_embedder().model == DEFAULT_MODEL
    assert fast_embedder().model == NAME
    assert fast_embedder().dimension == default_embedder().dimension


@has_bf16
def test_auto_is_fast_where_it_can_be() -> None:
    assert settled("auto", describe(DEFAULT_MODEL)) == "fast"
    assert wiring.model_of(EmbedderSettings(precision="auto")) == NAME


@pytest.mark.covers("B131")
def test_collections_of_both_have_different_names() -> None:
    described = describe(DEFAULT_MODEL)
    names = {
        collection_name("memsieve", identity(described, precision), 384)
        for precision in ("exact", "fast")
    }
    assert len(names) == 2


def test_without_the_package_fast_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streams.embedding.precision.find_spec", no_package)
    with pytest.raises(NoModel) as refused:
        FastembedEmbedder(DEFAULT_MODEL, models_dir(), precision="fast")
    assert str(refused.value) == (
        "embedder.precision fast needs OpenVINO: install the extra memsieve[fast], or set "
        "embedder.precision to exact"
    )
    auto = FastembedEmbedder(DEFAULT_MODEL, models_dir(), precision="auto")
    assert auto.model == DEFAULT_MODEL


def test_without_bf16_fast_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bf16, "is_supported", no_bf16)
    with pytest.raises(NoModel) as refused:
        wiring.verify_model(EmbedderSettings(precision="fast"))
    assert str(refused.value) == (
        "embedder.precision fast requires a processor with bf16: set embedder.precision to exact"
    )
    assert settled("auto", describe(DEFAULT_MODEL)) == "exact"


def test_a_model_without_a_graph_is_never_fast() -> None:
    with pytest.raises(NoModel, match=f"{STATIC} is a table: set embedder.precision to exact"):
        settled("fast", describe(STATIC))
    assert settled("auto", describe(STATIC)) == "exact"


def test_services_name_their_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer embeds nothing: it needs neither the package nor the processor."""
    monkeypatch.setattr("streams.embedding.precision.find_spec", no_package)
    assert wiring.shared_model_of(EmbedderSettings(precision="fast")) == NAME
    with pytest.raises(InvalidSettings, match="set it to exact or fast"):
        wiring.shared_model_of(EmbedderSettings(precision="auto"))


def test_a_policy_is_good_for_every_precision_of_its_model() -> None:
    policy = policies.load("default")
    policies.require_model(policy, DEFAULT_MODEL)
    policies.require_model(policy, NAME)
    assert base_model(NAME) == base_model(DEFAULT_MODEL) == DEFAULT_MODEL
    with pytest.raises(InvalidPolicy, match="calibrated for"):
        policies.require_model(policy, "BAAI/bge-small-en-v1.5@bf16")


LOADED = """
import sys
import streams.embedding.bf16
print([name for name in sys.modules if name.startswith("openvino_telemetry.")])
"""


def test_openvino_does_not_report_its_use_to_its_maker(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOADED],
        env={"HOME": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "[]\n"
    assert list(tmp_path.iterdir()) == []
