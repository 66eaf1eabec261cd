"""The agent-memory analysis, as the policy agent-memory does it."""

from collections.abc import Callable
from typing import Any

import pytest

from schemas.decisions import Insert, Merge, Reason, Reinforce, Verdict
from schemas.events import Remember
from streams.model.policy import parse
from streams.model.ports.models import NoAnswer
from streams.model.verdict import Pair
from streams.store.app import policies
from tests.builders import at_cosine, event, later, unit
from tests.fakes.judges import Said
from tests.support.stage.deciding import World, always

USUALLY = "User likes coffee, flat white usually."
FAVOURITE = "They are a coffee enthusiast, favourite coffee is flatwhite."
ESPECIALLY = "User loves coffee, especially flat white."
BROKE = "User broke the pour-over set."
BROKEN = [
    "The pour-over set of the user is broken.",
    "User's pour-over kit went to pieces.",
    "A pour-over set was broken by the user.",
]


def said(text: str, hours: float = 1, **fields: Any) -> Remember:
    return event(text, **{"scope": "acme/tyler", "occurred_at": later(hours), **fields})


def world(distance: float, verdicts: Callable[[Pair], Said] | None) -> World:
    """Return a world of two wordings that are so far apart: 1 - cosine."""
    vectors = {USUALLY: unit(1), ESPECIALLY: at_cosine(1 - distance)}
    return World("agent-memory", vectors, verdicts=verdicts)


def silent(pair: Pair) -> Said:
    del pair
    return NoAnswer("timeout")


@pytest.mark.covers("S4.9", "B7", "B8")
@pytest.mark.parametrize(
    ("distance", "kind"),
    [(0.0, Reinforce), (0.25, Reinforce), (0.35, Reinforce), (0.35001, Insert), (0.5, Insert)],
)
async def test_what_lies_within_the_distance_is_asked_about(distance: float, kind: type) -> None:
    here = world(distance, always(Verdict.SAME))
    await here.tell(said(USUALLY, 0))
    assert isinstance(await here.tell(said(ESPECIALLY)), kind)
    assert here.judge is not None
    assert len(here.judge.asked) == (0 if kind is Insert else 1)


@pytest.mark.covers("S4.2", "S4.3", "S4.11", "D8")
@pytest.mark.parametrize(("distance", "text"), [(0.28, FAVOURITE), (0.25, ESPECIALLY)])
async def test_the_documents_worked_example_at_its_own_distances(
    distance: float, text: str
) -> None:
    """Stored under the old limit of .12, one memory under .35."""
    vectors = {USUALLY: unit(1), text: at_cosine(1 - distance)}
    here = World("agent-memory", vectors, verdicts=always(Verdict.SAME))
    await here.tell(said(USUALLY, 0))
    assert isinstance(await here.tell(said(text)), Reinforce)
    assert await here.texts() == [USUALLY]


@pytest.mark.covers("S4.1", "S4.2", "S4.10")
async def test_of_the_issues_seven_memories_two_remain() -> None:
    coffee, broken = [USUALLY, FAVOURITE, ESPECIALLY], [BROKE, *BROKEN]
    vectors = {text: at_cosine(0.9, at + 1) for at, text in enumerate(coffee)}
    around = [
        (0, 0, 0, 0, 1),
        (0, 0, 0, 0, 1, 0.5),
        (0, 0, 0, 0, 1, 0, 0.5),
        (0, 0, 0, 0, 1, 0.5, 0.5),
    ]
    vectors |= {text: unit(*at) for text, at in zip(broken, around, strict=True)}

    def is_one_fact(pair: Pair) -> Said:
        one = (pair.event.text in coffee) is (pair.memory.text in coffee)
        return Verdict.SAME if one else Verdict.DISTINCT

    here = World("agent-memory", vectors, verdicts=is_one_fact)
    heard = [coffee[0], broken[0], broken[1], coffee[1], broken[2], coffee[2], broken[3]]
    await here.hear(*(said(text, at) for at, text in enumerate(heard)))
    found = {memory.text: memory.observation_count for memory in await here.memories()}
    assert found == {USUALLY: 3, BROKE: 4}


@pytest.mark.covers("S4.4", "S4.28", "B1", "B2", "B5")
async def test_the_same_id_comes_before_the_same_words_and_these_before_what_is_near() -> None:
    here = world(0.2, always(Verdict.SAME))
    await here.tell(said(USUALLY, 0, memory_id="coffee"))
    by_id = await here.tell(said(ESPECIALLY, 1, memory_id="coffee"))
    assert (by_id.kind, by_id.evidence.reason) == ("replace", Reason.SAME_MEMORY_ID)
    assert await here.texts() == [ESPECIALLY]
    by_words = await here.tell(said(ESPECIALLY.lower(), 2))
    assert (by_words.kind, by_words.evidence.reason) == ("reinforce", Reason.SAME_CONTENT)
    near = await here.tell(said(USUALLY, 3, event_id="near"))
    assert (near.kind, near.evidence.reason) == ("reinforce", Reason.SAME_FACT)
    far = World("agent-memory", {BROKE: unit(1)})
    assert (await far.tell(said(BROKE))).kind == "insert"


