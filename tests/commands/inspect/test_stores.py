"""The commands that read a store: memories, decisions, explain, dead-letters."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.decisions import Insert, Reinforce
from streams.store.app import settings
from streams.store.app.cluster_client import NO_WAITING
from streams.store.app.reading import LogTarget
from streams.store.app.requests import open_client
from tests.builders import event
from tests.commands.conftest import SHALLOW, Memsieve, start, write_events
from tests.support.stage.stores import quiet

COFFEE = (
    "Ana orders a flat white.",
    "Ana orders a flat white. She has it without sugar.",
    "Bo has a red bicycle.",
)


@pytest.fixture(autouse=True)
def _store(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "ana.jsonl", *COFFEE)
    write_events(tmp_path / "bo.jsonl", COFFEE[0], scope="acme/bo")
    assert memsieve("run", "ana.jsonl", "bo.jsonl", "--store", "store").code == 0


def test_memories_are_listed_by_scope(memsieve: Memsieve) -> None:
    shown = memsieve("memory", "list", "--store", "store").out
    assert shown.index("acme/ana") < shown.index(COFFEE[2]) < shown.index("acme/bo")
    assert "seen 2x, last 2026-03-01" in shown


def test_vectors_are_printed_only_on_request(memsieve: Memsieve) -> None:
    def first(*flags: str) -> dict[str, Any]:
        return memsieve("decisions", "--store", "store", "--json", *flags).json()[0]

    assert first()["embedding"].keys() == {"model", "dimension"}
    assert first("--vectors")["embedding"].keys() == {"model", "dimension", "values"}
    [shown] = memsieve("explain", first()["decision_id"], "--store", "store", "--json").json()
    assert shown == first()


def test_listings_can_be_narrowed_to_a_scope_and_what_is_below_it(memsieve: Memsieve) -> None:
    def scopes(command: str, *scope: str) -> set[str]:
        found = memsieve(*command.split(), "--store", "store", "--json", *scope).json()
        return {(item.get("event") or item)["scope"] for item in found}

    for command in ("memory list", "decisions"):
        assert scopes(command, "--scope", "acme") == {"acme/ana", "acme/bo"}
        assert scopes(command, "--scope", "acme/bo") == {"acme/bo"}
        assert scopes(command, "--scope", "acme/b") == set()


def test_superseded_memories_are_hidden_until_asked_for(memsieve: Memsieve) -> None:
    live = memsieve("memory", "list", "--store", "store", "--json").json()
    every = memsieve("memory", "list", "--store", "store", "--json", "--retired").json()
    [retired] = [memory for memory in every if memory not in live]
    assert retired["text"] == COFFEE[0]
    assert retired["superseded"]["by"] in {memory["id"] for memory in live}


def test_a_limit_shows_the_newest_decisions_and_says_that_there_are_more(
    memsieve: Memsieve,
) -> None:
    result = memsieve("decisions", "--store", "store", "--limit", 1)
    assert "acme/bo" in result.out
    assert "acme/ana" not in result.out
    assert "there are older decisions" in result.err


def test_each_decision_is_listed_by_an_id_that_explains_it(memsieve: Memsieve) -> None:
    shown = memsieve("decisions", "--store", "store").out.splitlines()
    heads = [line.split() for line in shown if not line.startswith(" ")]
    found = memsieve("decisions", "--store", "store", "--json").json()
    assert sorted(heads) == sorted(
        [one["decision_id"][:8], one["kind"], one["event"]["scope"]] for one in found
    )
    told = memsieve("explain", heads[0][0], "--store", "store").out
    assert told.startswith(f"decision   {heads[0][0]}")


def test_a_repeated_delivery_is_explained_with_its_place_in_the_log(memsieve: Memsieve) -> None:
    assert memsieve("run", "ana.jsonl", "--store", "store").code == 0
    *_, again = memsieve("decisions", "--store", "store", "--json", "--kind", "ignore").json()
    told = memsieve("explain", again["decision_id"], "--store", "store").out
    place = f"{again['partition']}/{again['offset']}"
    assert told.endswith(f"delivered again and ignored 1x (partition/offset {place})\n")


def test_decisions_can_be_narrowed_to_a_kind(memsieve: Memsieve) -> None:
    found = memsieve("decisions", "--store", "store", "--json", "--kind", "merge").json()
    assert [decision["event"]["text"] for decision in found] == [COFFEE[1]]


@pytest.mark.covers("B112", "B116", "C5")
def test_a_decision_is_explained_by_what_was_compared_and_by_which_rule(
    memsieve: Memsieve,
) -> None:
    [merge] = memsieve("decisions", "--store", "store", "--json", "--kind", "merge").json()
    told = memsieve("explain", merge["decision_id"], "--store", "store").out
    [near] = merge["evidence"]["neighbours"]
    for part in (
        COFFEE[0],
        COFFEE[1],
        f"{near['similarity']:.3f}  {near['band']}",
        "is stated in full by the event, which adds to it (sentences)",
        "it states all that a memory states, and more",
        merge["policy_id"],
        "match from 0.97",
    ):
        assert part in told


def test_an_event_a_decision_and_a_memory_are_found_by_id_or_its_beginning(
    memsieve: Memsieve,
) -> None:
    [merge] = memsieve("decisions", "--store", "store", "--json", "--kind", "merge").json()
    event, decision, memory = (
        merge["event"]["event_id"],
        merge["decision_id"],
        merge["memory"]["id"],
    )
    for identity in (event, decision, decision[:8], event[:8]):
        assert "merge: merged with" in memsieve("explain", identity, "--store", "store").out
    life = memsieve("explain", memory[:8], "--store", "store").out
    assert f'it says    "{merge["memory"]["text"]}"' in life
    assert decision in life


def test_a_short_beginning_names_nothing(memsieve: Memsieve) -> None:
    found = memsieve("decisions", "--store", "store", "--json").json()
    event = found[0]["event"]["event_id"]
    result = memsieve("explain", event[:5], "--store", "store")
    assert (result.code, result.out) == (2, "")
    assert (
        f"{event[:5]} is no id or name; to shorten an id, write 6 characters at least" in result.err
    )


def test_a_beginning_that_several_ids_share_is_not_guessed_at(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = [{"scope": "twins", "event_id": f"twins-{n}", "text": f"Door {n} is red."} for n in "12"]
    (tmp_path / "twins.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    memsieve("run", "twins.jsonl", "--store", "twins")
    result = memsieve("explain", "twins-", "--store", "twins")
    assert (result.code, result.out) == (2, "")
    assert "2 ids begin with twins-: twins-1, twins-2" in result.err


def test_a_renamed_memory_is_explained_with_the_words_it_had(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    said = ["The cellar is flooded.", "Bo has a blue bicycle."]
    rows = [
        {"scope": "acme/cy", "event_id": f"cy-{n}", "memory_id": "x", "text": text}
        for n, text in enumerate(said)
    ]
    (tmp_path / "cy.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    write_events(tmp_path / "near.jsonl", "Bo has a blue bike.", scope="acme/cy")
    memsieve("run", "cy.jsonl", "near.jsonl", "--store", "store")
    assert f'said  "{said[0]}"' in memsieve("explain", "cy-1", "--store", "store").out
    [near] = memsieve("decisions", "--store", "store", "--json", "--scope", "acme/cy").json()[2:]
    told = memsieve("explain", near["event"]["event_id"], "--store", "store").out
    assert said[1] in told
    assert said[0] not in told


def test_a_dead_letter_is_explained_by_its_id(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "bad.jsonl", "Tea.", scope="acme/*")
    memsieve("run", "bad.jsonl", "--store", "store")
    [letter] = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    for command in (("explain", letter["id"]), ("decisions", "--kind", "reject")):
        shown = memsieve(*command, "--store", "store").out
        assert "bad.jsonl:1" in shown
        assert "holds the wildcard *" in shown


def test_a_kind_that_does_not_exist_is_named(memsieve: Memsieve) -> None:
    result = memsieve("decisions", "--store", "store", "--kind", "insrt")
    assert result.code == 2
    assert "--kind insrt: write insert, merge" in result.err


def test_an_id_that_nothing_has_is_told_by_the_exit_code(memsieve: Memsieve) -> None:
    result = memsieve("explain", "nothing", "--store", "store")
    assert (result.code, result.out) == (5, "")
    assert "has the id nothing" in result.err


def test_text_cannot_steer_the_terminal(memsieve: Memsieve, tmp_path: Path) -> None:
    hostile = "Bo\x1b[2J\x07 likes\x9b31m tea.\nreinforce: all is well"
    (tmp_path / "hostile.jsonl").write_text(
        json.dumps({"scope": "acme/bo", "text": hostile, "event_id": "hostile"}), encoding="utf-8"
    )
    memsieve("run", "hostile.jsonl", "--store", "store")
    for command in (("memory", "list"), ("decisions",), ("explain", "hostile")):
        shown = memsieve(*command, "--store", "store").out
        assert "\x1b" not in shown
        assert "\x9b" not in shown
        assert "Bo\\x1b[2J\\x07 likes\\x9b31m tea." in shown
        assert not any(line.startswith("reinforce") for line in shown.splitlines())


def test_a_place_without_a_store_is_told(memsieve: Memsieve) -> None:
    for command in (("memory", "list"), ("decisions",), ("explain", "x"), ("dead-letters", "list")):
        result = memsieve(*command, "--store", "none")
        assert result.code == 3
        assert result.err == (
            "memsieve: none holds no store; make one with: memsieve run FILE --store none\n"
        )


def test_a_reader_that_has_seen_enough_is_no_error(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "many.jsonl", *(f"Fact {n} is known." for n in range(300)))
    assert memsieve("run", "many.jsonl", "--policy", SHALLOW, "--store", "many").code == 0
    with start("decisions", "--store", "many", "--json", cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "[\n"
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 0


@pytest.mark.covers("B121", "S1.11", "S1.15")
async def test_a_program_is_told_what_became_of_its_event_and_which_memory_stands() -> None:
    target = LogTarget.of_store(settings.load({"store": Path("store")}))
    new = event("Ana has a blue canoe.", scope="acme/ana", event_id="canoe-1")
    again = event("ana has a blue  canoe.", scope="acme/ana", event_id="canoe-2")
    async with open_client(target, quiet, NO_WAITING) as client:
        inserted, known = [one.on_event for one in await client.submit([new, again])]
    assert isinstance(inserted, Insert)
    assert isinstance(known, Reinforce)
    assert inserted.memory.text == known.memory.text == new.text
    assert inserted.memory.id == known.memory.id == known.target.memory_id


def test_a_scope_that_is_not_there_is_told_with_those_that_are(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = [{"text": "Ana likes tea.", "scope": "acme/ana"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    memsieve("run", "rows.jsonl")
    listed = memsieve("memory", "list", "--scope", "acme/anna")
    assert listed.code == 0
    assert "scope acme/anna has no memories; others have: acme/ana" in listed.err
    for command in (["memory", "list"], ["decisions"], ["reviews", "list"], ["consolidate"]):
        refused = memsieve(*command, "--scope", "acme/*")
        assert (refused.code, "holds the wildcard *; name a scope" in refused.err) == (2, True)


def test_a_list_shows_the_beginning_of_a_long_text_and_its_history_the_whole(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    text = " ".join(f"Room {number} is locked." for number in range(200))
    write_events(tmp_path / "rooms.jsonl", text)
    assert memsieve("run", "rooms.jsonl").code == 0
    [kept] = memsieve("memory", "list", "--json").json()
    shown = memsieve("memory", "list").out
    assert f'  "{text[:999]}…"\n' in shown
    assert kept["text"] == text
    assert f'"{text}"' in memsieve("memory", "history", kept["id"]).out
