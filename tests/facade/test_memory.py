"""`import memsieve`: a store that a program tells things, asks, and corrects."""

import gc
import inspect
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memsieve import (
    AboutText,
    AsyncMemory,
    Decision,
    EventFields,
    InvalidRequest,
    Memory,
    MemsieveError,
    NotFound,
    ServerError,
    StoreError,
)
from schemas.events import Remember
from streams.embedding import HASHING
from tests.support.stage.asking import asking
from tests.support.stage.stores import decisions

ANA, BEN = "acme/ana", "acme/ben"
LYON, PARIS = "Ana lives in Lyon.", "Ana lives in Paris."
THEN = datetime(2026, 3, 1, 9, tzinfo=UTC)
COLOURS = ("red", "blue", "green", "black", "white", "pink", "brown")
NO_MOMENT = "occurred_at: should be a date and time, such as 2026-03-14T09:30:00Z"
MONDAY, SUNDAY = "2026-03-02T00:00:00Z", "2026-03-01T00:00:00Z"
BEES, HIVES = "Ben keeps bees on the roof.", "Ben keeps bees on her roof."


def opened(store: Path, *, index: str = "exact", policy: str = "default-hashing") -> Memory:
    """Open a store that needs no model."""
    return Memory(store, policy=policy, settings=settings(index))


def settings(index: str = "exact") -> dict[str, object]:
    return {"embedder": {"model": HASHING}, "index": {"kind": index}}


def nested(levels: int) -> object:
    """Return a list in a list, and so on."""
    return [nested(levels - 1)] if levels else []


@pytest.fixture
def memory(tmp_path: Path) -> Generator[Memory]:
    with opened(tmp_path / "store") as held:
        yield held


