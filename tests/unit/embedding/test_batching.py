"""Which texts share a run of the encoder."""

from hypothesis import given
from hypothesis import strategies as st

from streams.embedding.batching import LENGTH_STEP, TOKENS_MAX, batches

LENGTHS = st.lists(st.integers(1, 64).map(lambda steps: steps * LENGTH_STEP), max_size=300)


def computed(lengths: list[int]) -> int:
    """Return how many tokens the encoder computes for texts padded to these lengths."""
    return sum(batch.tokens for batch in batches(lengths))


@given(LENGTHS)
def test_every_text_is_in_one_run_of_its_own_length(lengths: list[int]) -> None:
    made = batches(lengths)
    assert sorted(place for batch in made for place in batch.places) == list(range(len(lengths)))
    assert all(lengths[place] == batch.length for batch in made for place in batch.places)


@given(LENGTHS)
def test_a_run_keeps_to_the_budget_unless_one_text_is_more(lengths: list[int]) -> None:
    for batch in batches(lengths):
        assert batch.tokens <= TOKENS_MAX or len(batch.places) == 1


@given(LENGTHS)
def test_nothing_is_computed_for_the_sake_of_another_text(lengths: list[int]) -> None:
    assert computed(lengths) == sum(lengths)


@given(LENGTHS)
def test_a_length_has_as_few_runs_as_the_budget_allows(lengths: list[int]) -> None:
    made = batches(lengths)
    for length in set(lengths):
        most = max(1, TOKENS_MAX // length)
        assert sum(batch.length == length for batch in made) == -(-lengths.count(length) // most)


@given(LENGTHS)
def test_the_longest_come_first(lengths: list[int]) -> None:
    made = [batch.length for batch in batches(lengths)]
    assert made == sorted(made, reverse=True)


@given(LENGTHS)
def test_a_long_text_among_short_ones_costs_its_own_run(lengths: list[int]) -> None:
    longest = 512 + TOKENS_MAX
    assert len(batches([*lengths, longest])) == len(batches(lengths)) + 1
    assert computed([*lengths, longest]) == computed(lengths) + longest
