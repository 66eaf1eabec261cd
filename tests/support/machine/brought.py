"""What a package brings with it, lent to another environment from this one: nothing is fetched."""

import sysconfig
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_OURS = sysconfig.get_path("purelib")


def lend(distribution: Distribution, into: Path, extra: str = "") -> None:
    """Link all that an installed package needs with an extra, and no more, into a directory."""
    for needed in {one.name: one for one in _needed(distribution, extra)}.values():
        for top in {file.parts[0] for file in needed.files or ()} - {".."}:
            if not (into / top).exists():
                (into / top).symlink_to(Path(str(needed.locate_file(top))))


def installed(name: str, *places: Path) -> Distribution:
    """Return a package that is installed in one of the places, or in this environment."""
    return next(iter(distributions(name=name, path=[*map(str, places), _OURS])))


def required(distribution: Distribution, extra: str) -> list[Requirement]:
    """Return what a package requires on this machine, with an extra."""
    lines = map(Requirement, distribution.requires or ())
    return [one for one in lines if not one.marker or one.marker.evaluate({"extra": extra})]


def _needed(distribution: Distribution, extra: str) -> Iterator[Distribution]:
    """Yield what a package needs, and itself, once for each extra that is asked for."""
    own, seen = distribution, set[tuple[str, str]]()
    waiting = [(canonicalize_name(own.name), extra)]
    while waiting:
        name, of = waiting.pop()
        if (name, of) not in seen:
            seen.add((name, of))
            found = own if name == canonicalize_name(own.name) else installed(name)
            yield found
            for one in required(found, of):
                waiting += [(canonicalize_name(one.name), also) for also in ("", *one.extras)]