def test_a_recall_where_nothing_is_kept_says_so_beside_the_block(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    memory.add(LYON, scope=ANA)
    with caplog.at_level("INFO", "memsieve"):
        assert memory.recall(scope=BEN) == "No memories yet."
        assert memory.recall(scope=ANA) != ""
    assert caplog.messages == [f"scope {BEN} has no memories; others have: {ANA}"]


def test_the_only_scope_need_not_be_named(memory: Memory) -> None:
    for asked in (lambda: memory.search("where does Ana live?"), memory.recall):
        with pytest.raises(InvalidRequest, match=r"^no scope has memories yet: add some first$"):
            asked()
    memory.add(LYON, scope=ANA)
    assert [one.text for one in memory.search("where does Ana live?")] == [LYON]
    assert memory.recall() == memory.recall(scope=ANA)
    memory.add(BEES, scope=BEN)
    for asked in (lambda: memory.search("where does Ana live?"), memory.recall):
        with pytest.raises(InvalidRequest) as refused:
            asked()
        assert f"{refused.value}" == f"name one of 2 scopes with scope=, such as {ANA}, {BEN}"
        assert refused.value.field == "scope"


def test_a_search_of_a_scope_without_memories_names_others(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    memory.add(LYON, scope=ANA)
    with caplog.at_level("INFO", "memsieve"):
        assert memory.search("where does Ana live?", scope=ANA)
        assert memory.search("where does Ana live?", scope=BEN) == []
    assert caplog.messages == [f"scope {BEN} has no memories; others have: {ANA}"]


@pytest.mark.parametrize("index", ["exact", "edge"])
def test_what_is_told_is_decided_found_explained_changed_and_forgotten(
    tmp_path: Path, index: str
) -> None:
    with opened(tmp_path / "store", index=index) as memory:
        first = memory.add(LYON, scope=ANA, source="Ben", confidence=0.5)
        assert (first.kind, first.text, first.scope) == ("insert", LYON, ANA)
        assert first.why == "no memory of this scope is similar"
        again = memory.add("ana LIVES in lyon.", scope=ANA)
        assert (again.kind, again.memory_id) == ("reinforce", first.memory_id)
        assert str(again).endswith("because a memory of this scope has the same words")

        [found] = memory.search("where does Ana live?", scope=ANA)
        assert (found.text, found.wording, found.memory_id) == (LYON, LYON, first.memory_id)
        assert memory.search("where does Ana live?", scope=BEN) == []
        assert memory.recall(scope=ANA).splitlines()[1:] == [f"- {LYON} (seen 2x)"]
        assert LYON in memory.recall("where does Ana live?", scope="acme", across=True)

        assert f'it says    "{LYON}"' in memory.explain(first.id)
        assert f"memory     {first.memory_id}" in memory.explain(first.memory_id[:12])
        assert memory.get(first.memory_id).sources == ("Ben",)

        renewed = memory.update(first.memory_id, PARIS, title="home")
        assert (renewed.memory_id, renewed.text) == (first.memory_id, PARIS)
        versions = memory.history(first.memory_id)
        assert [one.text for one in versions] == [LYON, LYON, PARIS]
        assert (versions[0].by, versions[0].decision_id) == ("Ben", first.id)

        undone = memory.undo(renewed.id, author="Ana", note="she did not move")
        assert (undone.kind, undone.text) == ("revise", LYON)
        assert memory.history(first.memory_id)[2].undone_by == undone.id
        assert memory.get(first.memory_id).text == LYON

        forgotten = memory.forget(first.memory_id, author="Ana")
        assert first.memory_id in forgotten.memory_ids
        assert not any(one.text == LYON for one in memory.memories(ANA, retired=True))
        blocked = memory.add(LYON, scope=ANA)
        assert (blocked.kind, blocked.text) == ("block", "")


def test_a_block_shows_as_many_memories_as_are_asked_for(memory: Memory) -> None:
    memory.add_many([f"Room {n} is {colour}." for n, colour in enumerate(COLOURS)], scope=ANA)
    assert memory.recall(scope=ANA).count("- Room") == 5
    assert memory.recall(scope=ANA, recent=7).count("- Room") == 7
    assert memory.recall("blue", scope=ANA, lasting=0, recent=1).count("- Room") == 1
    with pytest.raises(InvalidRequest, match=r"^recent: should be greater than or equal to 0"):
        memory.recall(scope=ANA, recent=-1)
    with pytest.raises(InvalidRequest, match=r"^patterns: goes with across, and without a query"):
        memory.recall("blue", scope=ANA, patterns=True)


def test_a_memory_that_is_pinned_stays_until_it_is_unpinned(memory: Memory) -> None:
    told = memory.add(LYON, scope=ANA)
    pinned = memory.pin(told.memory_id[:12], author="Ana", note="do not lose it")
    assert (pinned.kind, pinned.memory_id) == ("revise", told.memory_id)
    assert memory.get(told.memory_id).pinned
    with pytest.raises(InvalidRequest, match=f"^memory {told.memory_id} is pinned; unpin it first"):
        memory.retire(told.memory_id, author="Ana")
    with pytest.raises(InvalidRequest, match=f"^memory {told.memory_id} is pinned; unpin it first"):
        memory.update(told.memory_id, "Ana lives in Paris.")
    memory.unpin(told.memory_id, author="Ana")
    retired = memory.retire(told.memory_id, reason="expired", author="Ana")
    assert [one.text for one in memory.memories(ANA)] == []
    ended = memory.get(told.memory_id).superseded
    assert ended is not None
    assert (ended.by, ended.reason) == (None, "expired")
    with pytest.raises(InvalidRequest, match="is not live: ended"):
        memory.pin(told.memory_id, author="Ana")
    memory.undo(retired.id, author="Ana")
    assert [one.text for one in memory.memories(ANA)] == [LYON]


def test_how_often_a_memory_helped_is_added_up(memory: Memory) -> None:
    told = memory.add(LYON, scope=ANA)
    memory.rate(told.memory_id, helpful=2, accessed=3, author="Ana")
    memory.rate(told.memory_id, harmful=1, author="Ben")
    feedback = memory.get(told.memory_id).feedback
    assert feedback is not None
    assert (feedback.helpful, feedback.harmful, feedback.accessed) == (2, 1, 3)
    assert [one.by for one in memory.history(told.memory_id)][1:] == ["Ana", "Ben"]


def test_a_question_is_listed_and_its_answer_is_decided_on(tmp_path: Path) -> None:
    with opened(tmp_path / "store", policy=str(asking(tmp_path))) as memory:
        old, new = memory.add(BEES, scope=BEN), memory.add(HIVES, scope=BEN)
        [asked] = memory.reviews(BEN)
        assert (asked.newer.text, asked.older.text, asked.state) == (HIVES, BEES, "open")
        assert memory.reviews(ANA) == []
        answered = memory.answer(asked.id, "same", author="Cleo", note="the one roof")
        assert (answered.kind, answered.memory_id) == ("replace", old.memory_id)
        assert [one.id for one in memory.memories(BEN)] == [old.memory_id]
        assert memory.reviews(BEN) == []
        [closed] = memory.reviews(every=True)
        assert (closed.state, closed.verdict, closed.answered_by) == ("answered", "same", "Cleo")
        with pytest.raises(InvalidRequest, match=f"^question {asked.id} is closed: answered"):
            memory.answer(asked.id, "distinct", author="Cleo")
        assert memory.get(new.memory_id).live is False


def test_what_was_told_is_there_for_the_next_that_opens_the_store(tmp_path: Path) -> None:
    with opened(tmp_path / "store", index="edge") as memory:
        memory.add(LYON, scope=ANA)
        memory.add("The tea is in the cupboard.", scope=BEN)
    with opened(tmp_path / "store") as memory:  # it keeps the index that it was made with
        assert [one.text for one in memory.memories()] == [LYON, "The tea is in the cupboard."]
        assert [one.text for one in memory.memories(BEN)] == ["The tea is in the cupboard."]


def test_an_event_that_comes_again_changes_nothing_and_names_its_memory(memory: Memory) -> None:
    first = memory.add(LYON, scope=ANA, event_id="e1", occurred_at=THEN)
    again = memory.add(LYON, scope=ANA, event_id="e1", occurred_at=THEN)
    assert (again.kind, again.id) == ("ignore", first.id)
    assert (again.memory_id, again.text) == (first.memory_id, LYON)
    with pytest.raises(InvalidRequest, match="event_id was used before in this scope") as refused:
        memory.add(PARIS, scope=ANA, event_id="e1")
    assert refused.value.field == "event_id"
    assert [one.created_at for one in memory.memories()] == [THEN]


def test_a_name_of_the_programs_own_is_where_its_memory_is_found_again(memory: Memory) -> None:
    first = memory.add(LYON, scope=ANA, memory_id="home")
    second = memory.add(PARIS, scope=ANA, memory_id="home")
    third = memory.update(second.memory_id, LYON)
    assert {first.memory_id} == {second.memory_id, third.memory_id}
    assert memory.get(first.memory_id).text == LYON


def test_older_news_under_a_known_name_changes_no_letter_of_its_memory(memory: Memory) -> None:
    first = memory.add(LYON, scope=ANA, memory_id="home", occurred_at=THEN)
    before = THEN - timedelta(1)
    late = memory.add("ana lives in lyon.", scope=ANA, memory_id="home", occurred_at=before)
    assert (late.kind, late.memory_id) == ("reinforce", first.memory_id)
    assert memory.get(first.memory_id).text == LYON


def test_many_are_told_in_order_and_progress_is_shown(memory: Memory) -> None:
    rows = [f"The box {number} is blue." for number in range(20)]
    told = list[tuple[int, int]]()
    made = memory.add_many(
        [*rows, {"text": LYON, "scope": ANA, "tags": ["home"]}],
        scope=BEN,
        progress=lambda done, total: told.append((done, total)),
    )
    assert [one.text for one in made[:20]] == rows
    assert (made[20].scope, memory.get(made[20].memory_id).tags) == (ANA, ("home",))
    assert told[-1] == (21, 21)
    assert memory.add_many([]) == []


def test_a_bar_is_drawn_on_standard_error(
    memory: Memory, capsys: pytest.CaptureFixture[str]
) -> None:
    memory.add_many([LYON], scope=ANA, progress=True)
    out, err = capsys.readouterr()
    assert (out, "memories" in err) == ("", True)


def test_of_many_none_is_decided_on_where_one_cannot_be(memory: Memory) -> None:
    with pytest.raises(InvalidRequest, match=r"^rows\[1\].scope: is missing$") as refused:
        memory.add_many([{"text": LYON, "scope": ANA}, {"text": LYON}])
    assert refused.value.field == "rows[1].scope"
    with pytest.raises(InvalidRequest, match=r"^rows\[0\]: give a text, or a mapping"):
        memory.add_many([3], scope=ANA)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidRequest, match=r"^rows: give a list"):
        memory.add_many(LYON, scope=ANA)
    assert memory.memories() == []


def test_threads_share_a_store_and_each_call_has_its_own_decision(
    tmp_path: Path, memory: Memory
) -> None:
    def tell(number: int) -> Decision:
        return memory.add(f"Locker {number} belongs to team {number + 100}.", scope=ANA)

    def repeat(_: int) -> Decision:
        return memory.add(LYON, scope=BEN)

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(tell, range(40)))
        same = list(threads.map(repeat, range(8)))
    assert sorted(one.kind for one in same) == ["insert"] + ["reinforce"] * 7
    assert memory.get(same[0].memory_id).observation_count == 8
    memory.close()
    assert len({one.id for one in (*made, *same)}) == 48
    assert len(decisions(tmp_path / "store")) == 48


