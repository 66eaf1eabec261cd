"""Kafka brokers for tests, as a pytest plugin: one that the whole run shares, and private ones.

The shared broker is the one that KAFKA_BOOTSTRAP names; else one in a container, where Docker
answers (TEST_KAFKA_IMAGE names another image than docker-compose.yml, of Apache Kafka, too); else
one that Java runs. Where there is none a test is skipped, and with CI=true it fails.
"""

import hashlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from multiprocessing.connection import Client, Listener
from pathlib import Path
from threading import Thread
from typing import Protocol, TypeVar

import pytest

from tests.support.servers import containers
from tests.support.servers.containers import NoContainer, SlowPull
from tests.support.servers.kafka import NativeKafka, NoBroker

T = TypeVar("T")

_counter = itertools.count()


@pytest.fixture(scope="session")
def kafka_bootstrap(pytestconfig: pytest.Config) -> Iterator[str]:
    """Give the address, host:port, of the broker that all tests of the run share.

    It starts when the first test asks for it. Topics are not created by themselves; keep apart from
    other tests with topic_prefix.
    """
    with ExitStack() as stack:
        address = _address_of_the_shared_broker(pytestconfig)
        yield required(lambda: _ask(address) if address else _find_broker(pytestconfig, stack))


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[NativeKafka]:
    """Give a broker that only this test uses, and may stop, kill and restart."""
    with ExitStack() as stack:
        yield required(lambda: stack.enter_context(NativeKafka(tmp_path / "kafka")))


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest, testrun_uid: str, worker_id: str) -> str:
    """Return what this test's topics and groups on a shared broker begin with: `t-1f2e3d4c.`.

    It differs between tests, between repetitions of a test and between runs.
    """
    name: str = request.node.nodeid
    told_apart_by = f"{testrun_uid} {worker_id} {next(_counter)} {name}"
    return f"t-{hashlib.sha256(told_apart_by.encode()).hexdigest()[:8]}."


def required(start: Callable[[], T]) -> T:
    """Return what it returns; where it raises NoBroker skip the test, or in CI fail it."""
    try:
        return start()
    except NoBroker as none:
        reason = str(none)
    if os.environ.get("CI") == "true":  # noqa: TID251 - a switch of the tests, no setting
        pytest.fail(reason)
    pytest.skip(reason)


def _find_broker(config: pytest.Config, stack: ExitStack) -> str:
    """Return the address of a broker; what was started for it ends with the stack."""
    named = os.environ.get("KAFKA_BOOTSTRAP")  # noqa: TID251 - a switch of the tests, no setting
    if named:
        return named
    missing = ["KAFKA_BOOTSTRAP is not set"]
    for start in (_containerised, _native):
        try:
            return start(config, stack)
        except NoBroker as error:
            missing.append(str(error))
    raise NoBroker(f"no Kafka broker: {'; '.join(missing)}")


def _native(_: pytest.Config, stack: ExitStack) -> str:
    directory = tempfile.TemporaryDirectory(prefix="memsieve-kafka-", ignore_cleanup_errors=True)
    return stack.enter_context(NativeKafka(Path(stack.enter_context(directory)))).bootstrap


def _containerised(config: pytest.Config, stack: ExitStack) -> str:
    try:
        return containers.address("kafka", stack)
    except NoContainer as none:
        if isinstance(none, SlowPull):
            containers.tell(config, str(none))
        raise NoBroker(str(none)) from none


class _SharedBroker:
    """The one broker of a run with several worker processes, kept by the process above them.

    A worker may end, or crash, while others still need the broker; the process above outlives them
    all. It answers each worker that connects with the broker's address, or with the exception that
    says why there is none. The first one to connect has the broker started.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._ending = False
        self._listener = Listener(backlog=64)
        self._thread = Thread(target=self._serve, name="shared broker", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return str(self._listener.address)

    def close(self) -> None:
        """Stop the broker, if there is one."""
        self._ending = True
        Client(self.address).close()  # wakes the thread
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        answer: str | Exception | None = None
        with ExitStack() as stack:
            while True:
                with self._listener.accept() as worker:
                    if self._ending:
                        return
                    answer = answer or _found_or_why_not(self._config, stack)
                    with suppress(OSError):  # the worker may be gone by now
                        worker.send(answer)


_SHARED = pytest.StashKey[_SharedBroker]()
_ADDRESS = "shared_broker"


def _found_or_why_not(config: pytest.Config, stack: ExitStack) -> str | Exception:
    try:
        return _find_broker(config, stack)
    except Exception as error:  # noqa: BLE001 - the worker that asked raises it
        return error


def _ask(address: str) -> str:
    """Return the shared broker's address, or raise why there is none."""
    with Client(address) as shared:
        answer: object = shared.recv()
    if isinstance(answer, Exception):
        raise answer
    return str(answer)


class _Worker(Protocol):
    """What is used of an xdist worker, seen from the process above."""

    config: pytest.Config
    workerinput: dict[str, object]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: _Worker) -> None:
    """Tell each new worker whom to ask for the shared broker."""
    if _SHARED not in node.config.stash:
        node.config.stash[_SHARED] = _SharedBroker(node.config)
    node.workerinput[_ADDRESS] = node.config.stash[_SHARED].address


def pytest_unconfigure(config: pytest.Config) -> None:
    if _SHARED in config.stash:
        config.stash[_SHARED].close()


def _address_of_the_shared_broker(config: pytest.Config) -> str | None:
    """Return whom this worker asks; None in a run without workers."""
    workerinput: dict[str, str] = getattr(config, "workerinput", {})
    return workerinput.get(_ADDRESS)
