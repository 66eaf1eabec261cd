"""What the options of several commands name."""

from pathlib import Path

import pytest

from streams.store.cli.options import ReadOptions, UnknownId, UsageError, only

THINGS = {"twins-1": 1, "twins-12": 2, "x": 3}


@pytest.mark.parametrize(("identity", "thing"), [("twins-1", 1), ("twins-12", 2), ("x", 3)])
def test_a_thing_is_named_by_its_id(identity: str, thing: int) -> None:
    assert only(THINGS, identity, what="thing", place="store") == thing


def test_the_beginning_of_one_id_alone_names_a_thing() -> None:
    assert only({"abcdef1": 1, "bcdefg2": 2}, "abcdef", what="thing", place="store") == 1


@pytest.mark.parametrize(
    ("identity", "error", "told"),
    [
        ("twins-", UsageError, "2 ids begin with twins-: twins-1, twins-12"),
        (
            "twins",
            UsageError,
            "twins is no id or name; to shorten an id, write 6 characters at least",
        ),
        ("", UsageError, "ID is empty"),
        ("b", UnknownId, "no thing in store has the id b"),
        ("abcd", UnknownId, "no thing in store has the id abcd"),
    ],
)
def test_what_names_no_one_thing_is_told(identity: str, error: type[Exception], told: str) -> None:
    with pytest.raises(error) as refused:
        only(THINGS, identity, what="thing", place="store")
    assert str(refused.value) == told


def test_who_reads_a_cluster_that_only_the_settings_name_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ReadOptions().to_read().embedded
    monkeypatch.setenv("MEMSIEVE_KAFKA__BOOTSTRAP", "localhost:9092")
    assert ReadOptions(store=Path("notes")).to_read().embedded
    assert not ReadOptions(kafka="localhost:9093").to_read().embedded
    assert not ReadOptions(as_json=True).to_read().embedded
    assert capsys.readouterr() == ("", "")
    assert not ReadOptions().to_read().embedded
    told = "reading the cluster at localhost:9092; --store DIR reads a store\n"
    assert capsys.readouterr() == ("", told)
