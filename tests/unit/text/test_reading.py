"""A text as it is read: words, values, negations, modes, speakers."""
# ruff: noqa: SIM905 - a class of words is read as a line

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.judges.lexicons import english
from streams.text.parts import Comparative, Possession
from streams.text.quantity import Kind
from streams.text.reading import AnalysedText

LEXICON = english()


@pytest.mark.parametrize(
    ("spelling", "other"),
    [
        ("25 tickets", "twenty-five tickets"),
        ("12 eggs", "a dozen eggs"),
        ("206 pages", "two hundred and six pages"),
        ("2 weeks", "fourteen days"),
        ("90 minutes", "one and a half hours"),
        ("half an hour", "30 minutes"),
        ("1 year", "twelve months"),
        ("$1.2k", "1200 USD"),
        ("$1,200.00", "1200 dollars"),
        ("€2 million", "2,000,000 euros"),
        ("3pm", "15:00"),
        ("3 p.m.", "3 in the afternoon"),
        ("noon", "12:00 pm"),
        ("midnight", "24:00"),
        ("a quarter past nine", "9:15"),
        ("half past nine in the evening", "21:30"),
        ("a quarter to midnight", "23:45"),
        ("twenty minutes to one", "12:40"),
        ("five past 3pm", "15:05"),
        ("ready at ten", "ready at 10:00"),
        ("three quarters of an hour", "45 minutes"),
        ("a quarter of a century", "25 years"),
        ("four fifths", "80 %"),
        ("two thirds", "66.6667 %"),
        ("5 1/2 months", "five and a half months"),
        ("$85.6-million", "85.6 million dollars"),
        ("30 mph", "48 km/h"),
        ("200 ms", "0.2 seconds"),
        ("50 cents", "$0.50"),
        ("version two", "version 2"),
        ("200 °C", "392 degrees Fahrenheit"),
        ("between 30 and 80 kg", "30-80 kg"),
        ("Dec. 31", "31 December"),
        ("March 14, 2024", "2024-03-14"),
        ("14th of March 2024", "14/03/2024"),
        ("on Mon", "on Monday"),
        ("80%", "eighty per cent"),
        ("50 percent", "half"),
        ("3rd", "third"),
        ("twenty-first", "21st"),
        ("v2.3.1", "version 2.3.1"),
        ("5 km", "5000 m"),
        ("1 GB", "1000 megabytes"),
        ("{name}", "<name>"),
    ],
)
def test_one_value_has_one_key_however_it_is_spelt(spelling: str, other: str) -> None:
    (ours,), (theirs,) = (AnalysedText(text, LEXICON).quantities for text in (spelling, other))
    assert ours.agrees(theirs)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("it runs Rust 1.78", Kind.VERSION),
        ("it takes 1.78 seconds", Kind.DURATION),
        ("it weighs 1.78 tons", Kind.MEASURE),
        ("see OPS-112", Kind.IDENTIFIER),
        ("see #4711", Kind.IDENTIFIER),
        ("at commit a3f9c21", Kind.IDENTIFIER),
        ("mail ana@example.org", Kind.IDENTIFIER),
        ("read https://example.org/a?b=1", Kind.IDENTIFIER),
        ("in /etc/hosts", Kind.IDENTIFIER),
        ("id 6b1f0c1e-3a52-4d0c-9b0e-1f2a3c4d5e6f", Kind.IDENTIFIER),
        ("since 2019", Kind.DATE),
        ("2019 users", Kind.NUMBER),
        ("we met yesterday", Kind.DATE),
        ("we met two days ago", Kind.DATE),
        ("in May we met", Kind.DATE),
    ],
)
def test_a_value_is_of_a_kind(text: str, kind: Kind) -> None:
    assert [quantity.kind for quantity in AnalysedText(text, LEXICON).quantities] == [kind]


@pytest.mark.parametrize("text", ["You may go.", "They march home.", "No one came?", "We sat."])
def test_words_that_look_like_dates_are_words(text: str) -> None:
    assert Kind.DATE not in [quantity.kind for quantity in AnalysedText(text, LEXICON).quantities]


