"""The connection to the cluster: its address and credentials, and the meaning of its failures."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aiokafka import TopicPartition, errors
from aiokafka.conn import create_conn
from aiokafka.helpers import create_ssl_context
from faststream.kafka.security import parse_security
from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256, SASLScram512

from schemas.topics import INPUTS
from streams.model.ports import Fatal, NoServer, Unreachable

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

_SASL = {"PLAIN": SASLPlaintext, "SCRAM-SHA-256": SASLScram256, "SCRAM-SHA-512": SASLScram512}

_REFUSED = (
    errors.AuthenticationFailedError,
    errors.AuthenticationMethodNotSupported,
    errors.ClusterAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.IllegalSaslStateError,
    errors.SaslAuthenticationFailed,
    errors.TopicAuthorizationFailedError,
    errors.UnsupportedSaslMechanismError,
)

_MEMBERSHIP = (
    errors.CommitFailedError,
    errors.IllegalGenerationError,
    errors.IllegalStateError,
    errors.RebalanceInProgressError,
    errors.UnknownMemberIdError,
)
"""Errors of a member that is about to lose its partitions."""

_MENDED_BY_TIME = (
    errors.BrokerNotAvailableError,
    errors.InvalidProducerEpoch,
    errors.KafkaTimeoutError,
    errors.OutOfOrderSequenceNumber,
    errors.ProducerClosed,
    errors.ReplicaNotAvailableError,
    errors.UnknownError,
    errors.UnknownProducerId,
)
"""Errors that the client does not call retriable, but that a new producer or a delay fixes."""

_SHARED = {topic.name for topic in INPUTS}
"""The topics that all runs share."""

_PROBE_SECONDS = 3.0
STOP_SECONDS = 5.0


@dataclass(frozen=True)
class Connection:
    """A cluster, and the naming of memsieve's topics and groups in it.

    `prefix` starts each name, so that several installations can share a cluster. `run` ends all
    names but those of the topics that producers publish to, so that two runs may decide the same
    events. With `tls`, `ca_file` names the authorities to trust instead of the system's.
    `request_seconds` is the timeout of an answer.
    """

    bootstrap: str
    prefix: str = ""
    run: str = ""
    tls: bool = False
    ca_file: Path | None = None
    mechanism: Mechanism | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    request_seconds: float = 30.0

    def named(self, name: str) -> str:
        """Return the name of a topic or group in the cluster."""
        run = f".{self.run}" if self.run and name not in _SHARED else ""
        return f"{self.prefix}{name}{run}"

    def place(self, topic: str, partition: int) -> TopicPartition:
        return TopicPartition(self.named(topic), partition)

    def security(self) -> BaseSecurity:
        """Return the credentials. Raises Fatal if the CA file cannot be read."""
        try:
            context = create_ssl_context(cafile=self.ca_file) if self.tls else None
        except OSError as error:
            raise Fatal(f"kafka.ca_file {self.ca_file} cannot be used: {error}") from error
        if self.mechanism is None:
            return BaseSecurity(ssl_context=context, use_ssl=self.tls)
        return _SASL[self.mechanism](self.username, self.password, context, self.tls)

    def options(self) -> dict[str, Any]:
        """Return the options of every client of the cluster."""
        return {
            "bootstrap_servers": self.bootstrap,
            "client_id": "memsieve",
            "request_timeout_ms": round(self.request_seconds * 1_000),
            **parse_security(self.security()),
        }

    @asynccontextmanager
    async def meanings(self, *, bounded: bool = True) -> AsyncGenerator[None]:
        """Translate the failures of a call to NoServer, Fatal or Unreachable.

        A `bounded` call times out after `request_seconds`.
        """
        try:
            async with asyncio.timeout(self.request_seconds if bounded else None):
                yield
        except TimeoutError as error:
            seconds = f"{self.request_seconds:.0f} s"
            raise Unreachable(f"Kafka at {self.bootstrap} did not answer in {seconds}") from error
        except OSError as error:
            raise Unreachable(f"Kafka at {self.bootstrap}: {_line(error)}") from error
        except UnicodeDecodeError as error:
            raise Fatal(
                f"Kafka at {self.bootstrap} holds a record with a header whose name is not UTF-8, "
                "which its client cannot read: move the offset past it"
            ) from error
        except errors.KafkaError as error:
            raise await self._meaning(error) from error

    async def _meaning(self, error: errors.KafkaError) -> Exception:
        if isinstance(error, _REFUSED):
            return NoServer(
                f"Kafka at {self.bootstrap} rejects us ({_line(error)}): check the settings "
                "kafka.username, kafka.password, kafka.mechanism and kafka.tls, and its permissions"
            )
        if isinstance(error, errors.MessageSizeTooLargeError):
            return Fatal(
                f"Kafka at {self.bootstrap} refuses a record as too large: raise "
                "max.message.bytes of the topic; memsieve service topics check says to what"
            )
        if isinstance(error, errors.KafkaConnectionError):
            return await self._unreachable(error)
        if isinstance(error, _MEMBERSHIP):
            return Unreachable(f"Kafka at {self.bootstrap} is moving partitions: {_line(error)}")
        if error.retriable or isinstance(error, _MENDED_BY_TIME):
            return Unreachable(f"Kafka at {self.bootstrap}: {_line(error)}")
        return Fatal(f"Kafka at {self.bootstrap}: {_line(error)}")

    async def _unreachable(self, error: errors.KafkaError) -> Exception:
        """Find the reason: the client reports the same for a closed port and a wrong password."""
        options = self.options()
        del options["bootstrap_servers"], options["request_timeout_ms"]
        for server in self.bootstrap.split(","):
            host, _, port = server.strip().rpartition(":")
            try:
                async with asyncio.timeout(_PROBE_SECONDS):
                    connection = await create_conn(host, int(port), **options)
                connection.close()
            except _REFUSED as reason:
                return await self._meaning(reason)
            except (OSError, ValueError, errors.KafkaError):
                continue
        hint = "is it running, and are kafka.bootstrap and kafka.tls right?"
        return Unreachable(f"Kafka at {self.bootstrap} cannot be reached; {hint} ({_line(error)})")


def _line(error: BaseException) -> str:
    said = " ".join(str(error).split())
    name = type(error).__name__
    return said if said.startswith((name, "[Error")) else f"{name} {said}".strip()


async def bounded(stopping: Awaitable[object]) -> None:
    """Wait up to STOP_SECONDS for a client to stop: it may hang while its cluster is away.

    A client that cancels its own tasks looks as if the caller had been cancelled.
    """
    ending = asyncio.ensure_future(stopping)
    await asyncio.wait({ending}, timeout=STOP_SECONDS)
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
