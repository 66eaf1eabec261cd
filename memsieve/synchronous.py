"""A store of memories for programs without an event loop."""

import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from memsieve.asynchronous import BUDGET, LIMIT, WAIT, AsyncMemory
from memsieve.background import BackgroundLoop
from memsieve.fields import AboutText, EventFields
from memsieve.progress import Progress
from memsieve.results import (
    Decision,
    Forgotten,
    Review,
    SearchResult,
    Verdict,
    Version,
)
from schemas.events import Ended
from streams.store.app.conflicts import KeptMemory as MemoryRecord


class Memory:
    """A store of memories in a directory, which decides on everything that is added.

    ```python
    with Memory("notes") as memory:
        decision = memory.add("Ana lives in Lyon.", scope="acme/ana")
        print(decision.kind, decision.reason)
    ```

    `Memory(kafka="localhost:9092", index="http://localhost:6333")` works on a cluster.

    The store is open, and only this process may write it, until `close` or the end of the `with`
    block. A program that ends without either loses nothing: when a call returns, its result is on
    disk. Any number of threads may use one Memory. Every failure is a MemsieveError.
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
        """Open or create a store, by default `memsieve-store`.

        `kafka`, as `host:port`, names a cluster instead: its services decide within `wait` seconds,
        or the call raises Undecided and the event stays queued. `index` is the address of its
        Qdrant server, `http://host:port`; without it the memories are read from the log. The
        settings must be those of the services. The first use downloads the embedding model.

        Settings are those of the commands: from `memsieve.toml`, or the file `config`, and from
        `MEMSIEVE_` variables; `settings` take precedence, nested as in the file, like `{"embedder":
        {"model": "..."}}`. `policy` is a policy's name or file. `report` receives progress
        messages, one line each; otherwise the logger `memsieve` does, as warnings if a model is
        downloaded.
        """
        self._memory = AsyncMemory(
            store,
            kafka=kafka,
            index=index,
            wait=wait,
            policy=policy,
            settings=settings,
            config=config,
            report=report,
        )
        self._loop = BackgroundLoop()
        self._unused = weakref.finalize(self, _let_go, self._loop, self._memory)
        self._unused.atexit = False  # nothing is lost, and threads end in no order then
        try:
            self._loop.run(self._memory.open())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the store when the calls of other threads have ended. May be called again."""
        self._loop.end(self._memory.close(), wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, text: str, *, scope: str, **fields: Unpack[EventFields]) -> Decision:
        """Add a text, and return the decision: its kind, its reason, its memory.

        A `scope` is a path such as `tenant/user`; nothing is compared across scopes. `fields` are
        those of the `remember` event: `occurred_at`, `event_id`, `confidence`, `metadata` and the
        others of `EventFields`. With a `memory_id`, a name that you choose, a later text with that
        name replaces this one.
        """
        return self._loop.run(self._memory.add(text, scope=scope, **fields))

    def add_many(
        self,
        rows: Iterable[str | Mapping[str, object]],
        *,
        scope: str | None = None,
        progress: Progress = False,
    ) -> list[Decision]:
        """Add many texts, in order, and return a decision for each.

        A row is a text, or a mapping of the fields of `add`; `scope` applies to rows without one.
        All rows are validated before the first is decided on, except that an `event_id` already
        used for another text is only found in its turn. `progress=True` draws a bar on standard
        error. A function is called with the number of rows done and the total, in a thread in which
        it must not use this Memory. Many rows in one call are several times as fast as single
        calls.
        """
        return self._loop.run(self._memory.add_many(rows, scope=scope, progress=progress))

    def update(self, memory_id: str, text: str, **fields: Unpack[AboutText]) -> Decision:
        """Give a live memory a new text, and return the decision.

        The memory keeps its id, and its history has both texts. This needs a memory that `add`
        created, or an event with a `memory_id`. Any other memory is replaced by a new one if the
        policy's `supersede.named_max` allows it; otherwise this raises InvalidRequest.
        """
        return self._loop.run(self._memory.update(memory_id, text, **fields))

    def search(
        self, query: str, *, scope: str, limit: int = LIMIT, deduplicate: bool = True
    ) -> list[SearchResult]:
        """Return the facts of a scope that are nearest to a query, at most `limit`, nearest first.

        Memories of one fact are one result, unless `deduplicate` is false. A result lists the live
        memories that it is in conflict with.
        """
        return self._loop.run(
            self._memory.search(query, scope=scope, limit=limit, deduplicate=deduplicate)
        )

    def recall(
        self, query: str | None = None, *, scope: str, budget: int = BUDGET, across: bool = False
    ) -> str:
        """Return a block of memories for an agent's prompt.

        Without a query the block has lasting and recent memories; with one, the nearest to it. It
        has at most `budget` tokens. With `across`, the scopes below `scope` are included. If
        another live memory contradicts one, a line says so, with both dates.
        """
        return self._loop.run(self._memory.recall(query, scope=scope, budget=budget, across=across))

    def get(self, memory_id: str) -> MemoryRecord:
        """Return a memory as it is now, even if it was retired. Raises NotFound.

        Its `conflicts` are the live memories that contradict it.

        Here, as in every method that takes an id, the first characters of the id are enough.
        """
        return self._loop.run(self._memory.get(memory_id))

    def memories(self, scope: str | None = None, *, retired: bool = False) -> list[MemoryRecord]:
        """Return the live memories of one scope, or of all: by scope, oldest first.

        `retired` adds memories that were replaced, ended or forgotten.
        """
        return self._loop.run(self._memory.memories(scope, retired=retired))

    def explain(self, id: str) -> list[str]:  # noqa: A002 - what it is
        """Explain, line by line, a decision: what was compared, and by which rule.

        The id is that of a decision, an event or a memory. Raises NotFound.
        """
        return self._loop.run(self._memory.explain(id))

    def history(self, memory_id: str) -> list[Version]:
        """Return the versions of a memory, oldest first. Raises NotFound."""
        return self._loop.run(self._memory.history(memory_id))

    def undo(self, decision_id: str, *, author: str | None = None, note: str = "") -> Decision:
        """Reverse a decision: its memories are restored.

        Later decisions on the same memories are undone too, and their events decided on `again`. An
        undo is itself a decision, and can be undone. `author` is the requester, by default
        `reviews.author` or the login name.
        """
        return self._loop.run(self._memory.undo(decision_id, author=author, note=note))

    def pin(self, memory_id: str, *, author: str | None = None, note: str = "") -> Decision:
        """Pin a live memory: it is not merged, replaced or retired until it is unpinned."""
        return self._loop.run(self._memory.pin(memory_id, author=author, note=note))

    def unpin(self, memory_id: str, *, author: str | None = None, note: str = "") -> Decision:
        """Unpin a memory: it may be merged, replaced and retired again."""
        return self._loop.run(self._memory.unpin(memory_id, author=author, note=note))

    def retire(
        self,
        memory_id: str,
        *,
        reason: Ended = "invalid",
        author: str | None = None,
        note: str = "",
    ) -> Decision:
        """Retire a live memory without a successor. An undo restores it.

        `reason` is `expired` (its time is over), `ended` (what it belonged to is over), `invalid`
        (it is not, or no longer, true), `unused` or `harmful`. A pinned memory is refused.
        """
        return self._loop.run(
            self._memory.retire(memory_id, reason=reason, author=author, note=note)
        )

    def rate(
        self,
        memory_id: str,
        *,
        helpful: int = 0,
        harmful: int = 0,
        accessed: int = 0,
        author: str | None = None,
        note: str = "",
    ) -> Decision:
        """Record how often a live memory helped, misled or was read since the last call.

        The counts add up in the memory's `feedback`. A policy may use them to choose the better of
        two memories, and to expire unused ones.
        """
        return self._loop.run(
            self._memory.rate(
                memory_id,
                helpful=helpful,
                harmful=harmful,
                accessed=accessed,
                author=author,
                note=note,
            )
        )

    def reviews(self, scope: str | None = None, *, every: bool = False) -> list[Review]:
        """Return the open questions of one scope, or of all, newest first.

        A policy may ask a person how two memories relate if no judge could settle it. `every` adds
        the closed questions.
        """
        return self._loop.run(self._memory.reviews(scope, every=every))

    def answer(
        self, review_id: str, verdict: Verdict, *, author: str | None = None, note: str = ""
    ) -> Decision:
        """Answer an open question, and return the decision.

        `verdict` is the newer memory's relation to the older: with `same`, `refines` (the newer
        says more) and `refined-by`, one of them stands for both; with `contradicts` the newer
        stays; with `distinct` both stay.
        """
        return self._loop.run(self._memory.answer(review_id, verdict, author=author, note=note))

    def forget(
        self,
        memory_id: str | None = None,
        *,
        scope: str | None = None,
        tenant: str | None = None,
        later: bool = False,
        author: str | None = None,
        note: str = "",
    ) -> Forgotten:
        """Forget a memory, or all memories of a scope or tenant: erase every text that states them.

        This cannot be undone. Other facts that were merged into such a memory are decided on again
        without it. The store's files are rewritten, which takes a while if they are large; `later`
        leaves that to `memsieve store scrub`. A cluster leaves it to Kafka's compaction, and needs
        the setting `forget.key`.
        """
        return self._loop.run(
            self._memory.forget(
                memory_id, scope=scope, tenant=tenant, later=later, author=author, note=note
            )
        )


def _let_go(loop: BackgroundLoop, memory: AsyncMemory) -> None:
    """Close a store that nobody can reach any more, without waiting for that."""
    loop.end(memory.close(), wait=False)
