"""The example game: turns of three sessions in eight places, and what comes of them."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schemas.codec import TURN
from tests.commands.conftest import COMMAND, Memsieve

GAME = Path(__file__).parents[2] / "examples" / "game"
TURNS = [TURN.decode(line) for line in (GAME / "turns.jsonl").read_bytes().splitlines()]
ANSWERS = [json.loads(line) for line in (GAME / "answers.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture
def worded(tmp_path: Path) -> Path:
    """Return the events of the game in the words of the answers that are played back."""
    made = tmp_path / "worded.jsonl"
    extract = ("extract", str(GAME / "turns.jsonl"), "--llm", "--out", str(made))
    subprocess.run(
        [sys.executable, str(GAME / "recorded_model.py"), *COMMAND, *extract], check=True
    )
    return made


def test_it_has_three_sessions_in_eight_places() -> None:
    assert len({turn.turn_id for turn in TURNS}) == len(TURNS) == 117
    assert {turn.session for turn in TURNS} == {"1", "2", "3"}
    assert len({turn.scope for turn in TURNS}) == 8


@pytest.mark.covers("S3.23", "S3.26")
def test_a_model_says_each_thing_once_and_what_is_outdated_is_superseded(
    memsieve: Memsieve, worded: Path, tmp_path: Path
) -> None:
    events = [json.loads(line) for line in worded.read_text("utf-8").splitlines()]
    said = {one["text"] for one in events}
    assert said <= {one["text"] for one in ANSWERS}
    store = tmp_path / "store"
    told = memsieve("run", worded, "--store", store, "--policy", "memories-md", "--json").json()
    assert told["decisions"]["replace"] == 3
    kept = memsieve("memories", "--store", store, "--retired", "--json").json()
    retired = {one["title"] for one in kept if one["status"] == "superseded"}
    assert retired == {"Pitch out of reach", "Locked drawer", "Green door is locked"}


@pytest.mark.covers("S3.25", "S3.47")
def test_what_the_world_repeats_in_every_session_is_kept_once(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    sentences, store, file = (tmp_path / name for name in ("events.jsonl", "store", "M.md"))
    memsieve("extract", GAME / "turns.jsonl", "--out", sentences)
    memsieve("run", sentences, "--store", store, "--policy", "memories-md")
    memsieve("export-md", file, "--world", "skerry", "--store", store)
    text = file.read_text("utf-8")
    assert text.count("\nYou now have the brass hook.\n") == 1
    assert "*(Ep3, T3→T5, +2, seen 3x)*" in text
    places = [f"## Location {number}: " for number in range(1, 9)]
    assert [text.count(place) for place in places] == [1] * 8


def test_the_block_for_the_prompt_warns_of_what_killed(
    memsieve: Memsieve, worded: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    memsieve("run", worded, "--store", store, "--policy", "memories-md")
    block = memsieve("recall", "--scope", "skerry/6", "--store", store).out.splitlines()
    assert block[1].startswith("- [DANGER] Ninth stair is deadly")


def test_every_answer_belongs_to_a_turn() -> None:
    heard = [part.text for turn in TURNS for part in turn.said if part.by == "world"]
    silent = [one["world"] for one in ANSWERS if not any(_begins(text, one) for text in heard)]
    assert silent == []


def _begins(text: str, answer: Mapping[str, Any]) -> bool:
    return text.startswith(answer["world"])
