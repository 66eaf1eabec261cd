"""The extractor between turns and events: what survives a restart, and what becomes of failures."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from schemas.codec import DEAD_LETTER, EVENT, TURN
from schemas.decisions import Decision
from schemas.events import Remember
from schemas.outcomes import DeadLetter, Stage
from schemas.topics import DEAD_LETTERS, EVENTS, TURNS
from schemas.turns import Turn
from streams.dead_letters.flow import DecodedInput, Letter, again, input_record
from streams.extract.core.triggers import TriggerRules
from streams.extract.flow.extract import Maker, TurnResult
from streams.extract.flow.extractor import EXTRACTOR_GROUP, Extractor
from streams.extract.flow.knowledge import Knowledge
from streams.extract.world.extracting import LlmExtractor
from streams.judges.chat import Chat, Endpoint
from streams.log.consumer import acknowledged, work
from streams.model.embedding import Vector
from streams.model.ports.failures import NoServer, NotYet, Transient, Unreachable
from streams.model.ports.log import CommittedOffset, LogRecord, OutgoingRecord
from streams.stage.flow.incoming import FORWARDED_HEADER
from tests.builders import event, later, policy, turn, unit
from tests.fakes.clock import StandingClock
from tests.standin.answers import DECLINED, taken
from tests.standin.llm import Asked, LlmServer, Reply, Script, in_turn, said
from tests.support.stage.bench import Bench
from tests.support.stage.deciding import lexicon

HATCH = "The hatch is rusted shut."
DOG = "A dog barks below."
OIL = "Oil opens the hatch."
TABLE: Mapping[str, Vector] = {HATCH: unit(1), DOG: unit(0, 1), OIL: unit(0, 0, 1)}
DIED = {"died": True}


def at(number: int, *parts: tuple[str, str], **fields: Any) -> Turn:
    """Build the turn of an hour, in which the agent died: it is looked at."""
    values = {"turn_id": f"t-{number}", "number": number, "state": DIED, **fields}
    return turn(*(parts or (("world", HATCH),)), occurred_at=later(number), **values)


def remembered(text: str = HATCH, **fields: Any) -> Reply:
    return taken(text, **fields)


BROKEN = Reply(503)


class World:
    """A log with one partition, an extractor on it that can be replaced, and who decides."""

    def __init__(self, directory: Path, server: LlmServer | None = None, **limits: int) -> None:
        self.bench = Bench(directory, policy(), TABLE)
        self.log = self.bench.log
        self.taken: list[TurnResult] = []
        self._model = None
        if server is not None:
            endpoint = Endpoint(server.url, "tiny", attempts_max=1, requests_per_minute_tenant=5)
            self.clock = StandingClock()
            self._model = LlmExtractor(Chat(endpoint, self.clock), temperature=0.3)
        self._limits = {"known_max": 50, "undecided_max": 100, **limits}
        self.extractor = self.another()

    def another(self, attempts_max: int = 2) -> Extractor:
        """Return an extractor that knows nothing but what the log and the index say."""
        self.extractor = Extractor(
            Maker(lexicon, self._model, attempts_max),
            self.log,
            rules=TriggerRules(),
            earlier_turns=3,
            failures_max=3,
            knowledge=None if self._model is None else self._knowledge,
            observe=self.taken.extend,
        )
        return self.extractor

    def _knowledge(self, partition: int) -> Knowledge:
        return Knowledge(self.log, self.bench.index, partition, **self._limits)

    async def publish(self, *turns: Turn | bytes, **fields: Any) -> None:
        for one in turns:
            value = TURN.encode(one) if isinstance(one, Turn) else one
            key = one.scope.encode() if isinstance(one, Turn) else None
            sent: dict[str, Any] = {"partition": 0, "key": key, **fields}
            await self.log.append([OutgoingRecord(TURNS.name, value=value, **sent)])

    async def waiting(self) -> list[LogRecord]:
        """Claim the partition; return what is to be worked on."""
        return await self.log.read(TURNS.name, 0, await self.extractor.claim(0), 100)

    async def extract(self) -> None:
        """Claim the partition, and work on all that waits."""
        await work(self.extractor, self.log, await self.waiting())

    async def events(self) -> list[Remember]:
        records = await self.log.read(EVENTS.name, 0, 0, 1_000)
        found = [EVENT.decode(record.value or b"") for record in records]
        return [event for event in found if isinstance(event, Remember)]

    async def texts(self) -> list[str]:
        return [event.text for event in await self.events()]

    async def letters(self) -> list[DeadLetter]:
        records = await self.log.read(DEAD_LETTERS.name, 0, 0, 1_000)
        found = [DEAD_LETTER.decode(record.value or b"") for record in records]
        return [letter for letter in found if isinstance(letter, DeadLetter)]

    async def decide(self) -> list[Decision]:
        """Decide on the events that wait, and apply what came of it."""
        await self.bench.take_over()
        decisions = await self.bench.decide()
        await self.bench.apply()
        return decisions

    async def committed(self) -> int:
        place = await self.log.committed(EXTRACTOR_GROUP, TURNS.name, 0)
        return 0 if place is None else place.offset

    async def close(self) -> None:
        if self._model is not None:
            await self._model.close()
        self.bench.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Give a world without a model."""
    made = World(tmp_path)
    yield made
    await made.close()


