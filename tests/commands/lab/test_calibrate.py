import json
import re
from pathlib import Path

import pytest

from streams.model.policy import parse
from tests.commands.conftest import Memsieve, write_events
from tests.commands.lab.test_evaluate import write

THINGS = ["lamp", "ladder", "kettle", "saw", "rope", "tent", "drum", "clock", "pump", "stove"]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Write pairs that differ in a number, and pairs that are one sentence in two spellings."""
    differing = [
        {"a": f"The {thing} is in box {n}.", "b": f"The {thing} is in box {n + 40}.", "label": 0}
        for thing in THINGS
        for n in range(6)
    ]
    one = [
        {"a": f"Bo repaired the {thing}.", "b": f"bo repaired  the {thing}", "label": 1}
        for thing in THINGS
    ]
    return write(tmp_path / "pairs.jsonl", *differing, *one)


@pytest.mark.covers("B42", "C2")
def test_a_policy_is_fitted_and_names_what_it_was_fitted_to(
    memsieve: Memsieve, pairs: Path
) -> None:
    args = ("policy", "calibrate", pairs, "--hidden-rate", "0.2", "--name", "mine")
    shown = memsieve(*args, "--out", "mine.toml")
    assert shown.code == 0, shown.err
    text = Path("mine.toml").read_text("utf-8")
    policy = parse(text)
    assert (policy.name, policy.model) == ("mine", "sentence-transformers/all-MiniLM-L6-v2")
    assert re.fullmatch(r"pairs\.jsonl, 70 rows, sha256 [0-9a-f]{64}", policy.calibration.dataset)
    assert policy.calibration.command.startswith("memsieve policy calibrate")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", policy.calibration.date)
    assert text.startswith("# Fitted by `memsieve policy calibrate`")
    assert "the other half: facts hidden 0.00%" in shown.out
    assert policy.nominate.similarity_min <= policy.bands.log
    assert (
        memsieve("policy", "evaluate", pairs, "--policy", "mine.toml", "--json").json()["overall"][
            "ours"
        ]["hidden_rate"]["count"]
        == 0
    )


def test_the_same_pairs_give_the_same_policy(memsieve: Memsieve, pairs: Path) -> None:
    args = ("policy", "calibrate", pairs, "--hidden-rate", "0.2", "--json")
    first, again = memsieve(*args).json(), memsieve(*args).json()
    assert first == again
    assert parse(first["toml"]).id == first["policy"]
    fitted = first["fitted_half"]["hidden_rate"]
    assert fitted["high"] <= 0.2
    assert fitted["of"] + first["other_half"]["hidden_rate"]["of"] == 60


@pytest.mark.covers("C2")
def test_a_policy_of_another_model_is_refused(memsieve: Memsieve, pairs: Path) -> None:
    text = memsieve("policy", "calibrate", pairs, "--hidden-rate", "0.2").out
    other = text.replace("sentence-transformers/all-MiniLM-L6-v2", "other/model", 1)
    Path("other.toml").write_text(other, "utf-8")
    refused = memsieve("policy", "evaluate", pairs, "--policy", "other.toml")
    assert refused.code == 2
    assert "is calibrated for other/model" in refused.err


def test_rows_that_cannot_be_used_are_named(memsieve: Memsieve, pairs: Path) -> None:
    with pairs.open("a", encoding="utf-8") as file:
        file.write('{"a": "Bo sings.", "b": "Bo sings well.", "label": "perhaps"}\n')
    shown = memsieve("policy", "calibrate", pairs, "--hidden-rate", "0.2", "--out", "mine.toml")
    assert shown.code == 0, shown.err
    assert "pairs.jsonl:71: label 'perhaps' is none of" in shown.err
    assert "pairs.jsonl, 70 rows" in Path("mine.toml").read_text("utf-8")


def test_too_few_pairs_cannot_show_what_is_wanted(memsieve: Memsieve, pairs: Path) -> None:
    refused = memsieve("policy", "calibrate", pairs, "--hidden-rate", "0.01")
    assert refused.code == 2
    assert re.search(r"\d\d pairs of two facts in the half that is fitted, and 381", refused.err)


def test_a_name_that_no_policy_can_have_is_refused(memsieve: Memsieve, pairs: Path) -> None:
    refused = memsieve("policy", "calibrate", pairs, "--name", "My Policy")
    assert (refused.code, "name" in refused.err) == (2, True)


def test_a_stream_has_no_labels_to_fit_to(memsieve: Memsieve, tmp_path: Path) -> None:
    write(tmp_path / "stream.jsonl", {"text": "Ana likes coffee.", "cluster": "coffee"})
    refused = memsieve("policy", "calibrate", "stream.jsonl")
    assert refused.code == 2
    assert "stream.jsonl is a stream: give labelled pairs" in refused.err


def _store(memsieve: Memsieve, tmp_path: Path, answers: int) -> None:
    """Make a store of facts, and answer that they are distinct."""
    texts = [f"The {thing} is in box {n}." for thing in THINGS for n in range(8)]
    write_events(tmp_path / "facts.jsonl", *texts)
    keep = ("--policy", 'default {with_verdict.contradicts = "keep-both"}')
    assert memsieve("run", "facts.jsonl", "--store", "store", *keep).code == 0
    memories = memsieve("memory", "list", "--store", "store", "--json").json()
    seen = [{"memory_id": one["id"], "content_key": one["content_key"]} for one in memories]
    rows = [
        {
            "kind": "answer",
            "schema_version": 1,
            "event_id": f"answer-{n}",
            "scope": "acme/ana",
            "review_id": f"review-{n}",
            "newer": seen[2 * n + 1],
            "older": seen[2 * n],
            "verdict": "distinct",
            "author": "Bo",
            "occurred_at": "2026-03-02T09:00:00Z",
        }
        for n in range(answers)
    ]
    (tmp_path / "answers.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8"
    )
    assert memsieve("run", "answers.jsonl", "--store", "store", *keep).code == 0


@pytest.mark.covers("B42")
def test_answered_reviews_are_labels(memsieve: Memsieve, tmp_path: Path) -> None:
    _store(memsieve, tmp_path, answers=40)
    told = memsieve("policy", "calibrate", "store", "--hidden-rate", "0.3", "--json").json()
    assert re.fullmatch(
        r"answered reviews of store, 40 rows, sha256 [0-9a-f]{64}", told["calibration"]["dataset"]
    )
    halves = [told[half]["hidden_rate"]["of"] for half in ("fitted_half", "other_half")]
    assert sum(halves) == 40


def test_too_few_answers_are_no_basis(memsieve: Memsieve, tmp_path: Path) -> None:
    _store(memsieve, tmp_path, answers=29)
    refused = memsieve("policy", "calibrate", "store", "--hidden-rate", "0.3")
    assert refused.code == 2
    assert "store has 29 answered reviews, and 30 are needed" in refused.err
