"""Which wordings a memory keeps: the shown text, and variants that differ from it beyond form.

Variants improve recall: the next paraphrase is found through its nearest wording. So the wordings
with the most words of their own are kept.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from schemas.base import ContentKey, Embedding, MemoryId, ModelId
from schemas.decisions import Change, Ignore, Replace, Supersession, targets_of
from schemas.events import Remember
from schemas.memories import VARIANTS_MAX, Memory, Variant
from streams.model.embedding import Vector, pack
from streams.model.identity import normalised

SOURCES_MAX = 16
"""How many sources of a wording are kept, the first ones. The log has them all."""

_AROUND_WORDS = ".,;:!?\"'()…\u201c\u201d\u2018\u2019"
_ARTICLES = frozenset(["a", "an", "the"])


Outcome = TypeVar("Outcome", bound=Change | Ignore)


@dataclass(frozen=True)
class KeptVariants:
    """The variants of a memory, ordered by when first seen, and how many were folded."""

    variants: tuple[Variant, ...]
    folded: int


def of(memory: Memory) -> list[Variant]:
    """Return every wording of a memory, the shown text first.

    The shown text's count is the memory's, minus those of its variants, but at least 1.
    """
    others = sum(variant.seen for variant in memory.variants)
    shown = Variant.trusted(
        text=memory.text,
        content_key=memory.content_key,
        seen=max(1, memory.observation_count - others),
        sources=memory.sources[:SOURCES_MAX],
        first_seen_at=memory.created_at,
        last_seen_at=memory.last_seen_at,
    )
    return [shown, *memory.variants]


def kept(text: str, wordings: Iterable[Variant]) -> KeptVariants:
    """Return the variants to keep, at most VARIANTS_MAX; the least informative are folded.

    Wordings with the same form are one variant, with the text of the first seen and all counts.
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
    return KeptVariants(tuple(ordered), folded)


def has(memory: Memory, text: str) -> bool:
    """Return whether a text is a wording of a memory, or may be one that was folded."""
    form = form_of(text)
    return bool(memory.folded) or any(form_of(one.text) == form for one in of(memory))


def texts_of(memory: Memory) -> list[str]:
    """Return the texts of all wordings of a memory, the shown one first."""
    return [memory.text, *(variant.text for variant in memory.variants)]


def other_than_shown(memory: Memory, key: ContentKey | None) -> str | None:
    """Return the text of the variant with a content key; None if there is none."""
    return next((one.text for one in memory.variants if one.content_key == key), None)


def with_vectors(
    decision: Outcome, vectors: Mapping[ContentKey, Vector], model: ModelId
) -> Outcome:
    """Return a decision that joins memories with the vectors of its variants added."""
    if not isinstance(decision, Supersession) or not decision.memory.variants:
        return decision
    made = embeddings(decision.memory, vectors, model)
    return decision.model_copy(update={"variant_embeddings": made})


def embeddings(
    memory: Memory, vectors: Mapping[ContentKey, Vector], model: ModelId
) -> tuple[Embedding, ...]:
    """Return the vectors of a memory's variants, in their order."""
    return tuple(pack(vectors[variant.content_key], model) for variant in memory.variants)


def lost(decision: Change, before: Mapping[MemoryId, Memory]) -> int:
    """Return how many wordings a decision dropped from its memory without counting them as folded.

    The words of superseded memories are replaced, not lost. `before` has the memories that the
    decision changes, in their previous state.
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
    """Return the known memories that a decision joins into one."""
    found = [target.memory_id for target in targets_of(decision)]
    if isinstance(decision, Replace):
        after = decision.memory
        found = [identity for identity in found if identity in after.merged_from]
        stays = before.get(after.id)
        found += [after.id] if stays is not None and stays.text == after.text else []
    return [identity for identity in found if identity in before]


def form_of(text: str) -> tuple[str, ...]:
    """Return the words that identify a wording: no case, no surrounding punctuation, no articles.

    Other signs count: "C" is not "C++". If no words are left, the form is the normalised text.
    """
    words = (word.strip(_AROUND_WORDS) for word in normalised(text).split())
    told = tuple(word for word in words if word and word not in _ARTICLES)
    return told or (normalised(text),)


def _united(known: Variant, other: Variant) -> Variant:
    first = min(known, other, key=lambda one: (one.first_seen_at, one.content_key))
    sources = dict.fromkeys([*known.sources, *other.sources])
    return first.with_values(
        seen=known.seen + other.seen,
        sources=tuple(sources)[:SOURCES_MAX],
        first_seen_at=min(known.first_seen_at, other.first_seen_at),
        last_seen_at=max(known.last_seen_at, other.last_seen_at),
    )


def _least_telling(
    shown: Sequence[str], by_form: dict[tuple[str, ...], Variant]
) -> tuple[str, ...]:
    """Return the form with the fewest unique words; ties go to the least seen, then the oldest."""
    told = Counter(word for form in (shown, *by_form) for word in set(form))

    def worth(form: tuple[str, ...]) -> tuple[object, ...]:
        variant = by_form[form]
        own = sum(told[word] == 1 for word in set(form))
        return (own, variant.seen, variant.last_seen_at, variant.content_key)

    return min(by_form, key=worth)
