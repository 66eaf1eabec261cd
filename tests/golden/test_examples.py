"""The example streams' decisions, held against files that a person has read.

`make golden` writes them anew; a change in them belongs into the changelog.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from schemas.decisions import Decision
from tests.support.stage.stores import decisions, run

EXAMPLES = Path("examples")
GOLDEN = Path("tests/golden")
SIMILARITY_TOLERANCE, PROBABILITY_TOLERANCE = 1e-4, 2e-3
"""Another processor's arithmetic moves a cosine by about 1e-6, and with it the last of a
probability's three decimals; a golden file must not care."""


@pytest.mark.parametrize("name", ["coffee", "team", "trap-door"])
def test_the_default_policy_decides_the_examples_as_agreed(name: str, tmp_path: Path) -> None:
    run([EXAMPLES / f"{name}.jsonl"], tmp_path / "store")
    found = [_readable(decision) for decision in decisions(tmp_path / "store")]
    golden = GOLDEN / f"default.{name}.jsonl"
    if os.environ.get("GOLDEN") == "write":  # noqa: TID251 - a switch of this test, no setting
        golden.write_text("".join(json.dumps(d) + "\n" for d in found), encoding="utf-8")
    expected = [json.loads(line) for line in golden.read_text(encoding="utf-8").splitlines()]
    assert [_without_floats(d) for d in found] == [_without_floats(d) for d in expected]
    assert _similarities(found) == pytest.approx(_similarities(expected), abs=SIMILARITY_TOLERANCE)
    told = _probabilities(found)
    assert told == pytest.approx(_probabilities(expected), abs=PROBABILITY_TOLERANCE)


def _readable(decision: Decision) -> dict[str, Any]:
    """Leave out the vectors: a person cannot read them, and their last bits may differ."""
    fields = decision.model_dump(mode="json")
    return {name: value for name, value in fields.items() if "embedding" not in name}


def _without_floats(decision: dict[str, Any]) -> dict[str, Any]:
    silent = {"similarity": None, "probabilities": None}
    near = [{**n, **silent} for n in decision.get("evidence", {}).get("neighbours", [])]
    evidence = {**decision.get("evidence", {}), "neighbours": near}
    return {**decision, "evidence": evidence}


def _probabilities(found: list[dict[str, Any]]) -> list[float]:
    near = [n for d in found for n in d.get("evidence", {}).get("neighbours", [])]
    told: list[dict[str, float] | None] = [n["probabilities"] for n in near]
    return [p for one in told if one for p in one.values()]


def _similarities(found: list[dict[str, Any]]) -> list[float]:
    return [n["similarity"] for d in found for n in d.get("evidence", {}).get("neighbours", [])]
