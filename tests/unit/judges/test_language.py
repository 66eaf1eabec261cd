"""Which texts are surely not in English: short notes, names and codes are no other language."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from streams.judges.language import foreign_language
from streams.judges.lexicons import english
from streams.text.reading import TextAnalyzer

_CARDS = Path("training/material/cards")
_EVERY = 20
_TAKEN_FOR_FOREIGN_MAX = 0.001

SAID = {
    "de": (
        "Mag keine Pilze.",
        "Der Schlüssel liegt unter dem Blumentopf.",
        "allergisch gegen Nüsse",
    ),
    "fr": ("N'aime pas les champignons.", "La réunion commence à 15 h.", "allergique aux noix"),
    "es": ("No le gustan las setas.", "El tren sale a las 9:15.", "alérgico a las nueces"),
    "it": ("Mia sorella abita a Torino.", "Non beve mai caffè la sera."),
    "pt": ("O meu irmão mora em Lisboa.", "Ela não gosta de cogumelos."),
    "nl": ("Mijn zus woont in Utrecht.", "Hij drinkt geen koffie."),
    "pl": ("Mój brat mieszka w Krakowie.", "Nie pije kawy wieczorem."),
    "cy": ("Mae fy chwaer yn byw yng Nghaerdydd.",),
    "ru": ("Моя сестра живёт в Москве.",),
    "el": ("Έχω μια αδερφή στην Πάτρα.",),
    "ar": ("أختي تعيش في القاهرة.",),
    "ja": ("私の妹は大阪に住んでいます。",),
    "ko": ("언니는 부산에 살아요.",),
}


def _texts(found: JsonValue) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, list):
        for one in found:
            yield from _texts(one)
    elif isinstance(found, dict):
        for name, one in found.items():
            if name != "domain":
                yield from _texts(one)


@pytest.mark.parametrize(
    ("language", "text"), [(code, text) for code, said in SAID.items() for text in said]
)
def test_a_short_text_in_another_language_is_told(language: str, text: str) -> None:
    assert foreign_language(text) == language
    assert foreign_language(text.upper()) == language


@pytest.mark.parametrize("text", ["", "???", "12:30", "42 37", "ok", "\U0001f642", "foo_bar=1"])
def test_a_text_with_nothing_to_tell_by_is_not_called_foreign(text: str) -> None:
    assert foreign_language(text) is None


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The trap door is open.", None),
        ("Sie schaut abends The Crown.", "de"),
        ("J'écoute The Cure", "fr"),
    ],
)
def test_english_words_speak_for_english_but_prove_it_not_alone(
    text: str, language: str | None
) -> None:
    assert foreign_language(text) == language


def test_english_notes_are_hardly_ever_taken_for_another_language() -> None:
    lines = [
        line for file in sorted(_CARDS.rglob("*.jsonl")) for line in file.read_text().splitlines()
    ][::_EVERY]
    notes = [text for line in lines for text in _texts(json.loads(line))]
    reader = TextAnalyzer(english(), foreign_language)
    foreign = [text for text in notes if reader.of(text).foreign]
    assert len(notes) > 1_000
    assert len(foreign) < _TAKEN_FOR_FOREIGN_MAX * len(notes), foreign


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Luna dislikes tuna.", None),
        ("Giulia joined Deloitte.", None),
        ("two sons", None),
        ("Toutes les dates", "fr"),
        ("Mag keine Pilze.", "de"),
    ],
)
def test_a_note_in_words_of_the_dictionary_is_read_as_english(
    text: str, language: str | None
) -> None:
    assert foreign_language(text) is not None
    assert TextAnalyzer(english(), foreign_language).of(text).foreign == language


def test_no_other_language_is_taken_for_english_words() -> None:
    reader = TextAnalyzer(english(), foreign_language)
    told = {(code, text): reader.of(text).foreign for code, said in SAID.items() for text in said}
    assert told == {(code, text): code for code, text in told}


def test_a_long_text_is_told_by_its_beginning() -> None:
    assert foreign_language("Der Laden öffnet um neun Uhr. " * 10_000) == "de"
