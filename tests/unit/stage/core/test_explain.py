from typing import Literal

import pytest

from schemas.base import EventId, MemoryId, PolicyId, Position
from schemas.decisions import (
    Band,
    Compared,
    Composition,
    Decision,
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
from schemas.events import Answer, Seen
from schemas.memories import Target
from streams.model.embedding import pack
from streams.model.identity import decision_id, update_id
from streams.model.neighbours import StoredMemory
from streams.model.verdict import FEW_WORDS
from streams.stage.core.explain import explain, opinions, outcome, why
from tests.builders import MODEL, event, identity, memory, policy, unit, worded

TEA = memory("Ana likes tea.", version=2, observation_count=3)
CAKE = memory("Ana likes cake.", id=identity(2))
SAID = event("Ana likes cake.", event_id="e1")
PLACE = Position(topic="memory.events", partition=0, offset=7)
ID = decision_id(SAID.scope, SAID.event_id)
THIRD = MemoryId(identity(3))
TARGET = Target(memory_id=TEA.id, version=2)
EMBEDDING = pack(unit(1), MODEL)
NEAR = Compared(
    memory_id=TEA.id,
    version=2,
    similarity=0.9712,
    band=Band.MATCH,
    verdict=Verdict.UNSURE,
    judge="bands",
)
FAR = Compared(
    memory_id=THIRD,
    version=1,
    similarity=0.6,
    band=Band.NONE,
    verdict=Verdict.DISTINCT,
    judge="bands",
)
VERSIONS = {(TEA.id, version): TEA for version in (1, 2, 3)}
HEAD = [
    f"decision   {ID}",
    "event      e1",
    "scope      acme/ana",
    "happened   2026-03-01 09:00:00 UTC",
    'it says    "Ana likes cake."',
    "",
]
COMPARED = [
    "compared with, nearest first:",
    f"  0.971  match   {TEA.id}",
    '         "Ana likes tea."',
    "         nearly identical; may state the same fact (bands)",
    f"  0.600  none    {THIRD}",
    '         "its text is not in the log"',
    "         far; states a different fact (bands)",
]
UNSETTLED = "because a memory is similar, but not surely the same fact; both are kept."
POLICY = (
    f"policy {policy().id}: match from 0.95, review from 0.8, log from 0.7; nobody is asked; "
    "if that settles nothing, a match is merged, a review kept as well"
)


def made(evidence: Evidence) -> dict[str, object]:
    return {
        "decision_id": ID,
        "event": SAID,
        "source": PLACE,
        "policy_id": policy().id,
        "evidence": evidence,
    }


def because(reason: Reason, *near: Compared) -> Evidence:
    return Evidence(reason=reason, neighbours=near)


def insert(evidence: Evidence) -> Insert:
    return Insert.model_validate({**made(evidence), "memory": CAKE, "embedding": EMBEDDING})


MERGE = Merge.model_validate(
    {
        **made(
            Evidence(
                reason=Reason.NEARLY_IDENTICAL,
                neighbours=(NEAR, FAR),
                merge=Composition(sentences=(TEA.text, CAKE.text), origins=(TEA.id, "e1")),
            )
        ),
        "memory": memory("Ana likes tea. Ana likes cake.", id=identity(9)),
        "embedding": EMBEDDING,
        "event_embedding": EMBEDDING,
        "targets": (TARGET,),
    }
)
REINFORCE = Reinforce.model_validate(
    {**made(because(Reason.SAME_FACT, NEAR)), "memory": TEA, "target": TARGET}
)
RENAMED = Replace.model_validate(
    {
        **made(because(Reason.SAME_MEMORY_ID)),
        "memory": TEA,
        "embedding": EMBEDDING,
        "targets": (TARGET,),
    }
)
REPLACED = RENAMED.model_copy(
    update={
        "memory": CAKE,
        "targets": (TARGET, Target(memory_id=THIRD, version=1)),
        "evidence": because(Reason.NEWER_CONTRADICTION, NEAR, FAR),
    }
)
IGNORE = Ignore.model_validate(made(because(Reason.SAME_EVENT)))
REJECT = Reject(decision_id=ID, source=PLACE, dead_letter_id="letter")


@pytest.mark.covers("B116")
@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (
            insert(because(Reason.UNSURE, NEAR, FAR)),
            [
                f"insert: kept as the new memory {CAKE.id}",
                UNSETTLED,
                "",
                *COMPARED,
            ],
        ),
        (
            MERGE,
            [
                f"merge: merged with {TEA.id} into the new memory {identity(9)}",
                "because it is nearly identical to a memory; both wordings are kept.",
                "",
                'the memory now says  "Ana likes tea. Ana likes cake."',
                f'  "Ana likes tea." from {TEA.id}',
                '  "Ana likes cake." from the event',
                "",
                *COMPARED,
            ],
        ),
        (
            REINFORCE,
            [
                f"reinforce: memory {TEA.id} was seen once more, 3 times in total",
                "because a memory states the same fact.",
                "",
                *COMPARED[:4],
            ],
        ),
        (
            RENAMED,
            [
                f"replace: memory {TEA.id} now says this",
                "because the event carried this memory's id.",
                f'before, {TEA.id} said  "{TEA.text}"',
                "",
                "it was compared with no memory.",
            ],
        ),
        (
            REPLACED,
            [
                f"replace: the new memory {CAKE.id} replaces {TEA.id}, {THIRD}",
                "because it contradicts an older memory and is newer.",
                f'before, {TEA.id} said  "{TEA.text}"',
                "",
                *COMPARED,
            ],
        ),
        (
            IGNORE,
            [
                "ignore: nothing changed",
                "because this event was decided before.",
                "",
                "it was compared with no memory.",
            ],
        ),
    ],
)
def test_a_decision_is_told_whole(decision: Decision, told: list[str]) -> None:
    assert explain(decision, VERSIONS, policy()) == [*HEAD, *told, "", POLICY]


