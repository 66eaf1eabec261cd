"""Detects another module that has the name of one of ours and is found before it."""

from importlib.util import find_spec
from pathlib import Path

_OURS = ("schemas", "streams")
_HERE = Path(__file__).resolve().parents[1]


def told(error: ImportError) -> ImportError:
    """Return an import's failure in one clear line where such a module caused it; else as it is."""
    name = (error.name or "").partition(".")[0]
    spec = find_spec(name) if name in _OURS else None
    if (
        spec is None
        or spec.origin is None
        or Path(spec.origin).resolve().is_relative_to(_HERE / name)
    ):
        return error
    return ImportError(
        f"{spec.origin} hides the package {name} of memsieve: rename it, or start Python elsewhere",
        name=name,
        path=spec.origin,
    )
