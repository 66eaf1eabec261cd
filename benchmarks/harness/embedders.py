"""The installed model as memsieve uses it, and as plain fastembed uses it."""

from collections.abc import Callable

from fastembed import TextEmbedding
from fastembed.common.preprocessor_utils import load_tokenizer

from streams.model.ports.models import Embedder
from streams.store.app import settings, wiring


def plain_fastembed() -> TextEmbedding:
    """Return fastembed's own encoder over the installed model."""
    chosen = settings.load({}).embedder
    folder = str(wiring.verify_model(chosen))
    return TextEmbedding(chosen.model, specific_model_path=folder, cuda=False)


def default_embedder() -> Embedder:
    """Return the embedder that `memsieve run` would use."""
    return wiring.embedder(settings.load({}).embedder, print)


def fast_embedder() -> Embedder | None:
    """Return the same embedder in bf16; None where this machine has none."""
    chosen = settings.load({"embedder": {"precision": "auto"}}).embedder
    if wiring.model_of(chosen) == wiring.base_model_of(chosen):
        return None
    return wiring.embedder(chosen, print)


def embed(plain: TextEmbedding, texts: list[str], batch: int | None = None) -> None:
    """Embed texts in order with fastembed; `batch` None means its default batch size."""
    for _ in plain.embed(texts, **({} if batch is None else {"batch_size": batch})):
        pass


def tokens_counter() -> Callable[[list[str]], list[int]]:
    """Return a function that counts the model's tokens in each text."""
    tokenizer, _ = load_tokenizer(wiring.verify_model(settings.load({}).embedder))
    tokenizer.no_padding()
    return lambda texts: [len(read) for read in tokenizer.encode_batch_fast(texts)]
