"""Detects a text that is clearly not in English, with the model of py3langid."""
# ruff: noqa: SIM905 - a class of words is read as a line

import re
from functools import cache
from importlib import import_module
from threading import Lock, Thread
from typing import Any

_CERTAIN = 0.15
"""English must be less likely than this share of the likeliest language. So .17 % of 72,388 English
notes are taken for foreign, and 98 % of German, French and Spanish texts of 3 to 12 words are
recognised (decision 43)."""

_ENGLISH_ALONE = frozenset("the and with from that this their they she its which not".split())
"""Words that hardly any other language has; no translation that was measured has one."""

_EACH_WORD = 10.0
"""How much likelier one of them makes English: "The trap door is open" is almost Dutch without."""

_CHARACTERS = 1_000
"""As much of a text is looked at; more changes nothing and takes time."""

_DECIMALS = 4
"""Enough to compare, and no more than arithmetic on another processor reproduces."""


def foreign_language(text: str) -> str | None:
    """Return the ISO 639 code of a text's language if that is surely not English; None otherwise."""
    beginning = text[:_CHARACTERS]
    told: list[tuple[str, float]] = _identifier().rank(beginning)
    language, likeliest = told[0]
    words = _ENGLISH_ALONE.intersection(re.findall(r"[a-z]+", beginning.lower()))
    english = dict(told)["en"] / likeliest * _EACH_WORD ** len(words)
    return language if round(english, _DECIMALS) <= _CERTAIN else None


def load_ahead() -> None:
    """Load the model in the background.

    It takes a third of a second, in which a service would decide nothing. Most of that is
    decompression, and other threads go on beside it.
    """
    Thread(target=_identifier, name="language", daemon=True).start()


_LOADING = Lock()


def _identifier() -> Any:  # noqa: ANN401 - the library has no types
    """Return the model, loaded once: 80 MB, so only where texts are judged."""
    with _LOADING:
        return _loaded()


@cache
def _loaded() -> Any:  # noqa: ANN401
    langid: Any = import_module("py3langid.langid")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
