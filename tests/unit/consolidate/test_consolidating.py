"""A pass over a scope: nominated, proposed, decided by the real owner, until nothing more is found."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from schemas.base import MemoryId, ScopeName
from schemas.decisions import Ignore, Reason, Verdict
from schemas.events import Event
from schemas.memories import Memory
from schemas.topics import EVENTS
from streams.consolidate.app.consolidated import ConsolidationPass, ScopePass
from streams.consolidate.app.consolidating import Consolidation, ScopeSelection
from streams.consolidate.flow import CandidateGeneration, PassBudget
from streams.consolidate.world import LastPass, Passes
from streams.model import wordings
from streams.model.embedding import Vector
from streams.model.policy import Policy
from streams.model.ports.failures import NoStore
from streams.stage.core.consolidation import proposed
from streams.stage.flow.judging import Judging
from streams.store.app import policies
from streams.store.app.client import Client, Response
from streams.store.app.dry_run import DecidingDependencies, DryRunClient, over
from streams.store.app.product_settings import ConsolidateSettings
from streams.text.reading import TextAnalyzer
from tests.builders import at_cosine, event, later, policy, unit
from tests.fakes.clock import StandingClock
from tests.fakes.judges import ScriptedVerifier, ScriptedWording
from tests.fakes.sentences import SentenceEmbedder
from tests.support.stage.bench import Bench, OfBench, is_healthy
from tests.support.stage.deciding import lexicon

APART = policy(enabled=False)
AUTHOR = "consolidation"
JOINING = policy(merge={"characters_max": 2_000}, brake={"decisions_min": 1_000})
ANA = ScopeName("acme/ana")
DAY = 24 * 3_600


def near(count: int) -> dict[str, Vector]:
    """Return sentences that are all near one another."""
    return {
        f"Ana likes the tea of tin {n}.": at_cosine(0.999, 1 + n % 7) if n else unit(1)
        for n in range(count)
    }


CHAIN = {
    "Ana lives in the old town.": unit(1, 0),
    "Ana has a flat in the old town.": unit(0.94, 0.342),
    "Ana rents in the old part of town.": unit(0.766, 0.643),
    "Ben plays chess on Mondays.": unit(0, 0, 1),
}
"""The first is near the second and that near the third, but the first is not near the third."""

RABBITS = {
    "Alice has a rabbit.": unit(1),
    "Alice has a grey rabbit.": at_cosine(0.999, 1),
    "Alice has a rabbit with white paws.": at_cosine(0.999, 2),
}
"""Three that a sentence can say at once."""


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path, APART, {**near(10), **CHAIN, **RABBITS, WORDED: unit(1)})
    await made.take_over()
    yield made
    made.close()


async def keep_apart(bench: Bench, texts: Sequence[str], joining: Policy = JOINING) -> None:
    """Store texts, whatever they say, and go on with a policy that joins."""
    await bench.say(*(event(text, occurred_at=later(n)) for n, text in enumerate(texts)))
    await bench.apply()
    assert len(await bench.live()) == len(texts)
    await bench.take_over(joining)


def clock_at(hours: float) -> StandingClock:
    clock = StandingClock()
    clock.move(hours * 3_600)
    return clock


def consolidation(
    client: Client,
    rules: Policy = JOINING,
    *,
    passes: Passes | None = None,
    hours: float = 1_000,
    judging: Judging | None = None,
    **changed: float,
) -> Consolidation:
    return Consolidation(
        client,
        rules,
        judging or Judging(TextAnalyzer(lexicon()), {}),
        ConsolidateSettings.model_validate({"memories_min": 0, **changed}),
        passes or Passes(None),
        clock_at(hours),
    )


async def is_sound(bench: Bench) -> None:
    """Assert that they are healthy, and that each retired text is still said, word for word."""
    await is_healthy(bench)
    memories = {one.memory.id: one.memory async for one in bench.index.scan()}
    for memory in memories.values():
        assert wordings.has(_stands(memory, memories), memory.text)


def _stands(memory: Memory, memories: Mapping[MemoryId, Memory]) -> Memory:
    while memory.superseded is not None and memory.superseded.by is not None:
        memory = memories[memory.superseded.by]
    assert memory.live
    return memory


@pytest.mark.covers("S1.9", "S1.12", "B92", "S2.21")
async def test_a_pass_joins_what_is_one_fact_and_a_second_one_does_nothing(bench: Bench) -> None:
    await keep_apart(bench, list(near(3)))
    place = OfBench(bench)
    told = (await consolidation(place).run(ScopeSelection())).as_json()
    assert (told["memories_before"], told["memories_after"], told["groups"]) == (3, 1, 1)
    [scope] = told["scopes"]
    [group] = scope["groups"]
    assert group["kind"] == "merge"
    assert {one["text"] for one in group["members"]} == set(near(3))
    assert group["text_after"] == " ".join(near(3))
    assert scope["last_deduplicated_at"] == later(1_000).isoformat()
    await is_sound(bench)
    end = await bench.log.end(EVENTS.name, 0)
    again = await consolidation(place).run(ScopeSelection(now=True))
    assert (again.groups, again.as_json()["removed_count"]) == (0, 0)
    assert await bench.log.end(EVENTS.name, 0) == end


@pytest.mark.covers("D18", "B89")
async def test_a_chain_is_not_joined_at_its_ends(bench: Bench) -> None:
    rules = policy(
        without_verdict={"match": "merge", "review": "merge"},
        bands=_from(0.9),
        nominate={"similarity_min": 0.1},
    )
    await keep_apart(bench, list(CHAIN), rules)
    await consolidation(OfBench(bench), rules).run(ScopeSelection())
    live = set(await bench.live())
    assert "Ben plays chess on Mondays." in live
    assert len(live) == 3
    assert not any("lives" in text and "rents" in text for text in live)


def _from(cosine: float) -> dict[str, float]:
    return {"match": cosine, "review": cosine, "log": 0.1}


@pytest.mark.covers("B92", "C13")
async def test_more_than_one_proposal_can_hold_is_joined_over_rounds(bench: Bench) -> None:
    """Three at a time: the rest of a group, and what came of it, are looked at again."""
    await keep_apart(bench, list(near(7)))
    done = await consolidation(OfBench(bench), members_max=3, rounds_max=20).run(ScopeSelection())
    [told] = done.as_json()["scopes"]
    assert told["memories_after"] == 1
    assert told["rounds"] > 1
    assert 1 < told["depth_max"] <= told["rounds"]
    assert told["without_live_successor"] == 0
    assert told["churn"] >= 1
    await is_sound(bench)


async def test_a_pass_that_still_finds_something_says_so_and_the_next_goes_on(bench: Bench) -> None:
    await keep_apart(bench, list(near(7)))
    place, passes = OfBench(bench), Passes(None)
    first = await consolidation(place, passes=passes, rounds_max=1).run(ScopeSelection())
    assert [one.why for one in first.scopes] == ["unfinished"]
    assert passes.last(ANA) is None
    again = await consolidation(place, passes=passes, rounds_max=20).run(ScopeSelection())
    assert again.scopes[0].why == "done"
    assert len(await bench.live()) == 1


class TestTriggers:
    @pytest.mark.covers("S2.5", "B88")
    @pytest.mark.parametrize(("memories", "joined"), [(10, False), (11, True)])
    async def test_ten_memories_are_left_alone(
        self, bench: Bench, memories: int, *, joined: bool
    ) -> None:
        await keep_apart(bench, list(near(memories)))
        done = await consolidation(OfBench(bench), memories_min=10).run(ScopeSelection())
        assert (done.groups > 0) is joined
        assert done.as_json()["skipped"] == ({} if joined else {"few": 1})

    @pytest.mark.covers("S2.6", "S2.4", "S2.7", "S2.24", "B88")
    @pytest.mark.parametrize(("hours", "looked_at"), [(23.9, False), (24.1, True), (-1, True)])
    async def test_a_scope_is_left_alone_for_a_day(
        self, bench: Bench, hours: float, *, looked_at: bool
    ) -> None:
        """Where the clock was set back, the last pass is not believed."""
        await keep_apart(bench, list(near(3)))
        passes, place = Passes(None), OfBench(bench)
        await consolidation(place, passes=passes, hours=500).run(ScopeSelection())
        await bench.say(event("Ben plays chess on Mondays.", occurred_at=later(400)))
        await bench.apply()
        done = await consolidation(place, passes=passes, hours=500 + hours).run(ScopeSelection())
        assert [one.scope for one in done.scopes] == ([ANA] if looked_at else [])
        assert set(done.skipped.values()) == (set() if looked_at else {"recent"})

    @pytest.mark.covers("B93")
    async def test_a_scope_in_which_something_is_said_just_now_waits(self, bench: Bench) -> None:
        await keep_apart(bench, list(near(3)))
        soon = await consolidation(OfBench(bench), hours=2.1).run(ScopeSelection())
        assert soon.skipped == {ANA: "busy"}
        assert (await consolidation(OfBench(bench), hours=2.2).run(ScopeSelection())).groups == 1

    @pytest.mark.covers("B93", "S2.4")
    async def test_what_has_not_changed_is_not_judged_again(self, bench: Bench) -> None:
        await keep_apart(bench, list(near(3)))
        passes, place = Passes(None), OfBench(bench)
        await consolidation(place, passes=passes).run(ScopeSelection())
        later_ = await consolidation(place, passes=passes, hours=2_000).run(ScopeSelection())
        assert [(one.why, one.judged) for one in later_.scopes] == [("unchanged", 0)]
        other = policy(merge={"characters_max": 1_999}, brake={"decisions_min": 1_000})
        new = await consolidation(place, other, passes=passes, hours=3_000).run(ScopeSelection())
        assert [one.why for one in new.scopes] == ["done"]

    async def test_one_scope_and_those_below_it_can_be_asked_for(self, bench: Bench) -> None:
        await keep_apart(bench, list(near(3)))
        for scope, joined in (("acme/an", 0), ("acme", 1), ("acme/ana", 0)):
            done = await consolidation(OfBench(bench)).run(ScopeSelection(scope=scope, now=True))
            assert done.groups == joined, scope

    def test_passes_are_remembered_in_a_file_and_a_broken_file_is_told(
        self, tmp_path: Path
    ) -> None:
        file = tmp_path / "passes.sqlite3"
        Passes(file, read_only=True).close()
        assert not file.exists()
        passes = Passes(file)
        passes.keep(ANA, LastPass(later(1), "x"))
        passes.keep(ANA, LastPass(later(2), None))
        passes.close()
        looked = Passes(file, read_only=True)
        looked.keep(ANA, LastPass(later(9), "y"))
        assert looked.last(ANA) == LastPass(later(2), None)
        assert ANA.encode() not in file.read_bytes()
        looked.close()
        file.write_bytes(b"no database" * 100)
        with pytest.raises(NoStore, match="delete it"):
            Passes(file)


class TestBesideLiveTraffic:
    async def test_a_stale_proposal_is_refused_and_made_anew(self, bench: Bench) -> None:
        first, second, third = near(3)
        await keep_apart(bench, [first, second])
        place = OfBench(bench)
        place.meanwhile = lambda: [event(first, event_id="again", occurred_at=later(9))]
        done = await consolidation(place).run(ScopeSelection(now=True))
        assert (done.refused, done.groups, len(place.proposed)) == (1, 1, 2)
        [left] = (await bench.live()).values()
        assert left.observation_count == 3
        assert third not in left.text
        await is_sound(bench)

    async def test_one_that_keeps_changing_is_given_up_for_now(self, bench: Bench) -> None:
        first, second, _ = near(3)
        await keep_apart(bench, [first, second])
        place = _Restless(bench, first)
        done = await consolidation(place, rounds_max=3).run(ScopeSelection(now=True))
        assert (done.refused, done.groups) == (3, 0)
        assert done.scopes[0].why == "unfinished"

    async def test_two_at_once_join_once(self, bench: Bench) -> None:
        """Both have seen the same memories; the second proposal finds them changed."""
        await keep_apart(bench, list(near(3)))
        memories = list((await bench.live()).values())
        one, other = (proposed(ANA, author, memories) for author in (AUTHOR, "somebody"))
        joined, late, again = await bench.say(one, other, one)
        assert joined.kind == "merge"
        assert isinstance(late, Ignore)
        assert late.evidence.reason is Reason.OUT_OF_DATE
        assert isinstance(again, Ignore)
        assert again.evidence.reason is Reason.SAME_EVENT
        await bench.apply()
        await is_sound(bench)

    @pytest.mark.parametrize("decided", [0, 1, 2])
    async def test_a_kill_in_the_middle_leaves_nothing_half_done(
        self, bench: Bench, decided: int
    ) -> None:
        """The proposals are in the log, some of them decided on, none applied; then all begins anew."""
        await keep_apart(bench, list(near(6)))
        memories = sorted((await bench.live()).values(), key=lambda one: one.id)
        await bench.publish(*(proposed(ANA, AUTHOR, memories[i : i + 3]) for i in (0, 3)))
        for _ in range(decided):
            await bench.decide_next(1)
        await bench.take_over()
        await bench.decide()
        await bench.apply()
        await consolidation(OfBench(bench), rounds_max=20).run(ScopeSelection(now=True))
        assert len(await bench.live()) == 1
        await is_sound(bench)


class _Restless(OfBench):
    """Somebody says one of the texts again before each decision."""

    def __init__(self, bench: Bench, text: str) -> None:
        super().__init__(bench)
        self._text = text

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        said = f"again {len(self.proposed)}"
        self.meanwhile = lambda: [event(self._text, event_id=said, occurred_at=later(99))]
        return await super().submit(events)


class TestLimits:
    @pytest.mark.covers("S2.30")
    async def test_more_than_the_brake_allows_is_held_back_until_somebody_looks(
        self, bench: Bench
    ) -> None:
        rules = policy(merge={"characters_max": 2_000}, brake={"decisions_min": 7})
        await keep_apart(bench, list(near(7)), rules)
        place = OfBench(bench)
        held = await consolidation(place, rules).run(ScopeSelection())
        assert (held.groups, place.proposed, held.scopes[0].why) == (0, [], "too-many")
        assert "--force" in held.alerts[0]
        done = await consolidation(place, rules, rounds_max=20).run(
            ScopeSelection(now=True, force=True)
        )
        assert done.scopes[0].after == 1
        assert done.as_json()["status"] == "alert"

    async def test_a_pass_never_trips_the_brake_of_the_write_path(self, bench: Bench) -> None:
        rules = policy(merge={"characters_max": 2_000}, brake={"decisions_min": 1})
        await keep_apart(bench, list(near(4)), rules)
        await consolidation(OfBench(bench), rules).run(ScopeSelection(now=True, force=True))
        [again] = await bench.say(event("Ana likes the tea of tin 9.", occurred_at=later(50)))
        assert again.kind == "merge"
        assert bench.warned == []

    async def test_without_time_scopes_stay_due(self, bench: Bench) -> None:
        await keep_apart(bench, list(near(3)))
        passes = Passes(None)
        done = await consolidation(OfBench(bench), passes=passes, seconds_max=1e-9).run(
            ScopeSelection()
        )
        assert (done.skipped, passes.last(ANA)) == ({ANA: "no-time"}, None)

    async def test_no_more_pairs_are_asked_about_than_the_budget_has(self, bench: Bench) -> None:
        rules = policy(judges={"chain": ["llm"]}, merge={"characters_max": 2_000})
        await keep_apart(bench, list(near(6)), rules)
        judge = ScriptedVerifier(lambda _: Verdict.SAME)
        judging = Judging(TextAnalyzer(lexicon()), {"llm": judge})
        stored = [one async for one in bench.index.scan()]
        found = await CandidateGeneration(judging, rules).nominate(
            ANA, stored, PassBudget(llm_questions=4), {}
        )
        assert (len(judge.asked), found.judged, found.complete) == (4, 4, False)
        in_groups = [one.id for group in found.groups for one in group]
        assert len(in_groups) == len(set(in_groups))
        done = await consolidation(OfBench(bench), rules, judging=judging, llm_questions_max=4).run(
            ScopeSelection()
        )
        assert done.scopes[0].why == "budget"

    async def test_where_a_policy_compares_nothing_nothing_is_proposed(self, bench: Bench) -> None:
        await keep_apart(bench, list(near(3)), APART)
        done = await consolidation(OfBench(bench), APART).run(ScopeSelection())
        assert (done.groups, done.scopes[0].judged) == (0, 0)


@pytest.mark.covers("D14", "S2.19", "S2.18")
async def test_no_fact_is_left_without_a_survivor(bench: Bench) -> None:
    """Pairwise, each of a chain removes the less important: the end is left with nobody like it."""
    adr_004 = policy(
        bands=_from(0.75001),
        nominate={"similarity_min": 0.1},
        better={"order": ["importance"], "tie": "merge"},
        without_verdict={"match": "keep-better", "review": "keep-better"},
        merge={"characters_max": 2_000},
    )
    texts = list(CHAIN)
    for number, (text, importance) in enumerate(zip(texts, (0.9, 0.6, 0.3, 0.5), strict=True)):
        await bench.say(event(text, importance=importance, occurred_at=later(number)))
    await bench.apply()
    await bench.take_over(adr_004)
    await consolidation(OfBench(bench), adr_004, rounds_max=20).run(ScopeSelection())
    kept = [wordings.of(memory) for memory in (await bench.live()).values()]
    assert len(kept) < len(texts)
    assert set(texts) <= {one.text for memory in kept for one in memory}
    await is_sound(bench)


@pytest.mark.covers("S2.30", "B115")
def test_an_alert_tells_where_too_much_went() -> None:
    def went(before: int) -> list[str]:
        passed = ScopePass(ANA, None, later(1), "done", before, 1, 9, 9, 0, 1, 0, 0, ())
        return ConsolidationPass(JOINING.id, (passed,), {}, seconds=1.0).alerts

    assert "acme/ana: 19 of 20 memories removed, more than 50%" in went(20)[0]
    assert went(19) == []  # too few to tell


@pytest.mark.covers("S2.31")
def test_the_report_has_the_figures_that_a_person_watches() -> None:
    told = ConsolidationPass(JOINING.id, (), {ANA: "few"}, seconds=61.0).as_json()
    assert told["alerts"] == ["the pass took 61 s, more than 60 s"]
    assert told["duration_ms"] == 61_000
    assert told["removal_rate"] is None
    assert told["status"] == "unknown"


@pytest.mark.covers("S2.11", "S2.12", "S2.13", "S2.3")
@pytest.mark.parametrize(
    ("first", "second", "cosine", "importance", "left"),
    [
        ("Lives in Grenoble", "Home in Grenoble, France", 0.87, (0.5, 0.5), 1),
        ("Prefers programming in Python", "Python is favorite", 0.81, (0.5, 0.5), 1),
        ("Works at Google", "Software engineer at Google", 0.72, (0.5, 0.5), 2),
        ("Likes coffee", "Enjoys croissants", 0.68, (0.5, 0.5), 2),
        ("Lives in Grenoble", "Home in Grenoble, France", 0.87, (0.5, 0.9), 1),
    ],
)
async def test_by_the_policy_adr_004_a_pass_does_what_the_write_path_does(
    first: str, second: str, cosine: float, importance: tuple[float, float], left: int
) -> None:
    vectors = SentenceEmbedder({first: unit(1), second: at_cosine(cosine)}, characters_max=500)
    judging, chosen = Judging(TextAnalyzer(lexicon()), {}), policies.load("adr-004")
    kept = DryRunClient(policies.load("keep-both"), DecidingDependencies(vectors, judging))
    said = [
        event(text, occurred_at=later(n), importance=importance[n], tags=[f"t{n}"])
        for n, text in enumerate((first, second))
    ]
    await kept.submit(said)
    client = await over(await kept.index(), chosen, DecidingDependencies(vectors, judging))
    await consolidation(client, chosen).run(ScopeSelection())
    live = [one.memory async for one in (await client.index()).scan() if one.memory.live]
    assert len(live) == left
    if left == 1:
        assert set(live[0].tags) == {"t0", "t1"}
        assert live[0].importance == max(importance)
        assert all(word in live[0].text for word in {*first.split()} - {"Lives", "programming"})


@pytest.mark.covers("S2.2", "S2.23")
@pytest.mark.parametrize("characters_max", [2_000, 60, 40, 10])
async def test_a_group_keeps_what_fits_and_the_list_never_grows(
    bench: Bench, characters_max: int
) -> None:
    """60 characters hold two of the sentences, 40 hold one; nothing said is lost or hidden."""
    rules = policy(merge={"characters_max": characters_max}, brake={"decisions_min": 1_000})
    await keep_apart(bench, list(near(5)), rules)
    done = await consolidation(OfBench(bench), rules, rounds_max=20).run(ScopeSelection(now=True))
    live = list(await bench.live())
    assert len(live) == {2_000: 1, 60: 3}.get(characters_max, 5)
    assert all(any(text in one for one in live) for text in near(5))
    [scope] = done.scopes
    assert scope.bytes_before == sum(len(text) + len("- \n") for text in near(5))
    assert scope.bytes_after == sum(len(text) + len("- \n") for text in live)
    assert scope.bytes_after <= scope.bytes_before
    await is_sound(bench)


LONG = (
    "Alice has a grey rabbit, and the rabbit that Alice has is a rabbit with white paws, all white."
)


async def test_a_wording_longer_than_what_it_words_is_not_shown(bench: Bench) -> None:
    rules = policy(merge={"strategy": "llm", "characters_max": 2_000})
    texts = list(RABBITS)[1:]
    await keep_apart(bench, texts, rules)
    judging = Judging(TextAnalyzer(lexicon()), {}, ScriptedWording([LONG]))
    await bench.take_over(judges=judging)
    done = await consolidation(OfBench(bench), rules, judging=judging).run(ScopeSelection())
    assert list(await bench.live()) == [" ".join(texts)]
    assert done.scopes[0].bytes_after <= done.scopes[0].bytes_before


WORDED = "Alice has a grey rabbit with white paws."
LESS = "Alice has a rabbit with white paws."


@pytest.mark.covers("S2.36", "S1.23")
@pytest.mark.parametrize(
    ("wordings", "text"),
    [
        pytest.param([WORDED], WORDED, id="all is said"),
        pytest.param([LESS, WORDED], WORDED, id="all is said when asked again"),
        pytest.param(
            [LESS, LESS], " ".join(list(RABBITS)[1:]), id="what each adds, where something is lost"
        ),
    ],
)
async def test_a_language_model_may_word_what_several_say(
    bench: Bench, wordings: list[str], text: str
) -> None:
    """It is given the whole cluster, oldest to newest."""
    rules = policy(merge={"strategy": "llm", "characters_max": 2_000})
    texts = list(RABBITS)
    await keep_apart(bench, texts, rules)
    wording = ScriptedWording(wordings)
    judging = Judging(TextAnalyzer(lexicon()), {}, wording)
    await bench.take_over(judges=judging)
    await consolidation(OfBench(bench), rules, judging=judging).run(ScopeSelection())
    assert [part.text for part in wording.asked[0].parts] == texts
    assert list(await bench.live()) == [text]
    await is_healthy(bench)
