from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions import MergeProof
from streams.core.identity import normalised
from streams.core.merge import Joined, contains, join, sentences

HIKES = "Ana hikes every weekend."
CHESS = "Ben plays chess."
SHORT = "She brings her camera."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HIKES, [HIKES]),
        (f"  {HIKES}  {CHESS} ", [HIKES, CHESS]),
        ("Does Ana hike? Every weekend, indeed! 5 km at least\u2026 Ben never did it.", None),
        (f'"Ana hikes every weekend." {CHESS}', ['"Ana hikes every weekend."', CHESS]),
        (f"{HIKES} (Ben plays chess.)", [HIKES, "(Ben plays chess.)"]),
        ("Ana met Dr. Smith in St. Louis at 5 p.m. Monday.", None),
        ("Ana trusts Prof. Ito. Ben doubts Mr. Green.", None),
        ("Ana uses v1.2 of the tool. It works.", ["Ana uses v1.2 of the tool.", "It works."]),
        ("Ana lives on floor 7. Ben lives below.", ["Ana lives on floor 7.", "Ben lives below."]),
        ("Ana hikes every weekend. ben does not.", None),
        ("Yes. Ana hikes every weekend.", None),
        ("Ana has a cat. Ben has none.", None),
        ("Ana hikes every weekend.Ben plays chess.", None),
        (f"To do:\n- {HIKES} {CHESS}\n- rest", None),
        ("", [""]),
    ],
)
def test_a_text_is_split_only_where_a_sentence_surely_ends(
    text: str, expected: list[str] | None
) -> None:
    if text.startswith("Does"):
        expected = [
            "Does Ana hike?",
            "Every weekend, indeed!",
            "5 km at least\u2026",
            "Ben never did it.",
        ]
    assert sentences(text) == (expected or [text])


@pytest.mark.covers("B13", "S4.29")
@pytest.mark.parametrize(
    ("texts", "text", "sentences_", "origins", "added"),
    [
        ([HIKES], HIKES, [HIKES], "a", 0),
        ([HIKES, HIKES], HIKES, [HIKES], "a", 0),
        ([HIKES, CHESS], f"{HIKES} {CHESS}", [HIKES, CHESS], "ab", 1),
        (["Ana hikes", CHESS], "Ana hikes. Ben plays chess.", ["Ana hikes", CHESS], "ab", 1),
        ([HIKES, "ANA hikes  every weekend!"], HIKES, [HIKES], "a", 0),
        ([HIKES, f"{CHESS} {HIKES}"], f"{HIKES} {CHESS}", [HIKES, CHESS], "ab", 1),
        ([f"{HIKES} {CHESS}", HIKES, CHESS], f"{HIKES} {CHESS}", [HIKES, CHESS], "aa", 0),
        (
            [HIKES, CHESS, "Cy swims at dawn."],
            f"{HIKES} {CHESS} Cy swims at dawn.",
            [HIKES, CHESS, "Cy swims at dawn."],
            "abc",
            2,
        ),
        (
            [f"{CHESS} {SHORT}", f"{HIKES} {SHORT}"],
            f"{CHESS} {SHORT} {HIKES} {SHORT}",
            [CHESS, SHORT, HIKES, SHORT],
            "aabb",
            2,
        ),
    ],
)
def test_joining_keeps_each_sentence_once_and_says_where_it_came_from(
    texts: list[str], text: str, sentences_: list[str], origins: str, added: int
) -> None:
    proof = MergeProof(sentences=tuple(sentences_), origins=tuple(origins))
    assert join(list(zip("abc", texts, strict=False))) == Joined(text, proof, added)


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        (f"{HIKES} {CHESS}", HIKES, True),
        (f"{HIKES} {CHESS}", CHESS, True),
        (f"{HIKES} {CHESS}", f"{CHESS} {HIKES}", True),
        (HIKES, f"{HIKES} {CHESS}", False),
        ("Ana hikes every weekend", HIKES, True),
        ("ANA HIKES\nevery weekend!", HIKES, True),
        ("Cafe\u0301 opens at nine.", "Caf\u00e9 opens at nine.", True),
        ("Ana hikes every weekend and holiday.", "Ana hikes every weekend", False),
        ("Nobody says Ana hikes every weekend.", HIKES, False),
        ("Ana hikes every weekend?", HIKES, False),
        (HIKES, "Ana hikes every weekend?", False),
        ("Ana has 15 cats.", "Ana has 5 cats.", False),
        ("Ana has 10\u00b2 cats.", "Ana has 102 cats.", False),
    ],
)
def test_a_text_contains_what_it_says_word_for_word(
    text: str, other: str, *, expected: bool
) -> None:
    assert contains(text, other) is expected


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Does Ana hike? Ben plays chess.", "Does Ana hike?"),
        ("Does Ana hike?! Ben plays chess.", "Does Ana hike?!"),
        ('Ana said: "I hike." Ben plays chess.', 'Ana said: "I hike."'),
        ("(Ana hikes every weekend.) Ben plays chess.", "(Ana hikes every weekend.)"),
    ],
)
def test_a_sentence_is_found_before_another_whatever_it_ends_with(text: str, other: str) -> None:
    assert contains(text, other)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Ana denies that Mr. Green stole the car.", "Green stole the car."),
        ("The report of Dr. Smith was late.", "Smith was late."),
        ("Ben works for Apple Inc. suppliers now.", "Ben works for Apple Inc."),
    ],
)
def test_a_part_of_a_sentence_beside_an_abbreviation_is_not_contained(
    text: str, other: str
) -> None:
    assert not contains(text, other)


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        (f"{HIKES} {SHORT}", f"{HIKES} {SHORT}", True),
        (f"{HIKES} {SHORT}", f"{CHESS} {SHORT}", False),
        (f"{HIKES} {SHORT}", SHORT, False),
        (f"{SHORT} {HIKES}", SHORT, True),
        (f"{CHESS} {HIKES} {SHORT}", f"{HIKES} {SHORT}", True),
        (f"{HIKES} {CHESS} {SHORT}", f"{HIKES} {SHORT}", False),
    ],
)
def test_a_sentence_that_leans_on_context_is_the_same_only_behind_the_same_sentence(
    text: str, other: str, *, expected: bool
) -> None:
    assert contains(text, other) is expected


