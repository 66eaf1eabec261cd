"""How texts go through the encoder: as fastembed would, at less cost, each for itself."""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from fastembed import TextEmbedding
from fastembed.common.model_description import DenseModelDescription
from fastembed.common.preprocessor_utils import load_tokenizer
from onnx import TensorProto, helper
from safetensors.numpy import save

from schemas.base import TEXT_MAX
from streams.embedding import DEFAULT_MODEL
from streams.embedding.batching import batches
from streams.embedding.fastembed_text import FastembedEmbedder
from streams.embedding.install import GRAPH_WEIGHTS, MANIFEST, Origins, install, verify
from streams.embedding.tokens import PaddingTokenizer, is_truncated, readable
from streams.model.embedding import TextVector, Vector
from streams.model.ports.failures import NoModel
from tests.support.encoding.models import OFFICIAL, default_embedder, models_dir, with_its_weights
from tests.support.encoding.texts import varied_texts

SHORT = varied_texts(48)
HUGE = "all work and no play makes a dull memory " * 125_000
"""Five megabytes."""

Files = Callable[[Path, DenseModelDescription], None]
"""Makes a snapshot of MiniLM's folder the model that a description promises."""


def embed(*texts: str) -> list[TextVector]:
    return asyncio.run(default_embedder().embed(texts))


def vectors(embedder: FastembedEmbedder, texts: Sequence[str]) -> list[Vector]:
    return [one.vector for one in asyncio.run(embedder.embed(texts))]


@cache
def tokenizer() -> PaddingTokenizer:
    read, _ = load_tokenizer(verify(DEFAULT_MODEL, models_dir()))
    return PaddingTokenizer(read)


def computed(texts: Sequence[str]) -> tuple[int, int]:
    """Return how many tokens are computed for texts, padding included, and in how many runs."""
    read = tokenizer().read([readable(text) for text in texts])
    runs = batches([tokenizer().padded_length(tokens) for tokens in read])
    return sum(run.tokens for run in runs), len(runs)


def under_the_name_of(model: str, cache_dir: Path, files: Files) -> tuple[Path, FastembedEmbedder]:
    """Install MiniLM's weights as another model of fastembed, so that its class handles them."""

    def hub(described: DenseModelDescription, into: Path) -> Path:
        folder = verify(DEFAULT_MODEL, models_dir())
        snapshot = Path(
            shutil.copytree(folder, into / "snapshot", ignore=shutil.ignore_patterns(MANIFEST))
        )
        (snapshot / described.model_file).parent.mkdir(exist_ok=True)
        files(snapshot, described)
        return snapshot

    folder = install(model, cache_dir, report=print, origins=Origins(OFFICIAL.package, hub))
    return folder, FastembedEmbedder(model, cache_dir)


def as_it_is(snapshot: Path, described: DenseModelDescription) -> None:
    (snapshot / described.model_file).write_bytes(
        with_its_weights(snapshot / "model.onnx").SerializeToString()
    )


def with_its_own_pooling(snapshot: Path, described: DenseModelDescription) -> None:
    """Add a second output: the mean over all tokens, of which padding is a part."""
    graph = with_its_weights(snapshot / "model.onnx")
    pooled = helper.make_node("ReduceMean", ["last_hidden_state"], ["pooled"], axes=[1], keepdims=0)
    output = helper.make_tensor_value_info("pooled", TensorProto.FLOAT, ["batch", 384])
    graph.graph.node.append(pooled)
    graph.graph.output.append(output)
    (snapshot / described.model_file).write_bytes(graph.SerializeToString())


def as_a_table(snapshot: Path, described: DenseModelDescription) -> None:
    """Take a table of word vectors instead of the graph."""
    (snapshot / "model.onnx").unlink()
    places = np.arange(30_522, dtype=np.float32)[:, np.newaxis]
    table = np.cos(places * (1.0 + np.arange(described.dim or 0, dtype=np.float32)))
    (snapshot / described.model_file).write_bytes(save({"embeddings": table.astype(np.float32)}))


@pytest.mark.covers("B79")
@pytest.mark.parametrize(
    ("model", "files", "pooling"),
    [
        ("BAAI/bge-small-en-v1.5", as_it_is, "the first token's"),
        ("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", as_it_is, "the mean"),
        ("minishlab/potion-base-8M", as_a_table, "of words, without a graph"),
    ],
)
def test_every_kind_of_model_has_the_vectors_of_plain_fastembed(
    model: str, files: Files, pooling: str, tmp_path: Path
) -> None:
    folder, embedder = under_the_name_of(model, tmp_path, files)
    plain = TextEmbedding(model, cache_dir=str(tmp_path), specific_model_path=str(folder))
    for text, vector in zip(SHORT, vectors(embedder, SHORT), strict=True):
        (expected,) = plain.embed([text])
        exact = expected / np.linalg.norm(expected)
        np.testing.assert_allclose(vector, exact, atol=1e-5, rtol=0, err_msg=pooling)


