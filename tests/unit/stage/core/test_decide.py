import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import Position
from schemas.codec import DECISION
from schemas.decisions import (
    Band,
    Change,
    Compared,
    Composition,
    Evidence,
    Finding,
    Ignore,
    Insert,
    Merge,
    Reason,
    Reinforce,
    Reject,
    Replace,
    Verdict,
)
from schemas.events import Remember
from schemas.memories import Memory, Standing, Superseded, Target
from schemas.outcomes import DeadLetter, Stage
from streams.model import wordings
from streams.model.embedding import pack
from streams.model.identity import decision_id, memory_id, named_memory_id, rejection_id, review_id
from streams.model.neighbours import Neighbour
from streams.model.policy import Policy
from streams.model.verdict import Judgement, Opinion
from streams.model.wordings import form_of
from streams.stage.core import survivorship
from streams.stage.core.case import Case, EncodedVector, PendingMerge
from streams.stage.core.decide import decide, ignore, recognise, reject, rename
from streams.stage.flow.merging import Merging
from streams.text.guards.registry import GUARDS
from streams.text.lexicon import Lexicon
from streams.text.reading import TextAnalyzer
from tests.builders import MODEL, at_cosine, event, identity, later, memory, policy, unit

PLACE = Position(topic="memory.events", partition=2, offset=7)
EVENT = event("Ana likes green grapes.", event_id="e1", occurred_at=later(5))
NEW_ID = memory_id(decision_id(EVENT.scope, EVENT.event_id))
OWN = EncodedVector(unit(1), pack(unit(1), MODEL), truncated=False)
WHOLE = EncodedVector(at_cosine(0.9), pack(at_cosine(0.9), MODEL), truncated=False)
PART = EncodedVector(unit(1), pack(unit(1), MODEL), truncated=True)
OLD = memory("Ana likes sweet grapes.", version=3)
READINGS = TextAnalyzer(Lexicon({}, (), {}, {}))
SIMILARITY = {Band.MATCH: 0.97, Band.REVIEW: 0.85, Band.LOG: 0.72, Band.NONE: 0.6}


def case(event_: Remember = EVENT, policy_: Policy | None = None, **fields: Any) -> Case[Remember]:
    return Case(event_, PLACE, policy_ or policy(), **fields)


def near(known: Memory = OLD, band: Band = Band.MATCH) -> Neighbour:
    return Neighbour(known, SIMILARITY[band], band)


def settled(
    asked: Case[Remember],
    neighbours: Sequence[Neighbour],
    verdicts: Sequence[Verdict],
    *,
    encoded: EncodedVector = OWN,
    whole: EncodedVector = WHOLE,
) -> Change:
    """Decide, with the embedding of a merged text where one is asked for."""
    outcome = decide(asked, encoded, neighbours, [Judgement(v, "test") for v in verdicts])
    return worded(outcome, asked, whole) if isinstance(outcome, PendingMerge) else outcome


def worded(unworded: PendingMerge, asked: Case[Remember], whole: EncodedVector) -> Change:
    """Complete a merge as the flow does."""
    merging = Merging(READINGS, None)
    made = asyncio.run(merging.make(unworded, asked.event.scope, asked.rules.merge))
    return unworded.merged(made.joined, whole, ())


def base(reason: Reason, *compared: Compared, **evidence: Any) -> dict[str, Any]:
    """Return what every decision on the event has."""
    return {
        "decision_id": decision_id(EVENT.scope, EVENT.event_id),
        "event": EVENT,
        "source": PLACE,
        "policy_id": policy().id,
        "evidence": Evidence(reason=reason, neighbours=compared, **evidence),
    }


def compared(verdict: Verdict, band: Band = Band.MATCH, known: Memory = OLD) -> Compared:
    return Compared(
        memory_id=known.id,
        version=known.version,
        similarity=SIMILARITY[band],
        band=band,
        verdict=verdict,
        judge="test",
    )


def inserted(reason: Reason, *seen: Compared, **evidence: Any) -> Insert:
    return Insert(
        **base(reason, *seen, **evidence),
        memory=survivorship.born(EVENT, NEW_ID, truncated=False),
        embedding=OWN.embedding,
    )


