"""The page in a real Chromium: by keyboard, with hostile text, on a narrow screen, in every colour."""

import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    FloatRect,
    Locator,
    Page,
    async_playwright,
    expect,
)

from schemas.events import Answer, Undo
from streams.services.world.serving import serving as on_a_port
from tests.support.servers.web import HOSTILE, World, serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]

ANIMALS = ("cat", "dog", "fox", "owl", "hen", "bat", "ant", "eel")
LONG = "pneumono" * 40
NARROW = {"width": 360, "height": 740}

SIZE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FOREIGN = (
    "main script, main img, main iframe, [onerror], [onload], [style], main svg:not([viewBox])"
)
CONTRAST = """() => {
  const parts = (css) => (css.match(/[\\d.]+/g) || []).map(Number);
  const light = (css) => {
    const [r, g, b] = parts(css).map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((parts(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const told = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const ink = element.closest("svg") ? style.fill : style.color;
    told.push([ratio(ink, behind(element)), texts.currentNode.data.trim().slice(0, 40)]);
  }
  for (const field of document.querySelectorAll("button:enabled, input:not([type=hidden]), select")) {
    const edge = ratio(getComputedStyle(field).borderTopColor, behind(field.parentElement));
    if (!["checkbox", "range"].includes(field.type)) told.push([edge * 1.5, "the edge of " + field.outerHTML.slice(0, 60)]);
  }
  for (const field of document.querySelectorAll("[placeholder]"))
    told.push([ratio(getComputedStyle(field, "::placeholder").color, behind(field)), "placeholder"]);
  return told;
}"""
"""The contrast of every text, and that of every edge as if 4.5 were asked of it instead of 3."""


@asynccontextmanager
async def browser() -> AsyncGenerator[Browser]:
    async with async_playwright() as playwright:
        yield await playwright.chromium.launch(executable_path=CHROMIUM)


@asynccontextmanager
async def at_the_page(
    world: World, *, scheme: Literal["light", "dark"] = "light", narrow: bool = False
) -> AsyncGenerator[Page]:
    """Log somebody in, in a browser of their own; what it complains about is a failure."""
    size: Any = NARROW if narrow else {"width": 1100, "height": 800}
    complaints: list[str] = []
    async with (
        on_a_port(world.app, "127.0.0.1", 0, what="the page", named="web.port") as port,
        browser() as chromium,
        await chromium.new_context(
            base_url=f"http://127.0.0.1:{port}", color_scheme=scheme, viewport=size
        ) as context,
    ):
        page = await context.new_page()
        page.on("pageerror", lambda error: complaints.append(f"{error}"))
        page.on("console", lambda said: complaints.append(said.text) if _is_bad(said) else None)
        await _log_in(context, page)
        yield page
    assert complaints == []


def _is_bad(said: ConsoleMessage) -> bool:
    """Tell whether the browser complains: about a script, a style, or an address that is not there."""
    return said.type == "error" and "status of 422" not in said.text


async def _log_in(context: BrowserContext, page: Page) -> None:
    await page.goto("/review")
    await expect(page.locator("input:focus")).to_be_visible()
    await page.keyboard.type("token of ana")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/review")
    [cookie] = [one for one in await context.cookies() if one.get("name") == "memsieve-session"]
    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
    assert await page.evaluate("document.cookie") == ""


async def views(world: World, page: Page) -> list[str]:
    """Return the address of each view, with something to show in it."""
    decision = (await world.decisions())[-1]
    await page.goto(f"/memories?scope={quote(decision.event.scope, safe='')}")
    memory = await page.locator("a.id").first.get_attribute("href")
    listed = page.url.split("/", 3)[3]
    found = f"/{listed}&query=fox"
    plain = ["/review", "/scopes", "/conflicts", "/decisions", "/quality", "/health"]
    return [*plain, f"/{listed}", found, f"{memory}", f"/decisions/{decision.decision_id}"]


async def press(page: Page, key: str) -> None:
    """Press a key that answers, and wait for the next pair."""
    before = await page.locator("article").get_attribute("data-review")
    async with page.expect_navigation():
        await page.keyboard.press(key)
    await expect(
        page.locator(f'article[data-review="{before}"] ~ form [value="same"]')
    ).to_have_count(0)


