"""A broker as companies run it, for tests: it wants a login, over TLS, and has an access list."""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from aiokafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streams.log.kafka.connection import Connection
from streams.maintain.app.permissions import Permission
from tests.support.servers.kafka import NativeKafka, free_port
from tests.support.servers.kafka_topics import administered

PASSWORD: Final = "open sesame"  # noqa: S105 - of a broker that lives as long as these tests
_SUPER = "ANONYMOUS"  # who comes to the listener without a login: the tests, and the broker itself
_DAY = timedelta(days=1)
_RESOURCES = {"topic": 2, "group": 3}
_OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Describe": 8, "DescribeConfigs": 10}
"""The protocol's numbers."""
_LITERAL = 3
_ALLOW = 3
_AUTHORIZED = re.compile(
    r"Principal = User:(?P<user>.+?) is (?P<outcome>Allowed|Denied) operation = (?P<operation>\w+) "
    r"from host = \S+ on resource = \w+:LITERAL:(?P<name>\S+) "
)


class Authority:
    """Who signs certificates."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _common_name(name)
        made = _certificate(self._name, self._name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.path = directory / f"{name}.pem"
        self.path.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    def sign(self, name: str, password: str = "") -> "Identity":
        """Return a certificate for a name, valid for this machine, with its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(_common_name(name), self._name, key.public_key())
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        signed = made.add_extension(here, critical=False).sign(self._key, hashes.SHA256())
        identity = Identity(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        identity.certificate.write_bytes(_pem(signed))
        identity.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password.encode())
                if password
                else serialization.NoEncryption(),
            )
        )
        return identity


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)  # noqa: TID251 - what a certificate is compared with
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@dataclass(frozen=True, order=True)
class Access:
    """What somebody wanted to do with a topic or group, as the broker logged it."""

    user: str
    name: str
    operation: str


class SecuredKafka(NativeKafka):
    """A broker with a listener for SCRAM, one for certificates, and an access list.

    Nobody may do anything except at the listener of `bootstrap`, where the tests are.
    """

    def __init__(self, directory: Path, users: Iterable[str]) -> None:
        """Prepare it; `users` are those who log in by SCRAM."""
        directory.mkdir(parents=True)
        self._scram, self._mutual = free_port(), free_port()
        self.authority = Authority(directory, "authority")
        theirs = self.authority.sign("broker")
        store = directory / "broker.pem"
        store.write_bytes(theirs.key.read_bytes() + theirs.certificate.read_bytes())
        protocols = ("PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", "SCRAM:SASL_SSL", "MUTUAL:SSL")
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        properties = {
            "listener.security.protocol.map": ",".join(protocols),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.path),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.scram.scram-sha-512.sasl.jaas.config": scram,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{_SUPER}",
        }
        super().__init__(
            directory,
            properties,
            listeners={"SCRAM": self._scram, "MUTUAL": self._mutual},
            users=[f"SCRAM-SHA-512=[name={user},password={PASSWORD}]" for user in users],
            options=["-Dorg.slf4j.simpleLogger.log.kafka.authorizer.logger=debug"],
        )

    @property
    def scram(self) -> str:
        return f"127.0.0.1:{self._scram}"

    @property
    def mutual(self) -> str:
        return f"127.0.0.1:{self._mutual}"

    def accesses(self) -> tuple[set[Access], set[Access]]:
        """Return what was allowed to users that log in, and what was denied."""
        allowed, denied = set[Access](), set[Access]()
        for line in self.log.splitlines():
            found = _AUTHORIZED.search(line)
            if found is not None and found["user"] != _SUPER:
                operation = found["operation"].title().replace("_", "")
                access = Access(found["user"], found["name"], operation)
                (allowed if found["outcome"] == "Allowed" else denied).add(access)
        return allowed, denied


# aiokafka's client has no methods for this, and the requests.
# pyright: reportPrivateUsage=false


async def permit(broker: SecuredKafka, rules: Iterable[tuple[str, Permission]]) -> None:
    """Permit users what is listed for them."""
    wanted = [_rule(user, one, operation) for user, one in rules for operation in one.operations]
    async with administered(Connection(broker.bootstrap)) as admin:
        for rule in wanted:
            answer = await admin._send_to_controller(CreateAclsRequest(*rule))  # noqa: SLF001
            assert [code for code, _ in answer.creation_responses] == [0]


async def forbid(broker: SecuredKafka, user: str, permission: Permission, operation: str) -> None:
    """Take one operation of a permission away from a user."""
    rule = _rule(user, permission, operation)
    async with administered(Connection(broker.bootstrap)) as admin:
        answer = await admin._send_to_controller(DeleteAclsRequest(*rule))  # noqa: SLF001
    [(code, _, removed)] = answer.filter_responses
    assert (code, len(removed)) == (0, 1)


def _rule(
    user: str, permission: Permission, operation: str
) -> tuple[int, str, int, str, str, int, int]:
    resource = _RESOURCES[permission.resource]
    allowed = _OPERATIONS[operation]
    return (resource, permission.name, _LITERAL, f"User:{user}", "*", allowed, _ALLOW)
