"""The whole life of a memory over HTTP, in process, over a real store of its own."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, get_args

import httpx
import pytest
from starlette.routing import Route

from schemas.decisions import KINDS, Insert
from schemas.topics import EVENTS
from streams.api.app.access import Access
from streams.api.app.application import build, described
from streams.api.app.guard import OPEN
from streams.api.app.records import Kind
from streams.clock.system import SystemClock
from streams.dead_letters.app import opened as opened_letters
from streams.memory.app.lifecycle import Lifecycle
from streams.memory.app.opening import open_lifecycle
from streams.model.ports.log import records
from streams.store.app import settings as configuration
from streams.store.app.product_settings import ApiSettings
from streams.store.app.reading import LogTarget, opened
from streams.store.app.settings import Settings
from streams.store.world.metrics import ApiMetrics
from tests.builders import event
from tests.support.servers.grants import grant, quiet
from tests.support.stage.asking import asking

SOONER, LATER = "2026-03-03T00:00:00Z", "2026-03-04T00:00:00Z"
ANA, BEN = "acme/ana", "zeta/ben"
ROME, OSLO, TEA = "Ana lives in Rome.", "Her home is Oslo by now.", "Ana likes tea."
BEES, HIVES = "Ben keeps bees on the roof.", "Ben keeps bees on her roof."
ADD, BATCH, LIST = "/v1/memories", "/v1/memories/batch", "/v1/memories"
SEARCH, RECALL = "/v1/memories/search", "/v1/memories/recall"
PUBLISH = "/v1/events"

Way: TypeAlias = tuple[str, str]
"""A method and a path as the API describes them."""


GRANTS = (
    grant("ana", ANA),
    grant("ben", BEN),
    grant("reader", BEN, rights=("read",)),
    grant("writer", BEN, rights=("write",)),
)


@dataclass(frozen=True)
class World:
    """An API over a store, asked by the holders of tokens."""

    settings: Settings
    life: Lifecycle
    http: httpx.AsyncClient
    metrics: ApiMetrics

    async def ask(
        self, method: str, path: str, body: object = None, *, holder: str = "ana"
    ) -> httpx.Response:
        headers = {"authorization": f"Bearer token of {holder}"}
        return await self.http.request(method, path, json=body, headers=headers)

    async def done(self, method: str, path: str, body: object = None, **who: str) -> dict[str, Any]:
        """Ask for what is allowed, and return the answer."""
        answer = await self.ask(method, path, body, **who)
        assert answer.is_success, answer.text
        return answer.json()

    async def add(self, text: str, scope: str = ANA, holder: str = "ana", **more: Any) -> Any:
        return await self.done("POST", ADD, {"scope": scope, "text": text, **more}, holder=holder)

    async def texts(self, scope: str = ANA, holder: str = "ana") -> list[str]:
        listed = await self.done("GET", f"{LIST}?scope={scope}", holder=holder)
        return [one["text"] for one in listed["memories"]]

    async def logged(self) -> int:
        """Return how many events are in the log."""
        async with opened(LogTarget.of_store(self.settings)) as log:
            return len([record async for record in records(log, EVENTS.name)])


@asynccontextmanager
async def serving(
    directory: Path, *, index: str = "exact", policy: str | None = None, **limits: Any
) -> AsyncGenerator[World]:
    """Serve by a policy that comes with memsieve, or else by the one that asks a person."""
    chosen = configuration.load(
        {
            "store": directory / "store",
            "policy": policy or str(asking(directory)),
            "embedder": {"model": "memsieve/hashing-ngrams-v1"},
            "index": {"kind": index},
        }
    )
    metrics = ApiMetrics()
    async with open_lifecycle(LogTarget.of_store(chosen), quiet) as life:
        app = build(life, Access(GRANTS), ApiSettings(**limits), metrics, SystemClock(), quiet)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://api") as http:
            yield World(chosen, life, http, metrics)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with serving(tmp_path) as made:
        yield made


def problem(answer: httpx.Response) -> dict[str, Any]:
    """Return an error, which is one line of its own kind."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert "\n" not in answer.text
    told = answer.json()
    assert told["status"] == answer.status_code
    assert {"type", "title", "status", "detail"} <= set(told) <= {*told, "field"}
    return told


async def test_a_memory_is_added_found_explained_updated_told_undone_and_forgotten(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, index="edge") as world:
        await _a_whole_life(world)