def test_a_reject_is_told_by_its_place_and_dead_letter() -> None:
    assert explain(REJECT, VERSIONS, policy()) == [
        f"decision   {ID}",
        "reject: the record cannot be used; it is dead letter letter",
        "event from memory.events/0/7",
    ]
    assert outcome(REJECT) == "nothing changed"


def test_what_the_model_did_not_read_and_who_did_not_answer_is_told() -> None:
    decision = insert(Evidence(reason=Reason.TRUNCATED, truncated=True, degraded=("llm", "nli")))
    assert explain(decision, {}, policy())[9:] == [
        "it was compared with no memory.",
        "the model read only the beginning of the text.",
        "did not answer: llm, nli.",
        "",
        POLICY,
    ]


def test_an_unknown_policy_is_named() -> None:
    assert explain(IGNORE.model_copy(update={"policy_id": PolicyId("old-1")}), {}, None)[-1] == (
        "policy old-1"
    )


def test_every_reason_has_a_clause_of_its_own() -> None:
    answers = {Reason.ANSWERED, Reason.ANSWERED_TOO_LATE}
    clauses = {why(insert(because(reason))) for reason in Reason if reason not in answers}
    assert len(clauses) == len(Reason) - len(answers)
    assert all(clause[0].islower() and clause[-1].isalpha() for clause in clauses)


@pytest.mark.parametrize(
    ("verdict", "reason", "told"),
    [
        ("same", Reason.ANSWERED, "june said that both say the same"),
        ("contradicts", Reason.ANSWERED, "june said that the newer contradicts the older"),
        (
            "distinct",
            Reason.ANSWERED_TOO_LATE,
            "june said that they state different facts, but the memories have changed since",
        ),
    ],
)
def test_who_answered_what_is_told(
    verdict: Literal["same", "contradicts", "distinct"], reason: Reason, told: str
) -> None:
    newer, older = (Seen(memory_id=one.id, content_key=one.content_key) for one in (CAKE, TEA))
    answer = Answer(
        event_id=EventId("a1"),
        scope=SAID.scope,
        review_id="r1",
        newer=newer,
        older=older,
        verdict=verdict,
        author="june",
        occurred_at=SAID.occurred_at,
    )
    ignored = IGNORE.model_copy(update={"event": answer, "evidence": Evidence(reason=reason)})
    assert why(ignored) == told
    asked = answer.model_copy(update={"event_id": update_id("r1", answer.verdict, CAKE.id, "june")})
    updated = ignored.model_copy(update={"event": asked})
    assert why(updated).startswith("june asked for this update")


@pytest.mark.parametrize("band", Band)
@pytest.mark.parametrize("verdict", Verdict)
def test_every_band_and_verdict_has_its_words(band: Band, verdict: Verdict) -> None:
    seen = NEAR.model_copy(update={"band": band, "verdict": verdict})
    line = explain(insert(because(Reason.UNSURE, seen)), VERSIONS, None)[12]
    assert line.startswith("         ")
    assert line.endswith(" (bands)")


