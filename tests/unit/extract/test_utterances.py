"""What is heard of a turn: sentences, and no echo of what was recalled."""

import pytest

from streams.extract.core.utterances import echoes, heard, recalled_in, spoken, words
from tests.builders import turn

STAIR = "The ninth stair breaks under a heavy load."


def sentences(text: str) -> list[str]:
    return list(spoken(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The gate is shut. A crow sits on it.", ["The gate is shut.", "A crow sits on it."]),
        (
            "Boat House\nA boat lies here upside down.",
            ["Boat House", "A boat lies here upside down."],
        ),
        (
            "You are in a long low room that smells of tar\nand fish. The door is open.",
            ["You are in a long low room that smells of tar and fish.", "The door is open."],
        ),
        ("the oar is\nbroken in two", ["the oar is broken in two"]),
        ("- a rope\n- two oars\n3. a lamp", ["a rope", "two oars", "a lamp"]),
        ("One thing.\n\nand another", ["One thing.", "and another"]),
        ("Ask Dr. Weiss about it.", ["Ask Dr. Weiss about it."]),
        ("No. Gate No. 5 is shut.", ["No.", "Gate No. 5 is shut."]),
        ("It rains. St. John is shut.", ["It rains.", "St. John is shut."]),
        ("Yes. Bo is in. He waits.", ["Yes.", "Bo is in.", "He waits."]),
        ("He said \u201cno.\u201d Then he left.", ["He said \u201cno.\u201d", "Then he left."]),
    ],
)
def test_a_text_is_cut_where_something_ends(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.covers("B97", "C12")
@pytest.mark.parametrize(
    "again",
    [
        STAIR,
        "the NINTH stair breaks, under a heavy load!",
        "“The ninth stair breaks under a heavy load…”",
        "The ninth\nstair breaks under a heavy load",
    ],
)
@pytest.mark.parametrize("by", ["user", "model", "world"])
def test_what_was_recalled_is_not_heard_again(by: str, again: str) -> None:
    said = turn(("recalled", f"It rains. {STAIR}"), (by, again))
    assert heard(said, recalled_in([said])) == ()


@pytest.mark.covers("B97")
@pytest.mark.parametrize(
    "other",
    [
        "The ninth stair does not break under a heavy load.",
        "The ninth stair breaks under a heavy load at night.",
        "The tenth stair breaks under a heavy load.",
    ],
)
def test_what_says_anything_else_is_heard(other: str) -> None:
    said = turn(("recalled", STAIR), ("world", other))
    assert [one.sentence for one in heard(said, recalled_in([said]))] == [other]


def test_of_several_sentences_only_the_echo_is_left_out() -> None:
    said = turn(("recalled", STAIR), ("world", f"A rat runs by. {STAIR} You fall."))
    found = [(one.by, one.sentence) for one in heard(said, recalled_in([said]))]
    assert found == [("world", "A rat runs by."), ("world", "You fall.")]


def test_marks_that_say_something_tell_sentences_apart() -> None:
    assert words("Ana writes C++ now.") != words("Ana writes C now.")
    assert words("Ana can't come.") == words("ana can not come")


def test_a_text_is_an_echo_where_all_of_it_is() -> None:
    recalled = recalled_in([turn(("recalled", STAIR), ("user", "Go on."))])
    assert echoes(STAIR, recalled)
    assert not echoes(f"{STAIR} It creaks before.", recalled)
    assert not echoes(STAIR, frozenset())


def test_marks_alone_recall_nothing() -> None:
    assert recalled_in([turn(("recalled", "…"))]) == frozenset()
