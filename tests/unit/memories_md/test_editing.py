"""Edits of a Memories.md: what is written, what stays, and that no text passes for structure."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.memories import Persistence, Standing, Turns
from streams.memories_md.core.checking import problems
from streams.memories_md.core.editing import (
    add_entry,
    remove,
    replace_header,
    replace_meta,
    replace_text,
    retire,
    update_visits,
)
from streams.memories_md.core.entries import (
    Document,
    EntryPosition,
    Header,
    Invalidation,
    LocatedEntry,
    Location,
    MemoryEntry,
    Meta,
    Retired,
    SupersededBy,
    VisitTally,
    entries,
)
from streams.memories_md.core.parsing import parse
from streams.memories_md.core.rendering import render

PIER = Location(7, "Pier")
FERRY = Header("NOTE", "Ferry", Persistence.PERMANENT)
AT_NOON = Meta("2", Turns(first=5, last=5), 0)

FILE = """\
## Location 41: Lighthouse
**Visits:** 3 | **Episodes:** 1, 2

### Memories

**[SUCCESS] Oil the lamp** *(Ep1, T23\u201324, +5)*
Whale oil keeps the lamp burning.

Ana: is this still so?

**[DANGER - core] Stair** *(Ep1, T25→30, dusk)*

The ninth stair breaks.

---

## Location 7: Pier

