"""Cut the English lexicon from WordNet 3.0.

Usage: python training/lexicon.py WORDNET_DIR OUT

WORDNET_DIR holds WordNet's own files (`data.noun`, `index.noun`, `noun.exc`, `cntlist.rev`, …) as
Debian's package wordnet-base 1:3.0 installs them in /usr/share/wordnet. Without installing it:

    apt-get download wordnet-base && dpkg-deb -x wordnet-base_*.deb wordnet

OUT is `streams/judges/lexicons/english.txt.gz`; WordNet's licence lies beside it. The same input
gives the same bytes. `streams/text/lexicon.py` reads the table; its lines are

    category  name, roots                  a category is what lies below its roots
    exception form, part of speech, base   how an irregular form is inflected
    synset    (number: the line's) parents, heads or groups it resembles, opposites, attributes
    word      spelling, proper, senses by part of speech with how often they were tagged in texts,
              antonyms, words derived from it, what it pertains to

Kept are all words without a space, with their first senses and every sense that WordNet's editors
met in texts, and of the phrases those that were met or name a place.
"""

import argparse
import gzip
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

SENSES_MAX = 3
"""Rarer senses are kept only if tagged in texts, because they relate unrelated words."""

TAGGED_SENSES_MAX = 6

SECTION = "-"

SYNONYM_SENSES_MAX = 8
"""A rarer sense is also kept if it is the first sense of another word: "picture", "photo"."""

POS_FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}

CATEGORIES = {
    "colour": ["color%n1", "chromatic%a1", "achromatic%a1"],
    "material": ["material%n1"],
    "size": ["size%n1"],
    "shape": ["shape%n1", "shape%n2"],
    "country": ["country%n2", "country%n1"],
    "city": ["city%n1", "town%n1"],
    "place": ["location%n1", "land%n4"],
    "nationality": ["inhabitant%n1"],
    "language": ["natural_language%n1"],
    "month": ["calendar_month%n1"],
    "weekday": ["day_of_the_week%n1"],
    "season": ["season%n2"],
    "animal": ["animal%n1"],
    "food": ["food%n1", "food%n2"],
    "beverage": ["beverage%n1"],
    "plant": ["plant%n2"],
    "room": ["room%n1"],
    "building": ["building%n1"],
    "profession": ["worker%n1", "professional%n1", "leader%n1", "skilled_worker%n1"],
    "relative": ["relative%n1"],
    "person": ["person%n1"],
    "body-part": ["body_part%n1"],
    "clothing": ["clothing%n1"],
    "vehicle": ["vehicle%n1"],
    "instrument": ["musical_instrument%n1"],
    "furniture": ["furniture%n1"],
    "device": ["device%n1"],
    "sport": ["sport%n1", "game%n1"],
    "disease": ["disease%n1", "symptom%n1"],
    "drug": ["drug%n1"],
    "planet": ["planet%n1"],
    "celestial": ["celestial_body%n1"],
    "emotion": ["emotion%n1"],
    "direction": ["direction%n1", "compass_point%n1"],
    "number": ["number%n2"],
    "unit": ["unit_of_measurement%n1"],
    "time": ["time_period%n1", "time_unit%n1"],
    "organization": ["organization%n1"],
    "quality": ["quality%n1"],
    "event": ["event%n1"],
    "act": ["act%n2"],
    "saying": ["state%v1", "think%v1", "express%v2", "tell%v1", "inform%v1", "tell%v2"],
}
"""The roots of each category's members: a word, its part of speech and its sense number."""

PLACES = ("country", "city", "place")


