"""`memsieve try`: how each preset decides on a file, and which one agrees with a person."""

import asyncio
import json
import shlex
import sys
import textwrap
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from streams.clock.system import SystemClock
from streams.lab.app import labelled, trying
from streams.lab.app.calibrating import ANSWERS_MIN
from streams.lab.app.evaluated import rate_json
from streams.lab.app.labelled import LabelledPair, Unmeasurable
from streams.lab.app.trying import TrialInput
from streams.lab.cli.evaluate import tell_refused
from streams.lab.core.measures import Proportion
from streams.lab.core.trial import (
    ComparedPair,
    Example,
    Fate,
    Trial,
    borderline,
    examples,
    not_told_apart,
    recommended,
)
from streams.model.policy import Policy
from streams.store.app import policies, wiring
from streams.store.app.dry_run import DecidingDependencies, means
from streams.store.app.settings import Settings
from streams.store.cli import asking, options, rows
from streams.store.cli.console import note, note_silent, quoted, say, say_object
from streams.store.cli.options import UsageError
from streams.store.cli.progress import Meter
from streams.store.core.counts import number

_LIMIT = 2_000
"""A minute or two on two cores, and enough rows to see what is typical."""
_QUESTIONS = 10
_EXAMPLES = 3
_SHOWN = 3
_TEXT_WIDTH = 160
_TITLES = {
    Fate.JOINED: "joined with what is known",
    Fate.REPLACED: "the newer replaces the older",
    Fate.IN_CONFLICT: "kept, in conflict with another",
}
_LEGEND = "joined: run would merge or reinforce them, one memory says both"
_LINKS = {
    Fate.JOINED: "with",
    Fate.REPLACED: "replaces",
    Fate.IN_CONFLICT: "contradicts",
}


def try_(
    files: rows.Files,
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            help="A policy to try; repeat for each. [careful, default, thorough, and yours]",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Stop after this many rows.")
    ] = _LIMIT,
    ask: Annotated[
        bool | None,
        typer.Option("--ask/--no-ask", help="Ask about ten borderline pairs. [on a terminal]"),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option("--answers", metavar="FILE", help="Labelled pairs with earlier answers."),
    ] = None,
    save_answers: Annotated[
        Path | None,
        options.output(
            "--save-answers",
            "Append the answers as labelled pairs, or without --ask the questions.",
        ),
    ] = None,
    model: options.Model = None,
    columns: rows.RowOptions,
    scope: rows.OneScope = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare the presets on a file, and find the one that suits you.

    Each policy decides on every row as `run` would in an empty store. Nothing is kept. You are then
    asked about the pairs nearest to a threshold; your answers are labelled pairs, which `policy
    evaluate` and `policy calibrate` read.
    """
    settings = options.load(config, embedder__model=model)
    names = list(dict.fromkeys(policy or (*trying.PRESETS, settings.policy)))
    chosen = {name: policies.load(name) for name in names}
    for one in chosen.values():
        policies.require_model(one, wiring.named_model(settings.embedder))
    asks = _asks(ask, files, as_json=as_json)
    given = [] if answers is None else _given(answers)
    opened = [(one.source, one.mapping) for one in columns.opened(files, scope)]
    taken = trying.take(opened, limit, SystemClock())
    _tell_what_was_read(taken, limit)
    with _deciding(settings) as deciding:
        tried = deciding.on_rows(taken, chosen)
        if not as_json:
            _show(tried)
        usual = settings.policy if settings.policy in chosen else names[0]
        answered = [(one.event.text, one.memory.text) for one in given]
        near = next(one.near for one in tried if one.name == usual)
        questions = borderline(near, answered, _QUESTIONS)
        labels = _ask(questions, save_answers) if asks else {}
        all_answers = [*given, *trying.labelled_pairs(labels)]
        agreed = deciding.on_answers(all_answers, chosen)
    if save_answers is not None and not asks:
        _append(save_answers, [trying.row_of(one, None) for one in questions])
        note(f"{save_answers}: {number(len(questions), 'question')} appended")
    fits = recommended(agreed, usual) if agreed else None
    made = _Made(tried, questions, labels, all_answers, agreed, fits)
    if as_json:
        say_object(_as_json(taken, made))
        return
    _advise(made, answers or save_answers)
    given_again = {
        "--text-field": columns.text_field,
        "--scope-field": columns.scope_field,
        "--id-field": columns.id_field,
        "--time-field": columns.time_field,
        "--scope": scope,
        "--format": columns.format_,
        "--model": model,
        "--policy": None if fits in {None, settings.policy} else fits,
    }
    say(f"nothing was kept; to keep the rows: {_run(files, given_again)}")


@dataclass(frozen=True)
class _Made:
    """What came of it: the trials, the questions, their answers, and who agrees with all answers.

    `answers` are those that were given before as well. `fits` is the policy that agrees with most.
    """

    tried: list[Trial]
    questions: list[ComparedPair]
    labels: dict[ComparedPair, str]
    answers: list[LabelledPair]
    agreed: dict[str, Proportion]
    fits: str | None


@dataclass(frozen=True)
class _Deciding:
    """Decides step by step. Between two steps nothing runs, so who is asked can interrupt."""

    runner: asyncio.Runner
    means: DecidingDependencies

    def on_rows(self, taken: TrialInput, chosen: Mapping[str, Policy]) -> list[Trial]:
        """Decide on the rows under each policy."""
        total = len(taken.events) * len(chosen)
        with Meter("decisions") as meter:
            return self.runner.run(
                trying.decided(
                    taken.events,
                    chosen,
                    self.means,
                    done=lambda count: meter.advance(count, total),
                )
            )

    def on_answers(
        self, answers: Sequence[LabelledPair], chosen: Mapping[str, Policy]
    ) -> dict[str, Proportion]:
        """Return how many answers each policy agrees with; nothing where there are none."""
        return {
            name: self.runner.run(trying.agreement(answers, one, self.means))
            for name, one in chosen.items()
            if answers
        }


@contextmanager
def _deciding(settings: Settings) -> Generator[_Deciding]:
    """Open the model and the judges."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            opened = runner.run(stack.enter_async_context(means(settings, note)))
            yield _Deciding(runner, opened.knowing())
        finally:
            runner.run(stack.aclose())