async def _a_whole_life(world: World) -> None:
    added = await world.add(ROME, memory_id=None)
    assert (added["kind"], added["why"]) == ("insert", "no memory of this scope is similar")
    rome = added["memory_id"]
    found = await world.done("POST", SEARCH, {"scope": ANA, "query": "Rome"})
    assert [entry["text"] for entry in found["entries"]] == [ROME]
    told = await world.done("GET", f"/v1/decisions/{added['decision_id']}")
    assert told["text"] == ROME
    assert f'it says    "{ROME}"' in told["story"]

    changes = (await world.done("PATCH", f"{LIST}/{rome}", {"text": OSLO}))["decisions"]
    oslo = changes[0]["memory_id"]
    assert await world.texts() == [OSLO]
    old = await world.done("GET", f"{LIST}/{rome}")
    assert (old["text"], old["superseded"]["by"]) == (ROME, oslo)
    life = await world.done("GET", f"{LIST}/{oslo}/history")
    assert [one["memory"]["id"] for one in life["ancestors"]] == [rome]
    assert life["versions"][-1]["why"] == "ana asked for this update"

    undone = await world.done("POST", f"/v1/decisions/{changes[0]['decision_id']}/undo")
    assert undone["undone"] == [one["decision_id"] for one in changes]
    assert await world.texts() == [ROME]

    gone = await world.done("POST", f"{LIST}/{rome}/forget", {"note": "she asked for it"})
    assert rome in gone["memory_ids"]
    assert await world.texts() == []
    assert problem(await world.ask("GET", f"{LIST}/{rome}"))["status"] == 410
    assert (await world.add(ROME))["kind"] == "block"
    again = await world.done("POST", f"{LIST}/{rome}/forget")
    assert (again["memory_ids"], again["decisions"]) == ([], [])


async def test_an_event_needs_neither_id_nor_time_and_with_one_of_its_own_comes_once(
    world: World,
) -> None:
    first, second = [await world.add(TEA) for _ in range(2)]
    assert first["event_id"] != second["event_id"]
    assert [first["kind"], second["kind"]] == ["insert", "reinforce"]
    given = {"event_id": "mine", "occurred_at": "2026-03-03T09:00:00Z"}
    third, again = [await world.add(ROME, **given) for _ in range(2)]
    assert (third["event_id"], third["repeated"], again["repeated"]) == ("mine", False, True)
    assert {**third, "repeated": True} == again
    timed = [await world.add(OSLO, occurred_at="2026-03-03T09:00:00Z") for _ in range(2)]
    assert [one["repeated"] for one in timed] == [False, True]  # the same said at the same time


async def test_a_memory_and_a_decision_are_named_by_other_ids_than_their_own_in_the_own_scopes(
    world: World,
) -> None:
    for holder, scope in (("ben", BEN), ("ana", ANA)):
        added = await world.add(ROME, scope, holder, event_id="e1", memory_id="home")
    identity, decision = added["memory_id"], added["decision_id"]
    await world.done("POST", f"{LIST}/home/rate", {"helpful": 1})
    for name in (identity, identity[:8], "home", "e1"):
        assert (await world.done("GET", f"{LIST}/{name}"))["id"] == identity
        told = await world.done("GET", f"{LIST}/{name}/history")
        assert [one["kind"] for one in told["versions"]] == ["insert", "revise"]
    for name in (decision, decision[:8], "e1"):
        assert (await world.done("GET", f"/v1/decisions/{name}"))["decision_id"] == decision
    for name in (decision, "e1", identity, "home"):
        story = (await world.done("GET", f"/v1/explain/{name}"))["story"]
        assert f'it says    "{ROME}"' in story
    assert (await world.done("POST", "/v1/decisions/e1/undo"))["undone"][0] == decision
    assert await world.texts() == []
    assert await world.texts(BEN, "ben") == [ROME]


async def test_an_id_that_means_two_memories_is_told_with_both(world: World) -> None:
    ids = [(await world.add(ROME, f"{ANA}/{place}", event_id="e1"))["memory_id"] for place in "ab"]
    told = problem(await world.ask("GET", f"{LIST}/e1"))
    assert (told["status"], told["field"]) == (422, "memory_id")
    named = f"{ids[0]} of {ANA}/a, {ids[1]} of {ANA}/b"
    assert told["detail"] == f"e1 names 2 memories; give its scope as well, or an id: {named}"
    assert problem(await world.ask("GET", "/v1/decisions/e1"))["status"] == 422
    a, b = f"?scope={ANA}/a", f"?scope={ANA}/b"
    assert (await world.done("GET", f"{LIST}/e1{b}"))["id"] == ids[1]
    assert (await world.done("GET", f"{LIST}/e1/history{a}"))["memory"]["id"] == ids[0]
    assert f"scope      {ANA}/b" in (await world.done("GET", f"/v1/explain/e1{b}"))["story"]
    [pinned] = (await world.done("POST", f"{LIST}/e1/pin{b}"))["decisions"]
    assert pinned["changed"] == [ids[1]]
    for name in ("e1", ids[0]):
        assert problem(await world.ask("GET", f"{LIST}/{name}?scope={BEN}"))["status"] == 404
    assert problem(await world.ask("GET", f"{LIST}/{ids[0]}{b}"))["status"] == 404
    gone = await world.done("POST", f"{LIST}/e1/forget{a}")
    assert gone["memory_ids"] == [ids[0]]


async def test_an_id_that_was_used_for_another_text_is_a_conflict_and_leaves_nothing(
    world: World,
) -> None:
    await world.add(ROME, event_id="1")
    answer = await world.ask("POST", ADD, {"scope": ANA, "text": TEA, "event_id": "1"})
    told = problem(answer)
    assert (told["status"], told["field"]) == (409, "event_id")
    assert told["detail"].endswith("for another text; give this event its own id")
    many = {"events": [{"scope": ANA, "text": text, "event_id": "1"} for text in (ROME, TEA)]}
    published = (await world.done("POST", PUBLISH, many))["results"]
    assert [one["status"] for one in published] == [200, 409]
    assert published[0]["outcome"]["repeated"]
    assert published[1]["problem"]["field"] == "events[1].event_id"
    assert await world.texts() == [ROME]
    async with opened_letters(LogTarget.of_store(world.settings)) as letters:
        assert await letters.all() == []


