"""What a file's first bytes tell of it, in many encodings and layouts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.store.core.shapes import Shape, decoded, delimiter_of, encoding_of, shape_of

GERMAN = "Datum;Kunde;Notiz\n1.3.;hill;Der Drucker im zweiten Stock ist außer Betrieb.\n"
FRENCH = "note,qui\nLe café est fermé à midi, dit-elle.,ana\n"
SPANISH = "nota,quien\n¿Dónde está la señora?,ana\n"
QUOTES = "note,who\nIt\u2019s a “smart” printer \u2013 for 20 €.,ana\n"
RUSSIAN = "Аня живёт в Москве и пьёт чай.\n"
POLISH = "Żółw mieszka w źródle, a łoś był duży.\n"
JAPANESE = "東京は大きいです。\n"


@pytest.mark.parametrize("text", [GERMAN, FRENCH, SPANISH, QUOTES])
def test_western_code_pages_are_told_from_utf_8(text: str) -> None:
    assert encoding_of(text.encode("cp1252")) == (0, "cp1252")
    assert encoding_of(text.encode()) == (0, "utf-8")


@pytest.mark.parametrize(
    "content",
    [
        RUSSIAN.encode("cp1251"),
        POLISH.encode("cp1250"),
        JAPANESE.encode("shift_jis"),
        FRENCH.encode("mac_roman"),
        FRENCH.encode("cp850"),
        b'{"text": "Ana \xff tea."}\n',
        FRENCH.encode() * 9 + b'{"text": "Ana \xff tea."}\n',
        FRENCH.encode() * 9 + FRENCH.encode("cp1252"),
        bytes(range(1, 256)),
        b"",
    ],
)
def test_what_cannot_be_told_is_utf_8_that_is_broken(content: bytes) -> None:
    """A row at a time: its lines become dead letters, and the others are read."""
    assert encoding_of(content) == (0, "utf-8")


@pytest.mark.parametrize("text", [GERMAN, RUSSIAN, JAPANESE + "a,b\n1,2\n"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_known_with_and_without_its_mark(text: str, encoding: str) -> None:
    assert encoding_of(text.encode(encoding)) == (0, encoding)
    assert encoding_of(("\ufeff" + text).encode(encoding)) == (2, encoding)


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", 3), ("utf-32-le", 4), ("utf-32-be", 4)])
def test_a_byte_order_mark_names_the_encoding(encoding: str, mark: int) -> None:
    assert encoding_of(("\ufeff" + RUSSIAN).encode(encoding)) == (mark, encoding)


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1;2,3\n4;5,6\n", ";"),
        ("a\tb\tc\n1\t2, x; y\t3\n", "\t"),
        ("a|b\n1|2\n", "|"),
        ('when,who,note\n1,ana,"a;b;c"\n', ","),
        ('"a;b",c\n"1;2",3\n', ","),
        ("note\nTea, and cake\n", None),
        ("", None),
        ("\n", None),
    ],
)
def test_the_delimiter_is_what_parts_the_header_and_the_records_alike(
    text: str, delimiter: str | None
) -> None:
    assert delimiter_of(text) == delimiter


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ('{"a": 1}\n{"a": 2}\n', "jsonl"),
        ('\n{"a": 1}', "jsonl"),
        ('{"a": "never closed\n{"a": 2}\n', "jsonl"),
        ('[1, 2]\n{"a": 2}\n', "jsonl"),
        ("Tea.\nCake.\n", "jsonl"),
        ("", "jsonl"),
        ('[{"a": 1}]', "json"),
        ("[\n", "json"),
        ("[]", "json"),
        ('{\n  "a": 1\n}\n{\n  "a": 2\n}', "json"),
        ('{"a": 1} {"a": 2}', "json"),
        ('{\n  "a": "longer than what was read', "json"),
        ('{"a": ' + "[" * 100_000, "jsonl"),
    ],
)
def test_a_document_is_told_from_lines(text: str, layout: str) -> None:
    assert shape_of(text.encode(), "facts", None, whole=False).layout == layout


@pytest.mark.parametrize(
    ("name", "text", "layout"),
    [
        ("stdin", "note,user\nTea.,ana\n", "csv"),
        ("facts.txt", "note;user\nTea.;ana\n", "csv"),
        ("facts.jsonl", "note,user\nTea.,ana\n", "jsonl"),
        ("stdin", "note\nTea.\n", "jsonl"),
        ("stdin", "Tea, please.\nCake.\n", "jsonl"),
        ("stdin", '{"a": 1, "b": 2}\n{"a": 1, "b": 3}\n', "jsonl"),
    ],
)
def test_a_table_without_an_ending_is_told_by_its_columns(
    name: str, text: str, layout: str
) -> None:
    assert shape_of(text.encode(), name, None, whole=True).layout == layout


def test_a_table_is_told_by_its_name_and_a_layout_that_is_asked_for_holds() -> None:
    table = b"a;b\n1;2\n"
    assert shape_of(table, "facts.csv", None, whole=True) == Shape("csv", delimiter=";")
    assert shape_of(b"a\tb\n", "facts.tsv", None, whole=True) == Shape("csv", delimiter="\t")
    assert shape_of(table, "facts", "csv", whole=True).layout == "csv"
    assert shape_of(b'[{"a": 1}]', "facts.csv", "json", whole=True).layout == "json"


@given(content=st.binary(max_size=64), whole=st.booleans())
def test_any_bytes_have_a_shape_or_are_no_text(*, content: bytes, whole: bool) -> None:
    for name in ("facts.csv", "facts.jsonl"):
        try:
            shape = shape_of(content, name, None, whole=whole)
            decoded(content[shape.mark :], shape.encoding, whole=whole)
        except UnicodeError:
            assert encoding_of(content)[1] != "utf-8"


@given(st.text(max_size=40), st.integers(min_value=0, max_value=80))
def test_a_beginning_may_break_off_inside_a_character(text: str, cut: int) -> None:
    content = text.encode("utf-8", "surrogatepass")[:cut]
    if not text.isascii() and not any("\ud800" <= one <= "\udfff" for one in text):
        found = decoded(content, "utf-8", whole=False)
        assert text.startswith(found)


@given(st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5), min_size=1), min_size=2))
def test_json_is_recognised_however_it_is_laid_out(rows: list[dict[str, Any]]) -> None:
    def layout(text: str) -> str:
        return shape_of(text.encode(), "rows.json", None, whole=True).layout

    assert layout(json.dumps(rows)) == layout(json.dumps(rows, indent=1)) == "json"
    assert layout("\n".join(json.dumps(row, indent=1) for row in rows)) == "json"
    assert layout("\n".join(json.dumps(row) for row in rows)) == "jsonl"
