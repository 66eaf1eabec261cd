import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from streams.model.policy import Policy
from streams.store.core.toml import as_toml
from streams.store.world.extras import how_to_install
from tests.commands.conftest import Memsieve

OWN = Path(__file__).parents[3] / "benchmarks" / "datasets" / "memory_pairs.jsonl"
MORE = "Ana likes coffee. Ana also likes coffee with milk."
PAIRS: list[dict[str, Any]] = [
    {"a": "Ana likes coffee.", "b": "ana likes coffee.", "label": 1, "set": "x", "kind": "case"},
    {"a": "Bo keeps bees.", "b": "The last train leaves at nine.", "label": 0, "set": "x"},
    {
        "a": "The gate code is 4711.",
        "b": "The gate code is 4712.",
        "label": "contradicts",
        "set": "y",
        "kind": "number",
    },
    {"a": MORE, "b": "Ana likes coffee.", "label": "refines", "set": "y", "kind": "more"},
    {"a": "Ana likes coffee.", "b": MORE, "label": "refined-by", "set": "y", "kind": "more"},
    {"a": "Nobody has said what this is.", "b": "Nor this.", "label": None},
]
RATES = {
    "found_rate",
    "hidden_rate",
    "kept_twice_rate",
    "lost_rate",
    "superseded_rate",
    "displaced_rate",
    "review_rate",
    "guard_veto_rate",
}
NUMBERS = {"auc", "auc_rows", "b3_precision", "b3_recall", "b3_f1"}


def write(path: Path, *rows: object) -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write(tmp_path / "pairs.jsonl", *PAIRS)


@pytest.mark.covers("B41")
def test_a_policy_is_measured_on_labelled_pairs(memsieve: Memsieve, pairs: Path) -> None:
    told = memsieve("policy", "evaluate", pairs, "--json").json()
    assert told["rows"] == {"read": 6, "measured": 5, "skipped": 1, "rejected": 0}
    ours, cosine = told["overall"]["ours"], told["overall"]["cosine"]
    assert set(ours) == set(cosine) == RATES | NUMBERS
    assert (ours["hidden_rate"]["count"], ours["hidden_rate"]["of"]) == (0, 2)
    assert ours["hidden_rate"]["high"] == pytest.approx(0.6576, abs=1e-4)
    assert (ours["found_rate"]["count"], ours["found_rate"]["of"]) == (3, 3)
    assert (ours["lost_rate"]["count"], ours["lost_rate"]["of"]) == (0, 5)
    assert ours["kept_twice_rate"]["rate"] == 0.0
    assert cosine["hidden_rate"]["count"] == 1, "the two codes are nearly the same to a cosine"
    assert cosine["lost_rate"]["count"] >= 1
    assert (cosine["review_rate"]["rate"], cosine["review_rate"]["of"]) == (None, 0)
    assert set(told["sets"]) == {"x", "y"}
    assert set(told["kinds"]) == {"case", "number", "more"}
    assert told["sets"]["x"]["rows"] == 2
    assert told["stream"] is None


@pytest.mark.covers("C1", "B41")
def test_of_the_pairs_that_nothing_was_fitted_to_hardly_a_fact_is_hidden(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """The gate of the measured operating point, kind by kind of difference; see benchmarks/."""
    every = (json.loads(line) for line in OWN.read_text("utf-8").splitlines())
    held_out = [row for row in every if row["half"] == "held-out"]
    told = memsieve("policy", "evaluate", write(tmp_path / "own.jsonl", *held_out), "--json").json()
    ours, cosine = told["overall"]["ours"], told["overall"]["cosine"]
    assert told["rows"]["measured"] == len(held_out) >= 400
    assert {"number", "date", "negation", "name", "scope", "order"} <= set(told["kinds"])
    assert ours["hidden_rate"]["rate"] <= 0.05
    assert cosine["hidden_rate"]["rate"] > 0.3, "by similarity alone"
    assert ours["lost_rate"]["count"] == 0
    assert ours["found_rate"]["rate"] >= 0.45


def test_each_row_is_told_with_its_decision(memsieve: Memsieve, pairs: Path) -> None:
    assert memsieve("policy", "evaluate", pairs, "--rows", "rows.jsonl").code == 0
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text("utf-8").splitlines()]
    assert [row["decision"] for row in rows] == [
        "reinforce",
        "insert",
        "replace",
        "merge",
        "reinforce",
    ]
    assert [row["label"] for row in rows] == ["1", "0", "contradicts", "refines", "refined-by"]
    assert rows[0]["similarity"] > 0.9
    assert rows[2]["place"].endswith("pairs.jsonl:3")
    assert rows[3]["result"] == MORE
    assert {
        "verdict",
        "judge",
        "probabilities",
        "findings",
        "found",
        "hidden",
        "kept_twice",
        "lost",
    } <= set(rows[0])
    assert [row["hidden"] for row in rows] == [None, False, False, None, None]
    assert [row["found"] for row in rows] == [True, None, None, True, True]
    assert rows[2]["cosine"]["hidden"] is True


