"""A pytest plugin: what `make unit` runs needs nothing but this process.

A test of tests/unit or tests/schemas that starts a process, or loads the embedding model, is marked `process`, and
`make unit` leaves it out. One that is not marked fails where it does either.
"""

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import platformdirs
import pytest

_TESTS = Path(__file__).parents[2]
_UNIT = (_TESTS / "unit", _TESTS / "schemas")
_MODELS = str(platformdirs.user_cache_path("memsieve"))
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})

_alone: str | None = None
"""The test that runs and may do neither."""


class NotAlone(AssertionError):
    """A unit test did what needs more than this process."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Watch a unit test, its fixtures included."""
    global _alone  # noqa: PLW0603 - an audit hook is one for the whole process
    watched = any(item.path.is_relative_to(folder) for folder in _UNIT)
    unit = watched and item.get_closest_marker("process") is None
    _alone = item.nodeid if unit else None
    try:
        return (yield)
    finally:
        _alone = None


def _watch(event: str, details: tuple[Any, ...]) -> None:
    if _alone is None:
        return
    if event in _STARTS:
        raise NotAlone(f"{_alone} starts a process: mark it with @pytest.mark.process")
    if event == "open" and str(details[0]).startswith(_MODELS):
        raise NotAlone(f"{_alone} loads the model: mark it with @pytest.mark.process")


sys.addaudithook(_watch)
