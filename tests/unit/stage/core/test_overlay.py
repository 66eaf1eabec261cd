from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import MemoryId, Position, ScopeName
from schemas.decisions import (
    Decision,
    Evidence,
    Ignore,
    Insert,
    Merge,
    Reason,
    Reinforce,
    Revise,
    Revised,
    Verdict,
)
from schemas.events import Remember
from schemas.memories import Memory, Superseded
from streams.judges.lexicons import english
from streams.model.embedding import Vector, pack
from streams.model.identity import content_key
from streams.model.merge import append
from streams.model.neighbours import StoredMemory, rank
from streams.model.verdict import Judgement
from streams.stage.core.case import Case, EncodedVector, PendingMerge
from streams.stage.core.decide import decide, ignore, recognise, rename
from streams.stage.core.ledger import effects
from streams.stage.core.overlay import Fork, Overlay
from streams.stage.core.survivorship import retired
from streams.text.reading import TextAnalyzer
from tests.builders import MODEL, START, at_cosine, carrying, event, identity, policy, stored, unit

READINGS = TextAnalyzer(english())

ANA = ScopeName("acme/ana")
BEN = ScopeName("acme/ben")
TEA = "Ana likes coffee."
CAKE = "Ana likes cake."
OLD = stored("Ana was in Lisbon.", id=identity(1))
"""What the index has."""


def case(text: str, number: int = 0, scope: ScopeName = ANA) -> Case[Remember]:
    said = event(text, event_id=f"event {number}", scope=scope)
    return Case(said, Position(topic="memory.events", partition=0, offset=number), policy())


def encoded(vector: Vector) -> EncodedVector:
    return EncodedVector(vector, pack(vector, MODEL), truncated=False)


def inserted(text: str, vector: Vector, number: int = 0, scope: ScopeName = ANA) -> Insert:
    made = decide(case(text, number, scope), encoded(vector), [], [])
    assert isinstance(made, Insert)
    return made


def merged(text: str, known: Sequence[StoredMemory], number: int = 0) -> Merge:
    asked = case(text, number)
    near = rank(unit(1), known, bands=policy().bands, floor=0.5, limit=8)
    made = decide(asked, encoded(unit(1)), near, [Judgement(Verdict.UNSURE, "test") for _ in near])
    assert isinstance(made, PendingMerge)
    joined = append(made.parts, READINGS)
    whole = made.merged(joined, encoded(unit(1)), ())
    assert isinstance(whole, Merge)
    return carrying(whole)


def ignored(text: str, number: int) -> Ignore:
    asked = case(text, number)
    return ignore(asked, Reason.SAME_EVENT)


def forked(*decisions: Decision, overlay: Overlay | None = None) -> Fork:
    fork = (overlay or Overlay()).fork()
    for decision in decisions:
        fork.record(decision)
    return fork


def seen(
    fork: Fork, hits: Sequence[StoredMemory] = (), limit: int = 8
) -> list[tuple[Memory, bytes]]:
    """Return the candidates near the first axis, by id."""
    candidates = fork.near(ANA, unit(1), hits, limit)
    return sorted(
        ((c.memory, b"" if c.vector is None else c.vector.tobytes()) for c in candidates),
        key=lambda pair: pair[0].id,
    )


def value(memory_: Memory, vector: Vector) -> tuple[Memory, bytes]:
    return memory_, vector.tobytes()


def held(overlay: Overlay) -> int:
    """Count what the containers inside an overlay hold."""
    outer: dict[str, Any] = dict(vars(overlay))
    layer: object = outer.pop("_layer")
    inner: dict[str, Any] = dict(vars(layer))
    del outer["settled"], outer["_newest"], outer["recent"]
    parts: list[Any] = [*outer.values(), *inner.values()]
    return sum(len(part) for part in parts)


@pytest.mark.covers("D27", "B75")
def test_an_event_sees_the_decisions_before_it() -> None:
    made = inserted(TEA, at_cosine(0.9))
    fork = forked(made)
    assert seen(fork) == [value(made.memory, at_cosine(0.9))]
    assert fork.decided(made.decision_id) == content_key(ANA, TEA)
    assert fork.with_content(ANA, content_key(ANA, TEA), []) is not None
    assert fork.with_content(ANA, content_key(ANA, CAKE), []) is None


