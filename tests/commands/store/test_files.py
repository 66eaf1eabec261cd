"""Files as people have them: columns that nobody named, formats, encodings, and what is no file."""

import gzip
import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from streams.store.world.extras import how_to_install
from streams.store.world.files import HEAD_BYTES, FileSource
from tests.commands.conftest import Memsieve, start, start_holding
from tests.commands.store.test_run import texts

ROWS = (
    {"when": "2026-03-02 09:10", "customer": "hill", "note": "The printer is out of toner today."},
    {"when": "2026-03-03 14:00", "customer": "dale", "note": "Zoë paid invoice 2093 twice."},
)
TEXTS = sorted(row["note"] for row in ROWS)
TOOK = "took note as text, customer as scope, when as time"
NO_TIMES = "no time column: rows are dated now"
NO_IDS = "no id column: ids are made from file, line and content"


def table(delimiter: str) -> str:
    lines = [tuple(ROWS[0]), *(tuple(row.values()) for row in ROWS)]
    return "".join(f"{delimiter.join(line)}\r\n" for line in lines)


def events(memsieve: Memsieve, store: str = "store") -> list[dict[str, Any]]:
    return [one["event"] for one in memsieve("decisions", "--store", store, "--json").json()]


def lines(rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def pretty(rows: Any) -> str:
    return "\n".join(json.dumps(row, ensure_ascii=False, indent=2) for row in rows)


def in_parquet(columns: Mapping[str, Any]) -> bytes:
    packed = io.BytesIO()
    parquet.write_table(pa.table(columns), packed)
    return packed.getvalue()


FILES: dict[str, tuple[str, bytes, str]] = {
    "lines": ("notes.jsonl", lines(ROWS).encode(), TOOK),
    "a table without an ending": ("notes", table(",").encode(), TOOK),
    "an array": ("notes.json", json.dumps(ROWS).encode(), f"{TOOK}; read as a JSON document"),
    "an array under another name": (
        "notes.jsonl",
        json.dumps(ROWS, indent=4).encode(),
        f"{TOOK}; read as a JSON document",
    ),
    "objects over several lines": (
        "notes.json",
        pretty(ROWS).encode("utf-8-sig"),
        f"{TOOK}; read as a JSON document",
    ),
    "lines in UTF-16": ("notes.jsonl", lines(ROWS).encode("utf-16"), f"{TOOK}; read as UTF-16-LE"),
    "an array in Latin-1": (
        "notes.json",
        json.dumps(ROWS, ensure_ascii=False).encode("latin-1"),
        f"{TOOK}; read as a JSON document, Windows-1252 (Latin-1)",
    ),
    "a table": ("notes.csv", table(",").encode("utf-8-sig"), TOOK),
    "a table with semicolons": (
        "notes.csv",
        table(";").encode("cp1252"),
        f"{TOOK}; read as Windows-1252 (Latin-1), columns separated by semicolons",
    ),
    "a table with tabs": (
        "notes.tsv",
        table("\t").encode("utf-16-be"),
        f"{TOOK}; read as UTF-16-BE, columns separated by tabs",
    ),
    "a packed table with bars": (
        "notes.csv.gz",
        gzip.compress(table("|").encode()),
        f"{TOOK}; read as columns separated by bars",
    ),
    "a packed array whose name does not say so": (
        "notes.json",
        gzip.compress(json.dumps(ROWS).encode("utf-16")),
        f"{TOOK}; read as a JSON document, UTF-16-LE",
    ),
    "Parquet": (
        "notes.parquet",
        in_parquet({name: [row[name] for row in ROWS] for name in ROWS[0]}),
        TOOK,
    ),
}


@pytest.mark.parametrize(("name", "content", "said"), FILES.values(), ids=FILES.keys())
def test_a_file_is_read_as_it_is_and_what_was_guessed_is_said(
    name: str, content: bytes, said: str, memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    result = memsieve("run", name, "--store", "store")
    assert result.code == 0
    assert f"{name}: {said}; {NO_IDS}\n" in result.err
    assert sorted(texts(memsieve)) == TEXTS
    assert {(one["scope"], one["occurred_at"]) for one in events(memsieve)} == {
        ("hill", "2026-03-02T09:10:00Z"),
        ("dale", "2026-03-03T14:00:00Z"),
    }


def test_what_is_called_as_memsieve_calls_it_is_not_talked_about(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    row = {"text": "Ana likes tea.", "scope": "acme/ana", "occurred_at": "2026-03-01"}
    (tmp_path / "facts.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert "took" not in memsieve("run", "facts.jsonl", "--store", "store").err
    del row["occurred_at"]
    (tmp_path / "facts.jsonl").write_text(json.dumps(row), encoding="utf-8")
    told = memsieve("run", "facts.jsonl", "--store", "store").err
    assert f"facts.jsonl: {NO_TIMES}\n" in told


def test_a_first_record_of_many_lines_spoils_no_guess(memsieve: Memsieve, tmp_path: Path) -> None:
    header, *rest = table(",").splitlines(keepends=True)
    long = '2026-03-02,hill,"' + "word word\n" * 50_000 + '"\r\n'
    (tmp_path / "notes.csv").write_text(header + long + "".join(rest), encoding="utf-8", newline="")
    assert TOOK in memsieve("run", "notes.csv", "--store", "store").err
    assert sorted(texts(memsieve)) == TEXTS


@pytest.mark.parametrize("name", ["notes.jsonl", "notes.json"])
def test_a_first_row_of_megabytes_spoils_no_guess(
    name: str, memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = [{**ROWS[0], "note": "word " * 1_000_000}, *ROWS]
    content = lines(rows) if name == "notes.jsonl" else json.dumps(rows)
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert TOOK in memsieve("run", name, "--store", "store").err
    assert sorted(texts(memsieve)) == TEXTS


def test_a_pipe_is_read_from_its_beginning_however_long_its_first_row_is(tmp_path: Path) -> None:
    rows = lines([{**ROWS[0], "note": "word " * 1_000_000}, *ROWS])
    process = start("run", "-", "--store", "store", "--json", cwd=tmp_path)
    out, told = process.communicate(rows, timeout=60)
    assert TOOK in told
    told = json.loads(out)
    assert (told["decisions"]["insert"], told["dead_letters"]) == (2, 1)


def test_a_first_row_that_is_longer_than_any_may_be_is_named(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    long = {**ROWS[0], "note": "word " * 20_000_000}
    (tmp_path / "notes.jsonl").write_text(lines([long, *ROWS]), encoding="utf-8")
    result = memsieve("run", "notes.jsonl", "--store", "store")
    assert result.code == 2
    assert "no row can be read, such as line 1: is longer than 16,777,216 bytes" in result.err


def test_rows_that_name_nobody_are_of_one_scope_and_that_is_said(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = [{"id": n, "fact": text} for n, text in enumerate(TEXTS)]
    (tmp_path / "my notes.jsonl").write_text(lines(rows), encoding="utf-8")
    result = memsieve("run", "my notes.jsonl", "--store", "store")
    assert f"took fact as text, id as id, all rows as scope my-notes; {NO_TIMES}\n" in result.err
    assert {(one["event_id"], one["scope"]) for one in events(memsieve)} == {
        ("0", "my-notes"),
        ("1", "my-notes"),
    }
    named = memsieve("run", "my notes.jsonl", "--store", "other", "--scope", "acme/ana")
    assert f"took fact as text, id as id; {NO_TIMES}\n" in named.err
    assert {one["scope"] for one in events(memsieve, "other")} == {"acme/ana"}


@pytest.mark.parametrize(
    ("rows", "arguments", "said"),
    [
        (ROWS, ["--text-field", "nota"], "no column nota: did you mean --text-field note?"),
        (ROWS, ["--text-field", "xyz"], "no column xyz: did you mean --text-field note?"),
        (ROWS, ["--scope-field", "Customer"], "did you mean --scope-field customer?"),
        (
            ROWS,
            ["--scope-field", "desk/{custmer}"],
            "no column custmer: did you mean --scope-field 'desk/{customer}'?",
        ),
        (ROWS, ["--time-field", "whens"], "did you mean --time-field when?"),
        (ROWS, ["--id-field", "xyz"], "no column xyz: The columns are customer, note, when"),
        (
            [{"question": one["note"], "answer": one["note"]} for one in ROWS],
            [],
            "the column with the text is unclear; name it with --text-field COLUMN",
        ),
        (
            [{"note": text, "animal": animal} for text in TEXTS for animal in ("cat", "dog")],
            [],
            "--scope-field COLUMN (perhaps animal), or give --scope NAME for all rows",
        ),
        (ROWS, ["--scope", "a", "--scope-field", "customer"], "give one of them"),
        (
            [{"record": {"note": "Tea."}}],
            [],
            "the columns are record; record holds objects, which are not looked into: write each as",
        ),
        (
            [{"note": {"body": "Tea."}, "user": {"name": "ana"}}],
            ["--text-field", "note.body"],
            "note holds objects, which are not looked into: write each as a row, or move their",
        ),
        (
            [{"messages": [{"role": "user", "content": "Tea."}]}],
            [],
            "the columns are messages; messages holds objects, which are not looked into: write",
        ),
        (
            [{"note": "Tea.", "notes": {"body": "Tea."}}],
            ["--text-field", "notez"],
            "has no column notez: did you mean --text-field note? The columns are note\n",
        ),
        (ROWS, ["--scope", "desk/{customer}"], "write --scope-field for a scope made of columns"),
        (ROWS, ["--scope", "acme/*"], "--scope acme/*: holds the wildcard *"),
    ],
)
def test_a_column_that_is_not_there_or_not_certain_stops_the_run_at_once(
    rows: Any, arguments: list[str], said: str, memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / "notes.jsonl").write_text(lines(rows), encoding="utf-8")
    result = memsieve("run", "notes.jsonl", "--store", "store", *arguments)
    assert result.code == 2
    assert said in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "store").exists()


Make = Callable[[Path], object]


def write(content: bytes) -> Make:
    return lambda path: path.write_bytes(content)


def nothing(_: Path) -> None: ...


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("notes.csv.gz", write(table(",").encode()), "but it is not gzip; rename it, or pack it"),
        ("notes.jsonl.gz", write(b"\x1f\x8bjunk" * 9), "cannot be read: Error -3"),
        ("notes.csv", Path.mkdir, "cannot be read: Is a directory"),
        ("notes.csv", nothing, "cannot be read: No such file or directory"),
        ("notes.xlsx", write(b"PK\x03\x04" + b"\0" * 99), "an Excel workbook or another ZIP"),
        ("notes.parquet", write(b"PAR1" + b"\0" * 99), "it is a Parquet file that is damaged: "),
        (
            "notes.txt",
            write(b"Ana likes tea.\nBo likes cake.\n"),
            "in UTF-8; or give --format csv if it is a table",
        ),
        (
            "notes.csv",
            write(b"2026-03-01,Ana likes strong tea today.\n2026-03-02,Bo works in Lisbon now.\n"),
            "the first row is read as their names: add a header if the file has none",
        ),
        (
            "notes.csv",
            write(b"user,note\rana,Ana likes tea.\r"),
            "not CSV: a line ends in a carriage return alone; save it with Unix or Windows line ends",
        ),
        ("notes.json", write(b'["Ana likes tea."]'), "such as line 1: is not a JSON object"),
        (
            "notes.csv",
            write("note\nИмя и жизнь\n".encode("cp1251")),
            "column note is not UTF-8; save",
        ),
        ("notes.csv", write("Имя,note\nx,y\n".encode("cp1251")), "the header is no text in UTF-8"),
        (
            "notes.csv",
            write(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
            "the header is no text in UTF-8, UTF-16 or Windows-1252; save the table as CSV in UTF-8",
        ),
        ("notes.jsonl", write(b"\xff\xfe" + b'{"a": 12}'), "codec can't decode"),
    ],
)
def test_what_is_no_file_of_rows_is_refused_and_leaves_no_store(
    name: str,
    make: Make,
    said: str,
    memsieve: Memsieve,
    tmp_path: Path,
) -> None:
    make(tmp_path / name)
    result = memsieve("run", name, "--store", "store")
    assert result.code == 2
    assert said in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "store").exists()


def test_a_run_that_can_use_no_row_fails_and_keeps_why(memsieve: Memsieve, tmp_path: Path) -> None:
    row = json.dumps({"text": "Ana likes tea.", "scope": "acme/*"})
    (tmp_path / "facts.jsonl").write_text(row, encoding="utf-8")
    why = "no row could be used: see memsieve dead-letters list --store store"
    result = memsieve("run", "facts.jsonl", "--store", "store")
    assert (result.code, result.err.splitlines()[-1]) == (2, f"memsieve: {why}")
    result = memsieve("run", "facts.jsonl", "--store", "store", "--json")
    assert (result.code, result.json()["dead_letters"]) == (2, 1)
    assert json.loads(result.err.splitlines()[-1]) == {"error": why, "exit_code": 2}
    [letter] = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    assert "wildcard" in letter["error"]


def test_an_entry_that_is_broken_takes_no_other_along(memsieve: Memsieve, tmp_path: Path) -> None:
    first, last = (json.dumps({"scope": "acme/ana", "text": text}) for text in TEXTS)
    broken = '{"scope": "acme/ana", "text": }'
    document = f'[{first},\n {broken}, "}}", 7,\n{last}, {{"scope": "acme/ana", "te'
    (tmp_path / "facts.json").write_text(document, encoding="utf-8")
    assert memsieve("run", "facts.json", "--store", "store").code == 0
    assert sorted(texts(memsieve)) == TEXTS
    letters = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    assert [one["origin"] for one in letters] == [f"facts.json:{n}" for n in (2, 3, 5)]


def test_a_document_with_quotes_and_braces_in_its_texts_is_read_in_pieces(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """Longer than what is read at once: an escape or a text may lie on either side of a cut."""
    hard = [f'{n}: "{{[" \\ }}' + "\\" * (n % 7) + '"' * (n % 5) for n in range(6_000)]
    rows = [{"scope": f"acme/{n % 2}", "text": text} for n, text in enumerate(hard)]
    (tmp_path / "facts.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    (tmp_path / "facts.jsonl").write_text(lines(rows), encoding="utf-8")
    analyzed = memsieve(
        "store", "analyze", "facts.json", "--model", "memsieve/hashing-ngrams-v1", "--json"
    )
    as_lines = memsieve(
        "store", "analyze", "facts.jsonl", "--model", "memsieve/hashing-ngrams-v1", "--json"
    )
    kept = ("memories", "scopes", "pairs")
    assert analyzed.json()["memories"] == 6_000
    assert [analyzed.json()[one] for one in kept] == [as_lines.json()[one] for one in kept]


def test_a_document_that_has_grown_adds_only_what_is_new(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    for count in (1, 2):
        (tmp_path / "notes.json").write_text(json.dumps(ROWS[:count]), encoding="utf-8")
        grown = memsieve("run", "notes.json", "--store", "store", "--json").json()
        assert grown["decisions"]["insert"] == 1
        assert grown["decisions"]["ignore"] == count - 1


def test_values_of_parquet_are_read_as_those_of_json_are(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """Times have nanoseconds, pandas writes NaN for what is missing, and bytes are no text."""
    when = [datetime(2026, 3, 1, 9, 30, 0, 123456, UTC), None]
    columns: dict[str, Any] = {
        "text": ["Ana likes tea.", "Bo likes cake."],
        "scope": ["ana", "bo"],
        "occurred_at": pa.array(when, pa.timestamp("ns", "UTC")),
        "importance": [0.5, float("nan")],
        "tags": [["tea", "taste"], None],
        "page": [7, None],
        "raw": [b"\xff", None],
    }
    (tmp_path / "notes.parquet").write_bytes(in_parquet(columns))
    run = memsieve("run", "notes.parquet", "--store", "store", "--json")
    ana = events(memsieve)[0]
    assert (ana["text"], ana["importance"], ana["tags"]) == (
        "Ana likes tea.",
        0.5,
        ["tea", "taste"],
    )
    assert ana["occurred_at"] == "2026-03-01T09:30:00.123456Z"
    assert ana["metadata"] == {"page": 7, "raw": "_w=="}
    assert run.json()["dead_letters"] == 1  # Bo's row has no time: so it is with null in JSON
    assert memsieve("run", "notes.parquet", "--store", "store", "--json").json()["events"] == 2


def test_a_large_table_is_read_in_batches_and_goes_on_where_it_was_left(
    tmp_path: Path,
) -> None:
    rows = [f"Sensor {number} is in room {number * 7}." for number in range(2_500)]
    (tmp_path / "facts.parquet").write_bytes(in_parquet({"text": rows}))
    (tmp_path / "facts.jsonl").write_text(lines([{"text": row} for row in rows]), "utf-8")
    found = [
        [line.row for line in FileSource(name).lines(None)]
        for name in ("facts.parquet", "facts.jsonl")
    ]
    assert found[0] == found[1]
    source = FileSource("facts.parquet")
    first = [next(read) for read in [source.lines(None)] for _ in range(1_200)]
    mark = source.mark(first[-1].number, complete=False)
    again = FileSource("facts.parquet")
    assert [line.number for line in again.lines(mark)] == list(range(1_201, 2_501))
    assert again.progress().done == again.progress().total


def test_a_parquet_file_asks_for_its_extra_and_for_a_file(
    memsieve: Memsieve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.parquet").write_bytes(in_parquet({"text": ["Ana likes tea."]}))
    with (tmp_path / "notes.parquet").open("rb") as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        told = memsieve("run", "-", "--store", "store")
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert "which is not read from a pipe; name the file" in told.err
    monkeypatch.delitem(sys.modules, "streams.store.world.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for command in ("run", "publish"):
        told = memsieve(
            command, "notes.parquet", *(("--store", "store") if command == "run" else ())
        )
        assert (told.code, told.err.count("\n")) == (2, 1)
        assert f"it is a Parquet file: {how_to_install('parquet')}, or save it as" in told.err
    assert not (tmp_path / "store").exists()


def test_times_that_cannot_be_are_told_in_the_summary(memsieve: Memsieve, tmp_path: Path) -> None:
    times = ("0001-01-01", "2026-03-01", "9999-12-31")
    rows = [
        {"event_id": str(n), "text": f"Sensor {n} is in room {n * 7}.", "user": "ana", "date": time}
        for n, time in enumerate(times)
    ]
    (tmp_path / "facts.jsonl").write_text(lines(rows), encoding="utf-8")
    result = memsieve("run", "facts.jsonl", "--store", "store")
    assert (
        "2 events dated before 1971 or in the future, such as 0 on 0001-01-01: correct the times"
    ) in result.out
    again = memsieve("run", "facts.jsonl", "--store", "store", "--json").json()
    assert again["unlikely_times"] == 2


def test_a_time_that_cannot_be_replaces_nothing_and_keeps_nothing_from_being_replaced(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """It neither lets a contradiction stand, nor a text of the same name, nor the policy's newer."""

    def kept(policy: str, *said: tuple[str, str], **more: str) -> set[str]:
        rows = [{"text": text, "scope": "ana", "date": date, **more} for text, date in said]
        (tmp_path / "facts.jsonl").write_text(lines(rows), encoding="utf-8")
        store = f"store-{len(list(tmp_path.iterdir()))}"
        run = memsieve("run", "facts.jsonl", "--store", store, "--policy", policy)
        assert run.code == 0, run.err
        return {
            one["text"] for one in memsieve("memory", "list", "--store", store, "--json").json()
        }

    likes, hates = "Tom likes coffee.", "Tom does not like coffee."
    for odd in ("0001-01-01", "9999-12-31"):
        assert kept("default", (likes, "2026-03-01"), (hates, odd)) == {likes, hates}
        assert kept("default", (likes, odd), (hates, "2026-03-01")) == {hates}
        again = ((likes, "2026-03-01"), (likes, odd))
        assert kept("default", *again, (hates, "2026-02-01")) == {likes}
        assert kept("default", *again, (hates, "2026-04-01")) == {hates}
        named = {"memory_id": "coffee"}
        assert likes in kept("default", (likes, "2026-03-01"), (hates, odd), **named)
        assert kept("default", (likes, odd), (hates, "2026-03-01"), **named) == {hates}


def test_an_older_row_of_a_known_name_becomes_history_whatever_it_says(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    said = (
        ("Ana drives a red car.", "2026-03-01"),
        ("Ana drives a blue bike.", "2026-02-01"),
        ("Ana has a red car that she drives.", "2026-01-01"),
    )
    rows = [
        {"text": text, "scope": "ana", "memory_id": "drives", "date": date} for text, date in said
    ]
    (tmp_path / "facts.jsonl").write_text(lines(rows), encoding="utf-8")
    assert memsieve("run", "facts.jsonl").code == 0
    [live] = memsieve("memory", "list", "--json").json()
    assert (live["text"], live["observation_count"]) == ("Ana drives a red car.", 2)
    listed = memsieve("memory", "list", "--retired", "--json").json()
    [bike] = [one for one in listed if one["id"] != live["id"]]
    assert (bike["text"], bike["superseded"]["by"]) == (said[1][0], live["id"])
    assert bike["superseded"]["reason"] == "same-memory-id"
    told = memsieve("explain", bike["id"]).out
    assert "because the memory that it names was seen since; it is kept as history" in told


@pytest.mark.parametrize("command", [["run", "--store", "store"], ["try"]])
def test_a_column_that_looks_like_times_or_ids_is_named_with_its_option(
    command: list[str], memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = [
        {"note": row["note"], "captured": 1772355600 + n, "the ticket": f"T-1000{n}"}
        for n, row in enumerate(ROWS)
    ]
    (tmp_path / "notes.jsonl").write_text(lines(rows), encoding="utf-8")
    assert (
        f"; {NO_TIMES} (captured looks like times: --time-field captured); "
        f"{NO_IDS} (the ticket looks like ids: --id-field 'the ticket')\n"
    ) in memsieve(*command, "notes.jsonl").err
    options = ["--time-field", "captured", "--id-field", "the ticket"]
    told = memsieve(*command, "notes.jsonl", *options).err
    assert "notes.jsonl: took note as text, all rows as scope notes\n" in told


def test_a_column_called_like_a_time_that_is_none_is_told(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = [{**row, "when": "03/04/2026"} for row in ROWS]
    (tmp_path / "notes.jsonl").write_text(lines(rows), encoding="utf-8")
    result = memsieve("run", "notes.jsonl", "--store", "store")
    assert (
        "; when holds no times with one meaning, such as 2026-02-01, so no row is dated by it; "
        f"rows are dated now; {NO_IDS}\n"
    ) in result.err
    rows[0]["when"] = "2026-03-14"
    (tmp_path / "mixed.jsonl").write_text(lines(rows), encoding="utf-8")
    result = memsieve("run", "mixed.jsonl", "--store", "store")
    assert (
        "; when holds a time in only 1 of the first 2 rows, so no row is dated by it; "
        f"with --time-field when the others cannot be used; rows are dated now; {NO_IDS}\n"
    ) in result.err


@pytest.mark.parametrize("arguments", [(), ("--time-field", "when")])
def test_a_row_without_a_usable_date_is_set_aside_and_the_others_are_dated(
    arguments: tuple[str, ...], memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = [*ROWS, {**ROWS[0], "when": "soon"}]
    (tmp_path / "notes.jsonl").write_text(lines(rows), encoding="utf-8")
    result = memsieve("run", "notes.jsonl", "--store", "store", *arguments)
    assert result.code == 0
    assert (
        f"; when holds a time in 2 of the first 3 rows, the others cannot be used; {NO_IDS}\n"
    ) in result.err
    assert {one["occurred_at"] for one in events(memsieve)} == {
        "2026-03-02T09:10:00Z",
        "2026-03-03T14:00:00Z",
    }
    [letter] = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    assert letter["origin"] == "notes.jsonl:3"
    assert letter["error"].startswith("column when is not a time; write ISO 8601")


@pytest.mark.parametrize("arguments", [(), ("--time-field", "when")])
def test_the_other_rows_tell_what_a_date_in_numbers_means(
    arguments: tuple[str, ...], memsieve: Memsieve, tmp_path: Path
) -> None:
    days = ("03.04.2026", "25.04.2026")
    rows = [{**row, "when": day} for row, day in zip(ROWS, days, strict=True)]
    (tmp_path / "notes.jsonl").write_text(lines(rows), encoding="utf-8")
    result = memsieve("run", "notes.jsonl", "--store", "store", *arguments)
    assert f"dates are read with the day first; {NO_IDS}\n" in result.err
    times = {one["occurred_at"] for one in events(memsieve)}
    assert times == {"2026-04-03T00:00:00Z", "2026-04-25T00:00:00Z"}


def test_the_list_of_dead_letters_is_named_with_the_store_that_has_them(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": "", "scope": "acme/ana"}\n')
    told = memsieve("run", "rows.jsonl", "--store", "my desk")
    assert "rejected: memsieve dead-letters list --store 'my desk'" in told.out
    assert told.err.endswith("see memsieve dead-letters list --store 'my desk'\n")
    assert "rejected: memsieve dead-letters list\n" in memsieve("run", "rows.jsonl").out


def test_a_run_that_rejects_most_rows_says_so(memsieve: Memsieve, tmp_path: Path) -> None:
    good, bad = '{"text": "Tea is ready.", "scope": "a/b"}\n', '{"text": "", "scope": "a/b"}\n'
    (tmp_path / "rows.jsonl").write_text(good + bad * 2)
    told = memsieve("run", "rows.jsonl")
    assert told.code == 0
    assert told.err.endswith("most rows were rejected, 2 of 3: see memsieve dead-letters list\n")
    (tmp_path / "more.jsonl").write_text(good + good + bad)
    assert "most rows were rejected" not in memsieve("run", "more.jsonl", "--store", "other").err


_LIST = """# Pets

What is known:

- Luna is a grey cat.
* [x] Milo is a dog,
  and he is brown.

  Not an item.
2. Feed both at 7 am.
"""
_ITEMS = ["Feed both at 7 am.", "Luna is a grey cat.", "Milo is a dog, and he is brown."]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pets.md", _LIST.encode()),
        ("pets.md.gz", gzip.compress(_LIST.encode())),
        ("pets.txt", _LIST.replace("What is known:\n", "").encode("utf-16")),
    ],
)
def test_the_items_of_a_list_are_rows(
    name: str, content: bytes, memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    result = memsieve("run", name, "--store", "store")
    assert (result.code, sorted(texts(memsieve))) == (0, _ITEMS)
    assert "took all rows as scope pets; read as " in result.err
    assert "a list" in result.err
    again = memsieve("run", name, "--store", "store", "--json").json()
    assert again["decisions"]["ignore"] == len(_ITEMS)


def test_an_item_that_is_not_utf_8_becomes_a_dead_letter(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / "pets.md").write_bytes("- Zoë\n- Milo\n".encode() + b"- \xff\xfe\xfd\n")
    assert memsieve("run", "pets.md", "--store", "store").code == 0
    [letter] = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    assert "is not UTF-8; save the file as UTF-8" in json.dumps(letter)


def test_a_table_with_a_list_in_a_value_is_a_table(memsieve: Memsieve, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text('text,user\n"Buy:\n- tea\n- milk",ana\nCall Bo.,ana\n')
    assert memsieve("run", "notes", "--store", "store").code == 0
    assert sorted(texts(memsieve)) == ["Buy:\n- tea\n- milk", "Call Bo."]


def test_a_file_in_markdown_without_a_list_is_told_what_may_read_it(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / "Memories.md").write_text("## Location 1: Pier\n\n**[NOTE] Tide**\nHigh.\n")
    result = memsieve("run", "Memories.md")
    assert result.code == 2
    assert result.err.endswith("or try: memsieve memories-md import Memories.md\n")


_WITHOUT_ROWS = {
    "empty": b"",
    "a header": b"note,customer\n",
    "blank lines": b"\n" * (HEAD_BYTES + 1),
    "gzip": gzip.compress(b""),
}


@pytest.mark.parametrize("content", _WITHOUT_ROWS.values(), ids=_WITHOUT_ROWS)
def test_a_file_without_rows_is_refused_and_leaves_the_store_as_it_was(
    content: bytes, memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / "notes.csv").write_bytes(content)
    refused = (2, "memsieve: there are no rows in notes.csv\n")
    result = memsieve("run", "notes.csv", "--store", "store")
    assert (result.code, result.err) == refused
    assert not (tmp_path / "store").exists()
    (tmp_path / "rows.csv").write_text("text,scope\nTea is ready.,a/b\n", encoding="utf-8")
    assert memsieve("run", "notes.csv", "rows.csv", "--store", "store").code == 0
    again = memsieve("run", "notes.csv", "--store", "store")
    assert (again.code, again.err.splitlines()[-1]) == (2, refused[1].strip())
    assert texts(memsieve) == ["Tea is ready."]


@pytest.mark.parametrize("content", [b"", gzip.compress(b"")], ids=["empty", "gzip"])
def test_a_pipe_without_rows_is_refused_and_makes_no_store(content: bytes, tmp_path: Path) -> None:
    process = start("run", "-", "--store", "store", cwd=tmp_path)
    assert process.stdin is not None
    os.write(process.stdin.fileno(), content)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (2, "memsieve: there are no rows in stdin\n")
    assert not (tmp_path / "store").exists()


def test_a_pipe_that_turns_out_to_have_no_rows_is_a_failure(tmp_path: Path) -> None:
    process = start_holding("store", cwd=tmp_path)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.splitlines()[-1]) == (2, "memsieve: there are no rows in stdin")


def test_a_file_without_rows_is_not_tried(memsieve: Memsieve, tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("note,customer\n", encoding="utf-8")
    tried = memsieve("try", "notes.csv")
    assert (tried.code, tried.err) == (2, "memsieve: there are no rows to try the policies on\n")


@pytest.mark.parametrize("rest", ["", ",\n", ', {"text": "Cut o'])
def test_an_array_that_is_cut_off_is_told(memsieve: Memsieve, tmp_path: Path, rest: str) -> None:
    whole = json.dumps([{"text": "Tea is ready.", "scope": "a/b"}])
    (tmp_path / "rows.json").write_text(whole.removesuffix("]") + rest)
    assert memsieve("run", "rows.json").code == 0
    [letter] = memsieve("dead-letters", "list", "--json").json()
    told = "not JSON" if "text" in rest else "the array is not closed: is the file complete?"
    assert told in json.dumps(letter)
