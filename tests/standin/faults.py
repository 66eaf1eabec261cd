"""How tests tell the stand-in to misbehave."""

from http import HTTPStatus

from pydantic import BaseModel

ROUTE = "/_standin/faults"
"""The control route: no part of Qdrant's API, and never subject to what it sets."""


class Faults(BaseModel):
    """How the server misbehaves from now on."""

    slow_seconds: float = 0.0
    """Every request is taken up only after so long, also if its sender has gone by then."""
    failing: int = 0
    """So many of the next requests are not taken up, but answered with the status."""
    status: int = HTTPStatus.SERVICE_UNAVAILABLE