async def test_an_id_of_what_was_forgotten_is_a_conflict_that_the_owner_finds(
    world: World,
) -> None:
    nameless: dict[str, Any] = {"event_id": "1", "memory_id": None}
    added = await world.add(ROME, **nameless)
    await world.done("POST", f"{LIST}/{added['memory_id']}/forget")
    answer = await world.ask("POST", ADD, {"scope": ANA, "text": "Ben has a dog.", **nameless})
    assert (problem(answer)["status"], problem(answer)["field"]) == (409, "event_id")


@pytest.mark.parametrize(("path", "field"), [(BATCH, "memories"), (PUBLISH, "events")])
async def test_of_many_each_has_a_status_of_its_own(world: World, path: str, field: str) -> None:
    await world.add(ROME, event_id="1")
    given = [
        {"scope": ANA, "text": TEA},
        {"scope": ANA},
        {"scope": BEN, "text": TEA},
        {"scope": ANA, "text": OSLO, "event_id": "1"},
        "no object",
        {"scope": ANA, "text": OSLO, "occurred_at": "9999-01-01T00:00:00Z"},
        {"scope": ANA, "text": OSLO, "event_id": "2"},
        {"scope": ANA, "text": TEA, "event_id": "2"},
    ]
    results = (await world.done("POST", path, {field: given}))["results"]
    assert [one["status"] for one in results] == [200, 422, 403, 409, 422, 422, 200, 409]
    assert [one["problem"] and one["problem"]["field"] for one in results] == [
        None,
        f"{field}[1].text",
        f"{field}[2].scope",
        f"{field}[3].event_id",
        f"{field}[4]",
        f"{field}[5].occurred_at",
        None,
        f"{field}[7].event_id",
    ]
    assert results[1]["problem"]["detail"] == f"{field}[1].text is missing; add it"
    assert await world.texts() == [ROME, TEA, OSLO]
    assert await world.texts(BEN, "ben") == []


async def test_a_scope_is_listed_part_by_part_and_retired_ones_where_they_are_wanted(
    world: World,
) -> None:
    ids = [(await world.add(text))["memory_id"] for text in (ROME, OSLO, TEA)]
    await world.done("POST", f"{LIST}/{ids[1]}/retire", {"reason": "unused", "note": "moved"})
    assert await world.texts() == [ROME, TEA]
    seen, path = list[str](), f"{LIST}?scope={ANA}&limit=1&retired=true"
    after: str | None = ""
    while after is not None:
        part = await world.done("GET", path + (f"&after={after}" if after else ""))
        seen += [one["id"] for one in part["memories"]]
        after = part["after"]
    assert seen == ids


async def test_a_list_is_of_one_scope_or_of_those_below_or_of_all_of_the_token(
    world: World,
) -> None:
    await world.add(HIVES, BEN, "ben")
    for scope, text in ((ANA, TEA), (f"{ANA}/home", ROME), (f"{ANA}/home/old", OSLO)):
        await world.add(text, scope)
    for query, texts in (
        (f"?scope={ANA}", [TEA]),
        (f"?scope={ANA}&across=true", [TEA, ROME, OSLO]),
        (f"?scope={ANA}/home&across=true", [ROME, OSLO]),
        ("", [TEA, ROME, OSLO]),
    ):
        listed = await world.done("GET", f"{LIST}{query}")
        assert [one["text"] for one in listed["memories"]] == texts, query
        assert listed["hint"] is None


async def test_where_nothing_is_found_a_hint_names_scopes_of_the_token_alone(world: World) -> None:
    await world.add(HIVES, BEN, "ben")
    await world.add(TEA, f"{ANA}/home")
    said = f"scope {ANA} has no memories; others have: {ANA}/home"
    assert (await world.done("GET", f"{LIST}?scope={ANA}"))["hint"] == said
    assert (await world.done("POST", SEARCH, {"scope": ANA, "query": "tea"}))["hint"] == said
    below = await world.done("POST", SEARCH, {"scope": f"{ANA}/home", "query": "tea"})
    assert (len(below["entries"]), below["hint"]) == (1, None)


async def test_what_is_pinned_stays_until_it_is_unpinned(world: World) -> None:
    identity = (await world.add(ROME))["memory_id"]
    here = f"{LIST}/{identity}"
    await world.done("POST", f"{here}/pin", {"note": "for good"})
    assert (await world.done("GET", here))["pinned"]
    for method, path, body in (
        ("POST", f"{here}/retire", None),
        ("PATCH", here, {"text": OSLO}),
    ):
        refused = problem(await world.ask(method, path, body))
        assert (refused["status"], refused["field"]) == (409, "memory_id")
        assert refused["detail"].endswith("is pinned; unpin it first")
    await world.done("POST", f"{here}/unpin")
    await world.done("POST", f"{here}/retire")
    assert await world.texts() == []
    gone = problem(await world.ask("POST", f"{here}/pin"))
    assert gone["detail"].endswith("ended: invalid; undo its retirement first")


