"""Memories.md: what is read of a file, what is reported, and that nothing of it is lost."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.memories import Persistence, Standing, Turns
from streams.memories_md.core.checking import problems
from streams.memories_md.core.entries import (
    Document,
    EntryPosition,
    FileProblem,
    Header,
    Invalidation,
    Location,
    MemoryEntry,
    Meta,
    SupersededBy,
    VisitTally,
    entries,
)
from streams.memories_md.core.parsing import parse
from streams.memories_md.core.rendering import render

FILE = """\
# Location Memories

## Location 41: Lighthouse
**Visits:** 3 | **Episodes:** 1, 2, 07

### Memories

**[SUCCESS] Oil the lamp** *(Ep1, T23-24, +5)*
Whale oil from the shed keeps the lamp burning until dawn.

**[DANGER - CORE] Broken stair** *(Ep01, T25→T48, -2, seen 3x)*
The ninth stair breaks.
It is a long fall.

---

## Location 7: Pier
### Memories

**[NOTE - TENTATIVE] Ferry** *(Ep2, T5)*
The ferry may come at noon.

**[NOTE - PERMANENT - SUPERSEDED] Tide** *(Ep2, T6, +0, Goal: Cross, dry (if at all) - by "noon")*
[Superseded at T48 by "Tide table"]
~~High tide is at six.~~

