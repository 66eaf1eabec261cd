"""The bundled dictionaries, extracted from WordNet by `training/lexicon.py`."""

import gzip
from functools import cache
from importlib import resources

from streams.text.lexicon import Lexicon


@cache
def english() -> Lexicon:
    """Return the English lexicon; it is loaded on first use."""
    table = resources.files(__name__).joinpath("english.txt.gz").read_bytes()
    return Lexicon.parse(gzip.decompress(table).decode())
