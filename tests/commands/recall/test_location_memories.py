"""The location-memory document's integration tests: sightings of a game, by the real model.

Each runs the command line with the policy zork-semantic, as a person would, and reads the
Memories.md that comes of it. Where the document fixes a similarity that the real model does not
give, `tests/unit/presets/test_zork_semantic.py` has the test.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from schemas.decisions import Reinforce
from streams.store.app import policies
from tests.commands.conftest import Memsieve, start
from tests.support.stage.stores import decisions

WORLD = "zork"
TRAP_DOOR = "Trap door bars after descending."
NINE_SIGHTINGS = (
    TRAP_DOOR,
    "Trap door bars after descending",
    "trap door bars after descending",
    "The trap door bars after descending.",
    "A trap door bars after descending",
    "A trap door bars after descending.",
    "TRAP DOOR BARS AFTER DESCENDING.",
    "Trap door  bars after descending.",
    "The trap door bars after descending",
)
AJAR = "The window is ajar."


def sighting(text: str, place: int, turn: int, *, episode: str = "01", **fields: Any) -> str:
    """Return the row of a memory that a game's agent wrote down at a place."""
    row: dict[str, Any] = {
        "event_id": f"{episode}-T{turn}-{place}",
        "text": text,
        "scope": f"{WORLD}/{place}",
        "occurred_at": f"2026-03-01T09:{turn // 60:02}:{turn % 60:02}Z",
        "session": episode,
        "turn": turn,
        "category": "DISCOVERY",
        "title": "Observation",
        **fields,
    }
    return json.dumps(row)


class Game:
    """A store in the test's directory, with the Memories.md that is kept in step with it."""

    def __init__(self, memsieve: Memsieve) -> None:
        self._memsieve = memsieve
        Path("memsieve.toml").write_text(
            f'[sinks]\nmemories_md = "Memories.md"\nmemories_md_world = "{WORLD}"\n', "utf-8"
        )

    def sees(self, *rows: str, policy: str = "zork-semantic") -> dict[str, Any]:
        """Take sightings in; return what became of them, by kind of decision."""
        Path("rows.jsonl").write_text("".join(f"{row}\n" for row in rows), "utf-8")
        told = self._memsieve("run", "rows.jsonl", "--store", "s", "--policy", policy, "--json")
        assert told.code == 0, told.err
        return {kind: count for kind, count in told.json()["decisions"].items() if count}

    def memories(self, place: int) -> list[dict[str, Any]]:
        below = ("--scope", f"{WORLD}/{place}")
        return self._memsieve("memory", "list", "--store", "s", *below, "--json").json()

    def texts(self, place: int) -> list[str]:
        return [memory["text"] for memory in self.memories(place)]

    @property
    def file(self) -> str:
        return Path("Memories.md").read_text("utf-8")


@pytest.fixture
def game(memsieve: Memsieve) -> Game:
    return Game(memsieve)


@pytest.mark.covers("S0.47", "S0.48", "S0.8", "S0.35", "B74")
def test_exact_duplicate_prevention(game: Game) -> None:
    """The first scenario: count, turns and episode change, in the file as well; nothing is new."""
    assert game.sees(sighting(TRAP_DOOR, 193, 25, title="Trap door bars")) == {"insert": 1}
    assert "**[DISCOVERY] Trap door bars** *(Ep01, T25)*\n" in game.file
    again = sighting(TRAP_DOOR, 193, 48, episode="02", title="Trap door bars")
    assert game.sees(again) == {"reinforce": 1}
    [memory] = game.memories(193)
    assert memory["observation_count"] == 2
    assert memory["turns"] == {"first": 25, "last": 48}
    assert "**[DISCOVERY] Trap door bars** *(Ep02, T25→T48, seen 2x)*\n" in game.file
    assert game.file.count(TRAP_DOOR) == 1


@pytest.mark.covers("S0.47", "S0.33", "S0.35")
def test_observation_count_increment(game: Game) -> None:
    game.sees(*(sighting(TRAP_DOOR, 193, turn) for turn in (25, 30, 48)))
    [memory] = game.memories(193)
    assert memory["observation_count"] == 3
    assert "T25→T48, seen 3x" in game.file


@pytest.mark.covers("S0.47", "S0.9", "S0.15")
def test_near_duplicate_supersession(game: Game) -> None:
    """The second scenario, with a guess and a finding that the real model has at .89."""
    guess, finding = "The troll may be dangerous.", "The troll is dangerous."
    game.sees(sighting(guess, 5, 3, status="tentative"))
    assert game.sees(sighting(finding, 5, 9)) == {"replace": 1}
    [memory] = game.memories(5)
    assert (memory["text"], memory["status"]) == (finding, "active")
    assert "[DISCOVERY - SUPERSEDED]" in game.file
    assert f"~~{guess}~~" in game.file
    seen_since = sighting(guess, 5, 12, status="tentative")
    assert game.sees(seen_since) == {"insert": 1}, "a guess that came later is not dropped"