@pytest.mark.covers("B40")
async def test_pairs_are_settled_by_single_keys(tmp_path: Path) -> None:
    async with serving(tmp_path) as world:
        for animal in ANIMALS:
            scope = f"acme/ana/{animal}"
            await world.say(
                f"The {animal} sleeps at noon.", f"The {animal} sleeps at night.", scope=scope
            )
        async with at_the_page(world) as page:
            await expect(page.locator("#progress")).to_have_text("0 answered, 8 open")
            for key in ("s", "m", "l", "r", "d", " "):
                await press(page, key)
            await expect(page.locator("#progress")).to_have_text("5 answered, 2 open")
            await press(page, "R")  # with Shift, or the lock
            async with page.expect_navigation():
                await page.keyboard.press("u")
            await expect(page.locator(".notice")).to_have_text(
                "Undone: both memories are restored."
            )
            await press(page, "s")
            await press(page, "s")
            await expect(page.locator(".empty")).to_contain_text("No questions are open here")
            await expect(page.locator("#progress")).to_have_text("7 answered, 0 open")
        events = [one.event for one in await world.decisions()]
        asked = [one for one in events if isinstance(one, Answer | Undo)]
        told = [one.verdict if isinstance(one, Answer) else "undo" for one in asked]
        assert told == [
            *("same", "refines", "refined-by", "contradicts", "distinct"),
            *("contradicts", "undo", "same", "same"),
        ]
        assert {one.author for one in asked} == {"ana"}


async def test_no_key_answers_while_somebody_types_or_has_switched_them_off(tmp_path: Path) -> None:
    async with serving(tmp_path) as world:
        await world.say("The fox sleeps at noon.", "The fox sleeps at night.")
        before = len(await world.decisions())
        async with at_the_page(world) as page:
            await page.get_by_text("Filter", exact=True).first.click()
            await page.get_by_label("Scope and below").fill("")
            await page.keyboard.type("sdmrlu ")
            await page.keyboard.press("Control+s")
            await page.get_by_label("single keys").uncheck()
            await page.locator("h1").click()
            await page.keyboard.press("s")
            await page.reload()
            await expect(page.get_by_label("single keys")).not_to_be_checked()
            await page.keyboard.press("s")
            await expect(page.locator("#progress")).to_have_text("0 answered, 1 open")
        assert len(await world.decisions()) == before


