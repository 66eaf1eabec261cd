"""The connection to the cluster: its address and credentials, and the meaning of its failures."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeGuard

from aiokafka import TopicPartition, errors
from aiokafka.conn import create_conn
from aiokafka.helpers import create_ssl_context
from faststream.kafka.security import parse_security
from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256, SASLScram512

from schemas.topics import INPUTS
from streams.model.ports.failures import Fatal, NoServer, Unreachable, Unusable

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

_SASL = {"PLAIN": SASLPlaintext, "SCRAM-SHA-256": SASLScram256, "SCRAM-SHA-512": SASLScram512}

_REFUSED = (
    errors.AuthenticationFailedError,
    errors.AuthenticationMethodNotSupported,
    errors.IllegalSaslStateError,
    errors.SaslAuthenticationFailed,
    errors.UnsupportedSaslMechanismError,
)
"""Errors of a login that fails."""

_FORBIDDEN = (
    errors.ClusterAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.TopicAuthorizationFailedError,
)
"""Errors of a login that lacks a permission."""

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
    events. With `tls`, `ca_file` names the authorities to trust instead of the system's, and
    `cert_file` and `key_file` say who we are. `request_seconds` is the timeout of an answer.
    """

    bootstrap: str
    prefix: str = ""
    run: str = ""
    tls: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    key_password: str = field(default="", repr=False)
    mechanism: Mechanism | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    request_seconds: float = 30.0

    def named(self, name: str) -> str:
        """Return the name of a topic or group in the cluster."""
        run = f".{self.run}" if self.run and name not in _SHARED else ""
        return f"{self.prefix}{name}{run}"

    @property
    def servers(self) -> list[str]:
        """The brokers to ask first, one HOST:PORT each."""
        return [server.strip() for server in self.bootstrap.split(",")]

    def place(self, topic: str, partition: int) -> TopicPartition:
        return TopicPartition(self.named(topic), partition)

    def security(self) -> BaseSecurity:
        """Return the credentials. Raises Unusable if a certificate or key cannot be read."""
        context = self._certificates() if self.tls else None
        if self.mechanism is None:
            return BaseSecurity(ssl_context=context, use_ssl=self.tls)
        return _SASL[self.mechanism](self.username, self.password, context, self.tls)

    def _certificates(self) -> ssl.SSLContext:
        try:
            context = create_ssl_context(cafile=self.ca_file)
        except OSError as error:
            raise Unusable(f"kafka.ca_file {self.ca_file} cannot be used: {error}") from error
        if self.cert_file is not None:
            try:
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(self.cert_file, self.key_file, self.key_password)
            except OSError as error:
                raise Unusable(
                    f"kafka.cert_file {self.cert_file} cannot be used with its key: {error}; check "
                    "kafka.key_file and kafka.key_password too"
                ) from error
        return context

    def options(self) -> dict[str, Any]:
        """Return the options of every client of the cluster."""
        return {
            "bootstrap_servers": self.servers,
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

    def refusal(self, error: BaseException | None) -> NoServer | None:
        """Return what a refusal of the cluster means; None if the error is something else."""
        if isinstance(error, _REFUSED):
            return NoServer(
                f"Kafka at {self.bootstrap} refuses the login ({_line(error)}): check the settings "
                "kafka.username, kafka.password, kafka.mechanism and kafka.tls"
            )
        if isinstance(error, _FORBIDDEN):
            return NoServer(
                f"Kafka at {self.bootstrap} does not permit this ({_line(error)}): memsieve service "
                "topics acls lists the permissions that each process needs"
            )
        return None

    async def _meaning(self, error: errors.KafkaError) -> Exception:
        if (refusal := self.refusal(error)) is not None:
            return refusal
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
        for server in self.servers:
            host, _, port = server.rpartition(":")
            try:
                async with asyncio.timeout(_PROBE_SECONDS):
                    connection = await create_conn(host, int(port), **options)
                connection.close()
            except _REFUSED as reason:
                return await self._meaning(reason)
            except ssl.SSLCertVerificationError as reason:
                return NoServer(
                    f"the certificate of Kafka at {self.bootstrap} is not trusted "
                    f"({reason.verify_message}): check kafka.ca_file, and the host names in "
                    "kafka.bootstrap"
                )
            except (ssl.SSLError, errors.KafkaConnectionError) as reason:
                # With TLS 1.3 the answer to our certificate comes after the handshake.
                alert = reason if isinstance(reason, ssl.SSLError) else reason.__cause__
                if _is_about_certificate(alert):
                    return NoServer(
                        f"Kafka at {self.bootstrap} refuses our certificate ({_line(alert)}): "
                        "check kafka.cert_file and kafka.key_file"
                    )
            except (OSError, ValueError, errors.KafkaError):
                continue
        hint = "is it running, and are kafka.bootstrap and kafka.tls right?"
        return Unreachable(f"Kafka at {self.bootstrap} cannot be reached; {hint} ({_line(error)})")


def require_permitted(what: str, code: int) -> None:
    """Raise the error of an answer whose code says that something is not permitted."""
    kind = errors.for_code(code)
    if kind in _FORBIDDEN:
        raise kind(what)


def _is_about_certificate(error: BaseException | None) -> TypeGuard[ssl.SSLError]:
    """Return whether the other side has ended the TLS connection because of our certificate."""
    if not isinstance(error, ssl.SSLError):
        return False
    reason = error.reason or ""
    return "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason)


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