def test_nothing_near_makes_a_new_memory() -> None:
    assert settled(case(), [], []) == inserted(Reason.NOTHING_NEAR)


@pytest.mark.covers("S0.11")
@pytest.mark.parametrize(
    ("band", "reason"),
    [
        (Band.NONE, Reason.NOTHING_NEAR),
        (Band.LOG, Reason.DISTINCT),
        (Band.REVIEW, Reason.DISTINCT),
        (Band.MATCH, Reason.DISTINCT),
    ],
)
def test_what_is_distinct_makes_a_new_memory_at_any_distance(band: Band, reason: Reason) -> None:
    assert settled(case(), [near(band=band)], [Verdict.DISTINCT]) == inserted(
        reason, compared(Verdict.DISTINCT, band)
    )


@pytest.mark.covers("B16")
@pytest.mark.parametrize("band", [Band.MATCH, Band.REVIEW])
@pytest.mark.parametrize(
    ("verdict", "reason"),
    [(Verdict.SAME, Reason.SAME_FACT), (Verdict.REFINED_BY, Reason.KNOWN_IN_FULL)],
)
def test_what_is_known_is_seen_once_more(verdict: Verdict, reason: Reason, band: Band) -> None:
    assert settled(case(), [near(band=band)], [verdict]) == Reinforce(
        **base(reason, compared(verdict, band)),
        memory=survivorship.seen_again(OLD, EVENT),
        target=Target(memory_id=OLD.id, version=3),
        embedding=OWN.embedding,
    )


@pytest.mark.covers("B12", "B14", "B62")
@pytest.mark.parametrize("hours", [5, 4])
def test_a_contradiction_by_the_newer_takes_the_older_ones_place(hours: float) -> None:
    older = OLD.model_copy(update={"last_seen_at": later(hours)})
    made = settled(case(), [near(older)], [Verdict.CONTRADICTS])
    assert made == Replace(
        **base(Reason.NEWER_CONTRADICTION, compared(Verdict.CONTRADICTS)),
        memory=survivorship.born(EVENT, NEW_ID, truncated=False),
        embedding=OWN.embedding,
        targets=(Target(memory_id=OLD.id, version=3),),
    )


@pytest.mark.parametrize(
    ("sure", "guard", "kind", "reason"),
    [
        (0.9, "dates", "replace", Reason.NEWER_CONTRADICTION),
        (0.89, "dates", "insert", Reason.CONTRADICTS_KNOWN),
        (0.9, "numbers", "replace", Reason.NEWER_CONTRADICTION),
        (0.99, "symbols", "insert", Reason.CONTRADICTS_KNOWN),
    ],
)
def test_a_contradiction_retires_only_what_it_is_sure_to_contradict(
    sure: float, guard: str, kind: str, reason: Reason
) -> None:
    told = {Verdict.CONTRADICTS: sure, Verdict.DISTINCT: 1 - sure}
    judgement = Judgement(
        Verdict.CONTRADICTS,
        "built-in",
        opinion=Opinion(Verdict.CONTRADICTS, "built-in", told),
        findings=(Finding(guard=guard, outcome="differs", what="test"),),
    )
    asked = case(policy_=policy(judges={"supersede_min": 0.9}))
    made = decide(asked, OWN, [near()], [judgement])
    assert not isinstance(made, PendingMerge)
    assert (made.kind, made.evidence.reason) == (kind, reason)


def test_a_contradiction_of_something_newer_is_kept_as_history() -> None:
    newer = OLD.model_copy(update={"last_seen_at": later(6)})
    made = settled(case(), [near(newer)], [Verdict.CONTRADICTS])
    history = survivorship.born(EVENT, NEW_ID, truncated=False).model_copy(
        update={
            "status": Standing.SUPERSEDED,
            "superseded": Superseded(by=OLD.id, at=later(6), reason="older-contradiction"),
        }
    )
    expected = inserted(Reason.OLDER_CONTRADICTION, compared(Verdict.CONTRADICTS))
    assert made == expected.model_copy(update={"memory": history})
    assert history.version == 1


