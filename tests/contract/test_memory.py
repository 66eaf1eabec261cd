"""What memories do alike: of a store in a directory, of a cluster, and behind an HTTP API."""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memsieve import (
    ConflictError,
    Decision,
    HttpMemory,
    InvalidRequest,
    Memory,
    MemsieveError,
    NotFound,
    Operations,
    Review,
    ServerError,
    Undecided,
)
from streams.embedding import HASHING
from tests.support.servers.http_api import api
from tests.support.servers.services import Installation
from tests.support.stage.asking import asking

ANA, BEN = "acme/ana", "acme/ben"
LYON, PARIS, TEA = "Ana lives in Lyon.", "Ana lives in Paris.", "Ben likes tea."
BEES, HIVES = "Ben keeps bees on the roof.", "Ben keeps bees on her roof."
THEN = datetime(2026, 3, 1, 9, tzinfo=UTC)
KEY = "a secret of these tests, of 32 characters"

Open = Callable[[pytest.FixtureRequest, Path, str], AbstractContextManager[Operations]]


@contextmanager
def store(_: pytest.FixtureRequest, path: Path, policy: str) -> Generator[Memory]:
    settings = {
        "embedder": {"model": HASHING},
        "index": {"kind": "exact"},
        "reviews": {"author": "cleo"},
    }
    with Memory(path / "store", policy=policy, settings=settings) as memory:
        yield memory


@contextmanager
def cluster(request: pytest.FixtureRequest, path: Path, policy: str) -> Generator[Memory]:
    """Give the memory of a cluster whose services decide meanwhile."""
    here = installation(request, path, policy)
    here.memsieve("service", "topics", "create", "--partitions", "2")
    with here.running("serve") as service:
        service.wait_until_ready()
        with on(request, policy) as memory:
            yield memory
        assert service.stop() == 0


def installation(request: pytest.FixtureRequest, path: Path, policy: str) -> Installation:
    return Installation.on(
        path,
        request.getfixturevalue("kafka_bootstrap"),
        request.getfixturevalue("topic_prefix"),
        policy=policy,
        embedder__model=HASHING,
        forget__key=KEY,
        index__kind="qdrant",
        qdrant__url=request.getfixturevalue("qdrant_url"),
        qdrant__prefer_grpc="false",
        qdrant__collection_prefix=request.getfixturevalue("collection_prefix"),
    )


def on(
    request: pytest.FixtureRequest, policy: str, *, wait: float = 60, key: str | None = KEY
) -> Memory:
    """Connect to the cluster of an installation."""
    prefix = request.getfixturevalue("collection_prefix")
    settings: dict[str, Mapping[str, object]] = {
        "embedder": {"model": HASHING},
        "kafka": {"prefix": request.getfixturevalue("topic_prefix")},
        "qdrant": {"prefer_grpc": False, "collection_prefix": prefix},
        "reviews": {"author": "cleo"},
    }
    if key is not None:
        settings["forget"] = {"key": key}
    return Memory(
        kafka=request.getfixturevalue("kafka_bootstrap"),
        index=request.getfixturevalue("qdrant_url"),
        wait=wait,
        policy=policy,
        settings=settings,
    )


@contextmanager
def http(_: pytest.FixtureRequest, path: Path, policy: str) -> Generator[HttpMemory]:
    """Give the memories behind an API over a store."""
    rights = {"cleo": ("acme", '"read", "write"')}
    with api(path, rights, policy) as url, HttpMemory(url, token="of cleo") as memory:
        yield memory


def asked_about(memory: Operations) -> tuple[Decision, Review]:
    """Add two memories about which a person is asked; return the newer's decision, and the question."""
    memory.add(BEES, scope=BEN, occurred_at=THEN)
    new = memory.add(HIVES, scope=BEN, occurred_at=THEN + timedelta(days=1))
    [asked] = memory.reviews(BEN)
    return new, asked


MEMORIES: Mapping[str, Open] = {"store": store, "cluster": cluster, "http": http}