NAMED = "default-hashing {supersede.named_max = 1}"


@pytest.mark.parametrize("policy", ["default-hashing", NAMED])
def test_a_memory_without_a_name_is_replaced_whatever_an_event_may_retire(
    tmp_path: Path, policy: str
) -> None:
    store = tmp_path / "store"
    with opened(store) as memory:
        [old] = memory.add_many([{"text": LYON, "memory_id": None}], scope=ANA)
        new = memory.add(PARIS, scope=ANA)
        undone = memory.undo(new.id)  # what it said stays out: the decision did not hold
        assert undone.kind == "revise"
        with pytest.raises(InvalidRequest, match="is not live: ended"):
            memory.update(new.memory_id, LYON)
    with opened(store, policy=policy) as memory:
        made = memory.update(old.memory_id, "Ana lives in Nice.")
        assert made.kind == "replace"
        superseded = memory.get(old.memory_id).superseded
        assert superseded is not None
        assert superseded.by == made.memory_id


REFUSED: list[tuple[Callable[[Any], object], type[MemsieveError], str]] = [
    (lambda m: m.add("x", scope="a/*"), InvalidRequest, "scope: holds the wildcard *"),
    (lambda m: m.add(" ", scope=ANA), InvalidRequest, "text: is empty or only white space"),
    (
        lambda m: m.add("x", scope=ANA, confidence=3),
        InvalidRequest,
        "confidence: should be less than or equal to 1",
    ),
    (
        lambda m: m.add("x", scope=ANA, mood="good"),
        InvalidRequest,
        "mood: is not a field of an event; there are category, confidence, entities, ",
    ),
    (lambda m: m.add("x", scope=ANA, tags="tea"), InvalidRequest, "tags: should be a list"),
    (lambda m: m.add("x", scope=ANA, metadata=["k"]), InvalidRequest, "metadata: should be an obj"),
    (
        lambda m: m.add("x", scope=ANA, metadata={"deep": nested(300)}),
        InvalidRequest,
        "metadata.deep: is nested deeper than 32 levels",
    ),
    (
        lambda m: m.add("x", scope=ANA, metadata={"k": {"in": [float("nan")]}}),
        InvalidRequest,
        "metadata.k: should be a finite number",
    ),
    (lambda m: m.add_many(None, scope=ANA), InvalidRequest, "rows: give a list of texts"),
    (
        lambda m: m.add("x", scope=ANA, valid_from=MONDAY, valid_until=SUNDAY),
        InvalidRequest,
        "valid_until ",
    ),
    (
        lambda m: m.add_many(
            [{"text": "x", "valid_from": MONDAY, "valid_until": SUNDAY}], scope=ANA
        ),
        InvalidRequest,
        "rows[0]: valid_until ",
    ),
    (lambda m: m.add("x" * 70_000, scope=ANA), InvalidRequest, "text: "),
    (lambda m: m.add(b"x", scope=ANA), InvalidRequest, "text: should be a valid string"),
    (lambda m: m.add("x", scope=ANA, source=b"x"), InvalidRequest, "source: should be a valid st"),
    (lambda m: m.add("x", scope=ANA, occurred_at=1_767_225_600), InvalidRequest, NO_MOMENT),
    (lambda m: m.add("x", scope=ANA, occurred_at="1767225600"), InvalidRequest, NO_MOMENT),
    (lambda m: m.add("x", scope=ANA, occurred_at=THEN.date()), InvalidRequest, NO_MOMENT),
    (
        lambda m: m.add("x", scope=ANA, metadata={"k": "v" * 2_000_000}),
        InvalidRequest,
        "the event is 2,000,",
    ),
    (lambda m: m.search("", scope=ANA), InvalidRequest, "query: is empty"),
    (lambda m: m.search("x", scope=ANA, limit=0), InvalidRequest, "limit: "),
    (lambda m: m.recall(scope=""), InvalidRequest, "scope: "),
    (lambda m: m.memories("*"), InvalidRequest, "scope: holds the wildcard"),
    (lambda m: m.get("nothing"), NotFound, "no memory in "),
    (lambda m: m.get(""), NotFound, "no memory in "),
    (lambda m: m.explain("a\nb"), InvalidRequest, "id: has a line break or control character"),
    (
        lambda m: m.get(None),
        InvalidRequest,
        "memory_id: is of type NoneType; give an id as a string",
    ),
    (
        lambda m: m.add("Ana keeps bees.", scope="acme/ana", occurred_at="2131-01-01T00:00:00Z"),
        InvalidRequest,
        "occurred_at is 2131-01-01 00:00:00 UTC, in the future; give the time at which it was",
    ),
    (lambda m: m.undo(7, author="Ana"), InvalidRequest, "decision_id: is of type int; give an id"),
    (lambda m: m.undo("x", author=7), InvalidRequest, "author: should be a valid string"),
    (lambda m: m.history("nothing"), NotFound, "no memory in "),
    (lambda m: m.explain("nothing"), NotFound, "no decision, event or memory in "),
    (lambda m: m.undo("nothing", author="Ana"), NotFound, "no decision in "),
    (lambda m: m.undo("x", author="a\nb"), InvalidRequest, "author: contains the character"),
    (lambda m: m.update("nothing", "x"), NotFound, "no memory in "),
    (lambda m: m.pin("nothing", author="Ana"), NotFound, "no memory in "),
    (lambda m: m.retire("nothing", reason="old"), InvalidRequest, "reason: should be "),
    (lambda m: m.rate("nothing"), InvalidRequest, "nothing to record: give helpful, harmful or"),
    (lambda m: m.rate("nothing", helpful=-1), InvalidRequest, "helpful: should be greater"),
    (lambda m: m.reviews("*"), InvalidRequest, "scope: holds the wildcard"),
    (lambda m: m.answer("nothing", "same", author="Ana"), NotFound, "no question in "),
    (lambda m: m.answer("nothing", "alike"), InvalidRequest, "verdict: should be 'same'"),
    (lambda m: m.forget("nothing", author="Ana"), NotFound, "no memory in "),
    (lambda m: m.forget(scope="acme/zoe", author="Ana"), NotFound, "there is no scope"),
    (lambda m: m.forget(), InvalidRequest, "give exactly one of"),
    (lambda m: m.forget(""), InvalidRequest, "memory_id: is empty"),
]


