"""A real `memsieve service api` over a store of its own."""

import hashlib
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from streams.embedding import HASHING
from tests.support.servers.services import Installation


@contextmanager
def api(
    directory: Path,
    rights: Mapping[str, tuple[str, str]],
    policy: str = "default-hashing",
    **settings: str,
) -> Generator[str]:
    """Serve a store meanwhile; give the address.

    `rights` has by the name of a token, which is "of NAME", its scope and what it may do there.
    """
    rows = ""
    for name, (scope, may) in rights.items():
        digest = hashlib.sha256(f"of {name}".encode()).hexdigest()
        rows += f'[[tokens]]\nname = "{name}"\nsha256 = "{digest}"\nscopes = ["{scope}"]\n'
        rows += f"rights = [{may}]\n"
    (directory / "tokens.toml").write_text(rows, "utf-8")
    given = {"EMBEDDER__MODEL": HASHING, "POLICY": policy, "API__TOKENS": "tokens.toml"}
    own = {**given, "API__PORT": "0", "SERVICE__PORT": "0", **settings}
    here = Installation(directory, {f"MEMSIEVE_{name}": value for name, value in own.items()})
    with here.running("api", "--store", "store") as process:
        process.wait_until_ready()
        [port] = re.findall(r"API on port (\d+)", process.said)
        yield f"http://127.0.0.1:{port}"
        assert process.stop() == 0
