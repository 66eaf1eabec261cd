"""Start the server with the client's models alone.

The whole client, with all that it imports, would take two seconds of every start.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


def _leave_out(package: str, path: Path) -> None:
    """Let modules of a package be imported without what its own `__init__` imports."""
    bare = ModuleType(package)
    bare.__path__ = [str(path)]
    sys.modules[package] = bare


def _start() -> None:
    client = find_spec("qdrant_client")
    assert client is not None
    assert client.origin is not None
    path = Path(client.origin).parent
    _leave_out("qdrant_client", path)
    _leave_out("qdrant_client.http", path / "http")

    from tests.standin.server import main  # noqa: PLC0415 -- only now it is quick to import

    main()


_start()
