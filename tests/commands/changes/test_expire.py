"""`memsieve memory expire`: what a policy says is over ends, and can be told why."""

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Memsieve, write_events
from tests.fakes.clock import StandingClock

CENTURY = 36_525 * 86_400.0
EXPIRE = ("memory", "expire", "--store", "store", "--policy", "mine.toml")

RULES = """
[expiry]
after_validity_days = 0
ephemeral_days = 2
harmful_min = 2
"""
ROWS = (
    {"event_id": "pass", "text": "Ana's museum pass is valid.", "valid_until": "2026-03-31T00:00Z"},
    {"event_id": "rain", "text": "It rains in the harbour.", "persistence": "ephemeral"},
    {
        "event_id": "fog",
        "text": "Fog lies on the pier.",
        "persistence": "ephemeral",
        "pinned": True,
    },
    {"event_id": "job", "text": "Ana works at the observatory."},
)


@pytest.fixture(autouse=True)
def _store(memsieve: Memsieve, tmp_path: Path) -> None:
    default = memsieve("policy", "show", "default").out
    (tmp_path / "mine.toml").write_text(default + RULES, encoding="utf-8")
    with (tmp_path / "rows.jsonl").open("w", encoding="utf-8") as rows:
        for row in ROWS:
            at = {"scope": "acme/ana", "occurred_at": "2026-03-01T09:00:00Z"}
            rows.write(json.dumps({**at, **row}) + "\n")
    assert memsieve("run", "rows.jsonl", "--store", "store").code == 0


def live(memsieve: Memsieve) -> set[str]:
    listed = memsieve("memory", "list", "--store", "store", "--json").json()
    return {one["text"].split()[0] for one in listed}


@pytest.mark.covers("B70")
def test_what_is_over_ends_once(memsieve: Memsieve) -> None:
    asked = (
        "memory",
        "expire",
        "--store",
        "store",
        "--policy",
        "mine.toml",
        "--at",
        "2026-04-02T09:00Z",
    )
    told = memsieve(*asked, "--json").json()
    assert (told["ended"], told["reasons"]) == (2, {"expired": 2})
    assert live(memsieve) == {"Fog", "Ana"}
    assert memsieve(*asked, "--json").json()["ended"] == 0
    assert memsieve("check", "--full", "--store", "store").code == 0


def test_a_dry_run_changes_nothing(memsieve: Memsieve) -> None:
    asked = (
        "memory",
        "expire",
        "--store",
        "store",
        "--policy",
        "mine.toml",
        "--at",
        "2026-03-05T09:00Z",
    )
    told = memsieve(*asked, "--dry-run")
    assert told.out.splitlines()[1:] == [
        '  "It rains in the harbour."',
        "  its lifetime has ended; last seen 2026-03-01",
        "would end 1",
    ]
    assert live(memsieve) == {"Ana's", "It", "Fog", "Ana"}


@pytest.mark.covers("S4.31")
def test_what_misled_ends_and_history_says_so(memsieve: Memsieve) -> None:
    listed = memsieve("memory", "list", "--store", "store", "--json").json()
    job = next(one["id"] for one in listed if "observatory" in one["text"])
    rating = {
        "kind": "rate",
        "schema_version": 1,
        "event_id": "told",
        "scope": "acme/ana",
        "author": "agent",
        "occurred_at": "2026-03-02T09:00:00Z",
        "memory_id": job,
        "accessed": 5,
        "helpful": 1,
        "harmful": 2,
    }
    Path("rating.jsonl").write_text(json.dumps(rating) + "\n", encoding="utf-8")
    assert memsieve("run", "rating.jsonl", "--store", "store").code == 0
    asked = (
        "memory",
        "expire",
        "--store",
        "store",
        "--policy",
        "mine.toml",
        "--at",
        "2026-03-02T10:00Z",
    )
    assert memsieve(*asked, "--json").json()["reasons"] == {"harmful": 1}
    listed = memsieve("memory", "list", "--store", "store", "--json", "--retired").json()
    ended = next(one for one in listed if one["id"] == job)
    assert ended["superseded"] == {"by": None, "at": "2026-03-02T10:00:00Z", "reason": "harmful"}
    assert ended["feedback"] == {"accessed": 5, "helpful": 1, "harmful": 2}


