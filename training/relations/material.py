"""Training pairs from fact cards and labelled sets, each with its possible relations.

A card determines the relations of its texts; an inference set says only what follows from what. So
a pair carries the set of relations that its label allows, and the model learns the sum of their
probabilities.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

from streams.text.judge import weighing
from training.frames import CONVERSE, Labelled
from training.relations.respelling import respelled

RELATIONS = tuple(one.value for one in weighing.RELATIONS)
"""The relations of the first text to the second, in the order of the model's outputs."""
TURNED = tuple(RELATIONS.index(CONVERSE.get(name, name)) for name in RELATIONS)
"""The index of each output's converse: its output when the texts are swapped."""
ONE_MEMORY = tuple(one.value for one in weighing.ONE_MEMORY)
"""The relations of two texts that belong in one memory."""

CARDS = Path(__file__).parent.parent / "material" / "cards"
HELD_OUT_DOMAINS = ("food", "it-security", "organisation", "user-people", "embodied-web-agent")
"""Test domains: used neither for training nor for model selection."""
DEVELOPMENT = CARDS.parent / "development.txt"
"""Names of the development cards, used for early stopping and calibration: one in twenty of those
written by 2026-11-27. Later cards are for training alone: judges are compared on the same cards."""
DEVELOPMENT_ONE_IN = 20
"""One in this many labelled pairs is in the development set."""


class Example(NamedTuple):
    """Two texts, the possible relations of the first to the second, and the pair's weight."""

    first: str
    second: str
    relations: tuple[str, ...]
    source: str
    weight: float = 1.0


class Card(NamedTuple):
    """One fact: its texts by their relation to it; `kind` is strict, sightings or retold.

    A card of kind diaries has several facts of one life or project that hold together: their texts
    by "fact N", and by "update N" what contradicts fact N.
    """

    name: str
    domain: str
    kind: str
    texts: dict[str, list[str]]


