"""Which wordings a memory keeps."""

from datetime import UTC, datetime

import pytest

from schemas.base import ContentKey, ScopeName
from schemas.memories import VARIANTS_MAX, Variant
from streams.model.identity import content_key
from streams.model.wordings import form_of, kept


def wording(text: str, day: int = 1, seen: int = 1) -> Variant:
    at = datetime(2026, 3, day, tzinfo=UTC)
    return Variant(
        text=text,
        content_key=ContentKey(content_key(ScopeName("acme/ana"), text)),
        seen=seen,
        first_seen_at=at,
        last_seen_at=at,
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The lamp burns.", "the lamp burns"),
        ("Ana said: “I hike.”", 'ana said "I hike"'),
        ("Ships at 10.5 kg", "ships at  10.5 KG!"),
    ],
)
def test_case_punctuation_and_articles_are_form(one: str, other: str) -> None:
    assert form_of(one) == form_of(other)


@pytest.mark.parametrize(
    ("one", "other"), [("Uses C", "Uses C++"), ("Runs 1.5", "Runs 15"), ("...", "!!!")]
)
def test_what_may_mean_another_thing_is_no_form(one: str, other: str) -> None:
    assert form_of(one) != form_of(other)


def test_the_shown_text_is_no_variant_of_itself_in_any_form() -> None:
    found = kept("Tom lives in Leeds.", [wording("tom lives in leeds"), wording("Tom: Leeds")])
    assert [one.text for one in found.variants] == ["Tom: Leeds"]


def test_wordings_of_one_form_are_counted_as_one_in_the_words_seen_first() -> None:
    found = kept(
        "Tom lives in Leeds.",
        [wording("Tom is based in Leeds", 2, seen=3), wording("tom is based in Leeds.", 1)],
    )
    [one] = found.variants
    assert (one.text, one.seen) == ("tom is based in Leeds.", 4)
    assert (one.first_seen_at.day, one.last_seen_at.day) == (1, 2)


def test_past_the_bound_the_wording_that_says_least_of_its_own_is_folded() -> None:
    telling = [
        wording(f"Tom dwells in Leeds, house number {n}", n + 1) for n in range(VARIANTS_MAX)
    ]
    found = kept("Tom lives in Leeds", [*telling, wording("Tom in Leeds", 20)])
    assert found.folded == 1
    assert list(found.variants) == telling


def test_what_is_kept_does_not_depend_on_the_order_of_the_wordings() -> None:
    some = [wording(f"word{n} word{n % 3}", n + 1) for n in range(12)]
    assert kept("shown", some) == kept("shown", list(reversed(some)))
