"""The API over a real socket, before memories whose vectors a test has chosen, beside a cluster."""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, get_args

import httpx
import pytest

from schemas.codec import EVENT
from schemas.decisions import Block, OnEvent, kinds_of
from schemas.events import Event
from schemas.topics import EVENTS
from streams.api.app.access import Access, Grant
from streams.api.app.application import build
from streams.api.app.records import Kind
from streams.index.exact import ExactIndex
from streams.memory.app.lifecycle import Lifecycle
from streams.model.neighbours import StoredMemory
from streams.model.ports.failures import NoStore, Unreachable
from streams.model.scope import partition_of
from streams.recall.app.loading import Loading
from streams.services.world.serving import serving
from streams.stage.flow.judging import Judging
from streams.store.app import policies
from streams.store.app.client import Client, Response, record_of
from streams.store.app.product_settings import ApiSettings, LoadSettings
from streams.store.world.metrics import ApiMetrics
from streams.text.reading import TextAnalyzer
from tests.builders import at_cosine, event, identity, memory, unit
from tests.fakes.clock import StandingClock
from tests.fakes.embedder import FakeEmbedder
from tests.support.stage.deciding import lexicon

if TYPE_CHECKING:
    from streams.model.ports.log import OutgoingRecord

TEA = "Ana likes tea."
MUCH_TEA = "Ana likes tea. She has it at four."
OF_BEN = "Ben's locker has the number 4711."
ANA, BEN = "acme/ana", "zeta/ben"
SEARCH, DEDUPLICATE, PUBLISH = "/v1/memories/search", "/v1/memories:deduplicate", "/v1/events"
EMBEDDER = FakeEmbedder(
    {"drinks": (1, 0, 0, 0, 0, 0, 0, 0), TEA: (1, 0.1, 0, 0, 0, 0, 0, 0), MUCH_TEA: (1,) + (0,) * 7}
)


def said(scope: str, text: str = TEA, **fields: Any) -> dict[str, Any]:
    return json.loads(EVENT.encode(event(text, scope=scope, **fields)))


def bodies(scope: str) -> dict[str, dict[str, Any]]:
    """Return a request of each route that is about a scope."""
    return {
        SEARCH: {"scope": scope, "query": "drinks"},
        DEDUPLICATE: {"scope": scope, "texts": [TEA]},
        PUBLISH: {"events": [said(scope)]},
    }


def test_decisions_can_be_listed_by_every_kind_that_lies_with_its_scope() -> None:
    assert set(get_args(Kind)) == set(kinds_of(OnEvent | Block)), "write the new kind into Kind"


class World:
    """An API, who may use it, and what it has done."""

    attempts_left = 0

    def __init__(self, **settings: Any) -> None:
        self.memories = ExactIndex()
        self.published: list[OutgoingRecord] = []
        self.log: list[dict[str, Any]] = []
        self.metrics = ApiMetrics()
        self.clock = StandingClock()
        self.trouble: Exception | None = None
        self.held = asyncio.Event()
        self.held.set()
        self.entered = asyncio.Semaphore(0)
        loading = Loading(
            self._level,
            EMBEDDER,
            Judging(TextAnalyzer(lexicon()), {}),
            policies.load("default"),
            LoadSettings(verify="none"),
        )
        grants = (
            _grant("ana", ANA, "read", "write"),
            _grant("reader", ANA, "read"),
            _grant("writer", ANA, "write"),
            _grant("ben", BEN, "read", "write"),
        )
        life = Lifecycle(loading, self, len, self.clock)
        self.app = build(
            life, Access(grants), ApiSettings(**settings), self.metrics, self.clock, self._noted
        )

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        """Take events in; whoever decides on them is not here."""
        self.published += [record_of(one, 3) for one in events]
        return [Response(one) for one in events]

    decide = publish = submit

    def alone(self) -> AbstractAsyncContextManager[Client]:
        return nullcontext(self)

    async def index(self) -> ExactIndex:
        return self.memories

    async def _level(self) -> ExactIndex:
        self.entered.release()
        await self.held.wait()
        if self.trouble is not None:
            raise self.trouble
        return self.memories

    def _noted(self, level: int, line: str, **fields: Any) -> None:
        self.log.append({"level": level, "line": line, **fields})

    async def keep(self) -> None:
        await self.memories.write(
            [
                StoredMemory(memory(TEA, id=identity(1), scope=ANA), unit(1)),
                StoredMemory(memory(MUCH_TEA, id=identity(2), scope=ANA), at_cosine(0.9)),
                StoredMemory(memory(OF_BEN, id=identity(3), scope=BEN), unit(1)),
            ]
        )

    def counted(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


def _grant(name: str, scope: str, *rights: str) -> Grant:
    digest = hashlib.sha256(f"token of {name}".encode()).hexdigest()
    return Grant.model_validate(
        {"name": name, "sha256": digest, "scopes": [scope], "rights": rights}
    )


@asynccontextmanager
async def client(world: World, holder: str | None = "ana") -> AsyncGenerator[httpx.AsyncClient]:
    headers = {} if holder is None else {"authorization": f"Bearer token of {holder}"}
    await world.keep()
    async with (
        serving(world.app, "127.0.0.1", 0, what="the API", named="api.host and api.port") as port,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False
        ) as http,
    ):
        yield http


