from typing import Any

import pytest

from schemas.base import MemoryId
from schemas.memories import (
    VARIANTS_MAX,
    Feedback,
    Memory,
    Persistence,
    Standing,
    Superseded,
    Turns,
)
from streams.model.wordings import SOURCES_MAX
from streams.stage.core.survivorship import (
    SESSIONS_MAX,
    born,
    merged,
    renewed,
    repeated,
    retired,
    seen_again,
    united,
)
from tests.builders import event, identity, later, memory

NEW = MemoryId(identity(9))


def test_a_born_memory_has_all_that_the_event_says() -> None:
    said = event(
        "Ana likes tea.",
        category="taste",
        importance=0.5,
        confidence=0.25,
        tags=("tea",),
        entities=("Ana",),
        persistence="core",
        status="tentative",
        title="Drinks",
        source="ana",
        turn=7,
        session="s1",
        valid_from=later(-9),
        valid_until=later(9),
        pinned=True,
        metadata={"mood": "calm"},
        occurred_at=later(1),
    )
    expected = memory(
        "Ana likes tea.",
        id=NEW,
        status="tentative",
        persistence="core",
        title="Drinks",
        category="taste",
        importance=0.5,
        confidence=0.25,
        tags=("tea",),
        entities=("Ana",),
        valid_from=later(-9),
        valid_until=later(9),
        pinned=True,
        sources=("ana",),
        sessions=("s1",),
        turns=Turns(first=7, last=7),
        metadata={"mood": "calm"},
        created_at=later(1),
        last_seen_at=later(1),
        truncated=True,
    )
    assert born(said, NEW, truncated=True) == expected
    assert Memory.model_validate_json(expected.model_dump_json(), strict=True) == expected


@pytest.mark.covers("S0.33")
def test_a_born_memory_of_a_bare_event_was_seen_once_and_has_nothing_else() -> None:
    assert born(event("Ana likes tea."), NEW, truncated=False) == memory("Ana likes tea.", id=NEW)


def test_what_nobody_has_told_of_a_memory_is_counted_from_nothing() -> None:
    bare = event("Ana likes tea.")
    kept = born(bare, NEW, truncated=False)
    assert (bare.supersedes, kept.merged_from) == ((), ())
    assert (kept.feedback, kept.confidence) == (None, None)
    assert Feedback() == Feedback(accessed=0, helpful=0, harmful=0)


TURNS_2_5 = Turns(first=2, last=5)

UNITED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({}, {"occurred_at": later(-1)}, {"created_at": later(-1)}),
    ({}, {"occurred_at": later(1)}, {"last_seen_at": later(1)}),
    ({"observation_count": 4}, {}, {"observation_count": 5}),
    ({"tags": ("a", "b")}, {"tags": ("b", "c")}, {"tags": ("a", "b", "c")}),
    ({"entities": ("b",)}, {"entities": ("a", "b")}, {"entities": ("b", "a")}),
    ({"sources": ("ana",)}, {"source": "ben"}, {"sources": ("ana", "ben")}),
    ({"sources": ("ana",)}, {"source": "ana"}, {"sources": ("ana",)}),
    ({"sessions": ("s1",)}, {"session": "s2"}, {"sessions": ("s1", "s2")}),
    ({"importance": 0.5}, {"importance": 0.7}, {"importance": 0.7}),
    ({"importance": 0.5}, {"importance": 0.2}, {"importance": 0.5}),
    ({"importance": 0.5}, {}, {"importance": 0.5}),
    ({}, {"importance": 0.0}, {"importance": 0.0}),
    ({"confidence": 0.5}, {}, {"confidence": 0.5}),
    ({}, {"confidence": 0.5}, {"confidence": 0.5}),
    ({"persistence": "permanent"}, {"persistence": "ephemeral"}, {"persistence": "permanent"}),
    ({"persistence": "permanent"}, {"persistence": "core"}, {"persistence": "core"}),
    ({"persistence": "ephemeral"}, {}, {"persistence": "ephemeral"}),
    ({}, {"persistence": "ephemeral"}, {"persistence": "ephemeral"}),
    ({"status": "tentative"}, {"status": "active"}, {"status": "active"}),
    ({"status": "active"}, {"status": "tentative"}, {"status": "active"}),
    ({"status": "tentative"}, {"status": "tentative"}, {"status": "tentative"}),
    ({"category": "taste"}, {"category": "habit"}, {"category": "taste"}),
    ({}, {"category": "habit"}, {"category": "habit"}),
    ({"turns": TURNS_2_5}, {"turn": 9}, {"turns": Turns(first=2, last=9)}),
    ({"turns": TURNS_2_5}, {"turn": 1}, {"turns": Turns(first=1, last=5)}),
    ({"turns": TURNS_2_5}, {"turn": 3}, {"turns": TURNS_2_5}),
    ({"turns": TURNS_2_5}, {}, {"turns": TURNS_2_5}),
    ({}, {"turn": 3}, {"turns": Turns(first=3, last=3)}),
    ({}, {"title": "Drinks"}, {"title": "Drinks"}),
    ({"pinned": True}, {}, {"pinned": True}),
    ({}, {"pinned": True}, {"pinned": True}),
    ({"valid_from": later(-2)}, {"valid_from": later(-3)}, {"valid_from": later(-3)}),
    ({"valid_from": later(-3)}, {"valid_from": later(-2)}, {"valid_from": later(-3)}),
    ({}, {"valid_from": later(-2)}, {"valid_from": later(-2)}),
    ({"valid_from": later(-2)}, {}, {"valid_from": later(-2)}),
    ({}, {"valid_from": later(2)}, {"valid_from": None}),
    ({"valid_until": later(2)}, {"valid_until": later(3)}, {"valid_until": later(3)}),
    ({"valid_until": later(3)}, {"valid_until": later(2)}, {"valid_until": later(3)}),
    ({"valid_until": later(3)}, {}, {"valid_until": None}),
    ({}, {"valid_until": later(3)}, {"valid_until": None}),
    ({"metadata": {"a": 1}}, {"metadata": {"b": 2}}, {"metadata": {"a": 1, "b": 2}}),
]
LABELS: dict[str, Any] = {"title": "Tea", "metadata": {"a": 1, "b": 1}}
OTHER_LABELS: dict[str, Any] = {"title": "Drinks", "metadata": {"a": 2, "c": 2}}


