import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from schemas.decisions import Carried
from streams.adapters.lexicons import english
from streams.core.language.reading import Reading, read
from streams.core.lossless import Lossless, alone, check

ENGLISH = english()


def reading(text: str) -> Reading:
    return read(text, ENGLISH)


def missing(text: str, result: str) -> tuple[str, ...]:
    """Return what is missing of a text in another one."""
    return check([("a", reading(text))], reading(result), ENGLISH).missing.get("a", ())


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        ("Jiro owns 3 cats.", "Jiro owns two cats.", ("3",)),
        ("Jiro owns three cats.", "Jiro owns 3 cats.", ()),
        ("Jiro owns 2 cats and 3 dogs.", "Jiro owns 3 cats and 2 dogs.", ("2", "3")),
        ("The film is 120 minutes long.", "The film is two hours long.", ()),
        ("Jiro paid $5.", "Jiro paid 5 euros.", ("$5",)),
        ("The launch is on March 14.", "The launch is on 14 March 2026.", ()),
        ("The launch is on 14 March 2026.", "The launch is on March 14.", ("14 March 2026",)),
        ("Jiro met Keiko.", "Jiro met somebody.", ("Keiko",)),
        ("Mail jiro@example.org.", "Mail Jiro.", ("jiro@example.org",)),
        ("It runs v1.2 now.", "It runs v1.3 now.", ("v1.2",)),
        ("Jiro knows C++.", "Jiro knows C.", ("+",)),
        ("Well done \U0001f389", "Well done", ("\U0001f389",)),
        ("He moved to the US.", "He moved to us.", ("US",)),
        ("Jiro does not smoke.", "Jiro smokes.", ("not smoke", "smoke")),
        ("Jiro smokes.", "Jiro doesn't smoke.", ("smokes",)),
        ("Jiro always walks.", "Jiro walks.", ("always",)),
        ("Jiro might walk.", "Jiro can walk.", ("might",)),
        ("Jiro might walk.", "Jiro may walk.", ()),
        ("Jiro must walk.", "Jiro should walk.", ("must",)),
        ("Everybody saw something.", "Everyone saw somebody.", ("something",)),
        ("Jiro has few friends.", "Jiro has a few friends.", ("few",)),
        ("Rose walks.", "A bush walks.", ("Rose",)),
        ("It takes a day.", "It takes a night.", ("a day",)),
        ("Jiro bought a car.", "Jiro purchased an automobile.", ()),
        ("Jiro saw an animal.", "Jiro saw a cat.", ()),
        ("Jiro saw a cat.", "Jiro saw an animal.", ("cat",)),
        ("Jiro never saw an animal.", "Jiro never saw a cat.", ("animal",)),
        ("Jiro saw every animal.", "Jiro saw every cat.", ("animal",)),
        ("Jiro saw an animal and a cat.", "Jiro saw a cat.", ("animal",)),
        ("The soup was hot.", "The soup was cold.", ("hot",)),
        ("The kitchen has a careful cook.", "The kitchen has a careless cook.", ("careful",)),
        ("Jiro lived there.", "Jiro lives there.", ("lived",)),
        ("Jiro was a cook.", "Jiro is a cook.", ("was",)),
        ("A bigger house.", "A big house.", ("bigger",)),
        ("Jiro has daughters.", "Jiro has a daughter.", ("daughters",)),
        ("My sister walks.", "His sister walks.", ("My",)),
        ("Jiro's sister walks.", "Jiro walks with a sister.", ("Jiro",)),
        ("Jiro walks.", "Keiko and Jiro walk fast.", ()),
        ("The bread rests before noon.", "The bread rests after noon.", ("noon",)),
        ("Jiro flew from Rome to Oslo.", "Jiro flew from Oslo to Rome.", ("Rome", "Oslo")),
        ("Did Jiro leave?", "Jiro did leave.", ("Did", "Jiro", "leave")),
        ("Jiro trinkt gern Tee.", "Jiro trinkt Tee.", ("gern",)),
        ("...", "...", ()),
        ("\U0001f389", "!", ("\U0001f389",)),
    ],
)
def test_what_only_one_text_says(text: str, other: str, expected: tuple[str, ...]) -> None:
    assert alone(reading(text), reading(other), ENGLISH) == expected


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("Jiro lives in Rome.", "Jiro lives in Rome and likes apples."),
        ("Jiro likes apples.", "Jiro lives in Rome and likes apples."),
        ("I like apples.", "I live in Rome and like apples."),
        ("Lives in Rome", "Lives in Rome, Italy"),
        ("Works at Acme.", "Lives in Rome and works at Acme."),
        ("Software engineer at Acme", "Works as a software engineer at Acme"),
        ("User prefers dark mode", "The user strongly prefers dark mode in all apps."),
        ("Jiro drinks coffee.", "Jiro drinks black coffee every morning."),
        ("Jiro flew to Oslo.", "Jiro flew from Rome to Oslo with Keiko."),
        ("Jiro is not tired.", "Jiro isn't tired."),
        ("Jiro bought two automobiles.", "Jiro happily purchased 2 cars in Rome."),
        ("Jiro hikes. He is tall.", "Jiro hikes. He is tall. Keiko hikes."),
    ],
)
def test_a_text_may_stand_for_another_that_says_less_or_the_same(text: str, result: str) -> None:
    assert missing(text, result) == ()


