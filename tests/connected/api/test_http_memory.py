"""What `HttpMemory` alone does; what it does as a `Memory` does is in tests/contract."""

import asyncio
import inspect
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest

from memsieve import (
    AsyncHttpMemory,
    Busy,
    ConflictError,
    HttpMemory,
    InvalidRequest,
    MemsieveError,
    NotAllowed,
    NotFound,
    ServerError,
)
from tests.support.servers.http_api import api

ANA, BEN = "acme/ana", "zeta/ben"
ROME, OSLO, TEA = "Ana lives in Rome.", "Her home is Oslo by now.", "Ana likes tea."
BEES = "Ben keeps bees on the roof."
THEN = datetime(2026, 3, 1, 9, tzinfo=UTC)


RIGHTS = {"ana": (ANA, '"read", "write"'), "reader": (BEN, '"read"')}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with api(tmp_path_factory.mktemp("api"), RIGHTS) as served:
        yield served


@pytest.fixture
def memory(url: str) -> Generator[HttpMemory]:
    with HttpMemory(url, token="of ana") as connected:
        yield connected


def test_many_at_once_are_decided_on_and_the_first_that_is_refused_is_told_by_its_row(
    memory: HttpMemory,
) -> None:
    scope = f"{ANA}/many"
    rows = [{"text": TEA, "occurred_at": THEN}, ROME]
    assert [one.kind for one in memory.add_many(rows, scope=scope)] == ["insert", "insert"]
    with pytest.raises(InvalidRequest, match=r"^rows\[1\]\.scope: is missing$") as invalid:
        memory.add_many([{"scope": scope, "text": OSLO}, {"text": TEA}])
    assert invalid.value.field == "rows[1].scope"
    with pytest.raises(NotAllowed, match=r"^rows\[1\]\.scope: the token may not write this scope"):
        memory.add_many([{"scope": scope, "text": BEES}, {"scope": BEN, "text": TEA}])
    assert [one.text for one in memory.memories(scope)] == [TEA, ROME, BEES]
    many = [f"Locker {number} belongs to team {number + 100}." for number in range(300)]
    seen = list[int]()
    memory.add_many(many, scope=f"{ANA}/lockers", progress=lambda done, _: seen.append(done))
    assert seen == [256, 300]
    assert len(memory.memories(f"{ANA}/lockers")) == 300


def test_what_is_published_has_a_status_each(memory: HttpMemory) -> None:
    scope = f"{ANA}/published"
    memory.add(TEA, scope=scope, event_id="e1")
    rows = [{"text": TEA, "event_id": "e1"}, {"text": ROME, "event_id": "e1"}, OSLO]
    told = memory.publish(rows, scope=scope)
    assert [one.status for one in told] == [200, 409, 200]
    assert told[1].problem is not None
    assert told[1].problem.field == "events[1].event_id"


def test_decisions_are_listed_and_texts_grouped(memory: HttpMemory) -> None:
    scope = f"{ANA}/decisions"
    for text in (TEA, ROME, OSLO):
        memory.add(text, scope=scope)
    newest = memory.decisions(scope, limit=2)
    assert [one.text for one in newest.decisions] == [OSLO, ROME]
    older = memory.decisions(scope, kind="insert", after=newest.after).decisions
    assert [one.text for one in older] == [TEA]
    grouped = memory.deduplicate(scope=scope, texts=[TEA, ROME, TEA])
    assert sorted(one.members for one in grouped.groups) == [(0, 2), (1,)]


def test_who_changes_what_is_told_by_the_token_and_a_scope_is_forgotten_by_the_command(
    memory: HttpMemory,
) -> None:
    scope = f"{ANA}/authors"
    identity = memory.add(TEA, scope=scope).memory_id
    memory.pin(identity)
    assert [one.by for one in memory.history(identity)] == [None, "ana"]
    with pytest.raises(InvalidRequest, match=r"^author: over HTTP it is the token's name"):
        memory.unpin(identity, author="Ben")
    for where, tenant in ((scope, None), (None, "acme"), (None, None)):
        with pytest.raises(InvalidRequest, match="is not forgotten over HTTP, but by memsieve"):
            memory.forget(scope=where, tenant=tenant)


def test_a_block_or_search_of_nothing_says_in_the_log_which_scopes_have_some(
    memory: HttpMemory, caplog: pytest.LogCaptureFixture
) -> None:
    memory.add(TEA, scope=f"{ANA}/hinted")
    with caplog.at_level("INFO", "memsieve"):
        assert memory.recall(scope=f"{ANA}/hintd") == "No memories yet."
        assert memory.search("tea", scope=f"{ANA}/hintd") == []
    said = [one.message for one in caplog.records if one.name == "memsieve"]
    told = f"scope {ANA}/hintd has no memories; others have: {ANA}/hinted"
    assert [one.startswith(told) for one in said] == [True, True]


def test_an_id_that_had_another_text_is_a_conflict(memory: HttpMemory) -> None:
    scope = f"{ANA}/ids"
    memory.add(TEA, scope=scope, event_id="e1")
    assert memory.add(TEA, scope=scope, event_id="e1").kind == "ignore"
    with pytest.raises(ConflictError, match="event_id was used before") as refused:
        memory.add(ROME, scope=scope, event_id="e1")
    assert refused.value.field == "event_id"


