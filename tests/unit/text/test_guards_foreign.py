"""Guards on texts that are not in English: values and names, and none of English's words."""

import pytest

from schemas.decisions import Finding
from streams.judges.language import foreign_language
from streams.text.guards.registry import IN_ANY_LANGUAGE, examine
from streams.text.guards.statement import StatementReading
from streams.text.reading import AnalysedText
from tests.support.stage.deciding import lexicon


def _read(text: str) -> AnalysedText:
    return AnalysedText(text, lexicon(), foreign_language)


def _findings(event: str, memory: str) -> tuple[Finding, ...]:
    return examine(StatementReading(_read(event)), StatementReading(_read(memory)), lexicon())


@pytest.mark.parametrize(
    ("event", "memory", "guard"),
    [
        ("Hugo a commandé 3 pizzas.", "Hugo a commandé 5 pizzas.", "numbers"),
        ("Das Gericht kostet 12 €.", "Das Gericht kostet 14 €.", "amounts"),
        ("Der Vertrag endet am 2027-03-01.", "Der Vertrag endet am 2027-04-01.", "dates"),
        ("El tren sale a las 8:15.", "El tren sale a las 9:15.", "times"),
        ("Läuft seit gestern mit v2.3.", "Läuft seit gestern mit v2.4.", "versions"),
        ("Der Fehler heißt OPS-17.", "Der Fehler heißt OPS-18.", "identifiers"),
        ("El coche es de Marta.", "El coche es de Pablo.", "names"),
        ("Mon frère habite à Lyon.", "Mon frère habite à Nantes.", "names"),
    ],
)
def test_values_and_names_are_compared_in_any_language(event: str, memory: str, guard: str) -> None:
    assert [one.guard for one in _findings(event, memory) if one.outcome == "differs"] == [guard]


@pytest.mark.parametrize(
    ("event", "memory"),
    [
        ("Der Laden schließt um neun.", "Das Geschäft macht um neun zu."),
        ("Sie trinkt gern Tee am Morgen.", "Morgens trinkt sie am liebsten Tee."),
        ("Le chat dort sur le canapé.", "Le matou dort toujours sur le divan."),
        ("Mój brat mieszka teraz w Krakowie.", "Mój brat przeniósł się do miasta Kraków."),
        ("Hoy, Marta trabaja en casa.", "Marta hoy trabaja desde casa."),
        ("COMPRAMOS EL COCHE AZUL", "EL COCHE AZUL ES NUESTRO"),
    ],
)
def test_words_that_english_does_not_have_are_no_names(event: str, memory: str) -> None:
    assert not _findings(event, memory)


def test_one_foreign_text_of_the_two_is_enough() -> None:
    english, german = "He does not like tea in the evening.", "Er mag abends sehr gern Tee."
    assert "negation" not in IN_ANY_LANGUAGE
    assert {one.guard for one in _findings(english, german)} <= IN_ANY_LANGUAGE.keys()
    assert "negation" in {one.guard for one in _findings(english, "He likes tea in the evening.")}
