from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions import Carried, MergeProof
from streams.adapters.lexicons import english
from streams.core.identity import normalised
from streams.core.merge import (
    Faults,
    Joined,
    Part,
    append,
    contains,
    join,
    keep_better,
    newer_wins,
    sentences,
    worded,
)
from tests.builders import later
from tests.support.losslessness import objections

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
    joined = join(list(zip("abc", texts, strict=False)))
    assert (joined, joined.added) == (Joined(text, proof), added)


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


def part(origin: str, text: str, hour: int = 0, *sources: str) -> Part:
    return Part(origin, text, later(hour), sources)


def told(*texts: str) -> list[Part]:
    """Return parts "0", "1", … of texts, each said an hour after the one before."""
    return [part(str(number), text, number) for number, text in enumerate(texts)]


def objections_to(joined: Joined | Faults | None, parts: Sequence[Part]) -> list[str]:
    assert isinstance(joined, Joined)
    return objections({part.origin: part.text for part in parts}, joined.text, joined.proof)


@pytest.mark.covers("B44", "B48", "S2.12", "S1.23")
def test_appending_goes_from_the_oldest_text_to_the_newest_each_sentence_once() -> None:
    parts = [
        part("c", f"Cy swims at dawn. {HIKES}", 2),
        part("b", CHESS, 1),
        part("a", "Ana hikes every weekend", 0),
    ]
    joined = append(parts)
    assert joined == Joined(
        "Ana hikes every weekend. Ben plays chess. Cy swims at dawn.",
        MergeProof(
            strategy="append",
            sentences=("Ana hikes every weekend", CHESS, "Cy swims at dawn."),
            origins=("a", "b", "c"),
        ),
    )
    assert objections_to(joined, parts) == []


@pytest.mark.covers("B48")
def test_what_is_appended_does_not_depend_on_the_order_of_the_parts() -> None:
    parts = [part("b", CHESS), part("a", HIKES), part("d", "Cy swims at dawn.", 3)]
    assert {joined.text for order in permutations(parts) if (joined := append(order))} == {
        f"{HIKES} {CHESS} Cy swims at dawn."
    }


@pytest.mark.parametrize("origin", ["0", "1", "2"])
def test_a_text_that_says_all_the_others_stands_alone(origin: str) -> None:
    texts = [HIKES, CHESS, "Ana hikes every WEEKEND."]
    texts[int(origin)] = f"{CHESS} {HIKES}"
    proof = MergeProof(sentences=(CHESS, HIKES), origins=(origin, origin))
    assert append(told(*texts)) == Joined(f"{CHESS} {HIKES}", proof)


@pytest.mark.parametrize(
    "texts",
    [
        (HIKES, SHORT),
        (f"{HIKES} {SHORT}", f"{CHESS} {SHORT}", SHORT),
        ("Ana met Dr.", CHESS),
        (CHESS, "To do:\n- rest"),
        ("Ana hikes every weekend", "ben does not."),
    ],
)
def test_texts_that_could_not_be_recognised_again_are_not_joined(texts: tuple[str, ...]) -> None:
    assert append(told(*texts)) is None


LIKES_APPLES = "I like green apples."
LIKES_COFFEE = "I like cold coffee."


@pytest.mark.covers("B47", "S1.20")
@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ((LIKES_APPLES, "ana"), (LIKES_COFFEE, "ben"), False),
        ((LIKES_APPLES, "ana"), (f"{LIKES_APPLES} {LIKES_COFFEE}", "ben"), False),
        ((LIKES_APPLES, "ana"), ("Ben plays chess.", "ben"), False),
        (("My sister likes apples.", "ana"), ("Ben plays chess.", "ben"), False),
        ((LIKES_APPLES, "ana"), (LIKES_COFFEE, "ana"), True),
        (("Ana likes apples.", "ana"), ("Ben plays chess.", "ben"), True),
        (("Ana visits the US often.", "ana"), ("Ben plays chess.", "ben"), True),
        (('Ana said: "I like apples."', "ana"), ('Ben said: "I play chess."', "ben"), True),
        (("I like Ana a lot.", "ana"), ("Ben plays chess.", "ben"), False),
    ],
)
def test_nobodys_i_is_put_beside_another_speakers_words(
    first: tuple[str, str], second: tuple[str, str], *, together: bool
) -> None:
    parts = [part("a", first[0], 0, first[1]), part("b", second[0], 1, second[1])]
    assert (append(parts) is not None) is together


