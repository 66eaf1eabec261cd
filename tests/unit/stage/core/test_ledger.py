import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.base import MemoryId, Position
from schemas.decisions import (
    Change,
    Decision,
    Evidence,
    Ignore,
    Insert,
    Merge,
    Reason,
    Reinforce,
    Reject,
    Replace,
    Revise,
)
from schemas.events import DECIDED_MAX, Remember
from schemas.memories import Superseded, Target
from streams.model.embedding import Vector, pack
from streams.model.identity import rejection_id
from streams.model.neighbours import StoredMemory
from streams.model.wordings import with_vectors
from streams.stage.core import survivorship
from streams.stage.core.case import Case, EncodedVector
from streams.stage.core.decide import recognise, rename
from streams.stage.core.ledger import MissingTarget, SupersededMemory, effects, fold, touched
from tests.builders import MODEL, at_cosine, event, identity, later, memory, policy, unit

TEA = memory("Ana likes tea.")
CAKE = memory("Ana likes cake.", id=identity(2))
BOTH = memory("Ana likes tea. Ana likes cake.", id=identity(3), merged_from=(TEA.id, CAKE.id))
HATE = memory("Ana hates tea.", id=identity(4), created_at=later(1), last_seen_at=later(1))


def case(text: str, number: int = 0) -> Case[Remember]:
    said = event(text, event_id=f"event {number}", occurred_at=later(1))
    return Case(said, Position(topic="memory.events", partition=0, offset=number), policy())


def target(identity_: MemoryId, version: int = 1) -> Target:
    return Target(memory_id=identity_, version=version)


def encoded(vector: Vector) -> EncodedVector:
    return EncodedVector(vector, pack(vector, MODEL), truncated=False)


def made(asked: Case[Remember], reason: Reason) -> dict[str, object]:
    return {
        "decision_id": asked.decision_id,
        "event": asked.event,
        "source": asked.source,
        "policy_id": asked.policy.id,
        "evidence": Evidence(reason=reason),
    }


def insert(known: StoredMemory, number: int = 0) -> Insert:
    """Return the decision that made a memory."""
    assert known.vector is not None
    return Insert.model_validate(
        {
            **made(case(known.memory.text, number), Reason.NOTHING_NEAR),
            "memory": known.memory,
            "embedding": pack(known.vector, MODEL),
        }
    )


INSERT_TEA = insert(StoredMemory(TEA, unit(1)))
INSERT_CAKE = insert(StoredMemory(CAKE, at_cosine(0.96)), 1)
SEEN_AGAIN = recognise(case("Ana likes tea.", 2), TEA)
RENAMED = rename(case("Ana likes cocoa.", 3), SEEN_AGAIN.memory, encoded(at_cosine(0.9)))
MERGE = Merge.model_validate(
    {
        **made(case("Ana likes cake.", 4), Reason.NEARLY_IDENTICAL),
        "memory": BOTH,
        "embedding": pack(at_cosine(0.98), MODEL),
        "event_embedding": pack(at_cosine(0.96), MODEL),
        "targets": (target(TEA.id, 3), target(CAKE.id)),
    }
)
REPLACE = Replace.model_validate(
    {
        **made(case("Ana hates tea.", 5), Reason.NEWER_CONTRADICTION),
        "memory": HATE,
        "embedding": pack(at_cosine(0.92), MODEL),
        "targets": (target(BOTH.id),),
    }
)
IGNORE = Ignore.model_validate(made(case("Ana likes tea.", 6), Reason.SAME_EVENT))
REJECT = Reject(
    decision_id=rejection_id("memory.events", 0, 7),
    source=Position(topic="memory.events", partition=0, offset=7),
    dead_letter_id="letter",
)
LIFE: tuple[Decision, ...] = (
    INSERT_TEA,
    INSERT_CAKE,
    SEEN_AGAIN,
    RENAMED,
    MERGE,
    REPLACE,
    IGNORE,
    REJECT,
)


def plain(state: dict[MemoryId, StoredMemory]) -> dict[MemoryId, object]:
    """Return a state as a value that can be compared."""
    return {
        identity_: (stored.memory, None if stored.vector is None else stored.vector.tobytes())
        for identity_, stored in state.items()
    }


def wordings(stored: StoredMemory) -> dict[str, bytes]:
    """Return the vectors of a memory's wordings by their texts."""
    texts = [stored.memory.text, *(variant.text for variant in stored.memory.variants)]
    vectors = (vector.tobytes() for vector in stored.wordings.values())
    return dict(zip(texts, vectors, strict=True))