@pytest.mark.covers("S4.27")
def test_of_what_nobody_has_said_again_what_is_rarely_used_ends(memsieve: Memsieve) -> None:
    """How often a memory was found is counted beside how often it helped and misled."""
    with Path("mine.toml").open("a", encoding="utf-8") as rules:
        rules.write("unseen_days = 30\naccessed_min = 3\n")
    write_events(Path("more.jsonl"), "Bo keeps bees.", "Cy plays chess.", scope="acme/ben")
    assert memsieve("run", "more.jsonl", "--store", "store").code == 0
    listed = memsieve("memory", "list", "--store", "store", "--scope", "acme/ben", "--json").json()
    for one, accessed in zip(listed, (3, 2), strict=True):
        counts = ("--accessed", accessed, "--helpful", 1)
        assert memsieve("memory", "rate", one["id"], *counts, "--store", "store").code == 0
    asked = (*EXPIRE, "--scope", "acme/ben", "--at", "2026-08-02T10:00Z", "--json")
    assert memsieve(*asked).json()["reasons"] == {"unused": 1}
    assert live(memsieve) == {"Ana's", "It", "Fog", "Ana", listed[0]["text"].split()[0]}
    [kept] = memsieve("memory", "list", "--store", "store", "--scope", "acme/ben", "--json").json()
    assert kept["feedback"] == {"accessed": 3, "helpful": 1, "harmful": 0}