async def test_what_a_memory_was_good_for_adds_up_as_long_as_it_is_live(world: World) -> None:
    identity = (await world.add(ROME))["memory_id"]
    rate = f"{LIST}/{identity}/rate"
    await world.done("POST", f"{LIST}/{identity}/pin")
    for counts in ({"helpful": 2}, {"helpful": 1, "accessed": 4, "note": "for a letter"}):
        [decision] = (await world.done("POST", rate, counts))["decisions"]
        assert (decision["kind"], decision["memory_id"]) == ("revise", identity)
    feedback = (await world.done("GET", f"{LIST}/{identity}"))["feedback"]
    assert feedback == {"accessed": 4, "helpful": 3, "harmful": 0}
    await world.done("POST", f"{LIST}/{identity}/unpin")
    await world.done("POST", f"{LIST}/{identity}/retire")
    late = problem(await world.ask("POST", rate, {"harmful": 1}))
    assert (late["status"], late["field"]) == (409, "memory_id")


async def test_the_newest_decisions_on_a_scope_come_first_part_by_part(world: World) -> None:
    """Between them lie more of another scope than are read at once."""
    first = await world.add(ROME, event_id="1")
    others = [{"scope": f"{ANA}/work", "text": f"Box {at}."} for at in range(512)]
    for at in range(0, len(others), 256):
        await world.done("POST", BATCH, {"memories": others[at : at + 256]})
    second = await world.add(TEA)
    await world.add(ROME, event_id="1")  # a repeat, which is decided on as well
    here = f"/v1/decisions?scope={ANA}"
    told = (await world.done("GET", here))["decisions"]
    assert [one["kind"] for one in told] == ["ignore", "insert", "insert"]
    assert [one["repeated"] for one in told] == [True, False, False]
    assert [one["text"] for one in told] == [ROME, TEA, ROME]
    assert {name: told[2][name] for name in first} == first

    seen, after = list[str](), ""
    while after is not None:
        part = await world.done("GET", f"{here}&limit=1&kind=insert{after}")
        seen += [one["decision_id"] for one in part["decisions"]]
        after = None if part["after"] is None else f"&after={part['after']}"
    assert seen == [second["decision_id"], first["decision_id"]]
    assert (await world.done("GET", f"{here}&after={10**15}"))["decisions"] == told
    for none in ("kind=merge", "after=0"):
        empty = await world.done("GET", f"{here}&{none}")
        assert (empty["decisions"], empty["after"]) == ([], None)


def test_the_kinds_to_list_are_those_that_lie_with_a_scope() -> None:
    assert {*get_args(Kind)} == {*KINDS} - {"reject", "forward"}


async def test_an_update_keeps_what_it_does_not_name_and_may_be_sent_again(world: World) -> None:
    kept: dict[str, Any] = {"category": "home", "tags": ["city"], "importance": 0.5}
    added = await world.add(ROME, **kept)
    here = f"{LIST}/{added['memory_id']}"
    correction = {"text": OSLO, "importance": 0.9, "event_id": "moved"}
    [first, again] = [await world.done("PATCH", here, correction) for _ in range(2)]
    assert [one["repeated"] for one in first["decisions"]] == [False]
    assert [one["repeated"] for one in again["decisions"]] == [True]
    new = await world.done("GET", here)
    assert (new["text"], new["category"], new["tags"]) == (OSLO, "home", ["city"])
    assert (new["importance"], new["observation_count"]) == (0.9, 1)


async def test_an_update_that_is_dated_before_the_memory_was_seen_still_takes_its_place(
    world: World,
) -> None:
    rome = (await world.add(ROME, occurred_at=LATER))["memory_id"]
    correction = {"text": OSLO, "occurred_at": SOONER}
    changes = await world.done("PATCH", f"{LIST}/{rome}", correction)
    assert [one["kind"] for one in changes["decisions"]] == ["insert", "replace"]
    assert await world.texts() == [OSLO]


async def test_an_update_replaces_a_memory_that_has_no_name(world: World) -> None:
    kept: dict[str, Any] = {"category": "home", "tags": ["city"], "importance": 0.5}
    added = await world.add(ROME, memory_id=None, **kept)
    here = f"{LIST}/{added['memory_id']}"
    correction = {"text": OSLO, "importance": 0.9, "event_id": "moved"}
    [first, again] = [await world.done("PATCH", here, correction) for _ in range(2)]
    assert [one["repeated"] for one in first["decisions"]] == [False, False]
    assert [one["repeated"] for one in again["decisions"]] == [True, True]
    new = await world.done("GET", f"{LIST}/{first['decisions'][0]['memory_id']}")
    assert (new["category"], new["tags"], new["importance"]) == ("home", ["city"], 0.9)
    assert new["observation_count"] == 1
    late = problem(await world.ask("PATCH", here, {"text": TEA}))
    assert late["detail"].endswith(f"ask for {new['id']} instead")


async def test_an_update_to_what_is_known_already_leaves_one_memory(world: World) -> None:
    rome, tea = [(await world.add(text, memory_id=None))["memory_id"] for text in (ROME, TEA)]
    changes = await world.done("PATCH", f"{LIST}/{rome}", {"text": TEA})
    assert [one["kind"] for one in changes["decisions"]] == ["reinforce", "replace"]
    assert (await world.done("GET", f"{LIST}/{rome}"))["superseded"]["by"] == tea
    same = problem(await world.ask("PATCH", f"{LIST}/{tea}", {"text": TEA}))
    assert same["detail"] == f"text: memory {tea} says this already; nothing was changed"


