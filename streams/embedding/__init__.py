"""The embedders: how texts become vectors, and how their models get onto this machine."""

import os

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
HASHING = "memsieve/hashing-ngrams-v1"
"""The name of the embedder without a model: embedding/hashing.py."""

ENDPOINT = "endpoint:"
"""Prefix for the name of a model at an endpoint; the model's own name there follows it."""

FOLDER = "folder:"
"""Prefix for the name of a model in the user's own folder; the path follows it."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# The encoder's library sends telemetry to its vendor unless this is set before the import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # noqa: TID251 - there is no other way
