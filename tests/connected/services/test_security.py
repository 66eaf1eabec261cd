"""The services on a broker as companies run it: a login over TLS, and a list of who may do what."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from schemas.base import ScopeName
from schemas.codec import EVENT, TURN
from schemas.topics import EVENTS, TURNS
from streams.embedding import HASHING
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.maintain.app.permissions import PROCESSES, Permission
from streams.model.ports.log import OutgoingRecord
from streams.model.scope import partition_of
from tests.builders import event, turn
from tests.connected.api.test_api import ask, tokens
from tests.support.machine.waiting import wait_until
from tests.support.servers.brokers import required
from tests.support.servers.secured_kafka import (
    PASSWORD,
    Access,
    Authority,
    SecuredKafka,
    forbid,
    permit,
)
from tests.support.servers.services import Installation

PARTITIONS = 2
SCOPE = ScopeName("acme/ana")
FACT = "The office opens at eight."
TOLD = "Box 7 of the cellar holds 49 green bottles."
ASTRAY = "Bo keeps the spare key under the third flower pot."
DIED = {"died": True}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    users = [f"memsieve-{process.name}" for process in PROCESSES]
    broker = SecuredKafka(tmp_path_factory.mktemp("secured") / "kafka", users)
    required(broker.start)
    try:
        yield broker
    finally:
        broker.stop()


@dataclass(frozen=True)
class Company:
    """An installation in which each process logs in as a user of its own."""

    path: Path
    broker: SecuredKafka
    prefix: str
    login: Literal["password", "certificate"]
    shared: Mapping[str, str]

    def user(self, process: str) -> str:
        return f"memsieve-{process}" if self.login == "password" else f"CN={process}"

    def as_(self, process: str, **settings: str) -> Installation:
        """Return the installation as a process sees it, with its own login."""
        address, login = self._login(process)
        trusted = {"kafka__tls": "true", "kafka__ca_file": str(self.broker.authority.path)}
        settings = {**trusted, **login, **self.shared, **settings}
        return Installation.on(self.path, address, self.prefix, **settings)

    def _login(self, process: str) -> tuple[str, dict[str, str]]:
        if self.login == "password":
            return self.broker.scram, {
                "kafka__mechanism": "SCRAM-SHA-512",
                "kafka__username": self.user(process),
                "kafka__password": PASSWORD,
            }
        identity = self.broker.authority.sign(process, PASSWORD)
        return self.broker.mutual, {
            "kafka__cert_file": str(identity.certificate),
            "kafka__key_file": str(identity.key),
            "kafka__key_password": PASSWORD,
        }

    async def permit_all(self) -> list[tuple[str, Permission]]:
        """Permit each user what the command lists for it, and nothing else; return that."""
        listed = self.as_("operator").json(
            "service", "topics", "acls", "--user", self.user("{process}")
        )
        rules = [(one.pop("user"), Permission(**one)) for one in listed]
        await permit(self.broker, rules)
        return rules

    def denied(self) -> list[Access]:
        """Return what a process wanted to do and was not permitted."""
        _, denied = self.broker.accesses()
        return sorted(one for one in denied if one.name.startswith(self.prefix))

    def unused(self, rules: Sequence[tuple[str, Permission]], process: str) -> set[tuple[str, str]]:
        """Return what a process is permitted and has not done: topic or group, and operation."""
        allowed, _ = self.broker.accesses()
        done = {(one.name, one.operation) for one in allowed if one.user == self.user(process)}
        return {
            (one.name.removeprefix(self.prefix), operation)
            for user, one in rules
            if user == self.user(process)
            for operation in one.operations
            if (one.name, operation) not in done
        }


@pytest.fixture
def company(
    tmp_path: Path,
    secured: SecuredKafka,
    topic_prefix: str,
    qdrant_url: str,
    collection_prefix: str,
) -> Callable[[Literal["password", "certificate"]], Company]:
    shared = {
        "index__kind": "qdrant",
        "qdrant__url": qdrant_url,
        "qdrant__prefer_grpc": "false",
        "qdrant__collection_prefix": collection_prefix,
        "embedder__model": HASHING,
        "policy": "default-hashing",
        "service__session_seconds": "6",
        "forget__key": "a secret of more than 32 characters, for tests",
    }
    return lambda login: Company(tmp_path, secured, topic_prefix, login, shared)


async def send_astray(company: Company) -> None:
    """Append what other producers may: records in another partition than their scope's."""
    elsewhere = 1 - partition_of(SCOPE, PARTITIONS)
    said = EVENT.encode(event(ASTRAY, event_id="astray", scope=SCOPE))
    told = TURN.encode(turn(("world", TOLD), turn_id="t-7", scope=SCOPE, state=DIED))
    log = KafkaLog(Connection(company.broker.bootstrap, company.prefix))
    records = [
        OutgoingRecord(EVENTS.name, elsewhere, SCOPE.encode(), said),
        OutgoingRecord(TURNS.name, elsewhere, SCOPE.encode(), told),
        OutgoingRecord(EVENTS.name, elsewhere, None, b"no event"),
        OutgoingRecord(TURNS.name, elsewhere, None, b"no turn"),
    ]
    try:
        await log.append(records)
    finally:
        await log.close()


