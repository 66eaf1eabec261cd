"""The audit's judgement, told by tables: what is handed in, and what must be found."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from schemas.base import MemoryId, Position
from schemas.codec import DECISION, Unreadable
from schemas.decisions import (
    Change,
    Decision,
    Evidence,
    Fence,
    Forward,
    Ignore,
    Insert,
    Merge,
    Reason,
    Reinforce,
    Reject,
)
from schemas.events import Event, Remember
from schemas.memories import Memory, Target
from streams.model.embedding import pack
from streams.model.identity import memory_id, rejection_id
from streams.model.neighbours import StoredMemory
from streams.model.scope import partition_of
from streams.stage.core import survivorship
from streams.stage.core.case import Case, EncodedVector
from streams.stage.core.decide import forward, recognise, rename
from streams.verify.app.audited import Check
from streams.verify.core.audit import Audit, successors
from streams.verify.core.copies import Copy, HeldMemory
from streams.verify.core.findings import (
    REMEDIES,
    RESTORE,
    SHOWN_MAX,
    AuditFindings,
    Violation,
    unreadable,
)
from streams.verify.core.pairing import Pairing
from tests.builders import MODEL, at_cosine, carrying, event, identity, later, memory, policy, unit

Found = Mapping[Violation, int]

ANA, BEN = "acme/ana", "acme/ben"


def at(offset: int, partition: int = 0) -> Position:
    return Position(topic="memory.decisions", partition=partition, offset=offset)


def case(number: int, text: str = "Ana likes tea.", scope: str = ANA) -> Case[Remember]:
    said = event(text, event_id=f"event {number}", scope=scope, occurred_at=later(number))
    return Case(said, Position(topic="memory.events", partition=0, offset=number), policy())


def made(asked: Case[Remember], reason: Reason) -> dict[str, Any]:
    return {
        "decision_id": asked.decision_id,
        "event": asked.event,
        "source": asked.source,
        "policy_id": asked.policy.id,
        "evidence": Evidence(reason=reason),
    }


def insert(number: int, text: str = "Ana likes tea.", scope: str = ANA) -> Insert:
    asked = case(number, text, scope)
    born = survivorship.born(asked.event, memory_id(asked.decision_id), truncated=False)
    return Insert(**made(asked, Reason.NOTHING_NEAR), memory=born, embedding=pack(unit(1), MODEL))


def again(number: int, known: Memory) -> Reinforce:
    return recognise(case(number, known.text, known.scope), known)


def merge(number: int, *targets: Memory) -> Merge:
    asked = case(number, "Ana loves tea.")
    joined = survivorship.merged(
        targets, asked.event, memory_id(asked.decision_id), "Ana loves tea.", truncated=False
    )
    whole = Merge(
        **made(asked, Reason.NEARLY_IDENTICAL),
        memory=joined,
        embedding=pack(at_cosine(0.9), MODEL),
        event_embedding=pack(at_cosine(0.9), MODEL),
        targets=tuple(Target(memory_id=m.id, version=m.version) for m in targets),
    )
    return carrying(whole)


def ignore(number: int) -> Ignore:
    return Ignore(**made(case(number), Reason.SAME_EVENT))


def reject(number: int) -> Reject:
    source = Position(topic="memory.events", partition=0, offset=number)
    identity_ = rejection_id(source.topic, source.partition, source.offset)
    return Reject(decision_id=identity_, source=source, dead_letter_id=f"letter {number}")


def sent_on(number: int, partition: int = 0) -> Forward:
    asked = case(number)
    return forward(asked.source, asked.event, partition)


def changed(decision: Change, **fields: Any) -> Change:
    return decision.model_copy(update=fields)


TEA = insert(0)
CAKE = insert(1, "Ana likes cake.")
TEA_AGAIN = again(2, TEA.memory)
BOTH = merge(3, TEA_AGAIN.memory, CAKE.memory)
LIFE: tuple[Decision, ...] = (TEA, CAKE, TEA_AGAIN, BOTH, ignore(4), reject(5), sent_on(6))


def audit(*decisions: Decision, partitions: int = 1) -> Audit:
    """Follow decisions, the first of them at offset 0."""
    followed = Audit(partitions, {})
    for offset, decision in enumerate(decisions):
        followed.decision(decision, at(offset))
    return followed


def problems(*findings: AuditFindings) -> dict[Violation, int]:
    return {problem: count for one in findings for problem, count in one.counts.items()}


def of(followed: Audit) -> dict[Violation, int]:
    return problems(followed.log, followed.numbers, followed.events, followed.fold)


def test_a_life_adds_up() -> None:
    followed = audit(*LIFE)
    assert of(followed) == {}
    assert followed.stopped == {}
    assert followed.kinds == {
        "insert": 2,
        "reinforce": 1,
        "merge": 1,
        "ignore": 1,
        "reject": 1,
        "forward": 1,
    }
    assert [stored.memory.live for stored in followed.state.values()] == [False, False, True]
    assert problems(successors(followed.state)) == {}


REINFORCED_TWICE = again(3, TEA_AGAIN.memory)
ELSEWHERE = TEA.memory.model_copy(update={"scope": BEN})


@pytest.mark.parametrize(
    ("decisions", "problem", "place", "what"),
    [
        pytest.param(
            [TEA, TEA_AGAIN, changed(REINFORCED_TWICE, target=TEA_AGAIN.target)],
            Violation.DOES_NOT_BUILD,
            "memory.decisions/0/2",
            "at version 1, but it was at 2",
            id="a target was seen at another version",
        ),
        pytest.param(
            [TEA, REINFORCED_TWICE],
            Violation.DOES_NOT_BUILD,
            "memory.decisions/0/1",
            "at version 1, but the decision builds on 2",
            id="a decision is lacking",
        ),
        pytest.param(
            [TEA, changed(TEA, source=case(1).source)],
            Violation.DOES_NOT_BUILD,
            "memory.decisions/0/1",
            "to what it was already",
            id="a decision comes again",
        ),
        pytest.param(
            [TEA_AGAIN],
            Violation.DOES_NOT_BUILD,
            "memory.decisions/0/0",
            "does not exist",
            id="the memory is lacking",
        ),
        pytest.param(
            [TEA, CAKE, merge(3, TEA.memory, CAKE.memory.model_copy(update={"version": 2}))],
            Violation.DOES_NOT_BUILD,
            "memory.decisions/0/2",
            f"memory {CAKE.memory.id} is at version 1, but the decision builds on 2",
            id="one of two targets was seen at another version",
        ),
        pytest.param(
            [changed(TEA, decision_id=CAKE.decision_id)],
            Violation.OTHER_ID,
            "memory.decisions/0/0",
            CAKE.decision_id,
            id="the id is that of another event",
        ),
        pytest.param(
            [changed(TEA, memory=TEA.memory.model_copy(update={"text": "Ana likes pie."}))],
            Violation.OTHER_WORDS,
            "memory.decisions/0/0",
            TEA.memory.id,
            id="the words are not those of the content key",
        ),
        pytest.param(
            [changed(TEA, memory=ELSEWHERE.model_copy(update={"content_key": "k"}))],
            Violation.OTHER_SCOPE,
            "memory.decisions/0/0",
            "changes memory",
            id="the memory is of another scope",
        ),
        pytest.param(
            [TEA, again(1, TEA.memory), changed(TEA, source=case(2).source)],
            Violation.DECIDED_TWICE,
            "memory.decisions/0/2",
            "as memory.decisions/0/0 did before",
            id="an event changes memories twice",
        ),
        pytest.param(
            [changed(TEA, source=Position(topic="memory.events", partition=1, offset=0))],
            Violation.OTHER_EVENT,
            "memory.decisions/0/0",
            "memory.events/1/0",
            id="the event lies in another partition",
        ),
    ],
)
def test_a_decision_that_cannot_be_right_is_named(
    decisions: Sequence[Decision], problem: Violation, place: str, what: str
) -> None:
    followed = audit(*decisions)
    findings = [*followed.fold.shown, *followed.events.shown]
    [finding] = [one for one in findings if one.problem is problem]
    assert finding.place == place
    assert what in finding.what


def test_of_a_decision_that_does_not_build_nothing_is_kept() -> None:
    unknown = CAKE.memory.model_copy(update={"version": 2})
    followed = audit(TEA, CAKE, merge(3, TEA.memory, unknown))
    assert [stored.memory for stored in followed.state.values()] == [TEA.memory, CAKE.memory]
    assert followed.stopped == {0: 2}


def test_a_scope_lies_in_its_own_partition() -> None:
    decisions = [insert(number, scope=scope) for number, scope in enumerate((ANA, BEN))]
    own = [partition_of(one.event.scope, 2) for one in decisions]
    assert sorted(own) == [0, 1]
    followed = Audit(2, {})
    followed.decision(decisions[0], at(0, own[0]))
    followed.decision(decisions[1], at(1, own[0]))
    followed.decision(sent_on(2, own[1]), at(2, own[0]))
    assert followed.fold.counts == {Violation.OTHER_PARTITION: 2}
    assert [one.place for one in followed.fold.shown] == [
        f"memory.decisions/{own[0]}/1",
        f"memory.decisions/{own[0]}/2",
    ]


def fence(**fields: int) -> Fence:
    return Fence.model_validate({"owner": "me", "partition": 0, "partitions": 2, **fields})


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (fence(), None),
        (fence(partitions=3), Violation.PARTITIONS_DIFFER),
        (fence(partition=1), Violation.FENCE_MISPLACED),
    ],
)
def test_every_fence_is_of_as_many_partitions(wrong: Fence, problem: Violation | None) -> None:
    followed = Audit(2, {})
    followed.topic("memory.events", 2)
    followed.fence(wrong, at(0))
    assert list(followed.numbers.counts) == ([] if problem is None else [problem])


def test_where_the_number_of_partitions_is_in_doubt_no_scope_is_said_to_be_misplaced() -> None:
    followed = Audit(2, {})
    followed.topic("memory.events", 3)
    for partition in range(2):
        followed.decision(insert(partition), at(0, partition))
    assert followed.numbers.counts == {Violation.PARTITIONS_DIFFER: 1}
    assert Violation.OTHER_PARTITION not in followed.fold.counts


def test_what_was_decided_before_a_lost_beginning_is_in_doubt() -> None:
    followed = Audit(1, {0: 2})
    followed.unread(Violation.BEGINNING_LOST, at(2), "begins here")
    followed.decision(again(1, TEA.memory), at(3))
    pairing = followed.pairing(0)
    for offset in range(2):
        pairing.event(offset, lambda: again(1, TEA.memory).event)
    pairing.close(0, 2)
    assert of(followed) == {Violation.BEGINNING_LOST: 1}
    assert pairing.in_doubt == 1


def test_what_follows_from_a_record_that_cannot_be_read_is_not_told_as_another_damage() -> None:
    followed = Audit(1, {0: 3})
    followed.decision(CAKE.model_copy(update={"source": case(0).source}), at(0))
    followed.unread(Violation.DAMAGED, at(1), "is damaged")
    followed.decision(again(2, TEA.memory), at(2))
    pairing = followed.pairings[0]
    for offset in range(3):
        pairing.event(
            offset, lambda offset=offset: CAKE.event if offset == 0 else again(2, TEA.memory).event
        )
    pairing.close(0, 3)
    assert of(followed) == {Violation.DAMAGED: 1}
    assert followed.stopped == {0: 1}
    assert (pairing.events, pairing.in_doubt, pairing.waiting) == (3, 1, 0)


def cut(size: int) -> bytes:
    return DECISION.encode(TEA)[:size]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, Violation.CUT_SHORT),
        (b"", Violation.CUT_SHORT),
        (cut(-1), Violation.CUT_SHORT),
        (cut(40), Violation.CUT_SHORT),
        (cut(-1) + b"\x00", Violation.DAMAGED),
        (b"\xff" + cut(-1), Violation.DAMAGED),
        (b"[]", Violation.DAMAGED),
        (b'{"schema_version":1}', Violation.DAMAGED),
        (b'{"kind":7,"schema_version":"x"}', Violation.NEWER),
        (b'{"kind":"consolidate","schema_version":1}', Violation.NEWER),
        (b'{"kind":"insert","schema_version":2}', Violation.NEWER),
        (b'{"kind":"insert","schema_version":[]}', Violation.DAMAGED),
        (b'{"kind":"insert","schema_version":1}', Violation.DAMAGED),
        (DECISION.encode(TEA).replace(b'"evidence"', b'"evidenc3"'), Violation.DAMAGED),
    ],
)
def test_cut_short_damaged_and_newer_are_told_apart(
    value: bytes | None, problem: Violation
) -> None:
    with pytest.raises(Unreadable) as unread:
        DECISION.decode(value or b"")
    assert unreadable(value, unread.value) is problem


def test_a_fence_that_says_it_is_a_decision_is_damaged() -> None:
    assert unreadable(DECISION.encode(fence()), None) is Violation.DAMAGED


def paired(
    decided: Iterable[int],
    events: Iterable[int],
    *,
    committed: int = 0,
    beginning: int = 0,
    end: int = 6,
    doubts: Sequence[int] = (),
) -> tuple[Pairing, AuditFindings]:
    """Pair decisions on some events with some events; before some decisions lies a doubt."""
    found = AuditFindings()
    pairing = Pairing(0, committed, found)
    for place, number in enumerate(decided):
        if number in doubts:
            pairing.doubt()
        pairing.decided(insert(number), place)
    if -1 in doubts:
        pairing.doubt()
    for offset in events:
        pairing.event(offset, lambda offset=offset: insert(offset).event)
    pairing.close(beginning, end)
    return pairing, found


@pytest.mark.parametrize(
    ("given", "found", "waiting", "in_doubt"),
    [
        pytest.param({"decided": range(6), "events": range(6)}, {}, 0, 0, id="all"),
        pytest.param({"decided": range(4), "events": range(6)}, {}, 2, 0, id="two wait"),
        pytest.param({"decided": [], "events": range(6)}, {}, 6, 0, id="nobody has decided"),
        pytest.param(
            {"decided": [0, 2], "events": [0, 2], "end": 3}, {}, 0, 0, id="a gap of the log"
        ),
        pytest.param(
            {"decided": [0, 1, 3], "events": range(4)}, {Violation.UNDECIDED: 1}, 0, 0, id="skipped"
        ),
        pytest.param(
            {"decided": range(4), "events": range(6), "committed": 5},
            {Violation.UNDECIDED: 1},
            1,
            0,
            id="the group has gone past it",
        ),
        pytest.param(
            {"decided": range(6), "events": [0, 1, 2, 4, 5]},
            {Violation.NO_EVENT: 1},
            0,
            0,
            id="an event is gone",
        ),
        pytest.param(
            {"decided": range(6), "events": range(4), "end": 4},
            {Violation.BEYOND_EVENTS: 2},
            0,
            0,
            id="the events end before",
        ),
        pytest.param(
            {"decided": range(6), "events": [4, 5], "beginning": 4}, {}, 0, 0, id="expired"
        ),
        pytest.param(
            {"decided": [0, 1, 3], "events": range(4), "doubts": [3]}, {}, 0, 1, id="in doubt"
        ),
        pytest.param(
            {"decided": [0, 1, 3, 5], "events": range(6), "doubts": [3]},
            {Violation.UNDECIDED: 1},
            0,
            1,
            id="in doubt, and another one skipped",
        ),
        pytest.param(
            {"decided": range(4), "events": range(6), "doubts": [-1]},
            {},
            1,
            1,
            id="the last is in doubt",
        ),
        pytest.param(
            {"decided": range(4), "events": range(6), "doubts": [-1], "committed": 6},
            {},
            0,
            2,
            id="the last are in doubt",
        ),
    ],
)
def test_every_event_has_one_decision(
    given: dict[str, Any], found: Found, waiting: int, in_doubt: int
) -> None:
    pairing, findings = paired(**given)
    assert findings.counts == found
    assert (pairing.waiting, pairing.in_doubt) == (waiting, in_doubt)


def test_what_has_expired_is_counted_by_its_decisions() -> None:
    pairing, found = paired([0, 2, 4, 5], [4, 5], beginning=4)
    assert (pairing.events, pairing.expired, pairing.untold) == (2, 2, 2)
    assert not found.counts


@pytest.mark.parametrize("holds", [None, event("Ana likes mud.")])
def test_a_decision_is_on_the_event_that_the_record_holds(holds: Event | None) -> None:
    found = AuditFindings()
    pairing = Pairing(0, 0, found)
    pairing.decided(TEA, 7)
    pairing.event(0, lambda: holds)
    assert [(one.problem, one.place) for one in found.shown] == [
        (Violation.OTHER_EVENT, "memory.decisions/0/7")
    ]


@pytest.mark.covers("B138")
@pytest.mark.parametrize("is_there", [True, False])
def test_the_record_of_a_masked_event_says_something_else_or_is_gone(*, is_there: bool) -> None:
    evidence = TEA.evidence.model_copy(update={"masked": ("e-mail address",)})
    followed = Audit(1, {0: 1})
    followed.decision(changed(TEA, evidence=evidence), at(0))
    pairing = followed.pairing(0)
    if is_there:
        pairing.event(0, lambda: event("Ana likes mud."))
    pairing.close(0, 1)
    assert not of(followed)


def test_a_reject_and_a_forward_repeat_no_event() -> None:
    found = AuditFindings()
    pairing = Pairing(0, 0, found)
    pairing.decided(reject(0), 0)
    pairing.decided(sent_on(1), 1)
    for offset in range(2):
        pairing.event(offset, lambda: None)
    assert not found.counts


def retired(number: int, by: int | None, scope: str = ANA) -> StoredMemory:
    successor = None if by is None else identity(by)
    superseded = {"by": successor, "at": later(1), "reason": "r"}
    fields: dict[str, Any] = {"status": "superseded", "superseded": superseded}
    return StoredMemory(memory(id=identity(number), scope=scope, **fields), unit(1))


def live(number: int, scope: str = ANA) -> StoredMemory:
    return StoredMemory(memory(id=identity(number), scope=scope), unit(1))


@pytest.mark.covers("B66", "C9")
@pytest.mark.parametrize(
    ("memories", "found"),
    [
        pytest.param([live(1), live(2)], {}, id="live"),
        pytest.param([retired(1, 2), retired(2, 3), live(3)], {}, id="a chain"),
        pytest.param([live(3), retired(2, 3), retired(1, 3)], {}, id="two to one"),
        pytest.param([retired(1, None), retired(2, 1)], {}, id="to an end"),
        pytest.param([retired(1, 9)], {Violation.NO_SUCCESSOR: 1}, id="to nowhere"),
        pytest.param(
            [retired(1, 2), retired(2, 9), live(3)],
            {Violation.NO_SUCCESSOR: 2},
            id="a chain to nowhere",
        ),
        pytest.param(
            [retired(1, 2), live(2, scope=BEN)], {Violation.NO_SUCCESSOR: 1}, id="to another scope"
        ),
        pytest.param(
            [retired(1, 2), retired(2, 1)], {Violation.SUCCESSOR_CYCLE: 2}, id="in a circle"
        ),
        pytest.param(
            [retired(1, 2), retired(2, 3), retired(3, 2), retired(4, 1)],
            {Violation.SUCCESSOR_CYCLE: 4},
            id="into a circle",
        ),
    ],
)
def test_every_retired_memory_leads_to_one_live_memory_or_to_its_end(
    memories: Sequence[StoredMemory], found: Found
) -> None:
    assert successors({one.memory.id: one for one in memories}).counts == found


def test_what_rejects_refer_to_is_there_or_may_have_expired() -> None:
    followed = audit(reject(0), reject(1))
    followed.letter("letter 0")
    assert followed.close_letters(expired=True) == 1
    assert not followed.letters.counts
    assert followed.close_letters(expired=False) == 0
    [finding] = followed.letters.shown
    assert (finding.problem, finding.place) == (Violation.NO_DEAD_LETTER, "memory.decisions/0/1")


def test_what_forwards_refer_to_is_there_or_may_have_expired() -> None:
    followed = audit(sent_on(0, 1), sent_on(1, 1), sent_on(2, 2), partitions=3)
    followed.forwarded(1, "memory.events/0/0")
    followed.forwarded(2, "memory.events/0/1")
    assert followed.close_forwards(expired={2}) == 1
    [finding] = followed.forwards.shown
    assert (finding.problem, finding.place) == (Violation.NOT_FORWARDED, "memory.decisions/0/1")


def states(*decisions: Decision) -> dict[MemoryId, StoredMemory]:
    return dict(audit(*decisions).state)


def compared(level: int, held: Iterable[StoredMemory], *, whole: bool = True) -> AuditFindings:
    """Compare what a copy holds that has followed LIFE up to a level."""
    followed = Audit(1, {})
    copy = followed.copy({0: level})
    for offset, decision in enumerate(LIFE):
        followed.decision(decision, at(offset))
    return in_copy(followed, copy, held, whole=whole)


def in_copy(
    followed: Audit, copy: Copy, held: Iterable[StoredMemory], *, whole: bool = True
) -> AuditFindings:
    for stored in held:
        copy.found(HeldMemory.of_index(stored) if whole else HeldMemory.of_sink(stored.memory))
    return followed.compared(copy)


@pytest.mark.parametrize("level", range(len(LIFE) + 1))
def test_a_copy_that_is_behind_is_compared_with_what_it_has_followed(level: int) -> None:
    """It may be further than its level says: it is written before that is raised."""
    for ahead in range(level, len(LIFE) + 1):
        assert problems(compared(level, states(*LIFE[:ahead]).values())) == {}


@pytest.mark.parametrize("level", range(1, len(LIFE) + 1))
def test_a_copy_lacks_what_its_level_says_it_has(level: int) -> None:
    expected = states(*LIFE[:level])
    for identity_ in expected:
        rest = [stored for key, stored in expected.items() if key != identity_]
        [finding] = compared(level, rest).shown
        assert (finding.problem, finding.place) == (Violation.LACKING, identity_)


ALL = states(*LIFE)
LAST = ALL[BOTH.memory.id]


@pytest.mark.parametrize(
    ("stored", "what"),
    [
        (states(TEA)[TEA.memory.id], "is at version 1, and at 3 by the log"),
        (
            StoredMemory(LAST.memory.model_copy(update={"text": "x"}), LAST.vector, LAST.decided),
            "differs from the log in: text",
        ),
        (replace(LAST, vector=unit(0, 1)), "in: vector"),
        (replace(LAST, variants=dict.fromkeys(LAST.variants, unit(0, 1))), "in: vector"),
        (replace(LAST, decided=()), "in: decisions"),
    ],
)
def test_what_differs_is_said_without_the_text(stored: StoredMemory, what: str) -> None:
    held = {**ALL, stored.memory.id: stored}
    [finding] = compared(len(LIFE), held.values()).shown
    assert (finding.problem, finding.place) == (Violation.DIFFERING, stored.memory.id)
    assert what in finding.what


WITHOUT_CAKE = tuple(one for one in BOTH.memory.variants if one.text != CAKE.memory.text)


@pytest.mark.parametrize(
    "planted",
    [
        changed(BOTH, memory=BOTH.memory.model_copy(update={"text": "Ana drinks."})),
        changed(
            BOTH,
            memory=BOTH.memory.model_copy(update={"variants": WITHOUT_CAKE}),
            variant_embeddings=BOTH.variant_embeddings[: len(WITHOUT_CAKE)],
        ),
        changed(
            BOTH, memory=BOTH.memory.model_copy(update={"variants": ()}), variant_embeddings=()
        ),
    ],
    ids=["what the event says", "what a target says", "what all of them say"],
)
def test_a_wording_that_no_memory_has_any_more_is_lost(planted: Change) -> None:
    followed = audit(TEA, CAKE, TEA_AGAIN, planted)
    assert problems(followed.wordings) == {Violation.WORDING_LOST: 1}
    assert problems(audit(*LIFE).wordings) == {}


def test_a_wording_that_was_folded_is_counted_and_not_lost() -> None:
    update = {"variants": WITHOUT_CAKE, "folded": 1}
    folded = changed(
        BOTH,
        memory=BOTH.memory.model_copy(update=update),
        variant_embeddings=BOTH.variant_embeddings[: len(WITHOUT_CAKE)],
    )
    assert problems(audit(TEA, CAKE, TEA_AGAIN, folded).wordings) == {}


def test_what_a_new_text_takes_the_place_of_is_not_lost() -> None:
    worded = Reinforce(
        **made(case(1, "Tea is what Ana likes."), Reason.SAME_FACT),
        memory=survivorship.seen_again(TEA.memory, case(1, "Tea is what Ana likes.").event),
        target=Target(memory_id=TEA.memory.id, version=1),
        embedding=pack(unit(0, 1), MODEL),
    )
    encoded = EncodedVector(unit(1), pack(unit(1), MODEL), truncated=False)
    renamed = rename(case(2, "Ana likes cocoa."), worded.memory, encoded)
    assert problems(audit(TEA, worded, renamed).wordings) == {}
    bare = changed(worded, memory=worded.memory.model_copy(update={"variants": ()}))
    assert problems(audit(TEA, bare).wordings) == {Violation.WORDING_LOST: 1}


def test_vectors_and_decisions_are_not_asked_of_a_copy_that_has_none() -> None:
    held = [StoredMemory(stored.memory, None) for stored in ALL.values()]
    assert problems(compared(len(LIFE), held, whole=False)) == {}
    assert compared(len(LIFE), held).counts == {Violation.DIFFERING: 3}


def test_of_several_states_the_latest_counts_in_whatever_order() -> None:
    first = StoredMemory(TEA.memory, None)
    wrong = StoredMemory(TEA.memory.model_copy(update={"version": 9}), None)
    last = [StoredMemory(stored.memory, None) for stored in ALL.values()]
    assert problems(compared(len(LIFE), [first, *last, first], whole=False)) == {}
    assert compared(len(LIFE), [wrong, *last], whole=False).counts == {Violation.DIFFERING: 1}


def test_what_the_log_does_not_know_is_extra_until_it_is_read_on() -> None:
    followed = Audit(1, {})
    copy = followed.copy({})
    assert in_copy(followed, copy, states(TEA).values()).counts == {Violation.EXTRA: 1}
    assert copy.is_in_doubt
    followed.decision(TEA, at(0))
    assert not followed.compared(copy).counts


def test_a_flawed_memory_is_named() -> None:
    followed = audit(TEA)
    copy = followed.copy({0: 1})
    copy.found(HeldMemory(TEA.memory.id, flaw="cannot be read"))
    [finding] = followed.compared(copy).shown
    assert (finding.problem, finding.what) == (Violation.DIFFERING, "cannot be read")


def test_a_copy_is_compared_only_where_the_log_adds_up_to_its_level() -> None:
    followed = Audit(2, {})
    behind, beyond = (followed.copy(dict.fromkeys(range(2), level)) for level in (1, 3))
    partition, other = (
        partition_of(TEA.event.scope, 2),
        partition_of(insert(0, scope=BEN).event.scope, 2),
    )
    followed.decision(TEA, at(0, partition))
    followed.decision(REINFORCED_TWICE, at(1, partition))
    ben = insert(0, scope=BEN)
    followed.decision(ben, at(0, other))
    assert followed.stopped == {partition: 1}
    assert followed.blind(behind) == {}
    assert followed.blind(beyond) == {partition: 1}
    assert [one.place for one in followed.compared(behind).shown] == [TEA.memory.id, ben.memory.id]
    assert [one.place for one in followed.compared(beyond).shown] == [ben.memory.id]
    followed.topic("memory.events", 3)  # whose scope lies where cannot be told any more
    assert not followed.compared(beyond).counts


def test_of_each_problem_the_first_are_shown_and_all_are_counted() -> None:
    found = AuditFindings()
    for number in range(SHOWN_MAX + 5):
        found.add(Violation.EXTRA, f"{number}", "")
    found.add(Violation.LACKING, "one", "")
    assert [one.place for one in found.shown] == [*map(str, range(SHOWN_MAX)), "one"]
    assert found.counts == {Violation.EXTRA: SHOWN_MAX + 5, Violation.LACKING: 1}


def test_a_problem_has_its_own_remedy_or_that_of_its_check() -> None:
    of_log, of_copy = Check("log", ""), Check("index", "", remedy="delete it")
    assert of_log.remedy_of(Violation.DAMAGED) == RESTORE
    assert of_copy.remedy_of(Violation.LACKING) == "delete it"
    for one in (of_log, of_copy):
        assert one.remedy_of(Violation.UNEQUAL) == REMEDIES[Violation.UNEQUAL]
