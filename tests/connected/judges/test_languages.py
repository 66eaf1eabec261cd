"""Near-misses in German, French and Spanish, with the real model and the policies that we ship.

Each pair is two facts in nearly the same words. The guards and the built-in judge know English only,
so what is not equal stays apart, and what is equal is still found.
"""

import pytest

from tests.support.stage.documents import are_apart, is_one

GERMAN = (
    (
        "Die Bäckerei am Markt öffnet montags um sechs.",
        "Die Bäckerei am Markt öffnet montags nicht um sechs.",
    ),
    ("Jana verträgt Erdnüsse ohne Probleme.", "Jana verträgt keine Erdnüsse."),
    (
        "Der Fahrstuhl im Nordturm funktioniert wieder.",
        "Der Fahrstuhl im Nordturm funktioniert nicht mehr.",
    ),
    ("Der Server läuft mit 16 GB Arbeitsspeicher.", "Der Server läuft mit 32 GB Arbeitsspeicher."),
    ("Lukas hat am 3. Mai Geburtstag.", "Lukas hat am 5. Mai Geburtstag."),
    ("Die rote Tür führt in den Keller.", "Die grüne Tür führt in den Keller."),
    ("Petra arbeitet in Hamburg als Ärztin.", "Petra arbeitet in München als Ärztin."),
    ("Der Schlüssel liegt unter der Fußmatte.", "Der Schlüssel liegt unter dem Blumentopf."),
    ("Tobias mag starken Kaffee am Morgen.", "Tobias hasst starken Kaffee am Morgen."),
    ("Alle Gäste haben die Rechnung bezahlt.", "Nicht alle Gäste haben die Rechnung bezahlt."),
)
FRENCH = (
    ("Le musée est ouvert le dimanche matin.", "Le musée n'est pas ouvert le dimanche matin."),
    (
        "Camille boit toujours du thé au petit déjeuner.",
        "Camille ne boit jamais de thé au petit déjeuner.",
    ),
    ("La réunion commence à 14 h.", "La réunion commence à 15 h."),
    ("Mon frère habite à Lyon depuis deux ans.", "Ma sœur habite à Lyon depuis deux ans."),
    ("Le chat noir dort sur le canapé.", "Le chat blanc dort sur le canapé."),
    ("Il faut arroser les tomates le soir.", "Il faut arroser les courgettes le soir."),
    ("Le pont est fermé aux camions.", "Le pont est ouvert aux camions."),
    ("Hugo a commandé trois pizzas pour la fête.", "Hugo a commandé cinq pizzas pour la fête."),
    ("Elle a accepté l'offre de Nantes.", "Elle a refusé l'offre de Nantes."),
    (
        "Le mot de passe du wifi est affiché dans la cuisine.",
        "Le mot de passe du wifi est affiché dans le couloir.",
    ),
)
SPANISH = (
    ("El perro de Marta es muy tranquilo.", "El perro de Marta no es nada tranquilo."),
    ("Pablo trabaja los sábados por la tarde.", "Pablo nunca trabaja los sábados por la tarde."),
    ("La llave abre la puerta del sótano.", "La llave abre la puerta del desván."),
    ("Mi abuela nació en Sevilla.", "Mi abuela murió en Sevilla."),
    ("El tren a Valencia sale a las 8:15.", "El tren a Valencia sale a las 9:15."),
    ("Lucía es alérgica a los gatos.", "Lucía es alérgica a los perros."),
    ("La calefacción está encendida por la noche.", "La calefacción está apagada por la noche."),
    ("Compramos el coche azul en 2019.", "Compramos el coche azul en 2021."),
    ("Todos los alumnos aprobaron el examen.", "Casi ningún alumno aprobó el examen."),
    ("El jefe prefiere las reuniones cortas.", "El jefe prefiere las reuniones largas."),
)
NEAR_MISSES = (*GERMAN, *FRENCH, *SPANISH)


@pytest.mark.parametrize("policy", ["default", "thorough", "two-threshold", "zork-semantic"])
async def test_no_fact_of_another_language_is_hidden_by_one_in_nearly_the_same_words(
    policy: str,
) -> None:
    assert len(NEAR_MISSES) == 30
    for pair in NEAR_MISSES:
        await are_apart(pair, policy)


@pytest.mark.parametrize("pair", [GERMAN[0], FRENCH[0], SPANISH[0]])
async def test_a_repeat_in_another_language_is_counted(pair: tuple[str, str]) -> None:
    said, _ = pair
    await is_one([said, said, said.upper(), f"  {said.removesuffix('.')} "])


async def test_a_text_that_holds_every_sentence_of_another_takes_its_place() -> None:
    shorter = GERMAN[0][0]
    await is_one([shorter, f"{shorter} Das Brot ist dann noch warm."])