@pytest.mark.timeout(300)  # the services of a cluster are processes
@pytest.mark.parametrize("opened", MEMORIES.values(), ids=list(MEMORIES))
class TestMemory:
    def test_a_memory_is_added_found_explained_corrected_and_forgotten(
        self, opened: Open, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        with opened(request, tmp_path, "default-hashing") as memory:
            first = memory.add(LYON, scope=ANA, source="Cleo", occurred_at=THEN)
            assert (first.kind, first.text, first.scope) == ("insert", LYON, ANA)
            again = memory.add("ana LIVES in lyon.", scope=ANA)
            assert (again.kind, again.memory_id) == ("reinforce", first.memory_id)

            [found] = memory.search("where does Ana live?", scope=ANA)
            assert (found.text, found.memory_id) == (LYON, first.memory_id)
            assert memory.search("where does Ana live?", scope=BEN) == []
            assert memory.recall(scope=ANA).splitlines()[1:] == [f"- {LYON} (seen 2x)"]
            assert memory.get(first.memory_id).sources == ("Cleo",)
            assert memory.get(first.memory_id[:12]).id == first.memory_id
            assert f'it says    "{LYON}"' in memory.explain(first.id)

            moved = memory.update(first.memory_id, PARIS)
            assert (moved.kind, moved.memory_id) == ("replace", first.memory_id)
            assert [one.text for one in memory.history(first.memory_id)] == [LYON, LYON, PARIS]
            undone = memory.undo(moved.id, note="she did not")
            assert undone.text == LYON
            assert [one.text for one in memory.memories(ANA)] == [LYON]

            gone = memory.forget(first.memory_id)
            assert first.memory_id in gone.memory_ids
            assert LYON not in [one.text for one in memory.memories(retired=True)]
            for ask in (memory.get, memory.history, memory.pin):
                with pytest.raises(NotFound, match=r"is forgotten$"):
                    ask(first.memory_id)
            assert memory.add(LYON, scope=ANA).kind == "block"

    def test_a_memory_is_pinned_rated_retired_and_brought_back(
        self, opened: Open, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        with opened(request, tmp_path, "default-hashing") as memory:
            identity = memory.add(TEA, scope=BEN).memory_id
            memory.pin(identity, note="for good")
            with pytest.raises(ConflictError, match="is pinned already; nothing was changed"):
                memory.pin(identity)
            assert [one.by for one in memory.history(identity)] == [None, "cleo"]
            with pytest.raises(ConflictError, match="is pinned; unpin it first"):
                memory.retire(identity)
            memory.unpin(identity)
            with pytest.raises(ConflictError, match="is not pinned; nothing was changed"):
                memory.unpin(identity)
            memory.rate(identity, helpful=2)
            feedback = memory.get(identity).feedback
            assert feedback is not None
            assert feedback.helpful == 2
            retired = memory.retire(identity, reason="expired")
            assert memory.memories(BEN) == []
            assert [one.id for one in memory.memories(BEN, retired=True)] == [identity]
            with pytest.raises(ConflictError, match="is not live: ended") as refused:
                memory.pin(identity)
            assert refused.value.field == "memory_id"
            memory.undo(retired.id)
            assert [one.text for one in memory.memories(BEN)] == [TEA]

    def test_a_memory_is_named_by_its_name_or_by_the_id_of_its_event(
        self, opened: Open, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        with opened(request, tmp_path, "default-hashing") as memory:
            home = memory.add(LYON, scope=ANA, memory_id="home", event_id="e1")
            assert memory.update("home", PARIS).memory_id == home.memory_id
            assert [one.text for one in memory.history("e1")] == [LYON, PARIS]
            memory.pin("home")
            assert memory.get("home").pinned
            assert f'it says    "{LYON}"' in memory.explain("e1")
            memory.add(TEA, scope=BEN, memory_id="home")
            said = r"^home names 2 memories; give its scope as well, or an id: "
            with pytest.raises(InvalidRequest, match=said):
                memory.get("home")
            assert memory.get("home", scope=ANA).id == home.memory_id
            assert memory.explain("home", scope=BEN)[1] == f"scope      {BEN}"
            memory.unpin("home", scope=ANA)
            assert memory.update("home", LYON, scope=ANA).memory_id == home.memory_id
            memory.rate("home", scope=BEN, helpful=1)
            memory.retire("home", scope=BEN)
            assert [one.version for one in memory.history("home", scope=BEN)] == [1, 2, 3]
            for wrong, error in (("acme/eve", NotFound), ("acme/*", InvalidRequest)):
                with pytest.raises(error):
                    memory.get("home", scope=wrong)
            with pytest.raises(NotFound):
                memory.get(home.memory_id, scope=BEN)

    def test_an_update_is_no_sighting_and_leaves_one_memory_of_a_text(
        self, opened: Open, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        with opened(request, tmp_path, "default-hashing") as memory:
            home = memory.add(LYON, scope=ANA, occurred_at=THEN)
            added = memory.get(home.memory_id)
            memory.update(home.memory_id, PARIS)
            updated = memory.get(home.memory_id)
            assert updated.observation_count == added.observation_count
            assert updated.last_seen_at > added.last_seen_at
            for same in (PARIS, f" {PARIS} "):
                with pytest.raises(ConflictError, match="says this already; nothing was changed"):
                    memory.update(home.memory_id, same)
            memory.update(home.memory_id, PARIS, tags=("home",))
            assert memory.get(home.memory_id).tags == ("home",)
            memory.undo(memory.history(home.memory_id)[-1].decision_id)
            assert memory.get(home.memory_id).observation_count == 1
            row = {"text": BEES, "memory_id": None, "category": "bees", "tags": ["roof"]}
            [nameless] = memory.add_many([row], scope=ANA)
            kept = memory.get(memory.update(nameless.memory_id, HIVES, category="hives").memory_id)
            assert kept.id != nameless.memory_id
            assert (kept.text, kept.category, kept.tags) == (HIVES, "hives", ("roof",))
            memory.retire(kept.id)
            tea = memory.add(TEA, scope=ANA)
            joined = memory.update(home.memory_id, TEA)
            assert joined.effect == f"memory {home.memory_id} replaces {tea.memory_id}"
            assert [one.id for one in memory.memories(ANA)] == [home.memory_id]

    def test_an_events_id_goes_on_to_the_memory_that_stands_for_it(
        self, opened: Open, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        with opened(request, tmp_path, "default-hashing") as memory:
            [first] = memory.add_many([{"text": LYON, "memory_id": None}], scope=ANA)
            for text in (PARIS, BEES):
                [moved, again] = [
                    memory.update(first.event_id, text, event_id=text) for _ in range(2)
                ]
                assert again.memory_id == moved.memory_id
                assert [one.text for one in memory.memories(ANA)] == [text]
            memory.pin(first.event_id)
            assert memory.get(moved.memory_id).pinned
            with pytest.raises(ConflictError, match="is not live: replaced"):
                memory.pin(first.memory_id)
            assert memory.get(first.event_id).text == LYON

    def test_an_update_corrects_the_case_of_a_memory(
        self, opened: Open, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        with opened(request, tmp_path, "default-hashing") as memory:
            home = memory.add("ana lives in lyon.", scope=ANA)
            told = memory.update(home.memory_id, LYON)
            [kept] = memory.memories(ANA)
            assert told.kind == "replace"
            assert (kept.text, kept.variants, kept.observation_count) == (LYON, (), 1)
            memory.undo(told.id)
            assert [one.text for one in memory.memories(ANA)] == ["ana lives in lyon."]

    def test_many_are_decided_on_in_order_and_a_repeated_event_names_its_memory(
        self, opened: Open, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        with opened(request, tmp_path, "default-hashing") as memory:
            first, _, again = memory.add_many(
                [
                    {"text": LYON, "scope": ANA, "event_id": "e1", "occurred_at": THEN},
                    TEA,
                    {"text": LYON, "scope": ANA, "event_id": "e1", "occurred_at": THEN},
                ],
                scope=BEN,
            )
            assert (first.kind, again.kind) == ("insert", "ignore")
            assert again.id == first.id
            later = memory.add(LYON, scope=ANA, event_id="e1", occurred_at=THEN)
            assert (later.kind, later.memory_id) == ("ignore", first.memory_id)
            assert [one.text for one in memory.memories()] == [LYON, TEA]
            assert memory.memories("acme") == []
            assert [one.text for one in memory.memories("acme", across=True)] == [LYON, TEA]
            with pytest.raises(ConflictError, match="event_id was used before in this scope"):
                memory.add(PARIS, scope=ANA, event_id="e1", occurred_at=THEN)

    def test_a_question_is_answered_once_and_again_if_that_is_undone(
        self, opened: Open, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        with opened(request, tmp_path, str(asking(tmp_path))) as memory:
            new, asked = asked_about(memory)
            assert (asked.newer.text, asked.older.text) == (HIVES, BEES)
            for _ in range(2):
                answered = memory.answer(asked.id, "same")
                assert answered.kind == "replace"
                assert memory.reviews(BEN) == []
                with pytest.raises(ConflictError, match="is closed: answered") as refused:
                    memory.answer(asked.id, "distinct")
                assert refused.value.field == "review_id"
                assert memory.get(new.memory_id).live is False
                memory.undo(answered.id)

    def test_an_answer_that_comes_too_late_names_its_question_and_says_why(
        self, opened: Open, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        with opened(request, tmp_path, str(asking(tmp_path))) as memory:
            new, asked = asked_about(memory)
            memory.answer(asked.id, "distinct")  # which may be corrected, as long as both stand
            memory.pin(new.memory_id)
            late = "cleo said that both say the same, but the memories have changed since"
            with pytest.raises(ConflictError) as refused:
                memory.answer(asked.id, "same")
            assert f"{refused.value}" == f"question {asked.id}: nothing was changed: {late}"
            assert refused.value.field == "review_id"

    def test_two_in_conflict_are_both_right_until_that_is_undone(
        self, opened: Open, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        with opened(request, tmp_path, "default-hashing") as memory:
            nine = memory.add("The office opens at 9 am.", scope=ANA).memory_id
            made = memory.add("The office opens at 8 am.", scope=ANA, event_id="e8")
            eight, [against] = made.memory_id, made.contradicts
            assert (against.memory_id, against.text) == (nine, "The office opens at 9 am.")
            assert against.probability is not None
            assert 0.8 < against.probability < 1
            assert [one.memory_id for one in memory.get(nine).conflicts] == [eight]
            found = memory.search("The office opens at 9 am.", scope=ANA)
            assert [one.memory_id for one in found] == [eight, nine]
            told = memory.distinct(nine, eight, note="two offices")
            assert (told.kind, told.why) == ("revise", "cleo said that they state different facts")
            assert [one.conflicts for one in memory.memories(ANA)] == [(), ()]
            with pytest.raises(ConflictError, match="distinct already; nothing was changed"):
                memory.distinct(eight, nine)
            memory.undo(told.id)
            assert [one.memory_id for one in memory.get(eight).conflicts] == [nine]

            tea = memory.add(TEA, scope=BEN).memory_id
            for other, why in ((nine, "both are memory"), (tea, r"two scopes are never compared")):
                with pytest.raises(InvalidRequest, match=why) as refused:
                    memory.distinct(nine, other)
                assert refused.value.field == "other_id"
            memory.retire(eight)
            with pytest.raises(InvalidRequest, match="is not live: ended"):
                memory.distinct(nine, eight)

    def test_what_is_not_there_is_not_found_and_what_is_invalid_is_refused(
        self, opened: Open, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        asked: list[tuple[Callable[[Operations], object], type[MemsieveError], str]] = [
            (lambda m: m.get("nothing"), NotFound, "no memory in "),
            (lambda m: m.history("nothing"), NotFound, "no memory in "),
            (lambda m: m.explain("nothing"), NotFound, "no decision, event or memory in "),
            (lambda m: m.undo("nothing"), NotFound, "no decision in "),
            (lambda m: m.update("nothing", "x"), NotFound, "no memory in "),
            (lambda m: m.distinct("nothing", "x"), NotFound, "no memory in "),
            (lambda m: m.answer("nothing", "same"), NotFound, "no question in "),
            (lambda m: m.forget("nothing"), NotFound, "no memory in "),
            (lambda m: m.add("x", scope="a/*"), InvalidRequest, "scope: holds the wildcard"),
        ]
        with opened(request, tmp_path, "default-hashing") as memory:
            for ask, error, said in asked:
                with pytest.raises(error, match=f"^{said}") as refused:
                    ask(memory)
                assert "\n" not in str(refused.value)
            assert memory.memories() == []


@pytest.mark.timeout(300)
def test_what_a_cluster_does_not_decide_in_time_stays_queued(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    here = installation(request, tmp_path, "default-hashing")
    here.memsieve("service", "topics", "create", "--partitions", "1")
    with here.running("serve") as service:
        service.wait_until_ready()
        assert service.stop() == 0
    with on(request, "default-hashing", wait=0.5, key=None) as memory:
        with pytest.raises(Undecided, match=r"within 0\.5 s: they stay queued") as late:
            memory.add(TEA, scope=BEN, event_id="e1", occurred_at=THEN)
        assert isinstance(late.value, ServerError)
        assert memory.memories() == []
    with here.running("serve") as service:
        service.wait_until_ready()
        with on(request, "default-hashing", key=None) as memory:
            again = memory.add(TEA, scope=BEN, event_id="e1", occurred_at=THEN)
            assert (again.kind, again.text) == ("ignore", TEA)
            with pytest.raises(InvalidRequest, match=r"^forget\.key is not set"):
                memory.forget(again.memory_id)
            assert [one.text for one in memory.memories()] == [TEA]
        assert service.stop() == 0
