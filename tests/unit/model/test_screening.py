"""What an event should not hold: kept, masked or kept out."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import LABEL_MAX
from streams.model.policy import Privacy
from streams.model.screening import Screening, SensitiveSpan, screened
from tests.builders import event

MASK = Privacy(secrets="mask", personal="mask")


def spot(text: str) -> Sequence[SensitiveSpan]:
    """Find k1, k2 … as keys, and a@b as addresses."""
    keys = [SensitiveSpan("secret", "key", *found.span()) for found in re.finditer(r"k\d+", text)]
    people = [
        SensitiveSpan("personal", "address", *one.span()) for one in re.finditer(r"\w@\w+", text)
    ]
    return [*people, *keys]


@pytest.mark.covers("B138")
def test_what_is_found_gives_way_to_its_kind_wherever_it_stands() -> None:
    said = event(
        "Use k17 or k1, says a@b.",
        title="k2",
        category="plain",
        tags=("k3", "tea"),
        entities=("a@b",),
        metadata={"why": ["k4", {"by": "a@b"}], "n": 7},
    )
    found = screened(said, MASK, spot)
    assert found.found == ("address", "key")
    assert found.event == said.model_copy(
        update={
            "text": "Use [key] or [key], says [address].",
            "title": "[key]",
            "tags": ("[key]", "tea"),
            "entities": ("[address]",),
            "metadata": {"why": ["[key]", {"by": "[address]"}], "n": 7},
        }
    )


@pytest.mark.parametrize(
    ("rule", "text", "outcome"),
    [
        (Privacy(secrets="drop", personal="mask"), "a@b", "masked"),
        (Privacy(secrets="drop", personal="mask"), "a@b k1", "dropped"),
        (Privacy(secrets="drop", personal="review"), "a@b k1", "dropped"),
        (Privacy(secrets="review", personal="mask"), "a@b k1", "asked"),
        (Privacy(secrets="mask"), "a@b", "kept"),
        (Privacy(secrets="mask"), "a@b k1", "masked"),
        (MASK, "tea", "kept"),
    ],
)
def test_to_keep_it_out_goes_before_a_look_and_that_before_a_mask(
    rule: Privacy, text: str, outcome: str
) -> None:
    found = screened(event(text), rule, spot)
    if outcome in {"dropped", "asked"}:
        assert (found.event, found.asks) == (None, outcome == "asked")
    else:
        assert found.event is not None
        assert (found.event.text == text) is (outcome == "kept")


def test_what_the_policy_keeps_is_not_named() -> None:
    said = event("a@b")
    assert screened(said, Privacy(secrets="mask"), spot) == Screening(said)


def test_a_mask_does_not_make_a_label_too_long() -> None:
    said = event(tags=(" ".join(["k1"] * 60),))
    masked = screened(said, MASK, spot).event
    assert masked is not None
    assert len(masked.tags[0]) <= LABEL_MAX


@given(st.lists(st.sampled_from(["k1", "k22", "a@b", "tea ", " ", "k"]), max_size=12))
def test_nothing_that_was_found_is_left(parts: list[str]) -> None:
    text = "".join(parts) or "tea"
    masked = screened(event(f"x{text}"), MASK, spot).event
    assert masked is not None
    assert not spot(masked.text)