@pytest.mark.covers("B32", "S1.17", "D20")
@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("Jiro likes Keiko.", "Keiko likes Jiro."),
        ("Jiro flew from Rome to Oslo.", "Jiro flew from Oslo to Rome."),
        ("Jiro flew to Rome.", "Jiro flew to Oslo and Keiko drove to Rome."),
        ("Keiko drove to Oslo.", "Jiro flew to Oslo and Keiko drove to Rome."),
        (
            "Jiro flew from Rome to Oslo and Keiko drove from Bern to Kiev.",
            "Jiro flew from Bern to Kiev and Keiko drove from Rome to Oslo.",
        ),
        (
            "My sister likes tea and my brother likes coffee.",
            "My sister likes coffee and my brother likes tea.",
        ),
        ("My sister hates tea.", "My sister likes coffee and my brother hates tea."),
        ("Jiro prefers tea to coffee.", "Jiro prefers coffee to tea."),
        ("Lives in Rome.", "My mother lives in Rome."),
        ("Works at Acme.", "My mother lives in Rome and works at Acme."),
        ("Jiro lives in Rome.", "Jiro's mother lives in Rome."),
        ("Jiro lives in Rome.", "The mother of Jiro lives in Rome."),
        ("Jiro lives in Rome.", "Keiko says Jiro lives in Rome."),
        ("Jiro lives in Rome.", "If it rains, Jiro lives in Rome."),
        ("Jiro lives in Rome.", "Maybe Jiro lives in Rome."),
        ("Jiro lives in Rome.", "Jiro stopped living in Rome."),
        ("Jiro lives in Rome.", "Jiro lives in Rome until March."),
        ("Jiro lives in Rome.", "Jiro lives in Rome?"),
        ("Jiro is a doctor.", "Jiro is a former doctor."),
        ("Jiro is a doctor.", "Jiro hates a doctor."),
        ("Jiro has a cat.", "Jiro has a cat allergy."),
        ("Jiro likes tea.", "Jiro likes tea houses."),
        ("Jiro eats meat.", "Jiro eats meat without salt or never."),
        ("Jiro does not like tea and drinks coffee.", "Jiro likes tea and does not drink coffee."),
        ("Jiro gave up.", "Jiro gave in."),
        ("Keiko hikes. She is tall.", "Jiro swims. She is tall. Keiko hikes."),
        ("She is tall.", "Jiro swims. She is tall."),
        ("Opening the window gives 25 points.", "The window leads into the kitchen."),
    ],
)
def test_a_text_with_the_same_words_in_other_company_does_not_stand_for_it(
    text: str, result: str
) -> None:
    assert missing(text, result)


@pytest.mark.parametrize(
    ("result", "invented"),
    [
        ("Jiro lives in Rome and likes tea.", ()),
        ("Jiro lives in Rome. Jiro likes green tea.", ("green",)),
        ("Jiro lives in Rome and likes tea since 2019.", ("2019",)),
        ("Jiro does not live in Rome. Jiro likes tea.", ("not live", "live", "Rome")),
        ("Jiro lives in Rome. Jiro likes tea. Jiro likes Rome.", ("Jiro likes Rome",)),
        ("Jiro lives in Rome. Jiro likes tea from Rome.", ("from Rome",)),
    ],
)
def test_what_nobody_said_is_told(result: str, invented: tuple[str, ...]) -> None:
    sources = [("a", reading("Jiro lives in Rome.")), ("b", reading("Jiro likes tea."))]
    assert check(sources, reading(result), ENGLISH).invented == invented


