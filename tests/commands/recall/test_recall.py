"""`memsieve search --block`, and the functions behind it, over a store that `memsieve run` has made."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from memsieve import recall
from schemas.base import ScopeName
from schemas.decisions import Insert
from streams.embedding.tokens import counter
from streams.model.ports.failures import NoModel
from streams.recall.app.recalling import RecallRequest, recalling
from streams.store.app import settings
from streams.store.app.reading import LogTarget
from tests.commands.conftest import Memsieve, write_events
from tests.support.encoding.models import models_dir
from tests.support.stage.stores import decisions, run

STAIR = "The ninth stair of the lighthouse breaks under a heavy load."
LAMP = "Whale oil from the shed keeps the lamp burning until dawn."
KEEPER = "The keeper may be asleep upstairs."
DOOR = "Doors swing inwards here, so step back before you open one."


def write(path: Path, *rows: dict[str, Any]) -> None:
    common = {"scope": "coast/lighthouse", "occurred_at": "2026-03-01T09:00:00Z"}
    path.write_text("".join(json.dumps({**common, **row}) + "\n" for row in rows), "utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("recall")
    write(
        directory / "rows.jsonl",
        {"text": LAMP, "category": "success", "persistence": "permanent", "session": "one"},
        {"text": KEEPER, "status": "tentative", "session": "one"},
        {"text": STAIR, "category": "danger", "location_name": "Lighthouse", "visits": 3},
        {"text": STAIR.upper(), "category": "danger", "session": "two"},
        {"text": DOOR},
        {"text": DOOR, "scope": "coast/pier"},
        {"text": "The ferry leaves at noon.", "scope": "coast/pier"},
        {"text": "The museum opens at ten.", "scope": "town/museum"},
    )
    run([directory / "rows.jsonl"], directory / "store", partitions=3)
    return directory / "store"


@pytest.fixture(autouse=True)
def _store(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "store")


@pytest.mark.covers("S0.84")
def test_a_scope_is_printed_as_a_block(memsieve: Memsieve) -> None:
    result = memsieve("search", "--block", "--scope", "coast/lighthouse", "--store", "store")
    assert result.code == 0
    assert result.out.splitlines() == [
        "Memory of Lighthouse (coast/lighthouse): 3 visits, 2 sessions",
        f"- [DANGER] {STAIR} (seen 2x)",
        f"- [SUCCESS] {LAMP}",
        f"- {DOOR}",
        "Uncertain - check before you rely on it:",
        f"- {KEEPER}",
    ]


@pytest.mark.covers("S3.36")
def test_of_an_unknown_scope_the_block_says_so(memsieve: Memsieve) -> None:
    asked = ("search", "--block", "--scope", "coast/lighthous", "--store", "store")
    result = memsieve(*asked)
    assert (result.code, result.out) == (0, "No memories yet.\n")
    assert result.err.startswith("scope coast/lighthous has no memories; others have: coast/light")
    told = memsieve(*asked, "--json")
    assert told.json()["block"] == result.out.strip()
    assert told.err == result.err
    assert memsieve(*asked[:3], "coast/lighthouse", *asked[4:]).err == ""
    cellar = memsieve(*asked[:3], "zork/7", *asked[4:])
    assert cellar.out == "First visit - no prior experiences\n"


@pytest.mark.covers("S3.37")
def test_what_does_not_fit_is_left_out_whole_and_counted(memsieve: Memsieve) -> None:
    asked = ("search", "--block", "--scope", "coast/lighthouse", "--store", "store", "--budget", 50)
    lines = memsieve(*asked).out.splitlines()
    assert lines[1:] == [f"- [DANGER] {STAIR} (seen 2x)", "(3 more not shown)"]
    told = memsieve(*asked, "--json").json()
    count = counter(next(models_dir().glob("*MiniLM*")))
    assert told["tokens"] == count(told["block"]) <= told["budget"] == 50
    assert told["block"].splitlines() == lines
    assert [(one["shown"], one["reason"]) for one in told["memories"]] == [
        (True, "lasting"),
        (False, "over-budget"),
        (False, "over-budget"),
        (False, "over-budget"),
    ]


def test_every_recalled_memory_can_be_recognised_by_its_id(memsieve: Memsieve) -> None:
    told = memsieve(
        "search", "--block", "--scope", "coast/pier", "--store", "store", "--json"
    ).json()
    kept = memsieve("memory", "list", "--scope", "coast/pier", "--store", "store", "--json").json()
    assert {one["id"]: one["text"] for one in told["memories"]} == {
        memory["id"]: memory["text"] for memory in kept
    }
    assert all(one["text"] in told["block"] for one in told["memories"])


def test_a_query_brings_what_is_nearest(memsieve: Memsieve) -> None:
    asked = ("search", "--block", "--scope", "coast/lighthouse", "--store", "store", "--json")
    told = memsieve(*asked, "how can I keep the light on?", "--lasting", 0).json()
    active = [one for one in told["memories"] if one["status"] == "active"]
    assert active[0]["text"] == LAMP
    scores = [one["similarity"] for one in active]
    assert scores == sorted(scores, reverse=True)
    few = memsieve(*asked, "lamp oil", "--lasting", 0, "--recent", 1).json()
    assert [one["text"] for one in few["memories"] if one["shown"]] == [LAMP]
    assert few["block"].endswith("(3 more not shown)")


@pytest.mark.covers("S0.79")
def test_a_query_can_be_put_to_all_scopes_below_one(memsieve: Memsieve) -> None:
    asked = ("search", "--block", "--store", "store", "When does the boat go?")
    lines = memsieve(*asked, "--across", "coast/").out.splitlines()
    assert lines[:2] == [
        "Memory of coast and below",
        "- The ferry leaves at noon. (coast/pier)",
    ]
    assert "museum" not in " ".join(lines)
    assert memsieve(*asked, "--across", "coa").out.splitlines()[1] == "Nothing found."
    only = memsieve(*asked, "--across", "town/museum").out
    assert "- The museum opens at ten. (town/museum)" in only


def test_what_scopes_share_is_shown_only_where_it_is_asked_for(memsieve: Memsieve) -> None:
    lines = memsieve("search", "--block", "--across", "coast", "--store", "store").out.splitlines()
    assert lines[1:] == [f"- {DOOR} (in 2 scopes: coast/lighthouse, coast/pier)"]
    alone = memsieve("search", "--block", "--scope", "coast", "--store", "store").out
    assert alone == "No memories yet.\n"


@pytest.mark.covers("S0.77", "B60")
def test_what_many_places_have_alike_is_shown_where_it_is_asked_for(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    things = ("window", "trap door", "gate", "front door", "cellar door")
    texts = (f"Open the {thing}, then enter through the {thing}." for thing in things)
    alike = [{"text": text, "scope": f"house/{n}"} for n, text in enumerate(texts)]
    others: list[dict[str, Any]] = [
        {"text": LAMP, "scope": "house/1"},
        {"text": STAIR, "scope": "house/2"},
    ]
    write(tmp_path / "house.jsonl", *alike, *others)
    run([tmp_path / "house.jsonl"], tmp_path / "other")
    before = memsieve("decisions", "--store", "other", "--json").out
    asked = ("search", "--block", "--across", "house", "--store", "other")
    assert memsieve(*asked).out.splitlines()[1] == "Nothing found."
    [heading, line] = memsieve(*asked, "--patterns").out.splitlines()
    assert heading == "Memory of house and below"
    assert line.startswith("- Open the ")
    assert line.endswith("(much alike in 5 scopes: house/0, house/1, house/2, …)")
    assert memsieve("decisions", "--store", "other", "--json").out == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "scopes with --scope, such as "),
        (
            ("--scope", "a", "--across", "a"),
            "name one scope with --scope, or several with --across PREFIX",
        ),
        (("--scope", "a", "--patterns"), "--patterns goes with --across PREFIX"),
        (("--across", "a", "--patterns", "b"), "--patterns goes with --across PREFIX"),
        (("--scope", "coast/*"), "--scope coast/*: holds the wildcard *; name one exact scope"),
        (("--across", "*"), "--across *: holds the wildcard *"),
        (("--scope", "coast", " "), "is empty or only white space"),
        (
            ("--scope", "coast/pier", "--budget", 3),
            "--budget 3: without a single memory the prompt block",
        ),
    ],
)
def test_what_cannot_be_asked_is_named(
    memsieve: Memsieve, arguments: tuple[object, ...], reason: str
) -> None:
    refused = memsieve("search", "--block", "--store", "store", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert reason in refused.err


def test_where_there_is_no_store_that_is_said(memsieve: Memsieve) -> None:
    refused = memsieve("search", "--block", "--scope", "coast/pier", "--store", "nowhere")
    assert refused.code == 3
    assert "nowhere holds no store" in refused.err


def test_the_function_for_scripts_returns_what_the_command_prints(memsieve: Memsieve) -> None:
    printed = memsieve("search", "--block", "--scope", "coast/pier", "--store", "store").out
    assert recall(scope="coast/pier", store="store") == printed.rstrip("\n")
    nearest = recall("boat", scope="coast/pier", store=Path("store"), budget=30)
    assert "ferry" in nearest.splitlines()[1]


@pytest.mark.covers("S3.34")
async def test_a_recaller_knows_what_was_decided_since_it_was_last_asked(
    tmp_path: Path,
) -> None:
    new = "A crab sits on the lowest step."
    write(tmp_path / "more.jsonl", {"text": new, "scope": "coast/cave"})
    asked = RecallRequest(scope=ScopeName("coast/cave"))
    async with recalling(LogTarget.of_store(settings.load({"store": "store"}))) as recaller:
        assert (await recaller.recall(asked)).text == "No memories yet."
        await asyncio.to_thread(run, [tmp_path / "more.jsonl"], Path("store"), partitions=3)
        both = await asyncio.gather(recaller.recall(asked), recaller.recall(asked))
        assert all(new in block.text for block in both)
        assert new in (await recaller.recall(asked.model_copy(update={"query": "crabs"}))).text


def test_tokens_are_counted_to_the_end_of_a_text(tmp_path: Path) -> None:
    count = counter(next(models_dir().glob("*MiniLM*")))
    assert count("") == 0
    assert count("stairs") == 1
    assert count("stairs " * 4_000) == 4_000
    with pytest.raises(NoModel, match="memsieve model install --force"):
        counter(tmp_path)


@pytest.mark.covers("D10", "D11")
def test_a_text_is_as_near_as_a_query_as_it_was_as_an_event(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """One way of embedding and one scale, when deciding, for a prompt, and for a search."""
    third, fourth = "The ferry leaves from pier 3.", "The ferry leaves from pier 4."
    run([write_events(tmp_path / "rows.jsonl", third, fourth)], tmp_path / "s")
    second = decisions(tmp_path / "s")[1]
    assert isinstance(second, Insert)
    [compared] = second.evidence.neighbours
    asked = ("--scope", "acme/ana", "--store", "s", fourth, "--json")
    recalled = memsieve("search", "--block", *asked).json()["memories"]
    entries = memsieve("search", *asked, "--no-dedup").json()["entries"]
    loaded = [member for entry in entries for member in entry["members"]]
    expected = {third: compared.similarity, fourth: 1.0}
    assert {one["text"]: one["similarity"] for one in recalled} == expected
    assert {one["memory"]["text"]: one["similarity"] for one in loaded} == expected
