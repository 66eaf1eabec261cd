"""A Memories.md of many entries: read, written, kept in step, recalled from, and cleaned.

Usage: python benchmarks/stores/memories_md.py [--rounds N] [--out FILE]

Generated entries with all that a header can hold, nine to a location, two lines of text each: 1,000
to read, to write and to recall from, 1,500 for the writer that keeps the file. Each figure is the
median of 20 within its round, in milliseconds of the processor, which others disturb less; what
waiting for the disk adds is in the wall's figure. Read: `parse`. Written: one entry changed,
rendered, and the file replaced with its backup. Kept: the writer's sink given one changed memory.
Recalled: the block for a prompt out of a scope of 1,000 memories without a query, with the model's
own tokenizer. Each is told as a ratio to markdown-it-py reading the first file as Markdown.
Cleaned: `memsieve dedupe` with its real model over files of 1,000 and of 3,000 entries in one
location, a tenth of them repeats, once, by the wall; the ratio is of one entry's processor time.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

from markdown_it import MarkdownIt

from benchmarks.harness.deciding import POLICY, START, Deciding, event
from benchmarks.harness.measuring import (
    Cost,
    Result,
    Rounds,
    Spread,
    Watch,
    arguments,
    in_turn,
    ratio,
)
from benchmarks.harness.vectors import Given
from schemas.base import EventId, Position, ScopeName
from schemas.memories import Memory, Turns
from schemas.outcomes import Applied
from schemas.topics import TOPICS
from streams.index.exact import ExactIndex
from streams.log.local_broker import LocalBroker
from streams.main.collector import search_seldom
from streams.memories_md.app import cleaning
from streams.memories_md.core.editing import add_entry, replace_text
from streams.memories_md.core.entries import Document, entries
from streams.memories_md.core.mapping import entry_parts
from streams.memories_md.core.parsing import parse
from streams.memories_md.core.rendering import render
from streams.memories_md.world.file import MemoriesFile
from streams.memories_md.world.sink import MemoriesMdSink
from streams.model.fences import ReadPosition
from streams.model.identity import content_key, decision_id, memory_id
from streams.recall.app.recalling import Recaller, RecallRequest
from streams.stage.flow.decisions import INDEXED
from streams.store.app import settings, wiring
from streams.store.app.dry_run import means

_ENTRIES = 1_000
_KEPT = 1_500
_CLEANED = (1_000, 3_000)
_TIMES = 20
_IN_A_LOCATION = 9
_REPEATED = 10
"""One in this many entries of a file to be cleaned repeats an earlier one."""

_CATEGORIES = ("SUCCESS", "FAILURE", "DISCOVERY", "DANGER", "NOTE")
_THINGS = ("lamp", "stair", "rope", "ladder", "ferry", "crate", "lantern", "bridge", "kettle")
_PLACES = ("by the harbour", "under the roof", "behind the shed", "near the well", "in the tower")
_DOES = ("burns", "breaks", "hangs low", "leaks", "rattles", "floats", "creaks", "shines")


def main() -> None:
    options = arguments(__doc__, rounds=5).parse_args()
    search_seldom()
    text = render(_file(_ENTRIES))
    with tempfile.TemporaryDirectory() as directory, closing(asyncio.new_event_loop()) as loop:
        kept = _Kept(loop, Path(directory) / "Kept.md")
        recalled = _Recalled(loop, Path(directory) / "log.sqlite3")
        written = MemoriesFile(Path(directory) / "Written.md")
        contestants: dict[str, Callable[[], float]] = {
            "parse": partial(_median_ms, partial(parse, text)),
            "markdown-it": partial(_median_ms, partial(MarkdownIt().parse, text), times=1),
            "write": partial(_median_ms, _writing(written, text)),
            "sink": kept.write,
            "recall": partial(_median_ms, recalled.recall),
        }
        rounds = in_turn(options.rounds, contestants, warm=True)
        few, many = (_cleaned(loop, count) for count in _CLEANED)
    rounds["sink, by the wall"] = kept.walls[1:]
    Result(
        benchmark="memories-md",
        method=str(__doc__),
        material={"entries": _ENTRIES, "bytes": len(text.encode()), "kept": _KEPT},
        ratios={
            **{
                f"{name}_over_markdown_it": ratio(rounds[name], rounds["markdown-it"], "lower")
                for name in ("parse", "write", "sink", "recall")
            },
            "clean_an_entry_of_3000_over_1000": ratio(
                [many.cpu / _CLEANED[1]], [few.cpu / _CLEANED[0]], "lower"
            ),
        },
        figures={
            "parse_ms": _spread(rounds, "parse"),
            "write_ms": _spread(rounds, "write"),
            "sink_ms": _spread(rounds, "sink"),
            "sink_wall_ms": _spread(rounds, "sink, by the wall"),
            "recall_ms": _spread(rounds, "recall"),
            "clean_3000_seconds": many.wall,
        },
        rounds=rounds,
        packages=("markdown-it-py", "onnxruntime"),
    ).give(options.out)


def _spread(rounds: Rounds, name: str) -> Spread:
    return Spread.of(rounds[name], "lower")


def _median_ms(work: Callable[[], object], *, times: int = _TIMES) -> float:
    return statistics.median(_ms(work) for _ in range(times))


def _ms(work: Callable[[], object]) -> float:
    watch = Watch()
    work()
    return watch.lap().cpu * 1e3


def _writing(file: MemoriesFile, text: str) -> Callable[[], object]:
    """Return a function that changes one entry of a file on disk, parsed beforehand."""
    document, numbers = parse(text), iter(range(1_000_000))
    at = next(entries(document)).at

    def write() -> bool:
        changed = replace_text(document, at, f"Version {next(numbers)}.")
        with file.held():
            return file.rewrite(lambda _: render(changed))

    return write


class _Kept:
    """A file that a writer's sink maintains."""

    def __init__(self, loop: asyncio.AbstractEventLoop, path: Path) -> None:
        self._loop = loop
        self._path = path
        self._sink = MemoriesMdSink(path, "bench", print)
        self._reached = 0
        self.walls: list[float] = []
        self._follow([_applied(number, 1) for number in range(_KEPT)])

    def write(self) -> float:
        """Apply one changed memory to the file, repeatedly; return the median CPU milliseconds."""
        started = time.perf_counter()
        spent = _median_ms(
            lambda: self._follow([_applied(self._reached * 31 % _KEPT, self._reached + 1)])
        )
        self.walls.append((time.perf_counter() - started) / _TIMES * 1e3)
        return spent

    def _follow(self, changes: list[Applied]) -> None:
        self._reached += 1
        self._loop.run_until_complete(self._sink.write(0, changes, ReadPosition(self._reached)))


