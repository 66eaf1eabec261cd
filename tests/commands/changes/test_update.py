"""`memsieve memory update`: a memory gets a new text."""

from pathlib import Path

import pytest

from tests.commands.conftest import Memsieve, write_events

OLD, NEW = "Ana lives in Lyon.", "Ana has moved to Porto."


@pytest.fixture
def identity(memsieve: Memsieve, tmp_path: Path) -> str:
    """Make a store with one memory, and return the memory's id."""
    write_events(tmp_path / "facts.jsonl", OLD)
    assert memsieve("run", "facts.jsonl", "--store", "store").code == 0
    [memory] = memsieve("memory", "list", "--store", "store", "--json").json()
    return str(memory["id"])


def texts_after(memsieve: Memsieve, hint: str) -> set[str]:
    """Return the live texts after the command that an update suggests for its undo."""
    decision = hint.removeprefix("undo it with: memsieve undo ")
    assert memsieve("undo", decision, "--store", "store").code == 0
    return {one["text"] for one in memsieve("memory", "list", "--store", "store", "--json").json()}


def test_the_new_text_stands_and_the_old_one_is_in_the_history(
    memsieve: Memsieve, identity: str
) -> None:
    told = memsieve("memory", "update", identity[:8], NEW, "--author", "june", "--store", "store")
    assert told.code == 0, told.err
    assert "replaces " + identity in told.out
    [memory] = memsieve("memory", "list", "--store", "store", "--json").json()
    assert memory["text"] == NEW
    history = memsieve("memory", "history", memory["id"], "--store", "store").out
    assert f'{identity}  "{OLD}"' in history
    assert "asked for this update" in history
    assert f"replaced on {memory['created_at'][:10]} by {memory['id']}: a person asked" in (
        memsieve("memory", "history", identity, "--store", "store").out
    )
    made, answered = memsieve("decisions", "--store", "store", "--json").json()[-2:]
    story = memsieve("explain", made["decision_id"], "--store", "store").out
    asked, then = story.splitlines()[-4:-2]
    assert asked == f"it asks to replace {identity}: the policy leaves that to a person."
    assert then == (
        f"then june asked for this update: memory {memory['id']} replaces {identity} "
        f"(decision {answered['decision_id']})."
    )
    planned = memsieve("undo", made["decision_id"], "--dry-run", "--store", "store").out
    assert "june asked for this update; it is not repeated: check it" in planned
    assert texts_after(memsieve, told.out.splitlines()[1]) == {OLD}


@pytest.mark.parametrize("text", [OLD, "Ana  lives in Lyon. "])
def test_the_text_that_it_has_already_changes_nothing(
    memsieve: Memsieve, identity: str, text: str
) -> None:
    told = memsieve("memory", "update", identity, text, "--store", "store")
    assert (told.code, told.out) == (0, f"nothing changed: memory {identity} says this already\n")
    assert len(memsieve("decisions", "--store", "store", "--json").json()) == 1


def test_the_text_in_other_letters_stands(memsieve: Memsieve, identity: str) -> None:
    told = memsieve("memory", "update", identity, OLD.upper(), "--store", "store")
    assert told.out.splitlines()[0] == f"memory {identity} now says this"
    assert " not " not in told.out
    [memory] = memsieve("memory", "list", "--store", "store", "--json").json()
    assert (memory["text"], memory["observation_count"]) == (OLD.upper(), 1)
    assert texts_after(memsieve, told.out.splitlines()[1]) == {OLD}


def test_a_memory_that_its_producer_named_keeps_its_id(memsieve: Memsieve, tmp_path: Path) -> None:
    named = '{"scope": "acme/ana", "text": "Ana lives in Lyon.", "memory_id": "home"}\n'
    (tmp_path / "named.jsonl").write_text(named, encoding="utf-8")
    memsieve("run", "named.jsonl", "--store", "store")
    [before] = memsieve("memory", "list", "--store", "store", "--json").json()
    assert memsieve("memory", "update", "home", NEW, "--store", "store").code == 0
    [after] = memsieve("memory", "list", "--store", "store", "--json").json()
    assert (after["id"], after["text"]) == (before["id"], NEW)
    assert after["observation_count"] == 1


