"""`memsieve check`: whether everything is in order; with --full, every record."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn

from streams.maintain.app import diagnosis
from streams.maintain.app.diagnosis import Diagnosis
from streams.store.app.reading import LogTarget
from streams.store.cli import options
from streams.store.cli.console import err, mark_of, note, say, say_json, say_object
from streams.store.world.store_directory import StoreDirectory
from streams.verify.app import auditing, verification
from streams.verify.app.audited import Check, LogCounts, Report

CODE = 8


def check(
    *,
    full: Annotated[
        bool, typer.Option("--full", help="Audit every record; exit with code 8 if one is wrong.")
    ] = False,
    where: options.ReadOptions,
) -> None:
    """Check model, policy, log and index, and suggest remedies.

    With --full, audits a store or a cluster record by record, without changing anything: adds up
    all decisions, and compares the result with the events, the dead letters, the index and the
    sinks.
    """
    source, as_json = where.source(), where.as_json
    if where.store is not None and not where.store.exists():
        StoreDirectory(where.store).require()  # named, and not there: the name is wrong
    if full:
        _audit(source, as_json=as_json)
    else:
        _diagnose(source, as_json=as_json)


def _diagnose(source: LogTarget, *, as_json: bool) -> None:
    findings = asyncio.run(diagnosis.examine(source))
    if as_json:
        say_json(_diagnosis_json(one) for one in findings)
    else:
        for one in findings:
            _show_diagnosis(one)
    if failures := [one.failure for one in findings if one.failure is not None]:
        note("something needs attention", style="red")
        raise typer.Exit(failures[0].exit_code)


def _diagnosis_json(one: Diagnosis) -> dict[str, Any]:
    return {
        "subject": one.subject,
        "healthy": one.healthy,
        "fact": one.fact,
        "warnings": one.warnings,
    }


def _show_diagnosis(one: Diagnosis) -> None:
    mark, style = mark_of(healthy=one.healthy, warned=bool(one.warnings))
    say(f"{mark}  {one.subject:<8}{one.fact}", style=style)
    for warning in one.warnings:
        say(f"    {warning}")


def _audit(source: LogTarget, *, as_json: bool) -> None:
    with _shown() as progress:
        report = asyncio.run(verification.verify(source, progress))
    if as_json:
        say_object(_json(report))
    else:
        _show(report)
    if not report.healthy:
        note("verification failed", style="red")
        raise typer.Exit(CODE)


@contextmanager
def _shown() -> Generator[auditing.Progress]:
    """Show on a terminal how far the log is read; elsewhere nothing."""
    columns = (TextColumn("verifying"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("")
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _json(report: Report) -> dict[str, Any]:
    return {
        "healthy": report.healthy,
        "counts": asdict(report.counts),
        "checks": [_check_json(check) for check in report.checks],
        "notes": report.notes,
    }


def _check_json(check: Check) -> dict[str, Any]:
    found = check.findings
    return {
        "name": check.name,
        "healthy": check.healthy,
        "fact": check.told,
        "found": {problem.value: count for problem, count in found.counts.items()},
        "findings": [
            {
                "problem": one.problem.value,
                "place": one.place,
                "what": one.what,
                "remedy": check.remedy_of(one.problem),
            }
            for one in found.shown
        ],
    }


def _show(report: Report) -> None:
    for check in report.checks:
        mark, style = mark_of(healthy=check.healthy)
        say(f"{mark}  {check.name:<12}{check.told}", style=style)
    say()
    _show_counts(report.counts)
    for check in report.checks:
        _show_findings(check)
    if report.notes:
        say()
    for line in report.notes:
        say(line, style="dim")


def _show_counts(counts: LogCounts) -> None:
    say(f"{'events':<14}{counts.events:>9,}")
    for what, count in {**counts.decisions, "waiting": counts.waiting}.items():
        say(f"  {what:<12}{count:>9,}")
    if counts.in_doubt:
        say(f"  {'in doubt':<12}{counts.in_doubt:>9,}")


def _show_findings(check: Check) -> None:
    """Print what was found, problem by problem, each with what to do."""
    for problem, count in check.findings.counts.items():
        shown = [one for one in check.findings.shown if one.problem is problem]
        say()
        say(f"{check.name}: {count:,} {problem.value}", style="red")
        for one in shown:
            say(f"  {one.place} {one.what}")
        if count > len(shown):
            say(f"  and {count - len(shown):,} more")
        say(f"  to do: {check.remedy_of(problem)}")
