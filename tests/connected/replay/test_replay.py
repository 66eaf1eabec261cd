"""Replays on a real Kafka, beside services that go on working."""

import json
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.connected.services.test_services import facts, on_qdrant, settled, write_events
from tests.support.machine.waiting import wait_until
from tests.support.servers.services import COMMAND, Installation

DEFAULT = Path(__file__).parents[3] / "streams" / "store" / "policies" / "default.toml"


@pytest.fixture
def cluster(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, qdrant_url: str, collection_prefix: str
) -> Installation:
    made = on_qdrant(tmp_path, kafka_bootstrap, topic_prefix, qdrant_url, collection_prefix)
    made.memsieve("service", "topics", "create", "--partitions", "3")
    return made


BOLDER = {
    'name = "default"': 'name = "bolder"\nguards = false',
    'chain = ["built-in"]': "chain = []",
    '= "keep-both"\nreview = "keep-both"': '= "merge"\nreview = "keep-both"',
    "match = 0.97": "match = 0.80",
}


def bolder(directory: Path) -> str:
    """Write a policy that joins what the default one keeps apart."""
    path = directory / "bolder.toml"
    content = DEFAULT.read_text("utf-8")
    for before, after in BOLDER.items():
        content = content.replace(before, after)
    path.write_text(content, "utf-8")
    return str(path)


def placeless(decisions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out where a log has them: fences lie elsewhere."""
    rest = [{k: v for k, v in one.items() if k != "offset"} for one in decisions]
    return sorted(rest, key=lambda one: (one["source"]["partition"], one["source"]["offset"]))


def started(installation: Installation, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start a command; what it says goes into the file `said`."""
    with (installation.directory / "said").open("wb") as said:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            env=installation.environment,
            cwd=installation.directory,
            stdout=said,
        )


@pytest.mark.covers("B128")
async def test_what_a_cluster_decided_is_decided_again_in_a_store_of_its_own(
    cluster: Installation, tmp_path: Path
) -> None:
    path = write_events(tmp_path / "events.jsonl", facts(120))
    with cluster.running("writer"), cluster.running("deduplicator"):
        cluster.memsieve("publish", str(path))
        await settled(cluster, 120)
    told = cluster.json("store", "replay", "redecide", "--into", "again")
    assert (told["compared"], told["changed"]) == (120, 0)
    again = cluster.json("decisions", "--store", str(tmp_path / "again"))
    assert placeless(again) == placeless(cluster.json("decisions"))
    memories = cluster.json("memory", "list", "--retired")
    assert (
        cluster.json("memory", "list", "--retired", "--store", str(tmp_path / "again")) == memories
    )


@pytest.mark.covers("B129")
async def test_a_second_run_decides_on_the_same_events_for_itself(
    cluster: Installation, tmp_path: Path
) -> None:
    path = write_events(tmp_path / "events.jsonl", facts(60))
    variables = {
        **cluster.variables,
        "MEMSIEVE_KAFKA__RUN": "two",
        "MEMSIEVE_POLICY": bolder(tmp_path),
    }
    second = Installation(tmp_path, variables)
    second.memsieve("service", "topics", "create", "--partitions", "3")
    with cluster.running("writer"), cluster.running("deduplicator"):
        cluster.memsieve("publish", str(path))
        await settled(cluster, 60)
    with second.running("writer"), second.running("deduplicator"):
        await settled(second, 60)
    told = cluster.json("store", "replay", "diff", "--run", "two")
    assert told["compared"] == 60
    assert told["changed"] > 0
    assert len(second.json("memory", "list")) < len(cluster.json("memory", "list")) == 60


@pytest.mark.covers("B130")
async def test_a_collection_is_built_anew_and_swapped_beside_services_that_work(
    cluster: Installation, tmp_path: Path
) -> None:
    path = write_events(tmp_path / "events.jsonl", facts(300))
    with cluster.running("writer") as writer, cluster.running("deduplicator") as deduplicator:
        deduplicator.wait_until_ready()
        with started(cluster, "publish", str(path)) as publishing:
            for number in (2, 3):
                rebuilt = cluster.json("store", "replay", "rematerialise")
                assert rebuilt["place"].endswith(f".{number}")
            assert publishing.wait(60) == 0
        await settled(cluster, 300)
        assert deduplicator.stop() == 0
        assert writer.stop() == 0
    assert "all as the log says" in cluster.memsieve("check")
    decisions = cluster.json("decisions")
    assert len(decisions) == len({one["decision_id"] for one in decisions}) == 300


@pytest.mark.covers("B129")
async def test_a_shadow_follows_the_cluster(cluster: Installation, tmp_path: Path) -> None:
    path = write_events(tmp_path / "events.jsonl", facts(40))
    with cluster.running("writer"), cluster.running("deduplicator"):
        said = tmp_path / "said"
        arguments = ("policy", "shadow", "--policy", bolder(tmp_path), "--from", "0", "--json")
        with started(cluster, *arguments) as shadow:
            cluster.memsieve("publish", str(path))
            wait_until(lambda: said.stat().st_size > 0, "a difference is told", seconds=60)
            shadow.send_signal(signal.SIGTERM)
            assert shadow.wait(30) == 0
    [first, *_] = [json.loads(line) for line in said.read_text("utf-8").splitlines()]
    assert (first["before"]["kind"], first["after"]["kind"]) == ("insert", "merge")
