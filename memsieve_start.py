"""Where the command `memsieve` starts: outside the packages, which other modules may hide."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

_OURS = ("schemas", "streams")
_HERE = Path(__file__).resolve().parent
_INVALID = 2


def main() -> None:
    """Start the command line, unless another module hides a package that it needs."""
    if (problem := hidden()) is None:
        from streams.main import main as start  # noqa: PLC0415 - may be another module

        start()
        return
    as_json = json.dumps({"error": problem, "exit_code": _INVALID})
    sys.stderr.write(f"{as_json if '--json' in sys.argv else f'memsieve: {problem}'}\n")
    sys.exit(_INVALID)


def hidden() -> str | None:
    """Say in one line which module is found before a package of ours that has its name, if any."""
    for name in _OURS:
        spec = find_spec(name)
        if spec and spec.origin and not Path(spec.origin).resolve().is_relative_to(_HERE / name):
            return (
                f"{spec.origin} hides the package {name} of memsieve: "
                "rename it, or start Python elsewhere"
            )
    return None
