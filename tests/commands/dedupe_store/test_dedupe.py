"""`memsieve dedupe`: other programs' stores, read as they are and copied without repetitions."""

import asyncio
import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from tests.commands.conftest import Memsieve
from tests.support.servers.qdrant_clients import rest_client

COFFEE, AGAIN = "Ana likes coffee in the morning.", "In the morning, Ana likes coffee."
MORE = "Ana likes coffee in the morning. She takes it without sugar."
LISBON = "Bo works in Lisbon."
PARIS = "Bo works in Paris."


def mem0(*texts: str) -> list[dict[str, Any]]:
    return [
        {
            "id": f"m{n}",
            "memory": text,
            "hash": f"h{n}",
            "metadata": {"n": n},
            "user_id": "bo" if text.startswith("Bo") else "ana",
            "created_at": f"2026-03-0{n + 1}T09:00:00Z",
        }
        for n, text in enumerate(texts)
    ]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.covers("S1.9", "S1.43", "B90", "S1.29")
def test_a_copy_says_each_fact_once_and_the_source_stays(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    source = tmp_path / "mem0.json"
    source.write_text(json.dumps({"results": mem0(COFFEE, LISBON, AGAIN, MORE, PARIS)}))
    before = source.read_bytes()
    told = memsieve("dedupe", source, "--out", "copy.jsonl", "--json").json()
    assert source.read_bytes() == before
    assert (told["rows"], told["memories_before"], told["memories_after"]) == (5, 5, 3)
    assert (told["removed_count"], told["removal_rate"], told["status"]) == (2, 0.4, "high")
    assert told["pairs"]["0.95"] >= 1
    [group] = told["groups"]
    assert {one["id"] for one in group["members"]} == {"m0", "m2", "m3"}
    copied = {row["id"]: row for row in lines(tmp_path / "copy.jsonl")}
    assert {row["memory"] for row in copied.values()} == {MORE, LISBON, PARIS}
    assert copied["m1"] == mem0(COFFEE, LISBON)[1]  # as it was
    assert copied["m3"]["merged_from"] == ["m0", "m2", "m3"]
    assert copied["m3"]["metadata"] == {"n": 3}
    again = memsieve("dedupe", "copy.jsonl", "--json").json()
    assert (again["removed_count"], again["written"]) == (0, None)


def test_an_id_of_rows_that_say_different_things_is_told(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = mem0(COFFEE, LISBON, PARIS)
    (tmp_path / "mem0.json").write_text(
        json.dumps([{**row, "id": "m0"} for row in rows[:2]] + rows[2:])
    )
    told = memsieve("dedupe", "mem0.json")
    assert "several rows that stay have the id m0: they say different things\n" in told.err


@pytest.mark.covers("S1.30", "S1.44", "B91")
def test_a_dry_run_writes_nothing(memsieve: Memsieve, tmp_path: Path) -> None:
    (tmp_path / "mem0.json").write_text(json.dumps(mem0(COFFEE, AGAIN)))
    told = memsieve("dedupe", "mem0.json", "--out", "copy.jsonl", "--dry-run")
    assert "2 memories, 1 afterwards (50.0% fewer)" in told.out
    assert "nothing was written" in told.err
    assert not (tmp_path / "copy.jsonl").exists()


@pytest.mark.covers("S1.10", "S1.26", "S1.27")
@pytest.mark.parametrize(
    ("bands", "left"),
    [
        (["--upper", "0.95", "--lower", "0.90"], 1),
        (["--upper", "1", "--lower", "1"], 2),
        (["--lower", "0.5"], 1),
    ],
)
def test_the_two_thresholds_say_what_is_near(
    memsieve: Memsieve, tmp_path: Path, bands: list[str], left: int
) -> None:
    (tmp_path / "mem0.json").write_text(json.dumps(mem0(COFFEE, AGAIN)))
    told = memsieve("dedupe", "mem0.json", *bands, "--json").json()
    assert told["memories_after"] == left


@pytest.mark.covers("S1.26", "S1.27")
@pytest.mark.parametrize("option", ["--upper", "--lower"])
@pytest.mark.parametrize("outside", ["-0.5", "1.5"])
def test_a_threshold_outside_of_0_to_1_is_refused(
    memsieve: Memsieve, tmp_path: Path, option: str, outside: str
) -> None:
    (tmp_path / "mem0.json").write_text(json.dumps(mem0(COFFEE, AGAIN)))
    told = memsieve("dedupe", "mem0.json", option, outside)
    assert (told.code, told.out) == (2, "")
    assert option in told.err


def test_an_export_of_chroma_is_read(memsieve: Memsieve, tmp_path: Path) -> None:
    export = {
        "ids": ["a", "b", "c"],
        "documents": [COFFEE, AGAIN, None],
        "metadatas": [{"user_id": "ana"}, {"user_id": "ana"}, None],
        "embeddings": None,
    }
    (tmp_path / "chroma.json").write_text(json.dumps(export))
    told = memsieve("dedupe", "chroma.json", "--out", "copy.jsonl", "--json").json()
    assert (told["memories_before"], told["memories_after"]) == (2, 1)
    assert [one["row"] for one in told["refused"]] == ["c"]
    assert [row["id"] for row in lines(tmp_path / "copy.jsonl")][1:] == ["c"]  # nothing is lost
    (tmp_path / "chroma.json").write_text(json.dumps({**export, "ids": ["a"]}))
    broken = memsieve("dedupe", "chroma.json")
    assert (broken.code, "differ in length" in broken.err) == (2, True)


def test_lines_with_columns_of_their_own_names(memsieve: Memsieve, tmp_path: Path) -> None:
    rows = [
        {"said": text, "who": "ana", "when": "2026-03-01", "k": k}
        for k, text in enumerate((COFFEE, AGAIN))
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = ("--text-field", "said", "--scope-field", "team/{who}", "--time-field", "when")
    told = memsieve("dedupe", "rows.jsonl", *columns, "--out", "copy.jsonl", "--json").json()
    assert told["groups"][0]["scope"] == "team/ana"
    [row] = lines(tmp_path / "copy.jsonl")
    assert row == {**rows[0], "merged_from": ["row 1", "row 2"]}


def points(texts: Sequence[str]) -> list[models.PointStruct]:
    return [
        models.PointStruct(id=n + 1, vector=[0.1, 0.2], payload={"data": text, "user_id": "ana"})
        for n, text in enumerate(texts)
    ]


PLAIN = models.VectorParams(size=2, distance=models.Distance.COSINE)


def test_a_local_directory_of_qdrants_client_is_read_and_not_touched(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    client = QdrantClient(path=str(tmp_path / "local"))
    client.create_collection("mem0", vectors_config=PLAIN)
    client.upsert("mem0", points([COFFEE, AGAIN, LISBON]))
    client.close()
    before = {path: path.read_bytes() for path in (tmp_path / "local").rglob("*") if path.is_file()}
    told = memsieve("dedupe", "local", "--out", "copy.jsonl", "--json").json()
    assert (told["place"], told["memories_after"]) == ("local mem0", 2)
    assert [row["data"] for row in lines(tmp_path / "copy.jsonl")] == [COFFEE, LISBON]
    after = {path: path.read_bytes() for path in (tmp_path / "local").rglob("*") if path.is_file()}
    assert after == before
    for option, why in (("--from-collection", "has no collection"), ("--collection", "of a URL")):
        refused = memsieve("dedupe", "local", option, "other")
        assert refused.code in {2, 3}
        assert why in refused.err


@pytest.mark.covers("S1.43", "B90")
def test_a_collection_of_a_server_is_copied_into_a_new_one(
    memsieve: Memsieve, qdrant_url: str, collection_prefix: str
) -> None:
    theirs, ours = f"{collection_prefix}-theirs", f"{collection_prefix}-ours"

    async def fill() -> None:
        client = rest_client(qdrant_url)
        await client.create_collection(theirs, vectors_config=PLAIN)
        await client.upsert(theirs, points([COFFEE, AGAIN, LISBON]), wait=True)
        await client.close()

    async def texts(name: str) -> dict[Any, Any]:
        client = rest_client(qdrant_url)
        found, _ = await client.scroll(name, limit=10, with_payload=True)
        await client.close()
        return {point.id: (point.payload or {})["data"] for point in found}

    asyncio.run(fill())
    arguments = ("dedupe", qdrant_url, "--from-collection", theirs, "--collection", ours)
    told = memsieve(*arguments, "--json")
    assert told.code == 0, told.err
    assert told.json()["written"] == ours
    assert asyncio.run(texts(ours)) == {1: COFFEE, 3: LISBON}
    assert len(asyncio.run(texts(theirs))) == 3
    again = memsieve(*arguments)
    assert (again.code, "already" in again.err) == (3, True)


@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t")])
def test_a_table_stays_a_table(
    memsieve: Memsieve, tmp_path: Path, suffix: str, separator: str
) -> None:
    rows = [["who", "note"], ["ana", COFFEE], ["ana", COFFEE.upper()], ["bo", 'He said "no, no".']]
    with (tmp_path / "notes.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    told = memsieve("dedupe", "notes.csv", "--scope-field", "who", "--out", f"clean.{suffix}")
    assert told.code == 0, told.err
    with (tmp_path / f"clean.{suffix}").open(newline="") as file:
        head, *copied = csv.reader(file, delimiter=separator)
    assert head == ["who", "note", "merged_from"]
    assert copied == [["ana", COFFEE, "row 1 | row 2"], ["bo", 'He said "no, no".', ""]]


def test_rows_that_fit_in_no_table_are_told_before_the_work(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / "nested.jsonl").write_text(json.dumps({"text": COFFEE, "tags": ["a"]}) + "\n")
    told = memsieve("dedupe", "nested.jsonl", "--out", "a.csv")
    assert told.code == 2
    assert "--out a.csv: tags holds more than one value" in told.err
    assert told.err.strip().endswith("name it a.jsonl")
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nothing.jsonl"], "cannot be read"),
        (["bad.jsonl"], "bad.jsonl: no row can be read, such as line 1: not JSON"),
        (["bad.json"], "bad.json: no row can be read, such as line 1: not JSON"),
        (["good.jsonl", "--out", "good.jsonl"], "already exists"),
        (["good.jsonl", "--out", "a", "--collection", "b"], "two places"),
        (["good.jsonl", "--out", "a.json"], "is JSON Lines, CSV or TSV; name it a.jsonl"),
        (["good.jsonl", "--collection", "b"], "--out FILE"),
        (["good.jsonl", "--upper", "0.8", "--lower", "0.9"], "--upper and --lower"),
        (["http://127.0.0.1:9"], "does not answer"),
        (["good.jsonl", "--apply"], "--apply is for a Memories.md, a file that ends in .md"),
        (["good.jsonl", "--undo"], "--undo is for a Memories.md, a file that ends in .md"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    memsieve: Memsieve, tmp_path: Path, arguments: list[str], why: str
) -> None:
    (tmp_path / "bad.jsonl").write_text("no json\n")
    (tmp_path / "bad.json").write_text("{no json")
    (tmp_path / "good.jsonl").write_text(json.dumps({"text": COFFEE}) + "\n")
    told = memsieve("dedupe", *arguments)
    assert told.code in {2, 7}
    assert why in told.err
    assert len(told.err.strip().splitlines()) == 1


def test_the_columns_of_a_table_are_guessed_as_run_guesses_them(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    table = f"Kunde;Bemerkung\nana;{COFFEE}\nana;{AGAIN}\nbo;{COFFEE}\n"
    (tmp_path / "notes.csv").write_text(table)
    told = memsieve("dedupe", "notes.csv", "--out", "copy.jsonl", "--json")
    assert "took Bemerkung as text, Kunde as scope" in told.err
    assert (told.json()["memories_before"], told.json()["memories_after"]) == (3, 2)
    assert {row["Kunde"] for row in lines(tmp_path / "copy.jsonl")} == {"ana", "bo"}


def test_the_facts_of_two_people_stay_two_whatever_the_column_is_called(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = [{"user": who, "memory": COFFEE} for who in ("ana", "bo")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert memsieve("dedupe", "rows.jsonl", "--json").json()["removed_count"] == 0
    as_one = memsieve("dedupe", "rows.jsonl", "--scope", "acme/all", "--json").json()
    assert as_one["removed_count"] == 1


@pytest.mark.parametrize(
    ("rows", "options", "why"),
    [
        ([{"nr": 1, "qty": 2}], (), "the column with the text is unclear"),
        (
            [{"memory": COFFEE, "desk": desk} for desk in ("a", "a", "b", "b")],
            (),
            "the scope of the rows is unclear",
        ),
        ([{"memory": COFFEE}], ("--text-field", "memry"), "did you mean --text-field memory?"),
        ([{"memory": ""}, {"memory": ""}], ("--text-field", "memory"), "no row can be used"),
    ],
)
def test_rows_that_cannot_be_told_apart_or_used_are_refused(
    memsieve: Memsieve,
    tmp_path: Path,
    rows: list[dict[str, Any]],
    options: tuple[str, ...],
    why: str,
) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = memsieve("dedupe", "rows.jsonl", *options, "--out", "copy.jsonl")
    assert (told.code, why in told.err, told.out) == (2, True, "")
    assert not (tmp_path / "copy.jsonl").exists()
