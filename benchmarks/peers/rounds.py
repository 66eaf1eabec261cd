"""A peer as a process: it loads texts and their vectors, and does a round for each input line.

Runs in a separate environment without memsieve, so it needs only numpy.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Given(NamedTuple):
    """The input of all peers: events in order, with the unit vector of each text."""

    scopes: list[str]
    texts: list[str]
    vectors: NDArray[np.float32]


def serve(work: Callable[[Given], Callable[[], int]]) -> None:
    """Do rounds until standard input ends.

    The first command-line argument is the directory with events.jsonl and vectors.npy. `work`
    prepares a round with an empty store, untimed; the function it returns does the round and
    returns how many texts are kept.
    """
    directory = Path(sys.argv[1])
    with (directory / "events.jsonl").open(encoding="utf-8") as lines:
        rows: Sequence[dict[str, Any]] = [json.loads(line) for line in lines]
    vectors: NDArray[np.float32] = np.load(directory / "vectors.npy")
    given = Given([row["scope"] for row in rows], [row["text"] for row in rows], vectors)
    for _ in sys.stdin:
        do = work(given)
        started, busy = time.perf_counter(), time.process_time()
        kept = do()
        wall, cpu = time.perf_counter() - started, time.process_time() - busy
        print(json.dumps({"wall": wall, "cpu": cpu, "kept": kept}), flush=True)