def folded(*decisions: Decision) -> dict[MemoryId, StoredMemory]:
    state: dict[MemoryId, StoredMemory] = {}
    for decision in decisions:
        fold(state, decision)
    return state


@pytest.mark.parametrize(
    ("decision", "ids"),
    [
        (INSERT_TEA, [TEA.id]),
        (SEEN_AGAIN, [TEA.id]),
        (RENAMED, [TEA.id]),
        (MERGE, [BOTH.id, TEA.id, CAKE.id]),
        (REPLACE, [HATE.id, BOTH.id]),
        (IGNORE, []),
        (REJECT, []),
    ],
)
def test_the_successor_comes_before_those_it_retires(
    decision: Decision, ids: list[MemoryId]
) -> None:
    assert touched(decision) == ids
    assert [isinstance(effect, SupersededMemory) for effect in effects(decision)] == [
        number > 0 for number in range(len(ids))
    ]


def test_what_a_merge_does_in_full() -> None:
    successor, *retired = effects(MERGE)
    assert isinstance(successor, StoredMemory)
    assert plain({BOTH.id: successor}) == plain({BOTH.id: StoredMemory(BOTH, at_cosine(0.98))})
    superseded = Superseded(by=BOTH.id, at=later(1), reason="nearly-identical")
    assert retired == [
        SupersededMemory(target(TEA.id, 3), superseded),
        SupersededMemory(target(CAKE.id), superseded),
    ]


@pytest.mark.covers("B62", "B63", "B64")
def test_decisions_add_up_to_the_state() -> None:
    merged = Superseded(by=BOTH.id, at=later(1), reason="nearly-identical")
    replaced = Superseded(by=HATE.id, at=later(1), reason="newer-contradiction")
    assert plain(folded(*LIFE)) == plain(
        {
            TEA.id: StoredMemory(survivorship.retired(RENAMED.memory, merged), at_cosine(0.9)),
            CAKE.id: StoredMemory(survivorship.retired(CAKE, merged), at_cosine(0.96)),
            BOTH.id: StoredMemory(survivorship.retired(BOTH, replaced), at_cosine(0.98)),
            HATE.id: StoredMemory(HATE, at_cosine(0.92)),
        }
    )


def test_a_memory_seen_again_keeps_its_vector() -> None:
    assert plain(folded(INSERT_TEA, SEEN_AGAIN)) == plain(
        {TEA.id: StoredMemory(SEEN_AGAIN.memory, unit(1))}
    )


@pytest.mark.covers("B123")
@given(st.integers(0, len(LIFE)), st.integers(0, len(LIFE)))
def test_folding_a_prefix_again_changes_nothing(upto: int, again: int) -> None:
    state = folded(*LIFE[:upto])
    before = plain(state)
    for decision in LIFE[: min(upto, again)]:
        assert fold(state, decision) == []
    assert plain(state) == before


def test_a_memory_remembers_its_newest_decisions() -> None:
    state: dict[MemoryId, StoredMemory] = {}
    fold(state, INSERT_TEA)
    ids = [INSERT_TEA.decision_id]
    for number in range(10, 10 + DECIDED_MAX + 5):
        again = recognise(case("Ana likes tea.", number), state[TEA.id].memory)
        fold(state, again)
        ids.append(again.decision_id)
    assert state[TEA.id].decided == tuple(
        (i, TEA.content_key) for i in [ids[0], *ids[1 - DECIDED_MAX :]]
    )


def test_a_retired_memory_still_knows_its_decisions_and_its_successor_its_own() -> None:
    state = folded(INSERT_TEA, INSERT_CAKE, SEEN_AGAIN, RENAMED, MERGE)
    assert [identity for identity, _ in state[CAKE.id].decided] == [INSERT_CAKE.decision_id]
    assert [identity for identity, _ in state[BOTH.id].decided] == [MERGE.decision_id]


def test_another_decision_on_the_same_version_is_no_repetition() -> None:
    """To skip it would lose what it says."""
    state = folded(INSERT_TEA, SEEN_AGAIN)
    rival = rename(case("Ana likes cocoa.", 9), TEA, encoded(at_cosine(0.9)))
    with pytest.raises(MissingTarget, match="is at version 2 by other decisions"):
        fold(state, rival)
    assert plain(state) == plain(folded(INSERT_TEA, SEEN_AGAIN))


