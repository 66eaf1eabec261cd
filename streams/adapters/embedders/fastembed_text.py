"""Embeds texts with fastembed, on the processor, in fp32."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from fastembed import TextEmbedding
from fastembed.common.preprocessor_utils import load_tokenizer
from fastembed.common.types import NumpyArray
from tokenizers import Tokenizer

from schemas.base import ModelId
from streams.adapters.embedders.install import REPAIR_HINT, describe, verify
from streams.core.embedding import Embedded, Vector
from streams.ports import NoModel

BATCH_TEXTS = 32
BATCH_TOKENS = 4_096
"""Padded tokens in a batch at most: 32 texts of 512 tokens would need a gigabyte at once."""


class FastembedEmbedder:
    """An Embedder over an installed model.

    Texts of like length share a batch, because a batch is padded to its longest text: in file
    order four padded tokens are computed for each real one. The batch changes no vector by more
    than about 1e-7. Safe to share between tasks and threads: after the constructor nothing here
    is written to.
    """

    def __init__(self, model: str, cache_dir: Path, *, threads: int | None = None) -> None:
        """Load the model, verified, and try it. NoModel says in one line why it cannot serve.

        `threads` is onnxruntime's; None leaves the choice to it.
        """
        description = describe(model)
        folder = verify(model, cache_dir)
        self._model = ModelId(description.model)
        try:
            self._encoder = _load(description.model, folder, cache_dir, threads)
            self._tokenizer = _unpadded_tokenizer(folder)
            probe = self._encode(["probe"])[0]
        except Exception as error:
            raise NoModel(f"cannot load {folder}: {_one_line(error)}; {REPAIR_HINT}") from error
        self._dimension = int(probe.shape[0])
        if self._dimension != description.dim:
            raise NoModel(
                f"{folder} gives {self._dimension} dimensions, {description.model} has "
                f"{description.dim}: {REPAIR_HINT}"
            )

    @property
    def model(self) -> ModelId:
        return self._model

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> list[Embedded]:
        """Return one result per text, in order; equal texts share one."""
        if not texts:
            return []
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> list[Embedded]:
        different = list(dict.fromkeys(texts))
        read = dict(zip(different, self._tokenizer.encode_batch_fast(different), strict=True))
        embedded: dict[str, Embedded] = {}
        for batch in _batches({text: len(tokens) for text, tokens in read.items()}):
            for text, vector in zip(batch, self._encode(batch), strict=True):
                embedded[text] = Embedded(vector, truncated=bool(read[text].overflowing))
        return [embedded[text] for text in texts]

    def _encode(self, batch: list[str]) -> list[Vector]:
        return [_unit(vector) for vector in self._encoder.embed(batch, batch_size=len(batch))]


def _load(model: str, folder: Path, cache_dir: Path, threads: int | None) -> TextEmbedding:
    return TextEmbedding(
        model,
        cache_dir=str(cache_dir),
        threads=threads,
        cuda=False,
        lazy_load=False,  # fastembed's lazy load takes no lock
        specific_model_path=str(folder),
    )


def _unpadded_tokenizer(folder: Path) -> Tokenizer:
    """Return a tokenizer that cuts as the encoder's own does, and pads nothing."""
    tokenizer, _ = load_tokenizer(folder)
    tokenizer.no_padding()
    return tokenizer


def _batches(lengths: dict[str, int]) -> Iterator[list[str]]:
    """Yield the texts (at least one), shortest first; a batch is padded to its last one's length."""
    batch: list[str] = []
    for text in sorted(lengths, key=lengths.__getitem__):
        padded = (len(batch) + 1) * lengths[text]
        if batch and (len(batch) == BATCH_TEXTS or padded > BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(text)
    yield batch


def _unit(vector: NumpyArray) -> Vector:
    """Return the vector at length one, read-only; models differ in whether they normalise."""
    exact = vector.astype(np.float64)
    length = float(np.linalg.norm(exact))
    unit = (exact / length if length else exact).astype(np.float32)
    unit.flags.writeable = False
    return unit


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
