"""`memsieve service extractor` and what goes with it: what cannot be done is refused, with the remedy."""

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Memsieve

KAFKA = ("--kafka", "127.0.0.1:1")
TURN = {
    "kind": "turn",
    "schema_version": 1,
    "turn_id": "t-1",
    "scope": "acme/ana",
    "occurred_at": "2026-03-03T10:00:00Z",
    "said": [{"by": "user", "text": "I like green tea."}],
}
ENDPOINT = '[llm]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "tiny"\n'


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("service", "extractor"), "kafka.bootstrap is not set"),
        (("service", "extractor", *KAFKA, "--llm"), "index.kind edge is for one process"),
        (("service", "serve", *KAFKA, "--llm"), "--llm is for turns: give --extract too"),
        (("publish", "turns.jsonl", *KAFKA, "--turns", "--text-field", "a"), "no columns to name"),
        (("publish", "turns.jsonl", *KAFKA, "--scope", "a/b"), "--text-field COLUMN"),
        (("publish", "turns.jsonl", *KAFKA, "--turns", "--scope", "a/*"), "holds the wildcard *"),
    ],
)
def test_what_does_not_go_together_is_refused(
    memsieve: Memsieve, tmp_path: Path, command: tuple[str, ...], reason: str
) -> None:
    (tmp_path / "memsieve.toml").write_text(ENDPOINT, "utf-8")
    (tmp_path / "turns.jsonl").write_text(f"{json.dumps(TURN)}\n", "utf-8")
    told = memsieve(*command)
    assert told.code == 2
    assert reason in told.err


def test_a_model_that_is_not_named_is_asked_for(memsieve: Memsieve, tmp_path: Path) -> None:
    (tmp_path / "memsieve.toml").write_text('[index]\nkind = "qdrant"\n', "utf-8")
    told = memsieve("service", "extractor", *KAFKA, "--llm")
    assert (told.code, "llm.base_url is not set" in told.err) == (2, True)


def test_turns_are_for_all_runs(memsieve: Memsieve, tmp_path: Path) -> None:
    (tmp_path / "memsieve.toml").write_text('[kafka]\nrun = "two"\n', "utf-8")
    told = memsieve("service", "extractor", *KAFKA)
    assert (told.code, "kafka.run is set" in told.err) == (2, True)


def test_a_turn_is_not_put_back_into_a_store_that_nobody_extracts_from(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / "turns.jsonl").write_text(f"{json.dumps(TURN)}\n", "utf-8")
    assert memsieve("run", "turns.jsonl", "--store", "store").code == 2
    [letter] = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    told = memsieve("dead-letters", "requeue", letter["id"], "--store", "store")
    assert told.code == 2
    assert "would fail again: kind is 'turn'" in told.out