def test_what_retires_a_memory_that_was_changed_meanwhile_is_no_repetition() -> None:
    state = folded(INSERT_TEA, INSERT_CAKE, SEEN_AGAIN)
    stale = MERGE.model_copy(update={"targets": (target(TEA.id), target(CAKE.id))})
    with pytest.raises(MissingTarget, match="by other decisions"):
        fold(state, stale)


def test_what_retired_a_memory_that_was_put_back_since_may_come_again() -> None:
    """A writer that died before its commit reads both again."""
    back = CAKE.model_copy(update={"version": 3})
    undone = Revise.model_validate(
        {**made(case("Ana likes cake.", 8), Reason.UNDONE), "memories": [{"memory": back}]}
    )
    state = folded(INSERT_TEA, INSERT_CAKE, SEEN_AGAIN, RENAMED, MERGE, undone)
    assert fold(state, MERGE) == []
    assert state[CAKE.id].memory == back


def test_fold_tells_which_memories_changed() -> None:
    state: dict[MemoryId, StoredMemory] = {}
    assert [fold(state, decision) for decision in LIFE] == [touched(d) for d in LIFE]


@pytest.mark.parametrize("decision", [SEEN_AGAIN, MERGE, REPLACE])
def test_a_decision_on_a_memory_that_is_not_there_is_refused(decision: Change) -> None:
    with pytest.raises(MissingTarget, match="should be changed, but does not exist"):
        fold({}, decision)


REWORDED = Reinforce.model_validate(
    {
        **made(case("Tea is what Ana likes.", 2), Reason.SAME_FACT),
        "memory": survivorship.seen_again(TEA, case("Tea is what Ana likes.", 2).event),
        "target": target(TEA.id),
        "embedding": pack(at_cosine(0.7), MODEL),
    }
)


def test_another_wording_comes_with_the_vector_of_the_event() -> None:
    again = recognise(case("tea is what  Ana likes.", 3), REWORDED.memory)
    expected = {
        "Ana likes tea.": unit(1).tobytes(),
        "Tea is what Ana likes.": at_cosine(0.7).tobytes(),
    }
    assert wordings(folded(INSERT_TEA, REWORDED)[TEA.id]) == expected
    assert wordings(folded(INSERT_TEA, REWORDED, again)[TEA.id]) == expected
    renamed = rename(case("Ana likes cocoa.", 4), again.memory, encoded(at_cosine(0.9)))
    assert list(wordings(folded(INSERT_TEA, REWORDED, again, renamed)[TEA.id])) == [
        "Ana likes cocoa."
    ]


def test_a_merge_states_the_vector_of_each_wording_that_it_unites() -> None:
    text = "Ana likes tea. Ana likes cake."
    joined = survivorship.merged([REWORDED.memory, CAKE], None, BOTH.id, text, truncated=False)
    vectors = {
        TEA.content_key: unit(1),
        REWORDED.memory.variants[0].content_key: at_cosine(0.7),
        CAKE.content_key: at_cosine(0.96),
    }
    targets = (target(TEA.id, 2), target(CAKE.id))
    merge = MERGE.model_copy(update={"memory": joined, "targets": targets})
    whole = with_vectors(merge, vectors, MODEL)
    state = folded(INSERT_TEA, INSERT_CAKE, REWORDED, whole)
    assert wordings(state[BOTH.id]) == {
        text: at_cosine(0.98).tobytes(),
        "Ana likes tea.": unit(1).tobytes(),
        "Tea is what Ana likes.": at_cosine(0.7).tobytes(),
        "Ana likes cake.": at_cosine(0.96).tobytes(),
    }
    assert wordings(state[TEA.id]).keys() == {"Ana likes tea.", "Tea is what Ana likes."}
    with pytest.raises(MissingTarget, match="gets a wording, but not its vector"):
        folded(INSERT_TEA, INSERT_CAKE, REWORDED, merge)
    with pytest.raises(ValidationError, match="has 1 vectors, but the memory has 3 variants"):
        Merge.model_validate(
            whole.model_dump() | {"variant_embeddings": [pack(unit(1), MODEL).model_dump()]}
        )


def test_a_wording_without_its_vector_is_damage() -> None:
    bare = REWORDED.model_copy(update={"embedding": None})
    with pytest.raises(MissingTarget, match="gets a wording, but not its vector"):
        folded(INSERT_TEA, bare)