@pytest.mark.covers("B47", "S1.20")
def test_no_strategy_loses_a_speaker() -> None:
    parts = [
        part("a", LIKES_APPLES, 0, "ana"),
        part("b", f"{LIKES_APPLES} {LIKES_COFFEE}", 1, "ben"),
    ]
    assert keep_better(parts, "b", english()) is None
    assert newer_wins(parts, english()) is None
    wording = worded(parts, f"{LIKES_APPLES} {LIKES_COFFEE}", english())
    assert wording == Faults(missing=(LIKES_APPLES, LIKES_APPLES, LIKES_COFFEE), invented=())


@pytest.mark.covers("B45", "B32")
def test_the_better_text_stands_alone_where_it_says_all_in_other_words() -> None:
    parts = told("Jiro bought two automobiles.", "Jiro happily purchased 2 cars in Rome.")
    joined = keep_better(parts, "1", english())
    assert joined == Joined(
        "Jiro happily purchased 2 cars in Rome.",
        MergeProof(
            strategy="keep-better",
            sentences=("Jiro happily purchased 2 cars in Rome.",),
            origins=("1",),
            carried=(
                Carried(origin="0", kind="name", item="Jiro", by="Jiro"),
                Carried(origin="0", kind="word", item="bought", by="purchased"),
                Carried(origin="0", kind="number", item="two", by="2"),
                Carried(origin="0", kind="word", item="automobiles", by="cars"),
            ),
        ),
    )
    assert objections_to(joined, parts) == []


@pytest.mark.covers("B45", "S1.17", "D20")
@pytest.mark.parametrize(
    ("known", "better"),
    [
        ("Opening the trap door gives 25 points.", "The trap door leads down into a dark cellar."),
        ("Ana likes tea and biscuits.", "Ana likes green tea very much, every single morning."),
        ("The window can be opened.", "The window in the kitchen can be entered from the garden."),
    ],
)
def test_a_better_text_that_leaves_something_out_does_not_stand_alone(
    known: str, better: str
) -> None:
    assert keep_better(told(known, better), "1", english()) is None


def test_a_text_that_repeats_the_others_needs_no_claims() -> None:
    joined = keep_better(told(HIKES, f"{HIKES} {CHESS}"), "1", english())
    assert joined is not None
    assert (joined.proof.carried, joined.added) == ((), 0)


@pytest.mark.covers("B46")
def test_the_newest_text_wins_only_where_it_covers_every_older_one() -> None:
    older, other, newest = told(
        "Ana lives in Rome.", "Ana lives with Ben.", "Ana lives in Rome with her dog."
    )
    joined = newer_wins([newest, older], english())
    assert joined is not None
    assert (joined.text, joined.proof.strategy) == (newest.text, "newer-wins")
    assert objections_to(joined, [older, newest]) == []
    assert newer_wins([newest, older, other], english()) is None


@pytest.mark.covers("B32", "S1.17")
def test_a_wording_that_says_all_and_nothing_else_is_taken() -> None:
    parts = told("Lives in Paris.", "Works at Google as an engineer.")
    text = " Lives in Paris and works at Google as an engineer. "
    joined = worded(parts, text, english())
    assert isinstance(joined, Joined)
    assert (joined.text, joined.proof.strategy) == (text.strip(), "llm")
    assert joined.proof.origins == ("1",)
    assert objections_to(joined, parts) == []


@pytest.mark.covers("B32", "S1.17", "D20")
@pytest.mark.parametrize(
    ("text", "missing", "invented"),
    [
        ("Ana has two cats.", ("Ben", "not smoke", "smoke"), ()),
        ("Ana has 3 cats. Ben does not smoke.", ("two",), ("3",)),
        ("Ana has two cats. Ben smokes.", ("not smoke", "smoke"), ("smokes",)),
        ("Ana has two cats. Ben does not smoke. Cy drinks.", (), ("Cy", "drinks")),
        ("Ben has two cats. Ana does not smoke.", ("Ana has two cats", "Ben does not smoke"), None),
    ],
)
def test_a_wording_is_refused_with_what_it_leaves_out_and_what_it_adds(
    text: str, missing: tuple[str, ...], invented: tuple[str, ...] | None
) -> None:
    found = worded(told("Ana has two cats.", "Ben does not smoke."), text, english())
    assert isinstance(found, Faults)
    assert found.missing == missing
    assert found.invented == invented or (invented is None and found.invented)


