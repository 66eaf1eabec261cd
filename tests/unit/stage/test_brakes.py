"""The brake at work in the owner: merges become inserts, by themselves, and only for a while."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.base import ScopeName
from schemas.decisions import Decision, Insert, Merge, Reason, Replace
from schemas.events import Remember
from streams.model.embedding import Vector
from streams.model.identity import named_memory_id
from streams.stage.core.brake import WINDOW
from streams.store.world.metrics import Metrics
from tests.builders import at_cosine, event, later, policy, unit
from tests.support.stage.bench import Bench, evidence_of

ANA, BEN = ScopeName("acme/ana"), ScopeName("acme/ben")
RULES = policy(
    brake={"decisions_min": 10, "removals_max": 0.5},
    supersede={"named_max": 1},
    without_verdict={"match": "keep-both", "review": "keep-both"},
)
"""What retires memories is named by the producer: likeness keeps everything here."""


class Alike(dict[str, Vector]):
    """Gives every text the same vector."""

    def __init__(self) -> None:
        super().__init__({"": unit(1)})

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str)

    def __missing__(self, text: str) -> Vector:
        return unit(1)


class Told:
    """Makes a scope's events: new facts, facts in the place of the last one, and repetitions."""

    def __init__(self, scope: ScopeName = ANA) -> None:
        self._scope = scope
        self._events = 0
        self._facts = 0

    def new(self, count: int) -> list[Remember]:
        return [self._fact() for _ in range(count)]

    def retiring(self, count: int) -> list[Remember]:
        return [self._fact(named_memory_id(self._scope, f"{self._facts}")) for _ in range(count)]

    def again(self, count: int) -> list[Remember]:
        return [self._event() for _ in range(count)]

    def _fact(self, *replaced: str) -> Remember:
        self._facts += 1
        return self._event(supersedes=replaced, memory_id=f"{self._facts}")

    def _event(self, **fields: object) -> Remember:
        self._events += 1
        given = {"event_id": f"{self._events}", "occurred_at": later(self._events), **fields}
        return event(f"Fact {self._facts}.", scope=self._scope, **given)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path, RULES, Alike())
    await bench.owner.claim(0)
    yield bench
    bench.close()


def reasons(decisions: Sequence[Decision]) -> set[Reason]:
    return {evidence_of(decision).reason for decision in decisions}


@pytest.mark.covers("B115", "C19", "S2.30", "D21")
@pytest.mark.parametrize("batch", [1, 7, 100])
async def test_replacing_stops_and_begins_again_by_itself(bench: Bench, batch: int) -> None:
    ana = Told()
    await bench.say(*ana.new(5))
    made = await bench.say(*ana.retiring(12), batch=batch)
    assert [type(one) for one in made] == [Replace] * 6 + [Insert] * 6
    assert reasons(made[6:]) == {Reason.BRAKED}
    assert reasons(await bench.say(*ana.retiring(3))) == {Reason.BRAKED}
    await bench.say(*ana.new(10))  # 15 of 30 want to retire: no more than half of them
    assert reasons(await bench.say(*ana.retiring(1))) == {Reason.SUPERSEDES_BY_NAME}
    assert reasons(await bench.say(*ana.retiring(1))) == {Reason.BRAKED}


@pytest.mark.covers("B115", "C19")
async def test_a_merge_that_is_braked_keeps_both(tmp_path: Path) -> None:
    table = {
        "Ana likes coffee.": unit(1),
        "Ana truly likes coffee.": at_cosine(0.97),
        "Ana really likes coffee.": at_cosine(0.96, 2),
    }
    bench = Bench(tmp_path, policy(brake={"decisions_min": 1, "removals_max": 0}), table)
    await bench.owner.claim(0)
    made = await bench.say(*(event(text, event_id=text) for text in table))
    assert [type(one) for one in made] == [Insert, Merge, Insert]
    assert evidence_of(made[2]).reason is Reason.BRAKED
    await bench.apply()
    assert len(await bench.live()) == 2
    bench.close()


async def test_repetitions_are_counted_and_never_braked(bench: Bench) -> None:
    ana = Told()
    await bench.say(*ana.new(1), *ana.retiring(12))
    assert reasons(await bench.say(*ana.retiring(1))) == {Reason.BRAKED}
    again = await bench.say(*ana.again(14))
    assert reasons(again) == {Reason.SAME_CONTENT}
    assert reasons(await bench.say(*ana.retiring(1))) == {Reason.SUPERSEDES_BY_NAME}


