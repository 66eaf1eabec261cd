"""What is read from a log at once."""

from collections.abc import Iterable

from streams.model.ports.log import LogRecord

_PAGE_BYTES = 16_777_216
"""The size at which a page of records ends: it is held in memory as a whole."""


def page(records: Iterable[LogRecord]) -> list[LogRecord]:
    """Return the first of the records, up to the one that fills a page."""
    taken: list[LogRecord] = []
    size = 0
    for record in records:
        taken.append(record)
        size += len(record.value or b"")
        if size >= _PAGE_BYTES:
            break
    return taken
