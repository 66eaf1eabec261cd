"""A second opinion on merges: what is wrong with a proof, by the letters alone.

It knows nothing of how merges are made. A source is in the result where each of its pieces is there
word for word; what is not must be claimed word by word, and every claim must quote both texts.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping

from schemas.decisions import MergeProof

_EMPTY = frozenset(
    [
        "a",
        "an",
        "the",
        "s",
        "m",
        "re",
        "ve",
        "am",
        "is",
        "are",
        "be",
        "been",
        "being",
        "do",
        "does",
        "has",
        "have",
        "and",
        "plus",
        "but",
        "although",
        "though",
        "however",
        "yet",
        "whereas",
        "also",
        "very",
        "really",
        "please",
    ]
)
"""Words that may go without a claim."""
_DENYING = frozenset(
    [
        "not",
        "n't",
        "t",
        "no",
        "never",
        "none",
        "nobody",
        "nothing",
        "nowhere",
        "neither",
        "nor",
        "without",
        "hardly",
        "scarcely",
        "barely",
        "rarely",
        "seldom",
        "cannot",
    ]
)


def objections(sources: Mapping[str, str], text: str, proof: MergeProof) -> list[str]:
    """Return what is wrong with a merged text and its proof; nothing where all is well."""
    return [
        *_not_the_text(text, proof),
        *_false_claims(sources, text, proof),
        *(
            f"{origin} lost: {word}"
            for origin, source in sources.items()
            for word in _lost(origin, source, text, proof)
        ),
        *(f"nobody said: {word}" for word in _invented(sources, text, proof)),
    ]


def _not_the_text(text: str, proof: MergeProof) -> Iterator[str]:
    """Check that the sentences are the text, in order, and nothing is between them."""
    place = 0
    for sentence in proof.sentences:
        found = text.find(sentence, place)
        if found < 0 or text[place:found].strip(". "):
            yield f"not in its place: {sentence}"
            return
        place = found + len(sentence)
    if text[place:].strip(". "):
        yield f"without a proof: {text[place:]}"


def _false_claims(sources: Mapping[str, str], text: str, proof: MergeProof) -> Iterator[str]:
    if len(proof.sentences) != len(proof.origins):
        yield "sentences and origins do not pair up"
    if unknown := {*proof.origins, *(claim.origin for claim in proof.carried)} - sources.keys():
        yield f"unknown origins: {unknown}"
        return
    if proof.strategy != "llm":
        for sentence, origin in zip(proof.sentences, proof.origins, strict=False):
            if sentence not in sources[origin]:
                yield f"{origin} does not say: {sentence}"
    for claim in proof.carried:
        if claim.item not in sources[claim.origin] or claim.by not in text:
            yield f"misquoted: {claim}"
        if claim.kind == "negation" and _denies(claim.item) != _denies(claim.by):
            yield f"denied on one side: {claim}"


def _lost(origin: str, source: str, text: str, proof: MergeProof) -> Iterator[str]:
    claimed = {
        word for claim in proof.carried if claim.origin == origin for word in _words(claim.item)
    }
    there = set(_words(text))
    for piece in re.split(r"(?<=[.!?\u2026])\s+", source):
        if _plain(piece) in _plain(text):
            continue
        for word in _words(piece):
            free = word in _EMPTY or (word.isalpha() and word in there and word not in _DENYING)
            if not free and word not in claimed:
                yield word


def _invented(sources: Mapping[str, str], text: str, proof: MergeProof) -> Iterator[str]:
    said = {word for source in sources.values() for word in _words(source)} | {
        word for claim in proof.carried for word in _words(claim.by)
    }
    return (word for word in _words(text) if word not in said | _EMPTY)


def _denies(text: str) -> bool:
    return not _DENYING.isdisjoint(_words(text))


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split()).rstrip(".!\u2026 ")


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s.,;:!?\u2026'\u2019\"()-]", _plain(text))
