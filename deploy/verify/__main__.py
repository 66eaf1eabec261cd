"""Prove docker-compose.yml on this machine: `make verify-compose`, or `python -m deploy.verify`.

Builds memsieve's image, stands in for the others where no registry gives them, starts a project of
its own, tries what docs/operations.md says of it, a line for each check, and removes everything.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from deploy.verify import images
from deploy.verify.checks import CHECKS
from deploy.verify.machine import Failed, works
from deploy.verify.stack import Stack

_REST_ALONE = {"MEMSIEVE_QDRANT__PREFER_GRPC": "false"}
_OURS = ("topics", "deduplicator", "writer", "api", "web", "extractor", "consolidator", "memsieve")


def main() -> int:
    """Return the exit code: 0 where all is proved or there is no Docker, 1 where a check fails."""
    arguments = _arguments()
    for program in (["docker", "info"], ["docker", "compose", "version"]):
        if not works(program):
            _say(f"skipped: `{' '.join(program)}` fails here, so there is nothing to verify")
            return 0
    try:
        return _verified(keep=arguments.keep)
    except Failed as failed:
        _say(f"FAIL  {failed}")
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.verify", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave containers and images there")
    return parser.parse_args()


def _verified(*, keep: bool) -> int:
    """Have the images, check, and remove what was made. Raises Failed where images cannot be had."""
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)  # containers read it as another user
        try:
            return _checked(_prepared(Path(scratch)), keep=keep)
        finally:
            if not keep:
                images.remove_stand_ins()


def _prepared(scratch: Path) -> Stack:
    """Have all images, and return the project that uses them."""
    named = images.names()
    if not images.have(named.python):
        _say(f"stand-in  {named.python}: Python 3.11 of Debian")
        images.python(named.python)
    if not images.have(named.kafka):
        _say(f"stand-in  {named.kafka}: the same version from Maven, with Debian's Java")
        images.kafka(named.kafka)
    if images.have(named.qdrant):
        return Stack(scratch)
    _say(f"stand-in  {named.qdrant}: tests/standin, over REST alone")
    override = scratch / "rest-alone.json"
    override.write_text(
        json.dumps({"services": {name: {"environment": _REST_ALONE} for name in _OURS}})
    )
    stack = Stack(scratch, override)
    stack.compose("build", "topics")
    images.qdrant(named.qdrant, named.memsieve)
    return stack


def _checked(stack: Stack, *, keep: bool) -> int:
    """Check one after the other; stop at the first that fails."""
    try:
        for claim, check in CHECKS.items():
            start = time.monotonic()
            try:
                seen = check(stack)
            except Failed as failed:
                _say(f"FAIL  {claim}: {failed}")
                _say(stack.logs())
                return 1
            _say(f"ok    {claim}: {seen} ({time.monotonic() - start:.0f} s)")
    finally:
        if not keep:
            stack.end()
    _say(f"{len(CHECKS)} passed, 0 failed")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
