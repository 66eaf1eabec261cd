"""The page over a real store, asked by people with tokens, in process."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import httpx
from starlette.types import ASGIApp

from schemas.base import ScopeName
from schemas.decisions import Marker, OnEvent
from streams.api.app.access import Access
from streams.maintain.app.diagnosis import Diagnosis, examine
from streams.memory.app.lifecycle import Lifecycle
from streams.memory.app.opening import open_lifecycle
from streams.store.app import policies
from streams.store.app import settings as configuration
from streams.store.app.reading import LogTarget, reading
from streams.store.app.settings import Settings
from streams.store.world.metrics import ApiMetrics
from streams.web.app.app import build
from tests.builders import event, later
from tests.fakes.clock import StandingClock
from tests.support.servers.grants import grant, quiet
from tests.support.stage.asking import asking

JUDGED = "default-hashing"
"""The judge that comes with memsieve reads both texts, and contradictions are kept both."""

HOSTILE = (
    '<script>window.hurt=1</script><img src=x onerror="window.hurt=1">'
    "'\"><svg/onload=window.hurt=1>{{ 7 * 7 }}{% raw %}&lt;\u202edrow\u2069"
)
ANA, BEN = "acme/ana", "zeta/ben"
FIELD = re.compile(r'name="csrf" value="([^"]*)"')
REVIEW = re.compile(r'data-review="([^"]*)"')


GRANTS = (
    grant("ana", ANA),
    grant("ben", BEN),
    grant("reader", ANA, rights=("read",)),
    grant("writer", ANA, rights=("write",)),
)


@dataclass
class World:
    """A page over a store."""

    settings: Settings
    life: Lifecycle
    app: ASGIApp
    clock: StandingClock
    metrics: ApiMetrics
    said: int = 0
    log: list[str] = field(default_factory=list[str])

    async def say(self, *texts: str, scope: str = ANA, **fields: object) -> list[OnEvent]:
        """Have texts decided on, each a minute later than the one before."""
        made: list[OnEvent] = []
        for text in texts:
            self.said += 1
            given = {"event_id": f"e{self.said}", "occurred_at": later(self.said), **fields}
            [told] = await self.life.deciding.decide([event(text, scope=scope, **given)])
            assert told.decision is not None
            assert not isinstance(told.decision, Marker)
            made.append(told.decision)
        return made

    def stranger(self) -> httpx.AsyncClient:
        """Return a browser without a login."""
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://page")

    @asynccontextmanager
    async def someone(self, holder: str = "ana") -> AsyncGenerator["Person"]:
        """Log in through the form."""
        async with self.stranger() as http:
            form = await http.get("/login")
            fields = {"csrf": csrf_of(form), "token": f"token of {holder}"}
            answer = await http.post("/login", data=fields)
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
            yield Person(http)

    async def decisions(self) -> list[OnEvent]:
        """Return what was decided so far."""
        async with reading(LogTarget.of_store(self.settings)) as reader:
            every = [entry.decision async for entry in reader.decisions()]
        return [one for one in every if not isinstance(one, Marker)]

    async def texts(self) -> list[str]:
        """Return what Ana's memories say, the oldest first."""
        part, _ = await self.life.listed(ScopeName(ANA), 10, None, retired=False)
        return [one.text for one in part]


@dataclass(frozen=True)
class Person:
    """Somebody at the page."""

    http: httpx.AsyncClient

    async def get(self, path: str) -> httpx.Response:
        return await self.http.get(path)

    async def page(self, path: str) -> str:
        """Return a page that is shown, as it is sent."""
        answer = await self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def text(self, path: str) -> str:
        """Return what a page says, without its tags; white space counts as one space."""
        return said_by(await self.page(path))

    async def post(self, path: str, **fields: str) -> httpx.Response:
        """Send a form as the page does."""
        csrf = csrf_of(await self.get("/review"))
        return await self.http.post(path, data={"csrf": csrf, **fields})

    async def asked(self, query: str = "") -> str | None:
        """Return the id of the pair that is put to them."""
        found = REVIEW.search(await self.page(f"/review{query}"))
        return None if found is None else found[1]

    async def answer(self, verdict: str) -> str:
        """Answer the pair that is put to them; return its id."""
        asked = await self.asked()
        assert asked is not None
        answer = await self.post(f"/review/{asked}", verdict=verdict)
        assert (answer.status_code, answer.headers["location"]) == (303, "/review")
        return asked


def csrf_of(answer: httpx.Response) -> str:
    found = FIELD.search(answer.text)
    assert found is not None, answer.text
    return found[1]


def said_by(page: str) -> str:
    """Return what a page says, without its tags; white space counts as one space."""
    return " ".join("".join(Elements.of(page).text).split())


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text, as a parser finds them."""

    _INLINE = frozenset({"a", "bdi", "del", "ins", "span", "strong", "time"})

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    @classmethod
    def of(cls, page: str) -> "Elements":
        made = cls()
        made.feed(page)
        made.close()
        return made

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._part(tag)

    def handle_endtag(self, tag: str) -> None:
        self._part(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def _part(self, tag: str) -> None:
        if tag not in self._INLINE:
            self.text.append(" ")


@asynccontextmanager
async def serving(
    directory: Path, *, judged: bool = False, overrides: str = ""
) -> AsyncGenerator[World]:
    policy = asking(directory)
    chosen = configuration.load(
        {
            "store": directory / "store",
            "policy": f"{JUDGED if judged else policy} {overrides}".strip(),
            "embedder": {"model": "memsieve/hashing-ngrams-v1"},
            "index": {"kind": "exact"},
        }
    )
    clock, metrics = StandingClock(), ApiMetrics()

    async def examined() -> list[Diagnosis]:
        return await examine(LogTarget.of_store(chosen))

    async with open_lifecycle(LogTarget.of_store(chosen), quiet) as life:
        loaded = policies.load(chosen.policy)
        app = await build(life, Access(GRANTS), chosen, loaded, examined, metrics, clock, quiet)
        yield World(chosen, life, app, clock, metrics)
