"""The source documents' own examples, decided on as a user would have them decided.

`PENDING` marks an example that today's judges or merges refuse: it must fail, so that whoever mends
it has to take the mark away.
"""

from collections.abc import Sequence

import pytest

from schemas.events import Remember
from schemas.memories import Memory
from streams.consolidate.app.consolidating import Consolidation, ScopeSelection
from streams.consolidate.world import Passes
from streams.judges.built_in import BuiltInVerifier
from streams.judges.language import foreign_language
from streams.stage.flow.judging import Judging
from streams.store.app import policies
from streams.store.app.dry_run import DecidingDependencies, DryRunClient, over
from streams.store.app.product_settings import ConsolidateSettings
from streams.text.reading import TextAnalyzer
from tests.builders import event, later
from tests.fakes.clock import StandingClock
from tests.support.encoding.models import default_embedder
from tests.support.stage.deciding import lexicon

_LONG_AFTER_S = 1_000 * 3_600
"""When a pass is due: a scope in which something was said just now waits."""

PENDING = pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="the judge is not sure enough of it"
)


async def kept(texts: Sequence[str], policy: str = "default") -> list[Memory]:
    """Return what a policy keeps of texts of one scope: the real model, the judge that we ship."""
    readings = TextAnalyzer(lexicon(), foreign_language)
    judging = Judging(readings, {"built-in": BuiltInVerifier(readings)})
    client = DryRunClient(policies.load(policy), DecidingDependencies(default_embedder(), judging))
    said = [
        event(text, scope="user/ana", event_id=f"e{at}", occurred_at=later(at))
        for at, text in enumerate(texts)
    ]
    await client.submit(said)
    return [one.memory async for one in (await client.index()).scan() if one.memory.live]


async def consolidated(said: Sequence[Remember], policy: str) -> list[Memory]:
    """Return what a pass leaves of events that were all kept: the real model, no judge."""
    means = DecidingDependencies(
        default_embedder(), Judging(TextAnalyzer(lexicon(), foreign_language), {})
    )
    apart = DryRunClient(policies.load("keep-both"), means)
    await apart.submit(said)
    rules, clock = policies.load(policy), StandingClock()
    clock.move(_LONG_AFTER_S)
    client = await over(await apart.index(), rules, means)
    settings = ConsolidateSettings(memories_min=0)
    await Consolidation(client, rules, means.judging, settings, Passes(None), clock).run(
        ScopeSelection()
    )
    return [one.memory async for one in (await client.index()).scan() if one.memory.live]


async def is_one(texts: Sequence[str], policy: str = "default") -> None:
    """Assert that texts became one memory that counts them all."""
    memories = await kept(texts, policy)
    assert [memory.observation_count for memory in memories] == [len(texts)]


async def are_apart(texts: Sequence[str], policy: str = "default") -> None:
    """Assert that each text is a memory of its own."""
    memories = await kept(texts, policy)
    assert sorted(memory.text for memory in memories) == sorted(texts)
