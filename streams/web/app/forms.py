"""Validates the input of a form before anything is done."""

from hmac import compare_digest
from http import HTTPStatus
from typing import Annotated, TypeAlias
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from pydantic import Field

from streams.api.app.problems import Refused
from streams.web.app.sessions import WebSession

_FIELDS_MAX = 20

Below = Annotated[str, Field(max_length=512)]
"""A scope, with all below it; "" for all."""


async def fields_of(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises Refused where that is none."""
    try:
        text = (await request.body()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX))
    except ValueError as error:
        raise Refused(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "body is not a form; send it from the page",
            field="body",
        ) from error


def session_of(request: Request) -> WebSession:
    """Return who is logged in."""
    session: WebSession = request.state.session
    return session


def require_own(given: str, expected: str) -> None:
    """Raise Refused for a form that another site could have sent."""
    if not compare_digest(given.encode(), expected.encode()):
        raise Refused(
            HTTPStatus.FORBIDDEN,
            "the form belongs to another login; go back, reload the page and send it again",
            field="csrf",
        )


async def _own_fields(request: Request) -> dict[str, str]:
    fields = await fields_of(request)
    require_own(fields.get("csrf", ""), session_of(request).csrf)
    return fields


OwnForm: TypeAlias = Annotated[dict[str, str], Depends(_own_fields)]
"""The fields of a form of this login."""
