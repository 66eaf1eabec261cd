"""Lexical relevance of texts to a query (BM25), and its combination with vector similarity."""

from collections import Counter
from collections.abc import Sequence
from math import log

from streams.text.reading import AnalysedText

_SATURATION = 1.2
_LENGTH_WEIGHT = 0.75
"""BM25's k1 and b, from Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009."""


def bm25(query: AnalysedText, texts: Sequence[AnalysedText]) -> list[float]:
    """Return the BM25 score of each text for the query's content words, scaled so the best is 1.

    Words are compared by lemma, names by spelling; rarer words count more. A text with none of the
    words scores 0.
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
    """Return the weighted mean of similarity and lexical score; `weight` is the lexical share.

    A missing score counts as 0.
    """
    return (1 - weight) * (similarity or 0.0) + weight * (lexical or 0.0)


def _terms(text: AnalysedText) -> list[str]:
    return [word.lower if word.name else word.lemma for word in text.words if word.content]
