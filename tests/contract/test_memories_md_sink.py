"""A Memories.md that a writer keeps while people edit it. What every sink keeps: test_sinks.py."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from schemas.memories import Persistence, Turns
from schemas.outcomes import Applied
from streams.memories_md.core.entries import entries
from streams.memories_md.core.mapping import event_id_of
from streams.memories_md.core.parsing import parse
from streams.memories_md.world.file import MemoriesFile
from streams.memories_md.world.level import level_of
from streams.memories_md.world.sink import MemoriesMdSink
from streams.model.fences import Epoch, ReadPosition
from streams.model.identity import decision_id
from streams.model.ports.failures import NoStore, Transient
from tests.contract.test_sinks import change, retired

HAND = """\
Kept by Bo since spring.\r
\r
## Location 41: The old lighthouse\r
\r
Mind the dog.\r
"""


class Kept:
    """A sink over a file, and what it had to say."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "Memories.md"
        self.notes: list[str] = []
        self.reached = 0

    @property
    def text(self) -> str:
        return self.path.read_bytes().decode()

    def edit(self, old: str, new: str) -> None:
        assert self.text.count(old) == 1
        self.path.write_bytes(self.text.replace(old, new).encode())

    async def write(self, *changes: Applied) -> None:
        self.reached += 1
        sink = MemoriesMdSink(self.path, "acme", self.notes.append)
        await sink.level(0)
        await sink.write(0, changes, ReadPosition(self.reached, Epoch(0, "owner")))


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def told(number: int, version: int = 1, **fields: Any) -> Applied:
    """Build a change of a memory that says something about its number."""
    return change(version, number, version, text=fields.pop("text", f"Fact {number}."), **fields)


@pytest.mark.covers("S3.7", "S3.11", "S3.12", "S3.29", "S0.35")
async def test_memories_are_added_where_people_keep_notes(kept: Kept) -> None:
    kept.path.write_bytes(HAND.encode())
    seen: dict[str, Any] = {
        "turns": Turns(first=5, last=48),
        "sessions": ("1",),
        "observation_count": 3,
    }
    await kept.write(told(1, metadata={"location_name": "Lighthouse"}, category="DANGER", **seen))
    entry = "**[DANGER] Fact 1** *(Ep1, T5→T48, seen 3x)*\r\nFact 1.\r\n"
    assert kept.text == f"{HAND}\r\n### Memories\r\n\r\n{entry}"
    assert kept.notes == []


@pytest.mark.covers("S3.8", "S0.83", "S0.29")
async def test_what_is_for_now_or_of_no_location_is_left_out(kept: Kept) -> None:
    await kept.write(
        told(1, persistence=Persistence.EPHEMERAL),
        told(2, scope="acme/ana"),
        told(3, scope="other/41"),
        told(4),
    )
    assert [found.entry.text for found in entries(parse(kept.text))] == ["Fact 4."]


@pytest.mark.covers("S3.52", "D40")
async def test_an_edit_by_hand_stays_and_is_told_once_the_memory_changes(kept: Kept) -> None:
    await kept.write(told(1), told(2))
    kept.edit("Fact 1.", "Fact 1, as Bo knows it.")
    edited = kept.text
    await kept.write(told(2, version=2, text="Fact 2, too."))
    assert kept.notes == []
    await kept.write(told(1, version=2, text="Fact 1, too.", observation_count=2))
    assert kept.notes == [
        f'{kept.path}: location 41: "Fact 1" was edited by hand and stays so: import it'
    ]
    expected = edited.replace("Fact 2.", "Fact 2, too.")
    assert kept.text == expected.replace("Fact 1**\n", "Fact 1** *(seen 2x)*\n")


async def test_a_score_or_goal_by_hand_stays(kept: Kept) -> None:
    await kept.write(told(1, metadata={"score": 5}))
    kept.edit("*(+5)*", "*(-3, Goal: Rest)*")
    await kept.write(told(1, version=2, text="Fact 1, too.", metadata={"score": 5}))
    assert "*(-3, Goal: Rest)*\nFact 1, too.\n" in kept.text
    assert kept.notes == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("**[NOTE] Fact 1**\nFact 1.\n", ""),
        ("## Location 41:", "## Location 42:"),
    ],
)
async def test_one_that_was_taken_out_or_moved_stays_away(kept: Kept, old: str, new: str) -> None:
    await kept.write(told(1))
    kept.edit(old, new)
    edited = kept.text
    await kept.write(told(1, version=2, text="Fact 1, too."))
    assert kept.text == edited
    assert "taken out or moved by hand" in kept.notes[0]


async def test_a_renamed_one_is_found_again(kept: Kept) -> None:
    await kept.write(told(1), told(2))
    kept.edit("Fact 1**", "Bo's fact**")
    await kept.write(told(1, version=2, text="Fact 1, too.", observation_count=2))
    assert "**[NOTE] Bo's fact** *(seen 2x)*\nFact 1.\n" in kept.text
    assert "edited by hand" in kept.notes[0]