def test_a_contradiction_of_several_is_measured_by_the_newest() -> None:
    older = OLD.model_copy(update={"last_seen_at": later(1)})
    newer = OLD.model_copy(update={"id": identity(2), "last_seen_at": later(6)})
    contradicted = [Verdict.CONTRADICTS] * 2
    kept = settled(case(), [near(older), near(newer)], contradicted)
    assert isinstance(kept, Insert)
    assert kept.memory.superseded is not None
    assert kept.memory.superseded.by == newer.id
    late = case(EVENT.model_copy(update={"occurred_at": later(7)}))
    replaced = settled(late, [near(older), near(newer)], contradicted)
    assert isinstance(replaced, Replace)
    assert [target.memory_id for target in replaced.targets] == [older.id, newer.id]


def test_what_contradicts_a_pinned_memory_stays_beside_it_and_replaces_the_others() -> None:
    pinned = OLD.model_copy(update={"pinned": True})
    made = settled(case(), [near(pinned)], [Verdict.CONTRADICTS])
    assert made == inserted(Reason.CONTRADICTS_KNOWN, compared(Verdict.CONTRADICTS))
    other = OLD.model_copy(update={"id": identity(2)})
    both = settled(case(), [near(pinned), near(other)], [Verdict.CONTRADICTS] * 2)
    assert isinstance(both, Replace)
    assert [target.memory_id for target in both.targets] == [other.id]


def test_a_person_is_asked_about_what_contradicts_a_pinned_memory_if_the_policy_says_so() -> None:
    asked = case(policy_=policy(with_verdict={"contradicts": "review"}))
    pinned = OLD.model_copy(update={"pinned": True})
    made = settled(asked, [near(pinned)], [Verdict.CONTRADICTS])
    assert made.evidence.reviews == (review_id(asked.decision_id, OLD.id),)


YEAR_1, TO_COME = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
"""What a source writes that knows no time, or has its clock wrong."""


@pytest.mark.parametrize("time", [YEAR_1, TO_COME])
@pytest.mark.parametrize("known_at", [later(4), later(6), YEAR_1, TO_COME])
def test_an_event_of_an_unlikely_time_replaces_nothing_and_is_no_history(
    time: datetime, known_at: datetime
) -> None:
    known = OLD.model_copy(update={"last_seen_at": known_at})
    said = EVENT.model_copy(update={"occurred_at": time})
    made = settled(case(said, now=later(5)), [near(known)], [Verdict.CONTRADICTS])
    assert isinstance(made, Insert)
    assert made.evidence.reason is Reason.CONTRADICTS_KNOWN
    assert made.memory.live


@pytest.mark.parametrize("known_at", [YEAR_1, TO_COME, later(5 + 24.1)])
def test_a_memory_of_an_unlikely_time_gives_way_to_a_likely_one(known_at: datetime) -> None:
    known = OLD.model_copy(update={"last_seen_at": known_at})
    made = settled(case(now=later(5)), [near(known)], [Verdict.CONTRADICTS])
    assert isinstance(made, Replace)
    assert made.evidence.reason is Reason.NEWER_CONTRADICTION


def test_of_several_that_are_contradicted_an_unlikely_time_is_not_the_newest() -> None:
    odd = OLD.model_copy(update={"last_seen_at": TO_COME})
    newer = OLD.model_copy(update={"id": identity(2), "last_seen_at": later(6)})
    contradicted = [Verdict.CONTRADICTS] * 2
    kept = settled(case(now=later(5)), [near(odd), near(newer)], contradicted)
    assert kept.evidence.reason is Reason.OLDER_CONTRADICTION
    assert kept.memory.superseded is not None
    assert kept.memory.superseded.by == newer.id


def test_a_day_ahead_is_another_zone_and_where_nobody_knows_the_time_none_is_to_come() -> None:
    known = OLD.model_copy(update={"last_seen_at": later(5 + 23.9)})
    late = settled(case(now=later(5)), [near(known)], [Verdict.CONTRADICTS])
    assert late.evidence.reason is Reason.OLDER_CONTRADICTION
    far = OLD.model_copy(update={"last_seen_at": TO_COME})
    late = settled(case(), [near(far)], [Verdict.CONTRADICTS])
    assert late.evidence.reason is Reason.OLDER_CONTRADICTION