async def test_an_update_of_a_named_memory_to_what_is_known_already_leaves_that_one(
    world: World,
) -> None:
    rome, tea = [(await world.add(text, BEN, "ben"))["memory_id"] for text in (ROME, TEA)]
    here = f"{LIST}/{rome}"
    changes = await world.done("PATCH", here, {"text": TEA}, holder="ben")
    effects = [one["effect"] for one in changes["decisions"]]
    assert effects == [f"memory {rome} now says this", f"memory {rome} replaces {tea}"]
    assert await world.texts(BEN, "ben") == [TEA]
    first = changes["decisions"][0]["decision_id"]
    await world.done("POST", f"/v1/decisions/{first}/undo", holder="ben")
    back = [await world.done("GET", f"{LIST}/{one}", holder="ben") for one in (rome, tea)]
    assert [(one["text"], one["status"]) for one in back] == [(ROME, "active"), (TEA, "active")]


async def test_a_question_is_listed_and_answered_once(world: World) -> None:
    for text in (BEES, HIVES):
        await world.add(text, BEN, "ben")
    [question] = (await world.done("GET", f"/v1/reviews?scope={BEN}", holder="ben"))["reviews"]
    assert question["newer"]["text"] == HIVES
    path = f"/v1/reviews/{question['id']}/answer"
    await world.done("POST", path, {"verdict": "same"}, holder="ben")
    assert await world.texts(BEN, "ben") == [BEES]
    late = problem(await world.ask("POST", path, {"verdict": "same"}, holder="ben"))
    assert (late["status"], late["field"]) == (409, "review_id")
    every = f"/v1/reviews?scope={BEN}&every=true"
    [told] = (await world.done("GET", every, holder="ben"))["reviews"]
    assert (told["state"], told["answered_by"], told["verdict"]) == ("answered", "ben", "same")
    open_ = await world.done("GET", f"/v1/reviews?scope={BEN}", holder="ben")
    assert open_["reviews"] == []


async def test_an_answer_that_is_undone_leaves_its_question_open_to_be_answered_again(
    world: World,
) -> None:
    await world.add(BEES, BEN, "ben", event_id="b1")
    added = await world.add(HIVES, BEN, "ben", event_id="b2")
    path = f"/v1/reviews/{added['reviews'][0]}/answer"
    reviews = f"/v1/reviews?scope={BEN}"
    for _ in range(2):
        answered = await world.done("POST", path, {"verdict": "same"}, holder="ben")
        [decision] = answered["decisions"]
        assert (decision["kind"], decision["repeated"]) == ("replace", False)
        assert (await world.done("GET", reviews, holder="ben"))["reviews"] == []
        await world.done("POST", f"/v1/decisions/{decision['decision_id']}/undo", holder="ben")
        [question] = (await world.done("GET", reviews, holder="ben"))["reviews"]
        assert (question["state"], question["verdict"]) == ("open", None)
        assert await world.texts(BEN, "ben") == [BEES, HIVES]


async def test_that_two_are_distinct_can_be_corrected_and_nothing_else(world: World) -> None:
    await world.add(BEES, BEN, "ben", event_id="b1")
    added = await world.add(HIVES, BEN, "ben", event_id="b2")
    path = f"/v1/reviews/{added['reviews'][0]}/answer"
    for verdict in ("distinct", "same"):
        assert (await world.ask("POST", path, {"verdict": verdict}, holder="ben")).is_success
    refused = await world.ask("POST", path, {"verdict": "distinct"}, holder="ben")
    assert problem(refused)["status"] == 409
    assert await world.texts(BEN, "ben") == [BEES]


async def test_what_was_undone_cannot_be_undone_again_but_its_undo_can(world: World) -> None:
    added = await world.add(ROME)
    path = f"/v1/decisions/{added['decision_id']}/undo"
    undone = await world.done("POST", path)
    assert await world.texts() == []
    again = problem(await world.ask("POST", path))
    assert (again["status"], again["field"]) == (409, "decision_id")
    assert "is undone already" in again["detail"]
    await world.done("POST", f"/v1/decisions/{undone['decisions'][0]['decision_id']}/undo")
    assert await world.texts() == [ROME]


async def test_a_block_for_a_prompt_is_recalled_within_its_budget(world: World) -> None:
    await world.add(ROME)
    block = await world.done("POST", RECALL, {"scope": ANA, "query": "Rome"})
    assert block["block"].split("\n") == [f"Memory of {ANA}", f"- {ROME}"]
    small = problem(await world.ask("POST", RECALL, {"scope": ANA, "budget": 1}))
    assert (small["status"], small["field"]) == (422, "budget")
    patterns = problem(await world.ask("POST", RECALL, {"scope": ANA, "patterns": True}))
    assert patterns["detail"] == "patterns goes with across, and without query"


