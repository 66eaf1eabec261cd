"""How well texts match the words of a query, beside how near they are to it in meaning."""

from collections import Counter
from collections.abc import Sequence
from math import log

from streams.core.language.reading import Reading

_SATURATION = 1.2
_LENGTH_WEIGHT = 0.75
"""BM25's k1 and b, as Robertson and Zaragoza give them: The Probabilistic Relevance Framework,
2009."""


def bm25(query: Reading, texts: Sequence[Reading]) -> list[float]:
    """Return how well each text matches any of the query's content words, the best as 1.

    Words are compared by their lemmas, names by how they are spelt; a word that few of the texts
    have counts more. 0 where a text has none of them.
    """
    counts = [Counter(_terms(text)) for text in texts]
    wanted = sorted(set(_terms(query)))
    mean = sum(count.total() for count in counts) / max(1, len(counts))
    having = {term: sum(term in count for count in counts) for term in wanted}

    def score(count: Counter[str]) -> float:
        length = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * count.total() / mean if mean else 1.0
        return sum(
            log(1 + (len(counts) - having[term] + 0.5) / (having[term] + 0.5))
            * count[term]
            * (_SATURATION + 1)
            / (count[term] + _SATURATION * length)
            for term in wanted
        )

    scores = [score(count) for count in counts]
    best = max(scores, default=0.0)
    return [one / best if best else 0.0 for one in scores]


def hybrid(similarity: float | None, lexical: float | None, *, weight: float) -> float:
    """Return one score of nearness in meaning and of shared words, which have this weight.

    What has no similarity is as far as can be, what has no lexical score shares no word.
    """
    return (1 - weight) * (similarity or 0.0) + weight * (lexical or 0.0)


def _terms(text: Reading) -> list[str]:
    return [word.lower if word.name else word.lemma for word in text.words if word.content]
