"""A store of memories for programs without an event loop."""

import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from memsieve.asynchronous import BUDGET, LASTING, LIMIT, RECENT, WAIT, AsyncMemory
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
    """A store of memories in a directory, which decides on everything that it is told.

    ```python
    with Memory("notes") as memory:
        decision = memory.add("Ana lives in Lyon.", scope="acme/ana")
        print(decision.kind, decision.reason)
    ```

    `Memory(kafka="localhost:9092", index="http://localhost:6333")` works on a cluster.

    A store is open, and this process alone may write it, until `close` or the end of the `with`. A
    program that ends without either loses nothing: what a call has returned is on disk. Any number
    of threads may use one Memory. Every failure is a MemsieveError.
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
        """Open the store, `memsieve-store` where none is named, or make it.

        `kafka`, as `host:port`, names a cluster instead: its services decide, in up to `wait`
        seconds, else the call raises Undecided and the event stays queued. `index` is the address
        of its Qdrant server, `http://host:port`; without one the memories are read from the log. The
        settings have to be those of the services. The first time the embedding model is fetched.

        Settings are those of the commands: from `memsieve.toml`, or the file `config`, and from
        `MEMSIEVE_` variables; `settings` go first, nested as in the file, like
        `{"embedder": {"model": "..."}}`. `policy` is a policy's name or file. `report` is told, a
        line each, what is waited for; else the logger `memsieve` is, as a warning where a model is
        fetched.
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
        """Let the store go, after what other threads are doing. May be called again."""
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
        """Tell the store something, and return what it decided: the kind, the reason, the memory.

        A `scope` is a path such as `tenant/user`; nothing is compared across scopes. `fields` are
        those of the `remember` event: `occurred_at`, `event_id`, `confidence`, `metadata` and the
        others of `EventFields`. With a `memory_id`, a name of your own, a later text of that name
        replaces this one.
        """
        return self._loop.run(self._memory.add(text, scope=scope, **fields))

    def add_many(
        self,
        rows: Iterable[str | Mapping[str, object]],
        *,
        scope: str | None = None,
        progress: Progress = False,
    ) -> list[Decision]:
        """Tell the store many things, in their order, and return a decision for each.

        A row is a text, or a mapping of the fields of `add`; `scope` is that of rows without one.
        All are checked before the first is decided on; an `event_id` that an earlier event had with
        another text is found out only in its turn. `progress=True` draws a bar on standard error. A
        function is told how many are done, and of how many, in a thread where it must not call this
        Memory. Many rows at once are several times as fast as one after the other.
        """
        return self._loop.run(self._memory.add_many(rows, scope=scope, progress=progress))

    def update(self, memory_id: str, text: str, **fields: Unpack[AboutText]) -> Decision:
        """Give a live memory another text, and return the decision.

        It keeps its id, and its history has both texts. That takes a memory that `add` has made, or
        an event with a `memory_id`. Of any other a new memory takes the place, where the policy
        allows that by `supersede.named_max`; else this raises InvalidRequest.
        """
        return self._loop.run(self._memory.update(memory_id, text, **fields))

    def search(
        self, query: str, *, scope: str, limit: int = LIMIT, deduplicate: bool = True
    ) -> list[SearchResult]:
        """Return what is nearest to a query in one scope, at most `limit` facts, nearest first.

        Memories that are one fact are one result, unless `deduplicate` is false. A result says which
        live memories it is in conflict with.
        """
        return self._loop.run(
            self._memory.search(query, scope=scope, limit=limit, deduplicate=deduplicate)
        )

    def recall(
        self,
        query: str | None = None,
        *,
        scope: str,
        budget: int = BUDGET,
        lasting: int = LASTING,
        recent: int = RECENT,
        across: bool = False,
        patterns: bool = False,
    ) -> str:
        """Return the memories that an agent needs, as a block of text for its prompt.

        Without a query, the block shows up to `lasting` core and permanent memories and dangers, and
        up to `recent` of the others, the newest first; with one, the `lasting + recent` memories
        nearest to it. It has at most `budget` tokens: what does not fit is left out and counted.
        `across` includes the scopes below `scope`; with it, `patterns` shows what many of them state
        in similar words. A memory that contradicts another live one is marked, with both dates. The
        block is empty if not even its heading fits.
        """
        return self._loop.run(
            self._memory.recall(
                query,
                scope=scope,
                budget=budget,
                lasting=lasting,
                recent=recent,
                across=across,
                patterns=patterns,
            )
        )

    def get(self, memory_id: str) -> MemoryRecord:
        """Return a memory as it is now, also one that was retired. Raises NotFound.

        Its `conflicts` are the live memories that say otherwise.

        Here, as in every method that takes an id, the beginning of the id will do.
        """
        return self._loop.run(self._memory.get(memory_id))

    def memories(self, scope: str | None = None, *, retired: bool = False) -> list[MemoryRecord]:
        """Return the live memories of one scope, or of all: by scope, oldest first.

        `retired` adds those in whose place others stand, that ended, or that were forgotten.
        """
        return self._loop.run(self._memory.memories(scope, retired=retired))

    def explain(self, id: str) -> list[str]:  # noqa: A002 - what it is
        """Show, line by line, why something was decided: what it was compared with, and by which rule.

        The id is that of a decision, an event or a memory. Raises NotFound.
        """
        return self._loop.run(self._memory.explain(id))

    def history(self, memory_id: str) -> list[Version]:
        """Return the versions of a memory, oldest first. Raises NotFound."""
        return self._loop.run(self._memory.history(memory_id))

    def undo(self, decision_id: str, *, author: str | None = None, note: str = "") -> Decision:
        """Take a decision back: its memories are again what they were.

        What was decided since on the same memories is undone, too, and decided `again`. An undo is
        a decision as well, and can be undone. `author` says who asks, else `reviews.author` or the
        login name.
        """
        return self._loop.run(self._memory.undo(decision_id, author=author, note=note))

    def pin(self, memory_id: str, *, author: str | None = None, note: str = "") -> Decision:
        """Keep a live memory as it is: it is not merged, replaced nor ended until it is unpinned."""
        return self._loop.run(self._memory.pin(memory_id, author=author, note=note))

    def unpin(self, memory_id: str, *, author: str | None = None, note: str = "") -> Decision:
        """Let a pinned memory go: it may be merged, replaced and ended again."""
        return self._loop.run(self._memory.unpin(memory_id, author=author, note=note))

    def retire(
        self,
        memory_id: str,
        *,
        reason: Ended = "invalid",
        author: str | None = None,
        note: str = "",
    ) -> Decision:
        """End a live memory, and none takes its place. An undo brings it back.

        `reason` is `expired` (its time is over), `ended` (what it belonged to is over), `invalid`
        (it is not true, or no longer), `unused` or `harmful`. A pinned memory is refused.
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
        """Tell how often a live memory helped, misled or was read since that was told last.

        The memory's `feedback` adds it up. A policy may let it decide which of two memories
        stands, and which end unused.
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

        A policy may put to a person what two memories are that no judge could settle. `every`
        adds the questions that are closed.
        """
        return self._loop.run(self._memory.reviews(scope, every=every))

    def answer(
        self, review_id: str, verdict: Verdict, *, author: str | None = None, note: str = ""
    ) -> Decision:
        """Settle an open question, and return what was decided.

        `verdict` is what the newer memory is to the older one: with `same`, `refines` (it says
        more) and `refined-by` one of them goes on for both, with `contradicts` the newer one
        stands, with `distinct` both stay.
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
        """Forget a memory, or all of a scope or a tenant: nothing that is kept says it any more.

        This cannot be undone. What else was merged into such a memory is decided again without it.
        The store's files are rewritten, which takes a while if they are large; `later` leaves
        that to `memsieve store scrub`. A cluster leaves it to Kafka's compaction, and needs the
        setting `forget.key`.
        """
        return self._loop.run(
            self._memory.forget(
                memory_id, scope=scope, tenant=tenant, later=later, author=author, note=note
            )
        )


def _let_go(loop: BackgroundLoop, memory: AsyncMemory) -> None:
    """Close a store that nobody can reach any more, without waiting for that."""
    loop.end(memory.close(), wait=False)
