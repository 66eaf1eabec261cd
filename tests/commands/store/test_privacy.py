"""What a policy keeps out, from the events to the last file of a store."""

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Memsieve

KEY = "AKIA" + "QWERTYUIOPASDFGH"
MAIL = "mara.quill@example.org"
ROWS = (
    {"event_id": "mail", "text": f"Mara's address is {MAIL}."},
    {"event_id": "key", "text": f"The deploy key is {KEY}."},
    {"event_id": "tea", "text": "Mara drinks tea at noon."},
)


def policy(memsieve: Memsieve, **rules: str) -> None:
    lines = "".join(f'{name} = "{act}"\n' for name, act in rules.items())
    default = memsieve("policy", "show", "default").out
    Path("mine.toml").write_text(f"{default}\n[privacy]\n{lines}", encoding="utf-8")


def run(memsieve: Memsieve) -> None:
    with Path("rows.jsonl").open("w", encoding="utf-8") as rows:
        for row in ROWS:
            at = {"scope": "acme/mara", "occurred_at": "2026-03-01T09:00:00Z"}
            rows.write(json.dumps({**at, **row}) + "\n")
    assert memsieve("run", "rows.jsonl", "--store", "store", "--policy", "mine.toml").code == 0


def texts(memsieve: Memsieve) -> list[str]:
    return [one["text"] for one in memsieve("memory", "list", "--store", "store", "--json").json()]


def holding(word: str) -> list[str]:
    """Return the files of the store that hold a word, in any case."""
    files = [path for path in Path("store").rglob("*") if path.is_file()]
    return [path.name for path in files if word.lower().encode() in path.read_bytes().lower()]


@pytest.mark.covers("B138")
def test_a_secret_is_in_no_file_of_the_store(memsieve: Memsieve) -> None:
    policy(memsieve, secrets="drop", personal="mask")
    run(memsieve)
    assert texts(memsieve) == ["Mara's address is [e-mail address].", "Mara drinks tea at noon."]
    assert (holding(KEY), holding(MAIL)) == ([], [])
    told = memsieve("explain", "mail", "--store", "store").out
    assert "masked: e-mail address" in told
    assert memsieve("check", "--full", "--store", "store").code == 0


def test_the_same_event_is_masked_the_same_and_known_again(memsieve: Memsieve) -> None:
    policy(memsieve, secrets="mask", personal="mask")
    run(memsieve)
    before = texts(memsieve)
    Path("again.jsonl").write_text(Path("rows.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    told = memsieve(
        "run", "again.jsonl", "--store", "store", "--policy", "mine.toml", "--json"
    ).json()
    assert told["decisions"]["ignore"] == len(ROWS)
    assert texts(memsieve) == before


def test_what_a_person_is_to_look_at_waits_and_is_then_taken(memsieve: Memsieve) -> None:
    policy(memsieve, secrets="review")
    run(memsieve)
    assert len(texts(memsieve)) == len(ROWS) - 1
    [letter] = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    assert letter["error"].startswith("may hold: secret;")
    assert KEY not in letter["error"]
    asked = ("dead-letters", "requeue", letter["id"], "--store", "store")
    assert memsieve(*asked).code == 0
    run(memsieve)
    assert any(KEY in text for text in texts(memsieve))


def test_a_scope_may_keep_what_others_do_not_take(memsieve: Memsieve) -> None:
    policy(memsieve, secrets="drop", personal="drop")
    with Path("mine.toml").open("a", encoding="utf-8") as rules:
        rules.write('\n[scopes.acme.privacy]\npersonal = "keep"\n')
    run(memsieve)
    assert texts(memsieve) == [ROWS[0]["text"], ROWS[2]["text"]]


def test_what_was_kept_out_is_told_by_its_kind(memsieve: Memsieve) -> None:
    policy(memsieve, secrets="drop")
    run(memsieve)
    [blocked] = memsieve("decisions", "--store", "store", "--kind", "block", "--json").json()
    assert (blocked["event_id"], blocked["found"]) == ("key", ["secret"])
    assert blocked["why"] == "it contains what the policy excludes: secret"
    assert memsieve("explain", blocked["decision_id"], "--store", "store").out.splitlines()[:2] == [
        f"decision   {blocked['decision_id']}",
        f"block: {blocked['why']}",
    ]


def test_nothing_is_looked_for_by_default(memsieve: Memsieve) -> None:
    Path("mine.toml").write_text(memsieve("policy", "show", "default").out, encoding="utf-8")
    run(memsieve)
    assert len(texts(memsieve)) == len(ROWS)