@dataclass
class Synset:
    """One meaning, with the pointers kept in the lexicon."""

    words: list[str]
    parents: list[str] = field(default_factory=list[str])
    similar: list[str] = field(default_factory=list[str])
    opposites: list[str] = field(default_factory=list[str])
    attributes: list[str] = field(default_factory=list[str])
    lexical: list[tuple[str, int, str, int]] = field(
        default_factory=list[tuple[str, int, str, int]]
    )
    """Pointers between words: kind, the word here, the synset there, the word there."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wordnet", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    text = "".join(f"{line}\n" for line in table(options.wordnet))
    options.out.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def table(wordnet: Path) -> Iterator[str]:
    """Yield the lines of the lexicon section by section, with a separator in between."""
    synsets = _synsets(wordnet)
    counts = _counts(wordnet)
    index = _index(wordnet)
    roots = {name: [_root(index, root) for root in roots] for name, roots in CATEGORIES.items()}
    places = {key for name in PLACES for key in roots[name]}
    kept = _kept(synsets, index, counts, places)
    used = _closed(synsets, {key for senses in kept.values() for key in senses}, roots)
    numbers = {key: _base36(number) for number, key in enumerate(sorted(used))}
    for name, keys in roots.items():
        yield "\t".join([name, *(numbers[key] for key in keys)])
    yield SECTION
    yield from _exceptions(wordnet)
    yield SECTION
    yield from (_synset_line(synsets[key], numbers) for key in sorted(used))
    yield SECTION
    yield from _word_lines(synsets, kept, counts, numbers)


def _synsets(wordnet: Path) -> dict[str, Synset]:
    synsets: dict[str, Synset] = {}
    for pos, name in POS_FILES.items():
        for line in _lines(wordnet / f"data.{name}"):
            offset, synset = _synset(line, pos)
            synsets[offset] = synset
    return synsets


def _synset(line: str, pos: str) -> tuple[str, Synset]:
    fields = line.split(" | ", 1)[0].split()
    words_end = 4 + 2 * int(fields[3], 16)
    words = [word.split("(")[0] for word in fields[4:words_end:2]]
    synset = Synset(words)
    count = int(fields[words_end])
    for at in range(words_end + 1, words_end + 1 + 4 * count, 4):
        symbol, offset, target_pos, places = fields[at : at + 4]
        target = _key(target_pos, offset)
        source_word, target_word = (int(part, 16) for part in (places[:2], places[2:]))
        if symbol in {"@", "@i"}:
            synset.parents.append(target)
        elif symbol in {"&", "$"}:
            synset.similar.append(target)
        elif symbol == "=":
            synset.attributes.append(target)
        elif symbol == "!":
            synset.opposites.append(target)
        if symbol in {"!", "+", "\\", "<"} and source_word and target_word:
            synset.lexical.append((symbol, source_word - 1, target, target_word - 1))
    return _key(pos, fields[0]), synset


def _key(pos: str, offset: str) -> str:
    return ("a" if pos == "s" else pos) + offset


def _index(wordnet: Path) -> dict[tuple[str, str], list[str]]:
    """Return the senses of each word and part of speech, the most common first."""
    index: dict[tuple[str, str], list[str]] = {}
    for pos, name in POS_FILES.items():
        for line in _lines(wordnet / f"index.{name}"):
            fields = line.split()
            senses = fields[-int(fields[2]) :]
            index[fields[0], pos] = [_key(pos, offset) for offset in senses]
    return index


def _counts(wordnet: Path) -> dict[tuple[str, str, int], int]:
    """Return how often each sense of a word was tagged in texts by WordNet's editors."""
    types = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
    counts: dict[tuple[str, str, int], int] = {}
    for line in (wordnet / "cntlist.rev").read_text(encoding="utf-8").splitlines():
        key, sense, count = line.split()
        lemma, rest = key.split("%")
        counts[lemma, types[rest[0]], int(sense)] = int(count)
    return counts


def _kept(
    synsets: dict[str, Synset],
    index: dict[tuple[str, str], list[str]],
    counts: dict[tuple[str, str, int], int],
    places: set[str],
) -> dict[tuple[str, str], list[str]]:
    kept: dict[tuple[str, str], list[str]] = {}
    first_of: dict[str, set[str]] = defaultdict(set)
    for (word, _), senses in index.items():
        first_of[senses[0]].add(word)
    for (word, pos), senses in index.items():
        tagged = [
            key
            for number, key in enumerate(senses[:TAGGED_SENSES_MAX], 1)
            if (word, pos, number) in counts
        ]
        if "_" not in word:
            shared = [key for key in senses[:SYNONYM_SENSES_MAX] if first_of[key] - {word}]
            chosen = list(dict.fromkeys([*senses[:SENSES_MAX], *tagged, *shared]))
        elif tagged or places & _ancestors(synsets, senses[:1]):
            chosen = tagged or senses[:1]
        else:
            continue
        kept[word, pos] = chosen
    return kept


