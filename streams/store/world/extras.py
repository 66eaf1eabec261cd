"""The extras: which packages each installs, and what is said where one is missing."""

from importlib.util import find_spec
from typing import Literal, TypeAlias

from streams.model.ports import Unusable

Extra: TypeAlias = Literal["api", "kafka", "lab", "mcp", "qdrant", "web"]

QDRANT = ("grpc", "qdrant_client")
SERVED = ("prometheus_client", "uvicorn")
MODULES: dict[Extra, tuple[str, ...]] = {
    "api": ("fastapi", *SERVED),
    "kafka": ("aiokafka", "cramjam", "faststream", "starlette", *SERVED, *QDRANT),
    "lab": ("matplotlib",),
    "mcp": ("mcp",),
    "qdrant": QDRANT,
    "web": ("fastapi", "jinja2", *SERVED),
}


def require(extra: Extra, what: str) -> None:
    """Raise Unusable if a package of the extra is missing; `what` is what needs it."""
    missing = next((name for name in MODULES[extra] if find_spec(name) is None), None)
    if missing is not None:
        raise Unusable(
            f"{what} needs an extra: pip install 'memsieve[{extra}]' ({missing} is missing)"
        )