def problem(answer: httpx.Response) -> dict[str, Any]:
    """Return an error, which is one line of its own kind."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert "\n" not in answer.text
    told = answer.json()
    assert told["status"] == answer.status_code
    return told


@pytest.mark.covers("S4.12", "S4.21", "B82", "B85")
async def test_a_search_shows_what_is_one_fact_as_one_entry_unless_it_is_told_otherwise() -> None:
    async with client(World()) as http:
        asked = bodies(ANA)[SEARCH]
        found = (await http.post(SEARCH, json=asked)).json()
        assert [(entry["text"], entry["way"]) for entry in found["entries"]] == [
            (MUCH_TEA, "says-all")
        ]
        assert [one["memory"]["id"] for one in found["entries"][0]["members"]] == [
            identity(1),
            identity(2),
        ]
        each = (await http.post(SEARCH, json={**asked, "deduplicate": False})).json()
        near = (await http.post(SEARCH, json={**asked, "threshold": 1.0})).json()
        assert len(each["entries"]) == len(near["entries"]) == 2
        one = (await http.post(SEARCH, json={**asked, "deduplicate": False, "limit": 1})).json()
        assert len(one["entries"]) == 1


@pytest.mark.covers("B34", "S4.16")
async def test_memories_or_texts_are_grouped_each_in_one_group_and_nothing_is_stored() -> None:
    world = World()
    async with client(world) as http:
        texts = {"scope": ANA, "texts": [TEA, MUCH_TEA, TEA]}
        by_text = (await http.post(DEDUPLICATE, json=texts)).json()
        assert [(one["text"], one["members"]) for one in by_text["groups"]] == [
            (MUCH_TEA, [0, 1, 2])
        ]
        ids = {"scope": ANA, "ids": [identity(2), identity(1)]}
        by_id = (await http.post(DEDUPLICATE, json=ids)).json()
        assert [one["members"] for one in by_id["groups"]] == [[0, 1]]
    assert await world.memories.count() == 3
    assert world.published == []


async def test_events_are_published_where_their_scope_belongs() -> None:
    world = World()
    given = [said(ANA), said(f"{ANA}/work", MUCH_TEA)]
    async with client(world) as http:
        answer = await http.post(PUBLISH, json={"events": given})
    assert answer.status_code == 202
    results = answer.json()["results"]
    assert [one["status"] for one in results] == [202, 202]
    assert [one["outcome"]["event_id"] for one in results] == [one["event_id"] for one in given]
    for record, one in zip(world.published, given, strict=True):
        assert (record.topic, record.key) == (EVENTS.name, one["scope"].encode())
        assert record.partition == partition_of(one["scope"], 3)
        assert json.loads(record.value) == one


@pytest.mark.covers("B141", "B56")
async def test_a_route_that_names_a_scope_lets_no_token_into_that_of_another_tenant() -> None:
    world = World()
    async with client(world) as http:
        for scope in (BEN, "zeta", "acme", "acme/an", "acme/ana-2", "acme/anabel"):
            for path, body in bodies(scope).items():
                answer = await http.post(path, json=body)
                if path == PUBLISH:
                    [told] = [one["problem"] for one in answer.json()["results"]]
                else:
                    told = problem(answer)
                assert (told["status"], told["field"].rpartition(".")[2]) == (403, "scope")
                assert OF_BEN not in answer.text
    assert world.published == []
    assert world.counted("memsieve_api_foreign_scopes_total", token="ana") == 18
    assert world.counted("memsieve_api_requests_total", route=SEARCH, status="403") == 6


@pytest.mark.covers("B141")
async def test_a_foreign_event_is_refused_alone_and_a_foreign_id_is_unknown() -> None:
    world = World()
    async with client(world) as http:
        answer = await http.post(PUBLISH, json={"events": [said(ANA), said(BEN)]})
        own, foreign = answer.json()["results"]
        assert (own["status"], foreign["status"]) == (202, 403)
        assert foreign["problem"]["field"] == "events[1].scope"
        answers = [
            await http.post(DEDUPLICATE, json={"scope": ANA, "ids": [identity(1), other]})
            for other in (identity(3), identity(9), "no id at all")
        ]
    assert [record.key for record in world.published] == [ANA.encode()]
    assert [answer.status_code for answer in answers] == [404, 404, 404]
    told = [problem(answer)["detail"].rpartition(" the id ")[0] for answer in answers]
    assert len(set(told)) == 1  # that there is one elsewhere cannot be told


async def test_a_token_has_only_the_rights_it_was_given() -> None:
    allowed = {"reader": {SEARCH, DEDUPLICATE}, "writer": {PUBLISH}, "ana": set(bodies(ANA))}
    for holder, routes in allowed.items():
        world = World()
        async with client(world, holder) as http:
            for path, body in bodies(ANA).items():
                answer = await http.post(path, json=body)
                several = path == PUBLISH
                status = answer.json()["results"][0]["status"] if several else answer.status_code
                assert (status == 403) is (path not in routes), (holder, path)
        assert world.counted("memsieve_api_foreign_scopes_total", token=holder) == 0


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer token of nobody", "Basic token of ana", "token of ana"],
)
async def test_who_has_no_token_gets_nothing_wherever_it_asks(header: str | None) -> None:
    world = World()
    async with client(world, None) as http:
        headers = {} if header is None else {"authorization": header}
        for path in (*bodies(ANA), "/v1/", "/v1/other", "/metrics", "/v1/events/"):
            answer = await http.post(path, json=bodies(ANA).get(path, {}), headers=headers)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
            assert problem(answer)["field"] == "authorization"
    assert world.published == []


@pytest.mark.parametrize(
    ("path", "body", "field", "detail"),
    [
        (SEARCH, {"scope": ANA}, "query", "query is missing; add it"),
        (SEARCH, {"scope": "acme/*", "query": "x"}, "scope", "holds the wildcard *"),
        (SEARCH, {"scope": ANA, "query": "x", "limit": 0}, "limit", "greater than or equal to 1"),
        (SEARCH, {"scope": ANA, "query": "x", "limit": 101}, "limit", "less than or equal to 100"),
        (SEARCH, {"scope": ANA, "query": " "}, "query", "is empty or only white space"),
        (SEARCH, {"scope": ANA, "query": "x", "verify": "me"}, "verify", "should be 'built-in'"),
        (SEARCH, {"scope": ANA, "query": "x", "limits": 3}, "limits", "is not a known field"),
        (SEARCH, [], "body", "body should be an object, but it is a JSON array"),
        (DEDUPLICATE, {"scope": ANA}, "body", "give either ids or texts"),
        (
            DEDUPLICATE,
            {"scope": ANA, "ids": ["a"], "texts": ["b"]},
            "body",
            "give either ids or texts",
        ),
        (DEDUPLICATE, {"scope": ANA, "ids": ["a", "a"]}, "body", "names a memory twice"),
        (DEDUPLICATE, {"scope": ANA, "texts": [TEA] * 101}, "texts", "at most 100"),
        (PUBLISH, {"events": []}, "events", "at least 1"),
    ],
)
async def test_what_cannot_be_asked_is_told_in_one_line_that_names_the_field(
    path: str, body: Any, field: str, detail: str
) -> None:
    world = World()
    async with client(world) as http:
        answer = await http.post(path, json=body)
    assert answer.status_code == 422
    told = problem(answer)
    assert told["field"] == field
    assert detail in told["detail"]
    assert world.published == []


@pytest.mark.parametrize(
    ("given", "field", "detail"),
    [
        ({**said(ANA), "text": ""}, "events[0].text", "is empty"),
        ({}, "events[0].scope", "events[0].scope is missing; add"),
        ({**said(ANA), "kind": "undo"}, "events[0].kind", "'remember'"),
    ],
)
async def test_an_event_that_cannot_be_published_is_told_by_its_field(
    given: Any, field: str, detail: str
) -> None:
    world = World()
    async with client(world) as http:
        answer = await http.post(PUBLISH, json={"events": [given]})
    [result] = answer.json()["results"]
    assert (result["status"], result["problem"]["field"]) == (422, field)
    assert detail in result["problem"]["detail"]
    assert world.published == []


async def test_what_is_no_json_is_told_by_its_place() -> None:
    async with client(World()) as http:
        deep, long = b"[" * 100_000, b"9" * 5_000
        for content in (b'{"scope": ', b"\xff\xfe", b"", deep, long):
            answer = await http.post(
                SEARCH, content=content, headers={"content-type": "application/json"}
            )
            assert (answer.status_code, problem(answer)["field"]) == (422, "body"), content
        wrong = await http.get(PUBLISH)
        assert problem(wrong)["status"] == 405
        assert problem(await http.post("/v1/nothing", json={}))["status"] == 404


async def test_a_body_is_no_longer_than_it_may_be_whether_its_length_is_told_or_not() -> None:
    world = World(body_bytes_max=2_000)
    long = json.dumps({"events": [said(ANA, "tea " * 600)]}).encode()

    async def in_parts() -> AsyncGenerator[bytes]:
        for at in range(0, len(long), 500):
            yield long[at : at + 500]

    async with client(world) as http:
        for content in (long, in_parts()):
            answer = await http.post(PUBLISH, content=content)
            assert answer.status_code == 413
            assert problem(answer)["field"] == "body"
    assert world.published == []


async def test_a_token_may_ask_so_often_in_a_minute() -> None:
    world = World(requests_per_minute=2)
    body = bodies(ANA)[SEARCH]
    async with client(world) as http:
        statuses = [(await http.post(SEARCH, json=body)).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        refused = await http.post(SEARCH, json=body)
        assert refused.headers["retry-after"] == "1"
        assert "more than 2 requests" in problem(refused)["detail"]
        reader = {"authorization": "Bearer token of reader"}
        assert (await http.post(SEARCH, json=body, headers=reader)).status_code == 200
        world.clock.move(30)
        assert (await http.post(SEARCH, json=body)).status_code == 200


async def test_so_many_requests_are_worked_on_at_once_and_so_many_wait() -> None:
    world = World(concurrency_max=2, waiting_max=1)
    async with client(world) as http:
        world.held.clear()
        body = bodies(ANA)[SEARCH]
        waiting = [asyncio.create_task(http.post(SEARCH, json=body)) for _ in range(2)]
        for _ in waiting:
            await world.entered.acquire()
        two_more = [asyncio.create_task(http.post(SEARCH, json=body)) for _ in range(2)]
        done, still = await asyncio.wait(two_more, return_when=asyncio.FIRST_COMPLETED)
        refused = done.pop().result()
        assert refused.status_code == 503
        assert problem(refused)["detail"].startswith("too many requests wait (api.waiting_max)")
        assert refused.headers["retry-after"] == "1"
        assert world.entered.locked()  # the other waits, and has not begun
        waiting += still
        world.held.set()
        assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [200] * 3
        assert (await http.post(SEARCH, json=body)).status_code == 200


@pytest.mark.parametrize(
    ("trouble", "status", "level", "detail"),
    [
        (
            Unreachable("http://qdrant:6333 does not answer"),
            503,
            logging.WARNING,
            "a server is down; send it again",
        ),
        (
            NoStore("/var/store is damaged"),
            503,
            logging.ERROR,
            "the service cannot work; its log says why",
        ),
        (
            ValueError(OF_BEN),
            500,
            logging.ERROR,
            "an internal error in memsieve; please report it",
        ),
    ],
)
async def test_a_failure_tells_the_log_why_and_the_caller_only_what_to_do(
    trouble: Exception, status: int, level: int, detail: str
) -> None:
    world = World()
    world.trouble = trouble
    async with client(world) as http:
        answer = await http.post(SEARCH, json=bodies(ANA)[SEARCH])
    assert (answer.status_code, problem(answer)["detail"]) == (status, detail)
    told = [(line["level"], line.get("reason") or line.get("error")) for line in world.log]
    assert (level, "ValueError" if status == 500 else str(trouble)) in told


@pytest.mark.covers("B139")
async def test_the_log_has_a_line_for_each_request_and_no_text_of_any() -> None:
    world = World()
    async with client(world) as http:
        for path, body in bodies(ANA).items():
            await http.post(path, json=body)
        await http.post(SEARCH, json=bodies(BEN)[SEARCH])
        await http.post("/v1/with a secret in it", json={})
    answered = [line for line in world.log if line["line"] == "answered"]
    assert [(line["route"], line["status"], line["token"]) for line in answered] == [
        (SEARCH, 200, "ana"),
        (DEDUPLICATE, 200, "ana"),
        (PUBLISH, 202, "ana"),
        (SEARCH, 403, "ana"),
        ("other", 404, "ana"),
    ]
    everything = json.dumps(world.log)
    assert not any(word in everything for word in ("tea", "drinks", "secret", "locker", "token of"))


async def test_what_the_api_can_do_is_told_to_everybody_on_a_page_that_needs_nothing_else() -> None:
    async with client(World(), None) as http:
        described = (await http.get("/openapi.json")).json()
        page = (await http.get("/")).text
        assert (await http.get("/docs")).text == page
    assert described["info"]["title"] == "memsieve"
    assert all(path in page for path in described["paths"])
    assert "http" not in page
    searched = described["components"]["schemas"]["Search"]["properties"]
    assert {"scope", "query", "limit", "deduplicate", "threshold", "verify"} <= set(searched)
    assert "HTTPBearer" in described["components"]["securitySchemes"]


async def test_beside_a_cluster_it_is_told_what_is_not_decided_yet_and_what_is_not_done_here() -> (
    None
):
    world = World()
    async with client(world) as http:
        added = await http.post("/v1/memories", json={"scope": ANA, "text": TEA, "event_id": "1"})
        assert (added.status_code, added.json()["event_id"]) == (202, "1")
        assert added.json()["decision_id"] is None
        here = f"/v1/memories/{identity(1)}"
        asked = {"text": MUCH_TEA}
        assert (await http.patch(here, json=asked)).status_code == 202
        for path in (f"{here}/pin", f"{here}/unpin", f"{here}/retire"):
            assert (await http.post(path)).status_code == 202
        assert (await http.post(f"{here}/rate", json={"helpful": 1})).status_code == 202
        kinds = [json.loads(record.value)["kind"] for record in world.published]
        assert kinds == ["remember", "remember", "answer", "pin", "pin", "retire", "rate"]
        for method, path in (
            ("GET", f"{here}/history"),
            ("POST", f"{here}/forget"),
            ("GET", f"/v1/decisions?scope={ANA}"),
            ("GET", "/v1/decisions/1"),
            ("POST", "/v1/decisions/1/undo"),
            ("GET", f"/v1/reviews?scope={ANA}"),
        ):
            told = problem(await http.request(method, path))
            assert told["status"] == 501, path
            assert "use the command of memsieve with --kafka" in told["detail"]
        for name in (identity(1)[:8], "home"):
            told = problem(await http.get(f"/v1/memories/{name}"))
            assert (told["status"], told["field"]) == (404, "memory_id")
            assert told["detail"].endswith("; beside a cluster give the whole id")
    assert len(world.published) == len(kinds)
