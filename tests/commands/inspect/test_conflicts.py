"""Two memories that contradict each other and both stay: every command that shows one says so."""

from pathlib import Path

import pytest

from tests.commands.conftest import Memsieve, write_events

NINE, EIGHT = "The office opens at 9 am.", "The office opens at 8 am."
STORE = ("--store", "store")
KEEP_BOTH = ("--policy", "default {judges.supersede_min = 1.0}")
"""No contradiction is sure enough to replace anything."""
LOAD = ("search", "--scope", "acme/ana", NINE, "--limit", 1, *STORE)
RECALL = ("search", "--block", "--scope", "acme/ana", *STORE)


@pytest.fixture(autouse=True)
def _store(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "ana.jsonl", NINE, EIGHT)
    assert memsieve("run", "ana.jsonl", *STORE, *KEEP_BOTH).code == 0


def kept(memsieve: Memsieve, *more: str) -> list[dict[str, object]]:
    return memsieve("memory", "list", *STORE, "--json", *more).json()


def test_memories_load_and_recall_show_a_conflict_to_people_and_to_programs(
    memsieve: Memsieve,
) -> None:
    nine, eight = sorted(kept(memsieve), key=lambda one: one["text"] != NINE)
    told = {"memory_id": eight["id"], "text": EIGHT, "last_seen_at": eight["last_seen_at"]}
    assert nine["conflicts"] == [told]
    said = f'in conflict with "{EIGHT}" of 2026-03-01'
    assert f"{said}, {eight['id']}" in memsieve("memory", "list", *STORE).out
    assert kept(memsieve, "--conflicts") == kept(memsieve)

    [entry] = memsieve(*LOAD, "--json").json()["entries"]
    assert entry["members"][0]["conflicts"] == [told]
    shown = memsieve(*LOAD).out
    assert "last seen 2026-03-01" in shown
    assert f"{said}, {eight['id']}" in shown

    assert memsieve(*RECALL).out.splitlines()[1:] == [
        f"- {NINE} (2026-03-01)",
        f"- {EIGHT} (2026-03-01; in conflict with the memory above)",
    ]
    by_text = {one["text"]: one for one in memsieve(*RECALL, "--json").json()["memories"]}
    assert by_text[NINE]["conflicts"] == [told]
    assert by_text[EIGHT]["last_seen_at"] == eight["last_seen_at"]


@pytest.mark.parametrize("how", ["memory retire", "forget", "undo"])
def test_a_conflict_ends_with_either_of_the_two(memsieve: Memsieve, how: str) -> None:
    [eight] = [one for one in kept(memsieve) if one["text"] == EIGHT]
    newest = memsieve("decisions", *STORE, "--limit", 1, "--json").json()
    named = newest[-1]["decision_id"] if how == "undo" else eight["id"]
    why = ("--reason", "invalid") if how == "memory retire" else ()
    assert memsieve(*how.split(), named, *STORE, "--author", "Ana", *why).code == 0
    assert [one["conflicts"] for one in kept(memsieve)] == [[]]
    assert memsieve("memory", "list", *STORE, "--conflicts").err == "no memories in conflict\n"
    assert "in conflict" not in memsieve(*RECALL).out


def test_two_that_are_both_right_stay_and_are_in_conflict_no_more(memsieve: Memsieve) -> None:
    nine, eight = sorted(kept(memsieve), key=lambda one: one["text"] != NINE)
    both = (nine["id"], str(eight["id"])[:8])
    said = memsieve("memory", "distinct", *both, *STORE, "--author", "Ana", "--note", "two offices")
    first = f"revise: memories {eight['id']} and {nine['id']} both stay, because Ana said that they"
    assert said.out == f"{first} state different facts\n"
    assert memsieve("memory", "list", *STORE, "--conflicts").err == "no memories in conflict\n"
    assert "in conflict" not in memsieve(*LOAD).out + memsieve(*RECALL).out
    [decided] = memsieve("decisions", *STORE, "--kind", "revise", "--json").json()
    assert (decided["event"]["author"], decided["event"]["note"]) == ("Ana", "two offices")
    assert memsieve("store", "replay", "rematerialise", *STORE).code == 0
    assert kept(memsieve, "--conflicts") == []
    twice = memsieve("memory", "distinct", *reversed(both), *STORE, "--author", "Ana")
    pair = f"memories {eight['id']} and {nine['id']}"
    assert twice.out == f"nothing changed: {pair} are kept as distinct already\n"
    assert len(memsieve("decisions", *STORE, "--kind", "revise", "--json").json()) == 1

    assert memsieve("undo", decided["decision_id"], *STORE, "--author", "Ana").code == 0
    assert [bool(one["conflicts"]) for one in kept(memsieve)] == [True, True]


def test_only_two_memories_of_one_scope_are_told_apart(memsieve: Memsieve, tmp_path: Path) -> None:
    nine, _ = sorted(kept(memsieve), key=lambda one: one["text"] != NINE)
    write_events(tmp_path / "tom.jsonl", "Tom likes coffee.", scope="acme/tom")
    assert memsieve("run", "tom.jsonl", *STORE).code == 0
    [tom] = kept(memsieve, "--scope", "acme/tom")
    for other, why in ((nine, "; name two"), (tom, "; two scopes are never compared")):
        refused = memsieve("memory", "distinct", nine["id"], other["id"], *STORE)
        assert (refused.code, why in refused.err) == (2, True)


def test_what_was_replaced_says_by_what_and_when(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "tom.jsonl", "Tom likes coffee.", "Tom does not like coffee.")
    assert memsieve("run", "tom.jsonl", *STORE).code == 0
    by = next(one["id"] for one in kept(memsieve) if "not" in str(one["text"]))
    shown = memsieve("memory", "list", *STORE, "--retired").out
    assert f"replaced on 2026-03-01 by {by}: newer-contradiction" in shown
