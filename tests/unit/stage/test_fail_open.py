"""Events that cannot be compared: stored unchecked where the policy says so, and made up for."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from schemas.decisions import Decision, Ignore, Insert, Merge, Reason, Revise, Verdict
from schemas.events import Remember
from schemas.memories import Memory
from streams.consolidate.app.consolidated import ScopePass
from streams.consolidate.app.consolidating import Consolidation, ScopeSelection
from streams.consolidate.world import Passes
from streams.forget.app.forgetting import ForgetTarget, PlanningDependencies, plans
from streams.index.exact import ExactIndex
from streams.model.embedding import TextVector
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.policy import Policy
from streams.model.ports.failures import Fatal, NoServer, Transient, Unreachable
from streams.model.ports.index import IndexLevel, Query
from streams.model.ports.models import NoAnswer
from streams.model.verdict import Opinion, Pair
from streams.stage.core.lineage import Wish
from streams.stage.core.tombstones import TombstoneKey
from streams.stage.flow.judging import Judging
from streams.stage.flow.writer import catch_up
from streams.store.app.product_settings import ConsolidateSettings
from tests.builders import at_cosine, event, judging, later, policy, unit
from tests.fakes.clock import StandingClock
from tests.fakes.judges import ScriptedVerifier
from tests.fakes.sentences import SentenceEmbedder
from tests.support.stage.bench import Bench, OfBench, evidence_of, is_healthy, made

BARS = "Trap door bars after descending."
BARRED = "The trap door bars itself after you descend."
LAMP = "A lamp is here."
OPEN = "The window is open."
TABLE = {BARS: unit(1), BARRED: at_cosine(0.99), LAMP: unit(0, 0, 1), OPEN: unit(0, 0, 0, 1)}
PLACE = ScopeName("zork/193")
KEY = TombstoneKey(b"a secret of thirty-two characters")

WAITING = policy()
LENIENT = policy(fail_open={"enabled": True, "attempts": 2})


class Moody(SentenceEmbedder):
    """Refuses some texts for good, and does not answer while it is away."""

    def __init__(self) -> None:
        super().__init__(TABLE, characters_max=200)
        self.refused: set[str] = set()
        self.is_away = False

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        if self.is_away:
            raise Unreachable("the endpoint returns no vectors now: unreachable")
        if self.refused.intersection(texts):
            raise NoServer("the endpoint returns no vectors: http 400")
        return await super().embed(texts)


class Absent(ExactIndex):
    """An index that answers nothing while it is away."""

    is_away = False

    def _require_here(self) -> None:
        if self.is_away:
            raise Unreachable("the index does not answer")

    async def search(self, queries: Sequence[Query]) -> list[list[StoredMemory]]:
        self._require_here()
        return await super().search(queries)

    async def get(self, ids: Sequence[MemoryId]) -> dict[MemoryId, StoredMemory]:
        self._require_here()
        return await super().get(ids)

    async def with_content(
        self, keys: Sequence[ContentKey]
    ) -> dict[ContentKey, list[StoredMemory]]:
        self._require_here()
        return await super().with_content(keys)

    async def decided(self, ids: Sequence[DecisionId]) -> dict[DecisionId, KnownEvent]:
        self._require_here()
        return dict(await super().decided(ids))

    async def level(self) -> IndexLevel | None:
        self._require_here()
        return await super().level()


class World:
    """A bench whose embedder and index may fail."""

    def __init__(self, directory: Path, rules: Policy, key: TombstoneKey | None = None) -> None:
        self.embedder, self.index = Moody(), Absent()
        self.bench = Bench(
            directory, rules, TABLE, key=key, embedder=self.embedder, index=self.index
        )
        self._said = 0

    async def says(self, *texts: str, **fields: object) -> list[Decision]:
        """Decide on texts, each once more where a batch has failed before it was let through."""
        said = [self._event(text, **fields) for text in texts]
        await self.bench.publish(*said)
        return await self.settled()

    async def settled(self) -> list[Decision]:
        """Decide on what waits as a service does: claim anew after each failure, three times."""
        for _ in range(3):
            try:
                return await self.bench.decide()
            except Transient:
                await self.claimed()
        return await self.bench.decide()

    async def claimed(self) -> None:
        """Claim the partition as the same process, as often as that takes, three times at most."""
        for _ in range(3):
            try:
                await self.bench.claim()
            except Transient:
                continue
            return

    async def consolidated(self, judges: Judging | None = None, **changed: float) -> ScopePass:
        """Make a pass over all scopes; return what came of the only one."""
        settings = ConsolidateSettings.model_validate({"quiet_minutes": 0, **changed})
        clock = StandingClock()
        clock.move(10**7)
        place, judges, rules = OfBench(self.bench), judges or judging(), self.bench.policy
        opened = Consolidation(place, rules, judges, settings, Passes(None), clock)
        [one] = (await opened.run(ScopeSelection())).scopes
        return one

    async def memories(self) -> dict[str, Memory]:
        """Return the live memories that a rebuilt index holds: the log is the truth."""
        await self.bench.apply()
        rebuilt = ExactIndex()
        end = await self.bench.log.end("memory.decisions", 0)
        await catch_up(self.bench.log, 0, end, rebuilt, reached=lambda _: None)
        live = {one.memory.id: one.memory async for one in rebuilt.scan() if one.memory.live}
        held = {one.memory.id: one.memory async for one in self.index.scan() if one.memory.live}
        assert live == held
        await is_healthy(self.bench)
        return {memory.text: memory for memory in live.values()}

    def _event(self, text: str, **fields: object) -> Remember:
        self._said += 1
        values = {"event_id": f"turn {self._said}", "occurred_at": later(self._said), **fields}
        return event(text, scope=PLACE, **values)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made_so = World(tmp_path, LENIENT)
    await made_so.bench.take_over()
    yield made_so
    made_so.bench.close()


@pytest.fixture
async def waiting(tmp_path: Path) -> AsyncIterator[World]:
    made_so = World(tmp_path, WAITING)
    await made_so.bench.take_over()
    yield made_so
    made_so.bench.close()


class TestEmbedding:
    @pytest.mark.covers("S0.53", "B77")
    async def test_one_memory_that_cannot_be_embedded_is_created_unchecked(
        self, world: World
    ) -> None:
        world.embedder.refused.add(BARRED)
        decided = await world.says(BARS, BARRED, LAMP, BARS)
        assert [one.kind for one in decided] == ["insert", "insert", "insert", "reinforce"]
        assert [made(one).unchecked for one in decided] == [None, "not-embedded", None, None]
        assert evidence_of(decided[1]).reason is Reason.UNCHECKED
        assert evidence_of(decided[1]).degraded == ("embedder: refused",)
        [warned] = world.bench.warned
        assert warned == (
            "stored unchecked, as the policy allows: 1 events; embedder: the endpoint returns no "
            "vectors: http 400"
        )
        assert (await world.memories())[BARRED].unchecked == "not-embedded"

    @pytest.mark.covers("S0.53")
    async def test_an_embedder_that_is_away_is_waited_for_as_long_as_the_policy_says(
        self, world: World
    ) -> None:
        world.embedder.is_away = True
        await world.bench.publish(event(LAMP, scope=PLACE))
        for _ in range(2):
            with pytest.raises(Unreachable):
                await world.bench.decide()
            await world.claimed()
        [kept] = await world.bench.decide()
        assert made(kept).unchecked == "not-embedded"
        world.embedder.is_away = False
        [checked] = await world.says(OPEN)
        assert made(checked).unchecked is None
        world.embedder.is_away = True  # patience begins anew
        await world.bench.publish(event(BARS, scope=PLACE))
        with pytest.raises(Unreachable):
            await world.bench.decide()

    async def test_without_the_switch_the_event_waits_or_the_process_stops(
        self, waiting: World
    ) -> None:
        waiting.embedder.is_away = True
        with pytest.raises(Unreachable):
            await waiting.says(LAMP)
        waiting.embedder.is_away = False
        waiting.embedder.refused.add(LAMP)
        with pytest.raises(Fatal, match="http 400"):
            await waiting.bench.decide()
        assert await waiting.bench.decisions() == []

    @pytest.mark.covers("S0.53")
    async def test_the_next_consolidation_embeds_it_compares_it_and_takes_the_mark_off(
        self, world: World
    ) -> None:
        world.embedder.refused |= {BARRED, LAMP}
        await world.says(BARS, BARRED, LAMP)
        await world.memories()
        world.embedder.refused.clear()
        done = await world.consolidated()
        assert (done.before, done.after, done.checked) == (3, 2, 1)
        assert [one.decision.kind for one in done.groups] == ["merge"]
        kept = await world.memories()
        assert {memory.unchecked for memory in kept.values()} == {None}
        assert not any(memory.truncated for memory in kept.values())
        [found] = await world.index.search([Query(PLACE, TABLE[LAMP], 1, 0.9)])
        assert [one.memory.text for one in found] == [LAMP]

    async def test_what_still_cannot_be_embedded_stays_marked_for_the_pass_after(
        self, world: World
    ) -> None:
        world.embedder.refused.add(LAMP)
        await world.says(LAMP)
        await world.memories()
        assert (await world.consolidated()).checked == 0
        assert (await world.memories())[LAMP].unchecked == "not-embedded"
        ignored = (await world.bench.decisions())[-1]
        assert isinstance(ignored, Ignore)
        assert ignored.evidence.reason is Reason.UNCHECKED

    async def test_a_memory_without_a_vector_is_joined_with_nothing_and_known_by_its_words(
        self, world: World
    ) -> None:
        world.embedder.refused.add(BARS)
        await world.says(BARS)
        [nearly, again] = await world.says(BARRED, BARS)
        assert (nearly.kind, again.kind) == ("insert", "reinforce")
        assert made(again).unchecked == "not-embedded"

    async def test_what_was_forgotten_does_not_come_back_for_want_of_a_vector(
        self, tmp_path: Path
    ) -> None:
        world = World(tmp_path, LENIENT, KEY)
        await world.bench.take_over()
        [lamp] = await world.says(LAMP)
        await world.bench.apply()
        means = PlanningDependencies(KEY, LENIENT, world.embedder, judging())
        wanted, wish = ForgetTarget(memory=made(lamp).id), Wish("cleo", later(9))
        [plan] = await plans(world.bench.log, wanted, means, wish)
        await world.bench.say(*plan.requests)
        await world.bench.apply()
        world.embedder.is_away = True
        with pytest.raises(Unreachable):
            await world.says(LAMP)
        world.embedder.is_away = False
        await world.claimed()
        assert [one.kind for one in await world.bench.decide()] == ["block"]
        world.bench.close()


class TestIndex:
    @pytest.mark.covers("S1.33", "B77")
    async def test_similarity_query_fails_warn_store_anyway(self, world: World) -> None:
        await world.says(BARS)
        await world.memories()
        world.index.is_away = True
        [kept] = await world.says(BARRED)
        assert isinstance(kept, Insert)
        assert kept.memory.unchecked == "not-compared"
        assert kept.evidence.degraded == ("index: no answer",)
        assert world.bench.warned == [
            "stored unchecked, as the policy allows: 1 events; index: the index does not answer"
        ]
        world.index.is_away = False
        assert set(await world.memories()) == {BARS, BARRED}

    @pytest.mark.covers("S1.33")
    async def test_the_next_consolidation_compares_it(self, world: World) -> None:
        await world.says(BARS)
        await world.memories()
        world.index.is_away = True
        await world.says(BARRED, LAMP)
        world.index.is_away = False
        await world.memories()
        done = await world.consolidated()
        assert (done.before, done.after, done.checked) == (3, 2, 1)
        merged, checked = (await world.bench.decisions())[-2:]
        assert isinstance(merged, Merge)
        assert isinstance(checked, Revise)
        assert checked.evidence.reason is Reason.CHECKED
        assert {memory.unchecked for memory in (await world.memories()).values()} == {None}

    async def test_what_is_kept_apart_counts_as_compared(self, world: World) -> None:
        """The pass takes the two for one fact, their owner does not."""
        asked = policy(fail_open=LENIENT.fail_open.model_dump(), judges={"chain": ["llm"]})
        await world.bench.take_over(asked, told(Verdict.DISTINCT))
        world.index.is_away = True
        await world.says(BARS, BARRED)
        world.index.is_away = False
        await world.memories()
        done = await world.consolidated(told(Verdict.SAME))
        assert [one.decision.evidence.reason for one in done.groups] == [Reason.NOT_ONE_FACT]
        assert (done.after, done.checked) == (2, 2)

    async def test_what_a_pass_has_no_time_for_stays_marked(self, world: World) -> None:
        asked = policy(fail_open=LENIENT.fail_open.model_dump(), judges={"chain": ["llm"]})
        await world.bench.take_over(asked, told(Verdict.DISTINCT))
        world.index.is_away = True
        await world.says(BARS, BARRED)
        world.index.is_away = False
        await world.memories()
        assert (await world.consolidated(llm_questions_max=0)).checked == 0
        assert (await world.consolidated(told(Verdict.DISTINCT))).checked == 2

    @pytest.mark.covers("S0.54")
    async def test_where_it_cannot_even_be_rebuilt_memories_go_on_being_created(
        self, world: World
    ) -> None:
        """A process that never saw the index goes by the log: what that says is known by its words."""
        await world.says(BARS)
        world.index.is_away = True
        world.bench.owner = world.bench.another()
        await world.claimed()
        decided = await world.says(BARS, LAMP)
        assert [one.kind for one in decided] == ["reinforce", "insert"]
        assert made(decided[1]).unchecked == "not-compared"
        world.index.is_away = False
        assert set(await world.memories()) == {BARS, LAMP}

    async def test_without_the_switch_everything_waits(self, waiting: World) -> None:
        waiting.index.is_away = True
        with pytest.raises(Unreachable):
            await waiting.says(LAMP)
        assert await waiting.bench.decisions() == []
        waiting.index.is_away = False
        await waiting.claimed()
        [kept] = await waiting.bench.decide()
        assert made(kept).unchecked is None

    async def test_what_was_decided_on_before_is_known_by_the_log(self, world: World) -> None:
        """Also where the index has it, and the owner has left it to that."""
        await world.says(BARS, event_id="one")
        await world.says(LAMP, event_id="two")
        await world.memories()
        await world.bench.owner.settle(0)
        world.index.is_away = True
        again = await world.says(BARS, event_id="one", occurred_at=later(1))
        reused = await world.says(OPEN, event_id="two")
        assert [one.kind for one in (*again, *reused)] == ["ignore", "reject"]
        world.index.is_away = False
        assert set(await world.memories()) == {BARS, LAMP}

    @pytest.mark.parametrize("named", [{"memory_id": "door"}, {"supersedes": ["door"]}])
    async def test_what_names_memories_waits(self, world: World, named: dict[str, object]) -> None:
        world.index.is_away = True
        with pytest.raises(Unreachable):
            await world.says(LAMP, **named)
        assert await world.bench.decisions() == []

    async def test_where_something_may_be_forgotten_everything_waits(self, tmp_path: Path) -> None:
        world = World(tmp_path, LENIENT, KEY)
        await world.bench.take_over()
        world.index.is_away = True
        with pytest.raises(Unreachable):
            await world.says(LAMP)
        world.bench.close()


def told(verdict: Verdict) -> Judging:
    """Return judges who say the same of any two texts."""
    return Judging(judging().readings, {"llm": ScriptedVerifier(lambda _: verdict)})


class Broken:
    """Implements ports.Verifier, and fails about one text with what nobody has foreseen."""

    name = "built-in"

    async def verify(self, pairs: Sequence[Pair]) -> list[Opinion | NoAnswer]:
        if any(pair.event.text == BARRED for pair in pairs):
            raise RuntimeError("the model is broken")
        return [NoAnswer("asleep") for _ in pairs]

    async def close(self) -> None: ...


@pytest.mark.covers("S0.56")
async def test_any_exception_in_the_check_is_caught_and_creation_proceeds(tmp_path: Path) -> None:
    rules = policy(
        fail_open={"enabled": True},
        judges={"chain": ["built-in"]},
        without_verdict={"match": "reinforce"},
    )
    world = World(tmp_path, rules)
    judges = Judging(judging().readings, {"built-in": Broken()})
    await world.bench.take_over(judges=judges)
    decided = await world.says(BARS, BARRED, f"{BARS} {BARS}")
    assert [one.kind for one in decided] == ["insert", "insert", "reinforce"]
    assert [made(one).unchecked for one in decided] == [None, "not-compared", None]
    assert evidence_of(decided[1]).degraded == ("judge: failed",)
    assert world.bench.warned == [
        "stored unchecked, as the policy allows: 1 events; judge: RuntimeError while judging"
    ]
    world.bench.close()


class TestPolicy:
    def test_is_named_otherwise_only_where_it_lets_events_through(self) -> None:
        assert policy(fail_open={"attempts": 7}).id == WAITING.id
        assert LENIENT.id != WAITING.id

    def test_holds_for_all_scopes(self) -> None:
        with pytest.raises(ValidationError, match=r"scopes\.acme\.fail_open is not a policy key"):
            policy(scopes={"acme": {"fail_open": {"enabled": True}}})