class _Recalled:
    """A scope of memories in a log, for recall."""

    def __init__(self, loop: asyncio.AbstractEventLoop, path: Path) -> None:
        self._loop = loop
        count = wiring.token_counter(settings.load({}).embedder, print)
        index, embedder = ExactIndex(), Given({})
        log = LocalBroker(path, indexed=INDEXED)
        for topic in TOPICS:
            log.create(topic.name, 1)
        deciding = Deciding(log, index, index, embedder)
        said = [event(n, "bench/1", _line(n)) for n in range(_ENTRIES)]
        loop.run_until_complete(deciding.publish(said))
        loop.run_until_complete(deciding.work())
        self._recaller = Recaller(log, lambda: embedder, count)
        self._asked = RecallRequest(scope=ScopeName("bench/1"))

    def recall(self) -> object:
        return self._loop.run_until_complete(self._recaller.recall(self._asked))


def _cleaned(loop: asyncio.AbstractEventLoop, count: int) -> Cost:
    """Clean a file with one location; return the cost."""
    watch = Watch()
    loop.run_until_complete(_clean(_in_one_location(count)))
    return watch.lap()


async def _clean(document: Document) -> None:
    chosen = settings.load({})
    async with means(chosen, print) as given:
        await cleaning.clean(document, POLICY, given, world="bench")


def _file(count: int) -> Document:
    """Return a file of distinct entries."""
    document = parse("")
    for number in range(count):
        location, header, meta, text = entry_parts(_memory(number, 1))
        document = add_entry(document, location, header, text, meta)
    return document


def _in_one_location(count: int) -> Document:
    lines = ["## Location 1: Hall", "", "### Memories", ""]
    for number in range(count):
        told = number // 2 if number % _REPEATED == _REPEATED - 1 else number
        lines += [f"**[NOTE] Item {number}** *(Ep1, T{number})*", _line(told), ""]
    return parse("\n".join(lines))


def _line(number: int) -> str:
    thing, place = _THINGS[number % 9], _PLACES[number // 9 % 5]
    does, other = _DOES[number // 45 % 8], _THINGS[number // 7 % 9]
    return f"The {thing} {place} {does} after {number} minutes. Bring {number % 37} {other}s."


def _applied(number: int, version: int) -> Applied:
    """Return the change by which a decision sets a memory of the maintained file."""
    memory = _memory(number, version)
    return Applied(
        memory_id=memory.id,
        memory=memory,
        decision_id=decision_id(memory.scope, EventId(f"event-{number}-{version}")),
        decided=Position(topic="memory.decisions", partition=0, offset=version),
    )


def _memory(number: int, version: int) -> Memory:
    place, scope = number // _IN_A_LOCATION, ScopeName(f"bench/{number // _IN_A_LOCATION}")
    text = f"{_line(number)}\nIt was told {version} times, and the outer wall holds in any weather."
    return Memory(
        id=memory_id(decision_id(scope, EventId(f"event-{number}"))),
        scope=scope,
        text=text,
        content_key=content_key(scope, text),
        version=version,
        title=f"The {_THINGS[number % 9]} of place {number}",
        category=_CATEGORIES[number % 5],
        turns=Turns(first=number % 90, last=number % 90 + 20),
        sessions=("1", "2"),
        observation_count=version + 1,
        created_at=START,
        last_seen_at=START + timedelta(hours=number),
        metadata={
            "location_name": f"Place {place}",
            "score": number % 11 - 5,
            "goal": "Find help, food (or both) - soon",
        },
    )


if __name__ == "__main__":
    main()
