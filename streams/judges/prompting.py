"""Prompts for a model, and memories' texts presented to it as fenced data.

A memory's author may try to steer the model. So a text never leaves its line: it is embedded in
JSON, where a line break is an escape, and the lines around it carry a digest of the data between
them, which no text can contain. Characters that begin a model's control tokens are escaped as well:
a server would read `<|im_end|>` as one.
"""

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Self

from pydantic import JsonValue

from streams.model.ports.failures import Unusable

_PROMPTS = resources.files("streams") / "judges" / "prompts"
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_NONCE_DIGITS = 16
"""64 bits: the number of attempts it would take to write a text that contains its own digest."""

_TO_BE_ESCAPED = re.compile(
    r"[<>|\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]|\[(?![\"{\]])"
)
"""What begins a control token (`<|im_end|>`, `[INST]`), and invisible or line-breaking characters.

Of JSON's own characters it includes only the bracket, except before a value.
"""


@dataclass(frozen=True)
class Prompt:
    """The instructions of one task, identified by their `digest`."""

    text: str
    digest: str

    @classmethod
    def load(cls, name: str, path: Path | None, *values: str) -> Self:
        """Read the bundled prompt, or the one in a file, with placeholders for these values.

        It also has those of the data's fence: `begin` and `end`.

        Raises Unusable if it lacks a placeholder: the model would miss essential information.
        """
        place = str(path or f"{name}.txt")
        try:
            text = (path or _PROMPTS / f"{name}.txt").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Unusable(f"llm.{name}_prompt {place} cannot be read: {error}") from error
        found, placeholders = set(_PLACEHOLDER.findall(text)), {"begin", "end", *values}
        if missing := sorted(placeholders - found):
            raise Unusable(f"llm.{name}_prompt {place} lacks the placeholder {{{missing[0]}}}")
        if unknown := sorted(found - placeholders):
            known = ", ".join(f"{{{known}}}" for known in sorted(placeholders))
            raise Unusable(
                f"llm.{name}_prompt {place} has the placeholder {{{unknown[0]}}}, which means "
                f"nothing; there are {known}"
            )
        return cls(text, sha256(text.encode()).hexdigest())

    def filled(self, fenced: "FencedData", **values: object) -> str:
        """Return the instructions with every placeholder replaced."""
        told = {**values, "begin": fenced.begin, "end": fenced.end}
        return _PLACEHOLDER.sub(lambda found: str(told[found[1]]), self.text)


@dataclass(frozen=True)
class FencedData:
    """Data in one line, fenced by two lines that nothing in it can close, with a `digest`."""

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
    """Escape a character for JSON by its UTF-16 code units."""
    units = sign[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
