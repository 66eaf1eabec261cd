"""`memsieve dedupe FILE.md`: finds duplicates in a Memories.md, and repairs supersession."""

import asyncio
from pathlib import Path
from typing import Any

from streams.consolidate.core.redundancy import ALERT
from streams.memories_md.app import cleaning, undoing
from streams.memories_md.app.cleaning import CleanedFile
from streams.memories_md.core.parsing import parse
from streams.memories_md.core.rendering import render
from streams.memories_md.world.file import MemoriesFile
from streams.memories_md.world.level import level_of
from streams.model.policy import Policy
from streams.model.ports.failures import NoStore
from streams.store.app.dry_run import means
from streams.store.app.settings import Settings
from streams.store.cli import options
from streams.store.cli.console import note, quoted, say, say_object
from streams.store.cli.options import UsageError
from streams.store.cli.progress import Meter
from streams.store.core.counts import number

NO_ENTRIES = (
    "it has no entries; an entry is a line `**[NOTE] Title**` with its text in the next line, below "
    "a line `## Location 41: Name`"
)

_WIDTH = 120
"""Characters of a text that are shown; `--json` has all of them."""


def clean(
    file: Path,
    policy: Policy,
    settings: Settings,
    *,
    apply: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Tell what a Memories.md says twice; write it merged where that is asked for."""
    memories = MemoriesFile(file)
    if out is not None and out.exists() and file.exists() and out.samefile(file):
        raise UsageError("--out names the file itself: use --apply")
    before = text_of(memories, to_write=apply)
    cleaned = asyncio.run(_clean(before, policy, settings))
    written = _write(memories, cleaned, before, out, apply=apply)
    told = {"file": str(file), "written": written, **cleaned.as_json()}
    if as_json:
        say_object(told)
    else:
        _show(told)
        _close(told)


def take_back(file: Path, *, as_json: bool) -> None:
    """Make a Memories.md what it was before it was written last."""
    undoing.restore(MemoriesFile(file))
    if as_json:
        say_object({"file": str(file), "undone": True})
    else:
        note(f"{file} is restored to its state before cleaning")


def text_of(memories: MemoriesFile, *, to_write: bool = False) -> str:
    """Return the text of a file. Raises UsageError where it cannot be read, or not be written."""
    try:
        text = memories.read()
        if to_write:
            memories.require_writable()
    except NoStore as error:
        raise UsageError(str(error)) from error
    if text is None:
        raise UsageError(f"{memories.path}: there is no such file")
    if to_write and level_of(memories).exists():
        raise UsageError(
            f"{memories.path} is kept by sinks.memories_md: its store would not know of the change; "
            "write elsewhere with --out, or run this on another file"
        )
    return text


async def _clean(text: str, policy: Policy, settings: Settings) -> CleanedFile:
    document = parse(text)
    total = len(cleaning.sizes(document)) * cleaning.PASSES_MIN
    async with means(settings, note) as given:
        with Meter("decisions") as meter:
            return await cleaning.clean(
                document,
                policy,
                given,
                world=settings.sinks.memories_md_world,
                done=lambda count: meter.advance(count, total),
            )


def _write(
    memories: MemoriesFile, cleaned: CleanedFile, before: str, out: Path | None, *, apply: bool
) -> str | None:
    """Write what was asked for; return which file was, None where there was nothing to write."""
    if out is not None:
        options.write("--out", out, render(cleaned.after))
        return str(out)
    if apply and cleaned.changed:
        undoing.write(memories, before, render(cleaned.after))
        return str(memories.path)
    return None


def _show(told: dict[str, Any]) -> None:
    say(
        f"{told['file']}: {number(told['entries'], 'entry', 'entries')}, {told['policy']}, {told['model']}"
    )
    for location in told["locations"]:
        say()
        say(
            f"location {location['id']} {location['name']}: {location['live_before']:,} live, "
            f"{location['live_after']:,} afterwards",
            style="bold",
        )
        for group in location["groups"]:
            _show_group(group)
    if told["repairs"]:
        say()
        say("supersession links that lead to no memory", style="bold")
    for repair in told["repairs"]:
        say(f"{repair['line']:>6}  {quoted(repair['title'])}: {repair['why']}; {repair['repair']}")
    if told["problems"]:
        say()
        say("for a person to check", style="bold")
    for problem in told["problems"]:
        say(f"{problem['line']:>6}  {problem['message']}")


def _show_group(group: dict[str, Any]) -> None:
    stays = group["survivor"]
    say(f"{stays['line']:>6}  {quoted(stays['title'])} stays, seen {stays['seen']:,}x")
    say(f"        {quoted(stays['text_before'], _WIDTH)}")
    if stays["text_after"] != stays["text_before"]:
        say(f"        now {quoted(stays['text_after'], _WIDTH)}")
    for one in group["members"]:
        near = "" if one["similarity"] is None else f" ({one['similarity']:.3f}, {one['judge']})"
        new = "" if one["decided_at"] == one["line"] else f", for line {one['decided_at']}"
        say(f"{one['line']:>10}  {quoted(one['title'])} goes{new}: {one['why']}{near}")
        say(f"            {quoted(one['text'], _WIDTH)}", style="dim")


def _close(told: dict[str, Any]) -> None:
    say()
    back = f", {told['brought_back']:,} brought back" if told["brought_back"] else ""
    say(
        f"{number(told['live_before'], 'live entry', 'live entries')}, {told['removed']:,} said by others{back}: "
        f"{told['live_after']:,} afterwards{_share(told['reduction_entries'])}",
        style="bold",
    )
    say(
        f"{told['bytes_before']:,} bytes of them, {told['bytes_after']:,} afterwards"
        f"{_share(told['reduction_bytes'])}"
    )
    if told["removed"] > ALERT * (told["live_before"] + told["brought_back"]):
        note("more than half of the entries would be removed: check the groups", style="yellow")
    if told["written"] == told["file"]:
        note(f"written; memsieve dedupe --undo {told['file']} undoes it")
    elif told["written"] is not None:
        note(f"written to {told['written']}; {told['file']} is as it was")
    elif told["removed"] or told["repairs"]:
        note("Dry run: nothing was written; --apply writes it")
    else:
        said = "" if told["entries"] else f": {NO_ENTRIES}"
        note(f"there is nothing to clean{said}")


def _share(reduction: float | None) -> str:
    if not reduction:
        return ""
    return f" ({abs(reduction):.1%} {'fewer' if reduction > 0 else 'more'})"