def test_a_memory_is_named_by_its_id_its_name_or_the_id_of_an_event(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = "".join(
        f'{{"scope": "acme/{who}", "text": "{text}", "memory_id": "home", "event_id": "{event}"}}\n'
        for who, text, event in (("ana", OLD, "e1"), ("ana", NEW, "e2"), ("ben", OLD, "e3"))
    )
    (tmp_path / "named.jsonl").write_text(rows, encoding="utf-8")
    memsieve("run", "named.jsonl", "--store", "store")
    ana, ben = memsieve("memory", "list", "--store", "store", "--json").json()
    for name in (ana["id"], ana["id"][:9], "e1", "e2"):
        told = memsieve("memory", "history", name, "--store", "store", "--json").json()
        assert told["memory"]["id"] == ana["id"], name
    several = memsieve("memory", "history", "home", "--store", "store")
    shown = f"{ana['id']} of acme/ana, {ben['id']} of acme/ben"
    assert (several.code, several.out) == (2, "")
    assert (
        several.err
        == f"memsieve: home names 2 memories; give its scope as well, or an id: {shown}\n"
    )
    for scope, kept in (("acme/ana", ana), ("acme/ben", ben)):
        of = ("home", "--scope", scope, "--store", "store")
        assert memsieve("memory", "history", *of, "--json").json()["memory"]["id"] == kept["id"]
        assert f"memory     {kept['id']}" in memsieve("explain", *of).out
        assert kept["id"] in memsieve("memory", "pin", *of).out
        assert kept["id"] in memsieve("memory", "unpin", *of).out
    elsewhere = memsieve("memory", "update", ana["id"], "x", "--scope", "acme/ben", *of[3:])
    assert (elsewhere.code, elsewhere.err) == (
        5,
        f"memsieve: no memory in store has the id {ana['id']}\n",
    )
    assert memsieve("forget", "e3", "--store", "store").code == 0
    told = memsieve("explain", "home", "--store", "store").out
    assert f"memory     {ana['id']}" in told.splitlines()
    undone = memsieve("undo", "home", "--store", "store").err
    assert "home is a memory: memsieve memory history home lists its decisions" in undone


def test_a_pinned_memory_and_a_text_that_says_nothing_are_refused_in_one_line(
    memsieve: Memsieve, identity: str
) -> None:
    empty = memsieve("memory", "update", identity, " ", "--store", "store")
    assert (empty.code, "TEXT: is empty" in empty.err) == (2, True)
    memsieve("memory", "pin", identity, "--store", "store")
    pinned = memsieve("memory", "update", identity, NEW, "--store", "store")
    assert pinned.code == 2
    assert pinned.err == f"memsieve: memory {identity} is pinned; unpin it first\n"


def test_a_memory_whose_new_words_another_has_gives_way_to_it(
    memsieve: Memsieve, tmp_path: Path, identity: str
) -> None:
    write_events(tmp_path / "more.jsonl", NEW)
    memsieve("run", "more.jsonl", "--store", "store")
    told = memsieve("memory", "update", identity, NEW, "--store", "store", "--author", "june")
    assert told.code == 0, told.err
    [live] = memsieve("memory", "list", "--store", "store", "--json").json()
    assert live["text"] == NEW
    assert told.out.splitlines()[0] == f"memory {live['id']} replaces {identity}"
    assert texts_after(memsieve, told.out.splitlines()[1]) == {OLD, NEW}


def test_a_memory_that_was_replaced_names_the_one_to_change(
    memsieve: Memsieve, identity: str
) -> None:
    told = memsieve("memory", "update", identity, NEW, "--store", "store")
    [live] = memsieve("memory", "list", "--store", "store", "--json").json()
    assert told.out.splitlines()[0] == f"memory {live['id']} replaces {identity}"
    refused = memsieve("memory", "pin", identity, "--store", "store")
    assert refused.code == 2
    assert refused.err.startswith(f"memsieve: memory {identity} is not live: replaced on ")
    assert refused.err.endswith(f"; ask for {live['id']} instead\n")


def test_an_events_id_goes_on_to_the_memory_that_stands_for_it(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    write_events(tmp_path / "facts.jsonl", OLD)
    memsieve("run", "facts.jsonl", "--store", "store")
    [said] = memsieve("decisions", "--store", "store", "--json").json()
    event, last = said["event"]["event_id"], said["memory"]["id"]
    for text in (NEW, "Ana has moved to Nice."):
        told = memsieve("memory", "update", event, text, "--store", "store")
        assert (told.code, told.out.splitlines()[0].split()[-1]) == (0, last), told.err
        [live] = memsieve("memory", "list", "--store", "store", "--json").json()
        assert live["text"] == text
        last = live["id"]
    for command in (("pin",), ("unpin",), ("retire", "--reason", "invalid")):
        told = memsieve("memory", *command, event, "--store", "store")
        assert (told.code, last in told.out) == (0, True), told.err
    ended = memsieve("memory", "pin", event, "--store", "store")
    assert ended.err == f"memsieve: memory {last} is not live: ended: invalid\n"
    first = memsieve("memory", "history", event, "--store", "store", "--json").json()["memory"]
    assert first["id"] == said["memory"]["id"]
