"""Play schedules from the command line: many, until one goes wrong, or one, told step by step.

Usage: python -m tests.simulation [--seconds N | --runs N] [--seed S] [--without LEG] [--harder]
       python -m tests.simulation --seed S
"""

import argparse
import os
import sys
import time
from collections import Counter

from tests.simulation.legs import LEGS
from tests.simulation.play import Played, play

_PROGRESS_SECONDS = 10.0


def main() -> int:
    options = _options()
    if options.runs is None and options.seconds is None:
        return _tell(options)
    return _many(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first, or only, seed; else drawn")
    parser.add_argument("--runs", type=int, help="play so many")
    parser.add_argument("--seconds", type=float, help="play for so long")
    parser.add_argument("--without", choices=LEGS, help="without this protection")
    parser.add_argument("--harder", action="store_true", help="with more that goes wrong")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(4))
        if options.runs is None and options.seconds is None:
            options.runs = 1_000
    return options


def _tell(options: argparse.Namespace) -> int:
    played = _play(options, options.seed)
    _say("\n".join(played.story))
    _say(played.wrong or f"all is well: {_listed(played.kinds)}")
    return 1 if played.wrong else 0


def _many(options: argparse.Namespace) -> int:
    """Play one seed after the other; stop at the first that goes wrong."""
    happened, kinds = Counter[str](), Counter[str]()
    began = told = time.monotonic()
    seed, last = options.seed, options.seed + (options.runs or sys.maxsize)
    _say(f"from seed {seed}")
    while seed < last and time.monotonic() - began < (options.seconds or float("inf")):
        played = _play(options, seed)
        if played.wrong:
            _say(f"seed {seed}: {played.wrong}\n{_again(options, seed)}")
            return 1
        happened += played.happened
        kinds += played.kinds
        seed += 1
        if time.monotonic() - told >= _PROGRESS_SECONDS:
            told = time.monotonic()
            _say(f"{seed - options.seed:,} schedules in {told - began:.0f} s")
    rate = (seed - options.seed) / (time.monotonic() - began)
    _say(f"{seed - options.seed:,} schedules, {rate:.0f} a second: all is well")
    _say(f"decisions: {_listed(kinds)}\ntroubles: {_listed(happened)}")
    return 0


def _play(options: argparse.Namespace, seed: int) -> Played:
    leg = None if options.without is None else LEGS[options.without]
    try:
        return play(seed, leg=leg, harder=options.harder)
    except Exception:
        _say(f"seed {seed} cannot be played to its end\n{_again(options, seed)}")
        raise


def _again(options: argparse.Namespace, seed: int) -> str:
    without = "" if options.without is None else f" --without {options.without}"
    harder = " --harder" if options.harder else ""
    return f"the story: python -m tests.simulation --seed {seed}{without}{harder}"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in counts.most_common())


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


sys.exit(main())
