import unicodedata
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import DecisionId, EventId, ScopeName
from streams.model.identity import (
    content_key,
    dead_letter_id,
    decision_id,
    event_id,
    memory_id,
    named_memory_id,
    normalised,
    rejection_id,
)

ANA = ScopeName("acme/ana")
BEN = ScopeName("acme/ben")


@pytest.mark.covers("B3")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Trap door bars", "trap door bars"),
        ("TRAP Door Bars", "trap door bars"),
        ("  trap\t door \n\n bars\u00a0", "trap door bars"),
        ("Stra\u00dfe", "strasse"),
        ("Cafe\u0301", "caf\u00e9"),
        ("10\u00b2 km", "10\u00b2 km"),
        ("\ufb01n", "fin"),
        ("", ""),
    ],
)
def test_normalised_folds_case_composition_and_white_space(text: str, expected: str) -> None:
    assert normalised(text) == expected


@pytest.mark.covers("B3")
@given(st.text())
def test_composed_and_decomposed_texts_share_their_content_key(text: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert content_key(ANA, composed) == content_key(ANA, decomposed)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("10\u00b2", "102"),
        ("\u2460", "1"),
        ("likes cats", "like scats"),
        ("likes cats", "likes cats."),
        ("v1.2", "v12"),
        ("caf\u00e9", "cafe"),
    ],
)
def test_what_may_mean_something_else_has_another_content_key(text: str, other: str) -> None:
    assert content_key(ANA, text) != content_key(ANA, other)


@pytest.mark.covers("B59")
def test_the_same_words_in_another_scope_have_another_content_key() -> None:
    assert content_key(ANA, "Ana likes tea.") != content_key(BEN, "Ana likes tea.")


def test_ids_are_what_they_have_always_been() -> None:
    """A change here makes every stored id unknown: redelivered events would be decided again."""
    decision = decision_id(ANA, EventId("e1"))
    assert {
        "content": content_key(ANA, "Ana likes tea."),
        "decision": decision,
        "memory": memory_id(decision),
        "named": named_memory_id(ANA, "drink"),
        "rejection": rejection_id("memory.events", 0, 7),
        "event": event_id("file.jsonl", 3, b"{}", b""),
        "dead letter": dead_letter_id("decode", "memory.events/0/7", b"{}"),
    } == {
        "content": "0d21f06b258c7a9643c5e31dc0dae81f",
        "decision": "b300a967-1aaf-5e55-b45b-ba2addb58dd3",
        "memory": "d7c335fd-c628-5a00-9eb0-72a30db154ec",
        "named": "1812b59d-7d80-55fd-8c48-c2d445f7f309",
        "rejection": "3d8b0a8f-797b-5ae3-8689-31ec28eeab71",
        "event": "b6b1345d-b742-5a36-9b7c-d43135e9dd7d",
        "dead letter": "0867f2dc-05b3-58a0-9581-b977960c1e86",
    }


@pytest.mark.covers("D31")
def test_ids_made_of_different_things_differ() -> None:
    ids = [
        decision_id(ANA, EventId("e1")),
        decision_id(ANA, EventId("e2")),
        decision_id(BEN, EventId("e1")),
        decision_id(ScopeName("acme"), EventId("ana/e1")),
        named_memory_id(ANA, "e1"),
        named_memory_id(BEN, "e1"),
        memory_id(DecisionId("e1")),
        rejection_id("memory.events", 0, 7),
        rejection_id("memory.events", 7, 0),
        rejection_id("memory.events", 0, 8),
        dead_letter_id("decode", "memory.events/0/7", b"{}"),
        dead_letter_id("decide", "memory.events/0/7", b"{}"),
        dead_letter_id("decode", "memory.events/0/8", b"{}"),
        dead_letter_id("decode", "memory.events/0/7", b"[]"),
    ]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("source", "line", "content"),
    [("b.jsonl", 3, b"{}"), ("a.jsonl", 4, b"{}"), ("a.jsonl", 3, b"{ }")],
)
def test_the_id_of_a_row_depends_on_file_line_content_and_what_is_taken(
    source: str, line: int, content: bytes
) -> None:
    assert event_id("a.jsonl", 3, b"{}", b"") == event_id("a.jsonl", 3, b"{}", b"")
    assert event_id(source, line, content, b"") != event_id("a.jsonl", 3, b"{}", b"")
    assert event_id("a.jsonl", 3, b"{}", b"text") != event_id("a.jsonl", 3, b"{}", b"")


@pytest.mark.covers("D31")
@given(st.text(), st.text())
def test_ids_are_uuids_of_version_5(scope: str, name: str) -> None:
    namespace = UUID("6d656d73-6965-5665-8000-000000000001")
    joined = f"named-memory\x1f{scope}\x1f{name}"
    assert named_memory_id(ScopeName(scope), name) == str(uuid5(namespace, joined))
