"""A policy by which nobody judges, for the embedder that needs no model."""

from pathlib import Path

_ASKING = """
name = "asking"
model = "memsieve/hashing-ngrams-v1"
guards = false
judges = { chain = [] }
bands = { match = 1.0, review = 0.7, log = 0.7 }
without_verdict = { review = "review" }
calibration = { dataset = "none", date = "2026-03-01", command = "none" }
"""


def asking(directory: Path) -> Path:
    """Write a policy that puts to a person whatever is spelt alike; return its file."""
    path = directory / "asking.toml"
    path.write_text(_ASKING, encoding="utf-8")
    return path
