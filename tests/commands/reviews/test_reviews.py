"""`memsieve reviews`: questions are listed, shown, answered, and exported as labels."""

import json
from pathlib import Path
from typing import Any

import pytest

from streams.store.world.store_directory import StoreDirectory
from tests.commands.conftest import COMMAND, Memsieve, Result, write_events
from tests.support.machine.terminal import Terminal

POLICY = """
name = "asking"
model = "sentence-transformers/all-MiniLM-L6-v2"
guards = false
judges = { chain = [] }
bands = { match = 1.0, review = 0.7, log = 0.7 }
without_verdict = { review = "review" }
calibration = { dataset = "none", date = "2026-03-01", command = "none" }
"""
"""Nobody judges: whatever is similar is put to a person."""

BEES, HIVES = "Ana keeps bees on the roof.", "Ana keeps bees on her roof."
GOATS, SHEEP = "Bo feeds the goats at dawn.", "Bo feeds the sheep at dawn."
STORE = ("--store", "store")


@pytest.fixture(autouse=True)
def _store(memsieve: Memsieve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a store in which two questions are asked."""
    monkeypatch.setenv("MEMSIEVE_REVIEWS__AUTHOR", "cleo")
    (tmp_path / "asking.toml").write_text(POLICY, encoding="utf-8")
    monkeypatch.setenv("MEMSIEVE_POLICY", "asking.toml")
    write_events(tmp_path / "ana.jsonl", BEES, HIVES)
    write_events(tmp_path / "bo.jsonl", GOATS, SHEEP, scope="acme/bo")
    assert memsieve("run", "ana.jsonl", "bo.jsonl", *STORE).code == 0


def reviews(memsieve: Memsieve, command: str, *arguments: object) -> Result:
    return memsieve("reviews", command, *arguments, *STORE)


def listed(memsieve: Memsieve, *options: str) -> list[Any]:
    return reviews(memsieve, "list", "--json", *options).json()


def question_of(memsieve: Memsieve, scope: str) -> str:
    [question] = listed(memsieve, "--scope", scope)
    return question["id"]


def live(memsieve: Memsieve) -> set[str]:
    return {one["text"] for one in memsieve("memory", "list", *STORE, "--json").json()}


@pytest.mark.covers("B40")
def test_open_questions_are_listed_with_both_texts_a_line_each(memsieve: Memsieve) -> None:
    lines = reviews(memsieve, "list").out.splitlines()
    assert len(lines) == 2
    [line] = reviews(memsieve, "list", "--scope", "acme/ana").out.splitlines()
    identity = question_of(memsieve, "acme/ana")
    assert line.startswith(f"{identity}  0.9")
    assert f'review  acme/ana  "{HIVES}" / "{BEES}"' in line
    limited = reviews(memsieve, "list", "--limit", "1")
    assert len(limited.out.splitlines()) == 1
    assert limited.err == "1 more question: raise --limit to see all\n"
    assert reviews(memsieve, "list", "--scope", "acme/eve").err == "no questions\n"


@pytest.mark.covers("B40")
def test_a_question_is_shown_with_all_that_a_person_needs(memsieve: Memsieve) -> None:
    identity = question_of(memsieve, "acme/ana")
    told = reviews(memsieve, "show", identity[:8]).out
    [question] = listed(memsieve, "--scope", "acme/ana")
    beside = next(line for line in told.splitlines() if HIVES in line)
    assert beside.endswith(BEES)
    for part in (
        identity,
        "scope      acme/ana",
        f"by decision {question['decision_id']}",
        "state      open",
        question["newer"]["id"],
        question["older"]["id"],
        f"similarity {question['compared']['similarity']:.3f}  review",
        "similar; may state the same fact (bands)",
    ):
        assert part in told
    assert reviews(memsieve, "show", identity, "--json").json() == question
    assert memsieve("explain", question["decision_id"], *STORE).out.count(identity) == 1


@pytest.mark.covers("B40")
def test_an_answer_is_decided_and_applied_at_once(memsieve: Memsieve) -> None:
    identity = question_of(memsieve, "acme/ana")
    [question] = listed(memsieve, "--scope", "acme/ana")
    result = reviews(memsieve, "answer", identity[:8], "same", "--note", "the one roof")
    newer, older = question["newer"]["id"], question["older"]["id"]
    assert result.code == 0
    assert result.out == (
        f"answered  {identity}  same\n"
        f"replace: memory {older} replaces {newer}, because cleo said that both say the same\n"
    )
    assert live(memsieve) == {BEES, GOATS, SHEEP}
    assert len(listed(memsieve)) == 1
    [closed] = [one for one in listed(memsieve, "--all") if one["state"] != "open"]
    assert (closed["state"], closed["answer"]["author"]) == ("answered", "cleo")
    assert "answered same by cleo, 2026" in (told := reviews(memsieve, "show", identity).out)
    assert '"the one roof"' in told
    assert memsieve("check", "--full", *STORE).code == 0
    history = memsieve("explain", closed["answer"]["event_id"], *STORE).out
    assert f"cleo: memory {newer} says the same as memory {older}" in history
    assert memsieve("decisions", *STORE).code == 0
    assert memsieve("explain", older, *STORE).code == 0


def test_two_that_are_distinct_stay_two_and_the_question_is_closed(memsieve: Memsieve) -> None:
    identity = question_of(memsieve, "acme/bo")
    told = reviews(memsieve, "answer", identity, "distinct", "--author", "dora", "--json").json()
    assert (told["review_id"], told["verdict"]) == (identity, "distinct")
    assert [one["kind"] for one in told["decisions"]] == ["revise"]
    assert (told["published"], told["undecided"]) == ([], [])
    assert {GOATS, SHEEP} <= live(memsieve)
    assert [one["scope"] for one in listed(memsieve)] == ["acme/ana"]
    refused = reviews(memsieve, "answer", identity, "same")
    assert (refused.code, refused.out) == (2, "")
    assert f"question {identity} is closed: answered distinct by dora" in refused.err


def test_a_question_whose_memories_have_changed_is_moot(memsieve: Memsieve) -> None:
    [question] = listed(memsieve, "--scope", "acme/ana")
    retired = ("retire", question["older"]["id"], "--reason", "invalid")
    assert memsieve("memory", *retired, *STORE).code == 0
    assert live(memsieve) == {HIVES, GOATS, SHEEP}
    assert [one["scope"] for one in listed(memsieve)] == ["acme/bo"]
    refused = reviews(memsieve, "answer", question["id"], "same")
    assert refused.code == 2
    assert "is closed: moot: one of the two is gone or has changed" in refused.err


def test_who_answers_is_the_option_the_setting_or_the_login(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "zoe")
    assert reviews(memsieve, "answer", question_of(memsieve, "acme/ana"), "distinct").code == 0
    monkeypatch.delenv("MEMSIEVE_REVIEWS__AUTHOR")
    assert reviews(memsieve, "answer", question_of(memsieve, "acme/bo"), "distinct").code == 0
    authors = {one["scope"]: one["answer"]["author"] for one in listed(memsieve, "--all")}
    assert authors == {"acme/ana": "cleo", "acme/bo": "zoe"}


def test_what_is_asked_for_must_be_clear(memsieve: Memsieve) -> None:
    identity = question_of(memsieve, "acme/ana")
    for arguments, code, reason in (
        (("answer", identity), 2, "the verdict is missing: write same, refines, refined-by,"),
        (("answer", identity, "yes"), 2, "the verdict is yes: write same, refines, refined-by,"),
        (("answer", identity, "same", "--author", " "), 2, "--author is empty: say who asks"),
        (("answer", identity, "same", "--author", "a\nb"), 2, "--author: "),
        (("answer", identity, "same", "--note", "x" * 2_001), 2, "--note: "),
        (("answer", "nothing", "same"), 5, "no question in store has the id nothing"),
        (("answer", "", "same"), 2, "ID is empty"),
        (("show", ""), 2, "ID is empty"),
        (("show", "nothing"), 5, "no question in store has the id nothing"),
        (("answer",), 2, "there is no terminal to ask on: give ID and a verdict"),
        (("answer", "--json"), 2, "--json answers one question: give ID and a verdict"),
    ):
        result = reviews(memsieve, *arguments)
        assert (result.code, result.out) == (code, "")
        assert reason in result.err
    assert len(listed(memsieve)) == 2


def test_of_a_question_s_id_six_characters_are_written_at_least(memsieve: Memsieve) -> None:
    identity = question_of(memsieve, "acme/ana")
    for arguments in (("show", identity[:5]), ("answer", identity[:5], "same")):
        result = reviews(memsieve, *arguments)
        assert (result.code, result.out) == (2, "")
        assert (
            f"{identity[:5]} is no id or name; to shorten an id, write 6 characters" in result.err
        )
    assert reviews(memsieve, "show", identity[:6]).code == 0


def test_a_store_that_is_being_written_is_read_and_not_answered(memsieve: Memsieve) -> None:
    identity = question_of(memsieve, "acme/ana")
    directory = StoreDirectory(Path("store"))
    with directory.written_by_us(directory.require()):
        result = reviews(memsieve, "answer", identity, "same")
        assert (result.code, result.out) == (3, "")
        assert "is being written by another memsieve" in result.err
        assert len(listed(memsieve)) == 2
    for command in ("list", "show x", "answer x same", "export"):
        result = memsieve("reviews", *command.split(), "--store", "none")
        assert (result.code, "none holds no store" in result.err) == (3, True)


@pytest.mark.covers("B40", "B42")
def test_answers_are_labels_that_evaluate_reads(memsieve: Memsieve) -> None:
    for scope, verdict in (("acme/ana", "same"), ("acme/bo", "distinct")):
        assert reviews(memsieve, "answer", question_of(memsieve, scope), verdict).code == 0
    exported = reviews(memsieve, "export")
    assert exported.err == "2 answered questions\n"
    rows = [json.loads(line) for line in exported.out.splitlines()]
    assert [{**row, "id": ""} for row in rows] == [
        {"id": "", "a": HIVES, "b": BEES, "label": "same", "kind": "review", "scope": "acme/ana"},
        {
            "id": "",
            "a": SHEEP,
            "b": GOATS,
            "label": "distinct",
            "kind": "review",
            "scope": "acme/bo",
        },
    ]
    reviews(memsieve, "export", "--out", "pairs.jsonl", "--scope", "acme/bo")
    [line] = Path("pairs.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line) == rows[1]
    measured = memsieve("policy", "evaluate", "pairs.jsonl", "--json")
    assert measured.code == 0, measured.err


def test_a_replay_decides_on_answers_as_it_was_decided(memsieve: Memsieve) -> None:
    assert reviews(memsieve, "answer", question_of(memsieve, "acme/ana"), "refines").code == 0
    for options in ((), ("--events",)):
        replayed = memsieve("store", "replay", "redecide", "--dry-run", *STORE, *options)
        assert replayed.code == 0, replayed.err
        assert "5 events compared, 0 decided otherwise" in replayed.out
    assert memsieve("store", "replay", "redecide", "--into", "anew", *STORE).code == 0
    assert (
        memsieve("memory", "list", "--store", "anew").out == memsieve("memory", "list", *STORE).out
    )


def test_what_was_published_cannot_steer_the_terminal(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(
        tmp_path / "x.jsonl", "Eve\x1b[2J rows the boat.", "Eve\x1b[2J rows a boat.", scope="x"
    )
    assert memsieve("run", "x.jsonl", *STORE).code == 0
    shown = reviews(memsieve, "show", question_of(memsieve, "x")).out
    assert "\x1b" not in shown + reviews(memsieve, "list").out


@pytest.mark.covers("B40")
def test_a_person_answers_one_question_after_the_other(memsieve: Memsieve) -> None:
    terminal = Terminal(*COMMAND, "reviews", "answer", *STORE)
    terminal.wait_for("q quit")
    terminal.type("what?\n")
    terminal.wait_for("q quit")
    terminal.type(" \n")  # the other one first
    terminal.wait_for("q quit")
    terminal.type("S\n")
    terminal.wait_for("answered  ")
    assert terminal.ended() == 0
    assert len(listed(memsieve)) == 1
    terminal = Terminal(*COMMAND, "reviews", "answer", *STORE)
    terminal.wait_for("q quit")
    terminal.type("q\n")
    assert terminal.ended() == 0
    assert len(listed(memsieve)) == 1
