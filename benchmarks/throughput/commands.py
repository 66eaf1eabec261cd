"""How long a command takes that does next to nothing: `--version`, and a search in a small store.

Usage: python benchmarks/throughput/commands.py [--rounds N] [--out FILE]

Each is a process of its own, from its start to its end, the model's and libraries' files already
read once. The store holds a hundred memories in one scope; the search encodes its question, and
judges which of what it finds is one fact.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness.material import Event, Texts, short_texts, write
from benchmarks.harness.measuring import Result, Rounds, Spread, Watch, arguments, in_turn

_VERSION, _SEARCH = "--version", "search"
_MEMORIES, _SCOPE = 100, "bench/one"


def main() -> None:
    options = arguments(__doc__, rounds=7).parse_args()
    with tempfile.TemporaryDirectory() as directory:
        store = Path(directory) / "store"
        material = short_texts(limit=_MEMORIES)
        events = [Event(_SCOPE, text) for text in material.texts]
        file = write(Path(directory) / "memories.jsonl", events)
        _memsieve("run", str(file), "--store", str(store))
        rounds = in_turn(options.rounds, _commands(store), warm=True)
    _result(rounds, material).give(options.out)


def _commands(store: Path) -> dict[str, Callable[[], float]]:
    return {
        _VERSION: lambda: _memsieve("--version"),
        _SEARCH: lambda: _memsieve("search", "Who likes music?", "--store", str(store)),
    }


def _memsieve(*words: str) -> float:
    """Run a command; return its seconds."""
    watch = Watch()
    command = str(Path(sys.executable).with_name("memsieve"))
    subprocess.run([command, *words], check=True, capture_output=True)  # noqa: S603 - ours
    return watch.lap().wall


def _result(rounds: Rounds, material: Texts) -> Result:
    return Result(
        benchmark="commands",
        method=str(__doc__),
        material=material.about(),
        figures={
            "version_seconds": Spread.of(rounds[_VERSION], "lower"),
            "search_seconds": Spread.of(rounds[_SEARCH], "lower"),
        },
        rounds=rounds,
        packages=("fastembed", "onnxruntime", "typer"),
    )


if __name__ == "__main__":
    main()
