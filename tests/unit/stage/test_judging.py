"""Sentences, guards, judges in turn: who is asked about what, and what their answers are good for."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from schemas.decisions import Band, Verdict
from schemas.events import Remember
from streams.judges.language import foreign_language
from streams.judges.lexicons import english
from streams.model.neighbours import Neighbour
from streams.model.policy import JudgeName, WithoutVerdict
from streams.model.ports.models import NoAnswer, Verifier
from streams.model.verdict import Judgement, Opinion, Pair, unsettled
from streams.stage.flow.judging import CandidatePair, Judging
from streams.text.reading import TextAnalyzer
from tests.builders import event, identity, memory, policy, stored, unit, worded
from tests.fakes.judges import Said, ScriptedVerifier

GRAPES = "Ana likes green grapes."
FOND = "Ana is fond of grapes that are green."


def rules(*chain: JudgeName, **sections: Any) -> dict[str, Any]:
    """Return the sections of a policy whose guards are on, and whose judges these are."""
    sections.setdefault("judges", {"chain": chain})
    return {"guards": True, **sections}


def question(
    said: str | Remember, known: str, band: Band = Band.REVIEW, **sections: Any
) -> CandidatePair:
    asked = event(said) if isinstance(said, str) else said
    neighbour = Neighbour(memory(known), 0.9, band)
    return CandidatePair(asked, neighbour, policy(**sections).rules(asked.scope))


def judging(**verifiers: Verifier) -> Judging:
    names: dict[str, JudgeName] = {"llm": "llm", "built_in": "built-in"}
    readings = TextAnalyzer(english(), foreign_language)
    return Judging(readings, {names[name]: one for name, one in verifiers.items()})


def always(said: Said) -> ScriptedVerifier:
    return ScriptedVerifier(lambda _: said)


def sure(verdict: Verdict, probability: float) -> Opinion:
    """Return an opinion with this probability of a verdict, and the rest on "distinct"."""
    told = {one: 0.0 for one in Verdict if one is not Verdict.UNSURE}
    told[Verdict.DISTINCT] = 1 - probability
    told[verdict] = probability
    return Opinion(verdict, "built-in", told)


async def judged(by: Judging, *asked: CandidatePair) -> Sequence[Judgement]:
    return await by.judge(asked)


@pytest.mark.covers("B31", "D6")
@pytest.mark.parametrize(
    ("said", "known", "guard"),
    [
        ("The meeting is on March 15.", "The meeting is on March 14.", "guard dates"),
        ("Ana does not like cats.", "Ana likes cats.", "guard negation"),
        ("Ben owes Cleo money.", "Cleo owes Ben money.", "guard roles"),
    ],
)
async def test_a_judge_is_not_even_asked_where_a_guard_objects(
    said: str, known: str, guard: str
) -> None:
    llm = always(Verdict.SAME)
    [made] = await judged(judging(llm=llm), question(said, known, **rules("llm")))
    assert (made.verdict, made.judge) == (Verdict.DISTINCT, guard)
    assert made.findings
    assert llm.asked == []


@pytest.mark.covers("B29", "S4.9")
async def test_what_no_guard_parts_is_for_the_judge_to_settle() -> None:
    llm = always(Verdict.SAME)
    [made] = await judged(judging(llm=llm), question(GRAPES, FOND, **rules("llm")))
    assert (made.verdict, made.judge) == (Verdict.SAME, "llm")
    assert [(pair.event.text, pair.memory.text) for pair in llm.asked] == [(GRAPES, FOND)]


async def test_what_the_sentences_settle_is_asked_of_nobody() -> None:
    llm = always(Verdict.DISTINCT)
    made = await judged(
        judging(llm=llm),
        question(GRAPES, "ana LIKES green grapes", **rules("llm")),
        question(GRAPES, f"{GRAPES} Ben plays chess.", **rules("llm")),
        question(GRAPES, FOND, Band.LOG, **rules("llm")),
    )
    assert [one.verdict for one in made] == [Verdict.SAME, Verdict.REFINED_BY, Verdict.DISTINCT]
    assert llm.asked == []


@pytest.mark.covers("B36", "B38", "C18", "D16")
@pytest.mark.parametrize(
    ("answers", "verdict", "judge", "degraded"),
    [
        (["timeout", Verdict.SAME], Verdict.SAME, "built-in", ("llm: timeout",)),
        ([Verdict.SAME, "unused"], Verdict.SAME, "llm", ()),
        (["not JSON", "broken"], Verdict.UNSURE, "bands", ("llm: not JSON", "built-in: broken")),
    ],
)
async def test_who_does_not_answer_is_named_and_the_next_is_asked(
    answers: list[Verdict | str], verdict: Verdict, judge: str, degraded: tuple[str, ...]
) -> None:
    said = [one if isinstance(one, Verdict) else NoAnswer(one) for one in answers]
    llm = ScriptedVerifier(lambda _: said[0])
    built_in = ScriptedVerifier(lambda _: said[1], name="built-in")
    chain = rules("llm", "built-in")
    [made] = await judged(judging(llm=llm, built_in=built_in), question(GRAPES, FOND, **chain))
    assert (made.verdict, made.judge, made.degraded) == (verdict, judge, degraded)


@pytest.mark.covers("B38")
async def test_a_judge_that_is_not_configured_is_named_and_both_are_kept() -> None:
    [made] = await judged(judging(), question(GRAPES, FOND, **rules("llm")))
    assert (made.verdict, made.degraded) == (Verdict.UNSURE, ("llm: not configured",))


async def test_nobody_is_asked_where_the_policy_names_nobody() -> None:
    built_in = always(Verdict.SAME)
    [made] = await judged(judging(built_in=built_in), question(GRAPES, FOND, **rules()))
    assert (made.verdict, made.degraded, built_in.asked) == (Verdict.UNSURE, (), [])


def between(**told: float) -> Opinion:
    """Return an opinion with these probabilities, and the rest on "distinct"."""
    given = {Verdict(name.replace("_", "-")): p for name, p in told.items()}
    probabilities = {one: given.get(one, 0.0) for one in Verdict if one is not Verdict.UNSURE}
    probabilities[Verdict.DISTINCT] += 1 - sum(given.values())
    return Opinion(max(probabilities, key=probabilities.__getitem__), "built-in", probabilities)


@pytest.mark.parametrize(
    ("opinion", "verdict"),
    [
        (sure(Verdict.SAME, 0.9), Verdict.SAME),
        (sure(Verdict.SAME, 0.899), Verdict.UNSURE),
        (sure(Verdict.REFINES, 0.9), Verdict.REFINES),
        (sure(Verdict.REFINED_BY, 0.9), Verdict.REFINED_BY),
        (sure(Verdict.OVERLAPS, 0.9), Verdict.OVERLAPS),
        (between(same=0.3, refines=0.35, overlaps=0.25), Verdict.REFINES),
        (between(same=0.3, refines=0.35, overlaps=0.24), Verdict.UNSURE),
        (sure(Verdict.CONTRADICTS, 0.7), Verdict.CONTRADICTS),
        (sure(Verdict.CONTRADICTS, 0.69), Verdict.UNSURE),
        (sure(Verdict.SAME, 0.2), Verdict.DISTINCT),
    ],
)
async def test_two_are_one_memory_from_the_least_probability_on(
    opinion: Opinion, verdict: Verdict
) -> None:
    least = {"one_memory_min": 0.9, "contradicts_min": 0.7, "distinct_min": 0.6}
    sections = rules(judges={"chain": ["built-in"], **least})
    [made] = await judged(judging(built_in=always(opinion)), question(GRAPES, FOND, **sections))
    assert (made.verdict, made.opinion) == (verdict, opinion)


DOGS, NO_DOGS = "Ana likes two dogs.", "Ana is fond of three dogs."


@pytest.mark.covers("B31", "D6")
@pytest.mark.parametrize(
    ("opinion", "verdict", "judge"),
    [
        (sure(Verdict.SAME, 0.95), Verdict.SAME, "built-in"),
        (sure(Verdict.CONTRADICTS, 0.95), Verdict.CONTRADICTS, "built-in"),
        (sure(Verdict.SAME, 0.6), Verdict.DISTINCT, "guard numbers"),
        ("broken", Verdict.DISTINCT, "guard numbers"),
    ],
)
async def test_the_built_in_judge_weighs_what_a_guard_finds_in_texts(
    opinion: Opinion | str, verdict: Verdict, judge: str
) -> None:
    built_in = always(NoAnswer(opinion) if isinstance(opinion, str) else opinion)
    sections = rules(judges={"chain": ["built-in"], "one_memory_min": 0.9})
    [made] = await judged(judging(built_in=built_in), question(DOGS, NO_DOGS, **sections))
    assert (made.verdict, made.judge) == (verdict, judge)
    [asked] = built_in.asked
    assert [finding.guard for finding in asked.findings] == ["numbers"]


async def test_a_judge_that_weighs_nothing_is_not_believed_against_a_guard() -> None:
    sections = rules(judges={"chain": ["built-in", "llm"]})
    silent, llm = always(NoAnswer("broken")), always(Verdict.SAME)
    [made] = await judged(judging(built_in=silent, llm=llm), question(DOGS, NO_DOGS, **sections))
    assert (made.verdict, made.judge) == (Verdict.DISTINCT, "guard numbers")


@pytest.mark.parametrize("deep", [True, False])
async def test_a_policy_says_whether_two_texts_may_be_read_together(*, deep: bool) -> None:
    built_in = always(Verdict.SAME)
    sections = rules(judges={"chain": ["built-in"], "deep": deep})
    await judged(judging(built_in=built_in), question(GRAPES, FOND, **sections))
    assert [pair.deep for pair in built_in.asked] == [deep]


@pytest.mark.covers("B25", "D35")
async def test_where_a_guard_cannot_tell_nobody_is_believed_to_say_the_same() -> None:
    llm = always(Verdict.SAME)
    [made] = await judged(judging(llm=llm), question("Done.", "It is done now.", **rules("llm")))
    assert made.verdict is Verdict.UNSURE
    assert [finding.outcome for finding in made.findings] == ["cannot-tell"]


@pytest.mark.parametrize(
    ("similarity", "known", "judge"),
    [
        (0.84, "Ana repaired the boat behind the garden house.", "words"),
        (0.85, "Ana repaired the boat behind the garden house.", "built-in"),
        (0.84, "Ana repaired the boat in May 2024.", "built-in"),
        (0.84, "Ana rows a boat each day.", "built-in"),
    ],
)
async def test_what_shares_hardly_a_word_is_not_judged_unless_it_is_near(
    similarity: float, known: str, judge: str
) -> None:
    built_in = always(sure(Verdict.SAME, 0.99))
    base = question("Ana rows her old boat daily.", known, **rules("built-in"))
    near = Neighbour(base.neighbour.memory, similarity, Band.REVIEW)
    [made] = await judged(judging(built_in=built_in), CandidatePair(base.event, near, base.rules))
    assert made.judge == judge
    assert len(built_in.asked) == (judge != "words")


@pytest.mark.parametrize(
    ("said", "known", "verdict"),
    [
        ("Ana does not own a terrier.", "Ana does not own a dog.", Verdict.UNSURE),
        ("Ana owns a terrier.", "Ana owns a dog.", Verdict.REFINES),
        ("Ana owns a terrier.", "Ana does not own a cat.", Verdict.REFINES),
    ],
)
async def test_which_of_two_denials_says_more_is_in_doubt(
    said: str, known: str, verdict: Verdict
) -> None:
    built_in = always(sure(Verdict.REFINES, 0.99))
    asked = question(said, known, guards=False, judges={"chain": ["built-in"]})
    [made] = await judged(judging(built_in=built_in), asked)
    assert made.verdict is verdict


async def test_questions_are_put_to_a_judge_together_and_answered_in_order() -> None:
    calls: list[int] = []

    class Counting(ScriptedVerifier):
        async def verify(self, pairs: Sequence[Pair]) -> list[Opinion | NoAnswer]:
            calls.append(len(pairs))
            return await super().verify(pairs)

    known = [FOND, "Green grapes are what Ana likes.", "Ana has a liking for green grapes."]
    verdicts = dict(zip(known, [Verdict.SAME, Verdict.DISTINCT, Verdict.REFINES], strict=True))
    llm = Counting(lambda pair: verdicts[pair.memory.text])
    asked = [question(GRAPES, text, **rules("llm")) for text in known]
    made = await judged(judging(llm=llm), *asked)
    assert [one.verdict for one in made] == list(verdicts.values())
    assert calls == [3]


def held_pinned(judge: JudgeName) -> CandidatePair:
    asked = question(GRAPES, FOND, **rules(judge))
    pinned = memory(FOND, id=identity(5), pinned=True)
    return CandidatePair(asked.event, Neighbour(pinned, 0.9, Band.REVIEW), asked.rules)


@pytest.mark.covers("B71")
@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.CONTRADICTS])
async def test_a_pinned_memory_is_no_candidate_for_anything_that_would_retire_it(
    verdict: Verdict,
) -> None:
    [made] = await judged(judging(llm=always(verdict)), held_pinned("llm"))
    assert (made.verdict, made.judge, made.opinion) == (Verdict.DISTINCT, "guard pin", None)


@pytest.mark.parametrize("judge", ["built-in", "llm"])
async def test_what_contradicts_a_pinned_memory_is_found_from_the_texts_alone(
    judge: JudgeName,
) -> None:
    opinion = sure(Verdict.CONTRADICTS, 0.99) if judge == "built-in" else Verdict.CONTRADICTS
    asked = always(opinion)
    judges = judging(built_in=asked) if judge == "built-in" else judging(llm=asked)
    [made] = await judged(judges, held_pinned(judge))
    assert made.verdict is Verdict.CONTRADICTS
    assert [one.guard for one in made.findings] == ["pin"]
    assert [pair.findings for pair in asked.asked] == [()]


def _with_variant(said: str, shown: float | None = None) -> CandidatePair:
    """Return a question about a memory that shows FOND and was worded as GRAPES, too; that is near."""
    asked = question(said, FOND, **rules("built-in"))
    known = worded(stored(FOND), (GRAPES, unit(1))).memory
    near = Neighbour(known, 0.95, Band.REVIEW, known.variants[0].content_key, shown)
    return CandidatePair(asked.event, near, asked.rules)


@pytest.mark.parametrize("verdict", [Verdict.SAME, Verdict.REFINED_BY])
async def test_what_repeats_a_variant_that_is_near_is_known(verdict: Verdict) -> None:
    built_in = always(sure(verdict, 0.99))
    [made] = await judged(judging(built_in=built_in), _with_variant("Green grapes please Ana."))
    assert made.verdict is Verdict.REFINED_BY
    assert [(pair.memory.text, pair.similarity) for pair in built_in.asked] == [(GRAPES, 0.95)]


async def test_what_says_more_than_a_variant_is_held_against_the_shown_text() -> None:
    told = {GRAPES: Verdict.REFINES, FOND: Verdict.DISTINCT}
    built_in = ScriptedVerifier(lambda pair: sure(told[pair.memory.text], 0.99))
    asked = _with_variant("Ana likes green grapes, and eats them daily.", 0.8)
    [made] = await judged(judging(built_in=built_in), asked)
    assert made.verdict is Verdict.DISTINCT
    assert [(pair.memory.text, pair.similarity) for pair in built_in.asked] == [
        (GRAPES, 0.95),
        (FOND, 0.8),
    ]


OPEN = "Le pont est ouvert aux camions."
CLOSED = "Le pont est fermé aux camions."


async def test_the_built_in_judge_is_not_asked_about_another_language() -> None:
    built_in = ScriptedVerifier(lambda _: sure(Verdict.SAME, 0.99), name="built-in")
    made = await judged(
        judging(built_in=built_in),
        question(OPEN, CLOSED, **rules("built-in")),
        question(GRAPES, FOND, **rules("built-in")),
    )
    assert [(one.verdict, one.judge) for one in made] == [
        (Verdict.UNSURE, "language fr"),
        (Verdict.SAME, "built-in"),
    ]
    assert [pair.event.text for pair in built_in.asked] == [GRAPES]
    assert made[0].degraded == ()


@pytest.mark.parametrize("chain", [("llm",), ("llm", "built-in"), ("built-in", "llm")])
@pytest.mark.parametrize(
    ("said", "known", "verdict"),
    [
        (OPEN, CLOSED, Verdict.CONTRADICTS),
        ("Der Laden schließt um neun.", "Das Geschäft macht um neun zu.", Verdict.SAME),
        ("我妹妹住在上海的老城区。", "上海老城区是我妹妹住的地方。", Verdict.SAME),
    ],
)
async def test_a_language_model_settles_texts_judging(
    chain: tuple[JudgeName, ...], said: str, known: str, verdict: Verdict
) -> None:
    llm, built_in = always(verdict), ScriptedVerifier({}, name="built-in")
    asked = question(said, known, **rules(*chain))
    far = replace(asked, neighbour=replace(asked.neighbour, similarity=0.6))
    for one in (asked, far):
        [made] = await judged(judging(llm=llm, built_in=built_in), one)
        assert (made.verdict, made.judge) == (verdict, "llm")


async def test_a_language_model_is_not_believed_against_another_number_judging() -> None:
    llm = always(Verdict.SAME)
    asked = question(
        "Hugo a commandé 3 pizzas.", "Hugo a commandé 5 pizzas.", **rules("built-in", "llm")
    )
    [made] = await judged(judging(llm=llm), asked)
    assert (made.verdict, made.judge) == (Verdict.DISTINCT, "guard numbers")


async def test_equal_sentences_are_known_judging() -> None:
    made = await judged(
        judging(),
        question(OPEN, "le pont est  OUVERT aux camions", **rules("built-in")),
        question(OPEN, f"{OPEN} Il date de 1911.", **rules("built-in")),
    )
    assert [one.verdict for one in made] == [Verdict.SAME, Verdict.REFINED_BY]


async def test_no_similarity_alone_joins_another_language_unless_guards_are_off() -> None:
    joining = WithoutVerdict(match="reinforce", review="review")
    asked = question(OPEN, CLOSED, **rules(without_verdict=joining.model_dump()))
    [guarded] = await judged(judging(), asked)
    assert [unsettled(guarded, band, asked.rules) for band in Band] == [
        "keep-both",
        "review",
        "keep-both",
        "keep-both",
    ]
    free = replace(asked, rules=asked.rules.model_copy(update={"guards": False}))
    [unguarded] = await judged(judging(), free)
    assert unsettled(unguarded, Band.MATCH, free.rules) == "reinforce"
