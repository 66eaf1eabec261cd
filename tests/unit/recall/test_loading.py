"""Searches of an index whose vectors a test has chosen, before a judge that says what it is told."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from schemas.base import ScopeName
from schemas.decisions import Verdict
from streams.index.exact import ExactIndex
from streams.model.embedding import Vector
from streams.model.neighbours import StoredMemory
from streams.model.policy import Policy
from streams.model.ports.index import Query
from streams.model.ports.models import NoAnswer, Wording
from streams.model.verdict import Opinion, Pair
from streams.recall.flow import (
    OVER_FETCH,
    Bounds,
    CombiningOptions,
    LoadedEntries,
    Loader,
    ScopeSearch,
)
from streams.stage.flow.judging import Judging
from streams.store.app import policies
from streams.text.reading import TextAnalyzer
from tests.builders import at_cosine, identity, later, memory, stored, unit, worded
from tests.builders import policy as policy_of
from tests.fakes.embedder import FakeEmbedder
from tests.fakes.judges import Said, ScriptedVerifier, ScriptedWording
from tests.support.stage.deciding import lexicon

QUERY = "what does Ana drink?"
SCOPE = ScopeName("acme/ana")
HOW = CombiningOptions(deduplicate=True, similarity_min=0.6, verify="built-in")
BOUNDS = Bounds(candidates_max=200, pairs_max=1_000, kept_max=1_000)
NOUNS = ("mug", "cup", "pot", "jug", "jar", "can", "tin", "box", "bag", "urn", "vat", "tub")


class CountingIndex(ExactIndex):
    """Remembers how much was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: list[int] = []

    async def search(self, queries: Sequence[Query]) -> list[list[StoredMemory]]:
        self.limits += [query.limit for query in queries]
        return await super().search(queries)


