"""How an event gives a live memory a new text: by its name, by superseding it, or by an answer."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Literal

from schemas.decisions import Decision, Insert, Marker, Reinforce, Replace
from schemas.events import Answer, Remember, Seen
from schemas.memories import Memory
from streams.model.identity import (
    content_key,
    decision_id,
    memory_id,
    named_memory_id,
    review_id,
    spelt_alike,
    update_id,
)
from streams.model.observed import believed
from streams.model.ports.index import Index
from streams.store.app.client import Client, Response
from streams.store.app.failures import UsageError
from streams.store.app.reading import StoreReader


async def renewing(
    reader: StoreReader, memory: Memory, event: Callable[[Mapping[str, object]], Remember]
) -> Remember:
    """Return the event that lets a memory say something else.

    `event` makes it from the fields that address the memory. `renewed` has it decided on. Raises
    UsageError if the memory is pinned.
    """
    return event(await addressing(reader, unpinned(memory)))


async def addressing(reader: StoreReader, memory: Memory) -> dict[str, object]:
    """Return the fields by which an event gives a memory a new text: its name, else as superseded."""
    name = await _name(reader, memory)
    return {"memory_id": name} if name else {"memory_id": None, "supersedes": (memory.id,)}


async def renewed(
    client: Client, said: Remember, memory: Memory, author: Callable[[], str]
) -> list[Response]:
    """Have the event of an update decided on, and one memory stand in the end.

    That takes an answer where the policy lets no event supersede, and where another memory has the
    words already. `author` names who gives it.
    """
    [response] = await client.submit([said])
    answer = (
        None
        if response.refused
        else await _settling(client, said, response.decision, memory, author)
    )
    return [response, *(await client.submit([answer]) if answer else ())]


async def _settling(
    client: Client,
    said: Remember,
    decision: Decision | None,
    memory: Memory,
    author: Callable[[], str],
) -> Answer | None:
    """Return the answer after which an updated memory does not stand beside another one."""
    match decision:
        case None if said.supersedes:  # it is queued behind the event, and too late if needless
            return _stands(said, memory, author())
        case Insert():
            return _stands(said, memory, author())
        case Reinforce(memory=known) if known.id != memory.id:
            return _stands(said, memory, author(), known)
        case Replace(memory=after) if after.id == memory.id:
            twin = await _twin(await client.index(), after)
            return None if twin is None else _joins(said, after, twin, author())
        case _:
            return None


async def _twin(index: Index, memory: Memory) -> Memory | None:
    """Return another live memory with the same text that may be retired for it; None if none."""
    key = memory.content_key
    found = (await index.with_content([key])).get(key, ())
    others = (one.memory for one in found if one.memory.id != memory.id)
    return next((one for one in others if one.content_key == key and not one.pinned), None)


def says_already(memory: Memory, text: object, others: Collection[str] = ()) -> str | None:
    """Return that an update would change nothing, if so: of the text, and nothing else to say.

    `others` are the fields that it has besides.
    """
    same = isinstance(text, str) and spelt_alike(memory.text, text) and not others
    return f"memory {memory.id} says this already" if same else None


def unpinned(memory: Memory) -> Memory:
    """Return a memory that may change. Raises UsageError if it is pinned."""
    if memory.pinned:
        raise UsageError(f"memory {memory.id} is pinned; unpin it first")
    return memory


def told_after(memory: Memory, now: datetime) -> datetime:
    """Return the time of an event that corrects a memory: now, and not before it was seen last."""
    return max(now, believed(memory.last_seen_at, now))


async def _name(reader: StoreReader, memory: Memory) -> str | None:
    """Return the name that a memory's producer gave it."""
    for decision in await reader.on_memories([memory.id]):
        event = None if isinstance(decision, Marker) else decision.event
        name = event.memory_id if isinstance(event, Remember) else None
        if name is not None and named_memory_id(memory.scope, name) == memory.id:
            return name
    return None


def _stands(event: Remember, memory: Memory, author: str, known: Memory | None = None) -> Answer:
    """Return the answer that a new memory stands in place of an older one.

    The new one is what the event made, or the memory that was known to say the same.
    """
    made = memory_id(decision_id(event.scope, event.event_id))
    new = (
        Seen(memory_id=made, content_key=content_key(event.scope, event.text))
        if known is None
        else Seen.of(known)
    )
    return _answer(event, new, Seen.of(memory), "contradicts", author)


def _joins(event: Remember, memory: Memory, twin: Memory, author: str) -> Answer:
    """Return the answer that a memory stands for another one, whose text an event gave it."""
    return _answer(event, Seen.of(twin), Seen.of(memory), "same", author)


def _answer(
    event: Remember,
    newer: Seen,
    older: Seen,
    verdict: Literal["contradicts", "same"],
    author: str,
) -> Answer:
    review = review_id(decision_id(event.scope, event.event_id), older.memory_id)
    return Answer(
        event_id=update_id(review, verdict, newer.memory_id, author),
        scope=event.scope,
        review_id=review,
        newer=newer,
        older=older,
        verdict=verdict,
        author=author,
        occurred_at=event.occurred_at,
    )
