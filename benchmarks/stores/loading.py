"""What it takes to put together the memories that a search has found, and how many that are.

Usage: python benchmarks/stores/loading.py [--rounds N] [--out FILE]

A scope of short memories is made by the benchmarks' own templates, each fact in one to three
wordings; every search brings the 30 that are nearest to one of them, which is what a limit of 10
fetches. Measured is what comes on top of the search itself: pairs found, judged by guards and the
built-in judge, and told as one text. `first` searches find nothing kept, `again` all. Where the
observations of LoCoMo lie beside this checkout (../shared/data), long sentences about few people
and few subjects, they are searched too: there nearly half of all pairs are near enough to be asked
about. Processor time of this process, so that what else runs here counts less.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import product

import numpy as np

from benchmarks.harness.material import STREAMS
from benchmarks.harness.measuring import Result, Spread, arguments, percentile
from schemas.base import MemoryId, ScopeName
from schemas.memories import Memory
from streams.clock.system import SystemClock
from streams.model.embedding import Vector
from streams.model.identity import content_key
from streams.recall.core.loading import Candidate
from streams.recall.flow import Bounds, CombiningOptions, Loader
from streams.stage.flow.judging import Judging
from streams.store.app import policies, settings, wiring
from streams.store.app.product_settings import LoadSettings

_SCOPE = ScopeName("bench/ana")
_CANDIDATES = 30
_SEARCHES = 40
_WORDINGS = (
    ("Ana drinks {} in the morning.", "In the morning Ana drinks {}.", "tea|cocoa|juice|milk"),
    ("Ana's desk at work stands by {}.", "By {} stands Ana's desk at work.", "the door|the lift"),
    (
        "Ana is learning {} at evening school.",
        "At evening school Ana learns {}.",
        "Greek|Welsh|Thai",
    ),
    ("Ana's sister lives in {}.", "The sister of Ana lives in {}.", "Oslo|Graz|Turin"),
    ("Ana keeps {} on her balcony.", "On her balcony Ana keeps {}.", "herbs|a beehive|two chairs"),
    ("Ana cannot stand {}.", "{} is something that Ana cannot stand.", "loud music|cold rooms"),
    (
        "On Fridays Ana plays {} with her team.",
        "Ana plays {} with her team on Fridays.",
        "chess|darts",
    ),
    ("Ana has promised her boss {}.", "Ana's boss was promised {} by her.", "a report|a new plan"),
    ("Ana's bicycle needs {}.", "{} is what Ana's bicycle needs.", "a new chain|better brakes"),
    ("Ana wants to visit {} next year.", "Next year Ana wants to visit {}.", "Lima|Kyoto|the Alps"),
)


_CONSONANTS, _VOWELS = "bdgklmnprtvz", "aeiou"
_NEW_NAMES = (
    "".join(letters).capitalize()
    for letters in product(_CONSONANTS, _VOWELS, _CONSONANTS, _VOWELS, _CONSONANTS)
)
"""Names that occur in no text."""


@dataclass
class Costs:
    """The CPU milliseconds of each search, and the numbers of entries."""

    new: list[float] = field(default_factory=list[float])
    first: list[float] = field(default_factory=list[float])
    again: list[float] = field(default_factory=list[float])
    every_pair: list[float] = field(default_factory=list[float])
    entries: list[float] = field(default_factory=list[float])
    entries_every_pair: list[float] = field(default_factory=list[float])

    def figures(self, name: str) -> dict[str, Spread | float]:
        return {
            f"{name}_new_ms": Spread.of(self.new, "lower"),
            f"{name}_new_p95_ms": percentile(self.new, 0.95),
            f"{name}_first_ms": Spread.of(self.first, "lower"),
            f"{name}_first_p95_ms": percentile(self.first, 0.95),
            f"{name}_again_ms": Spread.of(self.again, "lower"),
            f"{name}_every_pair_ms": Spread.of(self.every_pair, "lower"),
            f"{name}_entries_of_30": Spread.of(self.entries, "lower"),
            f"{name}_entries_of_30_every_pair": Spread.of(self.entries_every_pair, "lower"),
        }


def main() -> None:
    options = arguments(__doc__, rounds=3).parse_args()
    materials = {"memories": _memories(), **_locomo()}
    costs = asyncio.run(_measured(materials, options.rounds))
    pairs_max = LoadSettings().pairs_max
    Result(
        benchmark="loading",
        method=f"{__doc__} A first search judges {pairs_max} pairs at most (load.pairs_max).",
        material={name: len(texts) for name, texts in materials.items()},
        figures={k: v for name, one in costs.items() for k, v in one.figures(name).items()},
        packages=("onnxruntime", "numpy"),
    ).give(options.out)


async def _measured(materials: dict[str, list[str]], rounds: int) -> dict[str, Costs]:
    chosen = settings.load({})
    embedder = wiring.embedder(chosen.embedder, print)
    costs = {name: Costs() for name in materials}
    async with wiring.judging(chosen, SystemClock()) as judging:
        for _ in range(rounds + 1):  # the first counts for nothing: some things are loaded late
            costs = {
                name: await _round(judging, texts, [e.vector for e in await embedder.embed(texts)])
                for name, texts in materials.items()
            }
    return costs


async def _round(judging: Judging, texts: Sequence[str], vectors: Sequence[Vector]) -> Costs:
    every = [
        Candidate(_memory(at, text), vector)
        for at, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]
    matrix, [(person, _)] = np.stack(vectors), Counter(t.split()[0] for t in texts).most_common(1)
    costs = Costs()
    for query in range(0, len(texts), max(1, len(texts) // _SEARCHES)):
        nearest = np.argsort(-(matrix @ vectors[query]), kind="stable")[:_CANDIDATES]
        found = [every[int(at)] for at in nearest]
        loader, thorough = _loader(judging, LoadSettings().pairs_max), _loader(judging, 100_000)
        name = next(_NEW_NAMES)
        await _timed(loader, [_renamed(one, person, name) for one in found], costs.new)
        entries = await _timed(loader, found, costs.first)
        for _ in range(_CANDIDATES * _CANDIDATES // 2 // LoadSettings().pairs_max):
            await loader.group(found, _SCOPE, _how())
        await _timed(loader, found, costs.again)
        costs.entries.append(entries)
        costs.entries_every_pair.append(await _timed(thorough, found, costs.every_pair))
    return costs


async def _timed(loader: Loader, found: Sequence[Candidate], costs: list[float]) -> int:
    """Group what was found; record the CPU time, and return the number of entries."""
    started = time.process_time()
    loaded = await loader.group(found, _SCOPE, _how())
    costs.append((time.process_time() - started) * 1_000)
    return len(loaded.entries)


def _renamed(found: Candidate, person: str, name: str) -> Candidate:
    text = found.memory.text.replace(person, name)
    return replace(found, memory=found.memory.model_copy(update={"text": text}))


def _loader(judging: Judging, pairs_max: int) -> Loader:
    return Loader(judging, policies.load("default"), Bounds(_CANDIDATES, pairs_max, 100_000))


def _how() -> CombiningOptions:
    wanted = LoadSettings()
    return CombiningOptions(deduplicate=True, similarity_min=wanted.threshold, verify="built-in")


def _memories() -> list[str]:
    """Return a scope's memories: one wording of each fact, and both of every other fact."""
    facts = [
        (first.format(thing), second.format(thing))
        for first, second, things in _WORDINGS
        for thing in things.split("|")
    ]
    return [text for at, fact in enumerate(facts) for text in fact[: 1 + at % 2]]


def _locomo() -> dict[str, list[str]]:
    """Return LoCoMo's observations of one dialogue, if the data is next to this checkout."""
    path = STREAMS / "locomo_observations.jsonl"
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    first = rows[0]["sample"]
    return {"locomo": [row["text"] for row in rows if row["sample"] == first]}


def _memory(at: int, text: str) -> Memory:
    said_at = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=at)
    return Memory(
        id=MemoryId(f"memory {at}"),
        scope=_SCOPE,
        text=text,
        content_key=content_key(_SCOPE, text),
        version=1,
        created_at=said_at,
        last_seen_at=said_at,
    )


if __name__ == "__main__":
    main()
