"""The location-memory document, as the policy zork-semantic does it.

How similar two texts are is the document's, by a table of vectors: what a model makes of them is
another question. Guards, lexicon, index and flow are the real ones.
"""

from typing import Any

import pytest

from schemas.codec import EVENT, Unreadable
from schemas.decisions import Band, Insert, Reason, Reinforce, Replace
from schemas.events import Remember
from schemas.memories import Standing, Turns
from tests.builders import at_cosine, event, later, unit
from tests.support.stage.deciding import World

HERE = "zork/193"
DOOR = "The trap door bars after the descent."
DOOR_AGAIN = "Trap door bars after descent."
"""Says what DOOR says, and the other way round."""
DOOR_IN_FULL = "The heavy old wooden trap door bars quickly after the steep descent."
"""More than one and a half times as long as DOOR, and says all of it."""


def said(text: str, hours: float = 1, **fields: Any) -> Remember:
    return event(text, **{"scope": HERE, "occurred_at": later(hours), **fields})


def world(first: str, second: str, similarity: float) -> World:
    """Return a world of two texts that are so similar."""
    return World("zork-semantic", {first: unit(1), second: at_cosine(similarity)})


@pytest.mark.covers("S0.4", "S0.8", "S0.9", "S0.11", "S0.12", "S0.45", "B6", "B7", "B16")
@pytest.mark.parametrize(
    ("similarity", "kind", "band"),
    [
        (1.0, Reinforce, Band.MATCH),
        (0.95, Reinforce, Band.MATCH),
        (0.94999, Reinforce, Band.REVIEW),
        (0.90, Reinforce, Band.REVIEW),
        (0.85, Reinforce, Band.REVIEW),
        (0.84999, Insert, Band.LOG),
        (0.75, Insert, Band.LOG),
        (0.74999, Insert, None),
        (0.0, Insert, None),
    ],
)
async def test_each_band_has_its_outcome_and_a_bound_belongs_to_the_band_above(
    similarity: float, kind: type, band: Band | None
) -> None:
    here = world(DOOR, DOOR_AGAIN, similarity)
    await here.tell(said(DOOR, 0))
    decision = await here.tell(said(DOOR_AGAIN))
    assert isinstance(decision, kind)
    assert [near.band for near in decision.evidence.neighbours] == ([band] if band else [])
    assert len(await here.memories()) == (1 if kind is Reinforce else 2)


@pytest.mark.covers("S0.8", "S0.9", "S0.10", "S0.15")
@pytest.mark.parametrize(
    ("similarity", "kind", "kept"),
    [(0.95, Reinforce, [DOOR, DOOR_IN_FULL]), (0.94999, Replace, [DOOR_IN_FULL, DOOR])],
)
async def test_a_fuller_text_stands_in_the_middle_band_and_is_counted_in_the_upper(
    similarity: float, kind: type, kept: list[str]
) -> None:
    """From .95 on the document drops what the new text adds: here it stays a wording."""
    here = world(DOOR, DOOR_IN_FULL, similarity)
    await here.tell(said(DOOR, 0))
    assert isinstance(await here.tell(said(DOOR_IN_FULL)), kind)
    assert await here.wordings() == [kept]


@pytest.mark.covers("S0.33", "S0.34", "S0.47")
async def test_a_memory_that_is_seen_again_is_counted_with_its_first_and_last_turn() -> None:
    """The document's scenario: "trap door bars after descending", discovered again at 193."""
    here = world(DOOR, DOOR_AGAIN, 0.96)
    await here.tell(said(DOOR, 0, turn=25, session="Ep01", title="Trap door bars"))
    await here.tell(said(DOOR_AGAIN, 1, turn=48, session="Ep02"))
    [once] = await here.memories()
    assert (once.text, once.title, once.observation_count) == (DOOR, "Trap door bars", 2)
    assert (once.turns, once.sessions) == (Turns(first=25, last=48), ("Ep01", "Ep02"))
    assert (once.created_at, once.last_seen_at) == (later(0), later(1))
    await here.tell(said(DOOR, 2, event_id="third", turn=30, session="Ep01"))
    [once] = await here.memories()
    assert (once.observation_count, once.turns) == (3, Turns(first=25, last=48))
    assert once.sessions == ("Ep01", "Ep02")


