"""Undo and its kin in a cluster: published, decided in their turn, and looked up afterwards."""

from pathlib import Path
from typing import Any

import pytest

from schemas.base import ScopeName
from streams.core.scope import partition_of
from tests.commands.test_undo import BEES, HIVES, POLICY
from tests.connected.test_reviews import publish
from tests.support.services import Installation
from tests.support.waiting import wait_until

PARTITIONS = 3
ANA = ScopeName("acme/ana")


@pytest.fixture
def served(tmp_path: Path, kafka_bootstrap: str, topic_prefix: str) -> Installation:
    """Describe an installation in which whatever is similar is joined."""
    (tmp_path / "joining.toml").write_text(POLICY, encoding="utf-8")
    installation = Installation.on(
        tmp_path, kafka_bootstrap, topic_prefix, policy="joining.toml", reviews__author="cleo"
    )
    installation.memsieve("topics", "create", "--partitions", str(PARTITIONS))
    return installation


def live(installation: Installation) -> set[str]:
    return {one["text"] for one in installation.json("memories")}


def revisions(installation: Installation) -> list[Any]:
    return installation.json("decisions", "--kind", "revise")


@pytest.mark.timeout(300)  # a dozen commands, each a process of its own
@pytest.mark.covers("B67", "B68", "S2.26", "C6")
async def test_a_decision_is_undone_while_the_service_decides(served: Installation) -> None:
    with served.running("serve") as service:
        service.wait_until_ready()
        await publish(served, ANA, BEES, HIVES, HIVES)
        wait_until(lambda: len(served.json("decisions")) == 3, "all is decided", seconds=60)
        [merge] = served.json("decisions", "--kind", "merge")

        planned = served.memsieve("undo", merge["decision_id"], "--dry-run")
        assert planned.count("\nwith   ") == 1
        printed = served.memsieve("undo", merge["decision_id"], "--note", "two roofs")
        place = f"memory.events/{partition_of(ANA, PARTITIONS)}/3"
        assert f"published as {place}; what comes of it: memsieve explain " in printed
        wait_until(lambda: len(served.json("decisions")) == 5, "it is undone", seconds=60)
        [undo] = revisions(served)
        assert undo["why"] == "somebody has undone what was decided before"
        assert live(served) == {BEES, HIVES}
        twice = served.memsieve("undo", merge["decision_id"], code=2)
        assert f"is undone already, by decision {undo['decision_id']}" in twice

        told = served.json("history", merge["memory"]["id"])
        assert [one["by"] for one in told["versions"]][1] is None
        assert "cleo" in {one["by"] for one in told["versions"]}
        served.memsieve("pin", merge["memory"]["id"])
        served.memsieve("rate", merge["memory"]["id"], "--helpful", "2")
        wait_until(lambda: len(revisions(served)) == 3, "both are decided on", seconds=60)
        [pinned] = [one for one in served.json("memories") if one["pinned"]]
        assert pinned["feedback"]["helpful"] == 2
        assert service.stop() == 0
    assert "every reject has its dead letter" in served.memsieve("verify")
