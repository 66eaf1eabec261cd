"""Runs an ONNX graph in bf16, with OpenVINO."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import LifoQueue
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import NDArray

if TYPE_CHECKING:
    from types import ModuleType

# OpenVINO sends telemetry on each import, unless the package that does so cannot be imported.
sys.modules.setdefault("openvino_telemetry", cast("ModuleType", None))

from openvino import Core, InferRequest, Type  # noqa: E402 - not before it is silenced

_DEVICE = "CPU"


def is_supported() -> bool:
    """Return whether this processor supports bf16."""
    return "BF16" in Core().get_property(_DEVICE, "OPTIMIZATION_CAPABILITIES")


@dataclass(frozen=True)
class Port:
    """An input or output of a graph."""

    name: str


class Bf16Session:
    """The part of onnxruntime's InferenceSession that fastembed uses.

    Each run has one thread, so that no run waits for a core that another process took; `threads`
    runs go in parallel. Safe to share between threads.
    """

    def __init__(self, graph: Path, threads: int) -> None:
        core = Core()
        compiled = core.compile_model(
            core.read_model(graph),  # pyright: ignore[reportUnknownMemberType] - PathLike of what?
            _DEVICE,
            {
                "ENABLE_CPU_PINNING": False,  # other processes pin theirs to the same cores
                "INFERENCE_PRECISION_HINT": "bf16",
                "INFERENCE_NUM_THREADS": threads,
                "NUM_STREAMS": threads,
            },
        )
        given = compiled.get_property("INFERENCE_PRECISION_HINT")
        if given != Type.bf16:
            raise ValueError(f"OpenVINO computes it in {given}, not in bf16")
        self._inputs = [Port(port.any_name) for port in compiled.inputs]
        self._outputs = [Port(port.any_name) for port in compiled.outputs]
        self._idle: LifoQueue[InferRequest] = LifoQueue()
        for _ in range(threads):
            self._idle.put(compiled.create_infer_request())

    def get_inputs(self) -> list[Port]:
        return self._inputs

    def get_outputs(self) -> list[Port]:
        return self._outputs

    def run(
        self, output_names: Sequence[str] | None, inputs: Mapping[str, NDArray[Any]]
    ) -> list[NDArray[Any]]:
        """Return the outputs of these names, or all of them."""
        request = self._idle.get()
        try:
            results = request.infer(dict(inputs))
            names = output_names or [port.name for port in self._outputs]
            return [results[name] for name in names]
        finally:
            self._idle.put(request)
