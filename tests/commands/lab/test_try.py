"""`memsieve try`: a file that nobody prepared, what the presets make of it, and a person's answers."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from streams.embedding import HASHING
from streams.lab.app.trying import PRESETS
from tests.commands.conftest import COMMAND, Memsieve, Result
from tests.commands.lab.test_evaluate import write
from tests.support.machine.terminal import Terminal

ROWS = (
    ("2026-03-01 09:00", "ana", "Ana keeps her spare key under the blue flower pot."),
    ("2026-03-01 09:05", "ana", "Ana's spare key is under the blue flower pot by the door."),
    ("2026-03-01 09:10", "ana", "Ana works at the harbour office."),
    ("2026-03-02 10:00", "ana", "Ana works from the harbour office on most days."),
    ("2026-03-02 10:10", "ana", "Ana takes the ferry to work."),
    ("2026-03-02 10:20", "ana", "Ana goes to work by ferry when it is not too windy."),
    ("2026-03-03 08:00", "bo", "Bo's dog is called Pip."),
    ("2026-03-03 08:10", "bo", "The name of Bo's dog is Pip."),
    ("2026-03-04 11:00", "bo", "Bo's meeting with the bank is on Tuesday."),
    ("2026-03-04 12:00", "bo", "Bo's meeting with the bank was moved to Thursday."),
    ("2026-03-05 08:00", "bo", "bo's dog is called pip"),
)
"""What an export looks like whose columns nobody named for us."""
SAVED = ("--save-answers", "answers.jsonl")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.csv"
    lines = ["noted;person;remark", *(";".join(row) for row in ROWS)]
    path.write_text("\n".join(lines) + "\n", encoding="latin-1")
    return path


def typed(monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{key}\n" for key in keys)))


def lines_of(path: str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def by_name(told: Any) -> dict[str, Any]:
    return {one["name"]: one for one in told["policies"]}


def test_each_preset_is_shown_beside_the_others_and_nothing_is_written(
    memsieve: Memsieve, notes: Path, tmp_path: Path
) -> None:
    shown = memsieve("try", "notes.csv")
    assert shown.code == 0, shown.err
    assert "took remark as text, person as scope, noted as time" in shown.err
    assert "read as columns separated by semicolons" in shown.err
    for name in PRESETS:
        assert sum(line.startswith(name) for line in shown.out.splitlines()) == 1
    joined = "Ana works from the harbour office on most days."
    assert f'  "{joined}"\n    with "Ana works at the harbour office."\n' in shown.out
    moved = "Bo's meeting with the bank was moved to Thursday."
    replaces = '    replaces "Bo\'s meeting with the bank is on Tuesday."\n'
    assert f'  "{moved}"  (only default, thorough)\n{replaces}' in shown.out
    assert shown.out.endswith("nothing was kept; to keep the rows: memsieve run notes.csv\n")
    assert list(tmp_path.iterdir()) == [notes]


@pytest.mark.covers("B91")
@pytest.mark.usefixtures("notes")
def test_every_row_has_one_fate_under_each_preset_and_run_comes_to_the_same(
    memsieve: Memsieve,
) -> None:
    told = memsieve("try", "notes.csv", "--json").json()
    assert (told["rows"], told["left_out"], told["more"]) == (len(ROWS), [], False)
    policies = by_name(told)
    assert list(policies) == list(PRESETS)
    for one in policies.values():
        assert sum(one["rows"].values()) + one["skipped"] == len(ROWS)
    joined = [one["rows"]["joined"] for one in policies.values()]
    assert joined == sorted(joined)
    assert joined[0] < joined[-1]
    for name in PRESETS:
        run = memsieve("run", "notes.csv", "--store", name, "--policy", name, "--json").json()
        kinds, rows = run["decisions"], policies[name]["rows"]
        assert kinds["merge"] + kinds["reinforce"] == rows["joined"]
        assert kinds["replace"] == rows["replaced"]
        kept = memsieve("memory", "list", "--store", name, "--json").json()
        assert len(kept) == policies[name]["memories"]


@pytest.mark.usefixtures("notes")
def test_who_is_asked_gets_the_preset_that_agrees_and_labelled_pairs(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = memsieve("try", "notes.csv", "--json").json()["questions"]
    typed(monkeypatch, "what?", *["d"] * (len(questions) - 1), " ")
    asked = memsieve("try", "notes.csv", "--ask", *SAVED)
    assert asked.code == 0, asked.err
    count = len(questions) - 1
    assert f"of {count} answers, agree: careful with " in asked.out
    assert "careful fits best; so few answers cannot surely tell it from " in asked.out
    assert 'In memsieve.toml: policy = "careful"' in asked.out
    assert "the hardest pairs" in asked.out
    assert "Thresholds of your own take 30 answers or more" in asked.out
    assert asked.out.endswith("memsieve run notes.csv --policy careful\n")
    saved = lines_of("answers.jsonl")
    assert [(row["a"], row["b"], row["label"]) for row in saved] == [
        (one["a"], one["b"], "distinct") for one in questions[:-1]
    ]
    measured = memsieve("policy", "evaluate", "answers.jsonl", "--json").json()
    assert measured["rows"]["measured"] == count
    refused = memsieve("policy", "calibrate", "answers.jsonl")
    assert (refused.code, "pairs of two facts in the half" in refused.err) == (2, True)


@pytest.mark.usefixtures("notes")
def test_answers_given_before_count_and_other_pairs_are_asked(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memsieve("try", "notes.csv", *SAVED).code == 0
    rows = lines_of("answers.jsonl")
    assert {row["label"] for row in rows} == {None}
    first, *others = rows
    write(Path("answers.jsonl"), {**first, "label": "same"})
    told = memsieve("try", "notes.csv", "--answers", "answers.jsonl", "--json").json()
    assert told["answers"] == 1
    assert {one["of"] for one in told["agreed"].values()} == {1}
    assert told["fits"] in PRESETS
    assert [(one["a"], one["b"]) for one in told["questions"]] == [
        (one["a"], one["b"]) for one in others
    ]
    typed(monkeypatch, "s", "q")
    again = memsieve("try", "notes.csv", "--answers", "answers.jsonl", "--ask", *SAVED)
    assert "of 2 answers, agree:" in again.out
    assert [row["label"] for row in lines_of("answers.jsonl")] == ["same", "same"]


@pytest.mark.covers("B42")
@pytest.mark.usefixtures("notes")
def test_enough_answers_name_the_command_that_fits_thresholds(memsieve: Memsieve) -> None:
    pairs = [
        {"a": f"Box {n} is in room {n}.", "b": f"Box {n} is in room {n + 1}.", "label": "distinct"}
        for n in range(60)
    ]
    write(Path("answers.jsonl"), *pairs)
    told = memsieve("try", "notes.csv", "--answers", "answers.jsonl").out
    [command] = [line.partition(": ")[2] for line in told.splitlines() if "calibrate" in line]
    assert command.startswith("memsieve policy calibrate answers.jsonl --hidden-rate 0.")
    fitted = memsieve(*command.split()[1:])
    assert fitted.code == 0, fitted.err
    own = memsieve("try", "notes.csv", "--policy", "mine.toml", "--policy", "default", "--json")
    assert list(by_name(own.json())) == ["mine.toml", "default"]


@pytest.mark.usefixtures("notes")
def test_a_person_at_a_terminal_is_asked() -> None:
    terminal = Terminal(*COMMAND, "try", "notes.csv", *SAVED)
    terminal.wait_for("1 of ", seconds=60)
    terminal.wait_for("q quit")
    terminal.type("s\n")
    terminal.wait_for("2 of ")
    terminal.wait_for("q quit")
    terminal.type("q\n")
    terminal.wait_for("of 1 answer, agree:")
    terminal.wait_for("nothing was kept")
    assert terminal.ended() == 0
    assert [row["label"] for row in lines_of("answers.jsonl")] == ["same"]


@pytest.mark.usefixtures("notes")
def test_who_interrupts_keeps_the_answers_given_so_far() -> None:
    terminal = Terminal(*COMMAND, "try", "notes.csv", *SAVED)
    terminal.wait_for("q quit", seconds=60)
    terminal.type("d\n")
    terminal.wait_for("2 of ")
    terminal.wait_for("q quit")
    terminal.interrupt()
    assert terminal.ended() == 130
    assert [row["label"] for row in lines_of("answers.jsonl")] == ["distinct"]


@pytest.mark.usefixtures("notes")
def test_a_policy_of_ones_own_is_tried_beside_the_presets(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIEVE_POLICY", "keep-both")
    policies = by_name(memsieve("try", "notes.csv", "--json").json())
    assert list(policies) == [*PRESETS, "keep-both"]
    assert policies["keep-both"]["rows"]["kept"] == len(ROWS)


@pytest.mark.usefixtures("notes")
def test_rows_beyond_the_limit_are_told(memsieve: Memsieve) -> None:
    shown = memsieve("try", "notes.csv", "--limit", "3", "--json")
    assert (shown.json()["rows"], shown.json()["more"]) == (3, True)
    assert "stopped after 3 rows, and there are more: raise --limit" in shown.err
    whole = memsieve("try", "notes.csv", "--limit", len(ROWS), "--json")
    assert (whole.json()["more"], "stopped" in whole.err) == (False, False)


def test_rows_that_cannot_be_used_are_named(memsieve: Memsieve) -> None:
    good, bad = {"text": ROWS[0][2], "scope": "ana"}, {"text": ROWS[0][2], "scope": "*"}
    write(Path("some.jsonl"), good, *[bad] * 5)
    some = memsieve("try", "some.jsonl", "--json")
    assert some.code == 0
    assert len(some.json()["left_out"]) == 5
    assert "left out: some.jsonl:2: scope holds the wildcard *" in some.err
    assert "and 2 more rows were left out" in some.err
    write(Path("none.jsonl"), bad)
    none = memsieve("try", "none.jsonl")
    assert (none.code, none.out) == (2, "")
    assert "no row could be used, such as none.jsonl:1: scope holds" in none.err


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("notes.csv", "--ask", "--json"), "--ask and --json: nobody can be asked"),
        (("-", "--ask"), "--ask: standard input has the rows"),
        (("notes.csv", "--text-field", "remrak"), "did you mean --text-field remark?"),
        (("notes.csv", "--policy", "carefu"), "did you mean careful?"),
        (("notes.csv", "--model", HASHING), "policy careful is calibrated for"),
        (("notes.csv", "--save-answers", "no/answers.jsonl"), "there is no directory no"),
        (("notes.csv", "--answers", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_work(
    memsieve: Memsieve, arguments: tuple[str, ...], reason: str
) -> None:
    refused: Result = memsieve("try", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert reason in refused.err
