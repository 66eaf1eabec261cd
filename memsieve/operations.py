"""The operations on memories that every class of memsieve offers, and their contract."""

import weakref
from collections.abc import Iterable, Mapping
from typing import Self, Unpack

from memsieve.asynchronous import AsyncMemory
from memsieve.background import BackgroundLoop
from memsieve.fields import AboutText, EventFields
from memsieve.http_memory import AsyncHttpMemory
from memsieve.progress import Progress
from memsieve.results import Decision, Forgotten, Review, SearchResult, Verdict, Version
from memsieve.rows import BUDGET, LASTING, LIMIT, RECENT
from schemas.events import Ended
from streams.store.app.conflicts import KeptMemory as MemoryRecord


class Operations:
    """The operations on memories, for programs without an event loop.

    Threads may share it. Every failure is a MemsieveError.
    """

    def __init__(self, memory: AsyncMemory | AsyncHttpMemory) -> None:
        self._memory = memory
        self._loop = BackgroundLoop()
        self._unused = weakref.finalize(self, _let_go, self._loop, memory)
        self._unused.atexit = False  # nothing is lost, and threads end in no order then
        try:
            self._loop.run(memory.open())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the store, after calls of other threads have ended. May be called again."""
        self._loop.end(self._memory.close(), wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, text: str, *, scope: str, **fields: Unpack[EventFields]) -> Decision:
        """Add a fact, and return the decision: its kind, why it was made and the memory.

        A `scope` is a path such as `tenant/user`; memories are compared only within a scope.
        `fields` are those of the `remember` event, listed in `EventFields`. A later text with the
        same `memory_id`, a name that you choose, replaces this one.
        """
        return self._loop.run(self._memory.add(text, scope=scope, **fields))

    def add_many(
        self,
        rows: Iterable[str | Mapping[str, object]],
        *,
        scope: str | None = None,
        progress: Progress = False,
    ) -> list[Decision]:
        """Add facts in order, and return a decision for each; much faster than one by one.

        A row is a text, or a mapping of the fields of `add`; `scope` applies to rows without one.
        All rows are validated before the first is decided on; only an `event_id` that was used for
        another text is found in its turn. `progress=True` draws a bar on standard error. A function
        is called with the number done and the total, from a thread in which it must not call this
        Memory.
        """
        return self._loop.run(self._memory.add_many(rows, scope=scope, progress=progress))

    def update(
        self, memory_id: str, text: str, *, scope: str | None = None, **fields: Unpack[AboutText]
    ) -> Decision:
        """Give a live memory a new text, and return the decision.

        A memory that `add` created, or an event with a `memory_id`, keeps its id, and its history
        shows both texts. Any other memory is replaced by a new one. Fields that are omitted keep
        their values. A pinned memory is refused.
        """
        return self._loop.run(self._memory.update(memory_id, text, scope=scope, **fields))

    def search(
        self,
        query: str,
        *,
        scope: str | None = None,
        limit: int = LIMIT,
        deduplicate: bool = True,
    ) -> list[SearchResult]:
        """Return the facts of a scope nearest to a query, at most `limit`, nearest first.

        Without a `scope`, that is the only one that has memories; InvalidRequest names some if
        there are several. Memories of one fact come as one result, unless `deduplicate` is false. A
        result lists the live memories that contradict it in `conflicts`. If the scope has no
        memory, `report`, or the logger `memsieve` at level INFO, receives a line that names some
        that have.
        """
        return self._loop.run(
            self._memory.search(query, scope=scope, limit=limit, deduplicate=deduplicate)
        )

    def recall(
        self,
        query: str | None = None,
        *,
        scope: str | None = None,
        budget: int = BUDGET,
        lasting: int = LASTING,
        recent: int = RECENT,
        across: bool = False,
        patterns: bool = False,
    ) -> str:
        """Return the memories that an agent needs, as a block of text for its prompt.

        Without a query, the block shows up to `lasting` pinned, core and permanent memories and
        dangers, and up to `recent` of the others, the newest first; with one, the `lasting +
        recent` memories nearest to it. It has at most `budget` tokens: what does not fit is left
        out and counted. Without a `scope`, it is as for `search`. `across` includes the scopes
        below it; then, `patterns` shows what many of them state in similar words. A memory that
        contradicts another live one is marked, with both dates. The block is empty if not even its
        heading fits. If there is no memory at all, a line says so as for `search`.
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

    def get(self, memory_id: str, *, scope: str | None = None) -> MemoryRecord:
        """Return the current version of a memory, live or retired.

        Raises NotFound, also for a forgotten one.

        Its `conflicts` are the live memories that contradict it. Here, as in every method, a memory
        is named by its id or the beginning of it, by the `memory_id` that its producer gave it, or
        by the id of an event; `scope` is that of a name which several scopes have. InvalidRequest
        lists the ids if several memories are meant.
        """
        return self._loop.run(self._memory.get(memory_id, scope=scope))

    def memories(
        self, scope: str | None = None, *, across: bool = False, retired: bool = False
    ) -> list[MemoryRecord]:
        """Return the live memories of one scope, or of all, by scope and oldest first.

        `across` includes the scopes below `scope`, and `retired` memories that were replaced or
        ended.
        """
        return self._loop.run(self._memory.memories(scope, across=across, retired=retired))

    def explain(self, id: str, *, scope: str | None = None) -> list[str]:  # noqa: A002 - what it is
        """Explain a decision, an event or a memory by its id, in lines. Raises NotFound.

        The lines tell what it was compared with, and which rule applied.
        """
        return self._loop.run(self._memory.explain(id, scope=scope))

    def history(self, memory_id: str, *, scope: str | None = None) -> list[Version]:
        """Return the versions of a memory, oldest first. Raises NotFound."""
        return self._loop.run(self._memory.history(memory_id, scope=scope))

    def undo(self, decision_id: str, *, author: str | None = None, note: str = "") -> Decision:
        """Undo a decision, and restore its memories.

        Later decisions on the same memories are undone too, and their events decided again
        (`again`). An undo can itself be undone. `author` is who asks; by default the setting
        `reviews.author`, or the login name.
        """
        return self._loop.run(self._memory.undo(decision_id, author=author, note=note))

    def pin(
        self, memory_id: str, *, scope: str | None = None, author: str | None = None, note: str = ""
    ) -> Decision:
        """Pin a live memory: it is not merged, replaced or retired until it is unpinned."""
        return self._loop.run(self._memory.pin(memory_id, scope=scope, author=author, note=note))

    def unpin(
        self, memory_id: str, *, scope: str | None = None, author: str | None = None, note: str = ""
    ) -> Decision:
        """Unpin a memory: it may be merged, replaced and retired again."""
        return self._loop.run(self._memory.unpin(memory_id, scope=scope, author=author, note=note))

    def retire(
        self,
        memory_id: str,
        *,
        scope: str | None = None,
        reason: Ended = "invalid",
        author: str | None = None,
        note: str = "",
    ) -> Decision:
        """Retire a live memory without a successor; an undo restores it.

        `reason` is `expired` (its time is over), `ended` (what it belonged to is over), `invalid`
        (it is not, or no longer, true), `unused` or `harmful`. A pinned memory is refused.
        """
        return self._loop.run(
            self._memory.retire(memory_id, scope=scope, reason=reason, author=author, note=note)
        )

    def distinct(
        self,
        memory_id: str,
        other_id: str,
        *,
        scope: str | None = None,
        author: str | None = None,
        note: str = "",
    ) -> Decision:
        """Keep two live memories of a scope that are in conflict: both are right.

        They are no longer in conflict while both keep their texts, and never merged; an undo takes
        that back.
        """
        return self._loop.run(
            self._memory.distinct(memory_id, other_id, scope=scope, author=author, note=note)
        )

    def rate(
        self,
        memory_id: str,
        *,
        scope: str | None = None,
        helpful: int = 0,
        harmful: int = 0,
        accessed: int = 0,
        author: str | None = None,
        note: str = "",
    ) -> Decision:
        """Record how often a live memory helped, misled or was read since the last call.

        The counts add up in the memory's `feedback`. A policy may use them to choose which of two
        memories stays, and which to retire as unused.
        """
        return self._loop.run(
            self._memory.rate(
                memory_id,
                scope=scope,
                helpful=helpful,
                harmful=harmful,
                accessed=accessed,
                author=author,
                note=note,
            )
        )

    def reviews(self, scope: str | None = None, *, every: bool = False) -> list[Review]:
        """Return the open questions of one scope, or of all, newest first.

        A question is a pair of memories that no judge could settle and the policy leaves to a
        person. `every` includes closed questions.
        """
        return self._loop.run(self._memory.reviews(scope, every=every))

    def answer(
        self, review_id: str, verdict: Verdict, *, author: str | None = None, note: str = ""
    ) -> Decision:
        """Answer an open question, and return the decision.

        `verdict` says what the newer memory is to the older: with `same`, `refines` (it says more)
        and `refined-by` (it says less), one memory stands for both; with `contradicts` the newer
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
        """Forget a memory, or all of a scope or tenant, and erase every text that states it.

        This cannot be undone. What else was merged into such a memory is decided again without it.
        The store's files are rewritten, which takes a while if they are large; with `later`,
        `memsieve store scrub` does that. On a cluster, Kafka's compaction erases the records, and
        the setting `forget.key` is needed.
        """
        return self._loop.run(
            self._memory.forget(
                memory_id, scope=scope, tenant=tenant, later=later, author=author, note=note
            )
        )


def _let_go(loop: BackgroundLoop, memory: AsyncMemory | AsyncHttpMemory) -> None:
    """Close a store that nobody can reach any more, without waiting for that."""
    loop.end(memory.close(), wait=False)
