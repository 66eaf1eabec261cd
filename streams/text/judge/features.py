"""The features of a trained judge: a pair of texts as numbers.

Directed features have two columns, one for what only the event has and one for what only the
memory has, so swapping the two texts only exchanges those columns.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import NamedTuple

import numpy as np

from streams.text.guards.alignment import SAME_MEANING, common_ends
from streams.text.judge.prepared import Matrix, PreparedText, WordVectors, prepare
from streams.text.lexicon import Lexicon, Relation
from streams.text.reading import AnalysedText

_COMPARED = 7
"""The maximum number of words unique to one side that are compared with the other side's."""

_DECIMALS = 5
"""A word's cosine with itself is 1 on one processor and .9999998 on another, and a tree may split
between the two; a float32 cosine is off by less than 1e-6."""

_NEAR, _FAR = 0.6, 0.3
"""Cosines of static word vectors: related words lie around 0.6; above, most are inflections."""

_DENYING = ("un", "in", "im", "ir", "il", "dis", "non")
_COUNTED = (
    Relation.SYNONYM,
    Relation.SIMILAR,
    Relation.DERIVED,
    Relation.ANTONYM,
    Relation.OPPOSITE,
    Relation.SIBLING,
)
_RELATED = tuple(f"words_{relation.value}" for relation in _COUNTED)
_SETS = ("links", "quantifiers", "modals", "numbers", "names", "tenses", "owners")

_VALUES = frozenset("pq")
"""Part-of-speech codes of names and values."""

Row = dict[str, float]


class _Alone(NamedTuple):
    """The positions of the words that only one side has."""

    event: tuple[int, ...]
    memory: tuple[int, ...]


def features(
    event: PreparedText, memory: PreparedText, similarity: float, lexicon: Lexicon
) -> Matrix:
    """Return the pair's row: shape (len(names()),), float32, all finite."""
    row = _row(event, memory, similarity, lexicon)
    return np.fromiter(row.values(), np.float64, len(row)).round(_DECIMALS).astype(np.float32)


@cache
def names() -> tuple[str, ...]:
    """Return the column names in order; those of a directed pair end in _e and _m."""
    lexicon = Lexicon({}, (), {}, {})
    nothing = prepare(
        AnalysedText("", lexicon), lexicon, WordVectors({}, np.zeros((1, 1), np.int8))
    )
    return tuple(_row(nothing, nothing, 0.0, lexicon))


@cache
def turned() -> tuple[int, ...]:
    """Return, per column, its position in the row of the swapped pair."""
    other = {"_e": "_m", "_m": "_e"}
    at = {name: place for place, name in enumerate(names())}
    return tuple(at[name[:-2] + other.get(name[-2:], name[-2:])] for name in names())


def _row(event: PreparedText, memory: PreparedText, similarity: float, lexicon: Lexicon) -> Row:
    ours, theirs = event.bag, memory.bag
    alone = _Alone(
        tuple([at for at in event.content if event.lemmas[at] not in theirs]),
        tuple([at for at in memory.content if memory.lemmas[at] not in ours]),
    )
    row: Row = {
        "similarity": similarity,
        "length_e": len(event.words),
        "length_m": len(memory.words),
        "length_ratio": _ratio(len(event.words), len(memory.words)),
    }
    _overlap(row, event, memory)
    _only(row, "e", event, alone.event)
    _only(row, "m", memory, alone.memory)
    _nearest(row, event, memory)
    _related(row, event, memory, alone, lexicon)
    _denied(row, event, memory)
    _sets(row, event, memory)
    _order(row, event, memory)
    _neighbours(row, event, memory)
    _middle(row, event.lemmas, memory.lemmas)
    _form(row, event.reading, memory.reading)
    return row


def _ratio(one: float, other: float) -> float:
    return min(one, other) / max(one, other, 1)


def _jaccard(one: AbstractSet[object], other: AbstractSet[object]) -> float:
    both = len(one & other)
    return both / max(1, len(one) + len(other) - both)


def _overlap(row: Row, event: PreparedText, memory: PreparedText) -> None:
    shared = len(event.bag & memory.bag)
    row["words_jaccard"] = shared / max(1, len(event.bag) + len(memory.bag) - shared)
    row["bigrams_jaccard"] = _jaccard(event.bigrams, memory.bigrams)
    row["trigrams_jaccard"] = _jaccard(event.trigrams, memory.trigrams)
    row["any_alone_e"] = len(event.bag) - shared
    row["any_alone_m"] = len(memory.bag) - shared


