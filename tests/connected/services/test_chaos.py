"""`make chaos` in short: every kind of trouble at least once, and nothing comes of it."""

import logging
from pathlib import Path

import pytest

from tests.chaos.run import Options, Run, Servers
from tests.standin.process import StandIn
from tests.support.servers.kafka import NativeKafka

TROUBLE = {
    *("kill deduplicator", "kill writer", "stop deduplicator", "stop writer"),
    *("join deduplicator", "join writer", "leave deduplicator", "leave writer"),
    *("restart broker", "restart index"),
}


@pytest.mark.timeout(300)  # half a minute of trouble, and a start and an end that take a while
@pytest.mark.covers("B123", "B124", "B125", "C8", "D28")
async def test_no_trouble_changes_what_is_decided_and_kept(
    tmp_path: Path,
    own_broker: NativeKafka,
    own_qdrant: StandIn,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The events come meanwhile; afterwards all is as one undisturbed process would have it."""
    caplog.set_level(logging.CRITICAL, "aiokafka")  # a lost broker is no news here
    said: list[str] = []
    options = Options(seed=1, events=1_000, seconds=30.0, partitions=3, scopes=20)
    servers = Servers(own_broker.bootstrap, own_qdrant.url, [own_broker], own_qdrant)
    report = await Run(options, servers, tmp_path, said.append).run()
    assert report.differences == [], "\n".join([*said, *report.lines()])
    assert report.counts.keys() >= TROUBLE
    assert (report.lost, report.duplicated) == (0, 0)
    assert report.kinds.keys() >= {"revise", "consolidate", "erase", "block"}
