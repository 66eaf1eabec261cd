"""Checks the fact cards: their form, repeated texts, and leaks of evaluation texts.

No two cards may share a wording of a fact; a near-miss may occur on several cards.

    python -m training.relations.lint [DATA]

DATA is the folder of the evaluation sets; without it, leaks are not checked. Prints each problem
with its card; the exit status is 1 if there is one.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from training.pairs import evaluated_texts
from training.relations.material import Card, cards, plain

LEAST = {
    "strict": {"same": 6, "less": 1, "more": 2, "contra": 3, "other": 4},
    "sightings": {"sightings": 8, "other": 5, "contra": 3},
    "retold": {"sightings": 8, "other": 5, "contra": 4},
    "diaries": {f"fact {number}": 1 for number in range(9)},
}
"""The minimum number of texts in each list of a card, by kind of card."""
WORDS_MAX = 80


def problems(found: Sequence[Card], avoided: set[str]) -> Iterator[str]:
    """Yield the problems of the cards, one line each."""
    facts: dict[str, str] = {}
    for card in found:
        told: dict[str, str] = {}
        for key, least in LEAST[card.kind].items():
            if len(card.texts.get(key, [])) < least:
                yield f"{card.name}: {key} has {len(card.texts.get(key, []))} texts, not {least}"
        for key, texts in card.texts.items():
            for text in texts:
                known = facts if key in {"same", "sightings"} or "fact" in key else told
                yield from _of_text(f"{card.name} {key}", text, known, avoided)


def _of_text(place: str, text: str, told: dict[str, str], avoided: set[str]) -> Iterator[str]:
    if not text.strip() or len(text.split()) > WORDS_MAX:
        yield f"{place}: a text of {len(text.split())} words"
    if before := told.get(text):
        yield f"{place}: said before by {before}: {text}"
    told[text] = place
    if plain(text) in avoided:
        yield f"{place}: is in a set that is reported on: {text}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Check the fact cards.")
    parser.add_argument("data", type=Path, nargs="?")
    arguments = parser.parse_args()
    found = cards()
    avoided = evaluated_texts(arguments.data) if arguments.data else set[str]()
    wrong = list(problems(found, avoided))
    print("\n".join(wrong) or f"{len(found):,} cards: no problem")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