@pytest.mark.covers("C3")
def test_what_guards_and_judge_found_is_told_in_plain_words() -> None:
    differs = Finding(
        guard="dates",
        outcome="differs",
        what="date",
        event_says="March 15",
        memory_says="March 14",
    )
    doubt = Finding(guard="substance", outcome="cannot-tell", what="too few words to go by")
    probabilities = {verdict: 0.0 for verdict in Verdict if verdict is not Verdict.UNSURE}
    judged = NEAR.model_copy(
        update={
            "judge": "built-in",
            "findings": (differs, doubt),
            "probabilities": probabilities | {Verdict.SAME: 0.25, Verdict.CONTRADICTS: 0.75},
        }
    )
    lines = explain(insert(because(Reason.DISTINCT, judged)), VERSIONS, policy())
    at = lines.index('         "Ana likes tea."')
    assert lines[at + 2 : at + 5] == [
        '         guard dates: another date; event "March 15", memory "March 14"',
        "         guard substance cannot tell: too few words to go by",
        "         built-in gives: contradicts 75%, same 25%",
    ]


def test_it_is_told_that_texts_are_not_in_english() -> None:
    foreign = NEAR.model_copy(update={"verdict": Verdict.UNSURE, "judge": "language de"})
    lines = explain(insert(because(Reason.UNSURE, foreign)), VERSIONS, policy())
    at = lines.index('         "Ana likes tea."')
    assert lines[at + 2] == (
        "         not in English (de): only equal sentences, values and names are compared"
    )


def test_the_wording_that_was_near_is_told() -> None:
    known = worded(StoredMemory(TEA, unit(1)), ("Tea is what Ana likes.", unit(0, 1))).memory
    near = NEAR.model_copy(update={"wording": known.variants[0].content_key})
    lines = explain(insert(because(Reason.UNSURE, near)), {(TEA.id, 2): known}, policy())
    at = lines.index('         "Ana likes tea."')
    assert lines[at + 1] == '         closest is its wording "Tea is what Ana likes."'


def test_what_was_asked_and_what_was_refused_is_told() -> None:
    evidence = Evidence(reason=Reason.KEPT_FOR_REVIEW, reviews=("r1",), refused=("m1: pinned",))
    lines = explain(insert(evidence), VERSIONS, policy())
    assert "asked: memsieve reviews show r1" in lines
    assert "not retired: m1: pinned." in lines


def test_an_update_that_the_policy_leaves_to_a_person_tells_who_asked_for_it() -> None:
    kept = f"{TEA.id}: the policy leaves that to a person"
    event = SAID.model_copy(update={"supersedes": (TEA.id,)})
    refused = Evidence(reason=Reason.NOTHING_NEAR, refused=(kept,))
    made_new = insert(refused).model_copy(update={"event": event})
    newer, older = Seen.of(made_new.memory), Seen.of(TEA)
    answer = Answer(
        event_id=EventId(update_id("r1", "contradicts", newer.memory_id, "june")),
        scope=SAID.scope,
        review_id="r1",
        newer=newer,
        older=older,
        verdict="contradicts",
        author="june",
        occurred_at=SAID.occurred_at,
    )
    assert answer.text == f"june: memory {newer.memory_id} replaces memory {TEA.id}"
    answered = REPLACED.model_copy(
        update={"event": answer, "targets": (TARGET,), "evidence": because(Reason.ANSWERED)}
    )
    lines = explain(made_new, VERSIONS, policy(), [answered])
    assert "because its event asks to replace memories, and is compared with none." in lines
    at = lines.index(f"it asks to replace {kept}.")
    assert lines[at + 1] == (
        f"then june asked for this update: {outcome(answered)} (decision {answered.decision_id})."
    )


def judged(verdict: Verdict, **told: float) -> Compared:
    """Return a comparison by the built-in judge with these probabilities, the rest "distinct"."""
    given = {Verdict(name): p for name, p in told.items()}
    rest = {Verdict.DISTINCT: round(1 - sum(told.values()), 5)}
    update = {"verdict": verdict, "judge": "built-in", "probabilities": {**rest, **given}}
    return NEAR.model_copy(update=update)


def seen_again(reason: Reason, near: Compared) -> Decision:
    return Reinforce.model_validate(
        made(Evidence(reason=reason, neighbours=(near,))) | {"memory": TEA, "target": TARGET}
    )


@pytest.mark.parametrize(
    ("reason", "near", "told"),
    [
        (
            Reason.SAME_FACT,
            judged(Verdict.SAME, same=0.9, refines=0.03),
            "a memory states the same fact, 93% sure; both wordings are kept",
        ),
        (
            Reason.OVERLAPS_KNOWN,
            judged(Verdict.OVERLAPS, overlaps=0.88),
            "it and a memory state one fact, each with its own details, 88% sure; both wordings are kept",
        ),
        (Reason.SAME_FACT, NEAR, "a memory states the same fact"),
    ],
)
def test_the_reason_tells_in_one_line_how_sure_the_judge_was(
    reason: Reason, near: Compared, told: str
) -> None:
    assert why(seen_again(reason, near)) == told