def _asks(wanted: bool | None, files: Sequence[str], *, as_json: bool) -> bool:  # noqa: FBT001 - typer's value
    """Return whether a person is asked; a terminal is taken for one."""
    if wanted and as_json:
        raise UsageError(
            "--ask and --json: nobody can be asked; --save-answers writes the questions"
        )
    if wanted and "-" in files:
        raise UsageError("--ask: standard input has the rows, and nobody can answer there")
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty() and "-" not in files and not as_json
    return at_terminal if wanted is None else wanted


def _given(path: Path) -> list[LabelledPair]:
    found = labelled.read(rows.sources([str(path)]))
    if found.stream:
        raise Unmeasurable(f"{path} is a stream: give labelled pairs (a, b, label)")
    tell_refused(found.refused, _SHOWN)
    return found.pairs


def _tell_what_was_read(taken: TrialInput, limit: int) -> None:
    """Say what is left out and why. Raises UsageError where no row can be used."""
    if taken.refused and not taken.events:
        raise UsageError(f"no row could be used, such as {taken.refused[0]}")
    if not taken.events:
        raise UsageError("there are no rows to try the policies on")
    tell_refused(taken.refused, _SHOWN)
    if taken.more:
        note(f"stopped after {limit:,} rows, and there are more: raise --limit", style="yellow")


def _show(tried: Sequence[Trial]) -> None:
    """Print what becomes of the rows under each policy, and examples."""
    others = any(one.skipped for one in tried)
    titles = [one.value.replace("_", " ") for one in Fate]
    titles += ["skipped"] if others else []
    say(_in_columns("of the rows", [*titles, "memories"]), style="bold")
    for one in tried:
        counts = [one.fates[fate] for fate in Fate]
        counts += [one.skipped] if others else []
        say(_in_columns(one.name, [f"{count:,}" for count in (*counts, one.memories)]))
        if one.braked:
            note(f"{one.name}: {one.braked:,} more are kept because the brake was on")
        note_silent(one.silent, f"{one.name}: ")
    say(_LEGEND, style="dim")
    for fate, title in _TITLES.items():
        found = examples(tried, fate)
        if found:
            say()
            say(title, style="bold")
        for one in found[:_EXAMPLES]:
            for line in _told(one, len(tried)):
                say(line)
        if len(found) > _EXAMPLES:
            say(f"  and {len(found) - _EXAMPLES:,} more: --json lists them")


def _in_columns(name: str, values: Sequence[str]) -> str:
    return f"{name:<16}{''.join(f'{value:>13}' for value in values)}"


