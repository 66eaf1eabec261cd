"""`HttpMemory` beside a real `memsieve service api`: the whole life of a memory, from Python."""

import asyncio
import hashlib
import inspect
import re
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
from typing import Any

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
from streams.embedding import HASHING
from tests.support import http_client
from tests.support.asking import asking
from tests.support.services import Installation

ANA, BEN = "acme/ana", "zeta/ben"
ROME, OSLO, TEA = "Ana lives in Rome.", "Her home is Oslo by now.", "Ana likes tea."
BEES, HIVES = "Ben keeps bees on the roof.", "Ben keeps bees on her roof."
THEN = datetime(2026, 3, 1, 9, tzinfo=UTC)


@contextmanager
def api(directory: Path, policy: str = "default-hashing", **settings: str) -> Generator[str]:
    """Serve a store meanwhile; give the address."""
    rows = ""
    for name, scope, rights in (("ana", ANA, '"read", "write"'), ("reader", BEN, '"read"')):
        digest = hashlib.sha256(f"of {name}".encode()).hexdigest()
        rows += f'[[tokens]]\nname = "{name}"\nsha256 = "{digest}"\nscopes = ["{scope}"]\n'
        rows += f"rights = [{rights}]\n"
    (directory / "tokens.toml").write_text(rows, "utf-8")
    asking(directory)
    given = {"EMBEDDER__MODEL": HASHING, "POLICY": policy, "API__TOKENS": "tokens.toml"}
    own = {**given, "API__PORT": "0", "SERVICE__PORT": "0", **settings}
    here = Installation(directory, {f"MEMSIEVE_{name}": value for name, value in own.items()})
    with here.running("api", "--store", "store") as process:
        process.wait_until_ready()
        [port] = re.findall(r"API on port (\d+)", process.said)
        yield f"http://127.0.0.1:{port}"
        assert process.stop() == 0


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with api(tmp_path_factory.mktemp("api")) as served:
        yield served


@pytest.fixture
def memory(url: str) -> Generator[HttpMemory]:
    with HttpMemory(url, token="of ana") as connected:
        yield connected


def test_the_whole_life_of_a_memory(memory: HttpMemory) -> None:
    scope = f"{ANA}/life"
    first = memory.add(ROME, scope=scope, source="Ana", occurred_at=THEN, metadata={"page": 3})
    assert (first.kind, first.why) == ("insert", "no memory of this scope is similar")
    assert first.memory_id is not None
    again = memory.add("ana LIVES in rome.", scope=scope)
    assert (again.kind, again.memory_id) == ("reinforce", first.memory_id)

    kept = memory.get(first.memory_id)
    assert (kept.text, kept.created_at, kept.metadata) == (ROME, THEN, {"page": 3})
    assert [one.id for one in memory.memories(scope=scope).memories] == [kept.id]
    [entry] = memory.search("where does Ana live?", scope=scope, limit=3).entries
    assert (entry.text, entry.members[0].memory.id) == (ROME, kept.id)
    assert f"- {ROME} (seen 2x)" in memory.recall(scope=scope).block.splitlines()
    assert first.decision_id is not None
    assert f'it says    "{ROME}"' in memory.explain(first.decision_id).story

    changes = memory.update(kept.id, OSLO)
    assert [one.memory_id for one in changes.decisions] == [kept.id]
    assert [one.text for one in memory.history(kept.id).versions] == [ROME, ROME, OSLO]
    taken_back = changes.decisions[0].decision_id
    assert taken_back is not None
    assert taken_back in memory.undo(taken_back, note="she did not move").undone
    assert memory.get(kept.id).text == ROME

    memory.pin(kept.id)
    with pytest.raises(ConflictError, match="is pinned; unpin it first") as refused:
        memory.retire(kept.id, reason="unused")
    assert refused.value.field == "memory_id"
    memory.unpin(kept.id)
    memory.rate(kept.id, helpful=2, note="it was asked for")
    feedback = memory.get(kept.id).feedback
    assert feedback is not None
    assert feedback.helpful == 2
    newest = memory.decisions(scope=scope, limit=2)
    assert [one.why for one in newest.decisions] == [
        "feedback was recorded: how often it was read, helped or misled",
        "a request unpinned it",
    ]
    older = memory.decisions(scope=scope, kind="insert", after=newest.after).decisions
    assert [one.text for one in older] == [ROME]
    memory.retire(kept.id, reason="unused")
    assert [one.text for one in memory.memories(scope=scope).memories] == [OSLO]
    with pytest.raises(ConflictError, match="is not live: ended: unused"):
        memory.pin(kept.id)
    assert memory.forget(kept.id, note="asked by phone").memory_ids == (kept.id,)
    with pytest.raises(NotFound, match="is forgotten"):
        memory.get(kept.id)


