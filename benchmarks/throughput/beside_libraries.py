"""memsieve beside libraries that take vectors as well, each with the same texts and vectors given.

Usage: python benchmarks/throughput/beside_libraries.py [--install] [--events N] [--rounds N] [--out FILE]

The vectors are the default model's, made beforehand. `memsieve run` decides on the events and keeps
log, index and evidence; mem0 adds each without inference, with and without a search before;
SemHash takes all of them as one batch. Every contestant keeps to one core, the same for all; each
peer is a process in the environment `.bench-peers`, which --install makes, and starts every round
with an empty store, opened before. Rates are per second of the processor; a first round of each
counts for nothing. They do different things: mem0's `add` finds
no duplicate, and SemHash knows no scopes and keeps nothing.
"""

import argparse
import json
import os
import subprocess
import tempfile
import venv
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, cast

import numpy as np

from benchmarks.harness.in_process import recorded, run
from benchmarks.harness.material import Texts, in_scopes, short_texts, write
from benchmarks.harness.measuring import Result, Rounds, arguments, in_turn, on_one_core, ratio
from benchmarks.harness.vectors import Given

PEERS = Path(__file__).parents[1] / "peers"
ENVIRONMENT = Path(__file__).parents[2] / ".bench-peers"
_COMMANDS = {
    "mem0 add": ("mem0_add.py",),
    "mem0 search, add": ("mem0_add.py", "--search"),
    "semhash": ("semhash_batch.py",),
}
_MEMSIEVE = "memsieve run"


def main() -> None:
    options = _options()
    if options.install:
        _install()
    if not _python().exists():
        print("skipped, mem0 and semhash are not here: add --install, or `make bench-full`")
        return
    material = short_texts(limit=options.events)
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        file = write(Path(directory) / "events.jsonl", in_scopes(material.texts))
        made = recorded(file)
        np.save(Path(directory) / "vectors.npy", np.stack([made[text] for text in material.texts]))
        on_one_core()
        peers = {
            name: stack.enter_context(_started(command, Path(directory)))
            for name, command in _COMMANDS.items()
        }
        timed = _Timed(len(material.texts), peers)
        memsieve = {_MEMSIEVE: lambda: timed.ours(Given(made), file)}
        rounds = in_turn(options.rounds, {**memsieve, **timed.theirs()}, warm=True)
    print(f"texts kept: {timed.kept}")
    _result(material, timed.kept, rounds).give(options.out)


class _Timed:
    """The contestants' rates per second of CPU time; `kept` is how many texts each keeps."""

    def __init__(self, count: int, peers: "Mapping[str, _Peer]") -> None:
        self._count = count
        self._peers = peers
        self.kept: dict[str, int] = {}

    def ours(self, given: Given, file: Path) -> float:
        return self._count / run(given, file).working.cpu

    def theirs(self) -> dict[str, Callable[[], float]]:
        return {name: partial(self._round, name) for name in self._peers}

    def _round(self, name: str) -> float:
        seconds, self.kept[name] = self._peers[name]()
        return self._count / seconds


def _result(material: Texts, kept: dict[str, int], rounds: Rounds) -> Result:
    named = {name: name.replace(",", "").replace(" ", "_") for name in _COMMANDS}
    return Result(
        benchmark="libraries",
        method=str(__doc__),
        material={**material.about(), "kept": kept, "peers": _versions()},
        ratios={
            f"run_over_{short}": ratio(rounds[_MEMSIEVE], rounds[name])
            for name, short in named.items()
        },
        rounds=rounds,
        packages=("qdrant-edge-py",),
    )


_Peer = Callable[[], tuple[float, int]]
"""Does a round; returns its CPU seconds, and how many texts are kept."""


@contextmanager
def _started(command: tuple[str, ...], directory: Path) -> Generator[_Peer]:
    script, *flags = command
    with subprocess.Popen(  # noqa: S603 - our own script
        [str(_python()), str(PEERS / script), str(directory), *flags],
        env={**os.environ, "TMPDIR": str(directory)},  # noqa: TID251 - its stores go with ours
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        told, answers = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)

        def round_() -> tuple[float, int]:
            told.write("round\n")
            told.flush()
            answer = json.loads(answers.readline() or f'"{script} has ended"')
            return answer["cpu"], answer["kept"]

        yield round_
        told.close()


def _python() -> Path:
    return ENVIRONMENT / "bin/python"


def _install() -> None:
    if not _python().exists():
        venv.create(ENVIRONMENT, with_pip=True)
    requirements = str(PEERS / "requirements.txt")
    pip = [str(_python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--requirement", requirements], check=True)  # noqa: S603 - pip


def _versions() -> list[str]:
    lines = (PEERS / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(("mem0ai", "semhash", "qdrant-client"))]


def _options() -> argparse.Namespace:
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--install", action="store_true", help="make their environment first")
    parser.add_argument("--events", type=int, default=1_000)
    return parser.parse_args()


if __name__ == "__main__":
    main()
