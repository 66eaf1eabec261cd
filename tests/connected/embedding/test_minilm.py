"""The installed all-MiniLM-L6-v2 against the published weights, computed another way."""

import asyncio
import functools
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from fastembed import TextEmbedding
from fastembed.common.model_description import DenseModelDescription

from streams.embedding import DEFAULT_MODEL
from streams.embedding.fastembed_text import FastembedEmbedder
from streams.embedding.install import GRAPH, MANIFEST, WEIGHTS, Origins, install, verify
from streams.model.embedding import TextVector, Vector, similarity
from streams.model.ports.failures import NoModel
from tests.support.encoding.minilm_reference import Reference
from tests.support.encoding.models import (
    OFFICIAL,
    default_embedder,
    models_dir,
    official_files,
    with_its_weights,
)
from training.minilm_graph import built

SENTENCES = [
    "User likes hiking",
    "The user enjoys hiking in the mountains at the weekend.",
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "trap door bars",
    "window ajar",
    "x",
    "42",
    "5 °C, 10 km², ½ cup",
    "NOT a question?! (really) -- #hashtag @mention",
    "Ünïcödé Straße, naïve façade",
    "日本語の短い文です。",
    "Привет, мир! Как дела?",
    "مرحبا بالعالم",
    "👩‍👩‍👧 family & 🧀 cheese",
    "e\u0301 is not \u00e9 in bytes",
    "tabs\tand\nnew lines\r\nin one text",
    "  spaces around  ",
    "[CLS] pretended [SEP] control [MASK] tokens [PAD]",
    "supercalifragilisticexpialidocious" * 4,
    "def f(x): return {'a': [1, 2, 3], \"b\": None}",
    "The quick brown fox jumps over the lazy dog. " * 12,
    "Caroline attended an LGBTQ support group recently and found the stories inspiring. " * 30,
    "word " * 600,
]


@functools.cache
def reference() -> Reference:
    return Reference.of(official_files())


def embed(*texts: str) -> list[TextVector]:
    return asyncio.run(default_embedder().embed(texts))


@functools.cache
def embedded_together() -> list[Vector]:
    return [answer.vector for answer in embed(*SENTENCES)]


@pytest.mark.covers("S0.18")
@pytest.mark.parametrize("place", range(len(SENTENCES)))
def test_vector_equals_an_independent_computation(place: int) -> None:
    expected = reference().embed(SENTENCES[place])
    np.testing.assert_allclose(embedded_together()[place], expected, atol=1e-4, rtol=0)


def test_the_difference_to_the_reference_is_rounding() -> None:
    """The bound of 1e-4 could hide a small mistake; over all texts the error stays in float32."""
    expected = [reference().embed(text) for text in SENTENCES[:21]]
    worst = np.abs(np.array(embedded_together()[:21]) - np.array(expected)).max()
    assert worst < 1e-6


@pytest.mark.covers("S0.18")
def test_reports_its_name_and_384_dimensions() -> None:
    assert default_embedder().model == DEFAULT_MODEL
    assert default_embedder().dimension == 384


def test_published_cosine_of_a_pair() -> None:
    food, bread = embedded_together()[2:4]
    assert similarity(food, bread) == pytest.approx(0.7553, abs=1e-4)


@pytest.mark.parametrize("place", range(len(SENTENCES)))
def test_vector_does_not_depend_on_the_batch(place: int) -> None:
    (alone,) = embed(SENTENCES[place])
    np.testing.assert_allclose(alone.vector, embedded_together()[place], atol=1e-6, rtol=0)


def test_vectors_are_those_of_plain_fastembed() -> None:
    folder = verify(DEFAULT_MODEL, models_dir())
    plain = TextEmbedding(
        DEFAULT_MODEL, cache_dir=str(models_dir()), cuda=False, specific_model_path=str(folder)
    )
    vectors = list(plain.embed(SENTENCES))
    np.testing.assert_allclose(embedded_together(), vectors, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("words", "truncated"), [(1, False), (510, False), (511, True)])
def test_truncated_from_the_first_token_over_512(words: int, *, truncated: bool) -> None:
    (answer,) = embed("word " * words)
    assert answer.truncated is truncated


def test_a_text_is_read_up_to_its_512th_token() -> None:
    long, longer = embed("word " * 511, "word " * 600 + "otherwise")
    np.testing.assert_allclose(long.vector, longer.vector, atol=1e-6)


def test_the_graph_is_valid_onnx() -> None:
    graph = verify(DEFAULT_MODEL, models_dir()) / "model.onnx"
    onnx.checker.check_model(  # pyright: ignore[reportUnknownMemberType] - PathLike of what?
        str(graph), full_check=True
    )


def test_every_install_is_the_same_to_the_byte(tmp_path: Path) -> None:
    first = install(DEFAULT_MODEL, tmp_path / "first", report=print, origins=OFFICIAL)
    again = install(DEFAULT_MODEL, tmp_path / "again", report=print, origins=OFFICIAL)
    assert _sums(again) == _sums(first)
    assert FastembedEmbedder(DEFAULT_MODEL, tmp_path / "first", threads=1).dimension == 384


def test_the_graph_in_the_package_is_what_its_script_makes() -> None:
    assert built(official_files() / WEIGHTS) == GRAPH.read_bytes()


def test_a_model_of_another_width_than_promised_is_refused(tmp_path: Path) -> None:
    def mislabelled(model: DenseModelDescription, into: Path) -> Path:
        folder = verify(DEFAULT_MODEL, models_dir())
        no_manifest = shutil.ignore_patterns(MANIFEST)
        snapshot = shutil.copytree(folder, into / "snapshot", ignore=no_manifest)
        graph = with_its_weights(snapshot / "model.onnx")
        (snapshot / model.model_file).write_bytes(graph.SerializeToString())
        return snapshot

    wider = "BAAI/bge-base-en-v1.5"
    install(wider, tmp_path, report=print, origins=Origins(OFFICIAL.package, mislabelled))
    with pytest.raises(NoModel, match=f"gives 384 dimensions, {wider} has 768"):
        FastembedEmbedder(wider, tmp_path)


def _sums(folder: Path) -> object:
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
