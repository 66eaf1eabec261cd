"""What the benchmarks share: interleaved rounds, their spread, the machine, and the JSON result.

A ratio is taken within a round, between figures measured one after the other, and reported as the
median of the rounds with minimum and maximum: what slows the machine slows both sides.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any, Literal, Self, TypeAlias

from streams.clock.system import SystemClock

RESULTS = Path(__file__).parents[1] / "results"
"""The folder of committed results, NAME-DATE.json."""

_INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
_DIGITS = 4
_SAMPLE_SECONDS = 0.001
_CODE = ("streams.", "schemas.")


Better: TypeAlias = Literal["higher", "lower"]
"""The direction of improvement."""


@dataclass(frozen=True)
class Spread:
    """The median, minimum and maximum of some figures."""

    median: float
    low: float
    high: float
    better: Better = "higher"

    @classmethod
    def of(cls, values: Sequence[float], better: Better = "higher") -> Self:
        return cls(statistics.median(values), min(values), max(values), better)

    def __str__(self) -> str:
        return f"{_shown(self.median)} [{_shown(self.low)} to {_shown(self.high)}]"

    def as_json(self) -> dict[str, object]:
        return {
            "median": _rounded(self.median),
            "min": _rounded(self.low),
            "max": _rounded(self.high),
            "better": self.better,
        }


@dataclass(frozen=True)
class Cost:
    """The cost of some work: seconds of wall time, and of CPU time over all threads."""

    wall: float
    cpu: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.wall + other.wall, self.cpu + other.cpu)


class Watch:
    """A stopwatch: `lap` returns the cost since its creation or the last lap."""

    def __init__(self) -> None:
        self._at = self._now()

    def lap(self) -> Cost:
        before, self._at = self._at, self._now()
        return Cost(self._at.wall - before.wall, self._at.cpu - before.cpu)

    @staticmethod
    def _now() -> Cost:
        return Cost(time.perf_counter(), time.process_time())


def rate(count: int, work: Callable[[], object]) -> float:
    """Do the work; return `count` per second of wall time."""
    watch = Watch()
    work()
    return count / watch.lap().wall


Rounds = dict[str, list[float]]
"""Each contestant's figures, round by round."""


def in_turn(
    rounds: int, contestants: Mapping[str, Callable[[], float]], *, warm: bool = False
) -> Rounds:
    """Run every contestant once per round, in reverse order in every other round.

    Each returns its figure, which is printed. `warm` adds an initial round that does not count,
    because some contestants load lazily.
    """
    figures: Rounds = {name: [] for name in contestants}
    for contestant in contestants.values() if warm else ():
        contestant()
    print("".join(f"{name:>24}" for name in contestants))
    for number in range(rounds):
        names = list(contestants)
        for name in reversed(names) if number % 2 else names:
            figures[name].append(contestants[name]())
        print("".join(f"{_shown(figures[name][-1]):>24}" for name in names), flush=True)
    return figures


def ratio(upper: Sequence[float], lower: Sequence[float], better: Better = "higher") -> Spread:
    """Return the spread of the ratios of the rounds."""
    return Spread.of([a / b for a, b in zip(upper, lower, strict=True)], better)


@dataclass(frozen=True)
class Result:
    """The result of a benchmark.

    `ratios` compare measurements within this run; `figures` are absolute and depend as much on the
    machine. `rounds` holds every single figure behind them, `material` describes the input.
    """

    benchmark: str
    method: str
    material: Mapping[str, object]
    ratios: Mapping[str, Spread] = field(default_factory=dict[str, Spread])
    figures: Mapping[str, "Spread | float"] = field(default_factory=dict[str, "Spread | float"])
    rounds: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])
    packages: Sequence[str] = ()

    def give(self, out: Path | None) -> None:
        """Print the result, and write it to `out` if given."""
        for name, value in {**self.ratios, **self.figures}.items():
            shown = value if isinstance(value, Spread) else _shown(value)
            print(f"{name.replace('_', ' ')}: {shown}")
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(self._as_json(), indent=2) + "\n", encoding="utf-8")

    def _as_json(self) -> dict[str, object]:
        return {
            "benchmark": self.benchmark,
            "method": " ".join(self.method.split()),
            **about(self.packages),
            "material": dict(self.material),
            "ratios": {name: spread.as_json() for name, spread in self.ratios.items()},
            "figures": {name: _figure(value) for name, value in self.figures.items()},
            "rounds": {name: [_rounded(v) for v in values] for name, values in self.rounds.items()},
        }


def about(packages: Sequence[str]) -> dict[str, object]:
    """Return the date, the machine (without its name) and the versions."""
    return {
        "date": SystemClock().now().date().isoformat(),
        "machine": {
            "processor": platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "instructions": _instructions(),
            "load_average": round(os.getloadavg()[0], 1),
            "shared": True,
        },
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("memsieve", *packages)},
        },
    }


def arguments(doc: str | None, *, rounds: int | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark; `rounds` None omits --rounds."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON")
    return parser


def on_one_core() -> None:
    """Pin every thread of this process, and what it starts, to one core."""
    core = max(os.sched_getaffinity(0))
    for task in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})


@contextmanager
def sampled(modules: Counter[str]) -> Generator[None]:
    """Sample the working module, up to 1,000 times per second of CPU time.

    A library's work counts for the module that called it. Only the main thread is examined: other
    threads count as "elsewhere". It costs a few per cent, so do not measure anything else meanwhile.
    """

    def note(_signal: int, frame: FrameType | None) -> None:
        while frame is not None:
            name = str(frame.f_globals.get("__name__", ""))
            if name.startswith(_CODE):
                modules[name] += 1
                return
            frame = frame.f_back
        modules["elsewhere"] += 1

    before = signal.signal(signal.SIGPROF, note)
    signal.siginterrupt(signal.SIGPROF, False)  # noqa: FBT003 - the argument is positional-only
    signal.setitimer(signal.ITIMER_PROF, _SAMPLE_SECONDS, _SAMPLE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def resident() -> dict[str, int]:
    """Return this process's resident memory in bytes: all, anonymous, and of mapped files."""
    fields: dict[str, Any] = dict(
        line.split(":", 1)
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    )
    return {
        name: int(str(fields[key]).split()[0]) * 1_024
        for name, key in (("all", "VmRSS"), ("own", "RssAnon"), ("mapped", "RssFile"))
    }


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile of the values for a share between 0 and 1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def _instructions() -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return [name for name in _INSTRUCTIONS if name in flags]


def _figure(value: "Spread | float") -> object:
    return value.as_json() if isinstance(value, Spread) else _rounded(value)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits
