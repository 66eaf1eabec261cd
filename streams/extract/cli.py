"""`memsieve extract`: turns of an agent become events."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from schemas.codec import EVENT
from schemas.events import Remember
from schemas.memories import Memory
from streams.clock.system import SystemClock
from streams.extract.app import opening
from streams.extract.app.extracting import Extraction, ExtractionCounts
from streams.extract.core.notes import Notes
from streams.extract.flow.extract import TurnResult
from streams.extract.world.extracted_files import DeadLetterFile, EventLines
from streams.store.app.reading import LogTarget, reading
from streams.store.app.settings import Settings
from streams.store.cli import options, rows
from streams.store.cli.console import note, say, say_bytes, say_json, say_object
from streams.store.cli.options import UsageError
from streams.store.cli.progress import Meter
from streams.store.world.files import FileSource

CODE = 9
"""The exit code where turns were set aside."""

_STDOUT = "-"
_REFUSED_SHOWN = 10


def extract(
    file: Annotated[
        str,
        typer.Argument(
            metavar="TURNS", help="JSON Lines of turns, gzipped or not; - is standard input."
        ),
    ],
    *,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Append the events to this file; existing ones are not repeated. - prints.",
        ),
    ] = _STDOUT,
    scope: rows.TurnsScope = None,
    llm: Annotated[
        bool, typer.Option("--llm", help="Let the configured language model write memories.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option("--model", help="The model to use at llm.base_url. [extraction.model]"),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option("--store", help="A store whose memories the model may see."),
    ] = None,
    rejects: Annotated[
        Path | None,
        options.output(
            "--rejects",
            "Write turns set aside to this file, as dead letters. [OUT.rejects.jsonl]",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show which triggers fire; make no events.")
    ] = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Extract events from turns, for run or publish.

    Triggers select the turns to examine. Each sentence in them that states something becomes an
    event; with --llm, a language model words one memory per turn and sees the known ones. A
    sentence that only repeats text recalled into the prompt makes no event. Running the command
    again adds only what is missing.
    """
    settings = options.load(
        config, extraction__llm=llm or None, extraction__model=model, store=store
    )
    if not settings.extraction.llm and (model is not None or store is not None):
        raise UsageError("--model and --store are for a language model: give --llm too")
    if as_json and out == _STDOUT and not dry_run:
        raise UsageError("--json and the events both use standard output: give --out FILE")
    wanted = rows.turns_scope(scope)
    [source] = rows.sources([file], "jsonl")
    rejected: Path | None = None
    if dry_run:
        looked = Extraction(settings.extraction, Notes(), scope=wanted)
        counts = _look(source, looked, as_json=as_json)
    else:
        known = asyncio.run(_memories(settings)) if store is not None else []
        with ExitStack() as stack:
            output = _output(stack, out, rejects)
            notes = Notes(known, output.taken_before(), settings.extraction.known_max)
            asks = settings.extraction.llm
            asked = opening.llm_extractor(settings, SystemClock()) if asks else None
            extraction = Extraction(settings.extraction, notes, model=asked, scope=wanted)
            counts = asyncio.run(_take(source, extraction, output))
        if output.aside is not None and counts.refused:
            rejected = output.aside.path
        if as_json:
            say_object({**asdict(counts), "rejects": rejected and str(rejected)})
    if not as_json:
        tell = note if out == _STDOUT and not dry_run else say
        _show(counts, tell)
        if counts.refused and not dry_run:
            lie = "are not kept: name a file with --rejects"
            tell(f"{'':<21}they {lie if rejected is None else f'lie in {rejected}'}")
    if counts.refused:
        raise typer.Exit(CODE)


async def _memories(settings: Settings) -> list[Memory]:
    async with reading(LogTarget.of_store(settings)) as reader:
        return await reader.memories()


def _look(source: FileSource, extraction: Extraction, *, as_json: bool) -> ExtractionCounts:
    counts = ExtractionCounts()
    looked = (_looked(extraction.look(source, line), counts) for line in source.lines(None))
    if as_json:
        say_json(looked)
        return counts
    for told in looked:
        say(f"{told['place']}  {told['turn_id'] or told['refused']}")
        for one in told["triggers"]:
            say(f"  {one['trigger']:<14} {one['why']}")
    return counts


def _looked(taken: TurnResult, counts: ExtractionCounts) -> dict[str, Any]:
    counts.add(taken)
    return {
        "place": taken.place,
        "turn_id": None if taken.turn is None else taken.turn.turn_id,
        "triggers": [{"trigger": one.trigger, "why": one.why} for one in taken.fired],
        "refused": None if taken.letter is None else taken.letter.error,
    }


async def _take(source: FileSource, extraction: Extraction, output: "_Output") -> ExtractionCounts:
    counts = ExtractionCounts()
    try:
        with Meter("turns") as meter:
            for line in source.lines(None):
                taken = await extraction.take(source, line)
                counts.add(taken)
                output.write(taken)
                if taken.letter is not None and counts.refused <= _REFUSED_SHOWN:
                    note(f"set aside: {taken.letter.origin}: {taken.letter.error}")
                meter.reach(counts.turns, _about(source, counts.turns))
    finally:
        await extraction.close()
    return counts


def _about(source: FileSource, turns: int) -> int:
    """Guess how many turns a source has, by its bytes; 0 where that cannot be told."""
    place = source.progress()
    return round(turns * place.total / place.done) if place.total and place.done else 0


@dataclass(frozen=True)
class _Output:
    """Where events and what is set aside go: events without `lines` to standard output."""

    lines: EventLines | None
    aside: DeadLetterFile | None

    def taken_before(self) -> list[Remember]:
        events = () if self.lines is None else self.lines.events
        return [event for event in events if isinstance(event, Remember)]

    def write(self, taken: TurnResult) -> None:
        if taken.events and self.lines is not None:
            self.lines.append(taken.events)
        elif taken.events:
            say_bytes(b"".join(EVENT.encode(event) + b"\n" for event in taken.events))
        if taken.letter is not None and self.aside is not None:
            self.aside.add(taken.letter)


def _output(stack: ExitStack, out: str, rejects: Path | None) -> _Output:
    if out == _STDOUT:
        return _Output(None, None if rejects is None else DeadLetterFile(rejects))
    if out.endswith(".gz"):
        raise UsageError(f"--out {out}: events are appended uncompressed; name it without .gz")
    lines = stack.enter_context(closing(EventLines(Path(out))))
    return _Output(lines, DeadLetterFile(rejects or Path(f"{out}.rejects.jsonl")))


def _show(counts: ExtractionCounts, tell: Callable[[str], None]) -> None:
    tell(f"turns      {counts.turns:>8,}")
    share = f"   {counts.triggered / counts.turns:.0%}" if counts.turns else ""
    tell(f"triggered  {counts.triggered:>8,}{share}")
    for trigger, turns in sorted(counts.by_trigger.items()):
        tell(f"  {trigger:<14}{turns:>8,}")
    tell(f"events     {counts.events:>8,}   taken now")
    tell(f"known      {counts.known:>8,}   taken before")
    tell(f"declined   {counts.declined:>8,}   the model found nothing to remember")
    tell(f"set aside  {counts.refused:>8,}   could not be used; run the command again to retry")
