"""A store that keeps each fact once, and explains each of its decisions.

`Memory` is a store in a directory or a cluster, `HttpMemory` one behind an API: both have the
methods of `Operations`. `AsyncMemory` and `AsyncHttpMemory` are the same for programs with an event
loop. docs/python.md shows how they are used. `search` and `recall` only read a store, once; `partition_of` is for producers.
"""

from memsieve_start import hidden as _hidden

try:
    from memsieve.asynchronous import AsyncMemory
    from memsieve.errors import (
        Busy,
        ConflictError,
        InvalidRequest,
        MemsieveError,
        ModelError,
        NotAllowed,
        NotFound,
        ServerError,
        Stopped,
        StoreError,
        Undecided,
    )
    from memsieve.fields import AboutText, EventFields
    from memsieve.functions import partition_of, recall, search
    from memsieve.http_memory import AsyncHttpMemory
    from memsieve.operations import Operations
    from memsieve.results import Decision, Forgotten, Review, SearchResult, Version
    from memsieve.synchronous import HttpMemory, Memory
    from streams.store.app.conflicts import Conflict, Contradicted
    from streams.store.app.conflicts import KeptMemory as MemoryRecord
except ImportError:
    if _problem := _hidden():
        raise ImportError(_problem) from None
    raise

__all__ = [
    "AboutText",
    "AsyncHttpMemory",
    "AsyncMemory",
    "Busy",
    "Conflict",
    "ConflictError",
    "Contradicted",
    "Decision",
    "EventFields",
    "Forgotten",
    "HttpMemory",
    "InvalidRequest",
    "Memory",
    "MemoryRecord",
    "MemsieveError",
    "ModelError",
    "NotAllowed",
    "NotFound",
    "Operations",
    "Review",
    "SearchResult",
    "ServerError",
    "Stopped",
    "StoreError",
    "Undecided",
    "Version",
    "partition_of",
    "recall",
    "search",
]
