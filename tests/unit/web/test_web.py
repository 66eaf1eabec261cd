"""The page to review and explore, in process, over a real store of its own."""

import html
import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.routing import Route

from schemas.decisions import Band, Change, Insert, Replace, Revise, Verdict
from schemas.events import Answer, Undo
from streams.api.app.access import Access
from streams.api.app.desk import Desk
from streams.forget.app.forgetting import ForgetTarget
from streams.lab.core.calibration import Sample
from streams.lab.core.grading import Truth
from streams.maintain.app.diagnosis import Diagnosis
from streams.model.bands import Bands
from streams.model.identity import memory_id
from streams.store.app import policies
from streams.store.cli import asking
from streams.web.app.app import HEADERS, views
from streams.web.app.chronicle import Chronicle
from streams.web.app.operating import curve
from streams.web.app.pages import STATIC
from streams.web.app.quality import BINS, histograms, moved
from streams.web.app.sessions import COOKIE, WebSessions, place_here
from streams.web.app.words import compared
from tests.builders import policy
from tests.support.servers.web import (
    ANA,
    BEN,
    GRANTS,
    HOSTILE,
    Elements,
    World,
    csrf_of,
    quiet,
    said_by,
    serving,
)

BEES, HIVES = "Ben keeps bees on the roof.", "Ben keeps bees on her roof."
ROSES, TULIPS = "The garden has red roses.", "The garden has red roses and tulips."
BACKUP, OTHER_BACKUP = "The backup keeps 14 copies.", "The backup keeps 30 copies."


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with serving(tmp_path) as made:
        yield made


async def routes(world: World) -> list[Route]:
    """Return every view there is."""

    async def examined() -> list[Diagnosis]:
        return []

    sessions = WebSessions(world.clock, 1)
    app = views(
        Desk(world.life, world.metrics),
        Chronicle(world.life.past("test")),
        Access(GRANTS),
        sessions,
        policy(),
        examined,
        quiet,
    )
    return [route for route in app.routes if isinstance(route, Route)]


def changes(decisions: Sequence[object]) -> list[Change]:
    return [one for one in decisions if isinstance(one, Change)]


