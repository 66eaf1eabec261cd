"""Secrets and personal data, as the libraries know them, and what an owner does about them."""

import pytest

from schemas.base import TEXT_MAX
from schemas.codec import EVENT
from schemas.events import Remember
from streams.judges.screening import TextScreener
from streams.model.policy import Policy
from streams.model.ports.failures import Poison
from streams.stage.flow.incoming import ReceivedRecord, screen
from streams.store.app import policies
from tests.builders import event, record

SCREENER = TextScreener()


def found(text: str, region: str | None = None) -> list[tuple[str, str]]:
    return [(one.kind, text[one.start : one.end]) for one in SCREENER.spot(text, region)]


@pytest.mark.covers("B138")
@pytest.mark.parametrize(
    ("text", "kind", "part"),
    [
        ("The key is AKIA" + "QWERTYUIOPASDFGH now.", "secret", "AKIA" + "QWERTYUIOPASDFGH"),
        ("Use ghp_" + "a1" * 18 + ".", "secret", "ghp_" + "a1" * 18),
        ("See https://mara:secret1@localhost.", "secret", "://mara:secret1@"),
        (
            "Send eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln-_bmF0dXJl.",
            "secret",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln-_bmF0dXJl",
        ),
        (
            "Put //npm.pkg.example.org/team/:_authToken=" + "npm_" + "a1" * 18 + " there",
            "secret",
            "//npm.pkg.example.org/team/:_authToken=" + "npm_" + "a1" * 18,
        ),
        (
            "Write to mara.k+x@mail.example.org, please.",
            "e-mail address",
            "mara.k+x@mail.example.org",
        ),
        ("Charge 4111 1111 1111 1111 today.", "payment card", "4111 1111 1111 1111"),
        (
            "Pay to DE89 3704 0044 0532 0130 00 AND wait.",
            "bank account",
            "DE89 3704 0044 0532 0130 00",
        ),
        ("Call +49 30 901820 at noon.", "telephone number", "+49 30 901820"),
    ],
)
def test_each_kind_is_found_whole(text: str, kind: str, part: str) -> None:
    assert found(text) == [(kind, part)]


def test_a_private_key_is_found_to_its_end() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIE\nvQIB\n-----END PRIVATE KEY-----"
    assert found(f"Kept: {key} there") == [("secret", key)]
    assert found(f"Cut off: {key[:-20]}") == [("secret", key[:-20])]


def test_a_number_of_a_region_is_found_where_the_policy_names_it() -> None:
    assert found("Call 030 901820 at noon.") == []
    assert found("Call 030 901820 at noon.", "DE") == [("telephone number", "030 901820")]


@pytest.mark.parametrize(
    "text",
    [
        "The meeting is on 2026-03-14 at 10:30.",
        "Order 4111 1111 1111 1112 was shipped.",
        "Build 20260314101530 of version 1.2.3.4 failed.",
        "Ana's password is long, and nobody knows it.",
        "It cost 1,234,567.89 in 2025.",
        "Follow @mara on the boat.",
    ],
)
def test_everyday_texts_hold_nothing(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("part", ["/", "eyJ", "://a:", "-----BEGIN ", "1 ", "AB12 ", "a@", "%"])
def test_a_text_made_to_be_slow_is_looked_through_in_time(part: str) -> None:
    """With a form that takes the square of the length this goes on for a minute."""
    assert found(part * (TEXT_MAX // len(part))) == []


def masking() -> Policy:
    content = policies.load("default").model_dump(mode="json")
    return Policy.model_validate({**content, "privacy": {"personal": "mask"}})


def read(said: Remember) -> ReceivedRecord:
    return ReceivedRecord(record(EVENT.encode(said), key=said.scope.encode()), said)


def test_what_masks_make_too_long_is_set_aside_and_not_cut() -> None:
    said = event(" ".join(["a@b.ch"] * (TEXT_MAX // 7)))
    found = screen(read(said), masking(), SCREENER)
    assert isinstance(found.event, Poison)
    assert str(found.event).startswith("with e-mail address masked: text ")
    assert "a@b.ch" not in str(found.event)
    assert found.record == read(said).record


def test_a_masked_record_is_the_masked_event() -> None:
    found = screen(read(event("Write to a@b.ch.")), masking(), SCREENER)
    assert found.event == EVENT.decode(found.record.value or b"", likely="remember")
    assert found.masked == ("e-mail address",)
