"""Servers in containers, where Docker answers: `python -m tests.support.servers.containers NAME` holds one.

The process that holds a container is not that of the tests: Docker's client leaves sockets open.
"""

import os
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest
import yaml
from _pytest.capture import CaptureManager

Server = Literal["kafka", "qdrant"]

_ROOT = Path(__file__).parents[3]
_DOCKER_SECONDS = 10.0
_PULL_SECONDS = "40"
_CONTAINER_SECONDS = 75
_STARTED, _FAILED = "started", "failed"
_KAFKA_PORT = 9092
_KAFKA_RUNS = "/tmp/run.sh"  # noqa: S108 - in the container
_KAFKA = {
    "CLUSTER_ID": "memsieve-test-broker-A",
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:29093",
    "KAFKA_LISTENERS": f"INTERNAL://localhost:19092,HOST://:{_KAFKA_PORT},CONTROLLER://localhost:29093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:PLAINTEXT,HOST:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
"""As docker-compose.yml has it, for one broker whose port is known when its container runs."""


class NoContainer(Exception):
    """This machine cannot run the container; the message says why."""


class SlowPull(NoContainer):
    """The image was not there in time; somebody who waits for the tests should know."""


def tell(config: pytest.Config, line: str) -> None:
    """Say something to whoever runs the tests, also where pytest captures what is said."""
    capture = config.pluginmanager.getplugin("capturemanager")
    assert isinstance(capture, CaptureManager)
    with capture.global_and_fixture_disabled():
        print(line, file=sys.stderr, flush=True)  # noqa: T201


def image_of(server: Server) -> str:
    """Return the image of docker-compose.yml, or what TEST_KAFKA_IMAGE, TEST_QDRANT_IMAGE name."""
    named = os.environ.get(f"TEST_{server.upper()}_IMAGE")  # noqa: TID251 - a switch of the tests
    compose = yaml.safe_load((_ROOT / "docker-compose.yml").read_text("utf-8"))
    return named or compose["services"][server]["image"]


def address(server: Server, stack: ExitStack) -> str:
    """Start a server in a container; return its address. The container ends with the stack."""
    _docker("version", seconds=_DOCKER_SECONDS)
    image = image_of(server)
    _pull(image)
    holder = subprocess.Popen(
        [sys.executable, "-m", __name__, server, image],
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


def _hold(server: str, image: str) -> None:
    """Start the container, print where it is or why not; stop it when the input ends."""
    signal.alarm(_CONTAINER_SECONDS)
    with ExitStack() as stack:
        try:
            found = _STARTS[server](stack, image)
        except Exception as error:  # noqa: BLE001 - whatever is in the way, there is no container
            print(_FAILED, type(error).__name__, " ".join(str(error).split()))  # noqa: T201
            return
        signal.alarm(0)
        print(_STARTED, found, flush=True)  # noqa: T201
        sys.stdin.read()


def _kafka(stack: ExitStack, image: str) -> str:
    """Start Apache Kafka, whose image waits until it can be told under which port it is known."""
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - only with Docker
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy  # noqa: PLC0415

    waits = f"while [ ! -s {_KAFKA_RUNS} ]; do sleep 0.1; done; sleep 0.1; exec bash {_KAFKA_RUNS}"
    kafka = DockerContainer(image, env=dict(_KAFKA)).with_exposed_ports(_KAFKA_PORT)
    kafka.with_command(["bash", "-c", waits])
    stack.callback(kafka.stop)
    kafka.start()
    found = f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(_KAFKA_PORT)}"
    listeners = f"INTERNAL://localhost:19092,HOST://{found}"
    runs = f"export KAFKA_ADVERTISED_LISTENERS={listeners}\nexec /etc/kafka/docker/run\n"
    kafka.exec(["bash", "-c", f"printf {shlex.quote(runs)} > {_KAFKA_RUNS}"])
    LogMessageWaitStrategy("Kafka Server started").wait_until_ready(kafka)
    return found


def _qdrant(stack: ExitStack, image: str) -> str:
    from testcontainers.community.qdrant import QdrantContainer  # noqa: PLC0415 - only with Docker

    qdrant = QdrantContainer(image)
    stack.callback(qdrant.stop)
    return f"http://{qdrant.start().rest_host_address}"


_STARTS = {"kafka": _kafka, "qdrant": _qdrant}


def _pull(image: str) -> None:
    """Fetch an image where it is not there. SlowPull where that takes too long."""
    try:
        _docker("image", "inspect", image, seconds=_DOCKER_SECONDS)
    except NoContainer:
        seconds = float(os.environ.get("TEST_PULL_SECONDS", _PULL_SECONDS))  # noqa: TID251
        try:
            _docker("pull", "--quiet", image, seconds=seconds)
        except NoContainer as error:
            if not isinstance(error.__cause__, subprocess.TimeoutExpired):
                raise
            raise SlowPull(
                f"docker pull {image} was not done within {seconds:g} s, so the tests go on "
                "without it: run it first, or set TEST_PULL_SECONDS (and pytest --timeout) higher"
            ) from error


def _docker(*arguments: str, seconds: float) -> None:
    command = ["docker", *arguments]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds)
    except subprocess.CalledProcessError as error:
        raise NoContainer(error.stderr.strip()) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoContainer(str(error)) from error


if __name__ == "__main__":
    _hold(*sys.argv[1:])
