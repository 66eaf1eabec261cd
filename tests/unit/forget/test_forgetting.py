"""Forgetting between log and index: what goes, what stays, and who may ask for it."""

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import pytest

from schemas.base import EventId, MemoryId, ScopeName
from schemas.decisions import (
    Block,
    Decision,
    Erase,
    Ignore,
    Merge,
    Reason,
    Reinforce,
    Reject,
    Verdict,
)
from schemas.events import Pin, Undo
from schemas.memories import Standing
from schemas.topics import DECISIONS, EVENTS
from streams.forget.app.forgetting import ForgetTarget, PlanningDependencies, UnknownTarget, plans
from streams.forget.core import ForgetPlan
from streams.index.exact import ExactIndex
from streams.model.identity import decision_id, memory_id
from streams.model.ports.failures import Fatal
from streams.model.verdict import Pair
from streams.stage.core.lineage import Wish
from streams.stage.core.tombstones import TombstoneKey
from streams.stage.flow.judging import Judging
from streams.stage.flow.writer import catch_up
from streams.text.lexicon import Lexicon
from streams.text.reading import TextAnalyzer
from streams.verify.app.auditing import audited
from streams.verify.app.copies import IndexCopy
from tests.builders import at_cosine, event, later, policy, unit
from tests.fakes.judges import ScriptedVerifier
from tests.fakes.sentences import SentenceEmbedder
from tests.support.stage.bench import Bench, evidence_of, made

COFFEE = "Ana likes coffee."
OAT = "Ana takes oat milk in coffee."
AGAIN = "Coffee is what Ana likes."
CHESS = "Ben plays chess."
MORE = "Ana takes two cups."
TABLE = {
    COFFEE: unit(1),
    OAT: at_cosine(0.97, 1),
    AGAIN: at_cosine(0.98, 2),
    MORE: at_cosine(0.97, 3),
    CHESS: unit(0, 0, 0, 0, 1),
}
KEY = TombstoneKey(b"a secret of thirty-two characters")
POLICY = policy(
    judges={"chain": ["llm"]}, with_verdict={"refines": "merge"}, supersede={"named_max": 2}
)
VERDICTS: Mapping[tuple[str, str], Verdict] = {
    (OAT, COFFEE): Verdict.REFINES,
    (AGAIN, COFFEE): Verdict.SAME,
    (MORE, COFFEE): Verdict.DISTINCT,
    (f"{COFFEE} {OAT}", COFFEE): Verdict.REFINES,
}


def judging_by(verdicts: Mapping[tuple[str, str], Verdict]) -> Judging:
    """Judge by a table; of pairs that it does not have: distinct where memory says all the event."""

    def said(pair: Pair) -> Verdict:
        event_text, memory_text = pair.event.text, pair.memory.text
        known = verdicts.get((event_text, memory_text))
        if known is not None:
            return known
        return Verdict.REFINED_BY if event_text == AGAIN else Verdict.DISTINCT

    return Judging(TextAnalyzer(Lexicon({}, (), {}, {})), {"llm": ScriptedVerifier(said)})


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[Bench]:
    bench = Bench(tmp_path, POLICY, TABLE, judges=judging_by(VERDICTS), key=KEY)
    await bench.take_over()
    yield bench
    bench.close()


async def planned(bench: Bench, memory: MemoryId, at: float = 100) -> ForgetPlan:
    """Plan how a memory is forgotten, as it is by now."""
    embedder = SentenceEmbedder(TABLE, characters_max=200)
    means = PlanningDependencies(KEY, POLICY, embedder, judging_by(VERDICTS))
    wish = Wish("cleo", later(at))
    [plan] = await plans(bench.log, ForgetTarget(memory=memory), means, wish)
    return plan


async def forget(bench: Bench, memory: MemoryId, at: float = 100) -> list[Decision]:
    """Forget a memory; return all decisions that came of it."""
    plan = await planned(bench, memory, at)
    decided = await bench.say(*plan.requests)
    await bench.apply()
    return [*decided, *await bench.decide()]


async def bytes_of(bench: Bench) -> bytes:
    """Return all that the log holds."""
    found = b""
    for topic in (DECISIONS.name, EVENTS.name):
        for record in await bench.log.read(topic, 0, 0, 10_000):
            found += (record.value or b"") + repr(record.headers).encode()
    return found


