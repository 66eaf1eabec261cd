"""`memsieve memory sessions` over a store that `memsieve run` has made: counted, and ended."""

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Memsieve

COFFEE = "Ana likes coffee."
ROWS = (
    {"text": COFFEE, "session": "one"},
    {"text": COFFEE.upper(), "session": "one"},
    {"text": f"{COFFEE} Ana also likes coffee with milk.", "session": "two"},
    {"text": "Bo has a red bicycle.", "scope": "acme/bo"},
)


@pytest.fixture(autouse=True)
def _store(memsieve: Memsieve, tmp_path: Path) -> None:
    with (tmp_path / "rows.jsonl").open("w", encoding="utf-8") as rows:
        for minute, row in enumerate(ROWS):
            at = f"2026-03-01T09:0{minute}:00Z"
            rows.write(json.dumps({"scope": "acme/ana", "occurred_at": at, **row}) + "\n")
    assert memsieve("run", "rows.jsonl", "--store", "store").code == 0


@pytest.mark.covers("S0.71", "S0.73")
def test_each_session_is_counted(memsieve: Memsieve) -> None:
    told = memsieve("memory", "sessions", "list", "--store", "store", "--json").json()
    assert [(one["episode_id"], one["events"]) for one in told] == [
        ("one", 2),
        ("two", 1),
        (None, 1),
    ]
    assert told[0]["duplicates_prevented"] == told[0]["metadata_updates"] == 1
    assert told[1]["supersessions_from_near_duplicates"] == 1
    assert told[1]["timestamp"] == "2026-03-01T09:02:00+00:00"
    shown = memsieve("memory", "sessions", "list", "--store", "store")
    assert shown.out.splitlines()[1:] == [
        "       2       1       1           0  one",
        "       1       0       0           1  two",
        "       1       1       0           0  (none named)",
    ]


def test_the_list_can_be_narrowed(memsieve: Memsieve) -> None:
    below = memsieve(
        "memory", "sessions", "list", "--store", "store", "--scope", "acme/bo", "--json"
    ).json()
    assert [one["episode_id"] for one in below] == [None]
    newest = memsieve("memory", "sessions", "list", "--store", "store", "--limit", 1)
    assert "(none named)" in newest.out
    assert "2 more sessions" in newest.err
    nothing = memsieve("memory", "sessions", "list", "--store", "store", "--scope", "acme/cleo")
    assert (nothing.out, nothing.err.strip()) == ("", "no sessions")


def episode(text: str, session: str, persistence: str = "ephemeral", **fields: object) -> str:
    row = {"text": text, "session": session, "persistence": persistence, "scope": "game/5"}
    return json.dumps({**row, "occurred_at": "2026-03-02T09:00:00Z", **fields}) + "\n"


@pytest.mark.covers("S0.30", "S0.83", "B23")
def test_what_was_for_a_session_alone_ends_with_it(memsieve: Memsieve, tmp_path: Path) -> None:
    (tmp_path / "game.jsonl").write_text(
        episode("The thief is in the next room.", "3")
        + episode("The lamp is on.", "3")
        + episode("The lamp is on.", "4", event_id="again")
        + episode("The grating needs a key.", "3", "permanent")
        + episode("A bat carried the sword away.", "3", scope="game/6")
        + episode("The cyclops sleeps.", "3", pinned=True)
    )
    assert memsieve("run", "game.jsonl", "--store", "s").code == 0
    options = ("--store", "s", "--author", "game", "--scope", "game")
    assert memsieve("memory", "sessions", "end", "3", *options, "--json").json() == {
        "session": "3",
        "ended": 2,
        "stay": 1,
    }
    live = {one["text"] for one in memsieve("memory", "list", "--store", "s", "--json").json()}
    assert live == {"The lamp is on.", "The grating needs a key.", "The cyclops sleeps."}
    again = memsieve("memory", "sessions", "end", "3", *options)
    assert again.out.splitlines() == [
        "ended         0   ephemeral memories of this session only",
        "stay          1   pinned, or changed meanwhile",
    ]
    back = episode("The thief is in the next room.", "4", event_id="back")
    (tmp_path / "game.jsonl").write_text(back)
    assert memsieve("run", "game.jsonl", "--store", "s", "--json").json()["decisions"]["insert"]


def test_of_a_session_that_nobody_knows_nothing_ends(memsieve: Memsieve) -> None:
    told = memsieve(
        "memory", "sessions", "end", "nine", "--store", "store", "--author", "game", "--json"
    )
    assert (told.code, told.json()) == (0, {"session": "nine", "ended": 0, "stay": 0})


def test_a_session_that_is_not_there_is_told_with_those_that_are(memsieve: Memsieve) -> None:
    result = memsieve("memory", "sessions", "end", "on", "--store", "store")
    assert result.err.endswith("no session on; others are: one, two\n")
    assert "no session" not in memsieve("memory", "sessions", "end", "one", "--store", "store").err