def _told(one: Example, policies_: int) -> Iterator[str]:
    effect = one.effect
    under = "" if len(one.policies) == policies_ else f"  (only {', '.join(one.policies)})"
    yield f"  {quoted(effect.text, _TEXT_WIDTH)}{under}"
    link = "is older than" if effect.fate is Fate.REPLACED and effect.stands != effect.text else ""
    for other in effect.others:
        yield f"    {link or _LINKS[effect.fate]} {quoted(other, _TEXT_WIDTH)}"
    if effect.stands not in {effect.text, *effect.others}:
        yield f"    shown as {quoted(effect.stands, _TEXT_WIDTH)}"


def _ask(questions: Sequence[ComparedPair], saved: Path | None) -> dict[ComparedPair, str]:
    """Ask a person about one pair after the other; each answer is saved at once."""
    labels: dict[ComparedPair, str] = {}
    for at, one in enumerate(questions, start=1):
        say()
        say(f"{at} of {len(questions)}, scope {one.scope}", style="bold")
        for line in asking.beside(_column("newer", one.newer), _column("older", one.older)):
            say(line)
        say()
        key = asking.key()
        if key == asking.QUIT:
            break
        if key != asking.SKIP:
            labels[one] = asking.KEYS[key]
            if saved is not None:
                _append(saved, [trying.row_of(one, labels[one])])
    return labels


def _column(title: str, text: str) -> list[str]:
    return [title, "", *textwrap.wrap(" ".join(text.split()), asking.WIDTH)]


def _append(path: Path, labelled_rows: Sequence[Mapping[str, str | None]]) -> None:
    """Append rows to a file: what it holds are answers that somebody gave."""
    lines = (f"{json.dumps(row, ensure_ascii=False)}\n" for row in labelled_rows)
    try:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        raise UsageError(f"--save-answers {path}: {error.strerror}") from error


def _advise(made: _Made, saved: Path | None) -> None:
    """Say which policy agrees with the answers, and what so many answers can tell."""
    say()
    if made.fits is None:
        _advise_to_answer(made)
        return
    count = len(made.answers)
    told = ", ".join(f"{name} with {rate.count}" for name, rate in made.agreed.items())
    say(f"of {count} answer{'' if count == 1 else 's'}, agree: {told}", style="bold")
    near = not_told_apart(made.agreed, made.fits)
    unsure = f"; so few answers cannot surely tell it from {' and '.join(near)}" if near else ""
    say(f'{made.fits} fits best{unsure}. In memsieve.toml: policy = "{made.fits}"')
    say(
        "These are the hardest pairs: they tell the policies apart, and not how often one is wrong "
        "on all rows."
    )
    file = saved or Path("FILE")
    least = trying.provable(made.answers)
    if count < ANSWERS_MIN or least is None:
        say(
            f"Thresholds of your own take {ANSWERS_MIN} answers or more: --answers {file} "
            f"--save-answers {file} asks about other pairs"
        )
    else:
        say(
            "Thresholds of your own: memsieve policy calibrate "
            f"{file} --hidden-rate {least} --out mine.toml"
        )


def _advise_to_answer(made: _Made) -> None:
    if not made.questions:
        say("no pair is near a threshold: the policies differ little on these rows")
    else:
        say(
            f"near a threshold: {number(len(made.questions), 'pair')}; answer with --ask, or in "
            "the file that --save-answers FILE writes, and give it as --answers FILE"
        )


def _run(files: Sequence[str], given: Mapping[str, str | None]) -> str:
    told = [part for name, value in given.items() if value is not None for part in (name, value)]
    return shlex.join(["memsieve", "run", *files, *told])


def _as_json(taken: TrialInput, made: _Made) -> dict[str, Any]:
    return {
        "rows": taken.rows,
        "left_out": taken.refused,
        "more": taken.more,
        "policies": [_policy_as_json(one) for one in made.tried],
        "examples": [
            {"fate": fate.value, "policies": one.policies, **asdict(one.effect)}
            for fate in _TITLES
            for one in examples(made.tried, fate)
        ],
        "questions": [
            {**trying.row_of(one, made.labels.get(one)), "margin": round(one.margin, 3)}
            for one in made.questions
        ],
        "answers": len(made.answers),
        "agreed": {name: rate_json(one) for name, one in made.agreed.items()},
        "fits": made.fits,
    }


def _policy_as_json(trial: Trial) -> dict[str, Any]:
    return {
        "name": trial.name,
        "policy": trial.policy.id,
        "rows": {fate.value: trial.fates[fate] for fate in Fate},
        "skipped": trial.skipped,
        "braked": trial.braked,
        "memories": trial.memories,
        "degraded": dict(trial.silent),
    }
