"""Tokenizes each text once, and pads it independently of others."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from tokenizers import Encoding, Tokenizer

from schemas.base import TEXT_MAX
from streams.embedding.batching import LENGTH_STEP
from streams.embedding.install import REPAIR_HINT
from streams.model.ports.failures import NoModel

_TOKENIZER_FILE = "tokenizer.json"


class PaddingTokenizer:
    """Replaces the tokenizer of a fastembed model, and takes texts that are already tokenized.

    fastembed tokenizes batch by batch, too late to group texts by length.
    """

    def __init__(self, tokenizer: Tokenizer, *, special: bool = True) -> None:
        """Take over a model's tokenizer. `special` adds the tokens that open and close a text."""
        self._tokenizer = tokenizer
        self._special = special
        settings: Any = tokenizer  # the library has no types
        self._padding: dict[str, Any] = settings.padding or {}
        self._tokens_max = int(settings.truncation["max_length"])
        tokenizer.no_padding()

    def read(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the tokens of each text that the model reads."""
        return self._tokenizer.encode_batch_fast(texts, add_special_tokens=self._special)

    def padded_length(self, tokens: Encoding) -> int:
        """Return the padded length of a text; it does not depend on other texts."""
        if (fixed := self._padding.get("length")) is not None:
            return max(len(tokens), int(fixed))
        return min(-(-len(tokens) // LENGTH_STEP) * LENGTH_STEP, self._tokens_max)

    def encode_batch(self, batch: Sequence[Encoding]) -> Sequence[Encoding]:
        """Pad texts to one length: the call that fastembed makes to its tokenizer."""
        names = ("direction", "pad_id", "pad_type_id", "pad_token")
        padding = {name: self._padding[name] for name in names}
        for tokens in batch:
            cast("Any", tokens).pad(self.padded_length(tokens), **padding)
        return batch


def counter(folder: Path) -> Callable[[str], int]:
    """Return a counter of a text's tokens, of any length, with an installed model's tokenizer."""
    try:
        tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER_FILE))
    except Exception as error:
        raise NoModel(f"cannot read {folder / _TOKENIZER_FILE}: {REPAIR_HINT}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(text: str) -> int:
        [tokens] = tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return len(tokens)

    return count


def estimated(text: str) -> int:
    """Return a high estimate of a text's tokens, for use without a tokenizer.

    English has about four bytes per token, Chinese three.
    """
    return -(-len(text.encode()) // 3)


def readable(text: str) -> str:
    """Return the part of a text that is tokenized: at most the length of a memory.

    So no memory's vector is affected, and no text takes longer than the longest memory.
    """
    return text[:TEXT_MAX]


def is_truncated(text: str, tokens: Encoding) -> bool:
    """Return whether the model reads only part of the text."""
    return len(text) > TEXT_MAX or bool(tokens.overflowing)
