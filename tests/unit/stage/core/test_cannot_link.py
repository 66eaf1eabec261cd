"""What an undo takes apart, and where that is noted."""

from schemas.memories import SIDES_MAX, Memory
from streams.stage.core.cannot_link import are_apart, compatible, pairs_apart, sides
from streams.stage.core.survivorship import merged, renewed, repeated, seen_again, united
from streams.stage.core.tombstones import cleared, grave
from tests.builders import MODEL, event, identity, later, memory


def on(number: int, *stands: tuple[str, int]) -> Memory:
    """Build memory `number` on the sides given, each of an undo."""
    noted = [{"undo": undo, "side": identity(side)} for undo, side in stands]
    return memory(f"Fact {number}.", id=identity(number), kept_apart=noted)


def test_only_different_sides_of_one_undo_are_apart() -> None:
    one = on(1, ("u", 1))
    assert are_apart(one, on(2, ("u", 2)))
    assert not are_apart(one, on(2, ("u", 1)))
    assert not are_apart(one, on(2, ("v", 2)))
    assert not are_apart(one, on(2))
    assert are_apart(one, on(2, ("u", 1), ("u", 2))), "a part of it is on the other side"


def test_of_several_those_go_together_that_nobody_has_taken_apart() -> None:
    one, two, three = on(1), on(2, ("u", 2)), on(3, ("u", 3))
    assert compatible([one, two, three]) == [one, two]
    assert compatible([three, one, two]) == [three, one]


def test_every_two_that_are_apart_are_found() -> None:
    memories = [on(1, ("u", 1)), on(2), on(3, ("u", 3), ("v", 3)), on(4, ("u", 3), ("v", 4))]
    assert set(pairs_apart(memories)) == {(0, 2), (0, 3), (2, 3)}


def test_whatever_a_memory_is_made_part_of_stays_on_its_side() -> None:
    """Both sides have other ids since, and neither has the other's."""
    one, other, third = on(1, ("u", 1)), on(2, ("u", 2)), on(3)
    said = event("Fact 4.")
    wholes = [
        merged([third, one], said, third.id, "Fact 3. Fact 1.", truncated=False),
        repeated(third, [one]),
        united(third, one),
        united(one, third),
        seen_again(one, said),
        renewed(one, said, truncated=False),
    ]
    newest = merged([other], said, third.id, "Fact 2. Fact 4.", truncated=False)
    for whole in wholes:
        assert are_apart(whole, newest), whole
    assert not any(are_apart(whole, third) for whole in wholes)


def test_of_too_many_undos_the_newest_are_remembered() -> None:
    many = on(1, *((f"undo {number}", 1) for number in range(SIDES_MAX)))
    one = on(2, ("undo", 2), ("undo 9", 1))
    kept = sides([many.kept_apart, one.kept_apart])
    assert len(kept) == SIDES_MAX
    assert kept == (*many.kept_apart[1:], one.kept_apart[0])
    assert united(many, one).kept_apart == kept


def test_a_forgotten_memory_is_kept_apart_from_nothing() -> None:
    gone = cleared(on(1, ("u", 1)), 8, MODEL)
    assert grave(gone, on(1).scope, later(1), 2).kept_apart == ()