async def test_a_recall_where_nothing_is_kept_names_scopes_of_the_token_alone(
    world: World,
) -> None:
    await world.add(ROME, f"{ANA}/home")
    await world.add(BEES, f"{BEN}/home", "ben")
    for scope, holder in ((f"{ANA}/hom", "ana"), (f"{BEN}/hom", "ben")):
        block = await world.done("POST", RECALL, {"scope": scope}, holder=holder)
        assert block["block"] == "No memories yet."
        assert block["hint"] == f"scope {scope} has no memories; others have: {scope}e"
    known = await world.done("POST", RECALL, {"scope": f"{ANA}/home"})
    assert known["hint"] is None


async def test_thirty_two_writers_at_once_are_all_answered_and_decided_on_together(
    world: World,
) -> None:
    texts = [f"Room {number} has the colour {number * 7919}." for number in range(64)]
    await asyncio.gather(*(_write(world, texts[at::32]) for at in range(32)))
    assert sorted(await world.texts()) == sorted(texts)


async def _write(world: World, texts: list[str]) -> None:
    for text in texts:
        await world.add(text)


async def test_beyond_the_bound_a_writer_is_told_when_to_come_back(tmp_path: Path) -> None:
    async with serving(tmp_path, concurrency_max=1, waiting_max=2) as world:
        bodies = [{"scope": ANA, "text": f"Room {number}."} for number in range(8)]
        answers = await asyncio.gather(*(world.ask("POST", ADD, body) for body in bodies))
        refused = [answer for answer in answers if answer.status_code == 503]
        assert len(refused) == 5
        assert {answer.headers["retry-after"] for answer in refused} == {"1"}
        assert {problem(answer)["detail"].split(";")[0] for answer in refused} == {
            "too many requests wait (api.waiting_max)"
        }
        assert len(await world.texts()) == 3


async def test_who_stops_waiting_takes_no_decision_along(world: World) -> None:
    said = [event(text, scope=ANA) for text in (ROME, TEA)]
    asked = [asyncio.create_task(world.life.deciding.decide([one])) for one in said]
    await asyncio.sleep(0)  # both wait by now
    asked[0].cancel()
    [told] = await asked[1]
    assert isinstance(told.decision, Insert)
    assert set(await world.texts()) == {ROME, TEA}


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json"])
async def test_what_the_api_can_do_is_open_to_everybody_and_nothing_else(
    world: World, path: str
) -> None:
    assert (await world.http.get(path)).is_success
    for method, route in routes():
        assert (await world.http.request(method, route)).status_code == 401, route


@dataclass(frozen=True)
class Held:
    """What there is of one scope: ids that a request may name."""

    memory: str
    other: str
    decision: str
    review: str


Attempt: TypeAlias = Callable[[Held], object]


def _scoped(**more: object) -> Attempt:
    return lambda _: {"scope": BEN, **more}


def _nothing(_: Held) -> None:
    return None


ATTEMPTS: Mapping[Way, Attempt] = {
    ("POST", ADD): _scoped(text=TEA),
    ("POST", BATCH): lambda _: {"memories": [{"scope": BEN, "text": TEA}]},
    ("POST", PUBLISH): lambda _: {"events": [{"scope": BEN, "text": TEA}]},
    ("GET", LIST): _nothing,
    ("POST", SEARCH): _scoped(query="bees"),
    ("POST", RECALL): _scoped(query="bees"),
    ("POST", "/v1/memories:deduplicate"): lambda held: {"scope": BEN, "ids": [held.memory]},
    ("GET", "/v1/memories/{memory_id}"): _nothing,
    ("GET", "/v1/memories/{memory_id}/history"): _nothing,
    ("PATCH", "/v1/memories/{memory_id}"): lambda _: {"text": TEA},
    ("POST", "/v1/memories/{memory_id}/pin"): _nothing,
    ("POST", "/v1/memories/{memory_id}/unpin"): _nothing,
    ("POST", "/v1/memories/{memory_id}/retire"): _nothing,
    ("POST", "/v1/memories/{memory_id}/distinct"): lambda held: {"other_id": held.other},
    ("POST", "/v1/memories/{memory_id}/rate"): lambda _: {"helpful": 1},
    ("POST", "/v1/memories/{memory_id}/forget"): _nothing,
    ("GET", "/v1/decisions"): _nothing,
    ("GET", "/v1/decisions/{decision_id}"): _nothing,
    ("POST", "/v1/decisions/{decision_id}/undo"): _nothing,
    ("GET", "/v1/explain/{id}"): _nothing,
    ("GET", "/v1/reviews"): _nothing,
    ("POST", "/v1/reviews/{review_id}/answer"): lambda _: {"verdict": "same"},
}
"""How somebody tries to get at what is of a scope, by every route there is."""

EACH = {("POST", BATCH), ("POST", PUBLISH)}
"""What answers with a status for each of several."""

READING = {"search", "recall", "history", "deduplicate"}
"""What ends so reads, though it is posted."""


def routes() -> list[Way]:
    """Return every route that is described; built over nothing, for none is asked."""
    return sorted(ATTEMPTS)


def path_of(route: Way, held: Held) -> str:
    """Return where a request goes; a list names its scope there."""
    ids = {"memory_id": held.memory, "decision_id": held.decision, "review_id": held.review}
    path = route[1].format(**ids, id=held.memory)
    return f"{path}?scope={BEN}" if route[0] == "GET" and "{" not in route[1] else path


