"""The real model in bf16, apart from `models`: most tests have no use for what it loads."""

from functools import cache

import pytest

from streams.embedding import DEFAULT_MODEL, bf16
from streams.embedding.fastembed_text import FastembedEmbedder
from tests.support.encoding.models import models_dir

has_bf16 = pytest.mark.skipif(
    not bf16.is_supported(), reason="this processor does not compute in bf16"
)


@cache
def fast_embedder() -> FastembedEmbedder:
    """Return the default model in bf16, loaded once per test process."""
    return FastembedEmbedder(DEFAULT_MODEL, models_dir(), precision="fast")
