"""Qdrant servers for tests, as a pytest plugin.

The shared server is the one that QDRANT_URL names; else one in a container, where Docker answers
(TEST_QDRANT_IMAGE names another image than docker-compose.yml); else the stand-in.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.standin.process import StandIn
from tests.support.servers import containers
from tests.support.servers.containers import NoContainer, SlowPull

NAMED_SERVER = os.environ.get("QDRANT_URL")  # noqa: TID251 - a switch of the tests, no setting


@pytest.fixture(scope="session")
def qdrant_url(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Give the address of a server that the tests of a process share.

    Keep apart from other tests with collection_prefix.
    """
    with ExitStack() as stack:
        yield _find_server(pytestconfig, stack, tmp_path_factory.mktemp("qdrant"))


@pytest.fixture
def own_qdrant(tmp_path: Path) -> Iterator[StandIn]:
    """Give a stand-in that only this test uses, and may stop, slow down and let fail."""
    with StandIn(tmp_path / "qdrant") as server:
        yield server


@pytest.fixture
def collection_prefix(topic_prefix: str) -> str:
    """Return what this test's collections begin with."""
    return topic_prefix.rstrip(".")


def _find_server(config: pytest.Config, stack: ExitStack, data: Path) -> str:
    if NAMED_SERVER:
        return NAMED_SERVER
    try:
        return containers.address("qdrant", stack)
    except NoContainer as none:
        if isinstance(none, SlowPull):
            containers.tell(config, str(none))
        return stack.enter_context(StandIn(data)).url
