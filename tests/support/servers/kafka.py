"""Apache Kafka as a process of this machine, for tests: Java runs it, Maven fetches it once."""

import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

import platformdirs

from tests.support.machine.fetching import NotFetched, kept, maven

VERSION = "4.1.1"

_HOST = "127.0.0.1"
_JARS = platformdirs.user_cache_path("memsieve") / "tests" / f"kafka-{VERSION}"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>memsieve</groupId>
  <artifactId>kafka-for-tests</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""

_CLUSTER = "memsieve-test-broker-A"  # what Kafka takes for an id: 16 bytes in URL-safe base64
_PROPERTIES = {
    "process.roles": "broker,controller",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",  # how long a killed broker cannot come back
    "log.cleaner.dedupe.buffer.size": "2097152",  # the default of 128 MiB is a third of the process
}

_JVM = (
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # ready in 2.4 s, format included, instead of 2.8 s
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
_UNTIL_THE_OWNER_IS_GONE = """\
owner=$1; shift
(while kill -0 "$owner" && kill -0 $$; do sleep 0.5; done; kill -KILL $$) 2>/dev/null &
exec "$@"
"""

_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_PAUSE_SECONDS = 0.02
_LOG_LINES = 30

_FIRST_PORT = 20_000 + os.getpid() * 10 % 10_000
_ports = iter(range(_FIRST_PORT, 32_000))


class NoBroker(Exception):
    """This machine has no broker to offer; the message says what is missing."""


class BrokerFailed(Exception):
    """A broker that should have started did not; the message ends with its log."""


class NativeKafka:
    """One broker with its own ports and directory, both kept over a restart.

    The properties go before those that it would start with. As a context manager it runs inside and
    is stopped at the end. It dies with its owner, by default this process, however that one ends.
    """

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        owner: int | None = None,
        listeners: Mapping[str, int] | None = None,
        users: Sequence[str] = (),
        options: Sequence[str] = (),
        node: int = 1,
        quorum: Mapping[int, int] | None = None,
    ) -> None:
        """Prepare it.

        `listeners` are further ports to listen on, by the listener's name; `users` those of SCRAM,
        `MECHANISM=[name=NAME,password=PASSWORD]`; `options` are Java's. `quorum` are the ports of
        the controllers by node where it is one of several.
        """
        self._directory = directory
        self._node = node
        self._quorum = quorum or {node: free_port()}
        self._in_scram = users
        self._options = options
        self._listeners = dict(listeners or {})
        self._overrides = dict(properties or {})
        self._owner = owner or os.getpid()
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{_HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """The broker's process, while it runs."""
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Return when it serves clients. Raises NoBroker without Java or the jars, BrokerFailed."""
        if self._process is not None:
            raise RuntimeError("the broker runs already")
        java = _program("java")
        kafka = [java, *_JVM, *self._options, "-cp", f"{jars()}/*"]
        if not (self._data / "meta.properties").exists():
            self._format(kafka)
        self._launch([*kafka, "kafka.Kafka", str(self._settings)])
        try:
            self._wait_until_it_serves()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Let it end in order; kill it when that takes too long. Of a stopped broker: nothing."""
        if self._process is None:
            return
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Stop it, if it runs, and start it again with its ports and data."""
        self.stop()
        self.start()

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    @property
    def _settings(self) -> Path:
        return self._directory / "server.properties"

    @property
    def _log(self) -> Path:
        return self._directory / "broker.log"

    def _format(self, kafka: list[str]) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        lines = (f"{name}={value}\n" for name, value in self._properties().items())
        self._settings.write_text("".join(lines), encoding="utf-8")
        users = [word for one in self._in_scram for word in ("--add-scram", one)]
        tool = [*kafka, "kafka.tools.StorageTool", "format", *users]
        with self._log.open("ab") as log:
            done = subprocess.run(
                [*tool, "--cluster-id", _CLUSTER, "--config", str(self._settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            )
        if done.returncode:
            raise self._failed("could not format its directory")

    def _properties(self) -> dict[str, str]:
        controller = self._quorum[self._node]
        ports = {"PLAINTEXT": self._port, "CONTROLLER": controller, **self._listeners}
        voters = (f"{node}@{_HOST}:{port}" for node, port in self._quorum.items())
        mine = {
            "node.id": f"{self._node}",
            "listeners": ",".join(f"{name}://{_HOST}:{port}" for name, port in ports.items()),
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(self._data),
        }
        return _PROPERTIES | mine | self._overrides

    def _launch(self, command: list[str]) -> None:
        """Start the process, and beside it the shell that watches the owner.

        It gets a session of its own, so that an interrupt from the keyboard is left to the tests.
        """
        guarded = ["sh", "-c", _UNTIL_THE_OWNER_IS_GONE, "kafka", str(self._owner), *command]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                guarded, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _wait_until_it_serves(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while not _serves(self._port):
            if self.pid is None:
                raise self._failed("ended instead of starting")
            if time.monotonic() > end:
                raise self._failed(f"does not serve after {_START_SECONDS:.0f} s")
            time.sleep(_PAUSE_SECONDS)

    def _failed(self, how: str) -> BrokerFailed:
        log = self.log.splitlines()
        return BrokerFailed("\n".join([f"the Kafka broker {how}; its log:", *log[-_LOG_LINES:]]))


class NativeCluster:
    """Brokers that keep each other's topics: of three or more, one may fail."""

    def __init__(
        self, directory: Path, properties: Mapping[str, str] | None = None, *, brokers: int
    ) -> None:
        quorum = {node: free_port() for node in range(1, brokers + 1)}
        replicated = _REPLICATED if brokers > 1 else {}
        self.brokers = [
            NativeKafka(
                directory / f"broker-{node}",
                {**replicated, **(properties or {})},
                node=node,
                quorum=quorum,
            )
            for node in quorum
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def __enter__(self) -> Self:
        """Start all at once: none serves before most of them vote."""
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(NativeKafka.start, self.brokers))
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers:
            broker.kill()


_REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


def jars() -> Path:
    """Return the folder of the broker's jars, fetched once per machine. Raises NoBroker."""
    try:
        return kept(_JARS, _fetch)
    except NotFetched as error:
        raise NoBroker(str(error)) from error


def _fetch(scratch: Path) -> Path:
    pom, into = scratch / "pom.xml", scratch / "jars"
    pom.write_text(_POM, encoding="utf-8")
    what = ["-f", str(pom), _COPY, f"-DoutputDirectory={into}", "-DincludeScope=runtime"]
    maven(what, f"Kafka {VERSION}", scratch)
    return into


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NoBroker(f"{name} is not on the PATH")
    return found


def free_port() -> int:
    """Return a port that nobody uses, and that this process has not returned before.

    It lies below the ports that the system hands out to clients: one of them could take the port of
    a broker that is about to come back.
    """
    for port in _ports:
        with socket.socket() as probe, suppress(OSError):
            probe.bind((_HOST, port))
            return port
    raise BrokerFailed("no free port is left for a broker")


_QUESTION = struct.Struct(">ihhihib")  # size, api, version, correlation, client, topics, create
_METADATA_OF_NO_TOPIC = _QUESTION.pack(_QUESTION.size - 4, 3, 4, 1, -1, 0, 0)
_ANSWER = struct.Struct(">iiii")  # size, correlation, throttled, brokers, and then more


def _serves(port: int) -> bool:
    """Say whether the cluster has a live broker.

    A broker accepts connections before it counts as one, and until then nobody leads a new topic.
    """
    with suppress(OSError), socket.create_connection((_HOST, port), timeout=1) as connection:
        connection.sendall(_METADATA_OF_NO_TOPIC)
        with connection.makefile("rb") as answer:
            head = answer.read(_ANSWER.size)
        return len(head) == _ANSWER.size and _ANSWER.unpack(head)[-1] > 0
    return False
