"""What dedup and recall spare an agent's file and prompt, on the example game.

Usage: python benchmarks/stores/game.py [--out FILE]

The turns of examples/game, three sessions in eight places, become events sentence by sentence,
without a language model. They are decided on with the policy zork-semantic, and beside that with
dedup switched off; each store keeps a Memories.md. Tokens are those of the embedding model's
tokenizer: of each place's memories all in one block, and of the block that recall gives by default.
Nothing is left to chance, so there are no rounds. The figures are this game's, whose world says
much in the same words in every session; nobody plays by what is recalled.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.embedders import default_embedder
from benchmarks.harness.measuring import Result, Spread, arguments
from schemas.events import Remember
from streams.extract.app.extracting import Extraction, ExtractionCounts
from streams.extract.core.notes import Notes
from streams.model.policy import Policy, parse
from streams.model.ports.models import Embedder
from streams.recall.app.recalling import Recaller, RecallRequest, recalling
from streams.store.app import policies, settings, wiring
from streams.store.app.processes import embedded
from streams.store.app.reading import LogTarget
from streams.store.world.files import FileSource

TURNS = Path(__file__).parents[2] / "examples/game/turns.jsonl"
WORLD, PLACES = "skerry", range(1, 9)
_POLICY = "zork-semantic"
_OFF = f'\n[scopes."{WORLD}"]\nenabled = false\n'
_ALL = dict.fromkeys(("budget", "lasting", "recent"), 1_000_000)


@dataclass(frozen=True)
class Kept:
    """What a policy keeps of the game: bytes and tokens of its file, tokens by place."""

    file_bytes: int
    file_tokens: int
    entries: int
    whole: list[int]
    shown: list[int]


def main() -> None:
    options = _options()
    counts, events = asyncio.run(_extracted())
    embedder = default_embedder()
    policy = policies.load(_POLICY)
    off = parse(policies.text(_POLICY) + _OFF)
    with_dedup, without = (asyncio.run(_kept(one, events, embedder)) for one in (policy, off))
    Result(
        benchmark="game",
        method=str(__doc__),
        material={"turns": counts.turns, "events": len(events), "places": len(PLACES)},
        ratios={
            "file_smaller": _saved(with_dedup.file_bytes, without.file_bytes),
            "context_tokens_fewer": _saved(sum(with_dedup.whole), sum(without.whole)),
            "prompt_tokens_fewer_than_file": _saved(
                sum(with_dedup.shown) / len(PLACES), with_dedup.file_tokens
            ),
        },
        figures={
            "entries_with_dedup": float(with_dedup.entries),
            "entries_without": float(without.entries),
            "file_tokens": float(with_dedup.file_tokens),
            "prompt_tokens_mean": sum(with_dedup.shown) / len(PLACES),
            "prompt_tokens_max": float(max(with_dedup.shown)),
            "turns_looked_at": counts.triggered / counts.turns,
            "places_with_memories": sum(one > 0 for one in with_dedup.shown) / len(PLACES),
        },
    ).give(options.out)


async def _extracted() -> tuple[ExtractionCounts, list[Remember]]:
    """Return the counts and events that `memsieve extract` takes from the game."""
    extraction, source = Extraction(settings.load({}).extraction, Notes()), FileSource(str(TURNS))
    counts, events = ExtractionCounts(), list[Remember]()
    for line in source.lines(None):
        taken = await extraction.take(source, line)
        counts.add(taken)
        events += taken.events
    return counts, events


async def _kept(policy: Policy, events: Sequence[Remember], embedder: Embedder) -> Kept:
    with tempfile.TemporaryDirectory() as directory:
        store, file = Path(directory) / "store", Path(directory) / "Memories.md"
        sinks = {"memories_md": file, "memories_md_world": WORLD}
        chosen = settings.load({"store": store, "sinks": sinks})
        async with embedded(chosen, policy, embedder, lambda _: None) as pipeline:
            await pipeline.recover()
            await pipeline.take(events)
        async with recalling(LogTarget.of_store(chosen)) as recaller:
            whole = [await _tokens(recaller, place, **_ALL) for place in PLACES]
            shown = [await _tokens(recaller, place) for place in PLACES]
        text = file.read_text("utf-8")
        count = wiring.token_counter(chosen.embedder, print)
        return Kept(len(text.encode()), count(text), text.count("\n**["), whole, shown)


async def _tokens(recaller: Recaller, place: int, **limits: int) -> int:
    """Return the tokens of a place's block, with recall's default limits or others; 0 if empty."""
    asked = RecallRequest.model_validate({"scope": f"{WORLD}/{place}", **limits})
    block = await recaller.recall(asked)
    return block.tokens if block.recalled else 0


def _saved(less: float, more: float) -> Spread:
    return Spread.of([1 - less / more])


def _options() -> argparse.Namespace:
    return arguments(__doc__, rounds=None).parse_args()


if __name__ == "__main__":
    main()