def test_a_fork_sees_what_its_base_holds() -> None:
    overlay = Overlay()
    coffee, cake = inserted(TEA, at_cosine(0.9)), inserted(CAKE, at_cosine(0.8), 1)
    overlay.join([coffee], [0])
    fork = forked(cake, overlay=overlay)
    expected = [value(coffee.memory, at_cosine(0.9)), value(cake.memory, at_cosine(0.8))]
    assert seen(fork) == sorted(expected, key=lambda pair: pair[0].id)
    assert fork.decided(coffee.decision_id) == content_key(ANA, TEA)
    assert fork.with_content(ANA, content_key(ANA, TEA), []) is not None
    assert set(fork.changed(ANA)) == {coffee.memory.id, cake.memory.id}


def test_a_discarded_fork_leaves_its_base_as_it_was() -> None:
    overlay = Overlay()
    coffee = inserted(TEA, unit(1))
    overlay.join([coffee], [0])
    known = StoredMemory(coffee.memory, unit(1))
    forked(merged("Ana likes coffee a lot.", [known], 1), ignored(CAKE, 2))
    forked(rename(case(CAKE, 3), coffee.memory, encoded(at_cosine(0.7))), overlay=overlay)
    assert len(overlay) == 1
    assert seen(overlay.fork()) == [value(coffee.memory, unit(1))]
    assert overlay.fork().decided(case(CAKE, 3).decision_id) is None
    assert overlay.fork().with_content(ANA, content_key(ANA, CAKE), []) is None


@pytest.mark.covers("B59")
def test_a_scope_sees_nothing_of_another() -> None:
    made = inserted(TEA, unit(1), scope=BEN)
    fork = forked(made)
    assert seen(fork) == []
    assert fork.changed(ANA) == {}
    assert fork.with_content(ANA, content_key(ANA, TEA), []) is None


def test_settling_forgets_exactly_what_lies_before_the_offset() -> None:
    overlay = Overlay()
    coffee, cake = inserted(TEA, unit(1)), inserted(CAKE, unit(1), 1)
    again = ignored(TEA, 0)
    overlay.join([coffee, cake, again], [4, 5, 6])
    kept: list[tuple[set[MemoryId], bool, bool]] = []
    for offset in (4, 5, 6, 7):
        overlay.settle(offset)
        fork = overlay.fork()
        decided = [fork.decided(d.decision_id) is not None for d in (coffee, cake)]
        kept.append((set(fork.changed(ANA)), decided[0], decided[1]))
    assert kept == [
        ({coffee.memory.id, cake.memory.id}, True, True),
        ({cake.memory.id}, False, True),
        (set(), False, False),
        (set(), False, False),
    ]


@pytest.mark.covers("C7")
def test_an_event_that_changed_nothing_is_remembered_as_little_as_the_index_remembers_it() -> None:
    overlay = Overlay()
    late = ignored(TEA, 0)
    overlay.join([late], [4])
    assert overlay.fork().decided(late.decision_id) is None


def revised(*memories: Memory, number: int = 9) -> Revise:
    """Return the decision by which somebody has made memories what they are."""
    made = case("asked", number)
    vectors = [pack(unit(2), MODEL) if one.live else None for one in memories]
    return Revise(
        decision_id=made.decision_id,
        event=made.event,
        source=made.source,
        policy_id=made.policy.id,
        evidence=Evidence(reason=Reason.UNDONE),
        memories=tuple(
            Revised(memory=one, embedding=vector)
            for one, vector in zip(memories, vectors, strict=True)
        ),
    )


def ended(one: Memory) -> Memory:
    return retired(one, Superseded(by=None, at=START, reason="undone"))


def test_what_was_ended_is_neither_near_nor_known_by_its_words_but_has_a_state() -> None:
    coffee = inserted(TEA, unit(1))
    gone = ended(coffee.memory)
    fork = forked(coffee, revised(gone))
    assert seen(fork) == []
    assert fork.with_content(ANA, content_key(ANA, TEA), []) is None
    state = fork.state(ANA, coffee.memory.id, None)
    assert state is not None
    assert state.memory == gone


def test_what_came_back_is_near_by_its_new_vector_and_known_by_its_words() -> None:
    coffee = inserted(TEA, unit(1))
    gone = ended(coffee.memory)
    back = coffee.memory.model_copy(update={"version": 3})
    fork = forked(coffee, revised(gone), revised(back, number=10))
    held = fork.with_content(ANA, content_key(ANA, TEA), [])
    assert held is not None
    assert held.memory == back
    assert seen(fork) == [(back, unit(2).tobytes())]
    assert fork.current(ANA, StoredMemory(coffee.memory, unit(1))) == held


