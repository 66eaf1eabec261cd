"""How an event gives a live memory a new text: by its name, by superseding it, or by an answer."""

from collections.abc import Callable, Mapping

from schemas.decisions import Marker
from schemas.events import Answer, Event, Remember, Seen
from schemas.memories import Memory
from streams.model.identity import (
    answer_id,
    content_key,
    decision_id,
    memory_id,
    named_memory_id,
    review_id,
)
from streams.model.policy import Policy
from streams.store.app.failures import UsageError
from streams.store.app.reading import StoreReader


async def renewing(
    reader: StoreReader,
    memory: Memory,
    policy: Policy,
    author: str,
    event: Callable[[Mapping[str, object]], Remember],
) -> list[Event]:
    """Return the events that let a memory say something else.

    `event` makes the event from the fields that address the memory: its producer's name, or else its
    id as superseded. Where the policy lets no event supersede, `author` answers that the new memory
    stands in place of the old one. Raises UsageError if the memory is pinned.
    """
    if memory.pinned:
        raise UsageError(f"memory {memory.id} is pinned; unpin it first")
    if (name := await _name(reader, memory)) is not None:
        return [event({"memory_id": name})]
    said = event({"supersedes": [memory.id], "memory_id": None})
    if policy.rules(memory.scope).supersede.named_max:
        return [said]
    made = memory_id(decision_id(said.scope, said.event_id))
    new = Seen(memory_id=made, content_key=content_key(said.scope, said.text))
    return [said, stands(said, new, memory, author)]


async def _name(reader: StoreReader, memory: Memory) -> str | None:
    """Return the name that a memory's producer gave it."""
    for decision in await reader.on_memories([memory.id]):
        event = None if isinstance(decision, Marker) else decision.event
        name = event.memory_id if isinstance(event, Remember) else None
        if name is not None and named_memory_id(memory.scope, name) == memory.id:
            return name
    return None


def stands(event: Remember, new: Seen, memory: Memory, author: str) -> Answer:
    """Return the answer that a new memory stands in place of an older one."""
    review = review_id(decision_id(event.scope, event.event_id), memory.id)
    return Answer(
        event_id=answer_id(review, f"contradicts {new.memory_id}", author),
        scope=event.scope,
        review_id=review,
        newer=new,
        older=Seen(memory_id=memory.id, content_key=memory.content_key),
        verdict="contradicts",
        author=author,
        occurred_at=event.occurred_at,
    )