async def require_sound(bench: Bench) -> None:
    """Audit the log and the index, and compare the index with one that is built anew."""
    await bench.apply()
    copy = IndexCopy(bench.index, "exact", "")
    report = await audited(bench.log, [copy], lambda _, __: None, dense=True)
    assert report.healthy, [c.findings.shown for c in report.checks if not c.healthy]
    fresh = ExactIndex()
    end = await bench.log.end(DECISIONS.name, 0)
    await catch_up(bench.log, 0, end, fresh, reached=lambda _: None)
    assert [one.memory async for one in fresh.scan()] == [
        one.memory async for one in bench.index.scan()
    ]


@pytest.mark.covers("B137", "C10")
async def test_what_was_merged_with_it_is_decided_anew_alone(bench: Bench) -> None:
    [coffee] = await bench.say(event(COFFEE))
    [merged] = await bench.say(event(OAT, occurred_at=later(1)))
    assert isinstance(merged, Merge)
    await bench.say(event(CHESS))
    await bench.apply()
    erased, again = await forget(bench, made(coffee).id)
    assert isinstance(erased, Erase)
    assert made(again).text == OAT
    await require_sound(bench)
    assert set(await bench.live()) == {OAT, CHESS}
    assert COFFEE.encode() not in await bytes_of(bench)


@pytest.mark.covers("B137")
async def test_an_event_that_repeats_it_in_the_merged_memory_goes_with_it(bench: Bench) -> None:
    [coffee] = await bench.say(event(COFFEE))
    await bench.say(event(OAT, occurred_at=later(1)))
    [seen] = await bench.say(event(AGAIN, occurred_at=later(2)))
    assert isinstance(seen, Reinforce)
    await bench.apply()
    plan = await planned(bench, made(coffee).id)
    assert [one.text for one in plan.own] == [AGAIN]
    assert [one.text for one in plan.again] == [OAT]
    await forget(bench, made(coffee).id)
    await require_sound(bench)
    assert set(await bench.live()) == {OAT}
    assert AGAIN.encode() not in await bytes_of(bench)


@pytest.mark.covers("B137")
async def test_a_sentence_that_a_later_event_repeats_is_cut_out_of_it(bench: Bench) -> None:
    """What else that event says stays; published again as it was, it is known."""
    both = event(f"{COFFEE} {OAT}", occurred_at=later(1))
    [coffee] = await bench.say(event(COFFEE, event_id="first"))
    [merged] = await bench.say(both.model_copy(update={"event_id": "both"}))
    assert isinstance(merged, Merge)
    await bench.apply()
    await forget(bench, made(coffee).id)
    await require_sound(bench)
    assert set(await bench.live()) == {OAT}
    assert COFFEE.encode() not in await bytes_of(bench)
    [blocked] = await bench.say(both.model_copy(update={"event_id": "both"}))
    assert isinstance(blocked, Block)


async def test_all_that_a_live_memory_stands_for_goes_with_it(bench: Bench) -> None:
    await bench.say(event(COFFEE))
    [merged] = await bench.say(event(OAT, occurred_at=later(1)))
    await bench.apply()
    decided = await forget(bench, made(merged).id)
    assert [one.kind for one in decided] == ["erase"]
    await require_sound(bench)
    assert await bench.live() == {}
    held = await bytes_of(bench)
    assert COFFEE.encode() not in held
    assert OAT.encode() not in held


async def test_what_a_later_one_superseded_by_name_is_superseded_again(bench: Bench) -> None:
    [coffee] = await bench.say(event(COFFEE))
    [chess] = await bench.say(event(CHESS))
    names = [made(coffee).id, made(chess).id]
    await bench.say(event(MORE, supersedes=names, occurred_at=later(1)))
    await bench.apply()
    await forget(bench, made(coffee).id)
    await require_sound(bench)
    assert set(await bench.live()) == {MORE}


