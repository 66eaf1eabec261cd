"""The example game: turns of three sessions in eight places, and what comes of them."""

import json
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from schemas.codec import TURN
from streams.store.app import policies
from tests.commands.conftest import COMMAND, Memsieve

EXAMPLES = Path(__file__).parents[3] / "examples"
GAME = EXAMPLES / "game"
RECORDED_MODEL = EXAMPLES / "model" / "recorded_model.py"
TURNS = [TURN.decode(line) for line in (GAME / "turns.jsonl").read_bytes().splitlines()]
ANSWERS = [json.loads(line) for line in (GAME / "answers.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture
def worded(tmp_path: Path) -> Path:
    """Return the events of the game in the words of the answers that are played back."""
    made = tmp_path / "worded.jsonl"
    extract = ("extract", str(GAME / "turns.jsonl"), "--llm", "--out", str(made))
    subprocess.run([sys.executable, str(RECORDED_MODEL), *COMMAND, *extract], check=True)
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
    kept = memsieve("memory", "list", "--store", store, "--retired", "--json").json()
    retired = {one["title"] for one in kept if one["status"] == "superseded"}
    assert retired == {"Pitch out of reach", "Locked drawer", "Green door is locked"}


@pytest.mark.covers("S3.43")
def test_a_session_adds_no_more_to_the_file_than_the_document_foresees(
    memsieve: Memsieve, worded: Path, tmp_path: Path
) -> None:
    """Seven KB at most, and less each time: what is known already adds nothing."""
    rows, sizes = worded.read_text("utf-8").splitlines(keepends=True), [0]
    events, store, file = (tmp_path / name for name in ("events.jsonl", "store", "M.md"))
    for session in ("1", "2", "3"):
        here = (row for row in rows if json.loads(row)["session"] == session)
        events.write_text("".join(here), "utf-8")
        memsieve("run", events, "--store", store, "--policy", "memories-md")
        file.unlink(missing_ok=True)
        memsieve("memories-md", "export", file, "--world", "skerry", "--store", store)
        sizes.append(file.stat().st_size)
    first, second, third = (now - before for before, now in pairwise(sizes))
    assert 7_000 > first > second > third > 0


@pytest.mark.covers("S3.43")
def test_after_a_hundred_episodes_the_file_is_no_larger_than_the_document_foresees(
    memsieve: Memsieve, worded: Path, tmp_path: Path
) -> None:
    """At most 200 KB: an agent that finds the same out again and again adds counts, not entries."""
    rows = [json.loads(line) for line in worded.read_text("utf-8").splitlines()]
    events, file = tmp_path / "events.jsonl", tmp_path / "M.md"
    with events.open("w", encoding="utf-8") as lines:
        for again in range(34):
            for row in rows:
                session = str(3 * again + int(row["session"]))
                changed = {"event_id": f"{row['event_id']}-{again}", "session": session}
                lines.write(json.dumps(row | changed) + "\n")
    store = ("--store", tmp_path / "store", "--json")
    told = memsieve("run", events, *store, "--policy", "memories-md", "--index", "exact").json()
    memsieve("memories-md", "export", file, "--world", "skerry", *store)
    said = sum(len(row["text"].encode()) for row in rows)
    assert told["events"] == 34 * len(rows)
    assert said < file.stat().st_size < 34 * said
    assert file.stat().st_size <= 200_000
    assert "100" in file.read_text("utf-8"), "the last episodes are told of"


@pytest.mark.covers("S3.25", "S3.47")
def test_what_the_world_repeats_in_every_session_is_kept_once(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    sentences, store, file = (tmp_path / name for name in ("events.jsonl", "store", "M.md"))
    memsieve("extract", GAME / "turns.jsonl", "--out", sentences)
    memsieve("run", sentences, "--store", store, "--policy", "memories-md")
    memsieve("memories-md", "export", file, "--world", "skerry", "--store", store)
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
    block = memsieve("search", "--block", "--scope", "skerry/6", "--store", store).out.splitlines()
    assert block[1].startswith("- [DANGER] Ninth stair is deadly")


def test_every_answer_belongs_to_a_turn() -> None:
    heard = [part.text for turn in TURNS for part in turn.said if part.by == "world"]
    silent = [one["world"] for one in ANSWERS if not any(_begins(text, one) for text in heard)]
    assert silent == []


def _begins(text: str, answer: Mapping[str, Any]) -> bool:
    return text.startswith(answer["world"])


def kept(memsieve: Memsieve, directory: Path, policy: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the game's Memories.md by a policy, and all memories of each place as a block."""
    store, file = directory / "store", directory / "M.md"
    memsieve("extract", GAME / "turns.jsonl", "--out", directory / "events.jsonl")
    memsieve("run", directory / "events.jsonl", "--store", store, "--policy", policy)
    memsieve("memories-md", "export", file, "--world", "skerry", "--store", store)
    limits = ("--budget", 9_999, "--lasting", 999, "--recent", 999)
    return file.read_text("utf-8"), [
        memsieve(
            "search", "--block", "--scope", f"skerry/{n}", "--store", store, *limits, "--json"
        ).json()
        for n in range(1, 9)
    ]


@pytest.mark.covers("S0.74", "S0.3", "S2.32")
def test_file_and_context_are_smaller_than_without_dedup(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / "off.toml").write_text(
        f"{policies.text('zork-semantic')}\n[scopes.skerry]\nenabled = false\n", "utf-8"
    )
    sizes: list[int] = []
    tokens: list[int] = []
    for number, policy in enumerate(("zork-semantic", tmp_path / "off.toml")):
        directory = tmp_path / str(number)
        directory.mkdir()
        file, blocks = kept(memsieve, directory, str(policy))
        sizes.append(len(file))
        tokens.append(sum(block["tokens"] for block in blocks))
    assert sizes[0] <= 0.8 * sizes[1]
    assert tokens[0] <= 0.9 * tokens[1]


@pytest.mark.covers("S3.1", "S3.4", "S3.6")
def test_every_place_that_was_visited_is_recalled_in_few_tokens(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """The document asks for 80 % of the places, and for at most 500 tokens."""
    file, _ = kept(memsieve, tmp_path, "memories-md")
    store = ("--store", tmp_path / "store", "--json")
    blocks = [
        memsieve("search", "--block", "--scope", f"skerry/{n}", *store).json() for n in range(1, 9)
    ]
    assert all(block["memories"] for block in blocks)
    assert max(block["tokens"] for block in blocks) <= 300
    assert max(len(block["block"]) for block in blocks) < len(file) / 10
