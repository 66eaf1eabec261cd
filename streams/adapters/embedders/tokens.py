"""Texts as tokens: each is tokenised once, and padded by itself."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from tokenizers import Encoding, Tokenizer

from schemas.base import TEXT_MAX
from streams.adapters.embedders.batching import LENGTH_STEP
from streams.adapters.embedders.install import REPAIR_HINT
from streams.ports import NoModel

_TOKENIZER_FILE = "tokenizer.json"


class _Settings(Protocol):
    """What a Tokenizer tells of itself, with types."""

    padding: dict[str, Any] | None
    truncation: dict[str, Any] | None


class _Padded(Protocol):
    """What an Encoding is asked for, with types."""

    def pad(self, length: int, **settings: object) -> None: ...


class PaddingTokenizer:
    """Stands where a model of fastembed has its tokenizer, and takes texts tokenised before.

    fastembed tokenises batch by batch, when it is too late to ask how long the texts are.
    """

    def __init__(self, tokenizer: Tokenizer, *, special: bool = True) -> None:
        """Take a model's tokenizer over. `special` adds the tokens that open and close a text."""
        self._tokenizer = tokenizer
        self._special = special
        settings = cast("_Settings", tokenizer)
        self._padding = settings.padding or {}
        self._tokens_max = int((settings.truncation or {})["max_length"])
        tokenizer.no_padding()

    def read(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the tokens that the model reads of each text."""
        return self._tokenizer.encode_batch_fast(texts, add_special_tokens=self._special)

    def padded_length(self, tokens: Encoding) -> int:
        """Return to how many tokens a text is padded; no other text has a say in it."""
        if (fixed := self._padding.get("length")) is not None:
            return max(len(tokens), int(fixed))
        return min(-(-len(tokens) // LENGTH_STEP) * LENGTH_STEP, self._tokens_max)

    def encode_batch(self, batch: Sequence[Encoding]) -> Sequence[Encoding]:
        """Pad texts of one length: what fastembed asks its tokenizer for."""
        for tokens in batch:
            cast("_Padded", tokens).pad(
                self.padded_length(tokens),
                direction=self._padding["direction"],
                pad_id=self._padding["pad_id"],
                pad_type_id=self._padding["pad_type_id"],
                pad_token=self._padding["pad_token"],
            )
        return batch


def counter(folder: Path) -> Callable[[str], int]:
    """Return what counts the tokens of a text, however long, by an installed model's tokenizer."""
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
    """Return about how many tokens a text has, rather more than fewer, where no tokenizer is there.

    English has about four bytes to a token, Chinese three.
    """
    return -(-len(text.encode()) // 3)


def readable(text: str) -> str:
    """Return what a tokenizer is given of a text: as much as a memory may have.

    So no memory's vector can change by it, and no text takes longer than the longest memory.
    """
    return text[:TEXT_MAX]


def is_truncated(text: str, tokens: Encoding) -> bool:
    """Tell whether the model does not read the whole text."""
    return len(text) > TEXT_MAX or bool(tokens.overflowing)