def test_a_preposition_that_nobody_used_is_invented() -> None:
    source = ("a", reading("Jiro flew from Rome to Oslo."))
    found = check([source], reading("Jiro flew from Rome to Oslo. Jiro flew from Oslo."), ENGLISH)
    assert (dict(found.missing), found.invented) == ({}, ("Oslo",))


@pytest.mark.covers("B32", "S1.17")
def test_a_check_tells_by_whose_words_each_thing_is_said() -> None:
    sources = [
        ("a", reading("Jiro never buys cars.")),
        ("b", reading("Keiko's cat is two.")),
        ("c", reading("Keiko left.")),
    ]
    found = check(sources, reading("Jiro never buys automobiles. Keiko's cat is 2."), ENGLISH)
    assert found == Lossless(
        missing={"c": ("Keiko", "left")},
        invented=(),
        carried=(
            Carried(origin="a", kind="name", item="Jiro", by="Jiro"),
            Carried(origin="a", kind="negation", item="never buys", by="never buys"),
            Carried(origin="a", kind="word", item="buys", by="buys"),
            Carried(origin="a", kind="word", item="cars", by="automobiles"),
            Carried(origin="b", kind="name", item="Keiko", by="Keiko"),
            Carried(origin="b", kind="word", item="cat", by="cat"),
            Carried(origin="b", kind="word", item="is", by="is"),
            Carried(origin="b", kind="number", item="two", by="2"),
        ),
    )


def test_what_is_quoted_stands_in_the_texts_also_in_contractions() -> None:
    sources = [("a", reading("Jiro can't swim, and won't learn it."))]
    found = check(sources, reading("Jiro cannot swim, and will not learn it."), ENGLISH)
    assert [(claim.item, claim.by) for claim in found.carried if claim.kind == "negation"] == [
        ("can't swim", "cannot swim"),
        ("won't learn", "not learn"),
    ]


FACTS = st.builds(
    "{} {} {} {}.".format,
    st.sampled_from(("Jiro", "My sister", "Keiko's dog", "The 3 cats", "We", "Somebody")),
    st.sampled_from(("likes", "does not like", "never bought", "may buy", "left", "could see")),
    st.sampled_from(("2 cars", "Rome", "every tea house", "the old C++ books", "v1.2 of it")),
    st.sampled_from(("on March 14", "because it rained", "with Ben", "and slept", "in the US")),
)
ANYTHING = st.text(max_size=80)
SAYS_NOTHING = frozenset(["the", "does", "and", "my"])


@given(ANYTHING | st.lists(FACTS, min_size=1, max_size=3).map(" ".join))
def test_every_text_says_all_that_it_says(text: str) -> None:
    assert alone(reading(text), reading(text), ENGLISH) == ()
    found = check([("a", reading(text))], reading(text), ENGLISH)
    assert (dict(found.missing), found.invented) == ({}, ())


@pytest.mark.covers("B32", "S1.17")
@given(FACTS, st.data())
def test_no_word_that_says_something_can_be_left_out(fact: str, data: st.DataObject) -> None:
    words = fact.split()
    at = data.draw(st.integers(0, len(words) - 1))
    assume(words[at].lower() not in SAYS_NOTHING)
    rest = " ".join(words[:at] + words[at + 1 :])
    assert missing(fact, rest)


@pytest.mark.covers("B32", "S1.17")
@given(FACTS, FACTS)
def test_no_two_facts_can_exchange_what_they_are_about(first: str, second: str) -> None:
    parts = re.compile(r"(.*?) (likes|does not like|never bought|may buy|left|could see) (.*)")
    one, other = parts.fullmatch(first), parts.fullmatch(second)
    assert one
    assert other
    assume(one[1] != other[1] and (one[2], one[3]) != (other[2], other[3]))
    exchanged = f"{other[1]} {one[2]} {one[3]} {one[1]} {other[2]} {other[3]}"
    assert missing(f"{first} {second}", exchanged)


def test_long_texts_take_no_longer_than_they_may() -> None:
    long = " ".join(f"Jiro number {n} likes tea and coffee, or Rome." for n in range(1200))
    found = check([("a", reading(long))], reading(long), ENGLISH)
    assert not found.missing
    wordy = " ".join(f"word{n}x and thing" for n in range(3000))
    assert alone(reading(wordy), reading(long), ENGLISH)
    assert missing(wordy, long)