**[NOTE - SUPERSEDED] Crab** *(Ep2, T7)*
[Invalidated at T9: "it was a "stone""]
~~A crab sits
on the pile.~~
"""

HARBOUR = "## Location 3: Harbour\n\n### Memories\n\n"


def read(text: str) -> list[MemoryEntry]:
    return [found.entry for found in entries(parse(text))]


def only(text: str) -> MemoryEntry:
    (entry,) = read(HARBOUR + text)
    return entry


def reported(text: str) -> list[tuple[int, str]]:
    return [(problem.line, problem.message) for problem in problems(parse(text))]


@pytest.mark.covers("S3.11", "S3.12", "S3.13", "S0.35", "B99")
def test_a_file_is_read_as_its_sections_and_entries() -> None:
    document = parse(FILE)
    assert [section.location for section in document.sections] == [
        None,
        Location(41, "Lighthouse"),
        Location(7, "Pier"),
    ]
    (tally,) = [part for part in document.sections[1].parts if isinstance(part, VisitTally)]
    assert (tally.visits, tally.episodes) == (3, ("1", "2", "07"))
    fields = [
        (found.line, entry.header, entry.meta, entry.text, entry.retired, entry.struck)
        for found in entries(document)
        for entry in [found.entry]
    ]
    assert fields == [
        (
            8,
            Header("SUCCESS", "Oil the lamp"),
            Meta("1", Turns(first=23, last=24), 5),
            "Whale oil from the shed keeps the lamp burning until dawn.",
            None,
            False,
        ),
        (
            11,
            Header("DANGER", "Broken stair", Persistence.CORE),
            Meta("01", Turns(first=25, last=48), -2, 3),
            "The ninth stair breaks.\nIt is a long fall.",
            None,
            False,
        ),
        (
            20,
            Header("NOTE", "Ferry", None, Standing.TENTATIVE),
            Meta("2", Turns(first=5, last=5)),
            "The ferry may come at noon.",
            None,
            False,
        ),
        (
            23,
            Header("NOTE", "Tide", Persistence.PERMANENT, Standing.SUPERSEDED),
            Meta("2", Turns(first=6, last=6), 0, goal='Cross, dry (if at all) - by "noon"'),
            "High tide is at six.",
            SupersededBy("Tide table", 48),
            True,
        ),
        (
            27,
            Header("NOTE", "Crab", None, Standing.SUPERSEDED),
            Meta("2", Turns(first=7, last=7)),
            "A crab sits\non the pile.",
            Invalidation('it was a "stone"', 9),
            True,
        ),
    ]
    assert [found.entry.live for found in entries(document)] == [True, True, True, False, False]
    assert problems(document) == ()


def test_an_entry_knows_where_it_is() -> None:
    document = parse(FILE)
    for found in entries(document):
        assert document.sections[found.at.section].parts[found.at.part] is found.entry
        assert FILE.splitlines()[found.line - 1] == found.entry.written.splitlines()[0]
    assert next(entries(document)).at == EntryPosition(1, 4)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("[NOTE]", Header("NOTE", "Gull")),
        ("[note - permanent]", Header("note", "Gull", Persistence.PERMANENT)),
        ("[NOTE - EPHEMERAL]", Header("NOTE", "Gull", Persistence.EPHEMERAL)),
        ("[NOTE - ACTIVE]", Header("NOTE", "Gull")),
        ("[NOTE - CORE - ACTIVE]", Header("NOTE", "Gull", Persistence.CORE)),
        ("[NOTE - ACTIVE - CORE]", Header("NOTE", "Gull", Persistence.CORE)),
        ("[KEY ITEM]", Header("KEY ITEM", "Gull")),
        ("[CORE]", Header("CORE", "Gull")),
        ("[NOTE - LOUD - CORE]", Header("NOTE - LOUD", "Gull", Persistence.CORE)),
        ("[NOTE - CORE - CORE]", Header("NOTE - CORE", "Gull", Persistence.CORE)),
    ],
)
def test_the_brackets_hold_a_category_and_maybe_persistence_and_status(
    header: str, expected: Header
) -> None:
    assert only(f"**{header} Gull** *(Ep1, T2)*\nIt steals.\n").header == expected


@pytest.mark.covers("S0.35", "D38")
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Ep1, T25, +0", Meta("1", Turns(first=25, last=25), 0)),
        ("Ep01, T25→T48, +5, seen 3x", Meta("01", Turns(first=25, last=48), 5, 3)),
        ("Ep1, T25→48→60, seen 3x", Meta("1", Turns(first=25, last=60), None, 3)),
        ("Ep1, T23-24→T48", Meta("1", Turns(first=23, last=48))),
        ("Ep1, T23\u201324", Meta("1", Turns(first=23, last=24))),
        ("Epep_02,T5,-10", Meta("ep_02", Turns(first=5, last=5), -10)),
        ("Ep1, T5, \u221210", Meta("1", Turns(first=5, last=5), -10)),
        ("Ep1, T5, 7", Meta("1", Turns(first=5, last=5), 7)),
        ("Ep2025-11-25T14:30:00, T5", Meta("2025-11-25T14:30:00", Turns(first=5, last=5))),
        ("T5", Meta(None, Turns(first=5, last=5))),
        ("Goal: go, now, seen 2x", Meta(goal="go, now, seen 2x")),
        ("Ep1, Goal: a, Goal: b", Meta("1", goal="a, Goal: b")),
        (
            "Ep1, at dusk, T5, in rain",
            Meta("1", Turns(first=5, last=5), other=("at dusk", "in rain")),
        ),
        ("Ep1, T9-5", Meta("1", other=("T9-5",))),
        ("Ep1, T5, T6", Meta("1", Turns(first=5, last=5), other=("T6",))),
        ("Ep1, T1234567890123456", Meta("1", other=("T1234567890123456",))),
        ("", Meta()),
    ],
)
def test_the_parentheses_hold_episode_turns_score_count_and_goal(
    written: str, expected: Meta
) -> None:
    assert only(f"**[NOTE] Gull** *({written})*\nIt steals.\n").meta == expected


def test_an_entry_needs_no_parentheses() -> None:
    entry = only("**[NOTE] Gull **(white)** seen**\nIt steals.\n")
    assert (entry.header.title, entry.meta) == ("Gull **(white)** seen", Meta())


@pytest.mark.parametrize(
    ("body", "text", "struck"),
    [
        ("It steals.\n", "It steals.", False),
        ("It steals.", "It steals.", False),
        ("It steals.\nAlways.\n\n", "It steals.\nAlways.", False),
        ("\n\nIt steals.\n", "It steals.", False),
        ("  It steals.  \n", "  It steals.  ", False),
        ("**Beware**: it steals.\n- chips\n", "**Beware**: it steals.\n- chips", False),
        ("~~It steals.~~\n", "It steals.", True),
        ("~~It steals.\nAlways.~~\n", "It steals.\nAlways.", True),
        ("~~It steals.~~\n~~Always.~~\n", "It steals.\nAlways.", True),
        ("#1 of thieves.\n", "#1 of thieves.", False),
        ("~~It~~ steals.\n", "~~It~~ steals.", False),
        ("~~~\nIt steals.\n~~~\n", "~~~\nIt steals.\n~~~", False),
        ("\\# 1: it steals.\n", "# 1: it steals.", False),
        ("C:\\gulls &amp; \\more\n", "C:\\gulls &amp; \\more", False),
        ("Chips\n\\\nand &#13;bread\n", "Chips\n\nand \rbread", False),
        ("", "", False),
        ("\n", "", False),
    ],
)
def test_a_text_is_the_lines_below_its_header_up_to_a_blank_one(
    body: str, text: str, *, struck: bool
) -> None:
    entry = only(f"**[NOTE] Gull** *(Ep1, T2)*\n{body}")
    assert (entry.text, entry.struck, entry.live) == (text, struck, not struck)


@pytest.mark.covers("S3.13")
@pytest.mark.parametrize("border", ["**[NOTE] Cat** *(Ep1)*", "---", "### More", "# End", "**[x"])
def test_a_text_ends_where_structure_begins(border: str) -> None:
    first = read(f"{HARBOUR}**[NOTE] Gull** *(Ep1, T2)*\nIt steals.\n{border}\nIt sleeps.\n")[0]
    assert first.text == "It steals."


@pytest.mark.covers("B105")
def test_a_header_struck_through_by_hand_retires_its_entry() -> None:
    entry = only("~~**[NOTE] Gull** *(Ep1, T2)*~~\n~~It steals.~~\n")
    assert (entry.header.title, entry.text, entry.live) == ("Gull", "It steals.", False)


@pytest.mark.covers("D38")
@pytest.mark.parametrize(
    ("heading", "location"),
    [
        ("## Location 15: Old: mill", Location(15, "Old: mill")),
        ("## Location 015:   Mill  ", Location(15, "Mill")),
        ("## Location 15:", Location(15, "")),
        ("## Location: Mill (by the lake) (ID: 15)", Location(15, "Mill (by the lake)")),
    ],
)
def test_a_heading_names_a_location_in_either_order(heading: str, location: Location) -> None:
    text = f"{heading}\n**[NOTE] Gull** *(Ep1, T2)*\nIt steals.\n"
    (found,) = entries(parse(text))
    assert found.location == location
    assert reported(text) == []


@pytest.mark.covers("D38")
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("## Location West: Mill\n", 1, "names no location by a whole number; write"),
        ("## Location -5: Mill\n", 1, "names no location by a whole number; write"),
        ("## Location 1234567890123456: Mill\n", 1, "names no location by a whole number; write"),
        (f"{HARBOUR}\n{HARBOUR}", 6, "location 3 has a section at line 1 already; move"),
        ("**[NOTE] Gull** *(Ep1)*\nIt steals.\n", 1, "Gull belongs to no location; move it"),
        (f"{HARBOUR}**[NOTE] Gull *(Ep1)*\nIt steals.\n", 5, "is not a header of an entry; write"),
        (f"{HARBOUR}**Gull** *(Ep1)*\nIt steals.\n", 5, "**Gull** *(Ep1)* is not a header"),
        (f"{HARBOUR}**[] Gull** *(Ep1)*\nIt steals.\n", 5, "is not a header of an entry; write"),
        (f"{HARBOUR}**[A - B] Gull** *(Ep1)*\nIt steals.\n", 5, "neither CORE, PERMANENT"),
        (f"{HARBOUR}**[A] Gull** *(Ep1, noon)*\nIt steals.\n", 5, "has noon in its parentheses"),
        (f"{HARBOUR}**[A] Gull** *(Ep1)*\n", 5, "Gull has no text; write it in the line below"),
        (f"{HARBOUR}**[A] ** *(Ep1)*\n", 5, "the entry without a title has no text"),
        (f"{HARBOUR}**[A - SUPERSEDED] Gull** *(Ep1)*\nIt steals.\n", 5, "nothing says by what"),
        (
            f'{HARBOUR}**[A] Gull** *(Ep1)*\n[Invalidated at T5: "no"]\nIt steals.\n',
            5,
            "is marked as retired, but is ACTIVE; write SUPERSEDED",
        ),
        (
            f"{HARBOUR}**[A] Gull** *(Ep1)*\nIt steals.\n\nAna: look again.\n",
            8,
            "Ana: look again. belongs to no entry and is left alone; to make it a part",
        ),
        ("## Location 3: Pier\n**Visits:** many\n", 2, "**Visits:** many cannot be read; write"),
        (
            "## Location 3: Pier\n**Visits:** 1\n**Visits:** 2 | **Episodes:** 1\n",
            3,
            "visits are given twice for this location; keep one",
        ),
    ],
)
def test_what_is_not_understood_is_kept_and_reported(text: str, line: int, words: str) -> None:
    document = parse(text)
    (problem,) = problems(document)
    assert (problem.line, words in problem.message) == (line, True), problem
    assert render(document) == text


@pytest.mark.covers("B101")
def test_reading_goes_on_behind_what_is_malformed() -> None:
    text = (
        f"{HARBOUR}**[NOTE Gull** *(Ep1)*\nIt steals.\n\n"
        "**[NOTE] Cat** *(Ep1)*\nIt sleeps.\n\n## Location x\n\n## Location 8: Mill\n"
        "**[NOTE] Owl** *(Ep1)*\nIt calls.\n"
    )
    assert [entry.text for entry in read(text)] == ["It sleeps.", "It calls."]
    assert [line for line, _ in reported(text)] == [5, 11]


def test_a_problem_quotes_only_the_beginning_of_a_long_line() -> None:
    (problem,) = problems(parse(f"{HARBOUR}**[{'x' * 10_000}\n"))
    assert problem == FileProblem(5, problem.message)
    assert len(problem.message) < 200


def test_other_headings_title_and_introduction_are_no_problem() -> None:
    text = "# My memories\n\nBy Ana.\n\n## Location 8: Mill\n\n## Sources\n\nThe mill's book.\n"
    assert reported(text) == []
    assert [section.location for section in parse(text).sections] == [
        None,
        Location(8, "Mill"),
        None,
    ]


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_and_byte_order_mark_change_nothing_that_is_read(bom: str, newline: str) -> None:
    text = bom + FILE.replace("\n", newline)
    document = parse(text)
    assert (document.bom, document.newline) == (bom, newline)
    assert [(e.header, e.meta, e.text, e.retired) for e in read(text)] == [
        (e.header, e.meta, e.text, e.retired) for e in read(FILE)
    ]
    assert render(document) == text


def test_the_example_of_the_guide_is_read_as_it_says() -> None:
    page = (Path(__file__).parents[3] / "docs" / "memories-md.md").read_text("utf-8")
    example = page.split("```markdown\n")[1].split("```")[0]
    assert reported(example) == []
    assert [(entry.header.title, entry.live) for entry in read(example)] == [
        ("Oil the lamp", True),
        ("Ninth stair", True),
        ("Keeper", False),
    ]


def test_an_empty_file_has_no_sections() -> None:
    assert parse("") == Document(())


PIECES = st.sampled_from(
    [
        *FILE.splitlines(keepends=True),
        "\n",
        "\r\n",
        "\r",
        " ",
        "\ufeff",
        "\u2028",
        "\\",
        "#",
        "---\n",
        "**[",
        "** *(",
        ")*",
        "~~",
        "] ",
        "Goal: ",
        "## Location ",
        "12: ",
        "**Visits:** ",
        '[Superseded by "',
        '"]',
        "text",
    ]
)
ANY_FILE = st.one_of(
    st.lists(PIECES, max_size=40).map("".join),
    st.text(max_size=200),
    st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join),
)


@pytest.mark.covers("B100", "D38")
@given(ANY_FILE)
def test_any_text_is_read_without_loss(text: str) -> None:
    document = parse(text)
    assert render(document) == text
    lines = text.count("\n") + 1
    assert all(1 <= problem.line <= lines for problem in problems(document))
    assert all("\n" not in problem.message for problem in problems(document))
    for found in entries(document):
        rest = text.split("\n", found.line - 1)[-1].removeprefix(
            "\ufeff" if found.line == 1 else ""
        )
        assert rest.startswith(found.entry.written)


@pytest.mark.parametrize(
    "line",
    [
        "**[NOTE] x** *(" * 20_000,
        "**[" + "] " * 100_000,
        "**" + "** *(" * 60_000,
        "~~" * 100_000,
        "-" * 200_000 + "x",
        " " * 200_000 + "x",
        "\\" * 200_000,
        "## Location: " + "(ID: " * 50_000,
        "## Location " + "1" * 200_000,
        "**Visits:** " + " " * 200_000 + "x",
        "**[A] B** *(T1" + "-1" * 100_000 + "x)*",
        "**[A] B** *(" + "," * 200_000 + ")*",
        "**[A" + " - CORE" * 50_000 + "] B** *()*",
        '[Superseded by "' * 20_000,
        "&amp;" * 50_000,
        "&" + "amp;" * 50_000,
    ],
)
def test_no_line_takes_more_time_than_its_length(line: str) -> None:
    """A reader that were quadratic would take minutes, and be stopped by the hang guard."""
    text = f"{HARBOUR}**[NOTE] Gull** *(Ep1)*\n{line}\n{line}\n" * 3
    assert render(parse(text)) == text