async def test_a_decision_that_quotes_it_goes_and_its_memory_stays_as_it_is(tmp_path: Path) -> None:
    """A guard quotes what it objects to: words of a memory in the decision on another one.

    That the other one is stated again in the decision that forgets does not keep it for ever: when
    it is forgotten, that decision goes too, and the first stays forgotten.
    """
    seven, nine = "The code is 4711.", "The code is 9035."
    table = {seven: unit(1), nine: at_cosine(0.97)}
    guarded = policy(guards=True)
    bench = Bench(tmp_path, guarded, table, key=KEY)
    await bench.take_over()
    [first] = await bench.say(event(seven))
    [second] = await bench.say(event(nine, occurred_at=later(1)))
    await bench.apply()
    assert "4711" in evidence_of(second).model_dump_json()
    embedder = SentenceEmbedder(table, characters_max=200)
    means = PlanningDependencies(KEY, guarded, embedder, judging_by({}))
    wanted = ForgetTarget(memory=made(first).id)
    wish = Wish("cleo", later(3))
    [plan] = await plans(bench.log, wanted, means, wish)
    assert plan.stated == (made(second).id,)
    await bench.say(*plan.requests)
    await require_sound(bench)
    stays = (await bench.live())[nine]
    assert stays.model_copy(update={"version": 1}) == made(second)
    assert b"4711" not in await bytes_of(bench)

    wanted = ForgetTarget(memory=made(second).id)
    [plan] = await plans(bench.log, wanted, means, Wish("cleo", later(4)))
    await bench.say(*plan.requests)
    await require_sound(bench)
    assert b"9035" not in await bytes_of(bench)
    again = await bench.say(event(seven, event_id="a"), event(nine, event_id="b"))
    assert all(isinstance(one, Block) for one in again)
    bench.close()


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "only in the log"])
@pytest.mark.parametrize("recalls", [True, False], ids=["log", "index"])
async def test_an_event_whose_decision_went_is_known_when_it_is_redelivered(
    tmp_path: Path, *, recalls: bool, applied: bool
) -> None:
    """Each of three made or changed what stays, and each decision quotes what is forgotten."""
    seven, nine, told = "The code is 4711.", "The code is 9035.", "9035 is the code."
    clash = "The gate opens by the code 9035."
    table = {
        seven: unit(1),
        nine: at_cosine(0.97, 1),
        told: at_cosine(0.98, 2),
        clash: at_cosine(0.96, 3),
    }
    chain = {"chain": ["llm"]}
    rules = policy(guards=True, judges=chain, with_verdict={"contradicts": "keep-both"})
    verdicts = {(told, nine): Verdict.SAME, (clash, nine): Verdict.CONTRADICTS}
    judges = judging_by(verdicts)
    bench = Bench(tmp_path, rules, table, judges=judges, key=KEY, recalls=recalls)
    await bench.take_over()
    [first] = await bench.say(event(seven, event_id="seven"))
    stay = [
        event(text, event_id=text, occurred_at=later(number))
        for number, text in enumerate((nine, told, clash), 1)
    ]
    decided = [(await bench.say(one))[0] for one in stay]
    assert [one.kind for one in decided] == ["insert", "reinforce", "insert"]
    assert all("4711" in evidence_of(one).model_dump_json() for one in decided)
    await bench.apply()
    linked = {one.memory.text: one.contradicted async for one in bench.index.scan()}

    means = PlanningDependencies(KEY, rules, SentenceEmbedder(table, characters_max=200), judges)
    wanted = ForgetTarget(memory=made(first).id)
    [plan] = await plans(bench.log, wanted, means, Wish("cleo", later(9)))
    await bench.say(*plan.requests)
    if applied:
        await bench.apply()
        await bench.take_over()
    again = await bench.say(*stay)
    assert [evidence_of(one).reason for one in again] == [Reason.SAME_EVENT] * 3
    await require_sound(bench)
    assert (await bench.live())[nine].observation_count == 2
    kept = {one.memory.text: one.contradicted async for one in bench.index.scan()}
    assert kept[clash] == linked[clash] == ((made(decided[0]).id, 2),)
    bench.close()


@pytest.mark.covers("B136", "D41")
async def test_in_the_same_batch_it_does_not_come_back_either(bench: Bench) -> None:
    said = event(COFFEE, event_id="once")
    [coffee] = await bench.say(said)
    await bench.apply()
    [request] = (await planned(bench, made(coffee).id)).requests
    erased, again, other = await bench.say(request, said, event(COFFEE, event_id="another"))
    assert isinstance(erased, Erase)
    assert isinstance(again, Block)
    assert isinstance(other, Block)
    await require_sound(bench)
    assert COFFEE.encode() not in await bytes_of(bench)


@pytest.mark.covers("D29")
async def test_a_stale_write_does_not_revive_it(bench: Bench) -> None:
    [coffee] = await bench.say(event(COFFEE))
    await bench.apply()
    [before] = [one async for one in bench.index.scan()]
    await forget(bench, made(coffee).id)
    await bench.index.write([before])
    [after] = [one async for one in bench.index.scan()]
    assert after.memory.status is Standing.FORGOTTEN
    assert await bench.live() == {}