def texts(operator: Installation) -> dict[str, str]:
    """Return the memories' ids by their text."""
    return {one["text"]: one["id"] for one in operator.json("memory", "list")}


def serving(directory: Path) -> dict[str, str]:
    """Return the settings that the API needs beside those of every process."""
    return {"api__tokens": tokens(directory), "api__port": "0"}


RUNS = {
    "password": (("deduplicator",), ("writer",), ("extractor",)),
    "certificate": (("serve", "--extract"),),
}


@pytest.mark.timeout(600)  # a dozen processes, each with a login of its own
@pytest.mark.parametrize("login", ["password", "certificate"])
async def test_each_process_works_with_what_the_command_lists(
    company: Callable[[str], Company], tmp_path: Path, login: str
) -> None:
    """What is published is decided on, applied, found and forgotten; nobody is denied anything."""
    here = company(login)
    rules = await here.permit_all()
    operator = here.as_("operator")
    operator.memsieve("service", "topics", "create", "--partitions", str(PARTITIONS))
    with ExitStack() as stack:
        services = [
            stack.enter_context(here.as_(name).running(name, *arguments))
            for name, *arguments in RUNS[login]
        ]
        for service in services:
            service.wait_until_ready()
        rows = tmp_path / "rows.jsonl"
        rows.write_text(f'{{"scope": "{SCOPE}", "text": "{FACT}"}}\nno row\n', encoding="utf-8")
        here.as_("publish").memsieve("publish", str(rows))
        await send_astray(here)
        wait_until(lambda: set(texts(operator)) == {FACT, TOLD, ASTRAY}, "all is applied")
        assert len(operator.json("dead-letters", "list")) == 3
        operator.memsieve("forget", texts(operator)[FACT])
        wait_until(lambda: set(texts(operator)) == {TOLD, ASTRAY}, "it is forgotten")
        with here.as_("consolidator").running("consolidator") as consolidator:
            consolidator.wait_until_ready()
            assert consolidator.stop() == 0
        with here.as_("api", **serving(tmp_path)).running("api") as api:
            api.wait_until_ready()
            added = ask(api, "/v1/memories", {"scope": "cafe/tyler", "text": FACT})
            assert added.json()["kind"] == "insert"
            assert api.stop() == 0
        operator.memsieve("check", "--full")
        assert [service.stop() for service in services] == [0] * len(services)
    assert here.denied() == []
    if login == "password":
        conditional = {
            "deduplicator": {("memory.reviews", "Write")},  # pairs that nobody can settle
            "writer": set[tuple[str, str]](),
            "extractor": {("memory.events", "Read")},  # for a language model
            # It reads decisions without Qdrant, and had nothing to propose.
            "consolidator": {("memory.decisions", "Read"), ("memory.events", "Write")},
            "api": {("memory.reviews", "Read")},  # for the page
            "publish": {("memory.turns", "Write")},
        }
        assert {name: here.unused(rules, name) for name in conditional} == conditional