@pytest.mark.covers("S4.6", "B9", "B56", "B58")
async def test_the_ten_nearest_of_the_own_scope_are_asked_about() -> None:
    nouns = ["mug", "cup", "pot", "jug", "jar", "can", "tin", "box", "bag", "urn", "vat", "tub"]
    texts = [f"User keeps a {noun} for coffee there." for noun in nouns]
    vectors = {text: unit(1, 0, *[0.1] * (at % 3), at / 40) for at, text in enumerate(texts)}
    here = World("agent-memory", {USUALLY: unit(1)} | vectors, verdicts=always(Verdict.DISTINCT))
    await here.hear(*(said(text, 0) for text in texts))
    decision = await here.tell(said(USUALLY))
    assert len(decision.evidence.neighbours) == 10
    elsewhere = await here.tell(said(USUALLY, 2, scope="acme/other", event_id="elsewhere"))
    assert elsewhere.evidence.neighbours == ()


@pytest.mark.covers("S4.5")
@pytest.mark.parametrize(("limit", "stored"), [(0.12, 2), (0.2, 2), (0.35, 1), (0.25, 1)])
async def test_the_distance_is_configured_in_the_policy(limit: float, stored: int) -> None:
    """A pair .25 apart: under the issue's earlier limits both are stored, from .25 on they are one."""
    as_shipped = policies.text("agent-memory")
    assert policies.load("agent-memory").bands.review == pytest.approx(1 - 0.35)
    configured = as_shipped.replace("match = 0.65", f"match = {1 - limit}").replace(
        "review = 0.65", f"review = {1 - limit}"
    )
    vectors = {USUALLY: unit(1), ESPECIALLY: at_cosine(1 - 0.25)}
    here = World(parse(configured), vectors, verdicts=always(Verdict.SAME))
    await here.hear(said(USUALLY, 0), said(ESPECIALLY))
    assert len(await here.texts()) == stored


@pytest.mark.covers("S4.7", "S4.9", "S4.28", "B13", "B65")
async def test_what_the_model_confirms_to_overlap_is_worded_as_one_and_the_old_one_retired() -> (
    None
):
    milk = "User likes coffee with oat milk."
    hot = "User likes hot coffee."
    both = "User likes hot coffee with oat milk."
    here = World(
        "agent-memory",
        {hot: unit(1), milk: at_cosine(0.7), both: at_cosine(0.85)},
        verdicts={(milk, hot): Verdict.OVERLAPS},
        wordings=[both],
    )
    await here.tell(said(hot, 0))
    assert isinstance(await here.tell(said(milk)), Merge)
    assert await here.wordings() == [[both, hot, milk]]
    assert await here.retired() == {hot: both}


@pytest.mark.covers("S4.9", "D5", "D16")
@pytest.mark.parametrize("verdicts", [None, silent])
@pytest.mark.parametrize("distance", [0.0, 0.01, 0.35])
async def test_nothing_that_nobody_confirms_is_merged(
    distance: float, verdicts: Callable[[Pair], Said] | None
) -> None:
    here = world(distance, verdicts)
    await here.tell(said(USUALLY, 0))
    decision = await here.tell(said(ESPECIALLY))
    assert isinstance(decision, Insert)
    assert decision.evidence.reason is Reason.UNSURE
    assert await here.texts() == [USUALLY, ESPECIALLY]


@pytest.mark.covers("S4.26")
async def test_a_confirmation_raises_the_confidence_and_adds_no_entry() -> None:
    """The document's delta: it "updates confidence, not new entry"."""
    known, delta = "User likes flat white", "Confirmed: still prefers flat white"
    vectors = {known: unit(1), delta: at_cosine(0.7)}
    here = World("agent-memory", vectors, verdicts=always(Verdict.SAME))
    await here.tell(said(known, 0, confidence=0.6))
    assert isinstance(await here.tell(said(delta, confidence=0.6)), Reinforce)
    [memory] = await here.memories()
    assert (memory.text, memory.confidence, memory.observation_count) == (known, 0.84, 2)
    await here.tell(said(delta, 2, event_id="untold"))
    assert [one.confidence for one in await here.memories()] == [0.84]
