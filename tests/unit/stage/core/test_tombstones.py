"""Tombstones: they know what they were made of again, and tell nothing of it."""

import numpy as np
import pytest

from streams.model.embedding import similarity, unpack
from streams.model.neighbours import StoredMemory
from streams.stage.core.tombstones import (
    Texts,
    TombstoneKey,
    TombstoneProbe,
    WrongKey,
    grave,
    recognised,
    tombstone,
)
from streams.text.lexicon import Lexicon
from streams.text.reading import TextAnalyzer
from tests.builders import MODEL, START, at_cosine, memory, unit

KEY = TombstoneKey(b"a secret of thirty-two characters")
OTHER = TombstoneKey(b"another secret of 32 characters..")
READ = TextAnalyzer(Lexicon({}, (), {}, {})).of
TEXT = "Ana owes Ben 40 euros."


def buried(text: str = TEXT, *texts: str, key: TombstoneKey = KEY) -> StoredMemory:
    known = memory(text)
    left = tombstone(key, known, unit(1), Texts(texts), READ(text), MODEL)
    return StoredMemory(grave(left, known.scope, START, 2), unpack(left.embedding))


def said(text: str, near: float = 1.0, scope: str = "acme/ana") -> TombstoneProbe:
    return TombstoneProbe(memory(text, scope=scope).scope, READ(text), at_cosine(near), 0.95)


@pytest.mark.parametrize(
    ("text", "near", "known"),
    [
        (TEXT, 0.0, True),
        ("ana  OWES ben 40 euros.", 0.0, True),
        ("Ben is owed 40 euros by Ana.", 0.97, True),
        ("Ben is owed 40 euros by Ana.", 0.93, False),
        ("Ben is owed 50 euros by Ana.", 0.99, False),
        ("Ana does not owe Ben 40 euros.", 0.99, False),
    ],
)
def test_it_knows_the_words_and_what_says_the_same_of_the_same(
    text: str, near: float, *, known: bool
) -> None:
    found = recognised(KEY, said(text, near), [buried()])
    assert (found is not None) == known


def test_it_knows_every_text_that_the_memory_had() -> None:
    assert recognised(KEY, said("Once it said this.", 0.0), [buried(TEXT, "Once it said this.")])


def test_another_scope_may_say_the_same() -> None:
    mine, theirs = (
        KEY.fingerprint(memory().scope, TEXT),
        KEY.fingerprint(said(TEXT, 1, "a/b").scope, TEXT),
    )
    assert mine != theirs


def test_it_holds_nothing_that_the_text_holds() -> None:
    told = buried().memory.model_dump_json()
    assert not any(word in told for word in ("Ana", "Ben", "owe", "euros"))


def test_turned_vectors_are_as_similar_as_before() -> None:
    pairs = [(unit(1), at_cosine(s)) for s in (0.99, 0.5, -0.3)]
    for first, second in pairs:
        turned = similarity(KEY.turned(first), KEY.turned(second))
        assert turned == pytest.approx(similarity(first, second), abs=2e-5)


def test_a_turned_vector_is_another_one_for_every_key() -> None:
    first, second = KEY.turned(unit(1)), OTHER.turned(unit(1))
    assert abs(similarity(first, unit(1))) < 0.95
    assert abs(similarity(first, second)) < 0.95
    assert np.array_equal(first, TombstoneKey(KEY.secret).turned(unit(1)))


def test_a_tombstone_of_another_key_is_told_of() -> None:
    with pytest.raises(WrongKey, match="another key"):
        recognised(OTHER, said("Ben plays chess."), [buried()])


def test_the_secret_is_not_shown() -> None:
    assert "secret" not in repr(KEY).replace("secret=", "")
