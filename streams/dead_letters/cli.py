"""`memsieve dead-letters`: lists, shows, requeues and drops dead letters."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from streams.dead_letters import app
from streams.dead_letters.flow import (
    DecodedInput,
    Inputs,
    Letter,
    Settlement,
    again,
    given_up,
    readable,
)
from streams.model.ports.failures import Poison
from streams.stage.flow.dead_letters import EVENT_BYTES_MAX, original
from streams.store.cli import options
from streams.store.cli.console import more, note, say, say_bytes, say_json, tell

_TEXT_WIDTH = 100
_SHOWN_MAX = 4_000


Identities = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="Dead letter ids, or id prefixes.")
]
AllOpen = Annotated[bool, typer.Option("--all-open", help="All open dead letters.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]


def list_(
    *,
    all_: Annotated[bool, typer.Option("--all", help="Include requeued and dropped ones.")] = False,
    limit: options.Limit = None,
    where: options.ReadOptions,
) -> None:
    """List rejected records: where they were, and what is wrong."""
    letters = asyncio.run(app.letters(where.to_read()))
    found = [letter for letter in letters if all_ or letter.state == "open"]
    shown = found[: options.limit_of(limit, as_json=where.as_json)]
    if where.as_json:
        say_json(letter_json(letter) for letter in shown)
        return
    for letter in shown:
        show_letter(letter)
    more(len(found) - len(shown), "dead letter", "dead letters")
    if not found:
        note("no open dead letters; --all shows the others" if letters else "no dead letters")


def show(
    identity: Annotated[
        str, typer.Argument(metavar="ID", help="The dead letter's id, or an id prefix.")
    ],
    *,
    value: Annotated[
        bool, typer.Option("--value", help="Write the original bytes, and nothing else.")
    ] = False,
    where: options.ReadOptions,
) -> None:
    """Show everything about a dead letter.

    To correct it, begin with: memsieve dead-letters show ID --value > event.json
    """
    if value and where.as_json:
        raise options.UsageError("--value and --json are two ways to print: give one of them")
    if value and sys.stdout.isatty():
        raise options.UsageError("--value writes raw bytes: redirect them to a file, > FILE")
    source = where.to_read()
    letter = _only(asyncio.run(app.letters(source)), identity, source.place)
    if value:
        _write_value(letter)
        return
    lines = (f"{name:<10} {text}".rstrip() for name, text in _told(letter))
    tell(lines, letter_json(letter), as_json=where.as_json)


def requeue(
    identities: Identities = None,
    *,
    all_open: AllOpen = False,
    mended: Annotated[
        Path | None,
        typer.Option(
            "--with", metavar="FILE", help="Publish the event or turn in this file instead."
        ),
    ] = None,
    dry_run: DryRun = False,
    where: options.ReadOptions,
) -> None:
    """Publish the events and turns of dead letters again, corrected or unchanged.

    Each keeps its id, so none is decided on twice. A dead letter that would fail again stays open,
    and the reason is printed.
    """
    named = _named(identities, all_open=all_open)
    asyncio.run(_settle(where, named, "requeued", dry_run=dry_run, file=mended))


def drop(
    identities: Identities = None,
    *,
    all_open: AllOpen = False,
    dry_run: DryRun = False,
    where: options.ReadOptions,
) -> None:
    """Close dead letters without publishing them. Nothing is deleted."""
    named = _named(identities, all_open=all_open)
    asyncio.run(_settle(where, named, "dropped", dry_run=dry_run))


def letter_json(letter: Letter) -> dict[str, Any]:
    """Return all that is known of a dead letter."""
    content = letter.content.model_dump(mode="json")
    return {**content, "seen": letter.seen, "state": letter.state}


def show_letter(letter: Letter) -> None:
    """Print a dead letter as one of a list."""
    content = letter.content
    again_ = f"  ({letter.seen} times)" if letter.seen > 1 else ""
    state = "" if letter.state == "open" else f"  {letter.state}"
    say(f"{_origin(letter)}  {content.stage.value}{again_}{state}  {content.id}")
    say(f"  {content.error}")
    begin = original(content)[:_TEXT_WIDTH].decode("utf-8", "backslashreplace")
    say(f"  {content.value_size:,} bytes: {begin}", style="dim")


def _told(letter: Letter) -> Iterator[tuple[str, str]]:
    """Yield what a person is told, name by name."""
    content = letter.content
    yield "letter", content.id
    yield "state", f"{letter.state}, seen {letter.seen}x, attempts {content.attempts}"
    yield "origin", _origin(letter)
    yield "stage", content.stage.value
    if content.field is not None:
        yield "field", content.field
    yield "error", content.error
    if content.position is not None:
        yield "position", content.position.place
    if content.key is not None:
        yield "key", _cut(content.key)
    for name, text in content.headers:
        yield "header", _cut(f"{name}: {text}" if text is not None else name)
    value = original(content)
    some = f", of which {len(value):,} were kept" if content.value_size > len(value) else ""
    yield "value", f"{content.value_size:,} bytes{some}"
    yield "", _cut(value.decode("utf-8", "backslashreplace"))


def _origin(letter: Letter) -> str:
    return letter.content.origin or ""


def _cut(text: str) -> str:
    """Show the beginning of what is too long to read."""
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}… (--json shows all)"


def _write_value(letter: Letter) -> None:
    value = original(letter.content)
    if letter.content.value_size > len(value):
        note(f"only the first {len(value):,} of {letter.content.value_size:,} bytes were kept")
    say_bytes(value)


def _named(identities: Sequence[str] | None, *, all_open: bool) -> list[str]:
    """Return the ids that were given; none where all are meant."""
    named = list(identities or ())
    if bool(named) == all_open:
        raise options.UsageError("give the ids of dead letters, or --all-open")
    return named


def _mended(path: Path, named: Sequence[str], inputs: Inputs) -> DecodedInput:
    if len(named) != 1:
        raise options.UsageError("--with replaces one dead letter: give one ID")
    try:
        with path.open("rb") as file:
            found = readable(file.read(EVENT_BYTES_MAX + 1), inputs)
    except OSError as error:
        raise options.UsageError(f"--with {path}: {error.strerror}") from error
    if isinstance(found, Poison):
        raise options.UsageError(f"--with {path}: {found}")
    return found


async def _settle(
    where: options.ReadOptions,
    named: Sequence[str],
    how: Settlement,
    *,
    dry_run: bool,
    file: Path | None = None,
) -> None:
    async with app.opened(where.source(), writable=not dry_run) as target:
        mended = None if file is None else _mended(file, named, target.inputs)
        chosen = _chosen(await target.all(), named, target.place)
        judged = [
            (
                letter,
                again(letter, mended, target.inputs) if how == "requeued" else given_up(letter),
            )
            for letter in chosen
        ]
        wanted = [(letter, what) for letter, what in judged if not isinstance(what, Poison)]
        refused = [(letter, what) for letter, what in judged if isinstance(what, Poison)]
        done = list[Letter]()
        try:
            if dry_run:
                done += [letter for letter, _ in wanted]
            else:
                await target.settle(wanted, how, done.append)
        finally:  # also where it breaks off, and not before: `head` would end it in the middle
            lines = _settled(f"would be {how}" if dry_run else how, done, how, refused)
            tell(lines, _settled_json(how, done, refused), as_json=where.as_json)
    if wanted and how == "requeued" and target.decided_by and not dry_run:
        note(f"decided at {target.decided_by}")
    if not chosen:
        note("no open dead letters")
    if refused and (named or len(refused) == len(chosen)):
        raise options.UsageError(f"dead letters not {how}: {len(refused):,} of {len(chosen):,}")


def _settled(
    what: str, done: Sequence[Letter], how: str, refused: Sequence[tuple[Letter, Poison]]
) -> Iterator[str]:
    for letter in done:
        yield f"{what}  {letter.content.id}  {_origin(letter)}"
    for letter, reason in refused:
        yield f"not {how}  {letter.content.id}  {_origin(letter)}: {reason}"


def _settled_json(
    how: str, done: Sequence[Letter], refused: Sequence[tuple[Letter, Poison]]
) -> dict[str, Any]:
    return {
        how: [letter.content.id for letter in done],
        "refused": [{"id": one.content.id, "error": str(reason)} for one, reason in refused],
    }


def _chosen(letters: Sequence[Letter], named: Sequence[str], place: str) -> list[Letter]:
    """Return the letters that are named, each once, or all that are open."""
    if not named:
        return [letter for letter in letters if letter.state == "open"]
    chosen = [_only(letters, identity, place) for identity in named]
    return list({letter.content.id: letter for letter in chosen}.values())


def _only(letters: Sequence[Letter], identity: str, place: str) -> Letter:
    by_id = {letter.content.id: letter for letter in letters}
    return options.only(by_id, identity, what="dead letter", place=place)