@pytest.mark.parametrize(
    "first",
    [
        "Ana likes long hikes (and rain)",
        "Does Ana hike at weekends?",
        "Ana hikes at weekends!",
        'Ana said "I hike."',
    ],
)
def test_a_joined_text_contains_its_parts_whatever_they_end_with(first: str) -> None:
    joined = join([("a", first), ("b", CHESS)]).text
    assert contains(joined, first)
    assert contains(joined, CHESS)


SUBJECTS = ("Ana", "Ben", "Our old neighbour", "The museum", "He", "They all", "This garden")
DOINGS = ("likes", "rarely visits", "never mentions", "bought")
OBJECTS = ("green apples", "the city library", "17 books", "Lisbon", "her garden", "those stories")
ENDS = (".", "!", "?", "", "\u2026")

SENTENCES = st.builds(
    "{} {} {}{}".format,
    st.sampled_from(SUBJECTS),
    st.sampled_from(DOINGS),
    st.sampled_from(OBJECTS),
    st.sampled_from(ENDS),
)
STANDING_ALONE = st.builds(
    "{} {} {}{}".format,
    st.sampled_from(SUBJECTS[:4]),
    st.sampled_from(DOINGS),
    st.sampled_from(OBJECTS[:4]),
    st.sampled_from(ENDS),
)


def texts(sentence: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(sentence, min_size=1, max_size=4).map(" ".join)


def named(parts: Sequence[str]) -> list[tuple[str, str]]:
    return [(str(number), part) for number, part in enumerate(parts)]


@pytest.mark.covers("C4")
@given(st.lists(texts(SENTENCES), min_size=1, max_size=4))
def test_the_words_of_every_sentence_are_in_the_joined_text(parts: list[str]) -> None:
    joined = normalised(join(named(parts)).text)
    for part in parts:
        for sentence in sentences(part):
            assert normalised(sentence).rstrip(".!\u2026 ") in joined


@pytest.mark.covers("B92")
@given(st.lists(texts(STANDING_ALONE), min_size=1, max_size=4))
def test_a_joined_text_contains_every_part_and_joining_again_adds_nothing(
    parts: list[str],
) -> None:
    joined = join(named(parts))
    assert all(contains(joined.text, part) for part in parts)
    again = join([("joined", joined.text), *named(parts)])
    assert (again.text, again.added) == (joined.text, 0)


@pytest.mark.covers("C4")
@given(st.lists(texts(SENTENCES), min_size=1, max_size=4))
def test_the_proof_tells_the_joined_text_sentence_by_sentence(parts: list[str]) -> None:
    joined = join(named(parts))
    place = 0
    for sentence, origin in zip(joined.proof.sentences, joined.proof.origins, strict=True):
        found = joined.text.find(sentence, place)
        assert found >= place
        assert sentence in sentences(parts[int(origin)])
        assert joined.text[place:found].strip(". ") == ""
        place = found + len(sentence)
    assert joined.text[place:].strip(". ") == ""
    assert joined.added == sum(origin != "0" for origin in joined.proof.origins)
