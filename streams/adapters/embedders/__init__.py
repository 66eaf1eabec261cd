"""The embedders: what turns texts into vectors, and how their models reach this machine."""

import os

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
HASHING = "memsieve/hashing-ngrams-v1"
"""The model that is none: what adapters/embedders/hashing.py makes of a text."""

ENDPOINT = "endpoint:"
"""Begins the name of a model that is asked for at an endpoint; its own name there ends it."""

FOLDER = "folder:"
"""Begins the name of a model that is a folder of one's own; its path ends it."""

# The encoder's library reports its use to its maker unless this is set before it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # noqa: TID251 - it can be told no other way