@pytest.mark.covers("S0.47", "S0.50", "S0.6")
def test_cross_location_distinct_memories(game: Game) -> None:
    """The third scenario: two places, two memories; also where both say the very same."""
    kitchen, chamber = "Window entry leads to Kitchen", "Window entry leads to Chamber"
    here, there = sighting(kitchen, 79, 1), sighting(chamber, 134, 2)
    assert game.sees(here, there, sighting(kitchen, 134, 3)) == {"insert": 3}
    assert game.texts(79) == [kitchen]
    assert sorted(game.texts(134)) == [chamber, kitchen]


@pytest.mark.covers("S0.47", "S2.33", "B74")
def test_real_zork_duplicate_scenarios(game: Game) -> None:
    """Nine entries of one trap door and three of a window at 81, in nearly the same words."""
    doors = [sighting(text, 193, 25 + at) for at, text in enumerate(NINE_SIGHTINGS)]
    windows = [
        sighting(text, 81, 60 + at)
        for at, text in enumerate((AJAR, "Window is ajar.", "the window is ajar"))
    ]
    assert game.sees(*doors, *windows) == {"insert": 2, "reinforce": 10}
    assert [memory["observation_count"] for memory in game.memories(193)] == [9]
    assert [memory["observation_count"] for memory in game.memories(81)] == [3]
    assert game.file.count("**[DISCOVERY]") == 2


@pytest.mark.covers("S0.47", "S0.45", "S0.22")
def test_similarity_threshold_configuration(game: Game) -> None:
    """The real model has these two at .864: above the document's bound, below a stricter one."""
    guess, finding = "The lamp might go out.", "The lamp goes out."
    Path("strict.toml").write_text(
        policies.text("zork-semantic").replace("review = 0.85", "review = 0.90"), "utf-8"
    )
    game.sees(*(sighting(guess, place, place, status="tentative") for place in (1, 2)))
    assert game.sees(sighting(finding, 1, 3)) == {"replace": 1}
    assert game.sees(sighting(finding, 2, 4), policy="strict.toml") == {"insert": 1}


@pytest.mark.covers("S0.47", "S0.21", "S0.66")
def test_deduplication_disabled_via_config(game: Game) -> None:
    Path("off.toml").write_text(
        f'{policies.text("zork-semantic")}\n[scopes."{WORLD}"]\nenabled = false\n', "utf-8"
    )
    rows = (sighting(text, 193, 25 + at) for at, text in enumerate(NINE_SIGHTINGS))
    assert game.sees(*rows, policy="off.toml") == {"insert": 9}
    assert game.file.count("**[DISCOVERY]") == 9


@pytest.mark.covers("S3.39")
def test_the_file_is_kept_under_the_name_that_the_settings_give_it_or_not_at_all(
    game: Game,
) -> None:
    chosen = Path("memsieve.toml")
    chosen.write_text(chosen.read_text("utf-8").replace("Memories.md", "Notes.md"), "utf-8")
    game.sees(sighting(TRAP_DOOR, 193, 1))
    assert TRAP_DOOR in Path("Notes.md").read_text("utf-8")
    chosen.unlink()
    game.sees(sighting(AJAR, 81, 2))
    assert game.texts(81) == [AJAR]
    assert AJAR not in Path("Notes.md").read_text("utf-8")
    assert not Path("Memories.md").exists()


@pytest.mark.covers("S0.47", "S0.5", "S0.4")
def test_large_memory_set(game: Game) -> None:
    """A thousand shelves of one place, which differ in a number: each stays, each repeat counts."""
    shelves = [f"Shelf {number} of the library is locked." for number in range(1_000)]
    told = game.sees(*(sighting(text, 7, at) for at, text in enumerate(shelves)))
    assert told == {"insert": 1_000}
    again = (sighting(text.upper(), 7, at, episode="02") for at, text in enumerate(shelves[::10]))
    assert game.sees(*again) == {"reinforce": 100}
    counts = {memory["text"]: memory["observation_count"] for memory in game.memories(7)}
    assert counts == {text: 1 + (at % 10 == 0) for at, text in enumerate(shelves)}


@pytest.mark.covers("S0.47", "S0.7")
def test_each_decision_tells_what_it_was_compared_with(game: Game) -> None:
    game.sees(sighting(TRAP_DOOR, 193, 1), sighting(NINE_SIGHTINGS[3], 193, 2))
    second = decisions(Path("s"))[1]
    assert isinstance(second, Reinforce)
    [near] = second.evidence.neighbours
    assert near.memory_id == second.target.memory_id
    assert near.similarity > 0.85


def logged(level: str, policy: str = "default") -> list[dict[str, Any]]:
    """Take in two rows that repeat what is known, as a process of its own; return what it logs."""
    run = ("run", "rows.jsonl", "--store", "s", "--policy", policy, "--log", level)
    process = start(*run, cwd=Path.cwd())
    _, told = process.communicate()
    assert process.returncode == 0, told
    return [json.loads(line) for line in told.splitlines() if line.startswith("{")]


