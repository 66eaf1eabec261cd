"""`memsieve publish`: files of events onto memory.events."""

import asyncio
import signal
import sys
import time
from functools import partial
from typing import Annotated

import typer

from streams.adapters.files import FileSource
from streams.apps.publishing import Published, publisher
from streams.apps.settings import Settings
from streams.cli import options, rows
from streams.cli.console import note, say, say_object
from streams.cli.progress import shown
from streams.core.mapping import FieldMapping


def register(app: typer.Typer) -> None:
    app.command(name="publish")(publish)


def publish(
    files: rows.Files,
    *,
    kafka: options.Kafka = None,
    text_field: rows.TextField = None,
    scope_field: rows.ScopeField = None,
    id_field: rows.IdField = None,
    time_field: rows.TimeField = None,
    format_: rows.FileFormat = None,
    after: Annotated[
        int,
        typer.Option("--after", min=0, help="Go on behind this line; for one file only. [0]"),
    ] = 0,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Publish every row of the files as an event, keyed by its scope.

    Rows are read as `run` reads them. Publishing a file again is harmless: its events keep their
    ids, and the services ignore what they have decided.
    """
    settings = options.load(config, kafka__bootstrap=kafka)
    mapping = rows.mapping(text_field, scope_field, id_field, time_field)
    sources = rows.sources(files, format_, mapping)
    if after and len(sources) > 1:
        raise options.UsageError("--after is for one file: publish the others by themselves")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    started = time.perf_counter()
    try:
        published = asyncio.run(_publish(settings, sources, mapping, after))
    except KeyboardInterrupt:
        sys.exit(130)  # how to go on has been said
    _close(published, time.perf_counter() - started, as_json=as_json)


async def _publish(
    settings: Settings, sources: list[FileSource], mapping: FieldMapping | None, after: int
) -> Published:
    async with publisher(settings) as target:
        for source in sources:
            try:
                await shown(source, partial(target.publish, source, mapping, after))
            except BaseException:
                done = target.published
                note(
                    f"{source.place}: published up to line {done.line:,}; to go on, give the same "
                    f"command with this file alone and --after {done.line}"
                )
                raise
        return target.published


def _close(published: Published, seconds: float, *, as_json: bool) -> None:
    if as_json:
        say_object(
            {
                "events": published.events,
                "dead_letters": published.dead_letters,
                "seconds": round(seconds, 3),
            }
        )
        return
    rows_ = published.events + published.dead_letters
    say(f"published {published.events:,} events in {seconds:,.1f} s")
    if not rows_:
        say("there was nothing to publish: the files are empty, or --after is behind their end")
    elif not published.events:
        say("no row could be used: are the columns named right?")
    if published.dead_letters:
        say(
            f"{published.dead_letters:,} of {rows_:,} rows could not be used: "
            "memsieve dead-letters list tells why"
        )