REFUSED: list[tuple[Callable[[Any], object], type[MemsieveError], str]] = [
    (lambda m: m.add("x", scope="acme/*"), InvalidRequest, "scope: holds the wildcard *"),
    (lambda m: m.add(" ", scope=ANA), InvalidRequest, "text: is empty or only white space"),
    (lambda m: m.add("\ud800", scope=ANA), InvalidRequest, "text: "),
    (lambda m: m.add("x", scope=ANA, metadata={"x": object()}), InvalidRequest, "metadata.x"),
    (lambda m: m.add("x", scope=ANA, txt="x"), InvalidRequest, "txt: is not a field of an event"),
    (lambda m: m.add("x", scope=BEN), NotAllowed, "scope: the token may not write this scope"),
    (lambda m: m.search("x", scope=BEN), NotAllowed, "scope: the token may not read this"),
    (lambda m: m.search("x"), InvalidRequest, "scope: is missing; over HTTP, name the one"),
    (lambda m: m.recall(), InvalidRequest, "scope: is missing; over HTTP, name the one"),
    (lambda m: m.recall(scope=ANA, budget=1), InvalidRequest, "budget: is 1, and a block takes"),
    (lambda m: m.get("nothing?y#z"), NotFound, "no memory in your scopes has the id nothing?y#z"),
    (lambda m: m.get("../reviews"), NotFound, "nothing has the id ../reviews"),
    (lambda m: m.get(""), InvalidRequest, "memory_id: is empty"),
    (lambda m: m.rate("nothing"), InvalidRequest, "nothing to record: give helpful"),
    (lambda m: m.undo("nothing"), NotFound, "no decision in your scopes has the id nothing"),
    (lambda m: m.answer("nothing", "same"), NotFound, "no question in your scopes has the id"),
]


@pytest.mark.parametrize(("asked", "error", "said"), REFUSED)
def test_what_is_refused_is_told_in_one_line(
    memory: HttpMemory, asked: Callable[[Any], object], error: type[MemsieveError], said: str
) -> None:
    with pytest.raises(error) as refused:
        asked(memory)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_a_token_that_nobody_has_is_not_allowed(url: str) -> None:
    with (
        HttpMemory(url, token="of nobody") as memory,
        pytest.raises(NotAllowed, match="a valid token"),
    ):
        memory.memories(ANA)
    for address, token, said in (
        ("localhost:8090", "x", "url: write http://HOST:PORT"),
        ("http://", "x", "url: write http://HOST:PORT"),
        ("http://localhost:99999", "x", "url: is not valid: a port is at most 65535"),
        (url, "a\nb", "token: is not valid"),
        (url, None, "token: should be a valid string"),
        (None, "x", "url: should be a valid string"),
    ):
        with pytest.raises(InvalidRequest, match=f"^{said}"):
            HttpMemory(cast("Any", address), token=cast("Any", token))


async def test_with_an_event_loop_calls_overlap(url: str) -> None:
    scope = f"{ANA}/loop"
    async with AsyncHttpMemory(url, token="of ana") as memory:
        told = await asyncio.gather(
            *(memory.add(f"Box {number} is blue.", scope=scope) for number in range(12))
        )
        assert len({one.event_id for one in told}) == 12
        with pytest.raises(NotFound):
            await memory.get("nothing")
    with pytest.raises(ServerError, match="was closed"):
        await memory.memories(scope=scope)


def test_who_comes_too_often_waits_or_is_told_when_to_come_again(tmp_path: Path) -> None:
    """A minute's requests are there at once; then one comes back each second."""
    with api(tmp_path, RIGHTS, API__REQUESTS_PER_MINUTE="60") as url:
        with HttpMemory(url, token="of ana") as patient:
            for _ in range(62):
                assert patient.memories(ANA) == []
        with HttpMemory(url, token="of ana", patience=0) as hurried:

            def hurry() -> None:
                for _ in range(62):
                    hurried.memories(scope=ANA)

            with pytest.raises(Busy, match="more than 60 requests in a minute") as refused:
                hurry()
        assert refused.value.retry_after == 1


def test_where_too_many_wait_all_come_to_their_turn(tmp_path: Path) -> None:
    def tell(number: int) -> str:
        return memory.add(f"Locker {number} belongs to team {number + 100}.", scope=ANA).kind

    crowded = {"API__CONCURRENCY_MAX": "1", "API__WAITING_MAX": "0"}
    with api(tmp_path, RIGHTS, **crowded) as url, HttpMemory(url, token="of ana") as memory:
        with ThreadPoolExecutor(6) as threads:
            told = list(threads.map(tell, range(12)))
        assert len(told) == 12


def test_a_server_that_is_not_there_or_is_another_is_told_in_one_line() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
        with (
            HttpMemory(nobody, token="x") as memory,
            pytest.raises(ServerError, match=f"^{nobody} does not answer: "),
        ):
            memory.memories(ANA)
    with another() as url, HttpMemory(url, token="x") as memory:
        with pytest.raises(
            ServerError, match="/v1/memories gave an answer that this version of memsieve"
        ):
            memory.memories(ANA)
        with pytest.raises(ServerError, match=r"/v1/memories/search answered 502 Bad Gateway$"):
            memory.search("x", scope=ANA)


@contextmanager
def another() -> Generator[str]:
    """Serve something that is no memsieve."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200)

        def do_POST(self) -> None:
            self._answer(502)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"<html>hello</html>")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
            del format, args

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_the_clients_need_no_extra() -> None:
    absent = "import sys; sys.modules |= dict.fromkeys(['fastapi', 'starlette', 'mcp'])"
    program = f"{absent}; from memsieve import HttpMemory; HttpMemory('http://a', token='b')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_both_clients_have_the_same_methods() -> None:
    """But one opens at once, and the other when it is asked to."""

    def methods(kind: type) -> dict[str, inspect.Signature]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: inspect.signature(one) for name, one in found if not name.startswith("_")}

    asynchronous = methods(AsyncHttpMemory)
    del asynchronous["open"]
    assert asynchronous == methods(HttpMemory)