@pytest.mark.covers("S0.33")
async def test_a_memory_starts_with_one_observation() -> None:
    here = world(DOOR, DOOR_AGAIN, 0.96)
    await here.tell(said(DOOR))
    [memory] = await here.memories()
    assert memory.observation_count == 1


TENTATIVE: dict[str, Any] = {"status": "tentative"}
ACTIVE: dict[str, Any] = {"status": "active"}
EPHEMERAL: dict[str, Any] = {"persistence": "ephemeral"}
PERMANENT: dict[str, Any] = {"persistence": "permanent"}


@pytest.mark.covers("S0.47", "S0.82", "D22", "B19", "B20")
@pytest.mark.parametrize(
    ("new", "old", "kind"),
    [
        pytest.param(ACTIVE, TENTATIVE, Replace, id="what is believed beats a guess"),
        pytest.param(TENTATIVE, ACTIVE, Insert, id="a guess takes no place"),
        pytest.param(ACTIVE, ACTIVE, Reinforce, id="else the old one stays"),
        pytest.param(TENTATIVE, TENTATIVE, Reinforce, id="also of two guesses"),
        pytest.param(PERMANENT, EPHEMERAL, Replace, id="what holds longer"),
        pytest.param(EPHEMERAL, PERMANENT, Insert, id="never what holds shorter"),
        pytest.param(ACTIVE | EPHEMERAL, TENTATIVE | PERMANENT, Insert, id="not by its status"),
        pytest.param(TENTATIVE | PERMANENT, ACTIVE | EPHEMERAL, Insert, id="status comes first"),
    ],
)
async def test_of_two_similar_memories_the_better_stands(
    new: dict[str, Any], old: dict[str, Any], kind: type
) -> None:
    """Where the document would drop the new one and a guard sees a difference, both are kept."""
    here = world(DOOR, DOOR_AGAIN, 0.9)
    await here.tell(said(DOOR, 0, **old))
    decision = await here.tell(said(DOOR_AGAIN, **new))
    assert isinstance(decision, kind)
    assert decision.evidence.neighbours[0].similarity == 0.9
    standing = {Replace: [DOOR_AGAIN], Reinforce: [DOOR], Insert: [DOOR, DOOR_AGAIN]}
    assert await here.texts() == standing[kind]
    assert await here.retired() == ({DOOR: DOOR_AGAIN} if kind is Replace else {})


@pytest.mark.covers("B21")
@pytest.mark.parametrize(
    ("new", "surplus", "kind"),
    [
        ("The trap door bars after the descent behind an old rug", 0, Reinforce),
        ("The trap door bars after the descent behind an old rug.", 1, Replace),
    ],
)
async def test_a_text_wins_by_length_above_one_and_a_half_times_the_old(
    new: str, surplus: int, kind: type
) -> None:
    old = DOOR.rstrip(".")
    assert len(new) - 1.5 * len(old) == surplus
    here = world(old, new, 0.9)
    await here.tell(said(old, 0, **EPHEMERAL))
    decision = await here.tell(said(new, **EPHEMERAL))
    assert isinstance(decision, kind)


@pytest.mark.covers("D22")
async def test_a_longer_text_that_holds_shorter_replaces_nothing() -> None:
    """Length comes before persistence in the document: the permanent fact would end at reset."""
    here = world(DOOR, DOOR_IN_FULL, 0.9)
    await here.tell(said(DOOR, 0, **PERMANENT))
    assert isinstance(await here.tell(said(DOOR_IN_FULL, **EPHEMERAL)), Insert)
    assert await here.texts() == [DOOR, DOOR_IN_FULL]


@pytest.mark.covers("D22")
async def test_nor_does_one_that_repeats_it_word_for_word() -> None:
    more = f"{DOOR} Grues lurk below."
    here = world(DOOR, more, 0.9)
    await here.tell(said(DOOR, 0, **PERMANENT))
    await here.tell(said(more, **EPHEMERAL))
    kept = [(memory.text, memory.persistence) for memory in await here.memories()]
    assert kept == [(DOOR, "permanent"), (more, "ephemeral")]