@pytest.mark.parametrize(
    ("near", "told"),
    [
        (
            judged(Verdict.UNSURE, same=0.6, overlaps=0.212),
            ["kept apart: 81.2% sure of one memory, judges.one_memory_min is 90.0%."],
        ),
        (
            judged(Verdict.UNSURE, contradicts=0.81),
            ["not in conflict: 81.0% sure of a contradiction, judges.contradicts_min is 90.0%."],
        ),
        (
            judged(Verdict.UNSURE, same=0.5, refines=0.45),
            ["kept apart: both are negated, and which says more is in doubt."],
        ),
        (judged(Verdict.CONTRADICTS, contradicts=0.95), []),
        (judged(Verdict.DISTINCT, same=0.2), []),
        (judged(Verdict.SAME, same=0.95), []),
        (NEAR, []),
    ],
)
def test_what_was_missing_is_told_where_a_judge_was_nearly_sure(
    near: Compared, told: list[str]
) -> None:
    rules = policy(judges={"one_memory_min": 0.9, "contradicts_min": 0.9})
    lines = explain(seen_again(Reason.UNSURE, near), VERSIONS, rules)
    assert [line for line in lines if line.startswith(("kept apart", "not in conflict"))] == told


@pytest.mark.parametrize(
    ("near", "told"),
    [
        (judged(Verdict.UNSURE, contradicts=0.6, same=0.3), "may contradict it"),
        (judged(Verdict.UNSURE, contradicts=0.3, same=0.6), "may state the same fact"),
        (NEAR, "may state the same fact"),
    ],
)
def test_of_an_unsure_pair_it_says_what_the_judge_leans_to(near: Compared, told: str) -> None:
    assert f"; {told} (" in opinions(near)[0]


SYMBOL = Finding(
    guard="symbols", outcome="differs", what="symbol", event_says="C++", memory_says="C"
)


def test_why_a_pinned_memory_that_is_contradicted_stays_is_told() -> None:
    near = judged(Verdict.CONTRADICTS, contradicts=0.99)
    made_of = made(Evidence(reason=Reason.CONTRADICTS_KNOWN, neighbours=(near,)))
    kept = Insert.model_validate(made_of | {"memory": CAKE, "embedding": EMBEDDING})
    pinned = {(TEA.id, near.version): TEA.model_copy(update={"pinned": True})}
    lines = explain(kept, pinned, policy(with_verdict={"contradicts": "supersede"}))
    assert f"not replaced: {TEA.id}, it is pinned." in lines


@pytest.mark.parametrize(
    ("near", "setting", "told"),
    [
        (
            judged(Verdict.CONTRADICTS, contradicts=0.891),
            {"judges": {"supersede_min": 0.94}},
            f"not replaced: {TEA.id}, 89.1% sure of a contradiction, judges.supersede_min is 94.0%.",
        ),
        (
            judged(Verdict.CONTRADICTS, contradicts=0.99).model_copy(
                update={"findings": (SYMBOL,)}
            ),
            {"judges": {"supersede_min": 0.94}},
            f"not replaced: {TEA.id}, another symbol may name another thing.",
        ),
        (
            judged(Verdict.CONTRADICTS, contradicts=0.99),
            {"judges": {"supersede_min": 0.94}},
            f"not replaced: {TEA.id}, the event's time is unlikely, so neither is the newer.",
        ),
        (
            judged(Verdict.CONTRADICTS, contradicts=0.99),
            {"with_verdict": {"contradicts": "keep-both"}},
            "not replaced: with_verdict.contradicts is keep-both.",
        ),
    ],
)
def test_why_a_contradicted_memory_stays_is_told(
    near: Compared, setting: dict[str, dict[str, object]], told: str
) -> None:
    rules = policy(**{"with_verdict": {"contradicts": "supersede"}, **setting})
    made_of = made(Evidence(reason=Reason.CONTRADICTS_KNOWN, neighbours=(near,)))
    kept = Insert.model_validate(made_of | {"memory": CAKE, "embedding": EMBEDDING})
    lines = explain(kept, VERSIONS, rules)
    assert [line for line in lines if line.startswith("not replaced")] == [told]


def test_a_pair_of_which_no_judge_was_asked_says_why() -> None:
    far = FAR.model_copy(update={"judge": FEW_WORDS})
    assert opinions(far)[0] == (
        "far; states a different fact (they share too few words to ask a judge)"
    )