@pytest.mark.covers("B136", "D41")
async def test_an_undo_that_would_bring_it_back_leaves_no_word(bench: Bench) -> None:
    [coffee] = await bench.say(event(COFFEE))
    await bench.apply()
    await forget(bench, made(coffee).id)
    back = made(coffee).model_copy(update={"version": 3})
    undo = Undo(
        event_id=EventId("undo"),
        scope=ScopeName("acme/ana"),
        author="eve",
        occurred_at=later(200),
        undoes=(coffee.decision_id,),
        memories=(back,),
    )
    [blocked] = await bench.say(undo)
    assert isinstance(blocked, Block)
    await require_sound(bench)
    assert COFFEE.encode() not in await bytes_of(bench)


async def test_what_has_changed_since_is_planned_again(bench: Bench) -> None:
    [coffee] = await bench.say(event(COFFEE))
    await bench.apply()
    [stale] = (await planned(bench, made(coffee).id)).requests
    pin = Pin(
        event_id=EventId("pin"),
        scope=ScopeName("acme/ana"),
        author="ana",
        occurred_at=later(1),
        memory_id=made(coffee).id,
        pinned=True,
    )
    _, ignored = await bench.say(pin, stale)
    assert isinstance(ignored, Ignore)
    assert ignored.evidence.reason is Reason.OUT_OF_DATE
    await bench.apply()
    assert set(await bench.live()) == {COFFEE}
    await forget(bench, made(coffee).id, at=101)
    await require_sound(bench)
    assert await bench.live() == {}


@pytest.mark.covers("B135")
async def test_what_came_again_while_it_was_under_way_goes_when_it_is_asked_for_again(
    bench: Bench,
) -> None:
    [coffee, _] = await bench.say(event(COFFEE, event_id="c"), event(CHESS))
    await bench.apply()
    plan = await planned(bench, made(coffee).id)
    [ignored, erase] = await bench.say(event(COFFEE, event_id="c"), *plan.requests)
    assert (type(ignored), type(erase)) == (Ignore, Erase)
    await bench.apply()
    assert COFFEE.encode() in await bytes_of(bench)
    await forget(bench, made(coffee).id, at=101)
    assert COFFEE.encode() not in await bytes_of(bench)
    await require_sound(bench)
    assert set(await bench.live()) == {CHESS}


async def test_records_of_another_scope_are_not_erased(bench: Bench) -> None:
    [coffee] = await bench.say(event(COFFEE))
    [other] = await bench.say(event(CHESS, scope="acme/ben"))
    await bench.apply()
    [request] = (await planned(bench, made(coffee).id)).requests
    foreign = request.erased[0].model_copy(update={"decision": 2, "event": other.source.offset})
    hostile = request.model_copy(update={"erased": (*request.erased, foreign)})
    [ignored] = await bench.say(hostile)
    assert isinstance(ignored, Ignore)
    await require_sound(bench)
    assert set(await bench.live()) == {COFFEE, CHESS}


