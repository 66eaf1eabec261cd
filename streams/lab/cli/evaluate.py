"""`memsieve policy evaluate`: how well a policy decides on labelled rows."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from streams.lab.app import labelled
from streams.lab.app.evaluated import EvaluatedRow, Evaluation, measured
from streams.lab.app.evaluation import evaluate as evaluated
from streams.lab.app.labelled import LabelledRows
from streams.lab.core.grading import APART, ONE_FACT
from streams.lab.core.measures import Proportion
from streams.model.policy import Policy
from streams.store.app import policies
from streams.store.app.dry_run import means
from streams.store.app.settings import Settings
from streams.store.cli import options, rows
from streams.store.cli.console import note, say, say_object
from streams.store.cli.progress import Meter
from streams.store.core.counts import number
from streams.store.world.extras import require

_NAMES = {
    "found_rate": "found",
    "hidden_rate": "hidden",
    "kept_twice_rate": "kept twice",
    "lost_rate": "lost",
    "superseded_rate": "superseded by rule",
    "displaced_rate": "displaced by rule",
    "guard_veto_rate": "duplicates vetoed by guards",
    "review_rate": "asked a person",
}


def evaluate(
    files: rows.Files,
    *,
    policy: options.Policy = None,
    model: options.Model = None,
    html: Annotated[
        Path | None, options.output("--html", "Write an HTML report, in one file.")
    ] = None,
    rows_to: Annotated[
        Path | None,
        options.output("--rows", "Write each row with its decision, as lines of JSON."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Read at most this many rows per file.")
    ] = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure a policy on labelled rows, compared with a cosine threshold.

    A row is a pair: a (new) and b (stored), texts or events, with a label: 1 (the same fact), 0
    (two facts), null (skipped), or same, refines, refined-by, contradicts, distinct. Or a row
    belongs to a stream: it has a text and a cluster, and the rows of a cluster state one fact. set
    and kind group the rows. Everything is decided as by `run`, in memory.
    """
    settings = options.load(config, policy=policy, embedder__model=model)
    chosen = policies.configured(settings)
    if html is not None:
        require("lab", "--html")
    found = labelled.read(rows.sources(files), limit)
    tell_refused(found.refused)
    made = asyncio.run(_evaluate(found, chosen, settings))
    if rows_to is not None:
        lines = (json.dumps(row.as_json(), ensure_ascii=False) for row in made.rows)
        options.write("--rows", rows_to, "".join(f"{line}\n" for line in lines))
    if html is not None:
        from streams.lab.app import report  # noqa: PLC0415 - it needs an extra

        options.write("--html", html, report.page(made))
    if as_json:
        say_object(made.as_json())
    else:
        _show(made)
    _tell_what_is_missing(found)


def tell_refused(refused: Sequence[str], shown_max: int = 10) -> None:
    """Tell which rows are left out, and why: the first ones, and how many more there are."""
    for one in refused[:shown_max]:
        note(f"left out: {one}")
    if len(refused) > shown_max:
        note(f"and {len(refused) - shown_max:,} more rows were left out")


async def _evaluate(found: LabelledRows, policy: Policy, settings: Settings) -> Evaluation:
    total = len(found.pairs) + len(found.stream)
    async with means(settings, note) as given:
        with Meter("rows") as meter:
            return await evaluated(
                found,
                policy,
                given,
                done=lambda count: meter.advance(count, total),
            )


def _show(made: Evaluation) -> None:
    say(f"{made.policy} with {made.model}", style="bold")
    say(
        f"{number(made.read, 'row')} read, {len(made.rows):,} measured, {made.skipped:,} without a label"
        f"{f', {made.rejected:,} rejected' if made.rejected else ''}"
    )
    say()
    ours, cosine = measured(made.rows, "ours"), measured(made.rows, "cosine")
    say(f"{'':<28}{'decided so':>26}{f'cosine >= {made.threshold}':>26}", style="bold")
    for name, title in _NAMES.items():
        say(f"{title:<28}{_told(ours.rates[name])}{_told(cosine.rates[name])}")
    say(f"{f'AUC, {ours.auc_rows:,} scored rows':<28}{_number(ours.auc)}{_number(cosine.auc)}")
    for name in ("precision", "recall", "f1"):
        one, other = (_number(getattr(way.b3, name, None)) for way in (ours, cosine))
        say(f"{f'clusters, B3 {name}':<28}{one}{other}")
    if made.growth is not None:
        told = made.growth.as_json()
        say(
            f"{number(told['memories_before'], 'event')} became {number(told['memories_after'], 'memory', 'memories')}, in "
            f"{made.growth.seconds:,.1f} s ({told['duration']})"
        )
    _show_groups("set", made.by("set"))
    _show_groups("kind", made.by("kind"))


def _show_groups(name: str, groups: dict[str, list[EvaluatedRow]]) -> None:
    if not groups:
        return
    say()
    say(f"{f'by {name}':<28}{'rows':>8}{'found':>26}{'hidden':>26}", style="bold")
    for group, members in groups.items():
        rates = measured(members, "ours").rates
        found, hidden = rates["found_rate"], rates["hidden_rate"]
        say(f"{group[:27]:<28}{len(members):>8,}{_told(found)}{_told(hidden)}")


def _told(one: Proportion) -> str:
    return f"{one.told(1) or '-':>26}"


def _number(value: float | None) -> str:
    return f"{'-' if value is None else f'{value:.3f}':>26}"


def _tell_what_is_missing(found: LabelledRows) -> None:
    """Say why a rate is missing, where the rows cannot give one."""
    truths = {pair.truth for pair in found.pairs}
    if not truths and not found.stream:
        note("no row has a label: there is nothing to measure, and every rate is null")
    elif truths and not truths & ONE_FACT:
        note("no row says what is known (1, same, refined-by): rates that need one are null")
    elif truths and not truths & APART:
        note("no row is two facts (0, distinct, contradicts): rates that need one are null")