@pytest.mark.parametrize(("asked", "error", "said"), REFUSED)
def test_what_cannot_be_done_is_told_in_one_line(
    memory: Memory, asked: Callable[[Any], object], error: type[MemsieveError], said: str
) -> None:
    with pytest.raises(error) as refused:
        asked(memory)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)
    assert memory.memories() == []  # and the store can still be used


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"policy": "none such"}, "policy none such: "),
        ({"settings": {"colour": "red"}}, "colour is not a setting"),
        ({"config": "none.toml"}, "config none.toml: there is no such file"),
        ({"settings": {"index": {"kind": "qdrant"}}}, "index.kind qdrant is for the services"),
        ({"kafka": "localhost:9"}, "give store or kafka, not both"),
        ({"index": "http://localhost:9"}, "index: is a cluster's; give kafka as well"),
        ({"wait": 0}, "wait: give the seconds"),
    ],
)
def test_a_store_that_cannot_be_had_is_told_at_once(
    tmp_path: Path, arguments: dict[str, Any], said: str
) -> None:
    given: dict[str, Any] = {"settings": settings()}
    with pytest.raises(InvalidRequest, match=f"^{said}"):
        Memory(tmp_path / "store", **{**given, **arguments})


def test_a_cluster_that_cannot_be_had_is_told_at_once() -> None:
    with pytest.raises(InvalidRequest, match=r"^settings: kafka is a group; give a mapping$"):
        Memory(kafka="localhost:9", settings={"kafka": "localhost:9"})
    with pytest.raises(InvalidRequest, match=r"^kafka\.bootstrap: .* is not valid"):
        Memory(kafka="somewhere", settings=settings())
    with pytest.raises(InvalidRequest, match=r"^qdrant\.url: .* is not valid"):
        Memory(kafka="localhost:9", index="somewhere", settings=settings())
    with pytest.raises(ServerError, match="localhost:9"):
        Memory(kafka="localhost:9", policy="default-hashing", settings=settings())


