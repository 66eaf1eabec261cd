"""A store that remembers each fact once: what it is told it decides on, and it says why.

`Memory` is the store, `AsyncMemory` the same for programs with an event loop. docs/python.md shows
how they are used.
"""

from memsieve.hidden import told as _told

try:
    from memsieve.asynchronous import AsyncMemory
    from memsieve.errors import (
        InvalidRequest,
        MemsieveError,
        ModelError,
        NotFound,
        ServerError,
        Stopped,
        StoreError,
    )
    from memsieve.fields import AboutText, EventFields
    from memsieve.results import Decision, Forgotten, SearchResult, Version
    from memsieve.synchronous import Memory
    from streams.apps.conflicts import Conflict
    from streams.apps.conflicts import KeptMemory as MemoryRecord
except ImportError as error:
    raise _told(error) from None

__all__ = [
    "AboutText",
    "AsyncMemory",
    "Conflict",
    "Decision",
    "EventFields",
    "Forgotten",
    "InvalidRequest",
    "Memory",
    "MemoryRecord",
    "MemsieveError",
    "ModelError",
    "NotFound",
    "SearchResult",
    "ServerError",
    "Stopped",
    "StoreError",
    "Version",
]