async def test_a_writer_that_died_before_it_erased_erases_when_it_comes_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    [coffee] = await bench.say(event(COFFEE))
    await bench.apply()
    plan = await planned(bench, made(coffee).id)
    await bench.say(*plan.requests)

    async def die(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(bench.log, "erase", die)
        with pytest.raises(OSError, match="killed"):
            await bench.apply()
    assert COFFEE.encode() in await bytes_of(bench)
    await bench.apply()
    assert COFFEE.encode() not in await bytes_of(bench)
    await require_sound(bench)


async def test_a_writer_that_begins_again_before_what_it_was_to_erase_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index has the tombstone by then, the log still what it was made of."""
    [coffee] = await bench.say(event(COFFEE))
    await bench.say(*(await planned(bench, made(coffee).id)).requests)

    async def die(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(bench.log, "erase", die)
        with pytest.raises(OSError, match="killed"):
            await bench.apply()
    await bench.apply()
    assert COFFEE.encode() not in await bytes_of(bench)
    await require_sound(bench)


@pytest.mark.parametrize("applied", [True, False])
async def test_an_event_with_the_id_of_a_forgotten_one_is_no_part_of_its_grave(
    bench: Bench, *, applied: bool
) -> None:
    """Its memory would have the id of one that is gone, and be lost."""
    [coffee] = await bench.say(event(COFFEE, event_id="once"))
    await bench.apply()
    await bench.say(*(await planned(bench, made(coffee).id)).requests)
    if applied:
        await bench.apply()
    [rejected] = await bench.say(event(CHESS, event_id="once"))
    assert isinstance(rejected, Reject)
    await require_sound(bench)


async def test_an_owner_that_takes_over_sees_the_tombstone(bench: Bench) -> None:
    [coffee] = await bench.say(event(COFFEE))
    await bench.apply()
    await bench.say(*(await planned(bench, made(coffee).id)).requests)
    await bench.take_over()
    [blocked] = await bench.say(event(COFFEE, event_id="another"))
    assert isinstance(blocked, Block)


async def test_no_two_records_of_decisions_have_one_key(bench: Bench) -> None:
    """Else compaction would take what nobody has erased: a fence, and all decisions under it."""
    await bench.say(event(COFFEE), event(COFFEE))
    await bench.owner.claim(0)
    await bench.say(event(COFFEE), event(CHESS, event_id="said"))
    await bench.owner.claim(0)
    await bench.owner.claim(0)
    keys = [record.key for record in await bench.log.read(DECISIONS.name, 0, 0, 100)]
    assert None not in keys
    assert len(set(keys)) == len(keys) == 8


async def test_where_events_are_decided_anew_only_the_tombstone_is_put_down(
    bench: Bench, tmp_path: Path
) -> None:
    [coffee] = await bench.say(event(COFFEE))
    await bench.apply()
    [request] = (await planned(bench, made(coffee).id)).requests
    (tmp_path / "anew").mkdir()
    anew = Bench(tmp_path / "anew", POLICY, TABLE, judges=judging_by(VERDICTS), key=KEY)
    await anew.take_over()
    erased, blocked = await anew.say(request, event(COFFEE))
    assert isinstance(erased, Erase)
    assert erased.erased == ()
    assert isinstance(blocked, Block)
    anew.close()


async def test_without_the_key_nothing_goes_on(tmp_path: Path, bench: Bench) -> None:
    [coffee] = await bench.say(event(COFFEE))
    await bench.apply()
    [request] = (await planned(bench, made(coffee).id)).requests
    (tmp_path / "keyless").mkdir()
    keyless = Bench(tmp_path / "keyless", POLICY, TABLE, judges=judging_by(VERDICTS))
    await keyless.take_over()
    with pytest.raises(Fatal, match=r"forget\.key is not set"):
        await keyless.say(request)
    keyless.close()


async def test_what_nothing_has_is_unknown(bench: Bench) -> None:
    await bench.say(event(COFFEE))
    unknown = memory_id(decision_id(event().scope, event().event_id))
    with pytest.raises(UnknownTarget):
        await planned(bench, MemoryId(f"{unknown[:-1]}x"))


async def test_the_request_holds_no_text(bench: Bench) -> None:
    [coffee] = await bench.say(event(COFFEE))
    await bench.apply()
    [request] = (await planned(bench, made(coffee).id)).requests
    assert COFFEE not in request.model_dump_json()


@pytest.mark.parametrize("recalls", [False, True], ids=["index", "log"])
@pytest.mark.parametrize("applied", [False, True], ids=["in one batch", "with the writer between"])
async def test_an_id_that_is_forgotten_is_free_at_once_and_no_other(
    tmp_path: Path, *, applied: bool, recalls: bool
) -> None:
    """Whoever is asked which events are known forgets them behind the writer, and the owner at once."""
    judges = judging_by(VERDICTS)
    table = {**TABLE, "Ana swims.": unit(0, 1)}
    bench = Bench(tmp_path, POLICY, table, judges=judges, key=KEY, recalls=recalls)
    await bench.take_over()
    [coffee] = await bench.say(event(COFFEE))
    other = event(CHESS, event_id="other")
    await bench.say(event(COFFEE, event_id="again"), other)
    await bench.apply()
    plan = await planned(bench, made(coffee).id)
    kinds: list[str] = []
    said = [*plan.requests, event("Ana swims.", event_id="again"), other]
    for batch in [[one] for one in said] if applied else [said]:
        kinds += [one.kind for one in await bench.say(*batch)]
        if applied:
            await bench.apply()
    assert kinds == ["erase", "insert", "ignore"]
    bench.close()
