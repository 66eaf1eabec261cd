from pathlib import Path

import pytest

from tests.commands.conftest import Memsieve, write_events
from tests.commands.lab.test_evaluate import write

NEAR = ["The gate code is 4711.", "The gate code is 4712.", "Bo keeps bees behind the house."]


@pytest.mark.covers("S1.1")
def test_a_file_is_counted_pair_by_pair_within_its_scopes(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    write_events(tmp_path / "rows.jsonl", *NEAR, NEAR[0])
    told = memsieve("store", "analyze", "rows.jsonl", "--json").json()
    assert (told["memories"], told["live"], told["scopes"]) == (4, 4, 1)
    pairs = {one["threshold"]: one for one in told["pairs"]}
    assert list(pairs) == [0.98, 0.95, 0.90, 0.85, 0.80, 0.75]
    assert pairs[0.98]["pairs"] == 1
    assert pairs[0.85] == {"threshold": 0.85, "pairs": 3, "memories": 3, "share": 0.75}
    assert (told["growth"], told["health"], told["supersession"]) == (None, None, None)
    apart = write_events(tmp_path / "more.jsonl", NEAR[0], scope="acme/bo").read_text("utf-8")
    with (tmp_path / "rows.jsonl").open("a", encoding="utf-8") as rows:
        rows.write(apart)
    again = memsieve("store", "analyze", "rows.jsonl", "--json").json()
    assert again["pairs"] == [
        {**one, "share": again["pairs"][n]["share"]} for n, one in enumerate(told["pairs"])
    ]
    assert again["scopes"] == 2


@pytest.mark.covers("B117", "B115", "S2.28", "S2.30")
def test_a_store_tells_how_it_has_grown(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "one.jsonl", *NEAR, *[f"Box {n} is empty now." for n in range(16)])
    write_events(tmp_path / "two.jsonl", *[NEAR[2]] * 5, scope="acme/ana")
    rows = (tmp_path / "two.jsonl").read_text("utf-8").replace("2026-03-01", "2026-03-02")
    (tmp_path / "two.jsonl").write_text(rows, "utf-8")
    assert memsieve("run", "one.jsonl", "two.jsonl", "--store", "store").code == 0
    told = memsieve("store", "analyze", "store", "--json").json()
    assert told["model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert [(day["day"], day["events"]) for day in told["growth"]["days"]] == [
        ("2026-03-01", 19),
        ("2026-03-02", 24),
    ]
    assert told["growth"]["days"][1]["live"] == told["live"] == told["growth"]["live"]
    health = told["health"]
    assert health["memories_before"] == 24
    assert health["removed_count"] == 24 - told["live"] >= 5
    assert health["removal_rate"] == told["growth"]["size_reduction"]
    assert health["status"] in {"high", "alert"}
    assert [scope["scope"] for scope in health["worst_scopes"]] == ["acme/ana"]
    assert told["supersession"]["without_live_successor"] == 0
    counted = 24 - told["supersession"]["superseded"]  # the gate has another code now
    assert told["observations_average"] == pytest.approx(counted / told["live"], abs=1e-3)
    assert told["duration_ms"] > 0
    shown = memsieve("store", "analyze", "--store", "store").out
    assert "24 events" in shown
    assert "fewer than events" in shown


def test_chains_of_supersession_are_told(memsieve: Memsieve, tmp_path: Path) -> None:
    texts = ["Ana likes coffee.", "Ana likes coffee. Ana also likes coffee with milk."]
    write_events(tmp_path / "rows.jsonl", *texts, f"{texts[1]} Ana also likes coffee with sugar.")
    assert memsieve("run", "rows.jsonl", "--store", "store").code == 0
    told = memsieve("store", "analyze", "store", "--json").json()["supersession"]
    assert told == {
        "superseded": 2,
        "depth_max": 2,
        "depth_mean": 1.5,
        "without_live_successor": 0,
        "examples": [],
    }


def test_an_empty_file_has_no_share(memsieve: Memsieve, tmp_path: Path) -> None:
    write(tmp_path / "none.jsonl")
    told = memsieve("store", "analyze", "none.jsonl", "--json").json()
    assert {one["share"] for one in told["pairs"]} == {None}
    assert memsieve("store", "analyze", "none.jsonl").code == 0


@pytest.mark.parametrize(
    ("row", "reason"),
    [("{", "rows.jsonl:2: not JSON"), ({"txt": "x"}, "rows.jsonl:2: column text is missing")],
)
def test_a_bad_row_is_named(memsieve: Memsieve, tmp_path: Path, row: object, reason: str) -> None:
    write(tmp_path / "rows.jsonl", {"text": "Bo keeps bees."}, row)
    refused = memsieve("store", "analyze", "rows.jsonl")
    assert refused.code == 2
    assert reason in refused.err


def test_what_is_not_there_is_named(memsieve: Memsieve, tmp_path: Path) -> None:
    assert memsieve("store", "analyze", "nowhere").code == 2
    assert memsieve("store", "analyze", "--store", "nowhere").code == 3
    assert "give one of them" in memsieve("store", "analyze", "a", "--store", "b").err
    Path("empty").mkdir()
    assert memsieve("store", "analyze", "empty").code == 3
    assert tmp_path.is_dir()
