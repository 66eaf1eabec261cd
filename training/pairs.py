"""The judge's training pairs, from the project's own material and from permitted labelled sets.

    python -m training.pairs DATA [OUT]    print counts by source and label; write JSON Lines

DATA is the folder with `pairs/` and `streams/` of permitted sets: the STS benchmark and MED
(CC BY-SA 4.0), the persona sentences of MSC (CC BY 4.0), the questions of the BYU chitchat dataset
(MIT). Evaluation data is excluded: no sentence of an evaluation set is used for training.
"""

import argparse
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

from streams.judges.lexicons import english
from streams.text.function_words import FUNCTION_WORDS
from training.edits import Editor
from training.frames import Labelled, exchanges, of_frame
from training.voices import voices

HERE = Path(__file__).parent
OWN_PAIRS = HERE.parent / "benchmarks" / "datasets" / "memory_pairs.jsonl"
EVALUATED = ("mixed", "negation_antonym", "scoped_negation", "zork_examples")
"""The evaluation sets of DATA."""

_SEED = 20261121
_SAME_FROM, _OTHER_UP_TO = 4.0, 3.0
"""STS scores: 4 is "mostly equivalent, unimportant details differ", 3 "important ones do"."""
_EDITED = 0.9
"""Weight of edits: they are many and similar, so they count less than human-written pairs."""
_DOUBTFUL = {"edit-another": 0.3, "edit-sibling": 0.4}
"""Edits that sometimes keep the meaning, contrary to their label."""
_STS = 2.25
_WRITTEN = {"pairs_prose": 2.0, "pairs_memories": 3.0}
"""Handwritten pairs weigh most, above all those that resemble real memories."""
_SENTENCES_EDITED = 16_000
_PERSONAS_EDITED = 5_000
_FACT_FILLINGS = 16
_DENIALS = 900
_VOICES = 300
_QUESTIONS_EDITED = 4_000
_LEAST_ASKED = 4
_UNLIKE, _SHARED = 4_000, 2


def collect(data: Path) -> list[Labelled]:
    """Return every training pair, in an order that depends only on the material."""
    chance = Random(_SEED)
    avoided = evaluated_texts(data)
    pairs = [
        *_own(chance),
        *_labelled(data),
        *_unlike(data, chance),
        *_edited(data, avoided, chance),
        *voices(_VOICES, Random(_SEED)),
    ]
    kept = {
        (pair.event, pair.memory): pair
        for pair in pairs
        if not {_plain(pair.event), _plain(pair.memory)} & avoided and pair.event != pair.memory
    }
    ordered = list(kept.values())
    chance.shuffle(ordered)
    return ordered


def _own(chance: Random) -> Iterator[Labelled]:
    for name, fillings in (("frames_memories", 2), ("frames_prose", 2)):
        for frame in _rows(HERE / "material" / f"{name}.jsonl"):
            yield from of_frame(frame, fillings, chance)
    for frame in _rows(HERE / "material" / "frames_facts.jsonl"):
        yield from exchanges(frame, _FACT_FILLINGS, chance)
    for name, weight in _WRITTEN.items():
        for row in _rows(HERE / "material" / f"{name}.jsonl"):
            yield Labelled(row["a"], row["b"], row["label"], "written", weight)
    for row in _rows(OWN_PAIRS):
        if row["half"] == "train":
            yield Labelled(row["a"], row["b"], row["label"], "memories", 3.0)


def _labelled(data: Path) -> Iterator[Labelled]:
    for row in _rows(data / "pairs" / "stsb.jsonl"):
        if row["score"] >= _SAME_FROM:
            yield Labelled(row["a"], row["b"], "same", "sts", _STS)
        elif row["score"] <= _OTHER_UP_TO:
            yield Labelled(row["a"], row["b"], "distinct", "sts", _STS)
        else:
            longer = "refines" if len(row["a"]) > len(row["b"]) else "refined-by"
            yield Labelled(row["a"], row["b"], longer, "sts-between", 0.3)
    for row in _rows(data / "pairs" / "monotonicity.jsonl"):
        entailed = row["nli"] == "entailment"
        pair = Labelled(row["a"], row["b"], "refines" if entailed else "refined-by", "med", 0.6)
        yield pair if entailed else pair._replace(weight=0.4)


def _edited(data: Path, avoided: set[str], chance: Random) -> Iterator[Labelled]:
    sentences = sorted(set(_sentences(data)))
    usable = [
        text for text in sentences if _plain(text) not in avoided and 3 < len(text.split()) < 40
    ]
    chance.shuffle(usable)
    editor = Editor(english(), usable, chance)
    for text in usable[:_SENTENCES_EDITED]:
        for pair in editor.pairs(text, 3):
            yield pair._replace(weight=_EDITED * _DOUBTFUL.get(pair.source, 1.0))
    yield from editor.denials(_DENIALS)


def _sentences(data: Path) -> Iterator[str]:
    for name in ("stsb", "monotonicity"):
        for row in _rows(data / "pairs" / f"{name}.jsonl"):
            yield from (row["a"], row["b"])
    personas = sorted(
        {text for row in _rows(data / "streams" / "msc_personas.jsonl") for text in row["texts"]}
    )
    yield from personas[:: max(1, len(personas) // _PERSONAS_EDITED)]
    for name in _WRITTEN:
        for row in _rows(HERE / "material" / f"{name}.jsonl"):
            yield from (row["a"], row["b"])
    asked = sorted(
        {
            text
            for text in _chat(data)
            if text.endswith("?") and _LEAST_ASKED < len(text.split()) < 25
        }
    )
    yield from asked[:: max(1, len(asked) // _QUESTIONS_EDITED)]


def _chat(data: Path) -> Iterator[str]:
    with gzip.open(data / "streams" / "chitchat.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield " ".join(json.loads(line)["text"].split())


def _unlike(data: Path, chance: Random) -> Iterator[Labelled]:
    """Yield pairs of one person's facts that share words, which are distinct by construction."""
    found: list[Labelled] = []
    for row in _rows(data / "streams" / "msc_personas.jsonl"):
        for one, other in combinations(row["texts"], 2):
            shared = set(_plain(one).split()) & set(_plain(other).split()) - FUNCTION_WORDS
            if len(shared) >= _SHARED:
                found.append(Labelled(one, other, "distinct", "personas", 0.5))
    yield from chance.sample(found, min(_UNLIKE, len(found)))


def evaluated_texts(data: Path) -> set[str]:
    """Return the texts of the evaluation sets, reduced to letters and digits."""
    return set(_evaluated(data))


def _evaluated(data: Path) -> Iterator[str]:
    for name in EVALUATED:
        for row in _rows(data / "pairs" / f"{name}.jsonl"):
            yield from (_plain(row[side]) for side in ("a", "b", "text") if row.get(side))
    for row in _rows(OWN_PAIRS):
        if row["half"] != "train":
            yield from (_plain(row["a"]), _plain(row["b"]))


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_collected(file: Path) -> list[Labelled]:
    """Read the pairs that an earlier run wrote."""
    return [Labelled(**row) for row in _rows(file)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Collect the pairs that the judge learns from.")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    arguments = parser.parse_args()
    pairs = collect(arguments.data)
    for (source, label), count in sorted(Counter((p.source, p.label) for p in pairs).items()):
        print(f"{count:7,}  {source:<18} {label}")
    print(f"{len(pairs):7,}  in all")
    if arguments.out:
        lines = (json.dumps(pair._asdict(), ensure_ascii=False) for pair in pairs)
        arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