async def test_hostile_text_is_text_in_every_view(tmp_path: Path) -> None:
    async with serving(tmp_path, judged=True) as world:
        scope = "acme/ana/" + HOSTILE.replace(" ", "").replace("*", "")[:60]
        said = {"source": HOSTILE, "title": HOSTILE}
        for where in ("acme/ana", scope):
            await world.say(f"{HOSTILE} 14 copies", f"{HOSTILE} 30 copies", scope=where, **said)
        async with at_the_page(world) as page:
            shown = 0
            for path in await views(world, page):
                await page.goto(path)
                assert await page.evaluate("window.hurt") is None, path
                assert await page.locator(FOREIGN).count() == 0, path
                assert await page.locator("script").count() == 1, path
                text = await page.evaluate("document.body.textContent")
                shown += HOSTILE[:70] in text
            assert shown >= 7


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_view_fits_a_narrow_screen_and_can_be_read(
    tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    async with serving(tmp_path, judged=True) as world:
        await world.say(
            "The backup keeps 14 copies.", "The backup keeps 30 copies.", source=LONG[:190]
        )
        await world.say(f"{LONG} 14 copies", f"{LONG} 30 copies", scope=f"acme/ana/{LONG[:150]}")
        await world.say("The backup keeps 14 copies.")
        async with at_the_page(world, scheme=scheme, narrow=True) as page:
            for path in await views(world, page):
                await page.goto(path)
                await page.evaluate(
                    "for (const one of document.querySelectorAll('details')) one.open = true"
                )
                assert await page.evaluate(SIZE) <= 0, path
                told = await page.evaluate(CONTRAST)
                assert len(told) > 10
                assert [one for one in told if one[0] < 4.5] == [], path


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_curve_of_the_threshold_can_be_read_on_a_narrow_screen(
    tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    async with serving(tmp_path, judged=True) as world:
        await world.say("The backup keeps 14 copies.", "The backup keeps 30 copies.")
        await world.say("The lease ends in 2026.", "The lease ends in 2027.")
        async with world.someone() as ana:
            await ana.answer("contradicts")
            await ana.answer("same")
        async with at_the_page(world, scheme=scheme, narrow=True) as page:
            await page.goto("/quality")
            drawn = page.get_by_role("img", name="Found against hidden")
            await expect(drawn).to_be_visible()
            await expect(page.locator("svg.curve circle")).to_be_visible()
            box, letters = await drawn.bounding_box(), page.locator("svg.curve text")
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= NARROW["width"]  # whole, without scrolling
            heights = [one["height"] for one in await _boxes(letters)]
            assert min(heights) >= 11  # pixels
            assert await page.evaluate(SIZE) <= 0
            assert [one for one in await page.evaluate(CONTRAST) if one[0] < 4.5] == []


async def _boxes(found: Locator) -> list[FloatRect]:
    boxes = [await one.bounding_box() for one in await found.all()]
    return [box for box in boxes if box is not None]


async def test_the_focus_is_seen_wherever_it_goes(tmp_path: Path) -> None:
    async with serving(tmp_path) as world:
        await world.say("The fox sleeps at noon.", "The fox sleeps at night.")
        async with at_the_page(world) as page:
            seen: list[str] = []
            for _ in range(40):
                await page.keyboard.press("Tab")
                focused = await page.evaluate(
                    "[document.activeElement.outerHTML.slice(0, 80), document.activeElement.tagName, "
                    "parseFloat(getComputedStyle(document.activeElement).outlineWidth)]"
                )
                if focused[1] == "BODY":
                    break
                seen.append(focused[0])
                assert focused[2] >= 3, focused
            assert "Skip to content" in seen[0]
            assert sum("data-key" in one for one in seen) == 6
            await page.locator('[value="same"]').focus()
            async with page.expect_navigation():
                await page.keyboard.press(" ")  # presses what has the focus, and skips nothing
            await expect(page.locator("#progress")).to_have_text("1 answered, 0 open")


async def test_the_newest_decisions_come_by_themselves_until_they_are_stopped(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as world:
        await world.say("The fox sleeps at noon.")
        async with at_the_page(world) as page:
            await page.goto("/decisions")
            await world.say("An owl hunts.")
            await expect(page.locator("li.card").first).to_contain_text(
                "An owl hunts.", timeout=15_000
            )
            await page.get_by_label("live").uncheck()
            await world.say("Hens lay eggs.")
            await page.wait_for_timeout(4_000)
            await expect(page.get_by_text("Hens lay eggs.")).to_have_count(0)


async def test_bounds_are_dragged_to_see_what_they_move(tmp_path: Path) -> None:
    async with serving(tmp_path) as world:
        await world.say("The fox sleeps at noon.", "The fox sleeps at night.")
        async with at_the_page(world) as page:
            await page.goto("/quality")
            drawn = await page.locator("line.bound").first.get_attribute("x1")
            slider = page.get_by_label("match from")
            await slider.focus()
            for _ in range(3):
                await page.keyboard.press("PageDown")
            told = page.locator("#tried p").first
            await expect(told).to_have_text("1 insert: nearest memory in match instead of review")
            assert await page.locator("line.bound").first.get_attribute("x1") != drawn
            await page.keyboard.press("Home")  # below review
            await expect(page.locator("#tried")).to_contain_text("bands must fall")
            await expect(slider).to_be_focused()


async def test_a_link_on_another_site_leads_to_the_view_that_it_names(tmp_path: Path) -> None:
    async with serving(tmp_path) as world:
        [decision] = await world.say("The fox sleeps at noon.")
        async with at_the_page(world) as page:
            target = f"{page.url.removesuffix('/review')}/decisions/{decision.decision_id}"
            await page.route(
                "http://elsewhere.example/",
                lambda route: route.fulfill(
                    body=f"<a href={json.dumps(target)}>why</a>", content_type="text/html"
                ),
            )
            await page.goto("http://elsewhere.example/")
            await page.get_by_text("why").click()
            await expect(page.locator("h1")).to_have_text("Why this was decided")
            assert page.url == target
