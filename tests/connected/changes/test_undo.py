"""Undo and its kin in a cluster: published, decided in their turn, and told."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from schemas.base import ScopeName
from streams.model.scope import partition_of
from tests.commands.changes.test_undo import BEES, HIVES, POLICY
from tests.connected.forget.test_forgetting import published
from tests.connected.reviews.test_reviews import publish
from tests.support.machine.waiting import wait_until
from tests.support.servers.services import Installation

PARTITIONS = 3
ANA = ScopeName("acme/ana")


@pytest.fixture
def served(tmp_path: Path, kafka_bootstrap: str, topic_prefix: str) -> Installation:
    """Describe an installation in which whatever is similar is joined."""
    (tmp_path / "joining.toml").write_text(POLICY, encoding="utf-8")
    installation = Installation.on(
        tmp_path, kafka_bootstrap, topic_prefix, policy="joining.toml", reviews__author="cleo"
    )
    installation.memsieve("service", "topics", "create", "--partitions", str(PARTITIONS))
    return installation


def live(installation: Installation) -> set[str]:
    return {one["text"] for one in installation.json("memory", "list")}


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
        assert f"published as {place} and 1 more; waiting up to 30 s" in printed
        [told, again] = [line for line in printed.splitlines() if ", because " in line]
        assert told.startswith("revise: ")
        assert told.endswith("because an earlier decision was undone")
        assert again.startswith("reinforce: ")
        [undo] = revisions(served)
        assert undo["why"] == "an earlier decision was undone"
        assert live(served) == {BEES, HIVES}
        twice = served.memsieve("undo", merge["decision_id"], code=2)
        assert f"is undone already, by decision {undo['decision_id']}" in twice

        told = served.json("memory", "history", merge["memory"]["id"])
        assert [one["by"] for one in told["versions"]][1] is None
        assert "cleo" in {one["by"] for one in told["versions"]}
        kept = served.json("memory", "pin", merge["memory"]["id"])
        assert [one["kind"] for one in kept["decisions"]] == ["revise"]
        assert (len(kept["published"]), kept["undecided"]) == (1, [])
        served.memsieve("memory", "rate", merge["memory"]["id"], "--helpful", "2")
        gone = ("memory", "retire", merge["memory"]["id"], "--reason", "invalid")
        assert "the memory is pinned; unpin it first" in served.memsieve(*gone, code=2)
        [pinned] = [one for one in served.json("memory", "list") if one["pinned"]]
        assert pinned["feedback"]["helpful"] == 2
        assert service.stop() == 0
    assert "every reject has its dead letter" in served.memsieve("check", "--full")


@pytest.mark.timeout(300)  # a dozen commands, each a process of its own
@pytest.mark.covers("B67", "S2.26", "C6")
async def test_an_undo_that_comes_too_late_is_planned_anew(served: Installation) -> None:
    """Between its plan and its turn, what it would undo was said once more."""
    with served.running("serve") as service:
        service.wait_until_ready()
        await publish(served, ANA, BEES, HIVES)
        wait_until(lambda: len(served.json("decisions")) == 2, "all is decided", seconds=60)
        assert service.stop() == 0
    [merge] = served.json("decisions", "--kind", "merge")
    await publish(served, ANA, HIVES, first=2)
    with served.asking("undo", merge["decision_id"], "--wait", "90") as asking:
        wait_until(lambda: published(asking), "it waits")
        with served.running("serve") as service:
            told, said = asking.communicate(timeout=100)
            assert asking.returncode == 0, said
            assert service.stop() == 0
    assert "1 of 1 refused: its memories have changed since it was planned" in said
    assert "planned and requested again (2 of 5)" in said
    assert "\nwith   " in told
    assert "because an earlier decision was undone" in told
    assert live(served) == {BEES, HIVES}
    reasons = [one["evidence"]["reason"] for one in served.json("decisions")]
    assert (reasons.count("out-of-date"), reasons.count("undone")) == (1, 1)
    assert "every reject has its dead letter" in served.memsieve("check", "--full")


@pytest.mark.timeout(300)  # a dozen commands, each a process of its own
@pytest.mark.covers("B67")
async def test_what_nobody_decides_in_time_stays_asked(served: Installation) -> None:
    with served.running("serve") as service:
        service.wait_until_ready()
        await publish(served, ANA, BEES)
        wait_until(lambda: len(served.json("decisions")) == 1, "it is decided", seconds=60)
        assert service.stop() == 0
    [bees] = served.json("memory", "list")
    rate = ("memory", "rate", bees["id"], "--helpful")
    place = f"memory.events/{partition_of(ANA, PARTITIONS)}"

    at_once = served.memsieve(*rate, "1", "--wait", "0")
    assert at_once.startswith(f"published as {place}/1; for the result: memsieve explain ")
    assert len(at_once.splitlines()) == 1

    began = time.monotonic()
    late = served.memsieve(*rate, "2", "--wait", "2", code=7)
    assert time.monotonic() - began > 2
    assert f"published as {place}/2; for the result: memsieve explain " in late
    assert "no owner has decided on 1 of 1 requests within 2 s: they stay queued" in late

    with served.asking(*rate, "4", "--wait", "600") as asking:
        wait_until(lambda: published(asking), "it waits")
        asking.send_signal(signal.SIGINT)
        told, said = asking.communicate(timeout=30)
        assert (asking.returncode, told) == (130, "")
        assert f"interrupted; the request stays queued, as {place}/3: " in said

    with served.running("serve") as service:
        wait_until(lambda: len(revisions(served)) == 3, "all are decided on in their turn")
        [rated] = served.json("memory", "list")
        assert rated["feedback"]["helpful"] == 1 + 2 + 4
        assert service.stop() == 0