def test_the_state_of_what_a_merge_has_retired_is_told_by_the_index_where_it_knows_it() -> None:
    whole = merged("Ana likes coffee a lot.", [OLD])
    fork = forked(whole)
    identity = whole.targets[0].memory_id
    assert fork.state(ANA, identity, None) is None
    state = fork.state(ANA, identity, OLD)
    assert state is not None
    assert (state.memory.live, state.memory.version, state.vector) == (False, 2, OLD.vector)
    assert fork.state(ANA, MemoryId("nobody"), None) is None


def test_a_memory_is_kept_until_its_last_change_is_applied() -> None:
    overlay = Overlay()
    coffee = inserted(TEA, at_cosine(0.9))
    again = recognise(case(TEA, 1), coffee.memory)
    overlay.join([coffee], [0])
    overlay.join([again], [1])
    overlay.settle(1)
    assert seen(overlay.fork()) == [value(again.memory, at_cosine(0.9))]
    overlay.settle(2)
    assert len(overlay) == 0


def test_a_retired_memory_hides_what_the_index_found() -> None:
    whole = merged("Ana was in Lisbon, gladly.", [OLD])
    fork = forked(whole)
    candidates = fork.near(ANA, unit(1), [OLD], 8)
    assert [candidate.memory for candidate in candidates] == [whole.memory]
    assert fork.changed(ANA) == {OLD.memory.id: None, whole.memory.id: candidates[0]}
    assert fork.current(ANA, OLD) is None
    held = fork.with_content(ANA, OLD.memory.content_key, [OLD])
    assert held is not None
    assert held.memory.id == whole.memory.id  # its words are a variant now


def test_a_memory_seen_again_keeps_the_vector_of_the_index() -> None:
    again = recognise(case("Ana was in Lisbon."), OLD.memory)
    fork = forked(again)
    candidates = fork.near(ANA, unit(1), [OLD], 8)
    current = fork.current(ANA, OLD)
    assert current is not None
    for known in (*candidates, current):
        assert (known.memory, known.vector is OLD.vector) == (again.memory, True)
    assert len(candidates) == 1
    assert seen(fork) == []


def test_a_renamed_memory_hides_what_the_index_found_and_is_found_by_its_new_words() -> None:
    renamed = rename(case(CAKE), OLD.memory, encoded(at_cosine(0.7)))
    fork = forked(renamed)
    candidates = fork.near(ANA, unit(1), [OLD], 8)
    assert seen(fork, [OLD]) == [value(renamed.memory, at_cosine(0.7))]
    assert fork.with_content(ANA, OLD.memory.content_key, [OLD]) is None
    assert fork.with_content(ANA, content_key(ANA, CAKE), []) == candidates[0]


def test_of_several_memories_with_the_same_words_the_smallest_id_is_found() -> None:
    overlay = Overlay()
    coffee, cake = inserted(TEA, unit(1)), inserted(CAKE, unit(1), 1)
    overlay.join([coffee, cake, rename(case(TEA, 2), cake.memory, encoded(unit(1)))], [0, 1, 2])
    found = overlay.fork().with_content(ANA, content_key(ANA, TEA), [])
    assert found is not None
    assert found.memory.id == min(coffee.memory.id, cake.memory.id)


@given(st.integers(1, 4), st.lists(st.floats(0.5, 1, width=32), min_size=20, max_size=40))
def test_of_many_memories_the_nearest_are_nominated(limit: int, cosines: list[float]) -> None:
    decisions = [
        inserted(f"Ana likes thing {number}.", at_cosine(cosine), number)
        for number, cosine in enumerate(cosines)
    ]
    everyone = [
        StoredMemory(d.memory, at_cosine(c)) for d, c in zip(decisions, cosines, strict=True)
    ]
    candidates = forked(*decisions).near(ANA, unit(1), [], limit)
    nearest = [
        [n.similarity for n in rank(unit(1), some, bands=policy().bands, floor=-1, limit=limit)]
        for some in (candidates, everyone)
    ]
    assert nearest[0] == nearest[1]


