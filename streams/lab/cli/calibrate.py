"""`memsieve policy calibrate`: a policy fitted to labelled pairs, or to answered reviews."""

import asyncio
import hashlib
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from streams.clock.system import SystemClock
from streams.lab.app import calibrating, labelled
from streams.lab.app.calibrating import CalibrationResult
from streams.lab.app.labelled import LabelledPair, Unmeasurable
from streams.lab.cli.evaluate import tell_refused
from streams.lab.core.measures import Proportion
from streams.model.policy import Calibration, Policy
from streams.store.app import policies
from streams.store.app.dry_run import means
from streams.store.app.reading import LogTarget, read
from streams.store.app.settings import Settings
from streams.store.cli import options, rows
from streams.store.cli.console import note, say, say_object
from streams.store.cli.progress import Meter
from streams.store.core.toml import as_toml


def calibrate(
    source: Annotated[
        str, typer.Argument(metavar="PAIRS|STORE", help="Labelled pairs, or a store with answers.")
    ],
    *,
    hidden_rate: Annotated[
        float,
        typer.Option(
            "--hidden-rate",
            min=0.0001,
            max=calibrating.HIDDEN_RATE_MAX,
            help="Maximum rate of hidden facts.",
        ),
    ] = 0.01,
    name: Annotated[str, typer.Option("--name", help="The policy's name.")] = "calibrated",
    out: Annotated[
        Path | None, options.output("--out", "Write the policy here. [standard output]")
    ] = None,
    policy: options.Policy = None,
    model: options.Model = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Fit the thresholds of a policy to labelled rows.

    The thresholds are fitted on one half of the pairs, so that the upper end of the 95 % interval
    of hidden facts stays within the given rate; the result on the other half is printed too. All
    other rules are those of --policy.
    """
    settings = options.load(config, policy=policy, embedder__model=model)
    base = policies.load(settings.policy)
    pairs, dataset = _pairs(source, settings)
    command = shlex.join(["memsieve", *sys.argv[1:]])
    today = SystemClock().now().date().isoformat()
    origin = Calibration(dataset=dataset, date=today, command=command)
    made = asyncio.run(_calibrate(pairs, base, settings, name, hidden_rate, origin))
    written = as_toml(made.policy.model_dump(mode="json"), _comment(made, base.name, origin))
    if out is not None:
        options.write("--out", out, written)
    if as_json:
        say_object({**made.as_json(), "toml": written})
    elif out is None:
        sys.stdout.write(written)
    if not as_json:
        for line in _lines(made):
            (note if out is None else say)(line)


async def _calibrate(
    pairs: list[LabelledPair],
    base: Policy,
    settings: Settings,
    name: str,
    wanted: float,
    origin: Calibration,
) -> CalibrationResult:
    total = 2 * len(pairs)  # about: one half is judged twice
    async with means(settings, note) as given:
        with Meter("rows") as meter:
            return await calibrating.calibrate(
                pairs,
                base,
                given,
                name=name,
                wanted=wanted,
                origin=origin,
                done=lambda count: meter.advance(count, total),
            )


def _pairs(source: str, settings: Settings) -> tuple[list[LabelledPair], str]:
    """Return the labelled pairs, and what they are called: name, rows, hash."""
    if Path(source).is_dir():
        store = LogTarget.of_store(settings.model_copy(update={"store": Path(source)}))
        pairs = read(store, calibrating.answered)
        return pairs, _dataset(f"answered reviews of {Path(source).name}", pairs, None)
    found = labelled.read(rows.sources([source]))
    if found.stream:
        raise Unmeasurable(f"{source} is a stream: give labelled pairs (a, b, label)")
    tell_refused(found.refused)
    content = Path(source).read_bytes() if Path(source).is_file() else None
    return found.pairs, _dataset(Path(source).name, found.pairs, content)


def _dataset(name: str, pairs: list[LabelledPair], content: bytes | None) -> str:
    """Name what was fitted to; pairs that no file holds are hashed as they were read."""
    digest = calibrating.digest(pairs) if content is None else hashlib.sha256(content).hexdigest()
    return f"{name}, {len(pairs):,} rows, sha256 {digest}"


def _comment(made: CalibrationResult, base: str, origin: Calibration) -> list[str]:
    return [
        f"Fitted by `memsieve policy calibrate` on {origin.date} from the policy {base}; all other values",
        "are unchanged. With 95 % intervals (Wilson):",
        *_lines(made),
    ]


def _lines(made: CalibrationResult) -> list[str]:
    bands, judges = made.policy.bands, made.policy.judges
    return [
        f"bands: match {bands.match}, review {bands.review}, log {bands.log}",
        f"judges: one memory from {judges.one_memory_min}",
        *(
            f"{half}: facts hidden {_told(measures.rates['hidden_rate'])}, found "
            f"{_told(measures.rates['found_rate'])}"
            for half, measures in (
                ("the half that it was fitted to", made.fitted),
                ("the other half", made.other),
            )
        ),
    ]


def _told(one: Proportion) -> str:
    rate = one.told(2)
    return "of none" if rate is None else f"{rate} of {one.of:,}"