async def test_a_guess_is_not_believed_because_it_begins_with_a_known_fact() -> None:
    guess = f"{DOOR} Grues might lurk below."
    here = world(DOOR, guess, 0.9)
    await here.tell(said(DOOR, 0))
    await here.tell(said(guess, **TENTATIVE))
    kept = [(memory.text, memory.status) for memory in await here.memories()]
    assert kept == [(DOOR, Standing.ACTIVE), (guess, Standing.TENTATIVE)]


@pytest.mark.covers("D23", "B50", "B51")
async def test_what_takes_the_place_of_a_repeat_has_its_counts_and_its_beginning() -> None:
    here = world(DOOR, DOOR_IN_FULL, 0.9)
    await here.tell(said(DOOR, 0, turn=3, title="Door", tags=["cellar"], metadata={"a": 1, "b": 1}))
    await here.tell(said(DOOR_IN_FULL, 2, turn=9, title="Old door", metadata={"b": 2}))
    [memory] = await here.memories()
    assert (memory.observation_count, memory.turns) == (2, Turns(first=3, last=9))
    assert (memory.created_at, memory.last_seen_at) == (later(0), later(2))
    assert (memory.title, memory.tags, memory.metadata) == (
        "Old door",
        ("cellar",),
        {"a": 1, "b": 2},
    )


FRIENDLY, ATTACKS = "Troll might be friendly.", "Troll attacks unprovoked."


@pytest.mark.covers("S0.14", "S0.15", "S0.49", "S0.82", "D8")
async def test_a_guess_gives_way_to_what_is_found_out_and_is_compared_no_more() -> None:
    """The document's scenario, at its similarity of .88; the model would say .447."""
    here = World(
        "zork-semantic",
        {FRIENDLY: unit(1), ATTACKS: at_cosine(0.88), "Troll may be a friend.": at_cosine(0.99, 2)},
    )
    await here.tell(said(FRIENDLY, 0, **TENTATIVE))
    decision = await here.tell(said(ATTACKS))
    assert isinstance(decision, Replace)
    assert decision.evidence.reason is Reason.BETTER_THAN_KNOWN
    [memory] = await here.memories()
    assert (memory.text, memory.status) == (ATTACKS, Standing.ACTIVE)
    assert await here.retired() == {FRIENDLY: ATTACKS}
    later_on = await here.tell(said("Troll may be a friend.", 2, **TENTATIVE))
    compared = [near.memory_id for near in later_on.evidence.neighbours]
    assert compared == [memory.id]


@pytest.mark.covers("D2")
async def test_a_guess_about_another_thing_is_not_settled() -> None:
    guess, fact = "The blue button might open the dam.", "The red button opens the dam."
    here = world(guess, fact, 0.93)
    await here.tell(said(guess, 0, **TENTATIVE))
    await here.tell(said(fact))
    assert await here.texts() == [guess, fact]


@pytest.mark.covers("S0.6", "S0.45", "S0.50", "B58", "B59", "D4")
async def test_memories_of_two_places_are_never_compared() -> None:
    text, other = "Window entry leads to Kitchen.", "Window entry leads to Chamber."
    here = world(text, other, 0.99)
    await here.tell(said(text, 0, scope="zork/79"))
    decision = await here.tell(said(other, scope="zork/134"))
    assert isinstance(decision, Insert)
    assert decision.evidence.neighbours == ()
    again = await here.tell(said(text, 2, scope="zork/134", event_id="there"))
    assert isinstance(again, Insert)
    assert await here.texts("zork/79") == [text]
    assert await here.texts("zork/134") == [other, text]


@pytest.mark.covers("S0.6", "S0.45")
async def test_in_an_empty_place_everything_is_new() -> None:
    decision = await world(DOOR, DOOR_AGAIN, 0.9).tell(said(DOOR))
    assert isinstance(decision, Insert)
    assert decision.evidence.reason is Reason.NOTHING_NEAR


