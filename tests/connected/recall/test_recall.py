"""`memsieve search --block` of a cluster: what the services have decided, out of the log alone."""

from pathlib import Path

import pytest

from tests.support.machine.waiting import wait_until
from tests.support.servers.services import Installation
from tests.support.stage.stores import run

EXAMPLE = Path("examples/trap-door.jsonl").absolute()


@pytest.fixture
def served(tmp_path: Path, kafka_bootstrap: str, topic_prefix: str) -> Installation:
    """Describe an installation with topics of two partitions, whose index is its own."""
    installation = Installation.on(tmp_path, kafka_bootstrap, topic_prefix)
    installation.memsieve("service", "topics", "create", "--partitions", "2")
    return installation


@pytest.mark.timeout(300)  # some commands, each a process of its own
@pytest.mark.covers("S3.34")
def test_a_cluster_recalls_what_a_store_recalls(served: Installation, tmp_path: Path) -> None:
    asked = ("search", "--block", "--scope", "dungeon/cellar")
    run([EXAMPLE], tmp_path / "embedded")
    expected = served.memsieve(*asked, "--store", str(tmp_path / "embedded"))
    with served.running("serve") as service:
        service.wait_until_ready()
        assert served.memsieve(*asked) == (
            "No memories yet.\nscope dungeon/cellar has no memories\n"
        )
        served.memsieve("publish", str(EXAMPLE))
        wait_until(lambda: served.memsieve(*asked) == expected, "the cluster recalls as much")
        nearest = served.memsieve(*asked, "a way out", "--lasting", "0")
        assert "There is a way out to the north." in nearest.splitlines()[1]
        assert service.stop() == 0