@pytest.mark.covers("S0.47", "S0.67", "S0.69", "S0.70")
def test_deduplication_logging(game: Game) -> None:
    game.sees(sighting(TRAP_DOOR, 193, 1, title="Bars"), policy="default")
    shutil.rmtree("s/index")
    rows = [sighting(TRAP_DOOR, 193, turn, title=f"Bars {turn}") for turn in (2, 3)]
    Path("rows.jsonl").write_text("\n".join(rows), "utf-8")
    rebuilt, *told, check = logged("debug")
    found = [one for one in told if one["level"] == "info"]
    checked = [one for one in told if one["event"] == "event checked"]
    assert (rebuilt["event"], rebuilt["memories"], rebuilt["level"]) == ("index rebuilt", 1, "info")
    assert rebuilt["duration_ms"] > 0
    assert [(one["event"], one["level"]) for one in found] == [("duplicate found", "info")] * 2
    assert [one["candidate_title"] for one in found] == ["Bars 2", "Bars 3"]
    assert {one["similarity"] for one in found} == {1.0}
    assert {one["scope"] for one in found} == {"zork/193"}
    assert {one["action"] for one in found} == {"metadata_update"}
    assert [(one["kind"], one["level"]) for one in checked] == [("reinforce", "debug")] * 2
    assert (check["event"], check["level"], check["events"]) == ("deduplication check", "debug", 2)
    assert check["duration_ms"] > 0


@pytest.mark.covers("S0.11", "S0.68")
def test_what_gives_way_and_what_is_somewhat_like_a_memory_is_logged(game: Game) -> None:
    """The real model has the guess and the finding at .89, and the two on a lamp at .83."""
    guess, finding = "The troll may be dangerous.", "The troll is dangerous."
    lamp, light = "The lamp hangs in the hall.", "The lamp in the hall gives light."
    known = sighting(guess, 5, 3, status="tentative", title="Troll")
    game.sees(known, sighting(lamp, 6, 4, title="Lamp"))
    rows = [sighting(finding, 5, 9, title="Mean troll"), sighting(light, 6, 10, title="Light")]
    Path("rows.jsonl").write_text("\n".join(rows), "utf-8")
    gone, similar = (one for one in logged("debug", "zork-semantic") if one["level"] != "debug")
    assert (gone["event"], gone["level"]) == ("near-duplicate superseded", "info")
    assert (gone["superseded_titles"], gone["memory_title"]) == (["Troll"], "Mean troll")
    assert (gone["action"], gone["similarity"]) == ("supersession", 0.89)
    assert (similar["event"], similar["level"]) == ("similar memory kept", "warning")
    assert (similar["similar_title"], similar["memory_title"]) == ("Lamp", "Light")
    assert 0.75 <= similar["similarity"] < 0.85


@pytest.mark.covers("S0.67")
def test_logged_with_less_detail_a_line_has_no_words_of_a_memory(game: Game) -> None:
    game.sees(sighting(TRAP_DOOR, 193, 1, title="Bars"), policy="default")
    rows = [sighting(TRAP_DOOR, 193, turn, title=f"Bars {turn}") for turn in (2, 3)]
    Path("rows.jsonl").write_text("\n".join(rows), "utf-8")
    found = logged("info")
    assert [one["event"] for one in found] == ["duplicate found"] * 2
    assert not any(word in json.dumps(found).lower() for word in ("trap", "bars"))
    Path("rows.jsonl").write_text(sighting(TRAP_DOOR, 193, 4), "utf-8")
    assert logged("none") == []


@pytest.mark.covers("S0.71", "S0.72", "S0.73")
def test_metrics_are_written_with_the_keys_that_the_document_lists(
    game: Game, memsieve: Memsieve
) -> None:
    game.sees(sighting(TRAP_DOOR, 193, 1))
    shutil.rmtree("s/index")
    doors = (sighting(text, 193, 5 + at, episode="02") for at, text in enumerate(NINE_SIGHTINGS))
    Path("rows.jsonl").write_text("\n".join([*doors, "{"]), "utf-8")
    options = ("--store", "s", "--policy", "zork-semantic", "--metrics", "metrics.json")
    assert memsieve("run", "rows.jsonl", *options).code == 0
    told = json.loads(Path("metrics.json").read_text("utf-8"))
    assert told["avg_deduplication_time_ms"] > 0
    counts = {name: told[name] for name in told if name.endswith(("_count", "_size", "ed"))}
    assert counts == {
        "duplicates_prevented": 9,
        "embedding_cache_size": 1,
        "embedding_cache_rebuild_count": 1,
        "deduplication_error_count": 0,
    }
    assert (told["metadata_updates"], told["supersessions_from_near_duplicates"]) == (9, 0)
    [episode] = told["sessions"]
    assert episode["event_type"] == "deduplication_metrics"
    assert (episode["episode_id"], episode["duplicates_prevented"]) == ("02", 9)
    assert episode["avg_check_time_ms"] > 0
    nowhere = memsieve("run", "rows.jsonl", "--store", "s", "--metrics", "no/metrics.json")
    assert nowhere.code == 2
    assert "--metrics no/metrics.json" in nowhere.err
