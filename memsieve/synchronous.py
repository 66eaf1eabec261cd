"""Memories for programs without an event loop: of a store, of a cluster, and behind an HTTP API."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from memsieve.asynchronous import WAIT, AsyncMemory
from memsieve.http_memory import AsyncHttpMemory
from memsieve.http_transport import PATIENCE, TIMEOUT
from memsieve.operations import Operations
from streams.api.app import records
from streams.recall.app.loading import Grouping


class Memory(Operations):
    """Memories in a directory, or on a cluster; it decides on each fact that is added.

    ```python
    with Memory("notes") as memory:
        decision = memory.add("Ana lives in Lyon.", scope="acme/ana")
        print(decision.kind, decision.why)
    ```

    `Memory(kafka="localhost:9092", index="http://localhost:6333")` works on a cluster.

    The store is locked for other processes until `close` or the end of the `with` block. When a
    call returns, its result is on disk. Threads may share a Memory. Every failure is a
    MemsieveError.
    """

    def __init__(
        self,
        store: Path | str | None = None,
        *,
        kafka: str | None = None,
        index: str | None = None,
        wait: float = WAIT,
        policy: str | None = None,
        settings: Mapping[str, object] | None = None,
        config: Path | str | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """Open the store in a directory, `memsieve-store` by default; create it if there is none.

        `kafka`, as `host:port`, works on a cluster instead: its services decide. A call that gets
        no decision within `wait` seconds raises Undecided, and its event stays queued. `index` is
        the address of the cluster's Qdrant server, `http://host:port`; without it, memories are
        read from the log. Settings must be those of the services.

        Settings are those of the commands: `settings`, nested as in the file (`{"embedder":
        {"model": "..."}}`), override `MEMSIEVE_` variables, which override the file `config` or
        `memsieve.toml`. `policy` is a policy's name or file. `report` receives one line for each
        wait, such as the download of the embedding model on first use; by default the logger
        `memsieve` does.
        """
        super().__init__(
            AsyncMemory(
                store,
                kafka=kafka,
                index=index,
                wait=wait,
                policy=policy,
                settings=settings,
                config=config,
                report=report,
            )
        )


class HttpMemory(Operations):
    """Memories behind an HTTP API, `memsieve service api`, with the operations of `Memory`.

    ```python
    with HttpMemory("http://localhost:8090", token="secret") as memory:
        print(memory.add("Ana lives in Lyon.", scope="acme/ana").why)
    ```

    The token's name is the author of each change. Threads may share it. Every failure is a
    MemsieveError.
    """

    def __init__(
        self, url: str, *, token: str, timeout: float = TIMEOUT, patience: float = PATIENCE
    ) -> None:
        """Take the address of the API and a token that it knows.

        An answer is waited for `timeout` seconds. Where the API is busy and says when to come
        again, a request is repeated, for up to `patience` seconds in all.
        """
        self._api = AsyncHttpMemory(url, token=token, timeout=timeout, patience=patience)
        super().__init__(self._api)

    def publish(
        self, rows: Iterable[str | Mapping[str, object]], *, scope: str | None = None
    ) -> list[records.Result]:
        """Publish facts without waiting for decisions, and return a status for each.

        Rows are as for `add_many`. A refused one has a `problem`, and does not affect the others.
        """
        return self._loop.run(self._api.publish(rows, scope=scope))

    def decisions(
        self,
        scope: str,
        *,
        kind: records.Kind | None = None,
        limit: int = records.LISTED,
        after: int | None = None,
    ) -> records.Decisions:
        """List the decisions on a scope, the newest first; more follow `after`, if it is given."""
        asked = self._api.decisions(scope, kind=kind, limit=limit, after=after)
        return self._loop.run(asked)

    def deduplicate(
        self, *, scope: str, ids: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> Grouping:
        """Group memories of a scope, or any texts, by fact. Nothing is changed or stored."""
        return self._loop.run(self._api.deduplicate(scope=scope, ids=ids, texts=texts))
