"""Counts in words."""


def number(count: int, one: str, several: str | None = None) -> str:
    """Return a count with its noun: `1 scope`, `2 scopes`; `several` is `one` with an s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