def test_a_store_is_open_once_and_can_be_opened_again(tmp_path: Path) -> None:
    memory = opened(tmp_path / "store")
    with pytest.raises(StoreError, match="another memsieve in this process: close that one first"):
        opened(tmp_path / "store")
    memory.close()
    memory.close()
    with pytest.raises(StoreError, match="closed"):
        memory.add(LYON, scope=ANA)
    with opened(tmp_path / "store") as again:
        assert again.memories() == []


def test_a_close_lets_each_call_end_or_be_refused(tmp_path: Path) -> None:
    memory = opened(tmp_path / "store")

    def tell(number: int) -> bool:
        try:
            return bool(memory.add(f"Key {number} opens door {number}.", scope=ANA).id)
        except StoreError:
            return False

    with ThreadPoolExecutor(4) as threads:
        told = threads.map(tell, range(60))
        memory.close()
        answered = sum(told)
    assert len(decisions(tmp_path / "store")) == answered


def test_a_store_that_nobody_can_reach_any_more_is_let_go(tmp_path: Path) -> None:
    memory = opened(tmp_path / "store")
    memory.add(LYON, scope=ANA)
    thread = memory._loop._thread  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    del memory
    gc.collect()
    thread.join(10)
    with opened(tmp_path / "store") as again:
        assert [one.text for one in again.memories()] == [LYON]


