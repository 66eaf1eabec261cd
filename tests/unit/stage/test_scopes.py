"""Rules of a scope's own, through the deduplicator: which hold where, and what off means."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from schemas.base import ContentKey
from schemas.decisions import (
    Decision,
    Ignore,
    Insert,
    Marker,
    Merge,
    Reason,
    Reinforce,
    Replace,
    Verdict,
)
from schemas.events import Remember
from streams.index.exact import ExactIndex
from streams.model.embedding import TextVector
from streams.model.neighbours import StoredMemory
from streams.model.policy import Policy
from streams.model.ports.index import Query
from streams.stage.core.overlay import Fork, Overlay
from streams.stage.flow.apply import apply
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.incoming import ReceivedRecord
from streams.stage.flow.judging import Judging
from streams.text.lexicon import Lexicon
from streams.text.reading import TextAnalyzer
from tests.builders import at_cosine, event, later, policy, record, unit
from tests.fakes.judges import ScriptedVerifier
from tests.fakes.sentences import SentenceEmbedder
from tests.unit.stage.test_flow import window

COFFEE, TRULY = "Ana likes coffee.", "Ana truly likes coffee."
STRONG = "Ana drinks it strong."
TABLE = {COFFEE: unit(1), TRULY: at_cosine(0.97), STRONG: at_cosine(0.975)}


class Counted(ExactIndex):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def search(self, queries: Sequence[Query]) -> list[list[StoredMemory]]:
        self.asked += len(queries)
        return await super().search(queries)

    async def with_content(
        self, keys: Sequence[ContentKey]
    ) -> dict[ContentKey, list[StoredMemory]]:
        self.asked += len(keys)
        return await super().with_content(keys)


class Embedding(SentenceEmbedder):
    """Remembers every text that it was asked for."""

    def __init__(self) -> None:
        super().__init__(TABLE, characters_max=200)
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        self.texts += texts
        return await super().embed(texts)


class World:
    """A deduplicator whose index, embedder and judge tell what they were asked."""

    def __init__(self, rules: Policy) -> None:
        self.index = Counted()
        self.embedder = Embedding()
        self.judge = ScriptedVerifier(lambda _: Verdict.SAME)
        judging = Judging(TextAnalyzer(Lexicon({}, (), {}, {})), {"llm": self.judge})
        self._deduplicator = Deduplicator(self.embedder, self.index, self.index, rules, judging)
        self._overlay = Overlay()

    async def say(self, *events: Remember) -> list[Decision]:
        """Decide on events as one batch, and apply what comes of it."""
        made = await self._decide(events, self._overlay.fork())
        await apply(window(made), index=self.index)
        return made

    async def _decide(self, events: Sequence[Remember], fork: Fork) -> list[Decision]:
        batch = [ReceivedRecord(record(b"", at), said) for at, said in enumerate(events)]
        return (await self._deduplicator.deduplicate(batch, fork)).decisions


def rules(scopes: Mapping[str, Mapping[str, Any]]) -> Policy:
    return policy(
        judges={"chain": ["llm"]},
        without_verdict={"match": "keep-both", "review": "keep-both"},
        scopes=scopes,
    )


def said(text: str, scope: str, **fields: Any) -> Remember:
    return event(text, scope=scope, **{"event_id": f"{scope}: {text}", **fields})


def reason(decision: Decision) -> Reason:
    assert not isinstance(decision, Marker)
    return decision.evidence.reason


@pytest.mark.covers("B61")
@pytest.mark.parametrize(
    ("scope", "kind"),
    [
        ("acme", Reinforce),
        ("acme/ana", Replace),
        ("acme/ana/work", Replace),
        ("acme/ana/home", Reinforce),
        ("acme/ana/home/bath", Reinforce),
        ("acme/ana-two", Reinforce),
        ("acme/an", Reinforce),
        ("beta/acme/ana", Reinforce),
    ],
)
async def test_the_longest_path_of_a_scope_has_its_rules(scope: str, kind: type[Decision]) -> None:
    world = World(
        rules(
            {
                "acme/ana": {"with_verdict": {"same": "replace"}},
                "acme/ana/home": {"nominate": {"neighbours_max": 3}},
            }
        )
    )
    _, second = await world.say(said(COFFEE, scope), said(TRULY, scope))
    assert type(second) is kind


@pytest.mark.covers("B61")
async def test_each_scope_of_a_batch_is_decided_by_its_own_rules() -> None:
    world = World(rules({"acme/ben": {"bands": {"match": 1, "review": 1, "log": 1}}}))
    scopes = ["acme/ana", "acme/ben"]
    made = await world.say(*(said(text, scope) for text in (COFFEE, TRULY) for scope in scopes))
    assert [type(one) for one in made] == [Insert, Insert, Reinforce, Insert]
    assert reason(made[3]) is Reason.NOTHING_NEAR


class TestSwitchedOff:
    """In `off`, nothing is deduplicated; everywhere else it is."""

    @pytest.fixture
    def world(self) -> World:
        return World(rules({"off": {"enabled": False}}))

    @pytest.mark.covers("B107", "S0.66")
    async def test_nothing_is_searched_or_judged_and_every_event_is_a_memory(
        self, world: World
    ) -> None:
        made = await world.say(
            said(COFFEE, "off/ana"),
            said(TRULY, "off/ana"),
            said(COFFEE, "off/ana", event_id="the same words"),
        )
        assert [type(one) for one in made] == [Insert] * 3
        assert {reason(one) for one in made} == {Reason.SWITCHED_OFF}
        assert (world.index.asked, world.judge.asked) == (0, [])
        assert len({one.memory.id for one in made if isinstance(one, Insert)}) == 3
        assert await world.index.count() == 3

    @pytest.mark.covers("B107", "S0.21")
    async def test_elsewhere_it_is_on_unless_said_otherwise(self, world: World) -> None:
        made = await world.say(said(COFFEE, "on/ana"), said(TRULY, "on/ana"))
        assert [type(one) for one in made] == [Insert, Reinforce]
        assert world.index.asked
        assert len(world.judge.asked) == 1

    async def test_its_memories_have_vectors_and_are_found_when_it_is_switched_on(
        self, world: World
    ) -> None:
        await world.say(said(COFFEE, "off/ana"))
        [stored] = [one async for one in world.index.scan()]
        assert stored.vector is not None
        assert stored.vector.tobytes() == unit(1).tobytes()

    async def test_an_event_that_comes_again_is_ignored_all_the_same(self, world: World) -> None:
        once = said(COFFEE, "off/ana")
        first, again = await world.say(once, once)
        assert (type(first), type(again)) == (Insert, Ignore)
        world.embedder.texts.clear()
        [later] = await world.say(once)
        assert isinstance(later, Ignore)
        assert world.embedder.texts == []

    async def test_what_its_producer_names_still_changes_in_place(self, world: World) -> None:
        await world.say(said(COFFEE, "off/ana", memory_id="drink"))
        [renamed] = await world.say(said(TRULY, "off/ana", memory_id="drink"))
        assert isinstance(renamed, Replace)
        assert reason(renamed) is Reason.SAME_MEMORY_ID

    async def test_what_an_event_names_is_not_retired_and_the_evidence_says_so(
        self, world: World
    ) -> None:
        [known] = await world.say(said(COFFEE, "off/ana"))
        assert isinstance(known, Insert)
        [made] = await world.say(said(TRULY, "off/ana", supersedes=(known.memory.id,)))
        assert isinstance(made, Insert)
        assert made.evidence.refused == (f"{known.memory.id}: switched off here",)

    @pytest.mark.covers("B107")
    async def test_a_whole_policy_can_be_off_and_a_scope_of_it_on(self) -> None:
        content = rules({"acme/ana": {"enabled": True}}).model_dump()
        world = World(Policy.model_validate({**content, "enabled": False}))
        made = await world.say(
            said(COFFEE, "acme/ben"),
            said(COFFEE, "acme/ben", event_id="again"),
            said(COFFEE, "acme/ana"),
            said(COFFEE, "acme/ana", event_id="again"),
        )
        assert [type(one) for one in made] == [Insert, Insert, Insert, Reinforce]


async def test_merging_is_limited_by_the_scopes_own_rule() -> None:
    content = rules({"acme/ben": {"merge": {"characters_max": 30}}}).model_dump()
    merging: dict[str, Any] = {
        **content,
        "judges": {"chain": []},
        "without_verdict": {"match": "merge"},
    }
    world = World(Policy.model_validate(merging))
    late: dict[str, Any] = {"occurred_at": later(1)}
    _, ana = await world.say(said(COFFEE, "acme/ana"), said(STRONG, "acme/ana", **late))
    _, ben = await world.say(said(COFFEE, "acme/ben"), said(STRONG, "acme/ben", **late))
    assert isinstance(ana, Merge)
    assert isinstance(ben, Merge)
    assert ana.memory.text == f"{COFFEE} {STRONG}"
    assert ben.memory.text == COFFEE
    assert [variant.text for variant in ben.memory.variants] == [STRONG]