WITHOUT = (
    ("operator", "memory.decisions", "Create"),
    ("publish", "memory.events", "Write"),
    ("deduplicator", "memory.events", "Read"),
    ("writer", "memsieve-writer", "Read"),
    ("extractor", "memory.turns", "Read"),
    ("serve", "memory.changes", "DescribeConfigs"),
    ("consolidator", "memory.turns", "Describe"),
    ("api", "memory.reviews", "DescribeConfigs"),
)
"""The first two make what the others need: topics, and an event."""


def command(process: str, rows: Path) -> Sequence[str]:
    match process:
        case "publish":
            return ("publish", str(rows))
        case "operator":
            return ("service", "topics", "create", "--partitions", str(PARTITIONS))
        case _:
            return ("service", process)


@pytest.mark.timeout(600)  # a dozen processes, each with a login of its own
async def test_without_one_permission_a_process_ends_and_says_what_it_lacks(
    company: Callable[[str], Company], tmp_path: Path
) -> None:
    here = company("password")
    rules = await here.permit_all()
    rows = tmp_path / "rows.jsonl"
    row = f'{{"scope": "{SCOPE}", "text": "{FACT}", "occurred_at": "2026-11-01"}}\n'
    rows.write_text(row, encoding="utf-8")
    for process, name, operation in WITHOUT:
        [rule] = [
            one
            for one in rules
            if one[0] == here.user(process) and one[1].name == here.prefix + name
        ]
        await forbid(here.broker, *rule, operation)
        said = here.as_(process, **serving(tmp_path)).memsieve(*command(process, rows), code=7)
        problem = line_of(said)
        assert "does not permit this" in problem
        assert f"{here.prefix}{name}" in problem
        assert problem.endswith("topics acls lists the permissions that each process needs")
        await permit(here.broker, [rule])
        if process in {"operator", "publish"}:
            here.as_(process).memsieve(*command(process, rows))


def line_of(said: str) -> str:
    """Return the one line, apart from the log's, that a process ended with."""
    [line] = [line for line in said.splitlines() if not line.startswith("{")]
    assert line.startswith("memsieve: ")
    return line


@pytest.mark.timeout(240)
def test_a_login_that_is_refused_ends_the_process_with_one_line(
    company: Callable[[str], Company], tmp_path: Path
) -> None:
    """Trying again would help nobody, and might lock the account."""
    stranger = Authority(tmp_path, "stranger")
    theirs = stranger.sign("writer")
    other = company("certificate").broker.authority.sign("other")
    by_password, by_certificate = company("password"), company("certificate")
    wrong: tuple[tuple[Company, int, dict[str, str], str], ...] = (
        (by_password, 7, {"password": "open barley"}, "refuses the login"),
        (by_password, 7, {"ca_file": str(stranger.path)}, "is not trusted (unable to get local"),
        (
            by_certificate,
            7,
            {"cert_file": str(theirs.certificate), "key_file": str(theirs.key)},
            "refuses our certificate",
        ),
        (by_certificate, 2, {"key_password": "barley"}, "cannot be used with its key"),
        (by_certificate, 2, {"key_file": str(other.key)}, "cannot be used with its key"),
        (by_certificate, 2, {"ca_file": str(tmp_path / "none")}, "No such file"),
    )
    for here, code, settings, line in wrong:
        named = {f"kafka__{name}": value for name, value in settings.items()}
        said = here.as_("writer", **named).memsieve("service", "writer", code=code)
        assert line in line_of(said)
        assert all(f"kafka.{name}" in said for name in settings)
        assert PASSWORD not in said
