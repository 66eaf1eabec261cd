"""`memsieve dedupe`: what it finds in a file, what it writes, and that all of it can be undone."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from schemas.base import ScopeName
from streams.dedupe_store.app.deduping import between
from streams.memories_md.app import undoing
from streams.memories_md.core.entries import entries
from streams.memories_md.core.parsing import parse
from streams.memories_md.core.supersession import damages
from streams.memories_md.world.file import MemoriesFile
from streams.model.policy import parse as parse_policy
from streams.model.ports.failures import Fatal
from streams.store.app import policies
from tests.commands.conftest import Memsieve

THINGS = (
    ("lantern", "hangs on a hook beside the door"),
    ("well", "gives clean water, but only before noon"),
    ("ladder", "has lost four of its rungs"),
    ("miller", "buys barley from every traveller"),
    ("goat", "follows whoever carries salt"),
    ("chapel bell", "rings when the tide turns"),
    ("cellar", "smells of vinegar and old rope"),
    ("smith", "repairs swords for a handful of coal"),
    ("orchard", "is guarded by two quiet dogs"),
    ("bridge", "sways under more than three people"),
    ("library", "holds a map of the northern marshes"),
    ("ferry", "leaves from the lower landing"),
    ("oven", "is still warm from the morning bread"),
    ("statue", "points towards the hidden stairway"),
    ("beehive", "was moved behind the granary"),
    ("fountain", "hides a copper coin under a loose tile"),
)
PLACES = (
    "harbour",
    "abbey",
    "market",
    "quarry",
    "mill",
    "castle",
    "village",
    "camp",
    "inn",
    "farm",
)
TRAPS = (
    ("Number", "The chest in the {place} opens with the code 47{n}1."),
    ("Number", "The chest in the {place} opens with the code 47{n}2."),
    ("Button", "The blue button in the {place} lowers the gate."),
    ("Button", "The red button in the {place} lowers the gate."),
    ("Gate", "The {place} gate is locked at night."),
    ("Gate", "The {place} gate is not locked at night."),
)
"""Pairs that are as like as repeats are, and are two facts each."""
EXTRA = "It was seen again on the way back."
LOCATIONS = 20


@dataclass(frozen=True)
class Planted:
    """A file with repeats, and which line repeats which, by the way it is written."""

    text: str
    repeats: dict[int, tuple[int, str]]


def planted() -> Planted:
    """Make a file of 500 entries, 100 of which repeat another one of their location."""
    text = "# Location Memories\n\n"
    repeats: dict[int, tuple[int, str]] = {}
    for number in range(LOCATIONS):
        place = PLACES[number % len(PLACES)]
        text += f"## Location {number}: The {place}\n\n### Memories\n\n"
        facts = list(_facts(place, number))
        lines: list[int] = []
        for turn, (title, fact) in enumerate(facts):
            lines.append(text.count("\n") + 1)
            text += entry(title, fact, turn)
        for nth in range(5):
            original = (number + 3 * nth) % len(THINGS)
            kind, repeat = _respelt(facts[original][1], number + nth)
            repeats[text.count("\n") + 1] = lines[original], kind
            text += entry(f"Again {nth}", repeat, 90 + nth)
        text += "---\n\n"
    return Planted(text, repeats)


def entry(title: str, text: str, turn: int = 5, fields: str = "NOTE") -> str:
    return f"**[{fields}] {title}** *(Ep1, T{turn})*\n{text}\n\n"


def _facts(place: str, number: int) -> Iterator[tuple[str, str]]:
    for thing, does in THINGS:
        yield thing.capitalize(), f"The {thing} of the {place} {does}."
    for title, text in TRAPS[: 6 if number % 2 else 2]:
        yield title, text.format(place=place, n=number % 10)


def _respelt(text: str, nth: int) -> tuple[str, str]:
    match nth % 4:
        case 0:
            return "case", text.upper()
        case 1:
            return "white space", text.replace(" ", "  ")
        case 2:
            return "line end", text.replace(" of the ", " of\nthe ")
        case _:
            return "another sentence", f"{text} {EXTRA}"


def short(*written: str, location: str = "41: Lighthouse") -> str:
    return f"## Location {location}\n\n" + "".join(written)


def write(text: str, name: str = "Memories.md") -> Path:
    path = Path(name)
    path.write_bytes(text.encode())
    return path


def joined(told: dict[str, Any]) -> set[frozenset[int]]:
    """Return which lines became one, as pairs of the one that stays and one that goes."""
    return {
        frozenset((group["survivor"]["line"], member["line"]))
        for location in told["locations"]
        for group in location["groups"]
        for member in group["members"]
    }


def live_texts(path: Path) -> list[str]:
    document = parse(path.read_bytes().decode())
    return [found.entry.text for found in entries(document) if found.entry.live]


@pytest.mark.covers("S0.65", "S0.74", "D2", "D4", "B104", "C17")
def test_each_planted_repeat_is_reported_and_nothing_else(memsieve: Memsieve) -> None:
    file = planted()
    path = write(file.text)
    told = memsieve("dedupe", path, "--dry-run", "--json").json()
    wanted = {frozenset((line, first)) for line, (first, _) in file.repeats.items()}
    assert len(wanted) == 100
    assert joined(told) == wanted
    assert (told["entries"], told["live_before"], told["live_after"]) == (500, 500, 400)
    assert told["reduction_entries"] == 0.2
    assert 0.15 < told["reduction_bytes"] < 0.2
    assert (told["removed"], told["repairs"], told["problems"]) == (100, [], [])
    members = _members(told)
    kinds = {file.repeats[max(pair)][1] for pair in wanted}
    assert kinds == {"case", "white space", "line end", "another sentence"}
    assert {member["reason"] for member in members} == {"same-content", "adds-to-known"}
    assert all(member["verbatim"] for member in members)
    assert path.read_bytes().decode() == file.text
    assert list(Path().iterdir()) == [path]


def test_what_the_default_policy_finds_by_its_judge(memsieve: Memsieve) -> None:
    path = write(
        short(
            entry("Bridge", "The bridge sways as soon as three people stand on it."),
            # After so short a last word it is in doubt whether a sentence ends there.
            entry(
                "Bridge", "The bridge sways as soon as three people stand on it. A rope is loose."
            ),
            entry("Cook", "The cook is afraid of mice."),
            entry("Cook", "Mice terrify whoever prepares the meals here."),
        )
    )
    told = memsieve("dedupe", path, "--json").json()
    assert joined(told) == {frozenset((3, 6)), frozenset((9, 12))}
    bridge, _ = _members(told)
    assert (bridge["line"], bridge["decided_at"]) == (3, 6)
    assert (bridge["judge"], bridge["verbatim"]) == ("built-in", False)


def test_the_report_says_what_stays_what_goes_and_why(memsieve: Memsieve) -> None:
    write(
        short(
            entry("Lamp", "The lamp burns whale oil."),
            entry("Oil", "the lamp  burns whale OIL."),
            entry("Keeper", "The keeper sleeps upstairs during the day."),
            entry("Sleep", "During the day, the keeper sleeps upstairs."),
        )
    )
    shown = memsieve("dedupe", "Memories.md")
    assert shown.code == 0
    assert "location 41 Lighthouse: 4 live, 2 afterwards" in shown.out
    assert '3  "Lamp" stays, seen 2x' in shown.out
    assert '6  "Oil" goes: a memory of this scope has the same words' in shown.out
    assert '12  "Sleep" goes: a memory states the same fact' in shown.out
    assert '"During the day, the keeper sleeps upstairs."' in shown.out
    assert "4 live entries, 2 said by others: 2 afterwards (50.0% fewer)" in shown.out
    assert "Dry run: nothing was written; --apply writes it" in shown.err


@pytest.mark.covers("D33", "D40", "D21", "B73")
def test_apply_writes_and_a_second_time_there_is_nothing_to_do(memsieve: Memsieve) -> None:
    file = planted()
    path = write(file.text)
    told = memsieve("dedupe", path, "--apply", "--json").json()
    assert told["written"] == "Memories.md"
    assert len(live_texts(path)) == told["live_after"] == 400
    before, after = parse(file.text), parse(path.read_bytes().decode())
    assert [one.line for one in entries(after) if one.entry.live]
    assert damages(after) == ()
    assert sorted(one.entry.text for one in entries(before)) == sorted(
        one.entry.text for one in entries(after)
    )
    assert Path("Memories.md.backup-1").read_bytes().decode() == file.text
    written = path.read_bytes()
    again = memsieve("dedupe", path, "--apply", "--json").json()
    assert (again["removed"], again["repairs"], again["written"]) == (0, [], None)
    assert path.read_bytes() == written
    assert memsieve("dedupe", "--undo", path, "--json").json()["undone"]
    assert path.read_bytes().decode() == file.text
    assert memsieve("dedupe", "--undo", path).code == 2


def test_what_was_edited_since_is_not_undone(memsieve: Memsieve) -> None:
    path = write(short(entry("A", "Ivy grows."), entry("B", "IVY GROWS.")))
    assert memsieve("dedupe", path, "--apply").code == 0
    edited = path.read_bytes() + b"\nA note by Ana.\n"
    path.write_bytes(edited)
    refused = memsieve("dedupe", path, "--undo")
    assert refused.code == 6
    assert "was edited since; nothing was changed" in refused.err
    assert path.read_bytes() == edited


@pytest.mark.parametrize("content", ["{", '{"format": 1}', "\xff", None])
def test_a_damaged_undo_file_is_named(memsieve: Memsieve, content: str | None) -> None:
    path = write(short(entry("A", "Ivy grows."), entry("B", "IVY GROWS.")))
    memsieve("dedupe", path, "--apply")
    undo = Path("Memories.md.undo.json")
    made = json.loads(undo.read_bytes()) | {"before": "Another file."}
    undo.write_text(json.dumps(made) if content is None else content, "latin-1")
    written = path.read_bytes()
    refused = memsieve("dedupe", path, "--undo")
    assert refused.code == 2
    assert "put one of Memories.md.backup-1 to -3 back by hand" in refused.err
    assert path.read_bytes() == written


def test_out_leaves_the_file_alone(memsieve: Memsieve) -> None:
    text = short(entry("A", "Ivy grows."), entry("B", "IVY GROWS."))
    path = write(text)
    assert memsieve("dedupe", path, "--out", "clean.md").code == 0
    assert path.read_bytes().decode() == text
    assert live_texts(Path("clean.md")) == ["Ivy grows."]
    assert not Path("Memories.md.backup-1").exists()
    assert memsieve("dedupe", path, "--out", "./Memories.md").code == 2
    assert memsieve("dedupe", path, "--out", "clean.md", "--apply").code == 2


def test_a_dry_run_writes_nothing_whatever_else_is_asked_for(memsieve: Memsieve) -> None:
    path = write(short(entry("A", "Ivy grows."), entry("B", "IVY GROWS.")))
    for written in (("--apply",), ("--out", "clean.md")):
        told = memsieve("dedupe", path, *written, "--dry-run", "--json").json()
        assert (told["removed"], told["written"]) == (1, None)
    assert list(Path().iterdir()) == [path]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--collection", "clean"), "--collection is not for a Memories.md"),
        (("--from-collection", "theirs"), "--from-collection is not for a Memories.md"),
        (("--text-field", "said"), "--text-field is not for a Memories.md"),
        (("--undo", "--dry-run"), "--dry-run only reports, --undo writes"),
    ],
)
def test_what_is_for_another_programs_store_is_refused(
    memsieve: Memsieve, options: tuple[str, ...], why: str
) -> None:
    path = write(short(entry("A", "Ivy grows.")))
    refused = memsieve("dedupe", path, *options)
    assert (refused.code, refused.out) == (2, "")
    assert why in refused.err


def test_turns_counts_persistence_and_belief_of_all_live_on(memsieve: Memsieve) -> None:
    again = "**[NOTE] B** *(Ep1, T48, +5, seen 2x)*\nIVY GROWS.\n\n"
    other = "**[NOTE - PERMANENT] C** *(Ep2, T3, Goal: Find help, food (or both))*\nivy grows.\n"
    path = write(short(entry("A", "Ivy grows.", 25, "NOTE - TENTATIVE"), again, other))
    assert memsieve("dedupe", path, "--apply").code == 0
    assert path.read_text("utf-8") == short(
        "**[NOTE - PERMANENT] A** "
        "*(Ep1, T25→T48, +5, seen 4x, Goal: Find help, food (or both))*\nIvy grows.\n\n",
        '**[NOTE - SUPERSEDED] B** *(Ep1, T48, +5, seen 2x)*\n[Superseded by "A"]\n~~IVY GROWS.~~\n\n',
        "**[NOTE - PERMANENT - SUPERSEDED] C** *(Ep2, T3, Goal: Find help, food (or both))*\n"
        '[Superseded by "A"]\n~~ivy grows.~~\n',
    )


def test_the_entry_that_says_more_stays(memsieve: Memsieve) -> None:
    path = write(
        short(
            entry("Lamp", "The lamp of the lighthouse burns whale oil from the old shed.", 3),
            entry(
                "Oil",
                "The lamp of the lighthouse burns whale oil from the old shed. The shed is locked.",
                9,
            ),
        )
    )
    assert (
        '3  "Lamp" goes, for line 6: it states all that a memory states'
        in memsieve("dedupe", path).out
    )
    [member] = _members(memsieve("dedupe", path, "--apply", "--json").json())
    assert (member["line"], member["title"], member["decided_at"]) == (3, "Lamp", 6)
    assert "**[NOTE] Oil** *(Ep1, T3→T9, seen 2x)*" in path.read_text("utf-8")
    assert '[Superseded by "Oil"]' in path.read_text("utf-8")


def test_what_goes_in_other_words_stays_in_the_file_with_them(memsieve: Memsieve) -> None:
    texts = (
        "The keeper sleeps upstairs during the day.",
        "During the day, the keeper sleeps upstairs.",
    )
    path = write(short(entry("Keeper", texts[0]), entry("Sleep", texts[1])))
    told = memsieve("dedupe", path, "--apply", "--json").json()
    [gone] = _members(told)
    assert (gone["text"], gone["verbatim"], told["problems"]) == (texts[1], False, [])
    assert live_texts(path) == [texts[0]]
    assert f'[Superseded by "Keeper"]\n~~{texts[1]}~~' in path.read_text("utf-8")


@pytest.mark.covers("D12", "D14")
def test_what_goes_names_the_one_that_stays_in_the_end(memsieve: Memsieve) -> None:
    facts = [
        "The lamp of the lighthouse burns until dawn.",
        "The oil of the lighthouse lamp is kept in the shed.",
        "The shed of the lighthouse lamp is locked at night.",
    ]
    path = write(short(*(entry(f"Lamp {n}", " ".join(facts[:n]), n) for n in (1, 2, 3))))
    told = memsieve("dedupe", path, "--apply", "--json").json()
    assert joined(told) == {frozenset((9, 3)), frozenset((9, 6))}
    written = path.read_text("utf-8")
    assert written.count('[Superseded by "Lamp 3"]') == 2
    assert "**[NOTE] Lamp 3** *(Ep1, T1→T3, seen 3x)*" in written
    assert memsieve("dedupe", path, "--json").json()["removed"] == 0


def test_a_text_made_of_two_replaces_the_survivors(memsieve: Memsieve) -> None:
    policy = _of_nobody().replace('review = "keep-both"', 'review = "merge"')
    write(policy, "merging.toml")
    texts = (
        "The keeper of the lighthouse is asleep. The lamp is lit at dusk.",
        "The keeper of the lighthouse is asleep. The lamp is cleaned at dawn.",
    )
    path = write(short(entry("Keeper", texts[0], 3), entry("Lamp", texts[1], 9)))
    told = memsieve("dedupe", path, "--policy", "merging.toml", "--apply", "--json").json()
    [[group]] = [location["groups"] for location in told["locations"]]
    assert group["survivor"]["text_before"] == texts[0]
    assert group["survivor"]["text_after"] == f"{texts[0]} The lamp is cleaned at dawn."
    assert group["members"][0]["verbatim"]
    assert live_texts(path) == [group["survivor"]["text_after"]]


@pytest.mark.covers("D12", "D13")
def test_damaged_supersession_is_told_and_mended(memsieve: Memsieve) -> None:
    lost = '**[NOTE - SUPERSEDED] {}** *(Ep1, T5)*\n[Superseded at T9 by "{}"]\n~~{}~~\n\n'
    path = write(
        short(
            lost.format("Ghost", "Ghost", "A ghost walks the stairs at midnight."),
            entry("Stairs", "a ghost walks the stairs at MIDNIGHT."),
            lost.format("Flood", "Spring flood", "The cellar is flooded in spring."),
            entry("Cellar", "Barrels float in the cellar."),
        )
    )
    told = memsieve("dedupe", path, "--json").json()
    assert [(one["line"], one["kind"]) for one in told["repairs"]] == [
        (3, "itself"),
        (10, "nobody"),
    ]
    assert (told["live_before"], told["brought_back"], told["removed"]) == (2, 2, 1)
    shown = memsieve("dedupe", path, "--apply")
    assert 'superseded by "Ghost", which is its own title' in shown.out
    assert "2 brought back" in shown.out
    assert live_texts(path) == [
        "A ghost walks the stairs at midnight.",
        "The cellar is flooded in spring.",
        "Barrels float in the cellar.",
    ]
    assert damages(parse(path.read_text("utf-8"))) == ()
    again = memsieve("dedupe", path, "--apply")
    assert "there is nothing to clean" in again.err


@pytest.mark.covers("D4")
def test_only_what_is_of_one_location_is_compared(memsieve: Memsieve) -> None:
    path = write(
        short(entry("A", "Ivy grows."))
        + short(entry("B", "IVY GROWS."), location="7: Lighthouse")
        + short(entry("C", "ivy grows."), location="41: Old lighthouse")
        + "# Elsewhere\n\n"
        + entry("D", "Ivy  grows.")
    )
    told = memsieve("dedupe", path, "--json").json()
    assert joined(told) == {frozenset((3, 13))}
    assert [(one["line"], one["message"][:11]) for one in told["problems"]] == [
        (11, "location 41"),
        (18, "the entry D"),
    ]


def test_what_cannot_be_read_is_told_by_its_line_and_the_rest_is_cleaned(
    memsieve: Memsieve,
) -> None:
    text = "\ufeff# Location Memories\n\n" + short(
        "**[NOTE Ferry** *(Ep1, T5)*\nThe ferry leaves at 9.\n\n",
        entry("A", "Ivy grows."),
        "Ana: is this so?\n\n",
        entry("B", "IVY GROWS."),
        entry("", "---"),
        entry("Long", "word " * 20_000),
        "**[NOTE - SUPERSEDED] Old** *(Ep1, T5)*\n~~Moss grows.~~\n\nEnd",
    )
    path = write(text.replace("\n", "\r\n"))
    told = memsieve("dedupe", path, "--apply", "--json").json()
    lines = [one["line"] for one in told["problems"]]
    assert lines == [5, 11, 16, 19, 22, 25]
    assert "text should have at most 65536 characters" in told["problems"][3]["message"]
    assert joined(told) == {frozenset((8, 13))}
    made = path.read_bytes().decode()
    assert made.startswith("\ufeff# Location Memories\r\n")
    assert made.endswith("~~Moss grows.~~\r\n\r\nEnd")
    assert made.count("\n") == made.count("\r\n")
    assert "**[NOTE Ferry** *(Ep1, T5)*\r\nThe ferry leaves at 9.\r\n" in made
    assert memsieve("dedupe", "--undo", path).code == 0
    assert path.read_bytes().decode() == text.replace("\n", "\r\n")


def test_what_cannot_be_written_as_it_is_meant_is_left_alone(memsieve: Memsieve) -> None:
    fields = "NOTE - SUPERSEDED - TENTATIVE"
    text = short(entry("A", "Ivy grows.", fields=fields), entry("B", "IVY GROWS."))
    path = write(text)
    told = memsieve("dedupe", path, "--apply", "--json").json()
    assert (told["removed"], told["written"]) == (0, None)
    assert any("left unchanged" in one["message"] for one in told["problems"])
    assert path.read_bytes().decode() == text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe#\x00", "UTF-16"),
        (b"# A\n\ncaf\xe9\n", "Memories.md:3:"),
        (None, "there is no such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    memsieve: Memsieve, content: bytes | None, said: str
) -> None:
    if content is not None:
        Path("Memories.md").write_bytes(content)
    refused = memsieve("dedupe", "Memories.md")
    assert refused.code == 2
    assert said in refused.err


def test_a_directory_is_refused(memsieve: Memsieve) -> None:
    Path("place.md").mkdir()
    refused = memsieve("dedupe", "place.md")
    assert refused.code == 2
    assert "place.md is a directory: name a file" in refused.err


def test_a_read_only_file_is_looked_at_and_not_written(memsieve: Memsieve) -> None:
    path = write(short(entry("A", "Ivy grows."), entry("B", "IVY GROWS.")))
    path.chmod(0o444)
    assert memsieve("dedupe", path, "--json").json()["removed"] == 1
    refused = memsieve("dedupe", path, "--apply")
    assert refused.code == 2
    assert "read-only" in refused.err
    assert list(Path().iterdir()) == [path]


def test_a_file_that_a_writer_keeps_is_not_written(memsieve: Memsieve) -> None:
    text = short(entry("A", "Ivy grows."), entry("B", "IVY GROWS."))
    path = write(text)
    write("{}", "Memories.md.level.json")
    refused = memsieve("dedupe", path, "--apply")
    assert refused.code == 2
    assert "is kept by sinks.memories_md" in refused.err
    assert path.read_bytes().decode() == text
    assert memsieve("dedupe", path, "--out", "clean.md").code == 0


def test_a_file_that_somebody_else_writes_is_left_alone(memsieve: Memsieve) -> None:
    text = short(entry("A", "Ivy grows."), entry("B", "IVY GROWS."))
    path = write(text)
    with MemoriesFile(path).held():
        refused = memsieve("dedupe", path, "--apply")
    assert refused.code == 6
    assert "is being written by another memsieve" in refused.err
    assert path.read_bytes().decode() == text


@pytest.mark.parametrize("text", ["", "\ufeff", "No memories here.\n"])
def test_a_file_without_entries_has_nothing_to_clean(memsieve: Memsieve, text: str) -> None:
    path = write(text)
    told = memsieve("dedupe", path, "--apply", "--json").json()
    assert (told["entries"], told["reduction_bytes"], told["written"]) == (0, None, None)
    assert "there is nothing to clean" in memsieve("dedupe", path).err


@pytest.mark.covers("D33")
def test_what_changes_while_it_is_cleaned_is_not_overwritten() -> None:
    path = write("The file as it was read.")
    path.write_text("Somebody has saved another one.", "utf-8")
    with pytest.raises(Fatal, match="has changed meanwhile; nothing was written"):
        undoing.write(MemoriesFile(path), "The file as it was read.", "What cleaning made.")
    assert path.read_text("utf-8") == "Somebody has saved another one."
    assert not Path("Memories.md.undo.json").exists()


def test_the_undo_file_is_for_those_who_may_read_the_file(memsieve: Memsieve) -> None:
    path = write(short(entry("A", "Ivy grows."), entry("B", "IVY GROWS.")))
    path.chmod(0o600)
    assert memsieve("dedupe", path, "--apply").code == 0
    modes = [one.stat().st_mode & 0o777 for one in Path().iterdir() if "lock" not in one.name]
    assert modes == [0o600] * 3


@pytest.mark.parametrize("policy", ["two-threshold", "zork-semantic"])
def test_other_policies_come_to_an_end_too(memsieve: Memsieve, policy: str) -> None:
    path = write(planted().text)
    options = ("--policy", policy, "--threshold", "0.6", "--json")
    told = memsieve("dedupe", path, *options, "--apply").json()
    assert told["removed"] >= 100
    again = memsieve("dedupe", path, *options).json()
    assert (again["removed"], again["repairs"]) == (0, [])


@pytest.mark.covers("S0.65", "B104")
def test_a_threshold_moves_the_band_of_policies_that_act_on_it(memsieve: Memsieve) -> None:
    policy = _of_nobody().replace('match = "keep-both"', 'match = "merge"')
    write(policy, "matching.toml")
    path = write(
        short(
            entry("Keeper", "The keeper of the lighthouse is asleep. The lamp is lit at dusk."),
            entry("Lamp", "The keeper of the lighthouse is asleep. The lamp is cleaned at dawn."),
        )
    )

    def found(*options: str) -> int:
        return memsieve("dedupe", path, "--json", *options).json()["removed"]

    assert found("--policy", "matching.toml") == 0
    assert found("--policy", "matching.toml", "--threshold", "0.85") == 1
    assert found("--threshold", "0.85") == 0


def test_a_threshold_lowers_the_bands_below_it_in_every_scope() -> None:
    text = policies.text("default") + '\n[scopes."memories/41".bands]\nmatch = 0.9\nreview = 0.8\n'
    policy = parse_policy(text)
    low = between(policy, upper=0.4, lower=None)
    for rules in (low, low.rules(ScopeName("memories/41"))):
        bands = rules.bands
        assert (bands.match, bands.review, bands.log) == (0.4, 0.4, 0.4)
        assert rules.nominate.similarity_min == 0.4
    high = between(policy, upper=0.95, lower=None).rules(ScopeName("memories/41")).bands
    assert (high.match, high.review, high.log) == (0.95, 0.8, 0.5)


def _of_nobody() -> str:
    """Return the default policy's text with no judge: what to do is told by the bands."""
    return policies.text("default").replace('chain = ["built-in"]', "chain = []")


def _members(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        member
        for location in told["locations"]
        for group in location["groups"]
        for member in group["members"]
    ]
