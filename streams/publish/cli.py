"""`memsieve publish`: files of events or turns onto their topics."""

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from streams.publish.app import Publisher, PublishProgress, publisher
from streams.store.app.settings import Settings
from streams.store.cli import options, rows
from streams.store.cli.console import note, say, say_object
from streams.store.cli.options import UsageError
from streams.store.cli.progress import Work, shown
from streams.store.cli.rows import Rows
from streams.store.core.columns import NamedColumns


def publish(
    files: rows.Files,
    *,
    kafka: options.Kafka = None,
    columns: rows.RowOptions,
    after: Annotated[
        int,
        typer.Option("--after", min=0, help="Continue after this line; for one file only."),
    ] = 0,
    turns: Annotated[
        bool, typer.Option("--turns", help="The rows are turns: publish them for the extractor.")
    ] = False,
    scope: Annotated[
        str | None,
        typer.Option(
            "--scope",
            help=(
                "One scope for all rows; with --turns, for turns without a scope: {location} "
                "becomes the location's number."
            ),
        ),
    ] = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Publish the rows of files as events.

    Rows are read as by `run`, which detects columns, or with --turns as by `extract`. Publishing a
    file again is harmless: its events keep their ids, and the services ignore events that they have
    decided on.
    """
    settings = options.load(config, kafka__bootstrap=kafka)
    template = rows.turns_scope(scope) if turns else None
    if turns and columns.named(None) != NamedColumns():
        raise UsageError("turns have no columns to name: give --turns without --…-field")
    given = rows.turns(files) if turns else columns.opened(files, scope)

    def work_on(target: Publisher, one: Rows) -> Work:
        if turns:
            return partial(target.publish_turns, one.source, template, after)
        return partial(target.publish, one.source, one.mapping, after)

    if after and len(given) > 1:
        raise UsageError("--after is for one file: publish the others separately")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    started = time.perf_counter()
    try:
        published = asyncio.run(_publish(settings, given, work_on, "turns" if turns else "events"))
    except KeyboardInterrupt:
        sys.exit(130)  # how to go on has been said
    _close(published, time.perf_counter() - started, as_json=as_json)
    if published.dead_letters and not (published.events or published.turns):
        raise UsageError("no row could be used: see memsieve dead-letters list")


async def _publish(
    settings: Settings,
    given: Sequence[Rows],
    work_on: Callable[[Publisher, Rows], Work],
    what: str,
) -> PublishProgress:
    async with publisher(settings) as target:
        for one in given:
            try:
                await shown(one.source, work_on(target, one), what)
            except BaseException:
                done = target.published
                note(
                    f"{one.source.place}: published up to line {done.line:,}; to resume, give the "
                    f"same command with this file alone and --after {done.line}"
                )
                raise
        return target.published


def _close(published: PublishProgress, seconds: float, *, as_json: bool) -> None:
    if as_json:
        done = asdict(published)
        del done["line"]
        say_object({**done, "seconds": round(seconds, 3)})
        return
    good = published.events + published.turns
    rows_ = good + published.dead_letters
    what = "turns" if published.turns else "events"
    say(f"published {good:,} {what} in {seconds:,.1f} s")
    if not rows_:
        say("there was nothing to publish: the files are empty, or --after is past their end")
    if published.dead_letters:
        say(
            f"{published.dead_letters:,} of {rows_:,} rows could not be used: "
            "memsieve dead-letters list tells why"
        )
