"""Embeds texts with fastembed's models, on the CPU."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
from fastembed import TextEmbedding
from fastembed.common.model_description import DenseModelDescription
from fastembed.text.custom_text_embedding import CustomTextEmbedding
from fastembed.text.onnx_embedding import OnnxTextEmbedding
from fastembed.text.static_embedding import StaticTextEmbedding
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from schemas.base import ModelId
from streams.embedding import FOLDER, cores
from streams.embedding.batching import TokenBatch, batches
from streams.embedding.install import REPAIR_HINT, describe, verify
from streams.embedding.precision import EXACT_HINT, Precision, Wanted, identity, settled
from streams.embedding.tokens import PaddingTokenizer, is_truncated, readable
from streams.model.embedding import TextVector, units
from streams.model.ports.failures import NoModel

Matrix = NDArray[np.float32]
"""One vector per row."""


class FastembedEmbedder:
    """An Embedder over an installed model.

    fastembed loads the model, prepares the graph's inputs and post-processes its output; this class
    groups texts into runs. Each run has one thread, and as many runs as there are threads go in
    parallel: threads that share a run wait for the slowest at each step, so one core taken by
    another process stops them all. Safe to share between tasks and threads: nothing is written
    after construction.
    """

    def __init__(
        self,
        model: str,
        cache_dir: Path,
        *,
        threads: int | None = None,
        precision: Wanted = "exact",
    ) -> None:
        """Load and verify the model, and try it. Raises NoModel with a one-line reason.

        `threads` is the number of parallel runs; None means one per core.
        """
        description = describe(model)
        folder = verify(model, cache_dir)
        side_by_side = threads or cores()
        repair = f"look at its files: {model}" if model.startswith(FOLDER) else REPAIR_HINT
        chosen = settled(precision, description)
        self._model = identity(description, chosen)
        self._workers = ThreadPoolExecutor(side_by_side, thread_name_prefix="encoder")
        try:
            self._encoder = _load(description, folder, cache_dir, chosen, side_by_side)
            probe = self._encoder.encode(["probe"], self._encoder.tokenizer.read(["probe"]))
        except Exception as error:
            remedy = repair if chosen == "exact" else f"{repair}, or {EXACT_HINT}"
            raise NoModel(f"cannot load {folder}: {_one_line(error)}; {remedy}") from error
        self._dimension = int(probe.shape[1])
        if self._dimension != description.dim:
            raise NoModel(
                f"{folder} gives {self._dimension} dimensions, {description.model} has "
                f"{description.dim}: {repair}"
            )

    @property
    def model(self) -> ModelId:
        return self._model

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        """Return one result per text, in order; equal texts share one."""
        if not texts:
            return []
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> list[TextVector]:
        different = list(dict.fromkeys(texts))
        given = [readable(text) for text in different]
        tokenizer = self._encoder.tokenizer
        read = tokenizer.read(given)
        truncated = list(map(is_truncated, different, read))
        runs = batches([tokenizer.padded_length(tokens) for tokens in read])

        def encode(run: TokenBatch) -> Matrix:
            return self._encoder.encode(
                [given[place] for place in run.places], [read[place] for place in run.places]
            )

        made = self._workers.map(encode, runs) if len(runs) > 1 else map(encode, runs)
        embedded: dict[str, TextVector] = {}
        for run, vectors in zip(runs, made, strict=True):
            for place, row in zip(run.places, vectors, strict=True):
                vector = row.copy()  # a view would keep the vectors of the whole run in memory
                vector.flags.writeable = False
                embedded[different[place]] = TextVector(vector, truncated[place])
        return [embedded[text] for text in texts]


class _OnnxEncoder:
    """A fastembed model that is a graph over tokens."""

    def __init__(self, model: OnnxTextEmbedding) -> None:
        """Take over a model whose tokenizer and session are loaded."""
        self._model = model
        self.tokenizer = PaddingTokenizer(cast("Tokenizer", model.tokenizer))
        model.tokenizer = cast("Tokenizer", self.tokenizer)

    def encode(self, texts: list[str], read: list[Encoding]) -> Matrix:
        """Return the vectors of texts padded to one length."""
        del texts
        documents = cast("list[str]", read)  # its tokenizer, replaced by ours, takes these
        return units(np.array(list(self._model.embed(documents, batch_size=len(read)))))


class _StaticEncoder:
    """A fastembed model that is a table of word vectors: it needs no padding."""

    def __init__(self, model: StaticTextEmbedding) -> None:
        self._model = model
        tokenizer = Tokenizer.from_str(cast("Tokenizer", model.tokenizer).to_str())
        self.tokenizer = PaddingTokenizer(tokenizer, special=False)

    def encode(self, texts: list[str], read: list[Encoding]) -> Matrix:
        del read
        return units(self._model.raw_embed(texts))


def _load(
    description: DenseModelDescription,
    folder: Path,
    cache_dir: Path,
    precision: Precision,
    threads: int,
) -> _OnnxEncoder | _StaticEncoder:
    if not description.model_file.endswith(".onnx"):
        table = TextEmbedding(
            description.model, cache_dir=str(cache_dir), specific_model_path=str(folder)
        )
        return _StaticEncoder(cast("StaticTextEmbedding", table.model))
    loaded = TextEmbedding(
        description.model,
        cache_dir=str(cache_dir),
        threads=1,
        cuda=False,
        lazy_load=precision == "fast",
        specific_model_path=str(folder),
    )
    model = cast("OnnxTextEmbedding", loaded.model)
    if isinstance(model, CustomTextEmbedding):
        _require_tokens(model)
    if precision == "fast":
        _compute_in_bf16(model, folder / description.model_file, threads)
    return _OnnxEncoder(model)


def _require_tokens(model: CustomTextEmbedding) -> None:
    """Raise ValueError if a user's own graph does not give a vector for each token."""
    if model.model is None:
        return  # in bf16 the exact session is never created; the trial run checks the model
    first = cast("Any", model.model).get_outputs()[0]
    if len(first.shape) != _TOKENS_RANK:
        raise ValueError(
            f"its first output, {first.name}, is not one vector per token: export the graph without "
            "pooling"
        )


_TOKENS_RANK = 3
"""The rank of (texts, tokens, dimensions)."""


def _compute_in_bf16(model: OnnxTextEmbedding, graph: Path, threads: int) -> None:
    from streams.embedding.bf16 import Bf16Session  # noqa: PLC0415 - needs the extra

    model.token_count("")  # loads the tokenizer alone
    model.model = cast("Any", Bf16Session(graph, threads))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