def test_a_value_tells_what_it_counts_and_how_it_is_bounded() -> None:
    (quantity,) = AnalysedText("It keeps at least 5 backups", LEXICON).quantities
    assert (quantity.of, quantity.bound) == ("backup", "more")
    for text, bound in [
        ("no more than 5 dogs", "less"),
        ("it must not drop below 5", "more"),
        ("it never exceeds 5", "less"),
        ("5 dogs", ""),
        ("5 or more", "more"),
        ("just under 5", "about"),
    ]:
        assert [quantity.bound for quantity in AnalysedText(text, LEXICON).quantities] == [bound]
    (port,) = AnalysedText("It listens on port 8080.", LEXICON).quantities
    assert port.of == "port"


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("Ana does not eat meat", {"eat", "meat"}),
        ("Ana never eats meat, but fish", {"eats", "meat"}),
        ("She can't swim because it hurts", {"swim"}),
        ("He stopped smoking", {"smoking"}),
        ("The job fails to start", {"start"}),
        ("Ben refuses to sign", {"sign"}),
        ("Nobody knows the code", {"knows", "code"}),
        ("He is not unable to walk", {"unable"}),
        ("Not only Ben sings", set[str]()),
        ("the stop is near the church", set[str]()),
        ("We lack time", {"time"}),
        ("It is not true that Ana sings", {"true", "ana", "sings"}),
        ("There is nobody who sings", {"sings"}),
        ("Ben gave up singing", {"singing"}),
        ("It has yet to ring", {"ring"}),
        ("He could n't swim", {"swim"}),
        ("He can 't swim", {"swim"}),
        ("Ben quits as mayor", set[str]()),
        ("Nobody but Ben sings", set[str]()),
        ("see no. 5", set[str]()),
        ("a no-frills hotel", set[str]()),
        ("Sing under no circumstances", {"sing", "circumstances"}),
        ("He prefers to walk rather than to ride", set[str]()),
    ],
)
def test_negations_reach_as_far_as_their_clause(text: str, denied: set[str]) -> None:
    reading = AnalysedText(text, LEXICON)
    assert {word.lower for word in reading.content if word.negated} == denied


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The owner is Priya", ["priya"]),
        ("Priya owns it", ["priya"]),
        ("Music helps her", []),
        ("we drove to lisbon", ["lisbon"]),
        ("He leads Project Atlas", ["project", "atlas"]),
        ("HOW TO BAKE GOOD BREAD", []),
    ],
)
def test_names_are_capitalised_where_others_are_not(text: str, names: list[str]) -> None:
    assert [word.lower for word in AnalysedText(text, LEXICON).names] == names


def test_contractions_are_written_out() -> None:
    text = "I won't go, it's late and we'd rather stay; Ana's car can't start"
    assert "i will not go it is late" in " ".join(
        w.lower for w in AnalysedText(text, LEXICON).words
    )


def test_marks_of_mode_are_found() -> None:
    reading = AnalysedText("All users must log in, and Ana's brother may be more patient.", LEXICON)
    assert [mark.kind for mark in reading.quantifiers] == ["all"]
    assert [mark.kind for mark in reading.modals] == ["obligation", "possible"]
    assert [(c.direction, c.of) for c in reading.comparisons] == [("more", "patient")]
    assert isinstance(reading.comparisons[0], Comparative)
    assert reading.possessions == (Possession("ana", "brother"),)
    assert reading.question is None
    assert reading.sentences == 1


@pytest.mark.parametrize(
    ("text", "question"),
    [("How many cats has she?", "how many"), ("Is it open?", ""), ("Where it is.", None)],
)
def test_questions_are_told_from_statements(text: str, question: str | None) -> None:
    assert AnalysedText(text, LEXICON).question == question


@pytest.mark.parametrize(
    ("text", "tense"),
    [
        ("Ana will move", "future"),
        ("Ana used to smoke", "former"),
        ("Ana is tired", "present"),
        ("Ana moved house", "past"),
        ("Ana went home", "past"),
    ],
)
def test_tense_is_read_from_the_verb(text: str, tense: str) -> None:
    assert tense in AnalysedText(text, LEXICON).tenses


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Every Sunday he bakes", []),
        ("Every child bakes", ["all"]),
        ("No one except Mira bakes", ["only"]),
        ("Mira alone bakes", ["only"]),
        ("Mira bakes alone", []),
    ],
)
def test_what_says_how_many_is_told_from_what_says_how_often(text: str, kinds: list[str]) -> None:
    assert [mark.kind for mark in AnalysedText(text, LEXICON).quantifiers] == kinds


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("The oil is used to fry fish", []),
        ("Ben used to fry fish", ["former"]),
        ("There is a need for oil", []),
        ("Ben needs to leave", ["obligation"]),
        ("Guests are allowed to leave", ["possible"]),
    ],
)
def test_a_mode_is_told_from_its_homonym(text: str, kinds: list[str]) -> None:
    assert [mark.kind for mark in AnalysedText(text, LEXICON).modals] == kinds


@pytest.mark.parametrize("text", ["No one may enter", "the one in Bursa", "One can see it"])
def test_one_is_no_number_where_it_stands_for_somebody(text: str) -> None:
    assert not AnalysedText(text, LEXICON).quantities


def test_a_time_owns_nothing_and_a_possessive_says_nothing() -> None:
    assert not AnalysedText("today's decision stands", LEXICON).possessions
    assert not AnalysedText("its mouth is open", LEXICON).speakers


def test_speakers_are_named() -> None:
    assert AnalysedText("Priya said that the shop is closed", LEXICON).speakers == ("priya",)
    assert AnalysedText("I think the shop is closed", LEXICON).speakers == ("user",)
    assert AnalysedText("According to Ben the shop is closed", LEXICON).speakers == ("ben",)


@given(st.text(max_size=200))
def test_every_text_can_be_read(text: str) -> None:
    reading = AnalysedText(text, LEXICON)
    assert reading == AnalysedText(text, LEXICON)
    assert [word.position for word in reading.words] == list(range(len(reading.words)))


_PIECES = st.sampled_from(
    "3pm 15:00 $1.2k 12/13/2024 2024-99-99 v2 5-7 a dozen half and a hundred may 31 {x} <y> n't "
    "no not twenty five second 99:99 1,000 °C % #1 of in last week ago ½ €".split()
)


@given(st.lists(_PIECES, max_size=12).map(" ".join))
def test_every_order_of_values_can_be_read(text: str) -> None:
    reading = AnalysedText(text, LEXICON)
    assert all(not quantity.conflicts(quantity) for quantity in reading.quantities)