class World:
    """A store, a judge, and a reader."""

    def __init__(
        self,
        verdicts: Callable[[Pair], Said],
        *,
        bounds: Bounds = BOUNDS,
        wording: Wording | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.index = CountingIndex()
        self.judge = ScriptedVerifier(verdicts, name="judge")
        judging = Judging(
            TextAnalyzer(lexicon()), {"built-in": self.judge, "llm": self.judge}, wording
        )
        self.loader = Loader(judging, policy or policies.load("default"), bounds)

    async def keep(self, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        await self.index.write(
            [
                StoredMemory(memory(text, id=identity(at), last_seen_at=later(at)), vector)
                for at, (text, vector) in enumerate(zip(texts, vectors, strict=True), 1)
            ]
        )

    async def load(
        self, limit: int = 10, how: CombiningOptions = HOW, lexical_weight: float = 0.0
    ) -> LoadedEntries:
        wanted = ScopeSearch(SCOPE, QUERY, limit, how, later(1_000), lexical_weight)
        embedder = FakeEmbedder({QUERY: (1, 0, 0, 0, 0, 0, 0, 0)})
        return await self.loader.load(self.index, embedder, wanted)


def always(verdict: Said) -> Callable[[Pair], Said]:
    return lambda _: verdict


def same_noun(pair: Pair) -> Said:
    """Hold two for one fact where their last words are the same."""
    ours, theirs = pair.event.text.split()[-1], pair.memory.text.split()[-1]
    return Verdict.SAME if ours == theirs else Verdict.DISTINCT


def repeats(count: int) -> list[str]:
    """Return so many texts, three for each noun."""
    said = ("Ana keeps a {}", "Ana keeps and uses a {}", "Ana likes to keep a {}")
    return [said[at % 3].format(NOUNS[at // 3]) for at in range(count)]


def shown(loaded: LoadedEntries) -> list[int]:
    """Return how many memories each entry has."""
    return [len(entry.members) for entry in loaded.entries]


def ids(loaded: LoadedEntries) -> list[str]:
    return [one.memory.id for entry in loaded.entries for one in entry.members]


@pytest.mark.covers("S4.12", "S4.13", "S4.22", "B82", "B84")
async def test_three_times_as_many_are_fetched_clustered_and_refilled_to_the_limit() -> None:
    world = World(same_noun)
    await world.keep(repeats(36), [at_cosine(1 - at / 100) for at in range(36)])
    loaded = await world.load(limit=4)
    assert world.index.limits == [4 * OVER_FETCH]
    assert shown(loaded) == [3, 3, 3, 3]
    assert (loaded.found, loaded.beyond) == (12, 0)


@pytest.mark.covers("B84")
async def test_where_few_are_left_more_are_fetched_until_the_limit_or_the_end() -> None:
    world = World(always(Verdict.SAME))
    nearest = [f"Ana keeps a {NOUNS[0]}{'!' * at}" for at in range(9)]
    others = ["Ana walks home", "The bus is late", "It rains in May"]
    vectors = [unit(1)] * 9 + [at_cosine(0.1, axis) for axis in (1, 2, 3)]
    await world.keep([*nearest, *others], vectors)
    loaded = await world.load(limit=3)
    assert world.index.limits == [9, 18]
    assert shown(loaded) == [9, 1, 1]
    assert loaded.beyond == 1


async def test_a_memory_is_found_by_any_of_its_wordings_and_says_which() -> None:
    world = World(always(Verdict.DISTINCT))
    lives = worded(
        stored("Tom lives in Leeds.", unit(0, 1), id=identity(1)),
        ("Tom is based in Leeds.", at_cosine(0.9)),
        ("Leeds is Tom's home.", at_cosine(0.4)),
    )
    works = stored("Tom works in York.", at_cosine(0.5), id=identity(2))
    await world.index.write([lives, works])
    loaded = await world.load()
    found = [entry.members[0] for entry in loaded.entries]
    assert [(one.memory.text, one.similarity, one.wording) for one in found] == [
        ("Tom lives in Leeds.", 0.9, "Tom is based in Leeds."),
        ("Tom works in York.", 0.5, None),
    ]
    assert loaded.entries[0].told.text == "Tom lives in Leeds."


async def test_the_words_of_every_wording_count() -> None:
    world = World(always(Verdict.DISTINCT))
    plain = stored("Tom works in York.", at_cosine(0.5), id=identity(1))
    known = worded(
        stored("Tom lives in Leeds.", at_cosine(0.4), id=identity(2)), (QUERY, unit(0, 1))
    )
    await world.index.write([plain, known])
    loaded = await world.load(lexical_weight=0.9)
    assert ids(loaded) == [identity(2), identity(1)]


@pytest.mark.covers("B34", "D17", "D34")
async def test_no_memory_is_dropped_that_a_judge_leaves_out() -> None:
    world = World(always(NoAnswer("timeout")))
    await world.keep(repeats(9), [at_cosine(1 - at / 100) for at in range(9)])
    loaded = await world.load()
    assert sorted(ids(loaded)) == [identity(at) for at in range(1, 10)]
    assert shown(loaded) == [1] * 9
    assert loaded.degraded == ("built-in: timeout",)


@pytest.mark.covers("S4.21", "B85", "S4.17")
async def test_a_request_may_want_it_otherwise() -> None:
    world = World(same_noun)
    await world.keep(repeats(6), [at_cosine(c, 1) for c in (1.0, 0.95, 0.9, 0.4, 0.35, 0.3)])
    assert shown(await world.load()) == [3, 3]
    asked = len(world.judge.asked)
    off = await world.load(how=replace(HOW, deduplicate=False))
    assert shown(off) == [1] * 6
    assert world.index.limits[-1] == 11  # one more than is shown
    strict = await world.load(how=replace(HOW, similarity_min=1.0))
    assert shown(strict) == [1] * 6
    assert len(world.judge.asked) == asked


@pytest.mark.covers("S4.19")
async def test_vectors_alone_do_where_nobody_is_to_be_asked_and_no_guard_objects() -> None:
    world = World(always(Verdict.DISTINCT))
    texts = ["Ana keeps 3 mugs", "Ana keeps 4 mugs", "Ana has mugs"]
    await world.keep(texts, [unit(1)] * 3)
    loaded = await world.load(how=replace(HOW, verify="none"))
    assert world.judge.asked == []
    assert sorted(shown(loaded)) == [1, 2]
    assert not any(
        {"Ana keeps 3 mugs", "Ana keeps 4 mugs"} <= {one.memory.text for one in entry.members}
        for entry in loaded.entries
    )


async def test_a_judge_must_be_as_sure_as_the_policy_says() -> None:
    told = dict.fromkeys((Verdict.REFINES, Verdict.REFINED_BY, Verdict.OVERLAPS), 0.1)
    told |= {Verdict.SAME: 0.4, Verdict.CONTRADICTS: 0.1, Verdict.DISTINCT: 0.2}
    for least, entries in ((0.7, [3]), (0.71, [1, 1, 1])):
        rules = policy_of(judges={"one_memory_min": least})
        world = World(always(Opinion(Verdict.SAME, "judge", told)), policy=rules)
        await world.keep(repeats(3), [unit(1)] * 3)
        assert shown(await world.load()) == entries


@pytest.mark.covers("D34")
async def test_so_many_pairs_are_asked_about_and_the_next_search_goes_on() -> None:
    world = World(same_noun, bounds=replace(BOUNDS, pairs_max=4))
    await world.keep(repeats(6), [unit(1)] * 6)
    pairs = 6 * 5 // 2
    for asked in (4, 8, 12, 15, 15):
        loaded = await world.load()
        assert len(world.judge.asked) == asked
        assert loaded.unjudged == pairs - asked
    assert shown(loaded) == [3, 3]


async def test_no_more_memories_are_fetched_than_the_bound() -> None:
    world = World(always(Verdict.SAME), bounds=replace(BOUNDS, candidates_max=5))
    await world.keep(repeats(12), [unit(1)] * 12)
    loaded = await world.load(limit=3)
    assert world.index.limits == [5]
    assert loaded.found == 5


@pytest.mark.covers("S4.23")
async def test_what_was_judged_and_worded_is_kept_until_a_memory_changes() -> None:
    wording = ScriptedWording(lambda _: "Ana washes a teapot. Ana keeps a teapot.")
    world = World(always(Verdict.SAME), wording=wording)
    await world.keep(["Ana keeps a teapot.", "Ana washes a teapot."], [unit(1)] * 2)
    by_model = replace(HOW, verify="llm")
    for _ in range(3):
        assert [one.told.way for one in (await world.load(how=by_model)).entries] == ["worded"]
    assert (len(world.judge.asked), len(wording.asked)) == (1, 1)
    changed = memory("Ana keeps a teapot.", id=identity(1), version=2, last_seen_at=later(9))
    await world.index.write([StoredMemory(changed, unit(1))])
    await world.load(how=by_model)
    assert (len(world.judge.asked), len(wording.asked)) == (2, 2)


@pytest.mark.covers("S4.23")
async def test_no_more_verdicts_are_kept_than_the_bound() -> None:
    world = World(same_noun, bounds=replace(BOUNDS, kept_max=1))
    await world.keep(repeats(3), [unit(1)] * 3)
    assert shown(await world.load()) == [3]
    asked = len(world.judge.asked)
    assert shown(await world.load()) == [3]
    assert len(world.judge.asked) >= asked + 2


async def test_refilling_asks_about_no_more_pairs_than_one_search_may() -> None:
    world = World(always(Verdict.SAME), bounds=replace(BOUNDS, pairs_max=5))
    await world.keep(["Ana keeps a mug"] * 3 + repeats(9), [unit(1)] * 12)
    await world.load(limit=3)
    assert len(world.judge.asked) <= 5


@pytest.mark.covers("B83", "B32", "B39")
async def test_a_wording_that_loses_something_is_not_shown() -> None:
    wording = ScriptedWording(lambda _: "Ana keeps a mug.")
    world = World(same_noun, wording=wording)
    await world.keep(["Ana keeps a mug", "Ana washes a mug"], [unit(1)] * 2)
    [entry] = (await world.load(how=replace(HOW, verify="llm"))).entries
    assert entry.told.text == "Ana keeps a mug. Ana washes a mug"
    assert len(wording.asked) == 2


@pytest.mark.covers("S4.33")
async def test_the_querys_words_reorder_what_was_found_and_exclude_nothing() -> None:
    world = World(always(Verdict.DISTINCT))
    await world.keep(
        ["Ben walks home.", "Ana may drink tea.", "It rains."],
        [at_cosine(0.55), at_cosine(0.5, 2), at_cosine(0.45, 3)],
    )
    by_meaning = await world.load()
    with_words = await world.load(lexical_weight=0.3)
    assert ids(by_meaning) == [identity(1), identity(2), identity(3)]
    assert ids(with_words) == [identity(2), identity(1), identity(3)]


async def test_nothing_found_is_no_entry() -> None:
    loaded = await World(same_noun).load()
    assert (list(loaded.entries), loaded.found) == ([], 0)


async def test_the_newer_of_two_in_conflict_comes_before_the_limit_is_drawn() -> None:
    """The older is nearer to the query: whoever takes one result gets what holds now."""
    world = World(always(Verdict.CONTRADICTS))
    older = memory("Ana drinks tea", id=identity(1), last_seen_at=later(1))
    newer = memory("Ana drinks coffee now", id=identity(2), last_seen_at=later(2))
    contradicted = ((older.id, older.version),)
    await world.index.write(
        [
            StoredMemory(older, at_cosine(0.9)),
            StoredMemory(newer, at_cosine(0.8), contradicted=contradicted),
        ]
    )
    loaded = await world.load(limit=1)
    assert ids(loaded) == [newer.id]
    assert loaded.conflicts == {older.id: [newer], newer.id: [older]}
