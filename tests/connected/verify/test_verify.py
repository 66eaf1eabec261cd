"""`memsieve check --full` of a cluster: sound while and after services run; what is damaged is found."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from schemas.base import Position
from schemas.codec import DECISION, EVENT
from schemas.topics import DECISIONS, EVENTS
from streams.model.fences import Epoch
from streams.model.ports.log import OutgoingRecord
from streams.model.scope import partition_of
from streams.stage.core.case import Case
from streams.stage.core.decide import recognise
from streams.stage.flow.decisions import FENCE_HEADER, decision_record
from tests.builders import event, memory, policy
from tests.connected.services.test_services import EXAMPLES, log_of, on_qdrant, settled
from tests.support.machine.waiting import wait_until
from tests.support.servers.qdrant_clients import rest_client
from tests.support.servers.services import Installation

ASTRAY = event("Ana keeps bees.", event_id="astray")
PARTITIONS = 2


@pytest.fixture
def shared(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, qdrant_url: str, collection_prefix: str
) -> Installation:
    """Describe an installation with topics of two partitions and a Qdrant server."""
    installation = on_qdrant(tmp_path, kafka_bootstrap, topic_prefix, qdrant_url, collection_prefix)
    installation.memsieve("service", "topics", "create", "--partitions", f"{PARTITIONS}")
    return installation


def verified(installation: Installation, code: int = 0) -> Any:
    printed = installation.memsieve("check", "--full", "--json", code=code)
    report, _ = json.JSONDecoder().raw_decode(printed)
    return report


def found(report: Any) -> dict[str, dict[str, int]]:
    return {check["name"]: check["found"] for check in report["checks"] if check["found"]}


def is_level(report: Any) -> bool:
    """Tell whether all that was published is decided and applied; nothing may be wrong yet."""
    assert found(report) == {}
    [fact] = [check["fact"] for check in report["checks"] if check["name"] == "index"]
    return report["counts"]["events"] == 24 and fact.endswith("memories as the log says")


async def publish_astray(installation: Installation) -> None:
    """Publish an event where it does not belong; it is sent on."""
    wrong = 1 - partition_of(ASTRAY.scope, PARTITIONS)
    log = log_of(installation)
    await log.append([OutgoingRecord(EVENTS.name, wrong, b"no scope", EVENT.encode(ASTRAY))])
    await log.close()


async def delete_from_index(url: str, prefix: str, identity: str) -> None:
    client = rest_client(url)
    aliases = (await client.get_aliases()).aliases
    [name] = [one.alias_name for one in aliases if one.alias_name.startswith(prefix)]
    await client.delete(name, models.PointIdsList(points=[identity]), wait=True)
    await client.close()


async def forge_decision(installation: Installation) -> int:
    """Append, in the name of the newest owner, a decision that nobody made; return its offset."""
    said = event("Ana keeps goats.", event_id="forged", scope="acme/ben")
    source = Position(topic=EVENTS.name, partition=0, offset=999)
    forged = recognise(Case(said, source, policy()), memory(said.text, scope=said.scope))
    log = log_of(installation)
    records = await log.read(DECISIONS.name, 0, 0, 1_000)
    *_, fence = [record for record in records if FENCE_HEADER in dict(record.headers)]
    epoch = Epoch(fence.offset, (dict(fence.headers)[FENCE_HEADER] or b"").decode())
    [offset] = await log.append([decision_record(forged, DECISION.encode(forged), 0, epoch)])
    await log.close()
    return offset


def test_before_the_services_have_started_nothing_is_wrong(shared: Installation) -> None:
    shared.memsieve("publish", *map(str, EXAMPLES))
    report = verified(shared)
    assert found(report) == {}
    [fact] = [check["fact"] for check in report["checks"] if check["name"] == "index"]
    assert fact.endswith("not made yet; not examined")


@pytest.mark.covers("B66", "C9")
async def test_a_cluster_is_sound_while_and_after_its_services_run(shared: Installation) -> None:
    with shared.running("deduplicator") as deduplicator, shared.running("writer") as writer:
        shared.memsieve("publish", *map(str, EXAMPLES))
        await publish_astray(shared)
        wait = lambda: wait_until(lambda: is_level(verified(shared)), "all is applied")  # noqa: E731
        await asyncio.to_thread(wait)
        assert (deduplicator.stop(), writer.stop()) == (0, 0)
    report = verified(shared)
    assert found(report) == {}
    assert report["counts"]["waiting"] == 0
    assert (report["counts"]["decisions"]["forward"], report["counts"]["fences"]) == (1, 2)


async def test_a_deleted_point_and_a_forged_decision_are_found(
    shared: Installation, collection_prefix: str, qdrant_url: str
) -> None:
    with shared.running("deduplicator") as deduplicator, shared.running("writer") as writer:
        shared.memsieve("publish", *map(str, EXAMPLES))
        await settled(shared, 22)
        assert (deduplicator.stop(), writer.stop()) == (0, 0)
    [first, *_] = [one["id"] for one in shared.json("memory", "list")]
    await delete_from_index(qdrant_url, collection_prefix, first)
    report = verified(shared, code=8)
    assert found(report) == {"index": {"lacking": 1}}
    assert first in str(report["checks"])

    offset = await forge_decision(shared)
    report = verified(shared, code=8)
    assert found(report) == {
        "events": {"beyond-events": 1},
        "fold": {"does-not-build": 1},
        "counts": {"unequal": 1},
        "index": {"lacking": 1},
    }
    told = shared.memsieve("check", "--full", code=8)
    assert f"memory.decisions/0/{offset} decides on memory.events/0/999, but the events" in told


async def test_an_index_of_one_process_is_not_examined(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    served = Installation.on(tmp_path, kafka_bootstrap, topic_prefix)
    served.memsieve("service", "topics", "create", "--partitions", "1")
    report = verified(served)
    assert report["notes"] == [
        "index: edge, in the directory of the one `memsieve service serve`; not examined"
    ]