class TestLogin:
    async def test_no_view_is_shown_and_no_form_taken_without_a_login(self, world: World) -> None:
        await world.say(BEES)
        open_, closed = {"/login", "/static/{name}"}, set[str]()
        async with world.stranger() as http:
            for route in await routes(world):
                path = re.sub(r"\{\w+\}", "x", route.path)
                for method in (route.methods or set()) - {"HEAD"}:
                    answer = await http.request(method, f"{path}?scope={ANA}")
                    if route.path in open_:
                        continue
                    closed.add(f"{method} {route.path}")
                    assert answer.status_code == (303 if method == "GET" else 401), route.path
                    if method == "GET":
                        assert answer.headers["location"].startswith("/login?next=")
                    assert BEES not in answer.text
        assert {"GET /review", "POST /review/{review_id}", "POST /undo", "GET /decisions"} <= closed
        assert len(closed) == 14

    async def test_a_login_is_a_cookie_that_no_script_reads_and_no_other_site_sends(
        self, world: World
    ) -> None:
        async with world.stranger() as http:
            form = await http.get("/login", params={"next": "/scopes"})
            fields = {"csrf": csrf_of(form), "token": "token of ana", "next": "/scopes"}
            answer = await http.post("/login", data=fields)
            assert (answer.status_code, answer.headers["location"]) == (303, "/scopes")
            [cookie] = [
                one for one in answer.headers.get_list("set-cookie") if one.startswith(COOKIE)
            ]
            assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
            assert "token of ana" not in cookie
            assert (await http.get("/scopes")).status_code == 200

    async def test_over_tls_it_is_sent_over_tls_alone(self, world: World) -> None:
        transport = httpx.ASGITransport(world.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://page") as http:
            form = await http.get("/login")
            fields = {"csrf": csrf_of(form), "token": "token of ana"}
            answer = await http.post("/login", data=fields)
        assert all(
            "; Secure" in one
            for one in answer.headers.get_list("set-cookie")
            if "=;" not in one and '=""' not in one
        )

    async def test_a_token_that_nobody_has_is_refused(self, world: World) -> None:
        async with world.stranger() as http:
            fields = {"csrf": csrf_of(await http.get("/login")), "token": "token of nobody"}
            answer = await http.post("/login", data=fields)
            assert answer.status_code == 401
            assert "This token is unknown" in answer.text
            assert COOKIE not in http.cookies
            assert (await http.get("/scopes")).status_code == 303

    async def test_another_site_cannot_log_somebody_in(self, world: World) -> None:
        async with world.stranger() as http:
            fields = {"csrf": csrf_of(await http.get("/login")), "token": "token of ana"}
            http.cookies.clear()
            assert (await http.post("/login", data=fields)).status_code == 403
            assert (await http.post("/login", data={"token": "token of ana"})).status_code == 403

    async def test_it_ends_when_somebody_logs_out_or_its_time_is_over(self, world: World) -> None:
        async with world.someone() as first, world.someone() as second:
            assert (await first.post("/logout")).headers["location"] == "/login"
            assert (await first.get("/scopes")).status_code == 303
            world.clock.move(world.settings.web.session_minutes * 60 - 1)
            assert (await second.get("/scopes")).status_code == 200
            world.clock.move(1)
            assert (await second.get("/scopes")).status_code == 303

    @pytest.mark.parametrize(
        "target",
        [
            "https://evil.example/",
            "//evil.example",
            "/\\evil.example",
            "review",
            "",
            "/a\nb",
            "/\t/e",
        ],
    )
    def test_it_leads_to_no_other_site(self, target: str) -> None:
        assert place_here(target) == "/"

    def test_it_leads_to_any_view(self) -> None:
        assert place_here("/memories?scope=a%2Fb&query=x") == "/memories?scope=a%2Fb&query=x"

    async def test_a_link_from_another_site_is_followed_once_more_from_here(
        self, world: World
    ) -> None:
        async with world.stranger() as http:
            answer = await http.get("/scopes", headers={"sec-fetch-site": "cross-site"})
        assert answer.status_code == 200
        assert '<meta http-equiv="refresh" content="0">' in answer.text


async def test_no_form_is_taken_that_another_site_could_have_sent(world: World) -> None:
    await world.say(ROSES, TULIPS)
    before = len(await world.decisions())
    async with world.someone() as ana, world.someone() as other:
        asked = await ana.asked()
        foreign = csrf_of(await other.get("/review"))
        posting = [
            re.sub(r"\{\w+\}", f"{asked}", route.path)
            for route in await routes(world)
            if "POST" in (route.methods or ()) and route.path != "/login"
        ]
        assert len(posting) == 3
        for path in posting:
            for sent in ({}, {"csrf": ""}, {"csrf": "x"}, {"csrf": foreign}):
                answer = await ana.http.post(path, data={"verdict": "same", **sent})
                assert answer.status_code == 403, path
                assert "the form belongs to another login" in answer.text
        assert (await ana.get("/scopes")).status_code == 200
    assert len(await world.decisions()) == before


async def test_every_answer_forbids_browsers_what_is_inline_or_from_elsewhere(world: World) -> None:
    await world.say(ROSES, TULIPS)
    async with world.someone() as ana:
        for path in ("/review", "/login", "/none", "/static/web.css", "/static/none", "/"):
            answer = await ana.get(path)
            assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        for path in await _pages(world):
            for tag, attributes in Elements.of(await ana.page(path)).found:
                assert not {"style", "onclick", "onload"} & set(attributes)
                assert tag != "script" or attributes == {"src": "/static/web.js", "defer": None}
                for name in ("src", "href", "action"):
                    address = attributes.get(name) or "/"
                    assert address[0] in "/#"
                    assert not address.startswith("//")
    for directive in ("script-src 'self'", "style-src 'self'", "default-src 'none'"):
        assert directive in HEADERS["content-security-policy"]
    assert "unsafe" not in HEADERS["content-security-policy"]


async def _pages(world: World) -> list[str]:
    """Return the address of each view, with something to show in it."""
    decisions = await world.decisions()
    first = next(one for one in decisions if isinstance(one, Insert))
    where = quote(first.event.scope, safe="")
    return [
        "/review",
        "/scopes",
        f"/scopes?below={where}",
        "/memories",
        f"/memories?scope={where}&retired=true",
        f"/memories?scope={where}&query={quote(first.event.text[:200])}",
        f"/memories/{first.memory.id}",
        "/conflicts",
        "/decisions",
        f"/decisions/{decisions[-1].decision_id}",
        f"/decisions/{first.decision_id}",
        "/quality",
        f"/quality?scope={where}",
        "/health",
    ]


class TestHostileText:
    async def test_no_view_shows_it_unescaped(self, tmp_path: Path) -> None:
        async with serving(tmp_path, judged=True) as world:
            scope = "acme/ana/" + HOSTILE.replace(" ", "").replace("*", "")[:60]
            said = {"scope": scope, "source": HOSTILE, "title": HOSTILE}
            await world.say(f"{HOSTILE} 14 copies", f"{HOSTILE} 30 copies", **said)
            await world.say(f"{HOSTILE} 14 copies", f"{HOSTILE} 14 copies", **said)
            seen = 0
            async with world.someone() as ana:
                asked = await ana.asked()
                assert asked is not None
                for path in [*await _pages(world), f"/review/{asked}"]:
                    page = await ana.page(path)
                    self.is_harmless(page)
                    seen += html.escape(HOSTILE, quote=False)[:30] in page
                await ana.answer("contradicts")
                for path in [*await _pages(world), f"/review/{asked}"]:
                    self.is_harmless(await ana.page(path))
            assert seen >= 11  # it is shown nearly everywhere, as text

    @pytest.mark.parametrize(
        "path",
        [
            "/review?scope={}",
            "/review?reason={}",
            "/review/{}",
            "/scopes?below={}",
            "/memories?scope={}",
            "/memories?scope=acme/ana&query={}",
            "/memories?scope=acme/ana&after={}",
            "/memories/{}",
            "/decisions?scope={}&kind={}",
            "/decisions?kind={}",
            "/decisions/{}",
            "/conflicts?below={}",
            "/quality?scope={}",
            "/login?next={}",
            "/static/{}",
            "/{}",
        ],
    )
    async def test_nor_what_an_address_says(self, world: World, path: str) -> None:
        async with world.someone() as ana:
            answer = await ana.get(path.replace("{}", quote(HOSTILE, safe="")))
            self.is_harmless(answer.text)

    def is_harmless(self, page: str) -> None:
        """Assert that a page holds no element and no attribute but those of the templates."""
        for tag, attributes in Elements.of(page).found:
            assert tag not in {"img", "iframe", "object", "embed", "style"}
            assert tag != "script" or attributes == {"src": "/static/web.js", "defer": None}
            assert tag != "svg" or "viewbox" in attributes
            assert not [name for name in attributes if name == "style" or name.startswith("on")]
        assert "{{ 49 }}" not in page


class TestWalls:
    async def test_nobody_sees_what_is_of_another_tenant(self, world: World) -> None:
        first, second = await world.say(BEES, HIVES, scope=BEN)
        assert isinstance(first, Insert)
        assert isinstance(second, Insert)
        async with world.someone("ben") as ben, world.someone("ana") as ana:
            asked = await ben.asked()
            assert BEES in await ben.text("/decisions")
            everywhere = ["/review", "/scopes", "/memories", "/decisions", "/conflicts", "/quality"]
            for path in everywhere:
                text = await ana.text(path)
                assert BEES not in text
                assert BEN not in text
            assert "no scope of yours has anything" in (await ana.text("/scopes")).lower()
            assert "the newest 0 decisions" in await ana.text("/quality")
            assert BEES not in await ana.text(f"/decisions?scope={BEN}")
            unknown = [
                f"/review/{asked}",
                f"/memories/{first.memory.id}",
                f"/decisions/{first.decision_id}",
            ]
            for path in unknown:
                answer, nowhere = await ana.get(path), await ana.get(f"{path[:-4]}none")
                assert (answer.status_code, nowhere.status_code) == (404, 404)
                alike = [
                    one.text.replace(path[:-4], "").replace(path.split("/")[-1], "")
                    for one in (answer,)
                ]
                assert BEES not in alike[0]
            assert (await ana.get(f"/memories?scope={BEN}")).status_code == 403
            taken = await ana.post(f"/review/{asked}", verdict="same")
            assert taken.status_code == 404
            assert await ben.asked() == asked

    async def test_who_may_only_read_is_shown_no_buttons_and_answers_nothing(
        self, world: World
    ) -> None:
        await world.say(ROSES, TULIPS)
        async with world.someone("reader") as reader:
            asked = await reader.asked()
            page = await reader.page("/review")
            assert 'value="same"' not in page
            assert "Your token may read this scope" in page
            answer = await reader.post(f"/review/{asked}", verdict="same")
            assert answer.status_code == 403
            assert await reader.asked() == asked

    async def test_who_may_only_write_sees_nothing(self, world: World) -> None:
        [first] = await world.say(ROSES)
        assert isinstance(first, Insert)
        async with world.someone("writer") as writer:
            assert ROSES not in await writer.text("/decisions")
            assert (await writer.get(f"/memories?scope={ANA}")).status_code == 403
            assert (await writer.get(f"/memories/{first.memory.id}")).status_code == 403


class TestReview:
    @pytest.mark.covers("B40")
    @pytest.mark.parametrize(
        ("verdict", "kept"),
        [
            ("same", [ROSES]),
            ("refines", [TULIPS]),
            ("refined-by", [ROSES]),
            ("contradicts", [TULIPS]),
            ("distinct", [ROSES, TULIPS]),
        ],
    )
    async def test_an_answer_is_an_event_with_its_author(
        self, world: World, verdict: str, kept: list[str]
    ) -> None:
        await world.say(ROSES, TULIPS)
        async with world.someone() as ana:
            asked = await ana.answer(verdict)
            assert await ana.asked() is None
            assert "1 answered, 0 open" in await ana.text("/review")
            assert f"answered: {verdict} by ana" in await ana.text(f"/review/{asked}")
        decision = (await world.decisions())[-1]
        assert isinstance(decision, Revise if verdict == "distinct" else Replace)
        assert isinstance(decision.event, Answer)
        told = (decision.event.author, decision.event.verdict, decision.event.review_id)
        assert told == ("ana", verdict, asked)
        assert await world.texts() == kept

    async def test_both_texts_stand_side_by_side_with_their_difference_marked(
        self, world: World
    ) -> None:
        await world.say(ROSES, "The garden has white roses.")
        async with world.someone() as ana:
            page = await ana.page("/review")
        assert "The garden has <del>red</del> roses." in page
        assert "The garden has <ins>white</ins> roses." in page
        assert "similarity" in said_by(page)
        assert "similar; may state the same fact (bands)" in said_by(page)

    async def test_what_was_kept_in_doubt_is_put_to_people_where_the_policy_asks_nobody(
        self, tmp_path: Path
    ) -> None:
        async with serving(tmp_path, judged=True) as world:
            await world.say(BACKUP, OTHER_BACKUP)
            async with world.someone() as ana:
                assert "guard numbers: another number" in await ana.text("/review")
                await ana.answer("contradicts")
            assert await world.texts() == [OTHER_BACKUP]

    async def test_what_is_skipped_does_not_come_again(self, world: World) -> None:
        await world.say(ROSES, TULIPS)
        await world.say(BEES, HIVES)
        before = len(await world.decisions())
        async with world.someone() as ana:
            first = await ana.answer("skip")
            second = await ana.answer("skip")
            assert first != second
            assert await ana.asked() is None
            assert "0 answered, 0 open" in await ana.text("/review")
        assert len(await world.decisions()) == before
        async with world.someone() as ana:
            assert await ana.asked() == first

    @pytest.mark.parametrize("verdict", ["same", "refines", "refined-by", "contradicts"])
    async def test_the_last_answer_is_taken_back_and_given_again(
        self, world: World, verdict: str
    ) -> None:
        await world.say(ROSES, TULIPS)
        async with world.someone() as ana:
            asked = await ana.answer(verdict)
            answer = await ana.post("/undo")
            assert answer.headers["location"] == f"/review/{asked}"
            assert "both memories are restored" in await ana.text(f"/review/{asked}")
            assert await ana.asked() == asked
            assert await world.texts() == [ROSES, TULIPS]
            assert await ana.answer(verdict) == asked  # the same once more is not the same event
            assert await ana.asked() is None
            assert len(await world.texts()) == 1
        events = [one.event for one in await world.decisions()]
        assert [type(one) for one in events][-3:] == [Answer, Undo, Answer]

    async def test_that_two_are_different_can_be_corrected(self, world: World) -> None:
        await world.say(ROSES, TULIPS)
        async with world.someone() as ana:
            asked = await ana.answer("distinct")
            await ana.post("/undo")
            text = await ana.text(f"/review/{asked}")
            assert "That answer changed no memory" in text
            answer = await ana.post(f"/review/{asked}", verdict="same")
            assert answer.status_code == 303
            assert "answered: same by ana" in await ana.text(f"/review/{asked}")

    async def test_an_answer_on_what_was_forgotten_since_is_not_taken_back(
        self, world: World
    ) -> None:
        first, _ = await world.say(ROSES, TULIPS)
        assert isinstance(first, Insert)
        async with world.someone() as ana:
            await ana.answer("same")
            await world.life.forget(ForgetTarget(memory=first.memory.id), "ana", "")
            assert (await ana.post("/undo")).status_code == 404
            assert await world.texts() == []
            await ana.post("/undo")
            assert "There is nothing to undo." in await ana.text("/review")

    async def test_an_answer_that_somebody_has_taken_back_is_so_already(self, world: World) -> None:
        await world.say(ROSES, TULIPS)
        async with world.someone() as ana:
            asked = await ana.answer("same")
            decision = (await world.decisions())[-1]
            await world.life.undo(decision.decision_id, "ben", "")
            await ana.post("/undo")
            assert "Somebody has already undone that." in await ana.text(f"/review/{asked}")
            assert await world.texts() == [ROSES, TULIPS]

    async def test_a_skip_is_taken_back_as_well(self, world: World) -> None:
        await world.say(ROSES, TULIPS)
        async with world.someone() as ana:
            asked = await ana.answer("skip")
            await ana.post("/undo")
            assert await ana.asked() == asked
            await ana.post("/undo")
            assert "There is nothing to undo." in await ana.text("/review")

    async def test_two_people_answer_once(self, world: World) -> None:
        await world.say(ROSES, TULIPS)
        async with world.someone() as first, world.someone() as second:
            asked = await second.asked()
            await first.answer("same")
            before = len(await world.decisions())
            answer = await second.post(f"/review/{asked}", verdict="contradicts")
            assert answer.status_code == 303
            assert "Not answered: question" in await second.text("/review")
        assert len(await world.decisions()) == before

    async def test_only_what_fits_the_filters_is_asked(self, world: World) -> None:
        await world.say(ROSES, TULIPS, scope=f"{ANA}/garden")
        await world.say(BEES, HIVES, scope=f"{ANA}/bees")
        async with world.someone() as ana:
            for scope, text in ((f"{ANA}/garden", ROSES), (f"{ANA}/bees", BEES)):
                assert text[:12] in await ana.text(f"/review?scope={scope}")
            assert await ana.asked(f"?scope={ANA}/bee") is None
            assert await ana.asked("?reason=nobody+could+tell") is not None
            assert await ana.asked("?reason=guard+numbers") is None
            asked = await ana.asked(f"?scope={ANA}/garden")
            answer = await ana.post(f"/review/{asked}?scope={ANA}/garden", verdict="skip")
            assert answer.headers["location"] == f"/review?scope={quote(ANA, safe='')}%2Fgarden"

    async def test_the_keys_are_those_of_the_commands(self, world: World) -> None:
        await world.say(ROSES, TULIPS)
        async with world.someone() as ana:
            page = Elements.of((await ana.get("/review")).text)
        buttons = [one for tag, one in page.found if tag == "button" and "value" in one]
        keys = {one["data-key"]: one["value"] for one in buttons}
        assert keys == {**asking.KEYS, asking.SKIP: "skip"}

    async def test_a_verdict_that_there_is_not_is_refused(self, world: World) -> None:
        await world.say(ROSES, TULIPS)
        async with world.someone() as ana:
            answer = await ana.post(f"/review/{await ana.asked()}", verdict="maybe")
            assert answer.status_code == 422
            assert "verdict: write same, refines" in said_by(answer.text)

    async def test_what_was_forgotten_is_asked_of_nobody(self, world: World) -> None:
        first, _ = await world.say(ROSES, TULIPS)
        assert isinstance(first, Insert)
        async with world.someone() as ana:
            asked = await ana.asked()
            await world.life.forget(ForgetTarget(memory=first.memory.id), "ana", "")
            assert await ana.asked() is None
            for path in (f"/review/{asked}", f"/memories/{first.memory.id}"):
                answer = await ana.get(path)
                assert answer.status_code in {404, 410}
                assert ROSES not in said_by(answer.text)
            for path in ("/decisions", f"/memories?scope={ANA}&retired=true", "/quality"):
                assert ROSES not in await ana.text(path)


class TestExplore:
    async def test_scopes_are_counted(self, world: World) -> None:
        await world.say(ROSES, ROSES, TULIPS, scope=f"{ANA}/garden")
        await world.say(BEES, scope=ANA)
        async with world.someone() as ana:
            assert f"{ANA}/garden 2 3" in await ana.text("/scopes")
            assert f"{ANA} 1 1" in await ana.text("/scopes")
            assert BEES not in await ana.text(f"/scopes?below={ANA}/garden")
            await ana.answer("same")
            assert f"{ANA}/garden 1 4" in await ana.text("/scopes")

    async def test_memories_are_listed_part_by_part_and_searched(self, world: World) -> None:
        await world.say(*(f"Fact {n}: {'abcdefghij'[n % 10] * 9}{n}" for n in range(51)))
        async with world.someone() as ana:
            page = await ana.page(f"/memories?scope={ANA}")
            assert page.count('<li class="card">') == 50
            [after] = re.findall(r'href="(/memories\?[^"]*after=[^"]*)"', page)
            rest = await ana.page(html.unescape(after))
            assert rest.count('<li class="card">') == 1
            found = await ana.text(f"/memories?scope={ANA}&query=Fact 7: hhhhhhhhh7")
            assert found.index("Fact 7: hhhhhhhhh7") < 900

    async def test_a_memorys_life_is_told_with_its_wordings(self, world: World) -> None:
        first, *_ = await world.say(ROSES, ROSES, TULIPS)
        assert isinstance(first, Insert)
        async with world.someone() as ana:
            await ana.answer("same")
            text = await ana.text(f"/memories/{first.memory.id}")
            page = await ana.page(f"/memories/{first.memory.id}")
        places = [text.index(f"Version {n}") for n in (3, 2, 1)]
        assert places == sorted(places)
        assert "Other wordings" in text
        assert f"<ins>{TULIPS}</ins>" in page
        assert "by ana" in text
        assert "Stands for" in text

    async def test_decisions_come_newest_first_and_are_filtered(self, world: World) -> None:
        await world.say(ROSES, ROSES, BEES)
        async with world.someone() as ana:
            text = await ana.text("/decisions")
            assert text.index(BEES) < text.index(ROSES)
            assert "data-live" in await ana.page("/decisions")
            only = await ana.text("/decisions?kind=reinforce")
            assert ROSES in only
            assert BEES not in only
            await world.say(HIVES)
            assert HIVES in await ana.text("/decisions")  # what the page fetches again is new

    async def test_older_decisions_are_a_page_away(self, world: World) -> None:
        await world.say(*(["The same."] * 52))
        async with world.someone() as ana:
            page = await ana.page("/decisions")
            assert page.count('<li class="card">') == 50
            older = await ana.page("/decisions?older=50")
            assert older.count('<li class="card">') == 2
            assert "data-live" not in older

    async def test_a_decision_is_explained_at_an_address_of_its_own(self, world: World) -> None:
        _, second = await world.say(ROSES, TULIPS)
        async with world.someone() as ana:
            text = await ana.text(f"/decisions/{second.decision_id}")
        assert TULIPS in text
        assert ROSES in text
        assert "because a memory is similar, and a reviewer decides" in text
        assert "policy asking-" in text

    async def test_conflicts_are_listed_until_they_are_settled(self, tmp_path: Path) -> None:
        async with serving(tmp_path, judged=True) as world:
            await world.say(BACKUP, OTHER_BACKUP)
            async with world.someone() as ana:
                page = await ana.page("/conflicts")
                assert "The backup keeps <del>14</del> copies." in page
                assert "The backup keeps <ins>30</ins> copies." in page
                await ana.answer("contradicts")
                assert "There are no conflicts." in await ana.text("/conflicts")

    @pytest.mark.parametrize(
        "path",
        [
            "/none",
            "/memories/none",
            "/decisions/none",
            "/review/none",
            "/static/none",
            "/docs",
            "/openapi.json",
        ],
    )
    async def test_what_is_not_there_is_said_so(self, world: World, path: str) -> None:
        async with world.someone() as ana:
            answer = await ana.get(path)
            assert answer.status_code == 404
            assert "404 Not Found" in said_by(answer.text)


def judged(truth: Truth, one: float) -> Sample:
    """Return a pair that a judge took for one memory with that probability."""
    told = {Verdict.SAME: one, Verdict.DISTINCT: 1 - one}
    return Sample(truth, 0.9, objected=True, probabilities=told)


class TestOperatingPoint:
    def test_the_curve_counts_what_each_threshold_finds_and_hides(self) -> None:
        rules = policy().model_copy(
            update={"judges": policy().judges.model_copy(update={"one_memory_min": 0.75})}
        )
        samples = [
            *(judged(Truth.SAME, one) for one in (0.95, 0.8, 0.3)),
            *(judged(Truth.DISTINCT, one) for one in (0.9, 0.2)),
        ]
        drawn = curve(samples, rules)
        assert drawn is not None
        told = {one.least: (one.found.count, one.hidden.count) for one in drawn.rows}
        assert (told[0.0], told[0.3], told[0.75]) == ((3, 2), (3, 1), (2, 1))
        assert (told[0.9], told[0.95], told[1.0]) == ((1, 1), (1, 0), (0, 0))
        assert (drawn.now.least, drawn.now.found.of, drawn.now.hidden.of) == (0.75, 3, 2)
        assert drawn.now in drawn.rows
        assert drawn.now in drawn.line
        for nearer, further in pairwise(drawn.line):  # a higher threshold joins no more
            assert nearer.hidden.count >= further.hidden.count
            assert nearer.found.count >= further.found.count

    @pytest.mark.parametrize("truths", [[], [Truth.SAME], [Truth.DISTINCT, Truth.CONTRADICTS]])
    def test_there_is_none_without_pairs_of_one_fact_and_of_two(self, truths: list[Truth]) -> None:
        assert curve([judged(one, 0.9) for one in truths], policy()) is None

    async def test_it_is_drawn_from_the_answers_that_hold(self, tmp_path: Path) -> None:
        async with serving(tmp_path, judged=True) as world, world.someone() as ana:
            await world.say(BACKUP, OTHER_BACKUP)
            await world.say("The lease ends in 2026.", "The lease ends in 2027.")
            page = await ana.page("/quality")
            assert "needs answered pairs, of one fact and of two: 0 here so far" in said_by(page)
            assert "<code>memsieve policy evaluate PAIRS.jsonl</code>" in page
            await ana.answer("contradicts")
            assert "1 here so far" in await ana.text("/quality")
            await ana.answer("same")
            page = await ana.page("/quality")
            assert "0 of 1 repeats are found and 0 of 1 different facts hidden" in said_by(page)
            assert "among the 2 pairs here that people answered" in said_by(page)
            assert "2 answers are few, 30 are needed" in said_by(page)
            [drawn] = [at for _, at in Elements.of(page).found if at.get("class") == "curve"]
            assert (drawn["role"], drawn["aria-labelledby"]) == (
                *("img", "operating-title operating-desc"),
            )
            [line] = [
                at["points"] or "" for tag, at in Elements.of(page).found if tag == "polyline"
            ]
            points = [tuple(map(float, point.split(","))) for point in line.split()]
            assert all(48 <= x <= 308 and 26 <= y <= 286 for x, y in points)
            assert (points[0][0], points[-1]) == (308, (48, 286))  # all are hidden; none is found
            text = said_by(page)
            least = policies.load("default-hashing").judges.one_memory_min
            assert f"{least} now 0.0 % (0 of 1)" in text
            await ana.post("/undo")
            assert "1 here so far" in await ana.text("/quality")

    async def test_the_answers_of_another_tenant_do_not_count(self, tmp_path: Path) -> None:
        async with serving(tmp_path, judged=True) as world:
            await world.say(BACKUP, OTHER_BACKUP, scope=BEN)
            async with world.someone("ben") as ben, world.someone("ana") as ana:
                await ben.answer("contradicts")
                assert "1 here so far" in await ben.text("/quality")
                assert "0 here so far" in await ana.text("/quality")


class TestQuality:
    async def test_the_bars_count_each_decision_with_a_near_memory_once(self, world: World) -> None:
        await world.say(ROSES, TULIPS, BEES, HIVES, ROSES)
        decided = [one for one in changes(await world.decisions()) if one.evidence.neighbours]
        lines = (await Chronicle(world.life.past("test")).level()).lines
        counted = histograms(lines)
        assert sum(bins.total() for bins in counted.values()) == len(decided) > 0
        assert Counter(one.kind for one in decided) == {
            kind: bins.total() for kind, bins in counted.items()
        }
        assert all(0 <= at < BINS for bins in counted.values() for at in bins)

    async def test_it_is_drawn_and_told_in_a_table(self, world: World) -> None:
        await world.say(ROSES, TULIPS, ROSES)
        async with world.someone() as ana:
            page, text = await ana.page("/quality"), await ana.text("/quality")
        [bar] = [at for tag, at in Elements.of(page).found if tag == "rect"]
        [base] = [at for _, at in Elements.of(page).found if at.get("class") == "base"]
        assert float(bar["y"] or "") + float(bar["height"] or "") == float(base["y1"] or "")
        bounds = [
            at["x1"]
            for tag, at in Elements.of(page).found
            if (tag, at.get("class")) == ("line", "bound")
        ]
        assert bounds == ["680.0", "500.0", "500.0"]
        assert "insert 0 1 0 0 2" in text  # of two, one had a memory in the band review
        assert "match from 1.0 " in text
        assert "the newest 3 decisions" in text

    async def test_other_bounds_are_tried_and_tell_which_decisions_they_move(
        self, world: World
    ) -> None:
        await world.say(ROSES, TULIPS, BEES, HIVES, ROSES)
        lines = (await Chronicle(world.life.past("test")).level()).lines
        bands = Bands(match=1.0, review=0.7, log=0.7)
        assert moved(lines, bands, bands) == []
        [told] = moved(lines, bands, Bands(match=0.7, review=0.7, log=0.7))
        assert (told.kind, told.before, told.after, told.count) == (
            *("insert", Band.REVIEW, Band.MATCH),
            sum(one.kind == "insert" and one.band is Band.REVIEW for one in lines),
        )
        assert told.count == 2
        async with world.someone() as ana:
            text = await ana.text("/quality?match=0.7")
            assert "2 insert: nearest memory in match instead of review" in text
            assert (
                "--policy 'asking {bands.match = 0.7, bands.review = 0.7, bands.log = 0.7}'" in text
            )
            assert "No decision would" in await ana.text("/quality?review=0.71&log=0.69")
            assert "instead of" not in await ana.text("/quality")
            wrong = await ana.get("/quality?match=0.5")
            assert (wrong.status_code, "raise match" in said_by(wrong.text)) == (422, True)
            assert (await ana.get("/quality?match=2")).status_code == 422

    async def test_what_the_brake_holds_back_is_told(self, tmp_path: Path) -> None:
        braking = "{brake.decisions_min = 1, brake.removals_max = 0.0}"
        said = "Customers may return {} within 30 days"
        async with (
            serving(tmp_path, judged=True, overrides=braking) as world,
            world.someone() as ana,
        ):
            for goods in ("books", "shoes"):
                assert "brake in order" in await ana.text("/health")
                told = said.format(goods)
                await world.say(f"{told}.", f"{told} of delivery, unused.", scope=f"{ANA}/{goods}")
            assert "brake has held back 1 of your newest 4 decisions" in await ana.text("/health")
            braked = await ana.text("/decisions?reason=braked")
            assert "return shoes within 30 days of delivery" in braked
            assert "books" not in braked

    async def test_health_is_what_doctor_finds(self, world: World) -> None:
        await world.say(ROSES)
        async with world.someone() as ana:
            text = await ana.text("/health")
        for subject in ("policy", "model", "store", "log", "index"):
            assert f"{subject} in order" in text
        assert "0 events to decide" in text
        assert ROSES not in text


async def test_requests_are_counted_by_view_and_told_without_what_they_say(world: World) -> None:
    async with world.someone() as ana:
        await ana.page(f"/memories?scope={ANA}")
        await ana.get(f"/memories/{memory_id(world.settings.store.name)}")  # pyright: ignore[reportArgumentType] - any id
    samples = world.metrics.registry.get_sample_value
    for route, status in (
        ("/memories", "200"),
        ("/memories/{memory_id}", "404"),
        ("/login", "303"),
    ):
        labels = {"route": route, "status": status}
        assert samples("memsieve_api_requests_total", labels) == 1


def test_the_style_and_the_script_are_small() -> None:
    assert {name: media_type for name, (media_type, _) in STATIC.items()} == {
        "web.css": "text/css",
        "web.js": "text/javascript",
        "icon.svg": "image/svg+xml",
    }
    assert all(len(content) < 12_000 for _, content in STATIC.values())


@given(st.text(max_size=80), st.text(max_size=80))
@example("a b  c", "a x\nc")
def test_a_comparison_shows_all_of_both_texts(newer: str, older: str) -> None:
    new, old = compared(newer, older)
    assert "".join(run.text for run in new) == newer
    assert "".join(run.text for run in old) == older
    same = [
        "".join(run.text for run in side if not run.differs).casefold().split()
        for side in (new, old)
    ]
    assert "".join(same[0]) == "".join(same[1])


def test_texts_of_very_many_words_are_shown_uncompared() -> None:
    long = "word " * 3_000
    assert compared(long, "word")[0] == [(long, False)]