class Asking:
    """A world with a model that answers by a script, and what it was asked."""

    def __init__(self, directory: Path, script: Script, **limits: int) -> None:
        self.server = LlmServer(script)
        self.world = World(directory, self.server, **limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.world.close()
        self.server.end()

    @property
    def asked(self) -> list[Asked]:
        return self.server.asked

    def known(self, question: int) -> list[str]:
        return [one["text"] for one in self.asked[question].data["known"]]

    def earlier(self, question: int) -> list[int]:
        return [one["turn"] for one in self.asked[question].data["earlier"]]


class TestWithoutAModel:
    @pytest.mark.covers("S3.29")
    async def test_a_turns_events_are_published_at_once_where_its_scope_belongs(
        self, world: World
    ) -> None:
        await world.publish(at(1, ("world", f"{HATCH} {DOG}")), at(2, state=None))
        await world.extract()
        records = await world.log.read(EVENTS.name, 0, 0, 10)
        assert await world.texts() == [HATCH, DOG]
        assert {record.key for record in records} == {b"acme/ana"}
        assert {record.headers for record in records} == {
            (("memsieve-origin", b"memory.turns/0/0"),)
        }
        assert await world.committed() == 2
        assert [taken.kind for taken in world.taken] == ["untriggered", "events"]

    @pytest.mark.covers("B123")
    async def test_what_is_repeated_makes_the_same_events(self, world: World) -> None:
        await world.publish(at(1), at(2, ("world", DOG)))
        records = await world.waiting()
        await acknowledged(world.extractor, world.log, records)  # and dies before its commit
        world.another()
        await world.extract()
        first, second, *repeated = await world.events()
        assert [first, second] == repeated
        kinds = [decision.kind for decision in await world.decide()]
        assert kinds == ["insert", "insert", "ignore", "ignore"]

    @pytest.mark.covers("B97")
    async def test_after_a_restart_it_still_knows_what_was_recalled(self, world: World) -> None:
        await world.publish(at(1, ("recalled", HATCH), ("user", "Go on.")))
        await world.extract()
        world.another()
        await world.publish(at(2, ("model", "look"), ("world", f"{HATCH} {DOG}")))
        await world.extract()
        assert await world.texts() == [DOG]

    @pytest.mark.covers("B125")
    async def test_a_turn_that_cannot_be_read_is_a_dead_letter_that_names_the_field(
        self, world: World
    ) -> None:
        bad = TURN.encode(at(1)).replace(b'"acme/ana"', b'"acme/*"')
        await world.publish(bad, b"{", at(2))
        await world.extract()
        wild, broken = await world.letters()
        assert (wild.stage, wild.field, wild.origin) == (Stage.DECODE, "scope", "memory.turns/0/0")
        assert wild.error == "scope holds the wildcard *; name one exact scope"
        assert broken.error.startswith("not JSON")
        assert await world.texts() == [HATCH]

    async def test_a_turn_from_tomorrow_is_refused(self, world: World) -> None:
        await world.publish(at(1))
        [record] = await world.waiting()
        early = replace(record, appended_at=later(0))
        await work(world.extractor, world.log, [early])
        [letter] = await world.letters()
        assert letter.field == "occurred_at"

    async def test_a_turn_in_the_wrong_place_is_sent_on_once(self, world: World) -> None:
        await world.publish(at(1), key=b"another key")
        await world.extract()
        assert await world.texts() == []
        [_, sent_on] = await world.log.read(TURNS.name, 0, 0, 10)
        assert (sent_on.key, TURN.decode(sent_on.value or b"")) == (b"acme/ana", at(1))
        assert dict(sent_on.headers) == {FORWARDED_HEADER: b"memory.turns/0/0"}
        await world.publish(at(2), key=b"another", headers=((FORWARDED_HEADER, b"x/0/0"),))
        await world.extract()
        assert await world.texts() == [HATCH]
        [letter] = await world.letters()
        assert letter.field == "partition"

    async def test_a_topic_that_was_made_anew_is_read_from_its_beginning(
        self, world: World
    ) -> None:
        await world.log.commit(EXTRACTOR_GROUP, TURNS.name, 0, CommittedOffset(7))
        await world.publish(at(1))
        await world.extract()
        assert await world.texts() == [HATCH]
        assert await world.committed() == 1


class TestWithAModel:
    @pytest.mark.covers("B94", "B95", "S3.23")
    async def test_each_turn_sees_what_was_taken_before_also_after_a_restart(
        self, tmp_path: Path
    ) -> None:
        async with Asking(tmp_path, in_turn(remembered(), DECLINED, remembered(DOG))) as it:
            world = it.world
            await world.publish(at(5), at(6, state=None), at(10))
            await world.extract()
            assert (it.known(0), it.earlier(0)) == ([], [])
            assert len(it.asked) == 2  # nothing has happened in the sixth
            assert (it.known(1), it.earlier(1)) == ([HATCH], [5, 6])
            assert await world.texts() == [HATCH]
            world.another()
            await world.publish(at(11))
            await world.extract()
            assert (it.known(2), it.earlier(2)) == ([HATCH], [5, 6, 10])  # nothing is decided yet
            foreseen = it.asked[2].data["known"][0]["id"]
            await world.decide()
            assert (await world.bench.live())[HATCH].id == foreseen
            world.another()
            await world.publish(at(12))
            await world.extract()
            assert it.known(3) == [HATCH, DOG]
            ids = {one["text"]: one["id"] for one in it.asked[3].data["known"]}
            live = await world.bench.live()
            assert ids == {text: memory.id for text, memory in live.items()}

    async def test_what_the_index_has_got_is_asked_of_it(self, tmp_path: Path) -> None:
        """Also what other producers have said, as soon as it is a memory."""
        async with Asking(tmp_path, in_turn(remembered(), DECLINED)) as it:
            world = it.world
            await world.publish(at(1))
            await world.extract()
            await world.decide()
            await world.bench.publish(event(OIL, occurred_at=later(2)))
            await world.decide()
            await world.publish(at(2))
            await work(world.extractor, world.log, await world.log.read(TURNS.name, 0, 1, 10))
            assert it.known(1) == [HATCH, OIL]
            assert len(it.asked) == 2

    @pytest.mark.covers("B125")
    async def test_a_failed_call_is_tried_again_then_set_aside_and_requeued(
        self, tmp_path: Path
    ) -> None:
        failing = in_turn(BROKEN, BROKEN, BROKEN, remembered(DOG), remembered())
        async with Asking(tmp_path, failing) as it:
            world = it.world
            await world.publish(at(1), at(2, ("world", DOG)))
            for _ in range(2):
                with pytest.raises(Unreachable, match=r"does not answer \(http 503\)"):
                    await world.extract()
                assert (await world.committed(), await world.texts()) == (0, [])
            await world.extract()
            assert (await world.committed(), await world.texts()) == (2, [DOG])
            [letter] = await world.letters()
            assert letter.stage is Stage.EXTRACT
            assert letter.error.endswith("does not answer (http 503); it was asked 3 times")
            kept = Letter(letter, 1, "open", [0])
            found = again(kept)
            assert isinstance(found, DecodedInput)
            assert found.said == at(1)
            await world.log.append([input_record(kept, found, 1)])
            await world.extract()
            assert await world.texts() == [DOG, HATCH]
            assert it.earlier(4) == []  # what came later is not what it leans on

    @pytest.mark.covers("B125")
    async def test_a_turn_without_an_answer_that_can_be_taken_is_set_aside(
        self, tmp_path: Path
    ) -> None:
        wrong = remembered(supersedes=["no-such-memory"])
        async with Asking(tmp_path, in_turn(wrong, said("Well."), remembered(DOG))) as it:
            await it.world.publish(at(1), at(2))
            await it.world.extract()
            [letter] = await it.world.letters()
            assert letter.stage is Stage.EXTRACT
            assert "no usable answer: not JSON" in letter.error
            assert HATCH not in letter.error
            assert await it.world.texts() == [DOG]

    async def test_one_scope_that_fails_takes_no_answer_from_the_others(
        self, tmp_path: Path
    ) -> None:
        def script(asked: Asked) -> Reply:
            lost = asked.data["now"]["turn"] == 2 and len(it.asked) < 4
            return BROKEN if lost else remembered()

        async with Asking(tmp_path, script) as it:
            await it.world.publish(at(1), at(2, scope="acme/bo"), at(3, scope="acme/cy"))
            with pytest.raises(Unreachable):
                await it.world.extract()
            await it.world.extract()
            questions = [asked.data["now"]["turn"] for asked in it.asked]
            assert sorted(questions) == [1, 2, 2, 3]
            assert {event.scope for event in await it.world.events()} == {
                "acme/ana",
                "acme/bo",
                "acme/cy",
            }

    @pytest.mark.covers("S3.32")
    async def test_who_dies_between_append_and_commit_is_made_up_for_without_asking(
        self, tmp_path: Path
    ) -> None:
        async with Asking(tmp_path, in_turn(remembered(), remembered(DOG))) as it:
            world = it.world
            await world.publish(at(1))
            await acknowledged(world.extractor, world.log, await world.waiting())
            world.another()
            await world.publish(at(2))
            await world.extract()
            assert len(it.asked) == 2
            assert await world.texts() == [HATCH, DOG]
            assert [taken.kind for taken in world.taken] == ["events", "known", "events"]

    async def test_a_turn_that_was_decided_on_long_ago_is_not_asked_about_again(
        self, tmp_path: Path
    ) -> None:
        async with Asking(tmp_path, in_turn(remembered())) as it:
            world = it.world
            await world.publish(at(1))
            await world.extract()
            await world.decide()
            world.another()
            await world.publish(at(1))
            await world.extract()
            assert (len(it.asked), await world.texts()) == (1, [HATCH])

    @pytest.mark.covers("C18")
    async def test_a_budget_that_is_used_up_is_waited_for_and_no_question_is_wasted(
        self, tmp_path: Path
    ) -> None:
        wrong = remembered(supersedes=["no-such-memory"])
        answers = (*[DECLINED] * 4, wrong, remembered())
        async with Asking(tmp_path, in_turn(*answers)) as it:
            world = it.world
            await world.publish(*(at(number) for number in range(5)))
            records = await world.waiting()
            with pytest.raises(NotYet, match="requests_per_minute"):
                await work(world.extractor, world.log, records)
            assert len(it.asked) == 5
            world.clock.move(12)  # one of five a minute
            await work(world.extractor, world.log, records)
            assert len(it.asked) == 6
            assert "none of known" in it.asked[5].data["refused"]
            assert (await world.committed(), await world.texts()) == (5, [HATCH])

    async def test_where_it_would_not_see_what_is_known_nobody_is_asked(
        self, tmp_path: Path
    ) -> None:
        async with Asking(tmp_path, in_turn(remembered()), undecided_max=2) as it:
            world = it.world
            await world.publish(at(1), at(2))
            await world.extract()
            await world.publish(at(3))
            records = await world.log.read(TURNS.name, 0, 2, 10)
            with pytest.raises(NotYet, match="2 events wait to be decided on"):
                await world.extractor.handle(0, records)
            with pytest.raises(Transient, match="is the deduplicator running"):
                await world.another().claim(0)
            await world.decide()
            await world.extract()
            assert await world.committed() == 3

    async def test_who_is_refused_stops(self, tmp_path: Path) -> None:
        async with Asking(tmp_path, in_turn(Reply(401))) as it:
            await it.world.publish(at(1))
            with pytest.raises(NoServer, match="rejects us"):
                await it.world.extract()
            assert await it.world.committed() == 0
