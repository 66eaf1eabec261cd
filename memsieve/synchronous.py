"""A store of memories for programs without an event loop."""

from collections.abc import Callable, Mapping
from pathlib import Path

from memsieve.asynchronous import WAIT, AsyncMemory
from memsieve.operations import Operations


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