def test_many_at_once_each_have_their_own_answer(memory: HttpMemory) -> None:
    scope = f"{ANA}/many"
    rows = [{"scope": scope, "text": TEA, "occurred_at": THEN}, {"scope": scope}]
    good, bad = memory.add_many(rows).results
    assert (good.status, good.outcome and good.outcome.kind) == (200, "insert")
    assert bad.problem is not None
    assert (bad.status, bad.problem.field) == (422, "memories[1].text")
    said = memory.publish([{"scope": scope, "text": ROME, "event_id": "e1"}])
    assert [(one.status, one.outcome and one.outcome.event_id) for one in said.results] == [
        (200, "e1")
    ]
    grouped = memory.deduplicate(scope=scope, texts=[TEA, ROME, TEA])
    assert sorted(one.members for one in grouped.groups) == [(0, 2), (1,)]
    part = memory.memories(scope=scope, limit=1)
    assert part.after is not None
    [rest] = memory.memories(scope=scope, after=part.after).memories
    assert {part.memories[0].text, rest.text} == {TEA, ROME}


def test_an_id_that_had_another_text_is_a_conflict(memory: HttpMemory) -> None:
    scope = f"{ANA}/ids"
    memory.add(TEA, scope=scope, event_id="e1")
    assert memory.add(TEA, scope=scope, event_id="e1").repeated
    with pytest.raises(ConflictError, match="event_id was used before") as refused:
        memory.add(ROME, scope=scope, event_id="e1")
    assert refused.value.field == "event_id"


REFUSED: list[tuple[Callable[[Any], object], type[MemsieveError], str]] = [
    (lambda m: m.add("x", scope="acme/*"), InvalidRequest, "scope holds the wildcard *"),
    (lambda m: m.add(" ", scope=ANA), InvalidRequest, "text is empty or only white space"),
    (lambda m: m.add("\ud800", scope=ANA), InvalidRequest, "cannot be sent as JSON"),
    (lambda m: m.add("x", scope=ANA, metadata={"x": object()}), InvalidRequest, "cannot be sent"),
    (lambda m: m.add("x", scope=BEN), NotAllowed, "scope: the token may not write this scope"),
    (lambda m: m.search("x", scope=BEN), NotAllowed, "scope: the token may not read this"),
    (lambda m: m.recall(scope=ANA, budget=1), InvalidRequest, "is 1, and a block takes"),
    (lambda m: m.get("nothing?y#z"), NotFound, "no memory in your scopes has the id nothing?y#z"),
    (lambda m: m.get("../reviews"), NotFound, "nothing has the id ../reviews"),
    (lambda m: m.get(""), InvalidRequest, "memory_id: is empty"),
    (lambda m: m.rate("nothing"), InvalidRequest, "nothing to record: give helpful, harmful or"),
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
        memory.memories(scope=ANA)
    for address, token, said in (
        ("localhost:8090", "x", "url: write http://HOST:PORT"),
        ("http://", "x", "url: write http://HOST:PORT"),
        (url, "a\nb", "token: is not valid"),
    ):
        with pytest.raises(InvalidRequest, match=f"^{said}"):
            HttpMemory(address, token=token)


def test_a_question_is_listed_and_answered(tmp_path: Path) -> None:
    with api(tmp_path, "asking.toml") as url, HttpMemory(url, token="of ana") as memory:
        old, _ = memory.add(BEES, scope=ANA), memory.add(HIVES, scope=ANA)
        [asked] = memory.reviews(scope=ANA).reviews
        assert (asked.older.text, asked.state) == (BEES, "open")
        [decided] = memory.answer(asked.id, "same", note="one roof").decisions
        assert (decided.kind, decided.memory_id) == ("replace", old.memory_id)
        assert memory.reviews(scope=ANA).reviews == ()


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
    with api(tmp_path, API__REQUESTS_PER_MINUTE="60") as url:
        with HttpMemory(url, token="of ana") as patient:
            for _ in range(62):
                assert patient.memories(scope=ANA).memories == ()
        with HttpMemory(url, token="of ana", patience=0) as hurried:

            def hurry() -> None:
                for _ in range(62):
                    hurried.memories(scope=ANA)

            with pytest.raises(Busy, match="more than 60 requests in a minute") as refused:
                hurry()
        assert refused.value.retry_after == 1


def test_where_too_many_wait_all_come_to_their_turn(tmp_path: Path) -> None:
    def tell(number: int) -> str | None:
        return memory.add(f"Locker {number} belongs to team {number + 100}.", scope=ANA).kind

    crowded = {"API__CONCURRENCY_MAX": "1", "API__WAITING_MAX": "0"}
    with api(tmp_path, **crowded) as url, HttpMemory(url, token="of ana") as memory:
        with ThreadPoolExecutor(6) as threads:
            told = list(threads.map(tell, range(12)))
        assert len(told) == 12
        assert None not in told


def test_a_server_that_is_not_there_or_is_another_is_told_in_one_line() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
        with (
            HttpMemory(nobody, token="x") as memory,
            pytest.raises(ServerError, match=f"^{nobody} does not answer: "),
        ):
            memory.memories(scope=ANA)
    with another() as url, HttpMemory(url, token="x") as memory:
        with pytest.raises(
            ServerError, match="/v1/memories gave an answer that this version of memsieve"
        ):
            memory.memories(scope=ANA)
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


def test_the_clients_are_what_the_api_describes() -> None:
    assert http_client.FILE.read_text("utf-8") == http_client.client(), "run `make client`"


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, inspect.Signature]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: inspect.signature(one) for name, one in found if not name.startswith("_")}

    assert methods(AsyncHttpMemory) == methods(HttpMemory)