def test_a_difference_of_a_number_is_no_duplicate(memsieve: Memsieve, pairs: Path) -> None:
    assert memsieve("policy", "evaluate", pairs, "--rows", "rows.jsonl").code == 0
    lines = Path("rows.jsonl").read_text("utf-8").splitlines()
    assert [f["guard"] for f in json.loads(lines[2])["findings"]]


def test_a_person_gets_a_table(memsieve: Memsieve, pairs: Path) -> None:
    shown = memsieve("policy", "evaluate", pairs)
    assert shown.code == 0
    assert "6 rows read, 5 measured, 1 without a label" in shown.out
    assert re.search(r"hidden +0\.0% \(0\.0% to 65\.8%\)", shown.out)
    assert "cosine >= 0.85" in shown.out


def test_nothing_is_written_but_what_was_asked_for(
    memsieve: Memsieve, pairs: Path, tmp_path: Path
) -> None:
    before = set(tmp_path.iterdir())
    assert memsieve("policy", "evaluate", pairs, "--html", "r.html", "--rows", "r.jsonl").code == 0
    assert set(tmp_path.iterdir()) - before == {tmp_path / "r.html", tmp_path / "r.jsonl"}


def test_a_report_is_one_page_that_fetches_nothing(memsieve: Memsieve, tmp_path: Path) -> None:
    hostile = '<script>alert(1)</script> & "quotes"'
    write(
        tmp_path / "pairs.jsonl",
        {"a": f"{hostile} is new.", "b": "Bo keeps bees.", "label": "same", "kind": "<b>"},
        *PAIRS,
    )
    assert memsieve("policy", "evaluate", "pairs.jsonl", "--html", "report.html").code == 0
    page = Path("report.html").read_text("utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quotes&quot; is new." in page
    assert "<script" not in page
    assert "<b>" not in page
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//|@import|url\(["']?http""", page)
    assert page.count("<svg") == 2
    assert "currentColor" in page
    assert "color-scheme: light dark" in page
    assert memsieve("policy", "evaluate", "pairs.jsonl", "--html", "again.html").code == 0
    assert Path("again.html").read_text("utf-8") == page


def test_a_report_without_what_draws_it_is_refused_at_once(
    memsieve: Memsieve, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(_: str) -> None:
        return None

    monkeypatch.setattr("streams.store.world.extras.find_spec", absent)
    refused = memsieve("policy", "evaluate", pairs, "--html", "r.html")
    assert refused.code == 2
    told = f"memsieve: --html needs an extra: {how_to_install('lab')} (matplotlib is missing)\n"
    assert refused.err == told


def test_events_are_taken_as_they_are(memsieve: Memsieve, tmp_path: Path) -> None:
    event = {"text": "Bo keeps bees.", "scope": "acme/bo", "occurred_at": "2025-05-05T00:00:00Z"}
    write(
        tmp_path / "events.jsonl",
        {"a": event, "b": {"text": "Bo keeps bees.", "tags": ["farm"]}, "label": 1},
        {"a": "Bo keeps bees.", "b": event, "label": 1},
    )
    told = memsieve("policy", "evaluate", "events.jsonl", "--json").json()
    assert told["overall"]["ours"]["found_rate"]["count"] == 2
    assert set(told["sets"]) == {"events"}


def test_rules_of_a_scope_hold_for_its_pairs(memsieve: Memsieve, tmp_path: Path) -> None:
    pair = {"a": {"text": "Bo keeps bees.", "scope": "off/bo"}, "b": "Bo keeps bees.", "label": 1}
    write(tmp_path / "pairs.jsonl", pair, {"a": "Bo has a dog.", "b": "Bo has a dog.", "label": 1})
    default = Path(__file__).parents[3] / "streams" / "store" / "policies" / "default.toml"
    text = f"{default.read_text('utf-8')}\n[scopes.off]\nenabled = false\n"
    (tmp_path / "off.toml").write_text(text, "utf-8")
    told = memsieve("policy", "evaluate", "pairs.jsonl", "--policy", "off.toml", "--json").json()
    assert told["overall"]["ours"]["kept_twice_rate"]["count"] == 1


@pytest.fixture
def careless(tmp_path: Path) -> str:
    """Write a policy that joins whatever is near."""
    default = Path(__file__).parents[3] / "streams" / "store" / "policies" / "default.toml"
    rules = {**tomllib.loads(default.read_text("utf-8")), "name": "careless", "guards": False}
    rules["judges"] = {"chain": []}
    rules["without_verdict"] = {"match": "merge", "review": "merge"}
    (tmp_path / "careless.toml").write_text(
        as_toml(Policy.model_validate(rules).model_dump(mode="json")), "utf-8"
    )
    return "careless.toml"


def test_two_facts_in_one_text_are_told_though_nothing_is_lost(
    memsieve: Memsieve, pairs: Path, careless: str
) -> None:
    told = memsieve("policy", "evaluate", pairs, "--policy", careless, "--json").json()["kinds"][
        "number"
    ]
    ours = told["ours"]
    assert (ours["hidden_rate"]["count"], ours["hidden_rate"]["of"]) == (1, 1)
    assert (ours["lost_rate"]["count"], ours["lost_rate"]["of"]) == (0, 1)
    assert (ours["b3_precision"], ours["b3_recall"]) == (0.5, 1.0)


def test_a_streams_facts_in_one_text_are_told(
    memsieve: Memsieve, tmp_path: Path, careless: str
) -> None:
    write(
        tmp_path / "stream.jsonl",
        {"text": "The gate code is 4711.", "cluster": "one"},
        {"text": "The gate code is 4712.", "cluster": "two"},
        {"text": "the gate code is 4711", "cluster": "one"},
    )
    args = ("policy", "evaluate", "stream.jsonl", "--policy", careless)
    ours = memsieve(*args, "--json", "--rows", "rows.jsonl").json()["overall"]["ours"]
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text("utf-8").splitlines()]
    assert [row["decision"] for row in rows] == ["insert", "merge", "reinforce"]
    assert [row["hidden"] for row in rows] == [False, True, None]
    assert (ours["lost_rate"]["count"], ours["kept_twice_rate"]["count"]) == (0, 0)
    assert (ours["b3_precision"], ours["b3_recall"]) == (0.5556, 1.0)


@pytest.mark.covers("S2.27")
def test_a_stream_is_measured_by_its_clusters(memsieve: Memsieve, tmp_path: Path) -> None:
    write(
        tmp_path / "stream.jsonl",
        {"text": "Ana likes coffee.", "cluster": "coffee"},
        {"text": "ana likes  coffee.", "cluster": "coffee"},
        {"text": "The gate code is 4711.", "cluster": "code"},
        {"text": "Ana likes coffee.", "cluster": "other ana", "scope": "elsewhere"},
        {"text": "Nobody knows whether this counts.", "cluster": None},
        {"kind": "remember", "text": "Bo keeps bees.", "cluster": 7},
    )
    told = memsieve("policy", "evaluate", "stream.jsonl", "--json").json()
    ours, stream = told["overall"]["ours"], told["stream"]
    assert told["rows"] == {"read": 6, "measured": 5, "skipped": 1, "rejected": 0}
    assert (ours["b3_precision"], ours["b3_recall"], ours["b3_f1"]) == (1.0, 1.0, 1.0)
    assert (ours["found_rate"]["count"], ours["found_rate"]["of"]) == (1, 1)
    assert (ours["lost_rate"]["count"], ours["lost_rate"]["of"]) == (0, 5)
    assert (stream["memories_before"], stream["memories_after"]) == (6, 5)
    assert (stream["removed_count"], stream["removal_rate"]) == (1, 0.1667)
    assert stream["duration_ms"] > 0
    assert stream["seconds_per_1000"] == pytest.approx(stream["duration_ms"] / 6, abs=0.2)
    assert stream["duration"] in {"healthy", "slow", "alert"}


HISTORY = ("Trap door bars after descending.", "The trap door bars after descending.")
RESIDUE = (
    *(f"The {colour} button on the panel does nothing." for colour in ("red", "blue", "brown")),
    "A knife lies on the kitchen table.",
    "No knife lies on the kitchen table.",
)


@pytest.mark.covers("D3", "D2")
def test_a_history_of_repeats_and_what_is_left_of_it_are_each_reported(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """A history is full of repeats, what lives on of traps: good figures of one tell nothing."""
    history = ({"text": HISTORY[nth % 2], "cluster": "door"} for nth in range(12))
    residue = ({"text": text, "cluster": text} for text in RESIDUE)
    write(tmp_path / "history.jsonl", *history)
    write(tmp_path / "residue.jsonl", *residue)
    files = ("history.jsonl", "residue.jsonl")
    told = memsieve("policy", "evaluate", *files, "--policy", "zork-semantic", "--json").json()
    found, lost = "found_rate", "lost_rate"
    then, now = (told["sets"][name.removesuffix(".jsonl")]["ours"] for name in files)
    assert (then[found]["count"], then[found]["of"]) == (11, 11)
    assert (now[lost]["count"], now[lost]["of"]) == (0, len(RESIDUE))
    assert told["stream"]["memories_after"] == 1 + len(RESIDUE)


def test_files_of_one_name_are_not_taken_for_one(memsieve: Memsieve, tmp_path: Path) -> None:
    for directory in ("one", "two"):
        (tmp_path / directory).mkdir()
    write(tmp_path / "one" / "x.jsonl", {"a": "Bo keeps bees.", "b": "Bo keeps bees.", "label": 1})
    write(tmp_path / "two" / "x.jsonl", {"a": "Ana has a dog.", "b": "Ana has a dog.", "label": 1})
    told = memsieve("policy", "evaluate", "one/x.jsonl", "two/x.jsonl", "--json").json()
    assert told["rows"]["rejected"] == 0
    assert told["sets"]["x"]["ours"]["found_rate"]["count"] == 2


def test_so_many_rows_are_read_at_most(memsieve: Memsieve, pairs: Path) -> None:
    told = memsieve("policy", "evaluate", pairs, "--limit", "2", "--json").json()
    assert told["rows"]["read"] == 2


@pytest.mark.parametrize("rows", [[], [PAIRS[5]]])
def test_without_a_label_every_rate_is_null(
    memsieve: Memsieve, tmp_path: Path, rows: list[object]
) -> None:
    write(tmp_path / "none.jsonl", *rows)
    shown = memsieve("policy", "evaluate", "none.jsonl", "--json", "--html", "none.html")
    assert shown.code == 0
    assert "no row has a label: there is nothing to measure" in shown.err
    ours = shown.json()["overall"]["ours"]
    assert all(ours[name]["rate"] is None for name in RATES)
    assert ours["b3_f1"] is None
    assert memsieve("policy", "evaluate", "none.jsonl").code == 0


def test_without_one_of_the_classes_its_rates_are_null(memsieve: Memsieve, tmp_path: Path) -> None:
    write(tmp_path / "half.jsonl", PAIRS[1])
    shown = memsieve("policy", "evaluate", "half.jsonl", "--json")
    assert "no row says what is known (1, same, refined-by)" in shown.err
    assert shown.json()["overall"]["ours"]["kept_twice_rate"]["rate"] is None
    assert shown.json()["overall"]["ours"]["auc"] is None


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{", "bad.jsonl:2: not JSON"),
        ({"a": "x"}, "bad.jsonl:2: label is missing; add it, null for a row to be skipped"),
        ({"a": "x", "label": 1}, "bad.jsonl:2: b is missing; give it a text"),
        ({"a": 7, "b": "x", "label": 1}, "bad.jsonl:2: a is neither a text nor an event"),
        ({"a": " ", "b": "x", "label": 1}, "bad.jsonl:2: a: text is empty"),
        ({"a": {"text": "x", "mood": 1}, "b": "x", "label": 1}, "a: mood is not a field"),
        ({"a": "x", "b": "y", "label": 2}, "label 2 is none of 1, 0, same, refines, refined-by"),
        ({"a": "x", "b": "y", "label": True}, "label True is none of 1, 0"),
        ({"text": "x"}, "bad.jsonl:2: has neither a, b and label (a pair) nor text and cluster"),
        ({"cluster": "x"}, "bad.jsonl:2: column text is missing"),
    ],
)
def test_a_bad_row_is_named_and_left_out(
    memsieve: Memsieve, tmp_path: Path, row: object, reason: str
) -> None:
    write(tmp_path / "bad.jsonl", PAIRS[0], row)
    measured = memsieve("policy", "evaluate", "bad.jsonl", "--json")
    assert measured.code == 0
    assert "left out: " in measured.err
    assert reason in measured.err
    rows = json.loads(measured.out)["rows"]
    assert (rows["measured"], rows["rejected"]) == (1, 1)
    write(tmp_path / "bad.jsonl", row)
    refused = memsieve("policy", "evaluate", "bad.jsonl")
    assert refused.code == 2
    assert reason.replace(":2:", ":1:") in refused.err


def test_pairs_and_streams_are_measured_apart(memsieve: Memsieve, tmp_path: Path) -> None:
    write(tmp_path / "both.jsonl", PAIRS[0], {"text": "x", "cluster": "x"})
    refused = memsieve("policy", "evaluate", "both.jsonl")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "labelled pairs and streams are measured separately" in refused.err


def test_what_cannot_be_written_is_named(memsieve: Memsieve, pairs: Path) -> None:
    refused = memsieve("policy", "evaluate", pairs, "--rows", "nowhere/rows.jsonl")
    assert (
        refused.code,
        "--rows nowhere/rows.jsonl: there is no directory nowhere" in refused.err,
    ) == (2, True)


def test_a_file_that_is_not_there_is_named(memsieve: Memsieve) -> None:
    refused = memsieve("policy", "evaluate", "nowhere.jsonl")
    assert (refused.code, "nowhere.jsonl cannot be read" in refused.err) == (2, True)