def joined(*, characters_max: int = 600, **rules: Any) -> Case[Remember]:
    return case(policy_=policy(merge={"characters_max": characters_max}, **rules))


@pytest.mark.covers("B13", "B54", "B65", "C4")
@pytest.mark.parametrize(
    ("verdict", "reason"),
    [(Verdict.UNSURE, Reason.NEARLY_IDENTICAL), (Verdict.OVERLAPS, Reason.OVERLAPS_KNOWN)],
)
def test_a_merge_is_asked_for_its_embedding_and_shows_what_each_adds(
    verdict: Verdict, reason: Reason
) -> None:
    asked = case()
    known = OLD.model_copy(update={"text": "Sweet grapes please Ana."})
    outcome = decide(asked, OWN, [near(known)], [Judgement(verdict, "test")])
    assert isinstance(outcome, PendingMerge)
    text = "Sweet grapes please Ana. Ana likes green grapes."
    made_of = Composition(sentences=(known.text, EVENT.text), origins=(OLD.id, "e1"))
    made = worded(outcome, asked, WHOLE)
    assert made == Merge(
        **base(reason, compared(verdict), merge=made_of),
        memory=survivorship.merged([known], EVENT, NEW_ID, text, truncated=False),
        embedding=WHOLE.embedding,
        event_embedding=OWN.embedding,
        targets=(Target(memory_id=OLD.id, version=3),),
    )
    assert [variant.text for variant in made.memory.variants] == [known.text, EVENT.text]


def test_what_says_more_is_shown_and_the_known_text_stays_a_wording() -> None:
    made = settled(case(), [near()], [Verdict.REFINES], whole=WHOLE)
    made_of = Composition(strategy="keep-better", sentences=(EVENT.text,), origins=("e1",))
    assert made == Merge(
        **base(Reason.ADDS_TO_KNOWN, compared(Verdict.REFINES), merge=made_of),
        memory=survivorship.merged([OLD], EVENT, NEW_ID, EVENT.text, truncated=False),
        embedding=OWN.embedding,
        event_embedding=OWN.embedding,
        targets=(Target(memory_id=OLD.id, version=3),),
    )
    assert [variant.text for variant in made.memory.variants] == [OLD.text]


def test_a_policy_that_keeps_both_of_what_says_more_keeps_what_overlaps() -> None:
    asked = joined(with_verdict={"refines": "keep-both"})
    made = settled(asked, [near()], [Verdict.OVERLAPS])
    assert (made.kind, made.evidence.reason) == ("insert", Reason.UNSURE)


def test_what_is_to_hold_longer_is_not_merged_with_what_overlaps_it() -> None:
    lasting = event("Ana likes green grapes.", occurred_at=later(5), persistence="permanent")
    passing = memory("Ana likes sweet grapes.", persistence="ephemeral")
    made = settled(case(lasting), [near(passing)], [Verdict.OVERLAPS])
    assert (made.kind, made.evidence.reason) == ("insert", Reason.UNSURE)


def test_an_event_that_says_it_all_gives_the_merged_memory_its_own_words() -> None:
    known = memory("Ana likes grapes.", created_at=later(-1))
    other = memory("Ben plays chess.", id=identity(2))
    said = event("Ben plays chess. Ana likes grapes. Cy swims.", occurred_at=later(5))
    made = settled(case(said), [near(known), near(other)], [Verdict.REFINES] * 2, whole=OWN)
    assert isinstance(made, Merge)
    assert made.memory == survivorship.merged(
        [known, other], said, made.memory.id, said.text, truncated=False
    )
    assert (made.embedding, made.event_embedding) == (OWN.embedding, OWN.embedding)
    assert [target.memory_id for target in made.targets] == [known.id, other.id]