async def test_one_that_was_struck_through_stays_so(kept: Kept) -> None:
    await kept.write(told(1))
    kept.edit("\nFact 1.\n", "\n~~Fact 1.~~\n")
    edited = kept.text
    await kept.write(told(1, version=2, text="Fact 1, too.", observation_count=2))
    assert kept.text == edited
    assert kept.notes == [f'{kept.path}: location 41: "Fact 1" was retired by hand']


async def test_an_edit_that_was_decided_on_is_in_step_again(kept: Kept) -> None:
    await kept.write(told(1))
    kept.edit("\nFact 1.\n", "\nFact 1, as Bo knows it.\n")
    [found] = entries(parse(kept.text))
    event = event_id_of(told(1).memory.scope, found.entry)
    decided = decision_id(told(1).memory.scope, event)
    merged = told(1, version=2, text="Fact 1, as Bo knows it. And more.")
    await kept.write(merged.model_copy(update={"decision_id": decided}))
    assert "\nFact 1, as Bo knows it. And more.\n" in kept.text
    await kept.write(told(1, version=3, text="Fact 1, at last."))
    assert "\nFact 1, at last.\n" in kept.text
    assert kept.notes == []


@pytest.mark.covers("S0.15", "D12")
async def test_a_retired_one_is_marked_and_names_its_successor(kept: Kept) -> None:
    await kept.write(told(1))
    await kept.write(told(2), retired(2, 1, version=2, by=2, text="Fact 1."))
    assert (
        "**[NOTE - SUPERSEDED] Fact 1**\n"
        '[Superseded by "Fact 2"]\n'
        "~~Fact 1.~~\n\n"
        "**[NOTE] Fact 2**\nFact 2.\n"
    ) in kept.text


@pytest.mark.covers("S3.30", "D33")
async def test_one_whose_level_was_lost_is_brought_in_step_again(kept: Kept) -> None:
    kept.path.write_bytes(HAND.encode())
    await kept.write(told(1), told(2))
    await kept.write(told(1, version=2, text="Fact 1, too."))
    before = kept.text
    level_of(MemoriesFile(kept.path)).unlink()
    kept.reached = 0
    await kept.write(told(1), told(2), told(1, version=2, text="Fact 1, too."))
    assert kept.text == before


@pytest.mark.covers("S3.32")
async def test_an_edit_after_a_kill_is_kept(kept: Kept) -> None:
    """The file was replaced, the process killed before its level, and then a person came."""
    await kept.write(told(1))
    level = level_of(MemoriesFile(kept.path))
    before = json.loads(level.read_bytes())
    old = kept.text
    await kept.write(told(1, version=2, text="Fact 1, too."), told(2))
    after = json.loads(level.read_bytes())
    coming = {"before": digest(old), "after": digest(kept.text), "memories": after["memories"]}
    level.write_text(json.dumps({**before, "coming": coming}), "utf-8")
    kept.edit("Fact 2.", "Fact 2, as Bo knows it.")
    edited = kept.text
    kept.reached = 1
    await kept.write(told(1, version=2, text="Fact 1, too."), told(2))
    assert kept.text == edited
    assert kept.notes == []


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def test_a_file_that_is_gone_is_told(kept: Kept) -> None:
    await kept.write(told(1))
    kept.path.unlink()
    with pytest.raises(NoStore, match="is gone: restore it from"):
        await kept.write(told(1, version=2))
    assert not kept.path.exists()


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b'{"format": 2}', b'{"memories": 1}'])
async def test_a_damaged_level_is_told(kept: Kept, damaged: bytes) -> None:
    await kept.write(told(1))
    level_of(MemoriesFile(kept.path)).write_bytes(damaged)
    before = kept.text
    with pytest.raises(NoStore, match="is damaged: delete it"):
        await kept.write(told(1, version=2))
    assert kept.text == before


@pytest.mark.covers("D33")
async def test_what_cannot_be_read_is_not_touched(kept: Kept) -> None:
    kept.path.write_bytes(b"caf\xe9\n")
    with pytest.raises(NoStore, match=r"Memories\.md:1: byte 3"):
        await kept.write(told(1))
    assert kept.path.read_bytes() == b"caf\xe9\n"


@pytest.mark.covers("S3.31")
async def test_one_that_is_held_can_be_written_later(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.memories_md.world.file._BUSY_SECONDS", 0.02)
    with MemoriesFile(kept.path).held(), pytest.raises(Transient, match="another memsieve"):
        await kept.write(told(1))
    await kept.write(told(1))
    assert "Fact 1." in kept.text


def test_says_that_it_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="is a directory"):
        MemoriesMdSink(tmp_path, "acme", print)
    with pytest.raises(NoStore, match="directory around it is missing"):
        MemoriesMdSink(tmp_path / "no" / "Memories.md", "acme", print)
