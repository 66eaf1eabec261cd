"""The brake's arithmetic: what counts, over which changes, and when it lets go."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import MemoryId, Position, ScopeName
from schemas.decisions import Change, Evidence, Insert, Merge, Reason, Reinforce, Replace
from schemas.events import Answer, Event, Seen
from schemas.memories import Memory, Superseded, Target
from streams.model.embedding import pack
from streams.model.policy import Brake
from streams.stage.core import survivorship
from streams.stage.core.brake import WINDOW, Rates, RecentChanges, Watch, retires
from streams.stage.core.case import Case, EncodedVector
from streams.stage.core.decide import supersede
from tests.builders import MODEL, event, identity, later, memory, policy, unit

ANA, BEN = ScopeName("acme/ana"), ScopeName("acme/ben")
VECTOR = pack(unit(1), MODEL)
RULE = Brake(decisions_min=10, removals_max=0.5)
KNOWN = memory("Ana likes tea.")
NEW = memory("Ana likes green tea.", id=identity(2))


def made(reason: Reason, said: Event | None = None) -> dict[str, object]:
    return {
        "decision_id": "d",
        "event": said or event("Ana likes green tea."),
        "source": Position(topic="memory.events", partition=0, offset=0),
        "policy_id": policy().id,
        "evidence": Evidence(reason=reason),
        "memory": NEW,
        "embedding": VECTOR,
    }


def target(known: Memory) -> Target:
    return Target(memory_id=known.id, version=known.version)


def insert(reason: Reason = Reason.NOTHING_NEAR, kept: Memory = NEW) -> Insert:
    return Insert.model_validate({**made(reason), "memory": kept})


MERGE = Merge.model_validate(
    {**made(Reason.NEARLY_IDENTICAL), "event_embedding": VECTOR, "targets": (target(KNOWN),)}
)
REPLACE = Replace.model_validate({**made(Reason.ADDS_TO_KNOWN), "targets": (target(KNOWN),)})
RENAME = Replace.model_validate({**made(Reason.SAME_MEMORY_ID), "targets": (target(NEW),)})
REINFORCE = Reinforce.model_validate({**made(Reason.SAME_FACT), "target": target(NEW)})
ANSWERED = Replace.model_validate(
    {
        **made(
            Reason.ANSWERED,
            Answer(
                event_id=event().event_id,
                scope=ANA,
                review_id="r",
                newer=Seen(memory_id=NEW.id, content_key=NEW.content_key),
                older=Seen(memory_id=KNOWN.id, content_key=KNOWN.content_key),
                verdict="refines",
                author="cleo",
                occurred_at=later(1),
            ),
        ),
        "targets": (target(NEW), target(KNOWN)),
    }
)
HISTORY = survivorship.retired(
    NEW, Superseded(by=MemoryId(KNOWN.id), at=later(1), reason="older-contradiction")
)


@pytest.mark.parametrize(
    ("decision", "wanted"),
    [
        (MERGE, True),
        (REPLACE, True),
        (insert(Reason.BRAKED), True),
        (insert(Reason.OLDER_CONTRADICTION, HISTORY), True),
        (insert(), False),
        (insert(Reason.UNSURE), False),
        (RENAME, False),
        (REINFORCE, False),
    ],
)
def test_what_wants_to_retire_a_memory(decision: Change, *, wanted: bool) -> None:
    assert retires(decision) is wanted


def recent(*decisions: Change) -> RecentChanges:
    changes = RecentChanges()
    for decision in decisions:
        changes.add(decision)
    return changes


def of(scope: ScopeName, decision: Change) -> Change:
    assert not isinstance(decision.event, Answer)
    return decision.model_copy(update={"event": decision.event.model_copy(update={"scope": scope})})


@pytest.mark.covers("B115", "C19", "S2.30", "D21")
def test_it_is_on_where_more_than_the_share_of_enough_changes_retire() -> None:
    kept, merged = [insert()] * 5, [MERGE] * 5
    assert not recent(*merged).engaged(ANA, RULE)  # nine of nine tell nothing yet
    assert not recent(*kept, *merged).engaged(ANA, RULE)
    assert recent(*kept, *merged, MERGE).engaged(ANA, RULE)
    assert not recent(*kept, *merged, MERGE).engaged(
        ANA, RULE.model_copy(update={"enabled": False})
    )


def test_repetitions_never_put_it_on() -> None:
    assert not recent(*[REINFORCE] * 500).engaged(ANA, RULE)


def test_what_a_person_has_answered_does_not_count() -> None:
    changes = recent(*[ANSWERED] * 500)
    assert changes.overall == Rates()


@pytest.mark.covers("B115", "C19")
def test_it_goes_off_when_less_is_wanted_and_not_because_it_was_on() -> None:
    changes = recent(*[MERGE] * 20)
    for _ in range(WINDOW):
        changes.add(insert(Reason.BRAKED))
    assert changes.engaged(ANA, RULE)
    for _ in range(WINDOW // 2):
        assert changes.engaged(ANA, RULE)
        changes.add(insert())
    assert not changes.engaged(ANA, RULE)


@pytest.mark.covers("B115")
def test_a_scope_is_braked_alone_and_all_of_them_together() -> None:
    ana = [of(ANA, MERGE)] * 20
    apart = recent(*ana, *[of(BEN, insert())] * 80)
    assert apart.engaged(ANA, RULE)
    assert not apart.engaged(BEN, RULE)
    together = recent(*ana, *[of(BEN, insert())] * 10)
    assert together.engaged(BEN, RULE)


def test_only_the_newest_changes_are_looked_at_and_no_scope_is_kept_for_ever() -> None:
    changes = recent(*[of(ScopeName(f"acme/{n}"), MERGE) for n in range(WINDOW)])
    for _ in range(WINDOW):
        changes.add(insert())
    assert changes.overall == Rates(WINDOW, 0, 0)
    assert vars(changes) == vars(recent(*[insert()] * WINDOW))


KINDS = {"merge": MERGE, "insert": insert(), "braked": insert(Reason.BRAKED), "known": REINFORCE}


@given(st.lists(st.tuples(st.sampled_from([ANA, BEN]), st.sampled_from(sorted(KINDS)))))
def test_a_copy_goes_on_as_the_original_does(stream: list[tuple[ScopeName, str]]) -> None:
    changes = recent()
    for scope, kind in stream:
        copy = changes.fork()
        copy.add(of(scope, KINDS[kind]))
        assert vars(copy) != vars(changes)
        changes.add(of(scope, KINDS[kind]))
        assert vars(copy) == vars(changes)


def turned(watch: Watch, changes: RecentChanges, scopes: Iterable[ScopeName] = (ANA,)) -> list[str]:
    rule = policy(brake={"decisions_min": 10, "removals_max": 0.5})
    return watch.turned(changes, list(scopes), rule)


@pytest.mark.covers("B115", "S2.30")
def test_it_is_told_once_when_it_goes_on_and_once_when_it_goes_off() -> None:
    watch, changes = Watch(), recent(*[insert()] * 4, *[MERGE] * 6)
    on = "6 of its newest 10 changes would retire memories, 50% may; both sides are kept meanwhile"
    assert turned(watch, changes) == [
        f"the brake is on for scope acme/ana: {on}",
        f"the brake is on for a partition as a whole: {on}",
    ]
    assert turned(watch, changes) == []
    for _ in range(2):
        changes.add(insert())
    off = "6 of its newest 12 changes would retire memories, 50% may"
    assert turned(watch, changes, ()) == [
        f"the brake is off for scope acme/ana: {off}",
        f"the brake is off for a partition as a whole: {off}",
    ]


def test_rates_are_shares_of_the_changes() -> None:
    rates = recent(MERGE, REPLACE, insert(), REINFORCE).overall
    assert (rates.removals, rates.merges) == (0.5, 0.25)
    assert (rates + rates).changes == 8
    assert (Rates().removals, Rates().merges) == (0, 0)


class TestByName:
    """An event that names what it replaces is braked, too, where it may retire at all."""

    def superseding(self, *, named_max: int, braked: bool) -> Change:
        rules = policy(supersede={"named_max": named_max})
        said = event("Ana likes green tea.", supersedes=(KNOWN.id,))
        place = Position(topic="memory.events", partition=0, offset=0)
        encoded = EncodedVector(unit(1), VECTOR, truncated=False)
        return supersede(Case(said, place, rules, None, braked), encoded, [(KNOWN.id, KNOWN)])

    @pytest.mark.covers("C19")
    def test_what_only_the_brake_forbids_is_wanted_all_the_same(self) -> None:
        assert isinstance(self.superseding(named_max=1, braked=False), Replace)
        made = self.superseding(named_max=1, braked=True)
        assert isinstance(made, Insert)
        assert made.evidence.reason is Reason.BRAKED
        assert made.evidence.refused == (f"{KNOWN.id}: the brake is on",)
        assert retires(made)

    @pytest.mark.parametrize("braked", [True, False])
    def test_what_the_policy_forbids_is_not_wanted(self, *, braked: bool) -> None:
        made = self.superseding(named_max=0, braked=braked)
        assert made.evidence.reason is Reason.NOTHING_NEAR
        assert made.evidence.refused == (f"{KNOWN.id}: the policy leaves that to a person",)
        assert not retires(made)