@pytest.mark.parametrize("act", ["merge", "replace"])
def test_what_an_undo_took_apart_is_not_joined_by_what_says_all_of_it(act: str) -> None:
    """The nearest goes with those that may; the others stay as they are."""
    one, two, three = (
        memory(text, id=identity(number), kept_apart=[{"undo": "undo", "side": side}])
        for number, (text, side) in enumerate(
            [("Ana likes grapes.", "a"), ("Ben plays chess.", "b"), ("Cy swims.", "a")], 1
        )
    )
    said = event("Ben plays chess. Ana likes grapes. Cy swims.", occurred_at=later(5))
    rules = policy(with_verdict={"refines": act})
    made = settled(
        case(said, rules), [near(one), near(two), near(three)], [Verdict.REFINES] * 3, whole=OWN
    )
    assert made.kind == act
    assert {target.memory_id for target in targets(made)} == {one.id, three.id}
    assert {each.side for each in made.memory.kept_apart} == {"a"}


def test_an_unsure_event_is_merged_with_the_nearest_only() -> None:
    other = memory("Ana likes red grapes.", id=identity(2))
    made = settled(case(), [near(), near(other)], [Verdict.UNSURE, Verdict.UNSURE])
    assert isinstance(made, Merge)
    assert [target.memory_id for target in made.targets] == [OLD.id]


@pytest.mark.parametrize(
    ("band", "match", "review", "kind"),
    [
        (Band.MATCH, "merge", "keep-both", "merge"),
        (Band.MATCH, "keep-both", "merge", "insert"),
        (Band.REVIEW, "merge", "keep-both", "insert"),
        (Band.REVIEW, "keep-both", "merge", "merge"),
        (Band.MATCH, "keep-both", "keep-both", "insert"),
    ],
)
def test_the_policy_says_what_becomes_of_a_pair_that_nobody_settled(
    band: Band, match: str, review: str, kind: Literal["merge", "insert"]
) -> None:
    asked = joined(without_verdict={"match": match, "review": review})
    made = settled(asked, [near(band=band)], [Verdict.UNSURE])
    assert made.kind == kind
    expected = {"merge": Reason.NEARLY_IDENTICAL, "insert": Reason.UNSURE}
    assert made.evidence.reason is expected[kind]


ACTING = [verdict for verdict in Verdict if verdict is not Verdict.DISTINCT]


@pytest.mark.parametrize("verdict", ACTING)
@pytest.mark.parametrize(("own", "known"), [(PART, False), (OWN, True), (PART, True)])
def test_nothing_changes_a_memory_on_the_strength_of_a_truncated_text(
    verdict: Verdict, own: EncodedVector, *, known: bool
) -> None:
    part = OLD.model_copy(update={"truncated": known})
    made = settled(case(), [near(part)], [verdict], encoded=own)
    expected = inserted(Reason.TRUNCATED, compared(verdict), truncated=own.truncated)
    whole = expected.memory.model_copy(update={"truncated": own.truncated})
    assert made == expected.model_copy(update={"memory": whole})


def test_a_truncated_text_beside_distinct_memories_is_just_new() -> None:
    made = settled(case(), [near(band=Band.LOG)], [Verdict.DISTINCT], encoded=PART)
    assert (made.kind, made.evidence.reason) == ("insert", Reason.DISTINCT)
    assert made.memory.truncated


@pytest.mark.parametrize(
    ("verdicts", "kind", "target"),
    [
        ([Verdict.UNSURE, Verdict.SAME], "reinforce", 2),
        ([Verdict.REFINED_BY, Verdict.SAME], "reinforce", 2),
        ([Verdict.SAME, Verdict.SAME], "reinforce", 1),
        ([Verdict.CONTRADICTS, Verdict.REFINED_BY], "reinforce", 2),
        ([Verdict.REFINES, Verdict.CONTRADICTS], "replace", 2),
        ([Verdict.UNSURE, Verdict.REFINES], "merge", 2),
        ([Verdict.DISTINCT, Verdict.UNSURE], "merge", 2),
        ([Verdict.UNSURE, Verdict.OVERLAPS], "merge", 2),
        ([Verdict.OVERLAPS, Verdict.REFINES], "merge", 2),
        ([Verdict.OVERLAPS, Verdict.CONTRADICTS], "replace", 2),
        ([Verdict.OVERLAPS, Verdict.OVERLAPS], "merge", 1),
    ],
)
def test_the_surest_verdict_decides_wherever_it_stands(
    verdicts: list[Verdict], kind: str, target: int
) -> None:
    other = memory("Ana likes red grapes.", id=identity(2))
    made = settled(case(), [near(), near(other)], verdicts)
    assert made.kind == kind
    assert [t.memory_id for t in targets(made)] == [identity(target)]


