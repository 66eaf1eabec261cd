"""Servers in containers, where Docker answers: `python -m tests.support.containers NAME` holds one.

The process that holds a container is not that of the tests: Docker's client leaves sockets open.
"""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

Server = Literal["kafka", "qdrant"]

IMAGES: dict[str, str] = {
    "kafka": "confluentinc/cp-kafka:7.6.0",
    "qdrant": "qdrant/qdrant:v1.19.0",
}
"""TEST_KAFKA_IMAGE and TEST_QDRANT_IMAGE name others."""

_DOCKER_SECONDS = 10.0
_PULL_SECONDS = 40.0
_CONTAINER_SECONDS = 75
_STARTED, _FAILED = "started", "failed"
_ROOT = Path(__file__).parents[2]


class NoContainer(Exception):
    """This machine cannot run the container; the message says why."""


def address(server: Server, stack: ExitStack) -> str:
    """Start a server in a container; return its address. The container ends with the stack."""
    _docker("version", seconds=_DOCKER_SECONDS)
    holder = subprocess.Popen(
        [sys.executable, "-m", __name__, server],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=_ROOT,
        start_new_session=True,
    )
    stack.callback(_let_go, holder)
    assert holder.stdout is not None
    outcome, _, rest = holder.stdout.readline().strip().partition(" ")
    if outcome != _STARTED:
        raise NoContainer(rest or f"no container within {_CONTAINER_SECONDS} s")
    return rest


def _let_go(holder: subprocess.Popen[str]) -> None:
    try:
        holder.communicate(timeout=_DOCKER_SECONDS)  # the end of its input ends it
    except subprocess.TimeoutExpired:
        holder.kill()
        holder.communicate()


def _hold(server: str) -> None:
    """Start the container, print where it is or why not; stop it when the input ends."""
    signal.alarm(_CONTAINER_SECONDS)
    with ExitStack() as stack:
        try:
            found = _STARTS[server](stack, _image(server))
        except Exception as error:  # noqa: BLE001 - whatever is in the way, there is no container
            print(_FAILED, type(error).__name__, " ".join(str(error).split()))  # noqa: T201
            return
        signal.alarm(0)
        print(_STARTED, found, flush=True)  # noqa: T201
        sys.stdin.read()


def _kafka(stack: ExitStack, image: str) -> str:
    from testcontainers.community.kafka import KafkaContainer  # noqa: PLC0415 - only with Docker

    kafka = KafkaContainer(image).with_kraft()
    kafka.with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
    kafka.with_env("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1")
    kafka.with_env("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1")
    stack.callback(kafka.stop)
    return kafka.start().get_bootstrap_server()


def _qdrant(stack: ExitStack, image: str) -> str:
    from testcontainers.community.qdrant import QdrantContainer  # noqa: PLC0415 - only with Docker

    qdrant = QdrantContainer(image)
    stack.callback(qdrant.stop)
    return f"http://{qdrant.start().rest_host_address}"


_STARTS = {"kafka": _kafka, "qdrant": _qdrant}


def _image(server: str) -> str:
    """Return the server's image, fetched where it is not there."""
    named = os.environ.get(f"TEST_{server.upper()}_IMAGE")  # noqa: TID251 - a switch of the tests
    image = named or IMAGES[server]
    try:
        _docker("image", "inspect", image, seconds=_DOCKER_SECONDS)
    except NoContainer:
        _docker("pull", "--quiet", image, seconds=_PULL_SECONDS)
    return image


def _docker(*arguments: str, seconds: float) -> None:
    command = ["docker", *arguments]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds)
    except subprocess.CalledProcessError as error:
        raise NoContainer(error.stderr.strip()) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoContainer(str(error)) from error


if __name__ == "__main__":
    _hold(sys.argv[1])
