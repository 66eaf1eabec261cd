"""The extras: the packages that each installs, and the message if one is missing."""

import json
import shlex
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from streams.model.ports.failures import Unusable

Extra: TypeAlias = Literal["api", "kafka", "lab", "mcp", "otel", "qdrant", "web"]

QDRANT = ("grpc", "qdrant_client")
SERVED = ("prometheus_client", "uvicorn")
MODULES: dict[Extra, tuple[str, ...]] = {
    "api": ("fastapi", *SERVED),
    "kafka": ("aiokafka", "cramjam", "faststream", "starlette", *SERVED, *QDRANT),
    "lab": ("matplotlib",),
    "mcp": ("mcp",),
    "otel": ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http"),
    "qdrant": QDRANT,
    "web": ("fastapi", "jinja2", *SERVED),
}


def require(extra: Extra, what: str) -> None:
    """Raise Unusable if a package of the extra is missing; `what` is what needs it."""
    missing = next((name for name in MODULES[extra] if not _is_there(name)), None)
    if missing is not None:
        raise Unusable(f"{what} needs an extra: {how_to_install(extra)} ({missing} is missing)")


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor is the package around it
        return False


def how_to_install(extra: str) -> str:
    """Return the command that adds an extra to memsieve as it is installed here."""
    return pip_install(extra, _origin())


def pip_install(extra: str, origin: Mapping[str, Any]) -> str:
    """Return the command that installs memsieve with an extra from where it came.

    `origin` is what pip notes in `direct_url.json`; it is empty for a package of an index.
    """
    if "dir_info" in origin:
        what = f"{unquote(urlsplit(str(origin['url'])).path)}[{extra}]"
    else:
        what = f"memsieve[{extra}]" + (f" @ {origin['url']}" if origin else "")
    editable = "--editable " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}{shlex.quote(what)}"


def _origin() -> Mapping[str, Any]:
    try:
        noted = distribution("memsieve").read_text("direct_url.json")
    except PackageNotFoundError:
        noted = None
    return {} if noted is None else json.loads(noted)
