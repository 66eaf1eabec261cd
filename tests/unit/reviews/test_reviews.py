"""A question on its way: asked with an insert, answered by an event, applied by the owner."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.base import MemoryId
from schemas.codec import EVENT
from schemas.decisions import Ignore, Insert, Reason, Reinforce, Replace
from schemas.events import Answer, Remember, Seen
from schemas.outcomes import Review, Stage
from schemas.topics import DECISIONS, EVENTS, REVIEWS
from streams.dead_letters.flow import DecodedInput, Letter, again, input_record
from streams.model.embedding import Vector
from streams.model.identity import review_id
from streams.model.ports.failures import Poison
from streams.model.ports.log import OutgoingRecord
from streams.model.scope import partition_of
from streams.reviews.app import answer_to
from streams.sinks.sqlite import SqliteSink
from streams.stage.flow.dead_letters import dead_letter
from streams.verify.app.auditing import audited
from streams.verify.app.copies import IndexCopy
from tests.builders import at_cosine, event, identity, later, memory, policy, record, unit
from tests.fakes.clock import StandingClock
from tests.support.stage.bench import Bench, evidence_of, made

COFFEE, BLACK, CHESS = "Ana likes coffee.", "Ana likes black coffee.", "Ben plays chess."
TRULY = "Ana truly likes coffee."
TABLE: Mapping[str, Vector] = {
    COFFEE: unit(1),
    BLACK: at_cosine(0.9),
    TRULY: at_cosine(0.97, 2),
    CHESS: unit(0, 0, 0, 1),
}
ASKING = policy(
    without_verdict={"match": "merge", "review": "review"}, merge={"characters_max": 600}
)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    copy = SqliteSink(tmp_path / "copy.db")
    bench = Bench(tmp_path, ASKING, TABLE, sinks=[copy])
    await bench.owner.claim(0)
    yield bench
    await copy.close()
    bench.close()


def said(text: str, number: int, **fields: Any) -> Remember:
    return event(text, event_id=f"{number}", occurred_at=later(number), **fields)


def answering(review: Review, verdict: str, author: str = "cleo") -> Answer:
    clock = StandingClock()
    clock.move(seconds=36_000)
    return answer_to(review, verdict, author=author, clock=clock)


async def asked(bench: Bench) -> Review:
    """Have the question asked whether black coffee is coffee."""
    await bench.say(said(COFFEE, 0), said(BLACK, 1))
    [review] = await bench.reviews()
    return review


@pytest.mark.covers("B40")
@pytest.mark.parametrize("batch", [1, 2])
async def test_what_nobody_can_tell_is_kept_and_asked(bench: Bench, batch: int) -> None:
    known, asking = await bench.say(said(COFFEE, 0), said(BLACK, 1), batch=batch)
    assert isinstance(asking, Insert)
    [review] = await bench.reviews()
    assert evidence_of(asking).reason is Reason.KEPT_FOR_REVIEW
    assert evidence_of(asking).reviews == (review.id,)
    assert review.id == review_id(asking.decision_id, made(known).id)
    assert (review.newer, review.older) == (made(asking), made(known))
    assert review.compared == evidence_of(asking).neighbours[0]
    assert (review.scope, review.asked_at) == ("acme/ana", later(1))


async def test_the_question_is_in_the_log_before_the_decision_that_names_it(bench: Bench) -> None:
    await bench.publish(said(COFFEE, 0), said(BLACK, 1))
    records = await bench.log.read("memory.events", 0, 0, 10)
    handled = await bench.owner.handle(0, records)
    topics = [one.topic for one in handled.outgoing]
    assert topics == [REVIEWS.name, DECISIONS.name, DECISIONS.name]
    assert handled.outgoing[0].key == b"acme/ana"


async def test_an_event_that_comes_again_asks_nothing_again(bench: Bench) -> None:
    await asked(bench)
    for apply in (False, True):
        if apply:
            await bench.apply()
            await bench.take_over()
        [again] = await bench.say(said(BLACK, 1))
        assert isinstance(again, Ignore)
        assert evidence_of(again).reason is Reason.SAME_EVENT
    assert len(await bench.reviews()) == 1


@pytest.mark.covers("B40")
@pytest.mark.parametrize(
    ("verdict", "stays", "goes"),
    [("same", COFFEE, BLACK), ("refined-by", COFFEE, BLACK), ("refines", BLACK, COFFEE)],
)
@pytest.mark.parametrize("applied", [True, False])
async def test_an_answer_is_decided_and_index_and_sinks_follow(
    bench: Bench, verdict: str, stays: str, goes: str, *, applied: bool
) -> None:
    review = await asked(bench)
    if applied:  # else both are known by the overlay alone
        await bench.apply()
    [settled] = await bench.say(answering(review, verdict))
    assert isinstance(settled, Replace)
    assert made(settled).text == stays
    await bench.apply()
    assert list(await bench.live()) == [stays]
    assert (await bench.live())[stays].observation_count == 2
    [survivor] = [one async for one in bench.index.scan() if one.memory.live]
    assert survivor.vector is not None
    assert survivor.vector.tobytes() == TABLE[stays].tobytes()
    [words_again] = await bench.say(said(stays, 7))
    assert isinstance(words_again, Reinforce)
    [other_words] = await bench.say(said(goes, 8))
    assert isinstance(other_words, Reinforce)
    assert made(other_words).id == made(words_again).id
    assert [(one.text, one.seen) for one in made(other_words).variants] == [(goes, 2)]
    report = await audited(bench.log, [IndexCopy(bench.index, "exact", "")], lambda _, __: None)
    assert [check.told for check in report.checks if not check.healthy] == []


async def test_distinct_memories_are_kept_and_the_answer_is_in_the_log(bench: Bench) -> None:
    review = await asked(bench)
    [settled] = await bench.say(answering(review, "distinct"))
    assert (settled.kind, evidence_of(settled).reason) == ("revise", Reason.ANSWERED)
    await bench.apply()
    assert set(await bench.live()) == {COFFEE, BLACK}


async def test_what_follows_an_answer_in_its_batch_sees_it(bench: Bench) -> None:
    review = await asked(bench)
    settled, again = await bench.say(answering(review, "same"), said(COFFEE, 5))
    assert isinstance(again, Reinforce)
    assert made(again).id == made(settled).id
    assert (made(again).version, made(again).observation_count) == (3, 3)


async def test_the_same_answer_twice_is_one_and_another_comes_too_late(bench: Bench) -> None:
    review = await asked(bench)
    first, again, late = await bench.say(
        answering(review, "same"), answering(review, "same"), answering(review, "refines", "dora")
    )
    assert isinstance(first, Replace)
    assert evidence_of(again).reason is Reason.SAME_EVENT
    assert evidence_of(late).reason is Reason.ANSWERED_TOO_LATE


@pytest.mark.covers("B40")
async def test_an_answer_about_memories_that_were_merged_meanwhile_comes_too_late(
    bench: Bench,
) -> None:
    review = await asked(bench)
    [merged] = await bench.say(said(TRULY, 3))
    assert merged.kind == "merge"
    [late] = await bench.say(answering(review, "same"))
    assert (late.kind, evidence_of(late).reason) == ("ignore", Reason.ANSWERED_TOO_LATE)


async def test_an_answer_about_a_memory_that_its_producer_changed_comes_too_late(
    bench: Bench,
) -> None:
    await bench.say(said(COFFEE, 0, memory_id="drink"), said(BLACK, 1))
    [review] = await bench.reviews()
    await bench.say(said(CHESS, 2, memory_id="drink"))
    [late] = await bench.say(answering(review, "same"))
    assert evidence_of(late).reason is Reason.ANSWERED_TOO_LATE


async def test_an_answer_reaches_no_memory_of_another_scope(bench: Bench) -> None:
    review = await asked(bench)
    stranger = answering(review, "same").model_copy(update={"scope": "acme/ben"})
    [late] = await bench.say(stranger)
    assert evidence_of(late).reason is Reason.ANSWERED_TOO_LATE
    await bench.apply()
    assert set(await bench.live()) == {COFFEE, BLACK}


async def test_another_owner_decides_on_the_same_answer_alike(bench: Bench) -> None:
    review = await asked(bench)
    await bench.take_over()
    [settled] = await bench.say(answering(review, "same"))
    assert isinstance(settled, Replace)


@pytest.mark.parametrize("batch", [1, 2, 3, 9])
async def test_the_split_into_batches_changes_nothing(tmp_path: Path, batch: int) -> None:
    results: list[list[bytes]] = []
    for size, name in ((9, "whole"), (batch, "split")):
        (tmp_path / name).mkdir()
        bench = Bench(tmp_path / name, ASKING, TABLE)
        await bench.owner.claim(0)
        review = await asked(bench)
        events = [answering(review, "same"), said(BLACK, 5), said(COFFEE, 6), said(BLACK, 5)]
        await bench.say(*events, answering(review, "refines"), batch=size)
        results.append(await bench.raw_decisions())
        bench.close()
    assert results[0] == results[1]


async def test_an_answer_in_the_wrong_place_is_sent_on_and_decided_there(bench: Bench) -> None:
    answer = answering(await asked(bench), "same")
    await bench.log.append([OutgoingRecord(EVENTS.name, 0, b"who", EVENT.encode(answer))])
    forwarded, settled = await bench.decide()
    assert (forwarded.kind, type(settled)) == ("forward", Replace)


def test_an_answer_that_failed_is_published_again_as_any_event() -> None:
    answer = Answer(
        event_id=event().event_id,
        scope=event().scope,
        review_id="r",
        newer=Seen(memory_id=memory().id, content_key=memory().content_key),
        older=Seen(memory_id=MemoryId(identity(2)), content_key=memory().content_key),
        verdict="same",
        author="cleo",
        occurred_at=later(1),
    )
    letter = dead_letter(record(EVENT.encode(answer)), Stage.DECIDE, Poison("too long"))
    open_ = Letter(letter, 1, "open", [0])
    event_again = again(open_)
    assert isinstance(event_again, DecodedInput)
    assert event_again.said == answer
    published = input_record(open_, event_again, 6)
    assert (published.key, published.value) == (b"acme/ana", EVENT.encode(answer))
    assert published.partition == partition_of(answer.scope, 6)


@pytest.mark.covers("B40")
async def test_a_redelivered_answer_is_known_where_only_the_index_remembers_it(
    bench: Bench,
) -> None:
    """The survivor remembers the decision; an answer that changed nothing may be decided again."""
    review = await asked(bench)
    await bench.say(answering(review, "same"))
    await bench.apply()
    await bench.take_over()
    [again_] = await bench.say(answering(review, "same"))
    assert evidence_of(again_).reason is Reason.SAME_EVENT


WORDS = st.sampled_from(list(TABLE))
VERDICTS = st.sampled_from(["same", "refines", "refined-by", "contradicts", "distinct"])
BEFORE = st.lists(WORDS, min_size=2, max_size=6)
AFTER = st.lists(st.one_of(WORDS, st.tuples(st.integers(0, 9), VERDICTS)), max_size=12)


async def _story(
    path: Path, before: list[str], after: list[str | tuple[int, str]], batch: int, *, moved: bool
) -> list[bytes]:
    """Have things said, then more and answers to whatever was asked; return all decisions.

    `moved`: after each batch the writer works, and another owner takes the partition.
    """
    bench = Bench(path, ASKING, TABLE)
    await bench.take_over()
    await bench.say(*(said(text, number) for number, text in enumerate(before)))
    reviews = await bench.reviews()
    for number, one in enumerate(after, start=len(before)):
        if isinstance(one, str):
            await bench.publish(said(one, number))
        elif reviews:
            await bench.publish(answering(reviews[one[0] % len(reviews)], one[1], f"{number}"))
    while await bench.decide_next(batch):
        if moved:
            await bench.apply()
            await bench.take_over()
    await bench.apply()
    made = await bench.raw_decisions()
    report = await audited(bench.log, [IndexCopy(bench.index, "exact", "")], lambda _, __: None)
    bench.close()
    assert [check.told for check in report.checks if not check.healthy] == []
    return made


@pytest.mark.covers("C15")
@settings(max_examples=30)
@given(before=BEFORE, after=AFTER, batch=st.integers(1, 6), moved=st.booleans())
def test_answers_among_events_add_up_however_they_are_batched_and_whoever_decides(
    before: list[str], after: list[str | tuple[int, str]], batch: int, *, moved: bool
) -> None:
    results: list[list[bytes]] = []
    for size, disturbed in ((1_000, False), (batch, moved)):
        with tempfile.TemporaryDirectory() as path:
            story = _story(Path(path), before, after, size, moved=disturbed)
            results.append(asyncio.run(story))
    assert results[0] == results[1]
