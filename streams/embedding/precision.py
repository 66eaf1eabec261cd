"""Exact or fast precision: the requirements, and separate identities for their vectors."""

from importlib.util import find_spec
from typing import Literal

from fastembed.common.model_description import DenseModelDescription

from schemas.base import ModelId
from streams.model.embedding import BF16
from streams.model.ports.failures import NoModel

Wanted = Literal["exact", "fast", "auto"]
Precision = Literal["exact", "fast"]

EXACT_HINT = "set embedder.precision to exact"


def settled(wanted: Wanted, model: DenseModelDescription) -> Precision:
    """Return the precision to use on this machine. Raises NoModel if it must be fast but cannot."""
    if wanted == "exact":
        return "exact"
    hindrance = _hindrance(model)
    if wanted == "auto":
        return "exact" if hindrance else "fast"
    if hindrance:
        raise NoModel(f"embedder.precision fast {hindrance}")
    return "fast"


def identity(model: DenseModelDescription, precision: Precision) -> ModelId:
    """Return the model name that the vectors carry."""
    return ModelId(f"{model.model}{BF16}" if precision == "fast" else model.model)


def _hindrance(model: DenseModelDescription) -> str | None:
    """Return why this model cannot be fast on this machine, with the remedy; None if it can."""
    if not model.model_file.endswith(".onnx"):
        return f"is for ONNX graphs, and {model.model} is a table: {EXACT_HINT}"
    if find_spec("openvino") is None:
        return f"needs OpenVINO: install the extra memsieve[fast], or {EXACT_HINT}"
    from streams.embedding import bf16  # noqa: PLC0415 - only who is fast needs the extra

    if not bf16.is_supported():
        return f"requires a processor with bf16: {EXACT_HINT}"
    return None