**[NOTE] Gull** *(Ep1, T2)*
It steals.
"""
LAMP, STAIR, GULL = EntryPosition(0, 4), EntryPosition(0, 8), EntryPosition(1, 1)


def texts(document: Document) -> list[str]:
    return [found.entry.text for found in entries(document)]


def lines_changed(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the lines gone and the lines new, between what both begin and end with."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return old, new


@pytest.mark.covers("S3.11", "S3.12")
def test_the_first_entry_of_an_empty_file_makes_title_and_section() -> None:
    document = add_entry(parse(""), PIER, FERRY, "The ferry comes at noon.", AT_NOON)
    assert render(document) == (
        "# Location Memories\n"
        "\n"
        "## Location 7: Pier\n"
        "**Visits:** 1 | **Episodes:** 2\n"
        "\n"
        "### Memories\n"
        "\n"
        "**[NOTE - PERMANENT] Ferry** *(Ep2, T5, +0)*\n"
        "The ferry comes at noon.\n"
        "\n"
        "---\n"
    )
    assert problems(document) == ()


@pytest.mark.covers("S3.15")
@given(st.permutations([3, 7, 9, 12, 41]))
def test_a_file_is_sorted_by_location_in_whatever_order_they_are_found(order: list[int]) -> None:
    document = parse("")
    for number in order:
        document = add_entry(document, Location(number, "Quay"), FERRY, f"Ferry {number} leaves.")
    assert render(document) == "# Location Memories\n" + "".join(
        f"\n## Location {number}: Quay\n**Visits:** 1\n\n### Memories\n\n"
        f"**[NOTE - PERMANENT] Ferry**\nFerry {number} leaves.\n\n---\n"
        for number in (3, 7, 9, 12, 41)
    )


def test_a_file_that_people_sort_otherwise_keeps_its_order() -> None:
    document = parse("Notes\n\n## Location 9: Mill\n\n## Location 2: Yard\n\n## Ideas\nA cat.\n")
    document = add_entry(document, Location(3, "Quay"), FERRY, "It leaves at one.")
    document = add_entry(document, Location(10, "Sea"), FERRY, "It comes at noon.")
    headings = [section.written.strip() for section in document.sections[1:]]
    assert [heading.removeprefix("## Location ") for heading in headings] == [
        *("3: Quay", "9: Mill", "2: Yard", "## Ideas", "10: Sea"),
    ]
    assert parse(render(document)) == document


@pytest.mark.covers("S3.8")
@pytest.mark.parametrize(
    ("before", "added"),
    [
        (
            "## Location 7: Quay",
            "\n\n### Memories\n\n**[NOTE] New**\nNews.\n",
        ),
        (
            "## Location 7: Pier\n**Visits:** 2\n\n### Memories\n\n---\n",
            "**[NOTE] New**\nNews.\n\n",
        ),
        (
            "## Location 7: Pier\n**[NOTE] Gull**\nIt steals.",
            "\n\n**[NOTE] New**\nNews.\n",
        ),
        (
            "## Location 7: Pier\n**[NOTE] Gull**\nIt steals.\n---\n\nThe end.\n",
            "\n**[NOTE] New**\nNews.\n\n",
        ),
        (
            "## Location 7: Pier\n\n**[A] Gull**\nIt steals.\n\n---\n\n**[A] Crab**\n\nAna: ?\n\n---\n\n",
            "**[NOTE] New**\nNews.\n\n",
        ),
        (
            "## Location 7: Pier\n**[NOTE] Gull**\nIt steals.\n## Location 8: Mill\n",
            "\n**[NOTE] New**\nNews.\n\n",
        ),
        (
            "## Location 7: Pier\n\n## Location 7: Pier\n",
            "### Memories\n\n**[NOTE] New**\nNews.\n\n",
        ),
    ],
)
def test_an_entry_goes_behind_the_others_of_its_location(before: str, added: str) -> None:
    document = add_entry(parse(before), PIER, Header("NOTE", "New"), "News.")
    after = render(document)
    at = next(at for at in range(len(before) + 1) if before[:at] + added + before[at:] == after)
    behind = before[at:]
    assert not behind.strip() or behind.lstrip().startswith(("---", "## "))
    assert parse(after) == document
    assert [found.entry.text for found in entries(document)][-1] == "News."


@pytest.mark.parametrize("text", ["\ufeffMy notes\r\n", "\ufeff\r\n", "My notes"])
def test_a_new_section_ends_its_lines_as_the_file_does(text: str) -> None:
    after = render(add_entry(parse(text), PIER, FERRY, "At noon.\nOr at one."))
    assert after.startswith(text)
    assert after.count("\r\n") == (after.count("\n") if "\r" in text else 0)
    assert ("# Location Memories" in after) == ("My notes" not in text)


def test_a_text_is_replaced_and_nothing_else() -> None:
    after = render(replace_text(parse(FILE), STAIR, "Mind the gap.\n\nAlways."))
    assert lines_changed(FILE, after) == (
        ["The ninth stair breaks.\n"],
        ["Mind the gap.\n", "\\\n", "Always.\n"],
    )


@pytest.mark.covers("S0.35", "B103", "D38")
def test_the_parentheses_are_replaced_and_nothing_else() -> None:
    document = parse(FILE)
    seen = Meta("2", Turns(first=23, last=48), 5, 3)
    after = render(replace_meta(document, LAMP, seen))
    assert lines_changed(FILE, after) == (
        ["**[SUCCESS] Oil the lamp** *(Ep1, T23\u201324, +5)*\n"],
        ["**[SUCCESS] Oil the lamp** *(Ep2, T23→T48, +5, seen 3x)*\n"],
    )
    after = render(replace_meta(document, GULL, Meta()))
    assert lines_changed(FILE, after)[1] == ["**[NOTE] Gull**\n"]
    goal = "Cross, dry (if at all) - or )* not"
    document = replace_meta(document, LAMP, Meta("1", Turns(first=3, last=4), goal=goal))
    assert "** *(Ep1, T3-4, Goal: Cross, dry (if at all) - or )* not)*\n" in render(document)
    assert next(entries(parse(render(document)))).entry.meta.goal == goal


def test_of_a_header_only_what_differs_is_written_anew() -> None:
    document = parse(FILE)
    stair = Header("DANGER", "Ninth stair", Persistence.CORE)
    after = render(replace_header(document, STAIR, stair))
    assert lines_changed(FILE, after) == (
        ["**[DANGER - core] Stair** *(Ep1, T25→30, dusk)*\n"],
        ["**[DANGER - core] Ninth stair** *(Ep1, T25→30, dusk)*\n"],
    )
    doubted = Header("DANGER", "Stair", Persistence.CORE, Standing.TENTATIVE)
    after = render(replace_header(document, STAIR, doubted))
    assert lines_changed(FILE, after)[1] == [
        "**[DANGER - CORE - TENTATIVE] Stair** *(Ep1, T25→30, dusk)*\n"
    ]


@pytest.mark.covers("B62", "B63", "D38")
@pytest.mark.parametrize(
    ("retired", "line"),
    [
        (SupersededBy("New stair", 48), '[Superseded at T48 by "New stair"]\n'),
        (SupersededBy('A "new" stair'), '[Superseded by "A "new" stair"]\n'),
        (Invalidation("it was mended", 48), '[Invalidated at T48: "it was mended"]\n'),
        (Invalidation("mended\nby Ana"), '[Invalidated: "mended&#10;by Ana"]\n'),
    ],
)
def test_a_retired_entry_keeps_its_text_struck_through(retired: Retired, line: str) -> None:
    document = retire(parse(FILE), STAIR, retired)
    after = render(document)
    assert lines_changed(FILE, after)[1] == [
        "**[DANGER - core - SUPERSEDED] Stair** *(Ep1, T25→30, dusk)*\n".replace("core", "CORE"),
        line,
        "\n",
        "~~The ninth stair breaks.~~\n",
    ]
    entry = [found.entry for found in entries(parse(after))][1]
    assert (entry.retired, entry.text, entry.live) == (retired, "The ninth stair breaks.", False)
    again = retire(document, STAIR, Invalidation("no"))
    assert lines_changed(after, render(again)) == ([line], ['[Invalidated: "no"]\n'])


def test_an_entry_made_live_again_is_as_it_was() -> None:
    document = parse(FILE)
    retired = retire(document, GULL, Invalidation("it was a tern", 9))
    assert "\n~~It steals.~~\n" in render(retired)
    revived = replace_header(retired, GULL, Header("NOTE", "Gull"))
    assert revived == document


def test_an_entry_struck_through_by_hand_stays_so() -> None:
    text = "## Location 7: Pier\n~~**[NOTE] Gull** *(Ep1)*~~\n~~It steals.~~\n"
    after = render(replace_text(parse(text), EntryPosition(0, 0), "It begs."))
    assert after == "## Location 7: Pier\n**[NOTE] Gull** *(Ep1)*\n~~It begs.~~\n"


@pytest.mark.parametrize(
    ("at", "gone"),
    [
        (
            LAMP,
            "**[SUCCESS] Oil the lamp** *(Ep1, T23\u201324, +5)*\nWhale oil keeps the lamp burning.\n\n",
        ),
        (STAIR, "**[DANGER - core] Stair** *(Ep1, T25→30, dusk)*\n\nThe ninth stair breaks.\n\n"),
        (GULL, "**[NOTE] Gull** *(Ep1, T2)*\nIt steals.\n"),
    ],
)
def test_a_removed_entry_takes_nothing_with_it(at: EntryPosition, gone: str) -> None:
    document = remove(parse(FILE), at)
    assert render(document) == FILE.replace(gone, "")
    assert parse(render(document)) == document


def test_a_file_can_be_emptied_and_filled_again() -> None:
    document = remove(parse("**[NOTE] Gull**\nIt steals.\n"), EntryPosition(0, 0))
    assert render(document) == ""
    filled = render(add_entry(document, PIER, FERRY, "At noon."))
    assert filled == render(add_entry(parse(""), PIER, FERRY, "At noon."))


def test_a_note_is_not_given_to_another_entry_by_a_removal() -> None:
    text = "## Location 7: Pier\n**[A] Mast**\n\n**[B] Sail**\nIt flaps.\n\nAna: it is torn.\n"
    with pytest.raises(ValueError, match="the entry above this one has no text"):
        remove(parse(text), EntryPosition(0, 2))


@pytest.mark.covers("B105", "D38")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("**Visits:** 3 | **Episodes:** 1, 2\n", "**Visits:** 4 | **Episodes:** 1, 03\n"),
        ("**Visits:** 3\r\n\r\nNote.\r\n", "**Visits:** 4 | **Episodes:** 1, 03\r\n\r\nNote.\r\n"),
        ("**Visits:**  4 |  **Episodes:** 1,03", "**Visits:**  4 |  **Episodes:** 1,03"),
        ("", "**Visits:** 4 | **Episodes:** 1, 03\n"),
        ("\n### Memories\n", "**Visits:** 4 | **Episodes:** 1, 03\n\n### Memories\n"),
        ("### Memories\n", "**Visits:** 4 | **Episodes:** 1, 03\n\n### Memories\n"),
    ],
)
def test_visits_are_counted_in_their_line(before: str, after: str) -> None:
    heading = "# Memories\n## Location 7: Pier\n"
    document = update_visits(parse(heading + before), 7, 4, ["1", "03"])
    assert render(document) == heading + after
    assert parse(render(document)).sections == document.sections


def test_visits_of_an_unknown_location_are_refused() -> None:
    with pytest.raises(LookupError, match="location 8 has no section; add an entry"):
        update_visits(parse(FILE), 8, 1, [])


@pytest.mark.parametrize("at", [EntryPosition(0, 0), EntryPosition(0, 99), EntryPosition(9, 0)])
def test_an_edit_of_what_is_no_entry_is_refused(at: EntryPosition) -> None:
    with pytest.raises(LookupError, match="no entry is at"):
        remove(parse(FILE), at)


REFUSED: list[Callable[[Document], Document]] = [
    lambda d: add_entry(d, PIER, Header("A] b", "t"), "x"),
    lambda d: add_entry(d, PIER, Header("", "t"), "x"),
    lambda d: add_entry(d, PIER, Header("A - CORE", "t"), "x"),
    lambda d: add_entry(d, PIER, Header("A", "t", status=Standing.SUPERSEDED), "x"),
    lambda d: add_entry(d, Location(-1, "Sea"), FERRY, "x"),
    lambda d: add_entry(d, Location(10**15, "Sea"), FERRY, "x"),
    lambda d: replace_meta(d, GULL, Meta("1, T5")),
    lambda d: replace_meta(d, GULL, Meta(turns=Turns(first=5, last=2))),
    lambda d: replace_meta(d, GULL, Meta(seen=-1)),
    lambda d: replace_meta(d, GULL, Meta(other=("+5",))),
    lambda d: replace_header(d, GULL, Header("A", "t", status=Standing.SUPERSEDED)),
    lambda d: retire(d, GULL, SupersededBy("t", -5)),
    lambda d: update_visits(d, 7, -1, []),
    lambda d: update_visits(d, 7, 1, ["1, 2"]),
]


@pytest.mark.parametrize("edit", REFUSED)
def test_what_would_be_read_otherwise_is_refused(edit: Callable[[Document], Document]) -> None:
    with pytest.raises(ValueError, match=r"otherwise|something else|retire"):
        edit(parse(FILE))


STRUCTURE = st.sampled_from(
    [
        *FILE.splitlines(),
        "",
        " ",
        "---",
        "  ---  ",
        "\\",
        "\\\\---",
        " \\# ",
        "#",
        "#tag",
        "### Memories",
        "**Visits:** 9 | **Episodes:** 9",
        '[Superseded at T1 by "x"]',
        '[Invalidated: "x"]',
        "~~struck~~",
        "~~",
        "~",
        "~~~",
        "&#10;",
        "&amp;#13;",
        "\r",
        "\x85## Location 1: x",
        "\u2028---",
        "\ufeff## Location 1: x",
        "** *(",
        "~~**[A] b** *(Ep1)*~~",
    ]
)
ANY_TEXT = st.one_of(
    st.text(max_size=100),
    st.lists(st.tuples(STRUCTURE | st.text(max_size=5), st.sampled_from(["\n", "", "\r\n", "\\"])))
    .map(lambda pieces: "".join(piece for pair in pieces for piece in pair))
    .filter(lambda text: len(text) < 400),
)
FILES = st.sampled_from(
    [
        FILE,
        "",
        "\ufeff" + FILE.replace("\n", "\r\n"),
        FILE.rstrip(),
        "## Location 7: Pier",
        "## Location 7: Pier\n---\n**[x\nmalformed\n",
        "Notes\n\n\n",
    ]
)


def written(some: Iterable[LocatedEntry]) -> list[str]:
    """Return entries as they are written; the last line of a file may be given its end."""
    return [found.entry.written.rstrip("\r\n") for found in some]


@pytest.mark.covers("B100", "D38")
@given(FILES, ANY_TEXT, st.sampled_from([PIER, Location(41, "x"), Location(5, "New\n## x")]))
def test_no_added_text_passes_for_structure(file: str, text: str, location: Location) -> None:
    """Neither does a title, a name or a goal; each is read back exactly."""
    before = parse(file)
    header, meta = Header("NOTE", text, Persistence.CORE), Meta("1", goal=text)
    document = add_entry(before, location, header, text, meta)
    after = render(document)
    assert parse(after) == document
    everything = list(entries(document))
    made = [found for found in everything if found.location and found.location.id == location.id][
        -1
    ]
    assert (made.entry.header, made.entry.meta, made.entry.text) == (header, meta, text)
    assert written(found for found in everything if found != made) == written(entries(before))
    assert "\u2028" not in after
    assert "\x85" not in after


EDITS: dict[str, Callable[[Document, EntryPosition, str], Document]] = {
    "text": replace_text,
    "superseded": lambda d, at, text: retire(d, at, SupersededBy(text, 4)),
    "invalidated": lambda d, at, text: retire(d, at, Invalidation(text)),
    "title": lambda d, at, text: replace_header(d, at, replace(entry_at(d, at).header, title=text)),
    "goal": lambda d, at, text: replace_meta(d, at, Meta(goal=text)),
    "revived": lambda d, at, text: replace_header(d, at, Header("A", text)),
}
READ: dict[str, Callable[[MemoryEntry], object]] = {
    "text": lambda entry: entry.text,
    "superseded": lambda entry: getattr(entry.retired, "title", None),
    "invalidated": lambda entry: getattr(entry.retired, "reason", None),
    "title": lambda entry: entry.header.title,
    "goal": lambda entry: entry.meta.goal,
    "revived": lambda entry: entry.header.title,
}


@given(FILES, st.lists(st.tuples(st.sampled_from(sorted(EDITS)), ANY_TEXT), max_size=5), st.data())
def test_every_edit_is_read_back_and_changes_nothing_else(
    file: str, edits: list[tuple[str, str]], data: st.DataObject
) -> None:
    document = add_entry(parse(file), PIER, FERRY, "The ferry comes at noon.")
    at = data.draw(st.sampled_from([found.at for found in entries(document)]))
    around = _outside(document, at)
    for name, text in edits:
        before = entry_at(document, at)
        document = EDITS[name](document, at, text)
        assert parse(render(document)) == document
        assert _outside(document, at) == around
        assert READ[name](entry_at(document, at)) == text
        assert name == "text" or entry_at(document, at).text == before.text


def entry_at(document: Document, at: EntryPosition) -> MemoryEntry:
    part = document.sections[at.section].parts[at.part]
    assert isinstance(part, MemoryEntry)
    return part


def _outside(document: Document, at: EntryPosition) -> tuple[str, str]:
    """Return the characters in front of an entry and behind it."""
    section = document.sections[at.section]
    entry = section.parts[at.part]
    whole = render(document)
    start = len(document.bom) + sum(
        len(other.written) + sum(len(part.written) for part in other.parts)
        for other in document.sections[: at.section]
    )
    start += len(section.written) + sum(len(part.written) for part in section.parts[: at.part])
    return whole[:start], whole[start + len(entry.written) :]


LINES = st.sampled_from(
    [
        *FILE.splitlines(keepends=True),
        "\n",
        " \n",
        "\r\n",
        "\r",
        "# Sources\n",
        "A note.\n",
        "**[A] b**\n",
        "**[x\n",
        "~~It steals.~~\n",
        '[Superseded by "x"]\n',
        "\\\n",
    ]
)
WHOLE_LINES = st.lists(LINES, max_size=12).map("".join)
ANY_FILE = WHOLE_LINES | WHOLE_LINES.map(str.rstrip)


@given(ANY_FILE, st.sampled_from(sorted(EDITS)), ANY_TEXT, st.data())
def test_an_edit_of_any_file_is_read_back_and_changes_nothing_else(
    file: str, name: str, text: str, data: st.DataObject
) -> None:
    before = parse(file)
    added = add_entry(before, PIER, FERRY, text)
    assert parse(render(added)).sections == added.sections
    assert len(list(entries(added))) == len(list(entries(before))) + 1
    found = data.draw(st.sampled_from(list(entries(added))))
    edited = EDITS[name](added, found.at, text)
    assert parse(render(edited)).sections == edited.sections
    assert READ[name](entry_at(edited, found.at)) == text
    assert _outside(edited, found.at) == _outside(added, found.at)


@given(ANY_FILE, st.data())
def test_a_removal_from_any_file_leaves_the_other_entries(file: str, data: st.DataObject) -> None:
    before = add_entry(parse(file), PIER, FERRY, "The ferry comes at noon.")
    found = data.draw(st.sampled_from(list(entries(before))))
    try:
        after = remove(before, found.at)
    except ValueError:
        assert any("has no text" in problem.message for problem in problems(before))
        return
    kept = [other.entry for other in entries(before) if other != found]
    assert [other.entry for other in entries(parse(render(after)))] == kept


def test_entries_keep_their_places_while_others_are_edited_and_added() -> None:
    document = parse(FILE)
    places = [found.at for found in entries(document)]
    for number, at in enumerate(places):
        document = replace_text(document, at, f"text {number}")
        document = retire(document, at, Invalidation("so"))
        document = add_entry(document, PIER, FERRY, f"news {number}")
        document = update_visits(document, 41, number, [])
    assert texts(document)[:2] == ["text 0", "text 1"]
    assert sorted(texts(document)[2:]) == ["news 0", "news 1", "news 2", "text 2"]
    (tally,) = [part for part in document.sections[0].parts if isinstance(part, VisitTally)]
    assert tally.visits == 2
