"""`make chaos`: hours of bad luck in minutes, and proof that nothing came of it."""

import argparse
import asyncio
import logging
import os
import secrets
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.run import Options, Report, Run, Servers
from tests.standin.process import StandIn
from tests.support.servers.kafka import NativeCluster
from tests.support.servers.qdrant import NAMED_SERVER

_TIMES = {"log.message.timestamp.type": "LogAppendTime"}
"""So that it is the log that tells when a decision was there."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    defaults = Options(seed=0)
    parser.add_argument("--events", type=int, default=defaults.events)
    parser.add_argument("--seconds", type=float, default=defaults.seconds, help="of trouble")
    parser.add_argument("--minutes", type=float, help="the same in minutes")
    parser.add_argument("--deduplicators", type=int, default=defaults.deduplicators)
    parser.add_argument("--writers", type=int, default=defaults.writers)
    parser.add_argument("--partitions", type=int, default=defaults.partitions)
    parser.add_argument("--brokers", type=int, default=3, help="one, or at least three")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--keep", action="store_true", help="keep the directory in any case")
    return parser.parse_args()


def _servers(directory: Path, brokers: int, stack: ExitStack) -> Servers:
    """Start what the environment does not name; only that is hurt."""
    kafka = os.environ.get("KAFKA_BOOTSTRAP")  # noqa: TID251 - a switch of the tests
    cluster = index = None
    if kafka is None:
        cluster = NativeCluster(directory / "kafka", _TIMES, brokers=brokers)
        stack.enter_context(cluster)
    if NAMED_SERVER is None:
        index = stack.enter_context(StandIn(directory / "qdrant"))
    return Servers(
        kafka=kafka or (cluster.bootstrap if cluster else ""),
        qdrant=NAMED_SERVER or (index.url if index else ""),
        brokers=cluster.brokers if cluster else (),
        index=index,
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _again(options: Options, brokers: int) -> str:
    names = ("seed", "events", "seconds", "deduplicators", "writers", "partitions")
    given = (f"--{name} {getattr(options, name)}" for name in names)
    return f"python -m tests.chaos {' '.join(given)} --brokers {brokers}"


def _run(options: Options, brokers: int, directory: Path) -> Report:
    with ExitStack() as stack:
        servers = _servers(directory, brokers, stack)
        return asyncio.run(Run(options, servers, directory, _say).run())


def main() -> int:
    """Return 0 where nothing differs; the directory is kept where something does."""
    given = _arguments()
    options = Options(
        seed=given.seed,
        events=given.events,
        seconds=given.seconds if given.minutes is None else given.minutes * 60,
        deduplicators=given.deduplicators,
        writers=given.writers,
        partitions=given.partitions,
    )
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a lost broker is no news here
    directory = Path(tempfile.mkdtemp(prefix="memsieve-chaos-"))
    _say(f"seed {options.seed}, in {directory}")
    report = _run(options, given.brokers, directory)
    for line in report.lines():
        _say(line)
    if report.differences or given.keep:
        _say(f"kept: {directory}; again: {_again(options, given.brokers)}")
    else:
        shutil.rmtree(directory)
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
