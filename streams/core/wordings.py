"""Which wordings a memory keeps: the shown text, and variants that differ from it in more than form.

A variant is a way in: the next paraphrase is found by the wording that it is nearest to. So the
wordings that are kept are those that say most that no other says.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from schemas.base import ContentKey, Embedding, MemoryId, ModelId
from schemas.decisions import Change, Ignore, Insert, Merge, Reinforce, Replace
from schemas.events import Remember
from schemas.memories import VARIANTS_MAX, Memory, Variant
from streams.core.embedding import Vector, pack
from streams.core.identity import normalised

SOURCES_MAX = 16
"""Of those who worded something so, the first are kept. The log has them all."""

_AROUND_WORDS = ".,;:!?\"'()…\u201c\u201d\u2018\u2019"
_ARTICLES = frozenset(["a", "an", "the"])


Outcome = TypeVar("Outcome", bound=Change | Ignore)


@dataclass(frozen=True)
class Kept:
    """The variants of a memory, in the order in which they were first seen; how many were folded."""

    variants: tuple[Variant, ...]
    folded: int


def of(memory: Memory) -> list[Variant]:
    """Return every wording of a memory, the shown text first.

    The shown text was seen as often as the memory, less what its variants were seen.
    """
    others = sum(variant.seen for variant in memory.variants)
    shown = Variant(
        text=memory.text,
        content_key=memory.content_key,
        seen=max(1, memory.observation_count - others),
        sources=memory.sources[:SOURCES_MAX],
        first_seen_at=memory.created_at,
        last_seen_at=memory.last_seen_at,
    )
    return [shown, *memory.variants]


def kept(text: str, wordings: Iterable[Variant]) -> Kept:
    """Return what is kept beside the shown text: at most VARIANTS_MAX, the least telling folded.

    Wordings of one form are one: the first seen gives the words, all are counted.
    """
    by_form: dict[tuple[str, ...], Variant] = {}
    for wording in wordings:
        known = by_form.get(form := form_of(wording.text))
        by_form[form] = wording if known is None else _united(known, wording)
    shown = form_of(text)
    by_form.pop(shown, None)
    folded = 0
    while len(by_form) > VARIANTS_MAX:
        del by_form[_least_telling(shown, by_form)]
        folded += 1
    ordered = sorted(by_form.values(), key=lambda one: (one.first_seen_at, one.content_key))
    return Kept(tuple(ordered), folded)


def has(memory: Memory, text: str) -> bool:
    """Tell whether a text is a wording of a memory; where some were folded, it may have been one."""
    form = form_of(text)
    return bool(memory.folded) or any(form_of(one.text) == form for one in of(memory))


def texts_of(memory: Memory) -> list[str]:
    """Return the texts of all wordings of a memory, the shown one first."""
    return [memory.text, *(variant.text for variant in memory.variants)]


def other_than_shown(memory: Memory, key: ContentKey | None) -> str | None:
    """Return the text of the variant with a content key; None where none has it."""
    return next((one.text for one in memory.variants if one.content_key == key), None)


def with_vectors(
    decision: Outcome, vectors: Mapping[ContentKey, Vector], model: ModelId
) -> Outcome:
    """Let a decision that makes one memory of several carry the vectors of its variants."""
    if not isinstance(decision, Merge | Replace) or not decision.memory.variants:
        return decision
    made = embeddings(decision.memory, vectors, model)
    return decision.model_copy(update={"variant_embeddings": made})


def embeddings(
    memory: Memory, vectors: Mapping[ContentKey, Vector], model: ModelId
) -> tuple[Embedding, ...]:
    """Return the vectors of a memory's variants, in their order."""
    return tuple(pack(vectors[variant.content_key], model) for variant in memory.variants)


def lost(decision: Change, before: Mapping[MemoryId, Memory]) -> int:
    """Return how many wordings a decision has left out of its memory, and has not counted as folded.

    What it says in the place of something else is not lost but replaced. `before` has the memories
    that it changes, as they were.
    """
    after, event = decision.memory, decision.event
    sources = [before[identity] for identity in _united_by(decision, before)]
    said = {form_of(text) for memory in sources for text in texts_of(memory)}
    if isinstance(event, Remember):
        said.add(form_of(event.text))
    missing = said.difference(map(form_of, texts_of(after)))
    folded = after.folded - sum(memory.folded for memory in sources)
    return max(0, len(missing) - max(0, folded))


def _united_by(decision: Change, before: Mapping[MemoryId, Memory]) -> list[MemoryId]:
    """Return the memories that a decision makes one, as far as they are known."""
    match decision:
        case Insert():
            return []
        case Reinforce():
            found = [decision.target.memory_id]
        case Merge():
            found = [target.memory_id for target in decision.targets]
        case Replace():
            after = decision.memory
            found = [t.memory_id for t in decision.targets if t.memory_id in after.merged_from]
            stays = before.get(after.id)
            found += [after.id] if stays is not None and stays.text == after.text else []
    return [identity for identity in found if identity in before]


def form_of(text: str) -> tuple[str, ...]:
    """Return a text's words as two wordings are compared: no case, punctuation or article.

    Signs inside words count: "C" is not "C++". A text without words has the form of its characters.
    """
    words = (word.strip(_AROUND_WORDS) for word in normalised(text).split())
    told = tuple(word for word in words if word and word not in _ARTICLES)
    return told or (normalised(text),)


def _united(known: Variant, other: Variant) -> Variant:
    first = min(known, other, key=lambda one: (one.first_seen_at, one.content_key))
    sources = dict.fromkeys([*known.sources, *other.sources])
    return first.model_copy(
        update={
            "seen": known.seen + other.seen,
            "sources": tuple(sources)[:SOURCES_MAX],
            "first_seen_at": min(known.first_seen_at, other.first_seen_at),
            "last_seen_at": max(known.last_seen_at, other.last_seen_at),
        }
    )


def _least_telling(
    shown: Sequence[str], by_form: dict[tuple[str, ...], Variant]
) -> tuple[str, ...]:
    """Return the form with the fewest words of its own; of several the least seen, the oldest."""
    told = Counter(word for form in (shown, *by_form) for word in set(form))

    def worth(form: tuple[str, ...]) -> tuple[object, ...]:
        variant = by_form[form]
        own = sum(told[word] == 1 for word in set(form))
        return (own, variant.seen, variant.last_seen_at, variant.content_key)

    return min(by_form, key=worth)
