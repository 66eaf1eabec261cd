"""An ONNX model by its folder: the default model's files under another name, and broken ones."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from streams.embedding import DEFAULT_MODEL
from streams.embedding.fastembed_text import FastembedEmbedder
from streams.embedding.install import describe, install, installed
from streams.model.policy import InvalidPolicy, parse
from streams.model.ports.failures import NoModel
from streams.store.app import policies, wiring
from streams.store.app.settings import load
from tests.support.encoding.models import default_embedder, models_dir

pytestmark = pytest.mark.process

TEXTS = ["Trap door bars after descending", "The window is ajar."]
NOWHERE = Path("/nonexistent")
"""The cache of models: a folder needs none."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the default model as its authors lay one out."""
    source = installed(DEFAULT_MODEL, models_dir())
    assert source is not None
    made = tmp_path / "my model"
    (made / "onnx").mkdir(parents=True)
    for file in source.iterdir():
        if file.name.startswith("model.onnx"):
            shutil.copyfile(file, made / "onnx" / file.name)
        elif file.name != "installed.json":
            shutil.copyfile(file, made / file.name)
    return made


def pooled(folder: Path, *modes: str) -> Path:
    (folder / "1_Pooling").mkdir()
    told = {"word_embedding_dimension": 384, **{f"pooling_mode_{one}": True for one in modes}}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(told), "utf-8")
    return folder


@pytest.mark.covers("S0.20")
async def test_a_folder_gives_the_vectors_of_the_model_that_it_holds(folder: Path) -> None:
    own = FastembedEmbedder(f"folder:{folder}", NOWHERE)
    assert own.dimension == 384
    for mine, theirs in zip(
        await own.embed(TEXTS), await default_embedder().embed(TEXTS), strict=True
    ):
        assert np.array_equal(mine.vector, theirs.vector)
    [long] = await own.embed(["word " * 1_000])
    assert long.truncated


@pytest.mark.covers("S0.20")
async def test_the_folder_says_how_its_vectors_are_pooled(folder: Path) -> None:
    by_mean = FastembedEmbedder(f"folder:{folder}", NOWHERE)
    other = shutil.copytree(folder, folder.parent / "other" / folder.name)
    by_first = FastembedEmbedder(f"folder:{pooled(other, 'cls_token')}", NOWHERE)
    assert by_mean.model != by_first.model
    [mean], [first] = await by_mean.embed(TEXTS[:1]), await by_first.embed(TEXTS[:1])
    assert not np.allclose(mean.vector, first.vector)


@pytest.mark.covers("S0.20", "B110")
def test_a_policy_names_the_model_by_the_content_of_its_folder(folder: Path) -> None:
    settings = load({"embedder": {"model": f"folder:{folder}"}})
    named = wiring.named_model(settings.embedder)
    assert named == describe(f"folder:{folder}").model
    own = f"{policies.text('default')}".replace(DEFAULT_MODEL, named)
    policies.require_model(parse(own), named)
    with pytest.raises(InvalidPolicy, match=f"not for {named}"):
        policies.require_model(policies.load("default"), named)


@pytest.mark.covers("D39", "B131")
def test_a_model_is_called_by_the_name_and_the_content_of_its_folder(folder: Path) -> None:
    name = describe(f"folder:{folder}").model
    assert name.startswith("folder/my-model-")
    elsewhere = shutil.copytree(folder, folder.parent / "elsewhere" / folder.name)
    assert describe(f"folder:{elsewhere}").model == name
    changed = shutil.copytree(folder, folder.parent / "changed" / folder.name)
    with (changed / "onnx" / "model.onnx").open("ab") as graph:
        graph.write(b"\0")
    assert describe(f"folder:{changed}").model != name


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("onnx/model.onnx", "holds no ONNX graph: model.onnx or onnx/model.onnx is missing"),
        ("tokenizer.json", "tokenizer.json is missing"),
        ("config.json", "config.json is missing"),
    ],
)
def test_what_a_folder_lacks_is_named(folder: Path, missing: str, told: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(NoModel, match=told):
        describe(f"folder:{folder}")


def test_what_cannot_be_used_is_explained(folder: Path) -> None:
    with pytest.raises(NoModel, match="is not a folder"):
        describe(f"folder:{folder}/nowhere")
    with pytest.raises(NoModel, match="there is nothing to install"):
        install(f"folder:{folder}", NOWHERE, report=print)
    with pytest.raises(NoModel, match="asks for pooling_mode_max_tokens: one of"):
        describe(f"folder:{pooled(folder, 'max_tokens')}")
    shutil.rmtree(folder / "1_Pooling")
    (folder / "config.json").write_text("{}", "utf-8")
    with pytest.raises(NoModel, match="does not give hidden_size"):
        describe(f"folder:{folder}")
    (folder / "config.json").write_text('{"hidden_size": 768}', "utf-8")
    with pytest.raises(NoModel, match="gives 384 dimensions"):
        FastembedEmbedder(f"folder:{folder}", NOWHERE)
    (folder / "onnx" / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(NoModel, match="cannot load"):
        FastembedEmbedder(f"folder:{shutil.copytree(folder, folder.parent / 'b')}", NOWHERE)
