"""The pictures of docs/web.md: `python -m tests.support.pages.pictures docs/pictures`. Needs Chromium."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from playwright.async_api import Page, async_playwright

from schemas.decisions import Merge, OnEvent
from streams.services.world.serving import serving as on_a_port
from tests.support.servers.web import World, serving

_FACTS = {
    "support": (
        "Customers may return goods within 30 days.",
        "Customers may return goods within 30 days of delivery, unused.",
        "Refunds take five working days.",
        "A refund takes five working days.",
        "Refunds take ten working days.",
        "Invoices are sent by mail.",
        "The hotline is closed on Sundays.",
        "The hotline is closed on Sunday.",
    ),
    "operations": (
        "The nightly backup runs at 02:00 and keeps 14 copies.",
        "The staging database is read-only on Fridays.",
        "Mara owns the billing service.",
        "Mara owns the billing service.",
        "Jonas owns the billing service.",
        "Two people approve each deployment.",
        "Two people have to approve each deployment.",
        "The nightly backup runs at 03:00 and keeps 30 copies.",
    ),
}


async def draw(directory: Path) -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as place:
        async with serving(Path(place), judged=True) as world:
            decided = [await _told(world, area, facts) for area, facts in _FACTS.items()]
            merged = next(one for each in decided for one in each if isinstance(one, Merge))
            async with _page(world, "light") as page:
                await page.screenshot(path=directory / "web-review.png")
                await page.goto(f"/memories/{merged.memory.id}")
                await page.screenshot(path=directory / "web-memory.png")
            async with _page(world, "dark") as page:
                await page.goto("/quality")
                await page.screenshot(path=directory / "web-quality.png")


async def _told(world: World, area: str, facts: tuple[str, ...]) -> list[OnEvent]:
    """Have facts decided on."""
    scope, people = f"acme/ana/{area}", ("mara", "jonas")
    told = [
        await world.say(fact, scope=scope, source=people[at % 2]) for at, fact in enumerate(facts)
    ]
    return [one for each in told for one in each]


@asynccontextmanager
async def _page(world: World, scheme: Literal["light", "dark"]) -> AsyncGenerator[Page]:
    """Log in, on a screen of a common size."""
    async with (
        on_a_port(world.app, "127.0.0.1", 0, what="the page", named="web.port") as port,
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=shutil.which("chromium")) as chromium,
    ):
        page = await chromium.new_page(
            base_url=f"http://127.0.0.1:{port}",
            color_scheme=scheme,
            viewport={"width": 1000, "height": 640},
        )
        await page.goto("/review")
        await page.keyboard.type("token of ana")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/review")
        yield page


if __name__ == "__main__":
    asyncio.run(draw(Path(sys.argv[1])))
