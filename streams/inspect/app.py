"""Explanations in words: a decision's reason, its story, a memory's life."""

from collections.abc import AsyncIterator, Sequence

from schemas.base import MemoryId
from schemas.decisions import Change, Decision, Ignore, Marker, Replace
from schemas.events import Answer, Remember
from schemas.memories import Standing
from streams.changes.core.history import standing
from streams.stage.core.explain import explain, outcome, why
from streams.stage.core.ledger import touched
from streams.stage.flow.decisions import CountedDecision
from streams.store.app.reading import IdentifiedEntries, StoreReader

_AGAIN_MAX = 10


async def explained(reader: StoreReader, found: IdentifiedEntries) -> list[str]:
    """Return the story of what an id names, line by line."""
    if found.what == "memory":
        return [line async for line in _memory(reader, MemoryId(found.id), found.entries)]
    return [line async for line in _decisions(reader, found.entries)]


async def story(reader: StoreReader, decision: Decision) -> list[str]:
    """Return the story of one decision, line by line, with the texts it was based on."""
    near = () if isinstance(decision, Marker) else decision.evidence.neighbours
    concerned = [*touched(decision), *(neighbour.memory_id for neighbour in near)]
    answers = await _answers(reader, decision)
    return explain(decision, await reader.versions(concerned), reader.policy(decision), answers)


async def _answers(reader: StoreReader, decision: Decision) -> list[Replace]:
    """Return the answers by which a memory replaced those that its event asked to replace."""
    if not isinstance(decision, Change) or not isinstance(decision.event, Remember):
        return []
    named = {MemoryId(name) for name in decision.event.supersedes}
    return [
        one
        for one in await reader.on_memories([*named] if decision.evidence.refused else [])
        if isinstance(one, Replace)
        and isinstance(one.event, Answer)
        and one.memory.id == decision.memory.id
        and not named.isdisjoint(touched(one))
    ]


async def _decisions(reader: StoreReader, entries: Sequence[CountedDecision]) -> AsyncIterator[str]:
    """Yield the story of each decision, and one line for all repeated deliveries."""
    stories = [entry for entry in entries if not isinstance(entry.decision, Ignore)]
    for count, entry in enumerate(stories or entries[:1]):
        if count:
            yield ""
        for line in await story(reader, entry.decision):
            yield line
    ignored = (one.position for one in entries if isinstance(one.decision, Ignore))
    again = [f"{at.partition}/{at.offset}" for at in ignored]
    if stories and again:
        yield ""
        places, rest = ", ".join(again[:_AGAIN_MAX]), len(again) - _AGAIN_MAX
        beyond = f" and {rest:,} more" if rest > 0 else ""
        yield f"delivered again and ignored {len(again):,}x (partition/offset {places}{beyond})"


async def _memory(
    reader: StoreReader, identity: MemoryId, entries: Sequence[CountedDecision]
) -> AsyncIterator[str]:
    """Yield a memory's life: its current state, and every decision that led to it."""
    stored = await reader.stored(identity)
    if stored is not None:
        memory = stored.memory
        yield f"memory     {memory.id}"
        yield f"scope      {memory.scope}"
        if memory.status is not Standing.FORGOTTEN:
            yield f'it says    "{memory.text}"'
        for variant in memory.variants:
            yield f'also       "{variant.text}" (seen {variant.seen}x)'
        if memory.folded:
            yield f"           and {memory.folded:,} more wordings, kept only in the log"
        yield f"version    {memory.version}, seen {memory.observation_count}x"
        if memory.superseded:
            yield f"retired    {standing(memory)}"
        yield ""
    yield "its decisions, oldest first; explain one by its id:"
    for entry in entries:
        decision = entry.decision
        yield f"  {decision.decision_id}  {decision.kind}: {outcome(decision)}"
        yield f"    because {why(decision)}"
