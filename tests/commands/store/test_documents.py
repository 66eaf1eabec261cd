"""What the source documents ask for, by command, with their own texts and the judge that we ship."""

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Memsieve

PARIS, FRANCE = "Lives in Paris", "Home in Paris, France"
PREFERS, FAVORITE = "Prefers Python", "Python is favorite"
APART = ("Works at Google", "Software engineer at Google", "Likes coffee", "Enjoys croissants")
COFFEE = (
    "User likes coffee, flat white usually",
    "They are a coffee enthusiast, favorite coffee is flatwhite",
    "User loves coffee, especially flat white",
)


def kept(memsieve: Memsieve, texts: tuple[str, ...], policy: str) -> dict[str, set[str]]:
    """Return what a run keeps: each memory's text, with its other wordings."""
    rows = "".join(json.dumps({"text": text, "scope": "user/ana"}) + "\n" for text in texts)
    Path("facts.jsonl").write_text(rows, encoding="utf-8")
    assert memsieve("run", "facts.jsonl", "--policy", policy).code == 0
    return {
        memory["text"]: {variant["text"] for variant in memory["variants"]}
        for memory in memsieve("memory", "list", "--json").json()
    }


@pytest.mark.covers("S2.10")
def test_the_four_pairs_of_the_periodic_deduplication_are_told_apart(memsieve: Memsieve) -> None:
    found = kept(memsieve, (PARIS, FRANCE, PREFERS, FAVORITE, *APART), "thorough")
    assert found == {PARIS: {FRANCE}, PREFERS: {FAVORITE}} | {text: set[str]() for text in APART}


@pytest.mark.covers("S2.10", "S2.12")
def test_its_own_policy_concatenates_what_is_equally_important(memsieve: Memsieve) -> None:
    found = kept(memsieve, (PARIS, FRANCE, PREFERS, FAVORITE, *APART), "adr-004")
    assert found == {
        "Lives in Paris. Home in Paris, France": {PARIS, FRANCE},
        "Prefers Python. Python is favorite": {PREFERS, FAVORITE},
    } | {text: set[str]() for text in APART}


@pytest.mark.covers("S4.2")
def test_the_three_wordings_of_the_flat_white_become_one_memory(memsieve: Memsieve) -> None:
    first, *others = COFFEE
    assert kept(memsieve, COFFEE, "thorough") == {first: set(others)}
    query = ("What coffee does user like?", "--scope", "user/ana", "--json")
    [entry] = memsieve("search", *query).json()["entries"]
    assert entry["text"] == first
