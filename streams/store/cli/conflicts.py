"""Prints a memory's conflicts, for people."""

from streams.store.app.conflicts import Conflict
from streams.store.cli.console import quoted, say


def show_conflict(conflict: Conflict, indent: str) -> None:
    seen = f"{conflict.last_seen_at:%Y-%m-%d}"
    said = f"{quoted(conflict.text)} of {seen}, {conflict.memory_id}"
    say(f"{indent}in conflict with {said}", style="yellow")