def test_degraded_judges_are_named_in_the_evidence() -> None:
    made = decide(case(), OWN, [near()], [Judgement(Verdict.SAME, "test", degraded=("llm",))])
    assert not isinstance(made, PendingMerge)
    assert made.evidence == Evidence(
        reason=Reason.SAME_FACT, neighbours=(compared(Verdict.SAME),), degraded=("llm",)
    )


@pytest.mark.covers("B2")
@pytest.mark.parametrize("made", [settled(case(), [], []), recognise(case(), OLD)])
def test_a_decision_travels_as_a_checked_one_does(made: Change) -> None:
    written = DECISION.encode(made)
    assert DECISION.encode(DECISION.decode(written)) == written


def test_known_words_are_recognised_without_an_embedding() -> None:
    assert recognise(case(), OLD) == Reinforce(
        **base(Reason.SAME_CONTENT),
        memory=survivorship.seen_again(OLD, EVENT),
        target=Target(memory_id=OLD.id, version=3),
        embedding=None,
    )


def test_what_an_event_names_and_does_not_retire_is_told() -> None:
    said = EVENT.model_copy(update={"supersedes": ("m7",)})
    assert recognise(case(said), OLD).evidence.refused == ("m7: the words are known",)
    assert rename(case(said), OLD, OWN).evidence.refused == ("m7: it gives a memory new words",)


@pytest.mark.covers("B1", "S1.14")
@pytest.mark.parametrize("own", [OWN, PART])
def test_a_memory_addressed_by_name_gets_the_events_text_in_place(own: EncodedVector) -> None:
    assert rename(case(), OLD, own) == Replace(
        **base(Reason.SAME_MEMORY_ID, truncated=own.truncated),
        memory=survivorship.renewed(OLD, EVENT, truncated=own.truncated),
        embedding=own.embedding,
        targets=(Target(memory_id=OLD.id, version=3),),
    )


def test_a_new_memory_has_its_producers_name_where_that_is_free() -> None:
    named = named_memory_id(EVENT.scope, "drink")
    made = settled(case(named=named), [], [])
    assert made.memory.id == named
    merged = settled(case(named=named), [near()], [Verdict.UNSURE])
    assert merged.memory.id == named


@pytest.mark.covers("B11")
def test_an_ignored_event_changes_nothing() -> None:
    made = ignore(Case(EVENT, PLACE, policy()), Reason.SAME_EVENT)
    assert made == Ignore(**base(Reason.SAME_EVENT))


def test_a_reject_marks_the_place_and_names_the_dead_letter() -> None:
    letter = DeadLetter(id="letter", stage=Stage.DECODE, error="bad", value="", value_size=0)
    assert reject(PLACE, letter) == Reject(
        decision_id=rejection_id("memory.events", 2, 7), source=PLACE, dead_letter_id="letter"
    )


def targets(change: Change) -> Sequence[Target]:
    if isinstance(change, Insert):
        return ()
    return (change.target,) if isinstance(change, Reinforce) else change.targets


SENTENCES = (
    "Ana likes green grapes.",
    "Ana likes sweet grapes",
    "Does Ana like grapes?",
    "It cheers her up!",
    "Ben works for Apple Inc.",
    'Ana said "never."',
    "Shopping:\n- grapes",
    "Ana likes grapes (red ones)",
)
TEXTS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=3).map(" ".join)