def test_an_empty_wording_leaves_everything_out() -> None:
    assert isinstance(worded(told(HIKES, CHESS), "  ", english()), Faults)


def claims(*quotes: tuple[str, str]) -> tuple[Carried, ...]:
    return tuple(
        Carried(origin="a", kind="negation" if "not" in item else "word", item=item, by=by)
        for item, by in quotes
    )


@pytest.mark.parametrize(
    ("text", "proof", "objection"),
    [
        ("Ana eats.", MergeProof(sentences=("Ana eats.",), origins=("b",)), "b does not say"),
        ("Ana eats.", MergeProof(sentences=("Ana",), origins=("a",)), "without a proof"),
        ("Ana eats.", MergeProof(sentences=("Ana.",), origins=("a",)), "not in its place"),
        ("Ana eats.", MergeProof(sentences=(), origins=("c",)), "unknown origins"),
        (
            "Ana eats.",
            MergeProof(strategy="llm", sentences=("Ana eats.",), origins=("b",)),
            "a lost: not",
        ),
        (
            "Ana eats fish.",
            MergeProof(strategy="llm", sentences=("Ana eats fish.",), origins=("b",)),
            "nobody said: eats",
        ),
        (
            "Ana eats fish.",
            MergeProof(
                strategy="llm",
                sentences=("Ana eats fish.",),
                origins=("b",),
                carried=claims(("not eat", "eats")),
            ),
            "denied on one side",
        ),
        (
            "Ana eats fish.",
            MergeProof(
                strategy="llm",
                sentences=("Ana eats fish.",),
                origins=("b",),
                carried=claims(("eat", "dines")),
            ),
            "misquoted",
        ),
    ],
)
def test_the_other_eyes_are_open(text: str, proof: MergeProof, objection: str) -> None:
    found = objections({"a": "Ana does not eat.", "b": "Fish is fine."}, text, proof)
    assert any(line.startswith(objection) for line in found)


FACTS = st.builds(
    "{} {} {}{}".format,
    st.sampled_from(("Ana", "My sister", "She", "Ben's dog", "The 3 cats", "I", "C++ people")),
    st.sampled_from(("likes", "does not like", "never bought", "may buy", "purchased", "is not")),
    st.sampled_from(("2 cars", "two automobiles", "Rome", "tea houses", "me", "them", "a v1.2")),
    st.sampled_from((".", "!", "?", "", " \U0001f389", ", and rests.")),
)
TEXTS = st.lists(FACTS, min_size=1, max_size=3).map(" ".join)
ANYTHING = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=60
).filter(str.strip)


@pytest.mark.covers("B44", "B32")
@given(st.lists(TEXTS | ANYTHING, min_size=1, max_size=4))
def test_whatever_is_appended_is_lossless_in_the_eyes_of_another_or_not_appended(
    texts_: list[str],
) -> None:
    parts = told(*texts_)
    joined = append(parts)
    assert joined is None or objections_to(joined, parts) == []


@pytest.mark.covers("B44", "B92")
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_appending_the_same_texts_again_changes_nothing(texts_: list[str]) -> None:
    parts = told(*texts_)
    joined = append(parts)
    if joined:
        again = append([*parts, part("joined", joined.text, len(parts))])
        assert again is not None
        assert again.text == joined.text


@pytest.mark.covers("B32", "B45")
@given(TEXTS, TEXTS)
def test_a_text_that_stands_for_another_is_lossless_in_the_eyes_of_another(
    known: str, better: str
) -> None:
    parts = told(known, better)
    joined = keep_better(parts, "1", english())
    assert joined is None or objections_to(joined, parts) == []


@given(TEXTS, TEXTS, TEXTS)
def test_a_wording_that_is_taken_is_lossless_in_the_eyes_of_another(
    first: str, second: str, text: str
) -> None:
    parts = told(first, second)
    for wording in (text, f"{first} {second}", f"{second} {first}"):
        joined = worded(parts, wording, english())
        assert isinstance(joined, Faults) or objections_to(joined, parts) == []
