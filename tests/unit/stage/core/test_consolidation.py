"""Memories proposed as one fact: which belong together, which of them stands, and what of it is new."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import MemoryId, Position
from schemas.decisions import (
    Band,
    Change,
    Composition,
    Finding,
    Ignore,
    Merge,
    Reason,
    Replace,
    Verdict,
)
from schemas.events import Consolidate
from schemas.memories import Memory
from streams.consolidate.core.nominating import near_pairs
from streams.judges.lexicons import english
from streams.model.embedding import pack
from streams.model.merge import append
from streams.model.neighbours import Neighbour
from streams.model.policy import Policy
from streams.model.verdict import Judgement
from streams.stage.core.case import Case, EncodedVector, PendingMerge
from streams.stage.core.consolidation import (
    MergeCandidate,
    RelatedPair,
    cohesive,
    consolidate,
    joinable,
    linked,
    measured,
    proposed,
    unchanged,
)
from streams.text.reading import TextAnalyzer
from tests.builders import MODEL, at_cosine, identity, later, memory, policy, stored, unit

SOURCE = Position(topic="memory.events", partition=0, offset=7)
RULES = policy(merge={"characters_max": 600})
SAME, REFINES, REFINED_BY = Verdict.SAME, Verdict.REFINES, Verdict.REFINED_BY
DISTINCT, UNSURE, OVERLAPS = Verdict.DISTINCT, Verdict.UNSURE, Verdict.OVERLAPS
READINGS = TextAnalyzer(english())
Judged = Mapping[tuple[int, int], Verdict | Judgement]


def fact(number: int, **fields: Any) -> Memory:
    """Build memory `number`, made and last seen at that hour."""
    values: dict[str, Any] = {
        "id": identity(number),
        "created_at": later(number),
        "last_seen_at": later(number),
        **fields,
    }
    return memory(values.pop("text", f"Number {number} is what Ana likes."), **values)


def related(
    newer: Memory, older: Memory, judged: Verdict | Judgement, near: float = 0.9
) -> RelatedPair:
    judgement = Judgement(judged, "llm") if isinstance(judged, Verdict) else judged
    band = RULES.bands.of(near)
    return RelatedPair(newer, Neighbour(older, near, band), judgement)


def relations_of(facts: Sequence[Memory], judged: Judged, near: float = 0.9) -> list[RelatedPair]:
    """Relate every pair; the pairs are (newer, older) by number, and distinct unless told."""
    by_number = {int(one.id[-6:]): one for one in facts}
    return [
        related(
            by_number[newer],
            by_number[older],
            judged.get((newer, older), DISTINCT),
            near,
        )
        for older, newer in combinations(sorted(by_number), 2)
    ]


def all_pairs(count: int, verdict: Verdict) -> dict[tuple[int, int], Verdict]:
    return {(newer, older): verdict for older, newer in combinations(range(1, count + 1), 2)}


def side(number: int, undo: str = "undo") -> list[dict[str, str]]:
    """Put a memory on the side `number` of an undo."""
    return [{"undo": undo, "side": identity(number)}]


def proposal(
    facts: Sequence[Memory],
    rules: Policy = RULES,
    *,
    braked: bool = False,
    now: datetime | None = None,
) -> Case[Consolidate]:
    event = proposed(facts[0].scope, "test", facts)
    return Case(event, SOURCE, rules, braked=braked, now=now)


def decided(
    facts: Sequence[Memory],
    judged: Judged,
    rules: Policy = RULES,
    *,
    near: float = 0.9,
    braked: bool = False,
    now: datetime | None = None,
) -> Replace | Ignore | PendingMerge:
    members = {one.id: MergeCandidate(one, unit(1)) for one in facts}
    relations = relations_of(facts, judged, near)
    asked = proposal(facts, rules, braked=braked, now=now)
    return consolidate(asked, members, relations, MODEL)


def worded(outcome: Change | Ignore | PendingMerge) -> Merge:
    """Make the text of a merge by appending."""
    assert isinstance(outcome, PendingMerge)
    joined = append(outcome.parts, READINGS)
    made = outcome.merged(joined, EncodedVector(unit(1), pack(unit(1), MODEL), truncated=False), ())
    assert isinstance(made, Merge)
    return made


def numbers(ids: Sequence[str]) -> list[int]:
    return [int(one[-6:]) for one in ids]


class TestWhoBelongsTogether:
    @pytest.mark.covers("D18", "S1.36", "S1.41")
    def test_a_chain_makes_no_group_of_its_ends(self) -> None:
        chain = relations_of([fact(n) for n in (1, 2, 3)], {(2, 1): SAME, (3, 2): SAME})
        assert [numbers(group) for group in linked(chain, RULES)] == [[1, 2, 3]]
        assert [numbers(group) for group in cohesive(chain, RULES)] == [[1, 2]]

    def test_the_nearest_pair_is_joined_first(self) -> None:
        one, two, three = (fact(n) for n in (1, 2, 3))
        chain = [
            related(two, one, SAME, 0.85),
            related(three, two, SAME, 0.95),
            related(three, one, DISTINCT, 0.8),
        ]
        assert [numbers(group) for group in cohesive(chain, RULES)] == [[2, 3]]

    @pytest.mark.covers("B33", "D18")
    def test_a_bridge_joins_no_two_clusters(self) -> None:
        judged = {(2, 1): SAME, (4, 3): SAME, (3, 2): SAME}
        groups = cohesive(relations_of([fact(n) for n in (1, 2, 3, 4)], judged), RULES)
        assert [numbers(group) for group in groups] == [[1, 2], [3, 4]]

    def test_a_pair_that_nobody_judged_is_apart_unless_hoped_for(self) -> None:
        one, two, three = (fact(n) for n in (1, 2, 3))
        pairs = [related(two, one, SAME), related(three, two, SAME)]
        assert [numbers(g) for g in cohesive(pairs, RULES)] == [[1, 2]]
        assert [numbers(g) for g in cohesive(pairs, RULES, hopeful=True)] == [[1, 2, 3]]

    @pytest.mark.covers("S2.26", "B67")
    def test_what_an_undo_took_apart_is_never_joined_again_nor_hoped_for(self) -> None:
        one, two, three = fact(1, kept_apart=side(1)), fact(2), fact(3, kept_apart=side(3))
        assert not joinable(related(three, one, SAME, 0.99), RULES)
        every = relations_of([one, two, three], all_pairs(3, SAME))
        assert [numbers(g) for g in cohesive(every, RULES)] == [[1, 2]]
        pairs = [related(two, one, SAME), related(three, two, SAME)]
        assert [numbers(g) for g in cohesive(pairs, RULES, hopeful=True)] == [[1, 2]]

    def test_a_group_has_no_more_members_than_allowed(self) -> None:
        pairs = relations_of([fact(n) for n in range(1, 8)], all_pairs(7, SAME))
        groups = cohesive(pairs, RULES, members_max=3)
        assert sorted(len(group) for group in groups) == [3, 3]  # what is left over is alone

    @pytest.mark.parametrize(
        ("verdict", "near", "act", "joined"),
        [
            (SAME, 0.9, "keep-both", True),
            (REFINES, 0.9, "keep-both", True),
            (REFINED_BY, 0.9, "keep-both", True),
            (Verdict.CONTRADICTS, 0.96, "merge", False),
            (OVERLAPS, 0.9, "keep-both", True),
            (DISTINCT, 0.96, "merge", False),
            (UNSURE, 0.96, "merge", True),
            (UNSURE, 0.9, "merge", False),
            (UNSURE, 0.96, "keep-better", True),
            (UNSURE, 0.96, "review", False),
            (UNSURE, 0.96, "keep-both", False),
        ],
    )
    def test_verdict_and_policy_tell_whether_two_may_be_one(
        self, verdict: Verdict, near: float, act: str, *, joined: bool
    ) -> None:
        rules = policy(without_verdict={"match": act, "review": "keep-both"})
        assert joinable(related(fact(2), fact(1), verdict, near), rules) is joined

    @pytest.mark.parametrize(
        ("newer", "older", "judged", "joined"),
        [
            ({}, {"status": "tentative"}, Judgement(SAME, "llm"), True),
            ({}, {"status": "tentative"}, Judgement(REFINED_BY, "llm"), False),
            ({}, {"status": "tentative"}, Judgement(OVERLAPS, "llm"), False),
            ({"status": "tentative"}, {}, Judgement(SAME, "llm"), True),
            ({"status": "tentative"}, {}, Judgement(REFINES, "llm"), False),
            ({"persistence": "ephemeral"}, {"persistence": "core"}, Judgement(REFINES, "l"), False),
            (
                {"persistence": "ephemeral"},
                {"persistence": "core"},
                Judgement(REFINED_BY, "l"),
                True,
            ),
            (
                {"persistence": "core"},
                {"persistence": "ephemeral"},
                Judgement(REFINED_BY, "l"),
                False,
            ),
            (
                {"persistence": "core"},
                {"persistence": "ephemeral"},
                Judgement(UNSURE, "bands"),
                False,
            ),
        ],
    )
    def test_a_guess_is_not_made_a_fact_nor_a_moment_lasting(
        self, newer: dict[str, str], older: dict[str, str], judged: Judgement, *, joined: bool
    ) -> None:
        pair = related(fact(2, **newer), fact(1, **older), judged, 0.96)
        assert joinable(pair, RULES) is joined


class TestWhatIsProposed:
    def test_the_same_versions_are_the_same_event(self) -> None:
        one, two = fact(1), fact(2)
        assert proposed(one.scope, "a", [one, two]) == proposed(one.scope, "a", [two, one, two])
        changed = two.model_copy(update={"version": 2})
        ids = {
            proposed(one.scope, author, group).event_id
            for author in ("a", "b")
            for group in ([one, two], [one, changed])
        }
        assert len(ids) == 4

    @pytest.mark.parametrize(
        "now",
        [
            {"version": 2},
            {"scope": "acme/ben"},
            {"pinned": True},
            {"truncated": True},
            {
                "status": "superseded",
                "superseded": {"by": identity(9), "at": later(9), "reason": "x"},
            },
        ],
    )
    def test_what_has_changed_or_may_not_be_joined_is_left_out(self, now: dict[str, Any]) -> None:
        seen = [fact(1), fact(2)]
        held = {
            one.memory.id: one for one in (stored(id=identity(1)), stored(id=identity(2), **now))
        }
        assert list(unchanged(proposal(seen).event, held)) == [identity(1)]

    def test_what_is_gone_is_left_out(self) -> None:
        assert unchanged(proposal([fact(1), fact(2)]).event, {}) == {}


class TestWhatIsDecided:
    @pytest.mark.covers("S2.3")
    def test_the_one_that_says_all_stands_for_all_and_changes_in_place(self) -> None:
        facts = [fact(1, tags=("a",)), fact(2, tags=("b",), version=4), fact(3, tags=("c",))]
        judged = {(2, 1): REFINES, (3, 2): REFINED_BY, (3, 1): REFINES}
        replaced = decided(facts, judged)
        assert isinstance(replaced, Replace)
        assert (replaced.memory.id, replaced.memory.version) == (identity(2), 5)
        assert replaced.memory.text == "Number 2 is what Ana likes."
        assert set(replaced.memory.tags) == {"a", "b", "c"}
        assert replaced.memory.observation_count == 3
        assert {target.memory_id for target in replaced.targets} == {one.id for one in facts}
        assert (replaced.memory.created_at, replaced.memory.last_seen_at) == (later(1), later(3))
        assert set(replaced.memory.merged_from) == {identity(1), identity(3)}

    @pytest.mark.covers("S2.11", "S2.3")
    @pytest.mark.parametrize("important", [1, 2, 3])
    def test_of_several_that_say_all_the_policys_best_stands(self, important: int) -> None:
        rules = policy(better={"order": ["importance"], "tie": "merge"})
        facts = [fact(n, importance=0.9 if n == important else 0.5) for n in (1, 2, 3)]
        replaced = decided(facts, all_pairs(3, SAME), rules)
        assert isinstance(replaced, Replace)
        assert replaced.memory.id == identity(important)

    def test_what_is_dated_in_the_future_is_not_the_newest(self) -> None:
        rules = policy(better={"order": ["recency"], "tie": "merge"})
        facts = [fact(1), fact(2), fact(3, last_seen_at=later(99))]
        replaced = decided(facts, all_pairs(3, SAME), rules, now=later(4))
        assert isinstance(replaced, Replace)
        assert (replaced.memory.id, replaced.memory.last_seen_at) == (identity(2), later(2))

    def test_where_each_says_something_alone_a_text_is_made_of_all_oldest_first(self) -> None:
        merge = worded(decided([fact(n) for n in (3, 1, 2)], all_pairs(3, UNSURE), near=0.96))
        assert merge.memory.text == " ".join(f"Number {n} is what Ana likes." for n in (1, 2, 3))
        assert merge.memory.merged_from == (identity(1), identity(2), identity(3))
        assert (merge.event_embedding, merge.evidence.reason) == (None, Reason.ONE_FACT)
        assert isinstance(merge.evidence.merge, Composition)

    def test_nobody_is_believed_to_say_all_where_nobody_has_looked(self) -> None:
        """What the policy joins by `merge` alone shows what each of the two adds."""
        assert isinstance(decided([fact(1), fact(2)], {(2, 1): UNSURE}, near=0.96), PendingMerge)

    def test_what_stands_for_others_keeps_their_wordings(self) -> None:
        replaced = decided([fact(1), fact(2)], {(2, 1): REFINES})
        assert isinstance(replaced, Replace)
        assert replaced.memory.text == fact(2).text
        assert [variant.text for variant in replaced.memory.variants] == [fact(1).text]

    def test_a_text_is_made_where_each_adds_something(self) -> None:
        merge = worded(decided([fact(1), fact(2)], {(2, 1): OVERLAPS}))
        assert merge.memory.text == "Number 1 is what Ana likes. Number 2 is what Ana likes."
        kept = [variant.text for variant in merge.memory.variants]
        assert kept == [fact(1).text, fact(2).text]

    def test_what_one_of_the_parts_says_goes_with_it_and_is_not_said_again(self) -> None:
        judged = {(2, 1): OVERLAPS, (3, 1): REFINED_BY, (3, 2): OVERLAPS}
        merge = worded(decided([fact(n) for n in (1, 2, 3)], judged))
        assert merge.memory.text == "Number 1 is what Ana likes. Number 2 is what Ana likes."
        assert merge.memory.merged_from == (identity(1), identity(2), identity(3))

    def test_as_many_are_merged_as_the_policy_joins_at_once_and_the_others_stay(self) -> None:
        rules = policy(merge={"parts_max": 2})
        merge = worded(
            decided([fact(n) for n in (1, 2, 3)], all_pairs(3, UNSURE), rules, near=0.96)
        )
        assert merge.memory.merged_from == (identity(1), identity(2))
        assert merge.evidence.refused == (f"{identity(3)}: not one fact with the others",)

    def test_what_does_not_fit_into_one_text_stays_and_the_rest_is_merged(self) -> None:
        """The longest is left out, until it fits."""
        facts = [fact(1), fact(2, text="Number 2 is what Ana likes most of all."), fact(3)]
        whole = decided(facts, all_pairs(3, OVERLAPS))
        assert isinstance(whole, PendingMerge)
        assert whole.fewer is not None
        assert whole.bytes_max == sum(len(one.text) for one in facts) + 6
        merge = worded(whole.fewer())
        assert merge.memory.merged_from == (identity(1), identity(3))
        assert merge.evidence.refused == (f"{identity(2)}: not one fact with the others",)

    def test_where_no_two_fit_both_stay_and_the_evidence_says_why(self) -> None:
        both = decided([fact(1), fact(2)], {(2, 1): OVERLAPS})
        assert isinstance(both, PendingMerge)
        assert both.fewer is not None
        ignored = both.fewer()
        assert isinstance(ignored, Ignore)
        assert ignored.evidence.reason is Reason.NOT_ONE_FACT
        why = "too long for one text with another: merge.characters_max"
        assert ignored.evidence.refused == tuple(f"{identity(n)}: {why}" for n in (1, 2))

    def test_where_no_two_fit_one_still_stands_for_what_it_says_in_full(self) -> None:
        judged = {(2, 1): OVERLAPS, (3, 1): OVERLAPS, (3, 2): REFINED_BY}
        both = decided([fact(n) for n in (1, 2, 3)], judged)
        assert isinstance(both, PendingMerge)
        assert both.fewer is not None
        replaced = both.fewer()
        assert isinstance(replaced, Replace)
        assert {one.memory_id for one in replaced.targets} == {identity(2), identity(3)}
        assert replaced.memory.id == identity(2)

    @pytest.mark.covers("S2.12")
    @pytest.mark.parametrize(("importance", "kind"), [(0.5, PendingMerge), (0.4, Replace)])
    def test_equally_important_ones_are_joined_where_the_policy_says_so(
        self, importance: float, kind: type
    ) -> None:
        rules = policy(
            better={"order": ["importance"], "tie": "merge"},
            without_verdict={"match": "keep-better", "review": "keep-better"},
        )
        facts = [fact(1, importance=0.5), fact(2, importance=importance)]
        assert isinstance(decided(facts, {(2, 1): UNSURE}, rules, near=0.96), kind)

    @pytest.mark.parametrize(
        ("judged", "reason"), [({}, Reason.NOT_ONE_FACT), ({(2, 1): SAME}, Reason.BRAKED)]
    )
    def test_what_may_not_be_joined_stays_as_it_is(self, judged: Judged, reason: Reason) -> None:
        ignored = decided([fact(1), fact(2)], judged, braked=True)
        assert isinstance(ignored, Ignore)
        assert ignored.evidence.reason is reason
        assert len(ignored.evidence.refused) == 2

    @pytest.mark.covers("S2.26")
    def test_what_an_undo_took_apart_stays_and_is_told_with_what_keeps_it(self) -> None:
        facts = [fact(1, kept_apart=side(1)), fact(2, kept_apart=side(2)), fact(3)]
        ignored = decided(facts[:2], all_pairs(2, SAME))
        assert isinstance(ignored, Ignore)
        assert ignored.evidence.reason is Reason.NOT_ONE_FACT
        why = f"kept apart from {identity(1)}: somebody undid joining them"
        assert f"{identity(2)}: {why}" in ignored.evidence.refused
        replaced = decided(facts, all_pairs(3, SAME))
        assert isinstance(replaced, Replace)
        [left] = {one.id for one in facts} - {one.memory_id for one in replaced.targets}
        assert left in {identity(1), identity(2)}
        assert replaced.memory.kept_apart != ()

    def test_one_that_is_left_over_is_joined_with_nothing(self) -> None:
        both = proposal([fact(1), fact(2)])
        left = {identity(1): MergeCandidate(fact(1), unit(1))}
        ignored = consolidate(both, {MemoryId(i): m for i, m in left.items()}, [], MODEL)
        assert isinstance(ignored, Ignore)
        assert ignored.evidence.reason is Reason.OUT_OF_DATE
        told = f"{identity(2)}: changed since, pinned, or read in part"
        assert told in ignored.evidence.refused

    def test_the_evidence_tells_how_the_others_looked_beside_the_survivor(self) -> None:
        finding = Finding(
            guard="names", outcome="cannot-tell", what="name", event_says="Li", memory_says="Lee"
        )
        judged = {
            (2, 1): Judgement(REFINES, "llm", findings=(finding,)),
            (3, 2): Judgement(REFINED_BY, "llm", findings=(finding,)),
        }
        replaced = decided([fact(1), fact(2), fact(3)], {**judged, (3, 1): SAME})
        assert isinstance(replaced, Replace)
        near = {one.memory_id: one for one in replaced.evidence.neighbours}
        assert replaced.memory.id == identity(2)
        assert near[MemoryId(identity(1))].verdict is REFINES
        assert near[MemoryId(identity(3))].verdict is REFINES  # as the survivor sees it
        assert near[MemoryId(identity(1))].findings == (finding,)
        [mirrored] = near[MemoryId(identity(3))].findings
        assert (mirrored.event_says, mirrored.memory_says) == ("Lee", "Li")


class TestNomination:
    @pytest.mark.covers("S2.17", "D7")
    def test_each_memory_nominates_its_nearest_in_the_bands(self) -> None:
        facts = [fact(n) for n in range(1, 5)]
        vectors = [unit(1), at_cosine(0.96), at_cosine(0.85), at_cosine(0.75)]
        members = {one.id: MergeCandidate(one, v) for one, v in zip(facts, vectors, strict=True)}
        found = near_pairs(members, RULES, neighbours_max=1)
        assert [(*numbers([newer.id, near.memory.id]), near.band) for newer, near in found] == [
            (4, 3, Band.MATCH),
            (3, 2, Band.MATCH),
            (2, 1, Band.MATCH),
        ]
        far = near_pairs(members, RULES, neighbours_max=5)
        assert {(newer.id, near.memory.id) for newer, near in far} == {
            (identity(newer), identity(older))
            for newer, older in [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)]
        }

    @pytest.mark.covers("D32")
    @pytest.mark.parametrize("copies", [2, 3])
    def test_a_memory_takes_no_place_of_its_own_where_one_is_asked_for(self, copies: int) -> None:
        """Even where another has the same vector, and is as near as the memory to itself."""
        members = {one.id: MergeCandidate(one, unit(1)) for one in map(fact, range(1, copies + 1))}
        found = near_pairs(members, RULES, neighbours_max=1)
        assert len(found) == copies - 1
        assert all(newer.id != near.memory.id for newer, near in found)

    def test_a_title_nominates_where_the_policy_says_so(self) -> None:
        members = {
            one.id: MergeCandidate(one, v)
            for one, v in [
                (fact(1, title="Lamp"), unit(1)),
                (fact(2, title="lamp"), at_cosine(0.6)),
            ]
        }
        assert near_pairs(members, RULES, neighbours_max=5) == []
        titled = policy(nominate={"same_title": True})
        [(newer, near)] = near_pairs(members, titled, neighbours_max=5)
        assert (newer.id, near.band) == (identity(2), Band.MATCH)

    @pytest.mark.covers("S2.26")
    @pytest.mark.parametrize("before", [0, 600])
    def test_what_an_undo_took_apart_leaves_its_place_to_the_next_nearest(
        self, before: int
    ) -> None:
        """Also where others, far from them, fill the block before."""
        far = [MergeCandidate(fact(n), unit(0, 0, 1)) for n in range(1, before + 1)]
        one, two, three = (
            MergeCandidate(fact(before + n, kept_apart=noted), vector)
            for n, noted, vector in [
                (1, side(1), unit(1)),
                (2, side(2), at_cosine(0.99)),
                (3, [], at_cosine(0.97, 2)),
            ]
        )
        members = {each.memory.id: each for each in [*far, one, two, three]}
        found = near_pairs(members, RULES, neighbours_max=1)
        near = {(newer.id, older.memory.id) for newer, older in found}
        mine = {pair for pair in near if {one.memory.id, two.memory.id} & set(pair)}
        assert mine == {(three.memory.id, one.memory.id), (three.memory.id, two.memory.id)}

    def test_of_nothing_nothing_is_nominated(self) -> None:
        assert near_pairs({}, RULES, neighbours_max=5) == []

    @pytest.mark.covers("S2.16")
    @given(st.lists(st.integers(0, 90), min_size=2, max_size=40), st.integers(1, 5))
    def test_the_blocks_change_nothing(self, degrees: list[int], nearest: int) -> None:
        """Compared with the definition: of each, the nearest by the one measure."""
        members = {
            one.id: MergeCandidate(one, at_cosine(round(degree / 90, 4)))
            for one, degree in ((fact(n), degree) for n, degree in enumerate(degrees, 1))
        }
        found = {(a.id, b.memory.id) for a, b in near_pairs(members, RULES, neighbours_max=nearest)}
        every = measured(members, RULES)
        for identity_ in members:
            near = sorted(
                (b.similarity for a, b in every if identity_ in {a.id, b.memory.id}), reverse=True
            )
            least = near[:nearest][-1]
            for newer, older in every:
                if identity_ in {newer.id, older.memory.id} and older.similarity > least + 1e-4:
                    nominated = (newer.id, older.memory.id) in found
                    assert nominated == (older.similarity >= RULES.bands.review)


VERDICTS = st.sampled_from([SAME, REFINES, REFINED_BY, OVERLAPS, UNSURE, DISTINCT])


@st.composite
def judged_facts(draw: st.DrawFn) -> tuple[list[Memory], list[RelatedPair]]:
    facts = [fact(n) for n in range(1, draw(st.integers(2, 7)) + 1)]
    pairs = [
        related(
            newer,
            older,
            Judgement(draw(VERDICTS), "l"),
            draw(st.sampled_from([0.85, 0.9, 0.96, 0.98])),
        )
        for older, newer in combinations(facts, 2)
    ]
    return facts, pairs


ACTS = st.sampled_from(["merge", "keep-better", "reinforce", "keep-both"])


@pytest.mark.covers("B34", "D17", "B33")
@given(judged_facts(), ACTS)
def test_groups_are_disjoint_and_in_each_every_pair_is_joinable(
    judged: tuple[list[Memory], list[RelatedPair]], act: str
) -> None:
    _, pairs = judged
    rules = policy(without_verdict={"match": act, "review": "keep-both"})
    fits = {pair.ids: joinable(pair, rules) for pair in pairs}
    groups = cohesive(pairs, rules)
    members = [one for group in groups for one in group]
    assert len(members) == len(set(members))
    assert all(len(group) > 1 for group in groups)
    assert all(fits[frozenset(pair)] for group in groups for pair in combinations(group, 2))
    for group in groups:  # each lies within one component of the chains
        assert any(set(group) <= set(chain) for chain in linked(pairs, rules))


@given(judged_facts(), st.randoms(use_true_random=False), ACTS)
def test_the_order_of_members_and_relations_changes_nothing(
    judged: tuple[list[Memory], list[RelatedPair]], chance: Any, act: str
) -> None:
    facts, pairs = judged
    rules = policy(without_verdict={"match": act, "review": "keep-both"})
    mixed_facts, mixed = list(facts), list(pairs)
    chance.shuffle(mixed_facts)
    chance.shuffle(mixed)
    assert cohesive(mixed, rules) == cohesive(pairs, rules)
    assert linked(mixed, rules) == linked(pairs, rules)
    first = consolidate(proposal(facts, rules), _members(facts), pairs, MODEL)
    again = consolidate(proposal(mixed_facts, rules), _members(mixed_facts), mixed, MODEL)
    if isinstance(first, PendingMerge):
        assert isinstance(again, PendingMerge)
        assert worded(first) == worded(again)
    else:
        assert first == again


@pytest.mark.covers("D14")
@given(judged_facts(), ACTS)
def test_whoever_goes_is_said_by_who_stays(
    judged: tuple[list[Memory], list[RelatedPair]], act: str
) -> None:
    """Of each that goes, the survivor says all; or its text is in the merged one; and one stays."""
    facts, pairs = judged
    rules = policy(without_verdict={"match": act, "review": "keep-both"})
    between = {pair.ids: pair for pair in pairs}
    outcome = consolidate(proposal(facts, rules), _members(facts), pairs, MODEL)
    if isinstance(outcome, Ignore):
        return
    if isinstance(outcome, Replace):
        assert outcome.memory.id in {target.memory_id for target in outcome.targets}
        assert outcome.memory.text in {one.text for one in facts}
        for target in outcome.targets:
            if target.memory_id != outcome.memory.id:
                pair = between[frozenset({outcome.memory.id, target.memory_id})]
                assert not _alone(pair, target.memory_id)
        return
    merge = worded(outcome)
    parts = {part.origin for part in outcome.parts}
    for target in merge.targets:
        if target.memory_id in parts:
            assert f"Number {int(target.memory_id[-6:])} is what Ana likes." in merge.memory.text
        else:
            said_by = (between[frozenset({MemoryId(p), target.memory_id})] for p in parts)
            assert any(not _alone(pair, target.memory_id) for pair in said_by)


@given(judged_facts())
def test_a_decision_retires_no_version_that_was_not_seen(
    judged: tuple[list[Memory], list[RelatedPair]],
) -> None:
    facts, pairs = judged
    outcome = consolidate(proposal(facts), _members(facts), pairs, MODEL)
    if isinstance(outcome, Ignore):
        return
    made = worded(outcome) if isinstance(outcome, PendingMerge) else outcome
    seen = {one.id: one.version for one in facts}
    assert all(seen[target.memory_id] == target.version for target in made.targets)
    assert len({target.memory_id for target in made.targets}) == len(made.targets) > 1


def _members(facts: Sequence[Memory]) -> dict[MemoryId, MergeCandidate]:
    return {one.id: MergeCandidate(one, unit(1)) for one in facts}


def _alone(pair: RelatedPair, one: MemoryId) -> bool:
    """Tell whether a memory says something that the other of a pair does not."""
    judgement = pair.judgement
    if one == pair.newer.id:
        return judgement.verdict in {REFINES, OVERLAPS}
    return judgement.verdict in {REFINED_BY, OVERLAPS}