def but_for_wordings(one: Memory) -> Memory:
    """Return a memory without its variants: which are kept has tests of its own below."""
    return one.model_copy(update={"variants": (), "folded": 0})


def survivor(before: dict[str, Any], after: dict[str, Any], **fields: Any) -> Memory:
    """Return the memory with the fields that survive, and the others given."""
    values: dict[str, Any] = {"observation_count": 2, **before, **after, **fields}
    return memory(**values)


@pytest.mark.covers("B49", "B50", "B51", "B69", "B22", "D22", "D23", "S0.33")
@pytest.mark.parametrize(("known", "said", "expected"), UNITED)
def test_what_a_memory_seen_again_keeps_and_gains(
    known: dict[str, Any], said: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = memory("Ana likes tea.", version=3, **known)
    after = seen_again(before, event("Ana likes her tea.", **said))
    assert but_for_wordings(after) == survivor(known, expected, version=4)


@pytest.mark.covers("B49", "B50", "B51", "B69", "B65", "D22", "D23", "D31")
@pytest.mark.parametrize(("known", "said", "expected"), UNITED)
def test_what_a_merged_memory_keeps_of_its_target(
    known: dict[str, Any], said: dict[str, Any], expected: dict[str, Any]
) -> None:
    target = memory("Ana likes tea.", version=3, **known)
    both = "Ana likes tea. Ben plays chess."
    whole = merged([target], event("Ben plays chess.", **said), NEW, both, truncated=False)
    expected = {**expected, "text": both, "id": NEW, "merged_from": (target.id,)}
    assert but_for_wordings(whole) == survivor(known, expected)


@pytest.mark.covers("S4.26")
@pytest.mark.parametrize(
    ("known", "said", "sure"),
    [(0.6, 0.9, 0.96), (0.9, 0.6, 0.96), (0.5, 0.2, 0.6), (0.5, 0.0, 0.5), (1.0, 0.5, 1.0)],
)
def test_a_confirmation_leaves_less_doubt_than_either_of_the_two(
    known: float, said: float, sure: float
) -> None:
    after = seen_again(memory(confidence=known), event(confidence=said))
    assert after.confidence == sure


def test_what_a_merge_adds_confirms_nothing() -> None:
    whole = merged([memory(confidence=0.5)], event(confidence=0.7), NEW, "All.", truncated=False)
    assert whole.confidence == 0.7


def test_an_exact_repeat_adds_no_wording_and_keeps_the_count_of_those_dropped() -> None:
    known = memory("Ana likes tea.", folded=2)
    again = seen_again(known, event("Ana likes tea."))
    assert (again.variants, again.folded) == ((), 2)


def test_a_text_that_is_seen_again_keeps_its_labels() -> None:
    after = seen_again(memory(**LABELS), event(**OTHER_LABELS, occurred_at=later(1)))
    assert after.title == "Tea"
    assert after.metadata == {"a": 1, "b": 1, "c": 2}


@pytest.mark.covers("S1.24")
@pytest.mark.parametrize(
    ("hours", "newest", "older"),
    [
        pytest.param(1, OTHER_LABELS, LABELS, id="the event"),
        pytest.param(0, OTHER_LABELS, LABELS, id="of one time, the one that came last"),
        pytest.param(-1, LABELS, OTHER_LABELS, id="the memory: the event came late"),
    ],
)
def test_a_merged_memory_has_the_labels_of_the_newest(
    hours: float, newest: dict[str, Any], older: dict[str, Any]
) -> None:
    said = event("Ben plays chess.", **OTHER_LABELS, occurred_at=later(hours))
    whole = merged([memory(**LABELS)], said, NEW, "All.", truncated=False)
    assert whole.title == newest["title"]
    assert whole.metadata == older["metadata"] | newest["metadata"]


def test_a_time_still_to_come_is_never_when_a_memory_was_last_seen() -> None:
    """Unless there is no other: 48 hours ahead is in the future in every zone."""
    known, now = memory(), later(1)
    said = event("Ana drinks tea.", title="Drinks", occurred_at=later(49))
    made = [
        seen_again(known, said, now),
        renewed(known, said, now, truncated=False),
        repeated(born(said, NEW, truncated=False), [known], now),
        merged([known], said, NEW, "All.", now, truncated=False),
        united(known, born(said, NEW, truncated=False), now),
    ]
    assert [one.last_seen_at for one in made] == [known.last_seen_at] * 5
    titled = merged([memory(title="Tea")], said, NEW, "All.", now, truncated=False)
    assert titled.title == "Tea"
    first = born(said, NEW, truncated=False)
    assert seen_again(first, said, now).last_seen_at == later(49)


def test_a_merged_memory_unites_all_its_targets_oldest_first() -> None:
    targets = [
        memory("Ana likes tea.", observation_count=2, tags=("a",), category="taste"),
        memory(
            "Ana likes cake.",
            id=identity(2),
            created_at=later(1),
            last_seen_at=later(5),
            observation_count=3,
            tags=("b",),
            category="habit",
            metadata={"k": "second"},
        ),
    ]
    said = event("Ana likes jam.", occurred_at=later(2), tags=("c", "a"), metadata={"k": "new"})
    whole = merged(targets, said, NEW, "All.", truncated=False)
    assert but_for_wordings(whole) == memory(
        "All.",
        id=NEW,
        created_at=later(0),
        last_seen_at=later(5),
        observation_count=6,
        tags=("a", "b", "c"),
        category="taste",
        metadata={"k": "second"},
        merged_from=(identity(1), identity(2)),
    )


@pytest.mark.parametrize(
    ("known", "said", "end"),
    [
        ({}, {"valid_until": later(3)}, later(3)),
        ({"valid_until": later(3)}, {"occurred_at": later(1)}, later(3)),
        ({"valid_until": later(3)}, {"occurred_at": later(4)}, None),
        ({"valid_until": later(3)}, {"occurred_at": later(4), "valid_until": later(2)}, later(3)),
        ({"last_seen_at": later(4)}, {"valid_until": later(3)}, None),
    ],
)
def test_the_same_words_tell_an_end_of_the_whole_memory_unless_it_was_seen_after_it(
    known: dict[str, Any], said: dict[str, Any], end: object
) -> None:
    after = seen_again(memory("Ana likes tea.", **known), event("ana likes  tea.", **said))
    assert after.valid_until == end


ALL_OF_TWO: dict[str, Any] = {
    "tags": ("a", "b"),
    "entities": ("x", "y"),
    "sources": ("ana", "ben"),
    "sessions": ("s1", "s2"),
    "importance": 0.75,
    "confidence": 0.5,
    "observation_count": 7,
    "turns": Turns(first=1, last=9),
    "persistence": "core",
    "status": "active",
    "title": "Tea",
    "category": "taste",
    "pinned": True,
    "valid_from": later(-8),
    "metadata": {"k": "first", "l": 2},
    "created_at": later(-2),
    "last_seen_at": later(5),
}
FIRST = memory(
    "Ana likes tea.",
    version=3,
    merged_from=(identity(5),),
    tags=("a",),
    entities=("x",),
    sources=("ana",),
    sessions=("s1",),
    importance=0.75,
    observation_count=3,
    turns=Turns(first=4, last=9),
    persistence="ephemeral",
    status="tentative",
    title="Tea",
    valid_from=later(-8),
    valid_until=later(8),
    metadata={"k": "first"},
    last_seen_at=later(5),
)
SECOND = memory(
    "Ana loves tea.",
    id=identity(2),
    tags=("b",),
    entities=("y",),
    sources=("ben",),
    sessions=("s2",),
    importance=0.5,
    confidence=0.5,
    observation_count=4,
    turns=Turns(first=1, last=2),
    persistence="core",
    title="Love",
    category="taste",
    pinned=True,
    metadata={"k": "second", "l": 2},
    created_at=later(-2),
)


@pytest.mark.covers("B49", "B50", "B51", "B52", "D22", "D23")
def test_a_memory_that_stands_for_another_keeps_its_id_and_text_and_gains_the_rest() -> None:
    assert but_for_wordings(united(FIRST, SECOND)) == memory(
        "Ana likes tea.", version=4, merged_from=(identity(5), identity(2)), **ALL_OF_TWO
    )


@pytest.mark.covers("B49", "B50", "B51", "D22", "D23")
def test_memories_are_merged_without_an_event_as_with_one() -> None:
    whole = merged([FIRST, SECOND], None, NEW, "Ana likes and loves tea.", truncated=False)
    assert but_for_wordings(whole) == memory(
        "Ana likes and loves tea.",
        id=NEW,
        merged_from=(identity(1), identity(2)),
        **ALL_OF_TWO,
    )


@pytest.mark.covers("B50", "B51")
@pytest.mark.parametrize("first", [FIRST, SECOND])
def test_what_is_counted_or_measured_does_not_depend_on_which_memory_goes_first(
    first: Memory,
) -> None:
    whole = united(first, SECOND if first is FIRST else FIRST)
    fields = {"observation_count", "importance", "confidence", "turns", "persistence", "status"}
    times = {"created_at", "last_seen_at", "valid_from", "valid_until", "pinned"}
    expected = {name: ALL_OF_TWO.get(name) for name in fields | times}
    assert {name: getattr(whole, name) for name in fields | times} == expected


def test_a_renewed_memory_holds_when_its_new_text_does() -> None:
    before = memory(title="Tea", valid_from=later(-9), valid_until=later(9), pinned=True)
    said = event("Ana likes cake.", valid_until=later(4))
    after = renewed(before, said, truncated=False)
    assert (after.valid_from, after.valid_until) == (None, later(4))
    assert (after.title, after.pinned) == ("Tea", True)
    assert renewed(before, event(title="Cake"), truncated=False).title == "Cake"


@pytest.mark.covers("B1", "S1.14")
def test_a_renewed_memory_has_the_events_text_and_standing_and_all_its_history() -> None:
    before = memory(
        "Ana likes tea.",
        version=3,
        observation_count=2,
        tags=("a",),
        truncated=True,
        merged_from=(identity(5),),
    )
    said = event("Ana likes cake.", status="tentative", tags=("b",), occurred_at=later(1))
    assert renewed(before, said, truncated=False) == memory(
        "Ana likes cake.",
        version=4,
        observation_count=2,
        tags=("a", "b"),
        status="tentative",
        last_seen_at=later(1),
        merged_from=(identity(5),),
    )


@pytest.mark.covers("B62", "B63", "B64")
def test_a_retired_memory_keeps_everything_and_names_its_successor() -> None:
    superseded = Superseded(by=NEW, at=later(1), reason="nearly-identical")
    before = memory("Ana likes tea.", version=3, observation_count=2, tags=("a",))
    assert retired(before, superseded) == memory(
        "Ana likes tea.",
        version=4,
        observation_count=2,
        tags=("a",),
        status=Standing.SUPERSEDED,
        superseded=superseded,
    )


def test_of_many_sessions_the_newest_are_kept() -> None:
    before = memory(sessions=tuple(f"s{n}" for n in range(SESSIONS_MAX)))
    after = seen_again(before, event(session="new"))
    assert after.sessions == (*before.sessions[1:], "new")


def test_a_truncated_memory_stays_truncated_when_it_is_seen_again() -> None:
    assert seen_again(memory(truncated=True), event()).truncated


def test_persistence_has_a_strength() -> None:
    assert list(Persistence) == ["ephemeral", "permanent", "core"]


def test_what_observations_add_up_to_can_always_be_written_and_read() -> None:
    """One event is limited; a memory is not: what cannot be read back would stop the partition."""
    whole = memory(metadata={f"first {n}": n for n in range(64)})
    after = seen_again(whole, event(metadata={f"second {n}": n for n in range(64)}))
    assert Memory.model_validate_json(after.model_dump_json(), strict=True) == after


def test_a_memory_that_everybody_repeats_does_not_grow_for_ever() -> None:
    known = memory(
        sources=[f"source {n}" for n in range(256)], sessions=[f"{n}" for n in range(64)]
    )
    again = seen_again(known, event(source="another", session="another", metadata={"a": 1}))
    assert again.sources == known.sources
    assert again.sessions == (*known.sessions[1:], "another")
    assert again.metadata == {"a": 1}
    full = memory(metadata={f"{n}": n for n in range(256)})
    assert seen_again(full, event(metadata={"a": 1})).metadata == full.metadata


def told(one: Memory) -> list[tuple[str, int]]:
    """Return the variants of a memory: their texts, and how often each was seen."""
    return [(variant.text, variant.seen) for variant in one.variants]


@pytest.mark.covers("B47")
def test_another_wording_of_a_memory_is_kept_as_its_variant() -> None:
    known = memory("Tom lives in Leeds.", version=2)
    said = event("Leeds is where Tom lives.", source="ben", occurred_at=later(2))
    once = seen_again(known, said)
    [variant] = once.variants
    assert (variant.text, variant.sources) == ("Leeds is where Tom lives.", ("ben",))
    assert (variant.first_seen_at, variant.last_seen_at) == (later(2), later(2))
    again = seen_again(once, event("leeds is where tom lives", occurred_at=later(3)))
    assert told(again) == [("Leeds is where Tom lives.", 2)]
    assert (once.text, again.folded) == (known.text, 0)


def test_a_merged_memory_words_all_that_its_sources_do_but_for_the_shown_text() -> None:
    first = seen_again(memory("Tom lives in Leeds."), event("Tom is based in Leeds."))
    second = memory("Tom moved to Leeds.", id=identity(2), observation_count=3)
    text = "Tom lives in Leeds. Tom moved to Leeds."
    whole = merged([first, second], event("Leeds is Tom's home."), NEW, text, truncated=False)
    assert set(told(whole)) == {
        ("Tom lives in Leeds.", 1),
        ("Tom is based in Leeds.", 1),
        ("Tom moved to Leeds.", 3),
        ("Leeds is Tom's home.", 1),
    }
    shown = merged([first, second], None, NEW, second.text, truncated=False)
    assert {text for text, _ in told(shown)} == {"Tom lives in Leeds.", "Tom is based in Leeds."}


def test_a_memory_that_takes_the_place_of_what_it_repeats_words_it_as_they_did() -> None:
    known = seen_again(memory("Tom lives in Leeds."), event("Tom is based in Leeds."))
    alone = born(event("Tom Baker lives in Leeds."), NEW, truncated=False)
    assert set(told(repeated(alone, [known]))) == {
        ("Tom lives in Leeds.", 1),
        ("Tom is based in Leeds.", 1),
    }
    assert set(told(united(known, memory("Tom: Leeds", id=identity(2))))) == {
        ("Tom is based in Leeds.", 1),
        ("Tom: Leeds", 1),
    }


def test_a_renewed_memory_leaves_the_wordings_of_its_old_text() -> None:
    known = seen_again(memory("Tom lives in Leeds."), event("Tom is based in Leeds."))
    after = renewed(known, event("Tom lives in York."), truncated=False)
    assert (after.variants, after.folded) == ((), 0)


def test_what_is_folded_is_counted_through_all_that_becomes_of_a_memory() -> None:
    known = memory("Tom lives in Leeds.")
    for number in range(VARIANTS_MAX + 2):
        known = seen_again(known, event(f"Tom lives in Leeds, house {number}."))
    assert (len(known.variants), known.folded) == (VARIANTS_MAX, 2)
    joined = merged([known], event("Leeds it is."), NEW, "Tom: Leeds", truncated=False)
    assert (len(joined.variants), joined.folded) == (VARIANTS_MAX, 4)


def test_who_worded_it_so_is_not_listed_without_end() -> None:
    known = memory("Tom lives in Leeds.")
    for number in range(SOURCES_MAX + 1):
        known = seen_again(known, event("Leeds is Tom's home.", source=f"source {number}"))
    assert known.variants[0].sources == tuple(f"source {n}" for n in range(SOURCES_MAX))
