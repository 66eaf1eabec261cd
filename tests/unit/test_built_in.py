"""The judge that comes with memsieve, with its shipped weights."""

import asyncio
from collections.abc import Sequence
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.decisions import Verdict
from streams.adapters.lexicons import english
from streams.adapters.verifiers.built_in import CLASSES, BuiltInVerifier
from streams.core.language.reading import Readings
from streams.core.verdict import Opinion, Pair
from tests.builders import event, memory

WEIGHTS_MAX = 5_000_000
JUDGE = BuiltInVerifier(Readings(english()))

_WORDS = ["Ana", "likes", "tea", "not", "never", "the port is 8443", "at 3 pm", "?", "Oslo", "and"]
TEXTS = st.one_of(
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=80
    ).filter(lambda text: bool(text.strip())),
    st.lists(st.sampled_from(_WORDS), min_size=1, max_size=12).map(" ".join),
    st.sampled_from(
        ["!", "...", "\u200b.", "🙂", "a" * 2_000, "no " * 300, "\u202edesrever", "\uff11\uff12"]
    ),
)


def pair(said: str, known: str, similarity: float = 0.85) -> Pair:
    return Pair(event(said, event_id="an event"), memory(known), similarity)


def opinions(pairs: Sequence[Pair], judge: BuiltInVerifier = JUDGE) -> list[Opinion]:
    told = asyncio.run(judge.verify(pairs))
    return [opinion for opinion in told if isinstance(opinion, Opinion)]


def chances(said: str, known: str, similarity: float = 0.85) -> list[float]:
    (opinion,) = opinions([pair(said, known, similarity)])
    assert opinion.probabilities is not None
    return [opinion.probabilities[verdict] for verdict in CLASSES]


@settings(max_examples=60, deadline=None)
@given(said=TEXTS, known=TEXTS, similarity=st.floats(-1, 1))
def test_any_two_texts_have_probabilities(said: str, known: str, similarity: float) -> None:
    found = chances(said, known, similarity)
    assert all(0 <= chance <= 1 for chance in found)
    assert sum(found) == pytest.approx(1, abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(said=TEXTS, known=TEXTS)
def test_exchanging_the_sides_exchanges_refines_and_refined_by(said: str, known: str) -> None:
    same, refines, refined_by, contradicts, distinct = chances(said, known)
    assert chances(known, said) == pytest.approx(
        [same, refined_by, refines, contradicts, distinct], abs=1e-5
    )


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6))
def test_a_pair_is_judged_alike_whatever_is_asked_beside_it(texts: list[tuple[str, str]]) -> None:
    pairs = [pair(*two) for two in texts]
    together = opinions(pairs)
    alone = [opinions([one], BuiltInVerifier(Readings(english())))[0] for one in reversed(pairs)]
    assert together == alone[::-1]


@pytest.mark.parametrize(
    ("said", "known", "verdict"),
    [
        ("The user is allergic to peanuts.", "User has a peanut allergy.", Verdict.SAME),
        ("Ben was hired by Anna.", "Anna hired Ben.", Verdict.SAME),
        ("The meeting lasts thirty minutes.", "The meeting takes 30 minutes.", Verdict.SAME),
        ("The user isn't unhappy.", "The user is happy.", Verdict.SAME),
        ("User likes green tea with lemon.", "User likes tea.", Verdict.REFINES),
        ("The deadline is May 3 at noon.", "The deadline is May 3.", Verdict.REFINES),
        ("User plays chess.", "User plays chess every Sunday with Ben.", Verdict.REFINED_BY),
        ("The port is 8443.", "The port is 9443.", Verdict.CONTRADICTS),
        ("Deploys never happen on Friday.", "Deploys happen on Friday.", Verdict.CONTRADICTS),
        ("The door is open.", "The door is closed.", Verdict.CONTRADICTS),
        ("Anna manages Ben.", "Ben manages Anna.", Verdict.DISTINCT),
        ("User moved from Oslo to Lima.", "User moved from Lima to Oslo.", Verdict.DISTINCT),
        ("Anna works at Acme.", "Ben works at Acme.", Verdict.DISTINCT),
    ],
)
def test_clear_pairs_are_told_apart(said: str, known: str, verdict: Verdict) -> None:
    (opinion,) = opinions([pair(said, known)])
    assert opinion.verdict is verdict
    assert opinion.judge == "built-in"


def test_a_text_too_long_to_be_read_leaves_the_judge_unsure() -> None:
    long = "Anna works at Acme. " * 200
    assert (
        opinions([pair(long, "Anna works at Acme."), pair("Ben rests.", long)])
        == [Opinion(Verdict.UNSURE, "built-in")] * 2
    )


def test_nothing_is_asked_of_no_pairs() -> None:
    assert opinions([]) == []
    asyncio.run(JUDGE.close())


def test_the_weights_stay_small() -> None:
    folder = resources.files("streams.adapters.verifiers").joinpath("judge")
    assert sum(len(file.read_bytes()) for file in folder.iterdir()) < WEIGHTS_MAX