@st.composite
def situations(
    draw: st.DrawFn,
) -> tuple[Callable[[], Change], Case[Remember], list[Neighbour], bool]:
    """Anything that could come up, whether or not judges and index would ever make it."""
    known = [
        memory(
            draw(TEXTS),
            id=identity(number),
            version=draw(st.integers(1, 9)),
            created_at=later(draw(st.integers(-3, 3))),
            last_seen_at=later(draw(st.integers(3, 9))),
            truncated=draw(st.sampled_from([False, False, False, True])),
            metadata={f"key {number} {k}": k for k in range(draw(st.sampled_from([0, 40])))},
        )
        for number in range(draw(st.integers(0, 4)))
    ]
    neighbours = [near(each, draw(st.sampled_from(Band))) for each in known]
    verdicts = [draw(st.sampled_from(Verdict)) for _ in known]
    rules = {band: draw(st.sampled_from(["merge", "keep-both"])) for band in ("match", "review")}
    limit = {"characters_max": draw(st.sampled_from([60, 600]))}
    said = event(draw(TEXTS), event_id="e1", occurred_at=later(draw(st.integers(-3, 9))))
    asked = case(said, policy(without_verdict=rules, merge=limit))
    own = draw(st.sampled_from([OWN, OWN, OWN, PART]))
    whole = draw(st.sampled_from([WHOLE, WHOLE, WHOLE, PART]))
    return (
        lambda: settled(asked, neighbours, verdicts, encoded=own, whole=whole),
        asked,
        neighbours,
        own.truncated,
    )


@given(situations())
def test_whatever_comes_up_is_decided_the_same_each_time_and_can_be_read_back(
    situation: tuple[Callable[[], Change], Case[Remember], list[Neighbour], bool],
) -> None:
    decided, asked, neighbours, _ = situation
    made = decided()
    assert made == decided()
    assert DECISION.decode(DECISION.encode(made)) == made
    assert made.event == asked.event
    assert [n.memory_id for n in made.evidence.neighbours] == [n.memory.id for n in neighbours]
    assert made.memory.id not in {t.memory_id for t in targets(made)} or made.kind == "reinforce"


@given(situations())
def test_every_wording_of_what_becomes_one_is_kept_and_nothing_truncated_is_trusted(
    situation: tuple[Callable[[], Change], Case[Remember], list[Neighbour], bool],
) -> None:
    decided, asked, neighbours, own_truncated = situation
    made = decided()
    known = {n.memory.id: n.memory for n in neighbours}
    verdicts = {seen.memory_id: seen.verdict for seen in made.evidence.neighbours}
    acting = [known[i] for i, verdict in verdicts.items() if verdict is not Verdict.DISTINCT]
    if acting and (own_truncated or any(memory_.truncated for memory_ in acting)):
        assert made.kind == "insert"
    worded_as = {form_of(one.text) for one in wordings.of(made.memory)}
    assert form_of(asked.event.text) in worded_as
    if isinstance(made, Merge):
        assert {form_of(known[t.memory_id].text) for t in made.targets} <= worded_as
    if isinstance(made, Reinforce):
        assert made.memory.text == known[made.target.memory_id].text


class TestGuesses:
    """A guess that the event settles gives way; what a guard finds tells whether it is settled."""

    RULES = policy(without_verdict={"match": "keep-both", "review": "keep-better"})

    def decided(self, guard: str) -> Change | PendingMerge:
        guess = memory("Ana may like sour grapes.", status=Standing.TENTATIVE)
        found = Finding(guard=guard, outcome="differs", what="test")
        judgement = Judgement(Verdict.DISTINCT, f"guard {guard}", findings=(found,))
        return decide(case(policy_=self.RULES), OWN, [near(guess, Band.REVIEW)], [judgement])

    @pytest.mark.parametrize("guard", sorted(GUARDS))
    def test_give_way_to_another_answer_and_not_to_another_thing(self, guard: str) -> None:
        decision = self.decided(guard)
        assert isinstance(decision, Replace if GUARDS[guard].of_one_thing else Insert)

    def test_no_finding_of_a_guard_that_is_none_is_passed_over(self) -> None:
        with pytest.raises(KeyError, match="negations"):
            self.decided("negations")