def _ancestors(synsets: dict[str, Synset], keys: Iterable[str]) -> set[str]:
    found: set[str] = set()
    open_keys = list(keys)
    while open_keys:
        key = open_keys.pop()
        if key not in found:
            found.add(key)
            open_keys += synsets[key].parents
    return found


def _closed(synsets: dict[str, Synset], keys: set[str], roots: dict[str, list[str]]) -> set[str]:
    """Add the ancestors of the kept meanings, and the heads of adjective clusters."""
    heads = {head for key in keys if key[0] == "a" for head in synsets[key].similar}
    attributes = {noun for key in keys | heads for noun in synsets[key].attributes}
    named = {key for keys_ in roots.values() for key in keys_}
    return _ancestors(synsets, keys | heads | attributes | named)


def _root(index: dict[tuple[str, str], list[str]], root: str) -> str:
    word, sense = root.split("%")
    return index[word, sense[0]][int(sense[1:]) - 1]


def _exceptions(wordnet: Path) -> Iterator[str]:
    for pos, name in POS_FILES.items():
        for line in (wordnet / f"{name}.exc").read_text(encoding="utf-8").splitlines():
            form, base, *_ = line.split()
            if "_" not in form and form != base:
                yield f"{form}\t{pos}\t{base}"


def _synset_line(synset: Synset, numbers: dict[str, str]) -> str:
    groups = (synset.parents, synset.similar, synset.opposites, synset.attributes)
    lists = (" ".join(numbers[key] for key in group if key in numbers) for group in groups)
    return "\t".join(lists).rstrip("\t")


def _word_lines(
    synsets: dict[str, Synset],
    kept: dict[tuple[str, str], list[str]],
    counts: dict[tuple[str, str, int], int],
    numbers: dict[str, str],
) -> Iterator[str]:
    totals: dict[tuple[str, str], int] = defaultdict(int)
    for (word, pos, _), count in counts.items():
        totals[word, pos] += count
    by_word: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for (word, pos), senses in kept.items():
        by_word[word][pos] = senses
    for word in sorted(by_word):
        senses = ";".join(
            " ".join([f"{pos}{totals[word, pos]}", *(numbers[key] for key in keys)])
            for pos, keys in by_word[word].items()
        )
        keys = [key for keys in by_word[word].values() for key in keys]
        related = _related(synsets, word, keys)
        proper = "P" if all(_is_proper(synsets[key], word) for key in keys) else ""
        groups = (" ".join(sorted(related[kind])) for kind in ("!", "+", "\\"))
        yield "\t".join([word, proper, senses, *groups]).rstrip("\t")


def _related(synsets: dict[str, Synset], word: str, keys: Iterable[str]) -> dict[str, set[str]]:
    related: dict[str, set[str]] = defaultdict(set)
    for key in keys:
        for kind, here, target, there in synsets[key].lexical:
            other = synsets[target].words[there].lower()
            if synsets[key].words[here].lower() == word and other != word and "_" not in other:
                related["+" if kind == "<" else kind].add(other)
    return related


def _is_proper(synset: Synset, word: str) -> bool:
    """Return whether WordNet capitalises the word in this meaning."""
    return any(
        spelling.lower() == word and spelling[0].isupper() for spelling in synset.words
    ) and not any(spelling == word for spelling in synset.words)


def _lines(path: Path) -> Iterator[str]:
    """Return the lines after WordNet's licence, whose own lines are indented."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return (line for line in text.splitlines() if not line.startswith("  "))


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = digits[number % 36]
    while number := number // 36:
        text = digits[number % 36] + text
    return text


if __name__ == "__main__":
    main()
