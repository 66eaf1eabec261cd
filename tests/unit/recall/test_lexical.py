"""Shared words beside nearness in meaning."""

import pytest

from streams.recall.core.lexical import bm25, hybrid
from streams.text.reading import TextAnalyzer
from tests.support.stage.deciding import lexicon

READ = TextAnalyzer(lexicon()).of


@pytest.mark.covers("S4.33")
def test_any_word_of_the_query_counts_and_none_must_be_there() -> None:
    texts = ["The user loves a flat white.", "A white wall.", "Espresso is preferred."]
    flat_white, white, none = bm25(READ("User likes flat white coffee"), list(map(READ, texts)))
    assert (flat_white, none) == (1.0, 0.0)
    assert 0 < white < 1


def test_a_rare_word_counts_more_than_a_common_one_and_form_does_not() -> None:
    texts = ["Ana grows roses.", "Ana grows tea.", "Ana grows oats."]
    scores = bm25(READ("growing roses"), list(map(READ, texts)))
    assert scores[0] == 1.0
    assert scores[1] == scores[2] < 0.5


def test_nothing_to_compare_scores_nothing() -> None:
    assert bm25(READ("tea"), []) == []
    assert bm25(READ("and the"), [READ("Ana likes tea.")]) == [0.0]


@pytest.mark.covers("S4.34")
def test_the_score_weighs_nearness_and_words_and_takes_what_is_missing_as_none() -> None:
    assert hybrid(0.75, 0.5, weight=0.3) == pytest.approx(0.7 * 0.75 + 0.3 * 0.5)
    assert hybrid(None, 1.0, weight=0.3) == pytest.approx(0.3)
    assert hybrid(0.75, None, weight=0.3) == pytest.approx(0.7 * 0.75)
    assert hybrid(0.75, 0.5, weight=0.0) == 0.75


@pytest.mark.covers("S4.35")
def test_the_documents_ranking() -> None:
    """Two that have the words, at distances .25 and .30, come before one at .35 that has none."""
    texts = [
        "User loves flat white.",
        "Flat white is their favorite.",
        "User prefers espresso drinks.",
    ]
    words = bm25(READ("User likes flat white coffee"), list(map(READ, texts)))
    nearness = [0.75, 0.70, 0.65]
    scores = [hybrid(n, w, weight=0.3) for n, w in zip(nearness, words, strict=True)]
    assert scores == sorted(scores, reverse=True)
    assert min(scores[:2]) - scores[2] > min(nearness[:2]) - nearness[2]  # words set them apart
