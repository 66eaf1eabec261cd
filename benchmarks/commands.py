"""How long a command takes that does next to nothing: `--version`, and a search in a small store.

Usage: python benchmarks/commands.py [--rounds N] [--out FILE]

Each is a process of its own, from its start to its end, the model's and libraries' files already
read once. The store holds a hundred memories in one scope, and the search encodes its question.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.material import facts, write
from benchmarks.measuring import Result, Rounds, Spread, Watch, arguments, in_turn

_VERSION, _SEARCH = "--version", "search"
_MEMORIES = 100


def main() -> None:
    options = arguments(__doc__, rounds=7).parse_args()
    with tempfile.TemporaryDirectory() as directory:
        store = Path(directory) / "store"
        file = write(Path(directory) / "facts.jsonl", facts(_MEMORIES, scopes=1))
        _memsieve("run", str(file), "--store", str(store))
        rounds = in_turn(options.rounds, _commands(store), warm=True)
    _result(rounds).give(options.out)


def _commands(store: Path) -> dict[str, Callable[[], float]]:
    return {
        _VERSION: lambda: _memsieve("--version"),
        _SEARCH: lambda: _memsieve("search", "Which gate?", "--store", str(store)),
    }


def _memsieve(*words: str) -> float:
    """Run a command; return its seconds."""
    watch = Watch()
    command = str(Path(sys.executable).with_name("memsieve"))
    subprocess.run([command, *words], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ours
    return watch.lap().wall


def _result(rounds: Rounds) -> Result:
    return Result(
        benchmark="commands",
        method=str(__doc__),
        material={"memories": _MEMORIES},
        figures={
            "version_seconds": Spread.of(rounds[_VERSION], "lower"),
            "search_seconds": Spread.of(rounds[_SEARCH], "lower"),
        },
        rounds=rounds,
        packages=("fastembed", "onnxruntime", "typer"),
    )


if __name__ == "__main__":
    main()