def writes(route: Way) -> bool:
    return route[0] != "GET" and route[1].replace(":", "/").rpartition("/")[2] not in READING


async def bens(world: World) -> Held:
    added = [await world.add(text, BEN, "ben") for text in (BEES, HIVES)]
    [review] = added[1]["reviews"]
    first, second = (one["memory_id"] for one in added)
    return Held(first, second, added[0]["decision_id"], review)


async def test_every_route_is_tried_for_a_hole_in_its_wall(world: World) -> None:
    app = described(world.life, world.metrics, quiet)
    every = [
        (method, route.path)
        for route in app.routes
        if isinstance(route, Route) and route.path not in OPEN
        for method in route.methods or ()
        if method != "HEAD"
    ]
    assert sorted(every) == routes(), "a route is new: let ATTEMPTS try it"


@pytest.mark.covers("B141", "B56")
@pytest.mark.parametrize("route", routes(), ids=" ".join)
async def test_a_token_of_one_scope_sees_and_changes_nothing_of_another(
    world: World, route: Way
) -> None:
    held = await bens(world)
    path, body = path_of(route, held), ATTEMPTS[route](held)
    if path.endswith("/unpin"):
        await world.done("POST", f"{LIST}/{held.memory}/pin", holder="ben")
    before = await world.logged()
    answer = await world.ask(route[0], path, body, holder="ana")
    if route in EACH:
        assert [one["status"] for one in answer.json()["results"]] == [403]
    else:
        assert problem(answer)["status"] in {403, 404}
    assert BEES not in answer.text
    assert HIVES not in answer.text
    assert await world.logged() == before
    counted = {"token": "ana"}
    foreign = world.metrics.registry.get_sample_value("memsieve_api_foreign_scopes_total", counted)
    assert foreign == 1
    if "{" in route[1]:  # that it is there cannot be told
        nobody = path_of(route, Held("none", "none", "none", "none"))
        unknown = await world.ask(route[0], nobody, body, holder="ana")
        assert problem(unknown)["status"] == problem(answer)["status"] == 404
        known = problem(answer)["detail"]
        for identity in (held.memory, held.other, held.decision, held.review):
            known = known.replace(identity, "none")
        assert problem(unknown)["detail"] == known
    assert (await world.ask(route[0], path, body, holder="ben")).is_success


@pytest.mark.parametrize("route", routes(), ids=" ".join)
async def test_a_token_that_may_only_read_or_write_does_only_that(world: World, route: Way) -> None:
    held = await bens(world)
    path, body = path_of(route, held), ATTEMPTS[route](held)
    lacking = "reader" if writes(route) else "writer"
    before = await world.logged()
    answer = await world.ask(route[0], path, body, holder=lacking)
    if route in EACH:
        assert [one["status"] for one in answer.json()["results"]] == [403]
    else:
        told = problem(answer)
        assert told["status"] == 403
        may = "read" if writes(route) else "write"
        assert told["detail"].endswith(f"this scope; it may {may} {BEN}")
    assert await world.logged() == before


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field", "detail"),
    [
        ("POST", ADD, {"scope": ANA}, 422, "text", "text is missing; add it"),
        ("POST", ADD, {"scope": "a//b", "text": "x"}, 422, "scope", "write tenant/part/"),
        ("POST", ADD, {"scope": ANA, "text": "x", "note": 1}, 422, "note", "is not a known field"),
        (
            *("POST", ADD, {"scope": ANA, "text": "x", "occurred_at": "2026-03-03"}, 422),
            *("occurred_at", "should be a date and time, such as 2026-03-14T09:30:00Z"),
        ),
        (
            *("POST", ADD, {"scope": ANA, "text": "x", "occurred_at": "2026-03-03T09:00:00"}, 422),
            *("occurred_at", "has no time zone; write 2026-03-14T09:30:00Z"),
        ),
        (
            *("POST", ADD, {"scope": ANA, "text": "x", "occurred_at": "9999-01-01T00:00:00Z"}),
            *(
                422,
                "occurred_at",
                "in the future; give the time at which it was observed, or leave it out",
            ),
        ),
        ("POST", BATCH, {"memories": []}, 422, "memories", "memories should have at least 1 item"),
        (
            *("POST", ADD, {"scope": ANA, "text": "x", "tags": "tea"}, 422),
            *("tags", "tags should be a list, but it is text of 3 characters"),
        ),
        (
            *("POST", ADD, {"scope": ANA, "text": "x", "valid_from": LATER, "valid_until": SOONER}),
            *(422, "body", "valid_until 2026-03-03 00:00:00+00:00 is before valid_from"),
        ),
        (
            "GET",
            f"{LIST}?limit=0",
            None,
            422,
            "limit",
            "limit should be greater than or equal to 1",
        ),
        (
            "GET",
            f"{LIST}?scope={ANA}&limit=0",
            None,
            422,
            "limit",
            "should be greater than or equal to 1, but it is 0",
        ),
        (
            "GET",
            f"{LIST}?scope={ANA}&after=x",
            None,
            422,
            "after",
            "after is not a place in this list; give `after` of",
        ),
        ("GET", f"{LIST}?scope={ANA}&page=2", None, 422, "page", "is not a known field"),
        ("GET", f"{LIST}/none", None, 404, "memory_id", "no memory in your scopes has the id none"),
        ("PATCH", f"{LIST}/none", {"text": "x"}, 404, "memory_id", "has the id none"),
        ("POST", "/v1/decisions/none/undo", None, 404, "decision_id", "has the id none"),
        ("POST", "/v1/reviews/none/answer", {"verdict": "no"}, 422, "verdict", "should be 'same'"),
        (
            *("POST", f"{LIST}/none/rate", {"note": "x"}, 422),
            *("body", "nothing to record: give helpful, harmful or accessed"),
        ),
        (
            *("POST", f"{LIST}/none/rate", {"helpful": -1}, 422, "helpful"),
            "helpful should be greater than or equal to 0, but it is -1",
        ),
        ("GET", "/v1/decisions", None, 422, "scope", "scope is missing; add it"),
        ("GET", f"/v1/decisions?scope={ANA}&kind=x", None, 422, "kind", "should be 'insert'"),
        ("GET", f"/v1/decisions?scope={ANA}&after=x", None, 422, "after", "a valid integer"),
        ("DELETE", f"{LIST}/none", None, 405, None, "DELETE is not a method of this path"),
        ("GET", "/v1/none", None, 404, None, "is not a path of the API; the page / lists all"),
    ],
)
async def test_what_cannot_be_done_is_told_with_its_place_and_what_to_do(
    world: World, method: str, path: str, body: object, status: int, field: str | None, detail: str
) -> None:
    told = problem(await world.ask(method, path, body))
    assert (told["status"], told.get("field")) == (status, field)
    assert detail in told["detail"]