def _only(row: Row, side: str, text: PreparedText, alone: Sequence[int]) -> None:
    """Add how much content only one side has, and of which kind."""
    weights = [text.rarity[at] for at in alone]
    parts = [text.parts[at] for at in alone]
    row[f"alone_{side}"] = len(alone)
    row[f"alone_share_{side}"] = len(alone) / max(1, len(text.content))
    row[f"alone_rarity_{side}"] = sum(weights)
    row[f"alone_rarest_{side}"] = max(weights, default=0.0)
    row[f"alone_weight_{side}"] = sum(weights) / max(text.weight, 1e-3)
    row[f"alone_nouns_{side}"] = parts.count("n")
    row[f"alone_verbs_{side}"] = parts.count("v")
    row[f"alone_qualities_{side}"] = parts.count("a") + parts.count("r")
    row[f"alone_names_{side}"] = parts.count("p") + parts.count("q")


def _nearest(row: Row, event: PreparedText, memory: PreparedText) -> None:
    """Compare each content word with the nearest of all words of the other side."""
    if not event.words or not memory.words:
        for side, text in (("e", event), ("m", memory)):
            alike = [1.0] * len(text.words)
            _matched(row, side, text, alike, alike)
        return
    product = event.vectors @ memory.vectors.T
    around = event.surroundings @ memory.surroundings.T
    _matched(row, "e", event, product.max(1).tolist(), around.max(1).tolist())
    _matched(row, "m", memory, product.max(0).tolist(), around.max(0).tolist())


def _matched(
    row: Row, side: str, text: PreparedText, nearest: Sequence[float], beside: Sequence[float]
) -> None:
    places = [at for at in text.content if text.known[at]]
    scores = sorted([nearest[at] for at in places]) or [1.0]
    mixed = sorted([beside[at] for at in text.content]) or [1.0]
    weight = sum([text.rarity[at] for at in places])
    row[f"near_min_{side}"] = scores[0]
    row[f"near_second_{side}"] = scores[min(1, len(scores) - 1)]
    row[f"near_mean_{side}"] = sum(scores) / len(scores)
    row[f"near_few_{side}"] = sum([score < _NEAR for score in scores])
    row[f"near_none_{side}"] = sum([score < _FAR for score in scores])
    row[f"near_weighted_{side}"] = (
        sum([nearest[at] * text.rarity[at] for at in places]) / weight if weight else 1.0
    )
    row[f"around_min_{side}"] = mixed[0]
    row[f"around_second_{side}"] = mixed[min(1, len(mixed) - 1)]
    row[f"around_mean_{side}"] = sum(mixed) / len(mixed)


def _related(
    row: Row, event: PreparedText, memory: PreparedText, alone: _Alone, lexicon: Lexicon
) -> None:
    """Count the relations between the words that only one side has and those of the other side."""
    ours, theirs = alone.event[:_COMPARED], alone.memory[:_COMPARED]
    counts = dict.fromkeys(_COUNTED, 0)
    broader = narrower = kinds = denying = spelt = 0
    explained_ours, explained_theirs = set[int](), set[int]()
    for at in ours:
        word, kind = event.words[at].lower, event.kinds[at]
        for over in theirs:
            other = memory.words[over].lower
            denying += _denies(word, other)
            spelt += word[:4] == other[:4]
            relations = lexicon.relations(word, other)
            same = False
            if relations:
                same = not relations.isdisjoint(SAME_MEANING)
                for relation in relations:
                    if relation in counts:
                        counts[relation] += 1
                if same:
                    explained_ours.add(at)
                    explained_theirs.add(over)
                else:
                    broader += Relation.BROADER in relations
                    narrower += Relation.NARROWER in relations
            if kind and not same:
                kinds += not kind.isdisjoint(memory.kinds[over])
    for name, relation in zip(_RELATED, _COUNTED, strict=True):
        row[name] = counts[relation]
    row["words_broader_e"], row["words_broader_m"] = narrower, broader
    row["words_kind"] = kinds
    row["words_denying"] = denying
    row["words_spelt"] = spelt
    row["unexplained_e"] = len(alone.event) - len(explained_ours)
    row["unexplained_m"] = len(alone.memory) - len(explained_theirs)
    if ours and theirs:
        product = event.vectors[list(ours)] @ memory.vectors[list(theirs)].T
        best, worst_e = float(product.max()), float(product.max(1).min())
        worst_m = float(product.max(0).min())
    else:
        best = worst_e = worst_m = -1.0 if ours or theirs else 2.0
    row["between_best"] = best
    row["between_worst_e"], row["between_worst_m"] = worst_e, worst_m


