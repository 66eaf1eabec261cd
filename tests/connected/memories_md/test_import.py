"""`memsieve memories-md import` and `export-md` of a cluster: a Memories.md onto its topics, and out of them."""

import shutil
from pathlib import Path

import pytest

from tests.support.machine.waiting import wait_until
from tests.support.servers.services import Installation

EXAMPLE = Path("examples/lighthouse.md").absolute()


@pytest.fixture
def served(tmp_path: Path, kafka_bootstrap: str, topic_prefix: str) -> Installation:
    """Describe an installation with topics of two partitions, whose writer keeps a file."""
    kept = {"sinks__memories_md": "Kept.md", "sinks__memories_md_world": "coast"}
    installation = Installation.on(tmp_path, kafka_bootstrap, topic_prefix, **kept)
    installation.memsieve("service", "topics", "create", "--partitions", "2")
    return installation


@pytest.mark.timeout(300)  # some commands, each a process of its own
@pytest.mark.covers("S0.64", "S3.47", "B106")
def test_a_file_is_published_decided_on_kept_and_exported(
    served: Installation, tmp_path: Path
) -> None:
    shutil.copy(EXAMPLE, tmp_path / "Memories.md")
    imported = ("memories-md", "import", "Memories.md", "--world", "coast")
    events = served.json(*imported, "--out", "events.jsonl")["events"]
    with served.running("serve") as service:
        service.wait_until_ready()
        assert served.json(*imported)["decisions"] == {"published": events}
        wait_until(lambda: decided(served) == events, "the events are decided on")
        exported = served.json("memories-md", "export", "New.md", "--world", "coast")
        assert exported == {"memories": 3, "changed": True, "left_alone": []}
        again = (tmp_path / "New.md").read_bytes()
        wait_until(lambda: same_entries(tmp_path), "the writer has brought its file up to date")

        assert served.json(*imported)["decisions"] == {"published": events}
        wait_until(lambda: decided(served) == 2 * events, "they are decided on once more")
        assert (
            served.json("memories-md", "export", "New.md", "--world", "coast")["changed"] is False
        )
        assert (tmp_path / "New.md").read_bytes() == again
        assert service.stop() == 0
    check = {one["name"]: one for one in served.json("check", "--full")["checks"]}["memories_md"]
    assert check["healthy"], check


def decided(served: Installation) -> int:
    return sum(served.json("check", "--full")["counts"]["decisions"].values())


def same_entries(directory: Path) -> bool:
    """Tell whether what the writer keeps and what was exported have the same live entries."""
    files = [directory / name for name in ("Kept.md", "New.md")]
    if not all(file.exists() for file in files):
        return False
    kept, exported = (file.read_text("utf-8").splitlines() for file in files)
    return {line for line in exported if line.startswith("**[")} <= set(kept)