async def test_a_body_that_is_not_sent_as_json_is_told_which_header_to_send(world: World) -> None:
    headers = {"authorization": "Bearer token of ana", "content-type": "text/plain"}
    told = problem(await world.http.post(ADD, content=b"{}", headers=headers))
    assert told["detail"].endswith("send the header Content-Type: application/json")


async def test_a_conflict_is_told_wherever_a_memory_is_read_until_one_of_them_ends(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, index="edge", policy="default-hashing") as world:
        nine, eight = [await world.add(f"The office opens at {n} am.") for n in (9, 8)]
        one, other = nine["memory_id"], eight["memory_id"]
        found = await world.done("POST", SEARCH, {"scope": ANA, "query": "office", "limit": 1})
        [member] = found["entries"][0]["members"]
        [conflict] = member["conflicts"]
        assert {member["memory"]["id"], conflict["memory_id"]} == {one, other}
        assert set(conflict) == {"memory_id", "text", "last_seen_at"}
        got = await world.done("GET", f"{LIST}/{one}")
        assert [said["text"] for said in got["conflicts"]] == ["The office opens at 8 am."]
        listed = (await world.done("GET", f"{LIST}?scope={ANA}"))["memories"]
        assert [said["memory_id"] for kept in listed for said in kept["conflicts"]] == [other, one]
        block = await world.done("POST", RECALL, {"scope": ANA})
        assert block["block"].count("in conflict with") == 1
        assert [len(kept["conflicts"]) for kept in block["memories"]] == [1, 1]

        told = await world.done("POST", f"{LIST}/{one}/distinct", {"other_id": other})
        assert "in conflict" not in (await world.done("POST", RECALL, {"scope": ANA}))["block"]
        [decided] = told["decisions"]
        assert decided["changed"] == [other, one]
        await world.done("POST", f"/v1/decisions/{decided['decision_id']}/undo")
        assert len((await world.done("GET", f"{LIST}/{one}"))["conflicts"]) == 1
        refused = problem(await world.ask("POST", f"{LIST}/{one}/distinct", {"other_id": "none"}))
        assert (refused["status"], refused["field"]) == (404, "other_id")

        await world.done("POST", f"{LIST}/{other}/retire")
        assert (await world.done("GET", f"{LIST}/{one}"))["conflicts"] == []
        assert "in conflict" not in (await world.done("POST", RECALL, {"scope": ANA}))["block"]


async def test_a_decision_names_what_it_contradicts_as_long_as_that_says_so(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, index="edge", policy="default-hashing") as world:
        nine, eight = [await world.add(f"The office opens at {n} am.") for n in (9, 8)]
        [against] = eight["contradicts"]
        assert (against["memory_id"], against["text"]) == (nine["memory_id"], nine["memory_text"])
        assert 0.8 < against["probability"] < 1
        decisions, one = f"/v1/decisions?scope={ANA}", f"/v1/decisions/{eight['decision_id']}"
        listed = (await world.done("GET", decisions))["decisions"]
        assert [told["contradicts"] for told in listed] == [[against], []]
        assert (await world.done("GET", one))["contradicts"] == [against]
        many = {"memories": [{"scope": ANA, "text": "The office opens at 7 am."}]}
        [result] = (await world.done("POST", BATCH, many))["results"]
        both = {nine["memory_id"], eight["memory_id"]}
        assert {told["memory_id"] for told in result["outcome"]["contradicts"]} == both

        await world.done("PATCH", f"{LIST}/{nine['memory_id']}", {"text": "The office is in Bonn."})
        assert (await world.done("GET", one))["contradicts"] == [{**against, "text": None}]
