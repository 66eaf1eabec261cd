"""The command that adds an extra works for the way in which memsieve was installed."""

from typing import Any

import pytest

from streams.store.world.extras import pip_install


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({}, "pip install 'memsieve[kafka]'"),
        (
            {"url": "file:///src/mem%20sieve", "dir_info": {}},
            "pip install '/src/mem sieve[kafka]'",
        ),
        (
            {"url": "file:///src/memsieve", "dir_info": {"editable": True}},
            "pip install --editable '/src/memsieve[kafka]'",
        ),
        (
            {"url": "file:///tmp/memsieve-1-py3-none-any.whl", "archive_info": {}},
            "pip install 'memsieve[kafka] @ file:///tmp/memsieve-1-py3-none-any.whl'",
        ),
    ],
    ids=["an index", "a directory", "an editable directory", "a wheel"],
)
def test_the_command_that_adds_an_extra_names_where_memsieve_came_from(
    origin: dict[str, Any], command: str
) -> None:
    assert pip_install("kafka", origin) == command
