"""A pair of texts as numbers: finite, the same every time, and the same the other way round."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from streams.judges.lexicons import english
from streams.text.judge.features import features, names, turned
from streams.text.judge.prepared import PreparedText, WordVectors, prepare
from streams.text.reading import AnalysedText

LEXICON = english()
WORDS = WordVectors(
    {"tea": 0, "coffee": 1, "like": 2},
    np.array([[100, 0, 20], [90, 30, 0], [-5, 10, 120]], np.int8),
)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            ["Ana", "likes", "tea", "not", "7", "at", "3 pm", "?", ".", "Oslo", "never", "coffee"]
        ),
        max_size=12,
    ).map(" ".join),
)


def prepared(text: str) -> PreparedText:
    return prepare(AnalysedText(text, LEXICON), LEXICON, WORDS)


def row(event: str, memory: str, similarity: float = 0.8) -> NDArray[np.float32]:
    return features(prepared(event), prepared(memory), similarity, LEXICON)


def feature(name: str, event: str, memory: str) -> float:
    return float(row(event, memory)[names().index(name)])


@given(event=TEXTS, memory=TEXTS, similarity=st.floats(-1, 1))
def test_any_pair_has_a_row_of_finite_numbers(event: str, memory: str, similarity: float) -> None:
    found = row(event, memory, similarity)
    assert found.shape == (len(names()),)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()


@given(event=TEXTS, memory=TEXTS)
def test_the_pair_the_other_way_round_is_the_row_exchanged(event: str, memory: str) -> None:
    there = row(event, memory)[list(turned())]
    np.testing.assert_allclose(there, row(memory, event), atol=1e-5)


def test_every_column_has_a_name_and_exchanging_twice_changes_nothing() -> None:
    assert len(set(names())) == len(names())
    assert [turned()[at] for at in turned()] == list(range(len(names())))
    for name, at in zip(names(), turned(), strict=True):
        assert names()[at][:-2] == name[:-2]
        assert (names()[at] == name) is not name.endswith(("_e", "_m"))


@pytest.mark.parametrize(
    ("name", "event", "memory", "expected"),
    [
        ("negations_parity", "Ana does not like tea", "Ana likes tea", 1),
        ("negations_parity", "Ana does not like tea", "Ana never drinks tea", 0),
        ("words_antonym", "The shop is open", "The shop is closed", 1),
        ("words_denying", "The user is happy", "The user is unhappy", 1),
        ("words_synonym", "Ana bought a car", "Ana purchased a car", 1),
        ("words_kind", "a red scarf", "a blue scarf", 1),
        ("numbers_e", "the port is 8443", "the port is 9443", 1),
        ("numbers_shared", "the port is 8443", "8443 is the port", 1),
        ("repaired", "Ben went from Oslo to Lima", "Ben went from Lima to Oslo", 2),
        ("governed_otherwise", "Ben went from Oslo to Lima", "Ben went from Lima to Oslo", 2),
        ("same_words", "Ana likes tea", "ana likes tea.", 1),
        ("same_words_moved", "Ana chases Ben", "Ben chases Ana", 1),
        ("question_differs", "Does Ana like tea?", "Ana likes tea", 1),
        ("alone_names_e", "Ana met Ben", "Ana met someone", 1),
    ],
)
def test_features_say_what_their_names_say(
    name: str, event: str, memory: str, expected: float
) -> None:
    assert feature(name, event, memory) == expected


@given(st.lists(st.lists(st.integers(-127, 127), min_size=9, max_size=9).filter(any), min_size=1))
def test_a_word_is_as_near_to_itself_as_can_be_to_the_last_bit(table: list[list[int]]) -> None:
    vectors = WordVectors(
        {chr(ord("a") + n) * 3: n for n in range(len(table[:26]))}, np.array(table[:26], np.int8)
    )
    said = prepare(AnalysedText("aaa", LEXICON), LEXICON, vectors)
    found = dict(zip(names(), features(said, said, 0.8, LEXICON), strict=True))
    assert found["near_min_e"] == 1


def test_a_word_without_a_vector_is_near_to_nothing() -> None:
    vectors, known = WORDS.of([("teas", "tea"), ("zork", "zork")])
    assert known.tolist() == [True, False]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 0], atol=1e-6)