def test_a_progress_function_that_calls_back_is_refused(memory: Memory) -> None:
    def ask(_: int, __: int) -> None:
        memory.memories()

    with pytest.raises(StoreError, match="out of its own progress function"):
        memory.add_many([LYON], scope=ANA, progress=ask)


def test_the_fields_are_those_of_the_event() -> None:
    own = Remember.model_fields.keys() - {"kind", "schema_version", "scope", "text"}
    assert EventFields.__annotations__.keys() == own
    assert own - AboutText.__annotations__.keys() == {"memory_id", "supersedes"}


def test_the_async_store_has_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, inspect.Signature]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: inspect.signature(one) for name, one in found if not name.startswith("_")}

    asynchronous = methods(AsyncMemory)
    del asynchronous["open"]
    assert asynchronous == methods(Memory)


@pytest.mark.parametrize("index", ["exact", "edge"])
def test_what_contradicts_a_pinned_memory_is_in_conflict_with_it(
    tmp_path: Path, index: str
) -> None:
    policy = "default-hashing {with_verdict.contradicts = 'supersede'}"
    with opened(tmp_path / "store", index=index, policy=policy) as memory:
        nine = memory.add("The office opens at 9 am.", scope=ANA, occurred_at=THEN, pinned=True)
        eight = memory.add("The office opens at 8 am.", scope=ANA)
        assert eight.why == "it contradicts a memory, but does not replace it; both are kept"
        assert f"not replaced: {nine.memory_id}, it is pinned." in memory.explain(eight.id)
        assert [one.text for one in memory.get(nine.memory_id).conflicts] == [eight.text]
        pinned = memory.get(nine.memory_id)
        assert (pinned.version, pinned.live) == (1, True)
        memory.add("The office still opens at 9 am.", scope=ANA)
        assert memory.get(nine.memory_id).version == 1


