from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions import Composition
from streams.judges.lexicons import english
from streams.model.identity import normalised
from streams.model.merge import (
    Faults,
    MergedText,
    MergePart,
    append,
    contains,
    keep_better,
    newer_wins,
    sentences,
    worded,
)
from streams.text.reading import TextAnalyzer
from tests.builders import later

READINGS = TextAnalyzer(english())
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


def part(origin: str, text: str, hour: int = 0, *sources: str) -> MergePart:
    return MergePart(origin, text, later(hour), sources)


def told(*texts: str) -> list[MergePart]:
    """Return parts "0", "1", … of texts, each said an hour after the one before."""
    return [part(str(number), text, number) for number, text in enumerate(texts)]


def joined(*texts: str) -> str:
    return append(told(*texts), READINGS).text


@pytest.mark.covers("B44", "B48", "S2.12", "S1.23")
def test_appending_goes_from_the_oldest_text_to_the_newest_each_sentence_once() -> None:
    parts = [
        part("c", f"Cy swims at dawn. {HIKES}", 2),
        part("b", CHESS, 1),
        part("a", "Ana hikes every weekend", 0),
    ]
    assert append(parts, READINGS) == MergedText(
        f"{CHESS} Cy swims at dawn. {HIKES}",
        Composition(
            strategy="append",
            sentences=(CHESS, "Cy swims at dawn.", HIKES),
            origins=("b", "c", "c"),
        ),
    )


@pytest.mark.covers("B13", "S4.29")
@pytest.mark.parametrize(
    ("texts", "text"),
    [
        ([HIKES], HIKES),
        ([HIKES, HIKES], HIKES),
        ([HIKES, CHESS], f"{HIKES} {CHESS}"),
        (["Ana hikes", CHESS], "Ana hikes. Ben plays chess."),
        ([HIKES, "ANA hikes  every weekend!"], HIKES),
        ([f"{HIKES} {CHESS}", HIKES, CHESS], f"{HIKES} {CHESS}"),
        (
            [f"{CHESS} {SHORT}", f"{HIKES} {SHORT}"],
            f"{CHESS} {SHORT} {HIKES} {SHORT}",
        ),
        (["To do:\n- rest", CHESS], f"To do:\n- rest.\n{CHESS}"),
    ],
)
def test_what_adds_nothing_is_not_said_again(texts: list[str], text: str) -> None:
    assert joined(*texts) == text


def test_a_text_that_only_repeats_a_part_of_another_makes_it_no_longer() -> None:
    burns, longer = "The lamp burns.", "The lamp burns for five hours on one filling."
    assert joined(burns, longer) == joined(longer, burns) == longer


@pytest.mark.parametrize(
    "detail",
    [
        "The lamp on the desk does not burn at night.",
        "The lamp on the desk burns until 11 at night.",
        "The lamp on the desk of Zork burns at night.",
    ],
)
def test_a_number_a_name_or_a_negation_is_always_news(detail: str) -> None:
    base = "The lamp on the desk burns at night."
    assert detail in joined(base, detail)


def test_where_neither_adds_a_sentence_the_text_with_more_to_say_is_shown() -> None:
    less = "Ana likes green grapes from the market near the harbour."
    more = "Ana likes sweet green grapes from the old market near the busy harbour."
    assert joined(less, more) == joined(more, less) == more


@pytest.mark.covers("B48")
def test_what_is_appended_does_not_depend_on_the_order_of_the_parts() -> None:
    parts = [part("b", CHESS), part("a", HIKES), part("d", "Cy swims at dawn.", 3)]
    assert {append(order, READINGS).text for order in permutations(parts)} == {
        f"{HIKES} {CHESS} Cy swims at dawn."
    }


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
TEXTS = st.lists(st.lists(SENTENCES, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=4)


@pytest.mark.covers("C4")
@given(TEXTS)
def test_nothing_is_shown_that_no_source_says(parts: list[str]) -> None:
    made = append(told(*parts), READINGS)
    place = 0
    for sentence, origin in zip(made.composition.sentences, made.composition.origins, strict=True):
        assert sentence in sentences(parts[int(origin)])
        found = normalised(made.text).find(normalised(sentence).rstrip("."), place)
        assert found >= place
        place = found + 1
    assert joined(made.text) == made.text.strip()


@pytest.mark.covers("B45")
def test_the_better_text_is_shown_as_it_is() -> None:
    parts = told(HIKES, f"{HIKES} {CHESS}")
    assert keep_better(parts, "0") == MergedText(
        HIKES, Composition(strategy="keep-better", sentences=(HIKES,), origins=("0",))
    )


@pytest.mark.covers("B46")
def test_the_newest_text_is_shown_whatever_the_order() -> None:
    parts = told("Ana lives in Rome.", "Ana lives with Ben.")
    assert newer_wins(parts[::-1]).text == "Ana lives with Ben."
    assert newer_wins(parts).composition.strategy == "newer-wins"


@pytest.mark.covers("B32", "S1.17")
@pytest.mark.parametrize(
    "text",
    [
        " Lives in Paris and works at Google as an engineer. ",
        "Works as an engineer at Google. Lives in Paris.",
    ],
)
def test_a_wording_that_keeps_all_sentences_is_taken(text: str) -> None:
    parts = told("Lives in Paris.", "Works at Google as an engineer.")
    assert worded(parts, text, READINGS) == MergedText(text.strip(), Composition(strategy="llm"))


@pytest.mark.covers("B32", "S1.17", "D20")
@pytest.mark.parametrize(
    ("text", "missing", "invented"),
    [
        ("Ana has two cats.", ["Ben does not smoke."], []),
        ("Ana has 3 cats. Ben does not smoke.", ["Ana has two cats."], ["Ana has 3 cats."]),
        ("Ana has two cats. Ben smokes.", ["Ben does not smoke."], ["Ben smokes."]),
        ("Ana has two cats. Ben does not smoke. Cy drinks.", [], ["Cy drinks."]),
        ("  ", ["Ana has two cats.", "Ben does not smoke."], [""]),
    ],
)
def test_a_wording_is_refused_with_what_it_leaves_out_and_what_it_adds(
    text: str, missing: list[str], invented: list[str]
) -> None:
    found = worded(told("Ana has two cats.", "Ben does not smoke."), text, READINGS)
    assert found == Faults(tuple(missing), tuple(invented))