@pytest.mark.covers("S0.7", "S0.45")
async def test_of_several_the_most_similar_is_the_one_that_is_known() -> None:
    near, far = "A trap door bars after a descent.", "The trap door bars after a descent."
    here = World(
        "zork-semantic",
        {
            DOOR: unit(1),
            far: at_cosine(0.3, 2),
            near: at_cosine(0.5, 3),
            DOOR_AGAIN: at_cosine(0.9),
        },
    )
    await here.hear(said(near, 0), said(far, 0), said(DOOR, 0))
    decision = await here.tell(said(DOOR_AGAIN))
    assert isinstance(decision, Reinforce)
    assert (decision.memory.text, decision.evidence.neighbours[0].similarity) == (DOOR, 0.9)


@pytest.mark.covers("S0.45")
@pytest.mark.parametrize("again", [DOOR, DOOR.upper(), "  the TRAP door bars after the descent. "])
async def test_the_same_words_are_known_in_any_case(again: str) -> None:
    here = world(DOOR, again, 0.0)
    await here.tell(said(DOOR, 0))
    decision = await here.tell(said(again, event_id="again"))
    assert isinstance(decision, Reinforce)
    assert decision.evidence.reason is Reason.SAME_CONTENT


@pytest.mark.covers("S0.45", "D8")
@pytest.mark.parametrize("similarity", [0.96, 0.88])
async def test_two_wordings_become_one_memory_that_keeps_both(similarity: float) -> None:
    ajar, open_ = "Window is ajar.", "Window slightly open."
    here = world(ajar, open_, similarity)
    await here.tell(said(ajar, 0))
    await here.tell(said(open_))
    assert await here.wordings() == [[ajar, open_]]
    assert await here.retired() == {}


@pytest.mark.covers("S0.8")
async def test_nine_sightings_that_differ_in_articles_are_one_memory() -> None:
    wordings = [
        "The trap door bars after the descent.",
        "Trap door bars after descent.",
        "A trap door bars after a descent.",
        "The trap door bars after a descent.",
        "Trap door bars after the descent.",
        "A trap door bars after the descent.",
        "The trap door bars after descent.",
        "Trap door bars after a descent.",
        "A trap door bars after descent.",
    ]
    vectors = {text: at_cosine(0.95, 1 + at % 7) for at, text in enumerate(wordings)}
    here = World("zork-semantic", vectors | {wordings[0]: unit(1)})
    await here.hear(*(said(text, at) for at, text in enumerate(wordings)))
    [memory] = await here.memories()
    assert memory.observation_count == 9


@pytest.mark.parametrize("text", ["", "   "])
def test_a_blank_text_is_no_event(text: str) -> None:
    """The document stores it unchecked; it becomes a dead letter."""
    blank = EVENT.encode(said(DOOR, event_id="1")).replace(DOOR.encode(), text.encode())
    with pytest.raises(Unreadable, match="text is empty or only white space"):
        EVENT.decode(blank)


@pytest.mark.covers("B81")
async def test_nothing_is_decided_on_a_text_that_is_read_in_part() -> None:
    """The document cuts at 500 characters and compares what is left: here both are kept."""
    long = f"{DOOR} " + "The stairs are steep and dark. " * 16
    assert len(long) > 500
    here = world(DOOR, long, 0.99)
    await here.tell(said(DOOR, 0))
    decision = await here.tell(said(long))
    assert isinstance(decision, Insert)
    assert (decision.evidence.reason, decision.evidence.truncated) == (Reason.TRUNCATED, True)


@pytest.mark.covers("D1", "D2", "S0.4", "S0.45")
@pytest.mark.parametrize("similarity", [0.99, 0.9])
async def test_what_differs_in_one_thing_survives_at_any_similarity(similarity: float) -> None:
    buttons = [
        f"The {colour} button does nothing." for colour in ("blue", "red", "yellow", "brown")
    ]
    first, *others = buttons
    vectors = {text: at_cosine(similarity, 1 + at) for at, text in enumerate(others)}
    here = World("zork-semantic", {first: unit(1)} | vectors)
    await here.hear(*(said(text, at) for at, text in enumerate(buttons)))
    assert await here.texts() == buttons