@pytest.mark.covers("B115")
async def test_a_scope_is_braked_by_itself_and_all_scopes_together(bench: Bench) -> None:
    ana, ben = Told(ANA), Told(BEN)
    await bench.say(*ben.new(30), *ana.new(2), *ana.retiring(12))
    assert reasons(await bench.say(*ana.retiring(1))) == {Reason.BRAKED}
    assert reasons(await bench.say(*ben.retiring(1))) == {Reason.SUPERSEDES_BY_NAME}
    await bench.say(*ana.retiring(40))
    assert reasons(await bench.say(*ben.retiring(1))) == {Reason.BRAKED}


@pytest.mark.covers("C19")
@pytest.mark.parametrize("applied", [True, False])
async def test_it_survives_a_takeover(bench: Bench, *, applied: bool) -> None:
    """However many records that are no changes lie behind the changes in the log."""
    ana = Told()
    events = [*ana.new(2), *ana.retiring(20)]
    await bench.say(*events)
    for _ in range(WINDOW // len(events) + 5):
        await bench.publish(*events)
    assert reasons(await bench.decide(500)) == {Reason.SAME_EVENT}
    if applied:
        await bench.apply()
    await bench.take_over()
    assert reasons(await bench.say(*ana.retiring(1))) == {Reason.BRAKED}


Step = tuple[str, str, int]
STEPS = st.tuples(
    st.sampled_from(["ana", "ben"]),
    st.sampled_from(["new", "retiring", "retiring", "again"]),
    st.integers(1, 8),
)


async def _decided(
    path: Path, steps: Sequence[Step], batch: int, *, disturbed: bool
) -> list[bytes]:
    """Decide on a stream; `disturbed` has another owner take over after each batch."""
    bench = Bench(
        path,
        policy(
            brake={"decisions_min": 4, "removals_max": 0.5},
            supersede={"named_max": 1},
            without_verdict={"match": "keep-both", "review": "keep-both"},
            scopes={BEN: {"brake": {"decisions_min": 6, "removals_max": 0.25}}},
        ),
        Alike(),
    )
    told = {"ana": Told(ANA), "ben": Told(BEN)}
    events = [*told["ana"].new(1), *told["ben"].new(1)]
    for who, what, count in steps:
        one = told[who]
        events += {"new": one.new, "retiring": one.retiring, "again": one.again}[what](count)
    await bench.take_over()
    await bench.publish(*events)
    for start in range(0, len(events), batch):
        await bench.decide_next(batch)
        if disturbed:
            if start % 2:
                await bench.apply()
            await bench.take_over()
    made = await bench.raw_decisions()
    bench.close()
    return made


@pytest.mark.covers("C15")
@settings(max_examples=25)
@given(steps=st.lists(STEPS, max_size=8), batch=st.integers(1, 40), disturbed=st.booleans())
def test_neither_batches_nor_owners_change_what_is_braked(
    steps: list[Step], batch: int, *, disturbed: bool
) -> None:
    results: list[list[bytes]] = []
    for size, moved in ((1_000, False), (batch, disturbed)):
        with tempfile.TemporaryDirectory() as path:
            results.append(asyncio.run(_decided(Path(path), steps, size, disturbed=moved)))
    assert results[0] == results[1]


@pytest.mark.covers("B115", "S2.28", "S2.30")
async def test_operators_see_rates_and_are_warned_once(bench: Bench) -> None:
    ana, metrics = Told(), Metrics()
    metrics.decided(await bench.say(*ana.new(5), *ana.retiring(5)))
    assert (bench.owner.rates.removals, bench.owner.rates.merges) == (0.5, 0)
    assert bench.warned == []
    metrics.decided(await bench.say(*ana.retiring(2)))
    assert metrics.registry.get_sample_value("memsieve_braked_decisions_total") == 1
    assert bench.owner.rates.removals == 7 / 12
    told = "7 of its newest 12 changes would retire memories, 50% may"
    assert bench.warned == [
        f"the brake is on for scope acme/ana: {told}; both sides are kept meanwhile",
        f"the brake is on for a partition as a whole: {told}; both sides are kept meanwhile",
    ]
    bench.warned.clear()
    await bench.say(*ana.retiring(1), *ana.new(6))
    told = "8 of its newest 19 changes would retire memories, 50% may"
    assert bench.warned == [
        f"the brake is off for scope acme/ana: {told}",
        f"the brake is off for a partition as a whole: {told}",
    ]
    assert not any("Fact" in line for line in bench.warned)