@pytest.mark.parametrize("index", ["exact", "edge"])
def test_a_conflict_is_told_on_both_sides_until_one_of_them_is_changed(
    tmp_path: Path, index: str
) -> None:
    with opened(tmp_path / "store", index=index) as memory:
        nine, eight = (
            memory.add(f"The office opens at {hour} am.", scope=ANA, occurred_at=at)
            for hour, at in ((9, THEN), (8, THEN + timedelta(days=1)))
        )
        [against] = eight.contradicts
        assert (against.memory_id, against.text) == (nine.memory_id, nine.text)
        assert against.probability is not None
        assert against.probability > 0.8
        assert nine.contradicts == ()
        [one] = memory.search("The office opens at 9 am.", scope=ANA, limit=1)
        assert (one.memory_id, one.last_seen_at) == (eight.memory_id, THEN + timedelta(days=1))
        [other] = one.conflicts
        assert (other.memory_id, other.text) == (nine.memory_id, nine.text)
        assert other.last_seen_at == THEN
        assert [conflict.text for conflict in memory.get(eight.memory_id).conflicts] == [nine.text]
        assert [len(kept.conflicts) for kept in memory.memories(ANA)] == [1, 1]
        shown = memory.recall(scope=ANA).splitlines()[1:]
        assert shown == [
            f"- {eight.text} (2026-03-02)",
            f"- {nine.text} (2026-03-01; in conflict with the newer memory above)",
        ]

        told = memory.distinct(nine.memory_id, eight.memory_id, author="cleo", note="two offices")
        assert (told.kind, told.why) == ("revise", "cleo said that they state different facts")
        assert [len(kept.conflicts) for kept in memory.memories(ANA)] == [0, 0]
        again = memory.add("The office opens at 8 a.m.", scope=ANA)  # judged: contradicts nine
        assert again.memory_id == eight.memory_id
        assert [len(kept.conflicts) for kept in memory.memories(ANA)] == [0, 0]
        memory.undo(told.id)
        assert [len(kept.conflicts) for kept in memory.memories(ANA)] == [1, 1]

        memory.update(nine.memory_id, "The office is in Bonn.")
        assert memory.get(eight.memory_id).conflicts == ()
        assert not any(found.conflicts for found in memory.search("office", scope=ANA))
        assert "in conflict" not in memory.recall(scope=ANA)