def life() -> list[Decision]:
    """Return decisions of every kind on two scopes."""
    coffee, bens = inserted(TEA, unit(1)), inserted(TEA, unit(1), 1, BEN)
    again = recognise(case("ana likes TEA", 2), coffee.memory)
    renamed = rename(case(CAKE, 3), again.memory, encoded(unit(1)))
    whole = merged("Ana likes cake a lot.", [StoredMemory(renamed.memory, unit(1))], 4)
    return [coffee, bens, again, renamed, whole, ignored(TEA, 0)]


def reworded(text: str, known: StoredMemory, vector: Vector, number: int) -> Reinforce:
    """Return the decision that the event says what a memory does, in other words."""
    asked, near = case(text, number), rank(vector, [known], bands=policy().bands, floor=-1, limit=1)
    made = decide(asked, encoded(vector), near, [Judgement(Verdict.SAME, "test")])
    assert isinstance(made, Reinforce)
    return made


def test_a_memory_is_found_by_a_wording_that_the_index_does_not_have_yet() -> None:
    """The index finds it by no other: what it knows is joined where it is asked for."""
    again = reworded("In Lisbon Ana was.", OLD, unit(0, 1), 1)
    fork = forked(again)
    [found] = fork.near(ANA, unit(0, 1), [], 8)
    assert (found.memory, found.vector) == (again.memory, None)
    assert list(found.wordings) == [again.memory.variants[0].content_key]
    whole = fork.current(ANA, OLD)
    assert whole is not None
    assert whole.is_whole
    assert whole.nearest(unit(0, 1)) == (1.0, again.memory.variants[0].content_key)
    assert whole.nearest(unit(1)) == found.after(OLD).nearest(unit(1))
    [hit] = fork.near(ANA, unit(0, 1), [OLD], 8)
    assert hit.is_whole


def test_the_words_of_a_variant_are_known_by_themselves() -> None:
    again = reworded("In Lisbon Ana was.", OLD, unit(0, 1), 1)
    key = content_key(ANA, "in lisbon  ana WAS.")
    found = forked(again).with_content(ANA, key, [])
    assert found is not None
    assert found.memory == again.memory
    renamed = rename(case(CAKE, 2), again.memory, encoded(unit(1)))
    assert forked(again, renamed).with_content(ANA, key, []) is None


def test_it_does_not_matter_which_states_of_a_memory_are_joined_first() -> None:
    first = reworded("In Lisbon Ana was.", OLD, unit(0, 1), 1)
    held = StoredMemory(
        first.memory, OLD.vector, variants={first.memory.variants[0].content_key: unit(0, 1)}
    )
    second = reworded("Lisbon: Ana", held, unit(0, 0, 1), 2)
    [one], [other] = effects(first), effects(second)
    assert isinstance(one, StoredMemory)
    assert isinstance(other, StoredMemory)
    early, late = other.after(one).after(OLD), other.after(one.after(OLD))
    assert early.is_whole
    assert (early.memory, list(early.wordings)) == (late.memory, list(late.wordings))
    for vector, same in zip(early.wordings.values(), late.wordings.values(), strict=True):
        assert vector.tobytes() == same.tobytes()


@given(st.lists(st.integers(0, 7), max_size=8).map(sorted))
def test_nothing_is_held_once_everything_is_settled(offsets: list[int]) -> None:
    overlay = Overlay()
    overlay.join(life(), range(6))
    for offset in offsets:
        overlay.settle(offset)
    overlay.settle(6)
    assert (held(overlay), len(overlay)) == (0, 0)


def test_a_decision_that_comes_again_behind_later_ones_changes_nothing() -> None:
    """As a send does whose acknowledgement was lost."""
    first = inserted(TEA, unit(1))
    again = recognise(case(TEA, 1), first.memory)
    renamed = rename(case(CAKE, 2), again.memory, encoded(unit(0, 1)))
    overlay = Overlay()
    overlay.join([first, again, renamed], [0, 1, 2])
    expected = seen(overlay.fork())
    overlay.join([again, first], [3, 4])
    assert seen(overlay.fork()) == expected
    overlay.settle(5)
    assert held(overlay) == 0


def test_a_memory_that_was_retired_does_not_come_back_with_an_old_decision() -> None:
    first = inserted(TEA, unit(1))
    whole = merged("Ana buys cups.", [StoredMemory(first.memory, unit(1))], 1)
    overlay = Overlay()
    overlay.join([first, whole, first], [0, 1, 2])
    assert [memory.id for memory, _ in seen(overlay.fork())] == [whole.memory.id]
