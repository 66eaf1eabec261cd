"""What the options of several commands name."""

import pytest

from streams.store.cli.options import NotFound, UsageError, only

THINGS = {"ab": 1, "abc": 2, "x": 3}


@pytest.mark.parametrize(("identity", "thing"), [("ab", 1), ("abc", 2), ("x", 3)])
def test_a_thing_is_named_by_its_id(identity: str, thing: int) -> None:
    assert only(THINGS, identity, what="thing", place="store") == thing


def test_the_beginning_of_one_id_alone_names_a_thing() -> None:
    assert only({"ab": 1, "bc": 2}, "a", what="thing", place="store") == 1


@pytest.mark.parametrize(
    ("identity", "error", "told"),
    [
        ("a", UsageError, "2 ids begin with a: ab, abc"),
        ("", UsageError, "ID is empty"),
        ("b", NotFound, "no thing in store has the id b"),
        ("abcd", NotFound, "no thing in store has the id abcd"),
    ],
)
def test_what_names_no_one_thing_is_told(identity: str, error: type[Exception], told: str) -> None:
    with pytest.raises(error) as refused:
        only(THINGS, identity, what="thing", place="store")
    assert str(refused.value) == told
