"""Builds the judge, from the training material to the packaged files.

    python -m training.relations DATA STATE OUT [--pairs 400000]

Builds `words.npz` and `trees.onnx`; trains the cross-encoder, or resumes if STATE holds a stopped
run; writes it as `alone.onnx` and `together.onnx`, and fits `decision.json`. Collected pairs and
trees that exist are not built again. The default embedding model must be installed.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the built-in judge.")
    parser.add_argument("data", type=Path, help="the folder of sets that may be used")
    parser.add_argument("state", type=Path, help="where the run is kept")
    parser.add_argument("out", type=Path, help="where the files go")
    parser.add_argument("--pairs", type=int, default=400_000, help="pairs to read in all")
    given = parser.parse_args()
    collected = given.state / "collected.jsonl"
    given.state.mkdir(parents=True, exist_ok=True)
    if not collected.exists():
        _run("training.pairs", given.data, collected)
    shared = ("--collected", collected)
    if not (given.out / "trees.onnx").exists():
        _run("training.trees", given.data, given.out, *shared)
    _run("training.relations.train", given.data, given.state, "--pairs", given.pairs, *shared)
    _run("training.relations.export", given.state, given.out)
    _run("training.relations.weighing", given.data, given.state, given.out, *shared)


def _run(module: str, *arguments: object) -> None:
    subprocess.run([sys.executable, "-m", module, *map(str, arguments)], check=True)  # noqa: S603 - our own modules


if __name__ == "__main__":
    main()