def test_a_graph_that_pools_by_itself_has_its_second_output_taken(tmp_path: Path) -> None:
    """Its mean counts padding, so it tells how far a text is padded: by itself, in every batch."""
    model = "ibm-granite/granite-embedding-small-english-r2"
    _, embedder = under_the_name_of(model, tmp_path, with_its_own_pooling)
    for text, vector in zip(SHORT, vectors(embedder, SHORT), strict=True):
        (alone,) = vectors(embedder, [text])
        np.testing.assert_allclose(alone, vector, atol=1e-6, rtol=0)
    assert not np.allclose(vectors(embedder, SHORT[:1]), vectors(default_embedder(), SHORT[:1]))


@pytest.mark.covers("B79")
def test_vectors_are_those_of_plain_fastembed_whatever_the_batch() -> None:
    texts = [*SHORT, SHORT[0], *SHORT[:5], "word " * 300, "word " * 600]
    folder = verify(DEFAULT_MODEL, models_dir())
    plain = TextEmbedding(DEFAULT_MODEL, cuda=False, specific_model_path=str(folder))
    expected = list(plain.embed(texts))
    together = vectors(default_embedder(), texts)
    np.testing.assert_allclose(together, expected, atol=1e-5, rtol=0)
    for place in range(0, len(texts), 5):
        (alone,) = embed(texts[place])
        np.testing.assert_allclose(alone.vector, together[place], atol=1e-6, rtol=0)


def test_threads_change_no_vector() -> None:
    one = FastembedEmbedder(DEFAULT_MODEL, models_dir(), threads=1)
    three = FastembedEmbedder(DEFAULT_MODEL, models_dir(), threads=3)
    assert np.array_equal(vectors(one, SHORT), vectors(three, SHORT))


def test_equal_texts_are_encoded_once() -> None:
    first, *others = embed(*["User likes hiking"] * 5)
    assert all(other is first for other in others)


def test_little_is_computed_for_padding() -> None:
    read = sum(len(tokens) for tokens in tokenizer().read(varied_texts(400)))
    padded, runs = computed(varied_texts(400))
    assert padded < 1.25 * read
    assert runs < 30


def test_a_huge_text_costs_the_others_nothing() -> None:
    tokens, runs = computed(SHORT)
    assert computed([*SHORT, HUGE]) == (tokens + 512, runs + 1)
    with_it, without_it = embed(*SHORT, HUGE), embed(*SHORT)
    assert with_it[-1].truncated
    for first, second in zip(with_it, without_it, strict=False):
        assert np.array_equal(first.vector, second.vector)
        assert not first.truncated


def test_of_a_huge_text_no_more_is_tokenised_than_a_memory_may_have() -> None:
    assert readable(HUGE) == HUGE[:TEXT_MAX]
    huge, longest = embed(HUGE, HUGE[:TEXT_MAX])
    assert np.array_equal(huge.vector, longest.vector)
    assert huge.truncated
    assert longest.truncated


def test_a_memory_is_tokenised_whole_however_much_of_it_says_nothing() -> None:
    """Blanks are no tokens: where the words begin late, a shorter cut would change the vector."""
    late = " " * (TEXT_MAX - 20) + "User likes hiking"
    (at_once, later) = embed("User likes hiking", late)
    np.testing.assert_allclose(at_once.vector, later.vector, atol=1e-6)
    assert not later.truncated


def test_what_is_cut_off_counts_as_not_read() -> None:
    beyond = " " * TEXT_MAX + "User likes hiking"
    (read,) = tokenizer().read([readable(beyond)])
    assert not read.overflowing
    assert is_truncated(beyond, read)


def as_int8(folder: Path) -> None:
    """Replace the weights by int8 ones that are multiplied on the fly, under the same names."""
    model = with_its_weights(folder / "model.onnx")
    for weight in model.graph.initializer:
        if weight.data_type == TensorProto.FLOAT and len(weight.dims) == 2:
            exact = onnx.numpy_helper.to_array(weight)
            coarse = np.round(exact * 127).astype(np.int8)
            weight.CopyFrom(onnx.numpy_helper.from_array(coarse, weight.name))
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def as_fp16(folder: Path) -> None:
    model = with_its_weights(folder / "model.onnx")
    for weight in model.graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            half = onnx.numpy_helper.to_array(weight).astype(np.float16)
            weight.CopyFrom(onnx.numpy_helper.from_array(half, weight.name))
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def one_bit_off(folder: Path) -> None:
    weights = folder / GRAPH_WEIGHTS
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)


def cut_short(folder: Path) -> None:
    graph = folder / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:-4_096])


@pytest.mark.parametrize("damage", [as_int8, as_fp16, one_bit_off, cut_short])
def test_another_graph_under_the_models_name_is_refused_by_name(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = install(DEFAULT_MODEL, tmp_path, report=print, origins=OFFICIAL)
    damage(folder)
    with pytest.raises(NoModel, match=r"model\.onnx\S* is missing or damaged: run .*--force`"):
        FastembedEmbedder(DEFAULT_MODEL, tmp_path)
