"""`memsieve sessions` over a store that `memsieve run` has made."""

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
    told = memsieve("sessions", "--store", "store", "--json").json()
    assert [(one["episode_id"], one["events"]) for one in told] == [
        ("one", 2),
        ("two", 1),
        (None, 1),
    ]
    assert told[0]["duplicates_prevented"] == told[0]["metadata_updates"] == 1
    assert told[1]["supersessions_from_near_duplicates"] == 1
    assert told[1]["timestamp"] == "2026-03-01T09:02:00+00:00"
    shown = memsieve("sessions", "--store", "store")
    assert shown.out.splitlines()[1:] == [
        "       2       1       1           0  one",
        "       1       0       0           1  two",
        "       1       1       0           0  (none named)",
    ]


def test_the_list_can_be_narrowed(memsieve: Memsieve) -> None:
    below = memsieve("sessions", "--store", "store", "--scope", "acme/bo", "--json").json()
    assert [one["episode_id"] for one in below] == [None]
    newest = memsieve("sessions", "--store", "store", "--limit", 1)
    assert "(none named)" in newest.out
    assert "2 more sessions" in newest.err
    nothing = memsieve("sessions", "--store", "store", "--scope", "acme/cleo")
    assert (nothing.out, nothing.err.strip()) == ("", "no sessions")