def cards(folder: Path = CARDS) -> list[Card]:
    """Read every card, in an order that depends only on the files."""
    return [
        _card(file, number, json.loads(line))
        for file in sorted(folder.rglob("*.jsonl"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
    ]


def _card(file: Path, number: int, row: dict[str, Any]) -> Card:
    kind = "strict" if "same" in row else file.parent.name
    texts = (
        _of_diary(row)
        if "facts" in row
        else {key: row[key] for key in row if key not in {"domain", "core"}}
    )
    domain = re.sub(r"\W+", "-", row["domain"].casefold())
    return Card(f"{file.stem}:{number}", domain, kind, texts)


def _of_diary(row: dict[str, Any]) -> dict[str, list[str]]:
    facts = {f"fact {number}": tellings for number, tellings in enumerate(row["facts"])}
    return facts | {f"update {number}": texts for number, texts in row["updates"].items()}


def held_out(card: Card) -> bool:
    """Return whether a card's domain is a test domain."""
    return card.domain in HELD_OUT_DOMAINS


def split(found: Sequence[Card]) -> tuple[list[Card], list[Card], list[Card]]:
    """Return the training, development and test cards."""
    open_to_use = [card for card in found if not held_out(card)]
    chosen = set(DEVELOPMENT.read_text(encoding="utf-8").split())
    return (
        [card for card in open_to_use if card.name not in chosen],
        [card for card in open_to_use if card.name in chosen],
        [card for card in found if held_out(card)],
    )


def for_development(one: Example) -> bool:
    """Return whether a labelled pair is in the development set, decided by a hash of its texts."""
    least = min(plain(one.first), plain(one.second))
    return crc32(least.encode()) % DEVELOPMENT_ONE_IN == 0


def of_card(card: Card, chance: Random, share: float = 1.0) -> list[Example]:
    """Return pairs of a card, a random sample of each kind; `share` scales their number."""
    match card.kind:
        case "strict":
            return _of_strict(card, chance, share)
        case "diaries":
            return _told_in_diary(card, chance, share)
        case _:
            return _retold(card, chance, share)


_Pairs = Iterable[tuple[str, str]]


def _of_strict(card: Card, chance: Random, share: float) -> list[Example]:
    same, less, more, contra, other = (
        card.texts[key] for key in ("same", "less", "more", "contra", "other")
    )
    drawn = _Drawing(f"card-{card.kind}", chance, share)
    drawn.take(combinations(same, 2), ("same",), 14)
    drawn.take(product(same, contra), ("contradicts",), 12)
    drawn.take(product(same, other), ("distinct",), 14)
    drawn.take(product(more, same), ("refines",), 8)
    drawn.take(product(same, less), ("refines",), 5)
    drawn.take(product(more, less), ("refines",), 2)
    drawn.take(product(more, other), ("distinct",), 3)
    drawn.take(product(less, other), ("distinct",), 2)
    drawn.take(product(more, contra), ("contradicts",), 3, 0.7)
    drawn.take(combinations(more, 2), ("overlaps",), 3)
    return drawn.made


def _retold(card: Card, chance: Random, share: float) -> list[Example]:
    told, other, contra = (card.texts[key] for key in ("sightings", "other", "contra"))
    drawn = _Drawing(f"card-{card.kind}", chance, share)
    drawn.take(combinations(told, 2), ONE_MEMORY, 22, 1.2)
    drawn.take(product(told, other), ("distinct",), 18)
    drawn.take(product(told, contra), ("contradicts",), 14)
    return drawn.made


def _told_in_diary(card: Card, chance: Random, share: float) -> list[Example]:
    """Return pairs of a diary; of two facts, rather those that share many words."""
    facts = {key: texts for key, texts in card.texts.items() if key.startswith("fact")}
    updates = {key: texts for key, texts in card.texts.items() if key.startswith("update")}
    drawn = _Drawing("diary", chance, share)
    for texts in facts.values():
        drawn.take(combinations(texts, 2), ONE_MEMORY, 3, 1.5)
    for key, texts in updates.items():
        drawn.take(product(facts[key.replace("update", "fact")], texts), ("contradicts",), 4)
    apart = [pair for two in combinations(facts.values(), 2) for pair in product(*two)]
    drawn.take(sorted(apart, key=_words_shared)[len(apart) * 3 // 4 :], ("distinct",), 14)
    drawn.take(apart, ("distinct",), 8)
    others = [
        pair
        for key, texts in updates.items()
        for other, known in facts.items()
        if other != key.replace("update", "fact")
        for pair in product(texts, known)
    ]
    drawn.take(sorted(others, key=_words_shared)[len(others) // 2 :], ("distinct",), 6)
    return drawn.made


def _words_shared(pair: tuple[str, str]) -> float:
    first, second = (set(plain(text).split()) for text in pair)
    return len(first & second) / max(1, min(len(first), len(second)))


class _Drawing:
    def __init__(self, source: str, chance: Random, share: float) -> None:
        self.made: list[Example] = []
        self._source = source
        self._chance = chance
        self._share = share

    def take(
        self, pairs: _Pairs, relations: tuple[str, ...], most: int, weight: float = 1.0
    ) -> None:
        found = list(pairs)
        if not found:
            return
        number = min(len(found), max(1, round(most * self._share)))
        for first, second in self._chance.sample(found, number):
            self.made.append(Example(first, second, relations, self._source, weight))


def near_copies(card: Card, chance: Random) -> list[Example]:
    """Return pairs of a card's texts with respelled copies, and with respelled near-misses."""
    known = _facts(card)
    made = _copies(chance.sample(known, min(3, len(known))), chance)
    if card.kind == "diaries":
        return made
    one, contra, other = (chance.choice(texts) for texts in (known, *_near(card)))
    respelt = respelled(one, chance)
    made.append(Example(respelt, respelled(contra, chance), ("contradicts",), "near-copy", 0.8))
    made.append(Example(respelt, respelled(other, chance), ("distinct",), "near-copy", 0.8))
    return made


def copies_beside(card: Card, chance: Random) -> list[Example]:
    """Return what is not the card's fact, each with a respelled copy of itself.

    Without these pairs such a text is never one memory with anything, which a network learns by
    heart instead of reading the other text.
    """
    if card.kind == "diaries":
        return []
    return _copies([chance.choice(texts) for texts in _near(card)], chance)


def _copies(texts: Sequence[str], chance: Random) -> list[Example]:
    """Pair each text with a respelled copy; `without` drops those that came out equal."""
    return [Example(text, respelled(text, chance), ("same",), "near-copy", 0.8) for text in texts]


def _near(card: Card) -> tuple[list[str], list[str]]:
    return card.texts["contra"], card.texts["other"]


def strangers(found: Sequence[Card], chance: Random, number: int) -> list[Example]:
    """Return pairs from two cards of one domain, which state distinct facts."""
    by_domain: dict[str, list[Card]] = {}
    for card in found:
        by_domain.setdefault(card.domain, []).append(card)
    usable = [group for group in by_domain.values() if len(group) > 1]
    made: list[Example] = []
    for _ in range(number):
        one, other = chance.sample(chance.choice(usable), 2)
        texts = [chance.choice([*_facts(card)]) for card in (one, other)]
        made.append(Example(texts[0], texts[1], ("distinct",), "strangers", 0.5))
    return made


def _facts(card: Card) -> list[str]:
    if card.kind == "diaries":
        return [text for key, texts in card.texts.items() if "fact" in key for text in texts]
    return card.texts.get("same") or card.texts["sightings"]


def of_labelled(pairs: Iterable[Labelled]) -> list[Example]:
    """Return the edited and written pairs of `training.pairs` as examples."""
    return [
        Example(pair.event, pair.memory, (pair.label,), pair.source, pair.weight) for pair in pairs
    ]


_ENTAILED = ("same", "refines")
_OPEN = ("refined-by", "overlaps", "distinct")


class _InferenceSet(NamedTuple):
    file: str
    used: int
    weight: float
    contradiction: tuple[str, ...] = ("contradicts",)


_SETS = (
    _InferenceSet("vitaminc", 24_000, 0.7),
    _InferenceSet("conjnli", 8_000, 0.6),
    _InferenceSet("counterfactual_nli", 5_000, 0.5, ("contradicts", "distinct")),
    _InferenceSet("help_monotonicity", 6_000, 0.4),
)


def inferences(folder: Path, chance: Random) -> Iterator[Example]:
    """Yield pairs of the inference sets: an entailed text says the same or less, never more."""
    for one in _SETS:
        told = {"entailment": _ENTAILED, "neutral": _OPEN, "contradiction": one.contradiction}
        with gzip.open(folder / f"{one.file}.jsonl.gz", "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        for row in chance.sample(rows, min(one.used, len(rows))):
            yield Example(row["a"], row["b"], told[row["nli"]], one.file, one.weight)


def plain(text: str) -> str:
    """Return a text reduced to letters and digits, the form compared with evaluation texts."""
    return " ".join(re.findall(r"[a-z0-9]+", text.casefold()))


def without(
    examples: Iterable[Example], avoided: set[str], keeps: Callable[[str], bool]
) -> list[Example]:
    """Drop pairs of equal texts, pairs with an evaluation text, and those that `keeps` rejects."""
    return [
        one
        for one in examples
        if one.first != one.second
        and not {plain(one.first), plain(one.second)} & avoided
        and keeps(one.first)
        and keeps(one.second)
    ]