def _denies(word: str, other: str) -> bool:
    longer, shorter = (word, other) if len(word) > len(other) else (other, word)
    return longer.endswith(shorter) and longer[: len(longer) - len(shorter)] in _DENYING


def _denied(row: Row, event: PreparedText, memory: PreparedText) -> None:
    ours, theirs = len(event.reading.negations), len(memory.reading.negations)
    row["negations_parity"] = (ours + theirs) % 2
    row["negations_e"], row["negations_m"] = ours, theirs
    there = here = alike = 0
    if event.negated or memory.negated:
        there = len((event.negated & memory.bag) - memory.negated)
        here = len((memory.negated & event.bag) - event.negated)
        alike = len(event.negated & memory.negated)
    row["denied_there_e"], row["denied_there_m"], row["denied_alike"] = there, here, alike


def _sets(row: Row, event: PreparedText, memory: PreparedText) -> None:
    for name, ours, theirs in zip(_SETS, event.sets, memory.sets, strict=True):
        shared = len(ours & theirs) if ours and theirs else 0
        row[f"{name}_e"] = len(ours) - shared
        row[f"{name}_m"] = len(theirs) - shared
        row[f"{name}_shared"] = shared


def _order(row: Row, event: PreparedText, memory: PreparedText) -> None:
    """Add how far the shared words are in the same order."""
    places = [memory.places[lemma] for lemma in event.places if lemma in memory.places]
    crossed = sum([place > later for at, place in enumerate(places) for later in places[at + 1 :]])
    pairs = len(places) * (len(places) - 1) // 2
    same = event.lemmas == memory.lemmas
    moved = not same and sorted(event.lemmas) == sorted(memory.lemmas)
    row["shared"] = len(places)
    row["crossed"] = crossed
    row["crossed_share"] = crossed / pairs if pairs else 0.0
    row["same_words_moved"] = float(moved)
    row["same_words"] = float(same)
    row["first_alike"] = float(event.spread[:1] == memory.spread[:1])
    row["last_alike"] = float(event.spread[-1:] == memory.spread[-1:])


def _neighbours(row: Row, event: PreparedText, memory: PreparedText) -> None:
    """Add whether shared words have the same neighbours in both texts, or have exchanged them."""
    alike = beside_none = repaired = repaired_values = governed = ungoverned = 0
    both = [lemma for lemma in event.places if lemma in memory.places]
    for lemma in both:
        behind, there_behind = event.behind[lemma], memory.behind[lemma]
        before, there_before = event.before[lemma], memory.before[lemma]
        same = (behind == there_behind) + (before == there_before)
        alike += same
        if not same:
            beside_none += 1
            parts = event.parts[event.places[lemma]] + memory.parts[memory.places[lemma]]
            value = not _VALUES.isdisjoint(parts)
            around_here = behind in memory.bag and before in memory.bag
            around_there = there_behind in event.bag and there_before in event.bag
            repaired += around_here or around_there
            repaired_values += value and (around_here or around_there)
        link, other = event.governors[lemma], memory.governors[lemma]
        if link != other:
            governed += bool(link and other)
            ungoverned += not (link and other)
    row["beside_alike"] = alike / max(1, 2 * len(both))
    row["beside_none"] = beside_none
    row["repaired"] = repaired
    row["repaired_values"] = repaired_values
    row["governed_otherwise"] = governed
    row["governed_once"] = ungoverned


def _middle(row: Row, ours: Sequence[str], theirs: Sequence[str]) -> None:
    """Measure what lies between the texts' common prefix and common suffix."""
    begin, end = common_ends(ours, theirs)
    row["middle_e"] = len(ours) - begin - end
    row["middle_m"] = len(theirs) - begin - end
    row["middle_place"] = begin / max(1, begin + end)


def _form(row: Row, event: AnalysedText, memory: AnalysedText) -> None:
    row["question_differs"] = float((event.question is None) != (memory.question is None))
    row["question_word_differs"] = float((event.question or "") != (memory.question or ""))
    row["asked"] = float(event.question is not None and memory.question is not None)
    row["persons_differ"] = float(event.persons != memory.persons)
    row["speakers_differ"] = float(event.speakers != memory.speakers)
    row["sentences_e"], row["sentences_m"] = event.sentences, memory.sentences
    row["comparisons_e"], row["comparisons_m"] = len(event.comparisons), len(memory.comparisons)