def test_only_what_lies_below_a_scope_ends_and_by_the_rules_of_its_own(
    memsieve: Memsieve,
) -> None:
    there = {"scope": "acme/ben", "occurred_at": "2026-03-01T09:00:00Z", "persistence": "ephemeral"}
    rows = ({**there, "text": "Ben's kettle boils."}, {**there, "scope": "bay", "text": "Tide."})
    Path("more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert memsieve("run", "more.jsonl", "--store", "store").code == 0
    with Path("mine.toml").open("a", encoding="utf-8") as rules:
        rules.write('\n[scopes."acme/ben".expiry]\nephemeral_days = 9\n')
    asked = (
        "memory",
        "expire",
        "--store",
        "store",
        "--policy",
        "mine.toml",
        "--scope",
        "acme",
        "--json",
    )
    assert memsieve(*asked, "--at", "2026-03-05T09:00Z").json()["ended"] == 1
    assert live(memsieve) == {"Ana's", "Fog", "Ana", "Ben's", "Tide."}
    assert memsieve(*asked, "--at", "2026-03-11T09:00Z").json()["ended"] == 1
    assert live(memsieve) == {"Ana's", "Fog", "Ana", "Tide."}


def test_what_ended_can_be_brought_back(memsieve: Memsieve) -> None:
    asked = (
        "memory",
        "expire",
        "--store",
        "store",
        "--policy",
        "mine.toml",
        "--at",
        "2026-03-05T09:00Z",
    )
    assert memsieve(*asked).code == 0
    assert live(memsieve) == {"Ana's", "Fog", "Ana"}
    [ended] = memsieve("decisions", "--store", "store", "--kind", "revise", "--json").json()
    assert ended["event"]["note"] == "memsieve memory expire"
    assert memsieve("undo", ended["decision_id"], "--store", "store").code == 0
    assert live(memsieve) == {"Ana's", "It", "Fog", "Ana"}


def test_people_are_shown_as_many_as_they_ask_for(memsieve: Memsieve) -> None:
    asked = (
        "memory",
        "expire",
        "--store",
        "store",
        "--policy",
        "mine.toml",
        "--dry-run",
        "--limit",
        1,
    )
    told = memsieve(*asked, "--at", "2026-04-02T09:00Z")
    assert len(told.out.splitlines()) == 4
    assert told.out.splitlines()[-1] == "would end 2"
    assert "1 more memory" in told.err


def test_without_a_table_nothing_ends(memsieve: Memsieve) -> None:
    told = memsieve("memory", "expire", "--store", "store", "--at", "2126-04-02T09:00Z", "--json")
    assert told.json()["ended"] == 0
    assert told.err == "policy default has no [expiry]: nothing expires\n"


def test_what_will_be_over_is_asked_for_now(memsieve: Memsieve) -> None:
    """A log takes nothing in that has not happened yet."""
    asked = (
        "memory",
        "expire",
        "--store",
        "store",
        "--policy",
        "mine.toml",
        "--at",
        "2126-04-02T09:00Z",
    )
    assert memsieve(*asked, "--json").json()["ended"] == 2
    listed = memsieve("memory", "list", "--store", "store", "--json", "--retired").json()
    assert max(one["superseded"]["at"] for one in listed if one["superseded"]) < "2126"


def test_what_is_asked_for_must_be_clear(memsieve: Memsieve) -> None:
    told = memsieve("memory", "expire", "--store", "store", "--at", "tomorrow")
    assert (told.code, told.err.strip()) == (
        2,
        "memsieve: --at tomorrow: write a time such as 2026-03-01T09:00",
    )
    assert memsieve("memory", "expire", "--store", "nowhere").code == 3


@pytest.mark.covers("B70")
def test_a_clock_that_was_set_back_by_years_ends_nothing(
    memsieve: Memsieve, clock: StandingClock
) -> None:
    clock.move(-CENTURY)
    assert memsieve(*EXPIRE, "--json").json()["ended"] == 0
    clock.move(2 * CENTURY)
    ahead = {"scope": "acme/ana", "occurred_at": clock.now().isoformat()}
    snow = {**ahead, "text": "Snow lies on the mole.", "persistence": "ephemeral"}
    Path("ahead.jsonl").write_text(json.dumps(snow) + "\n", encoding="utf-8")
    assert memsieve("run", "ahead.jsonl", "--store", "store").code == 0
    clock.move(-CENTURY)
    assert memsieve(*EXPIRE, "--json").json()["ended"] == 0
    assert live(memsieve) == {"Ana's", "It", "Fog", "Ana", "Snow"}
    assert memsieve("check", "--full", "--store", "store").code == 0


@pytest.mark.covers("B70", "B71")
def test_what_a_clock_that_was_years_ahead_has_ended_can_be_brought_back(
    memsieve: Memsieve, clock: StandingClock
) -> None:
    clock.move(CENTURY)
    assert memsieve(*EXPIRE, "--json").json()["ended"] == 2
    assert live(memsieve) == {"Fog", "Ana"}  # pinned, and what no rule ends
    clock.move(-CENTURY)
    [ended] = memsieve("decisions", "--store", "store", "--kind", "revise", "--json").json()
    assert memsieve("undo", ended["decision_id"], "--store", "store").code == 0
    assert live(memsieve) == {"Ana's", "It", "Fog", "Ana"}
    assert memsieve(*EXPIRE, "--json").json()["ended"] == 0
    assert memsieve("check", "--full", "--store", "store").code == 0


@pytest.mark.covers("B70")
@pytest.mark.parametrize("asked_at", ["1926-03-01T09:00:00Z", "2126-03-01T09:00:00Z"])
def test_a_request_to_end_counts_by_the_version_it_saw_and_not_by_its_time(
    memsieve: Memsieve, asked_at: str
) -> None:
    """What was seen again since goes on, whenever the request claims to be from."""
    again = {"scope": "acme/ana", "text": ROWS[1]["text"], "persistence": "ephemeral"}
    again["occurred_at"] = "2026-03-02T09:00:00Z"
    Path("again.jsonl").write_text(json.dumps(again) + "\n", encoding="utf-8")
    assert memsieve("run", "again.jsonl", "--store", "store").code == 0
    listed = memsieve("memory", "list", "--store", "store", "--json").json()
    ids = {one["text"].split()[0]: one["id"] for one in listed}
    asked = {"kind": "retire", "schema_version": 1, "scope": "acme/ana", "author": "agent"}
    asked |= {"reason": "expired", "occurred_at": asked_at}
    requests = [
        {**asked, "event_id": name, "memories": [{"memory_id": ids[name], "version": 1}]}
        for name in ("It", "Ana's")
    ]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    Path("requests.jsonl").write_text(lines, encoding="utf-8")
    assert memsieve("run", "requests.jsonl", "--store", "store").code == 0
    assert live(memsieve) == {"It", "Fog", "Ana"}
    assert memsieve("check", "--full", "--store", "store").code == 0
