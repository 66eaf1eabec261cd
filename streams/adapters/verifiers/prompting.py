"""What a model is told, and how a memory's text is shown to it: as data, behind a fence.

Whoever writes memories may try to steer the model. So a text never leaves its line: it travels
inside JSON, where a line break is an escape, and the lines around it carry a digest of all that is
between them, which no text can contain. Signs that begin a model's own control tokens are escaped,
too: a server would read `<|im_end|>` as one.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Self

from pydantic import JsonValue

from streams.ports import Unusable

_PROMPTS = resources.files("streams") / "adapters" / "verifiers" / "prompts"
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_NONCE_DIGITS = 16
"""64 bits: to write a text that contains its own digest, its author would have to try so many."""

_TO_BE_ESCAPED = re.compile(
    r"[<>|\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]|\[(?![\"{\]])"
)
"""What begins a control token (`<|im_end|>`, `[INST]`), and what cannot be seen or breaks a line.

Of JSON's own signs only a bracket is among them, and before a value that is left alone.
"""


@dataclass(frozen=True)
class Prompt:
    """The instructions of one task. `digest` tells two apart."""

    text: str
    digest: str

    @classmethod
    def load(cls, name: str, path: Path | None, placeholders: frozenset[str]) -> Self:
        """Read the prompt that comes with memsieve, or that of a file.

        Raises Unusable where it lacks a placeholder: the model would not be told what matters.
        """
        place = str(path or f"{name}.txt")
        try:
            text = (path or _PROMPTS / f"{name}.txt").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Unusable(f"llm.{name}_prompt {place} cannot be read: {error}") from error
        found = set(_PLACEHOLDER.findall(text))
        if missing := sorted(placeholders - found):
            raise Unusable(f"llm.{name}_prompt {place} lacks the placeholder {{{missing[0]}}}")
        if unknown := sorted(found - placeholders):
            known = ", ".join(f"{{{known}}}" for known in sorted(placeholders))
            raise Unusable(
                f"llm.{name}_prompt {place} has the placeholder {{{unknown[0]}}}, which means "
                f"nothing; there are {known}"
            )
        return cls(text, sha256(text.encode()).hexdigest())

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the instructions with every placeholder replaced."""
        return _PLACEHOLDER.sub(lambda found: values[found[1]], self.text)


@dataclass(frozen=True)
class Fenced:
    """Data in one line, between two lines that nothing in it can end. `digest` names the whole."""

    begin: str
    end: str
    line: str
    digest: str

    @classmethod
    def of(cls, data: JsonValue, prompt: Prompt) -> Self:
        plain = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        line = _TO_BE_ESCAPED.sub(_escaped, plain)
        digest = sha256(f"{prompt.digest}\n{line}".encode()).hexdigest()
        nonce = digest[:_NONCE_DIGITS]
        return cls(f"BEGIN DATA {nonce}", f"END DATA {nonce}", line, digest)

    @property
    def text(self) -> str:
        return f"{self.begin}\n{self.line}\n{self.end}"


def _escaped(sign: re.Match[str]) -> str:
    """Write a character as JSON may: by the numbers of its UTF-16 units."""
    units = sign[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
