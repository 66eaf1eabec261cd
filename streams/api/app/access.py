"""Access to the API: tokens by digest, each with read or write rights in some scopes."""

import hashlib
import hmac
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from schemas.base import Label, Record, Scope, ScopeName
from streams.model.scope import lies_in
from streams.store.app.settings import InvalidSettings

Right = Literal["read", "write"]


class Grant(Record):
    """What the holder of one token may do.

    `sha256` is the hexadecimal digest of the token, which itself is stored nowhere. The grant
    covers `scopes` and every scope below them.
    """

    name: Label
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)]
    rights: Annotated[frozenset[Right], Field(min_length=1)]

    def covers(self, scope: ScopeName) -> bool:
        """Tell whether a scope is one of its own, or lies below one."""
        return any(lies_in(scope, own) for own in self.scopes)

    def allows(self, right: Right, scope: ScopeName) -> bool:
        return right in self.rights and self.covers(scope)

    def shows(self, scope: ScopeName, below: str = "") -> bool:
        """Tell whether a scope may be read, and is `below` or lies below it; "" is above all."""
        return (not below or lies_in(scope, below)) and self.allows("read", scope)


class _File(Record):
    tokens: Annotated[tuple[Grant, ...], Field(min_length=1)]


UNKNOWN_CALLER = "send a valid token: Authorization: Bearer TOKEN"
"""What is answered to a request without such a token."""


class Access:
    """The tokens that may be used; every other token is refused."""

    def __init__(self, grants: tuple[Grant, ...]) -> None:
        self._grants = grants

    @property
    def holders(self) -> int:
        return len(self._grants)

    def bearer(self, authorization: str) -> Grant | None:
        """Return what the token of such a header allows; None for none, or one that nobody has."""
        kind, _, token = authorization.partition(" ")
        return self.grant(token.strip()) if kind.casefold() == "bearer" else None

    def grant(self, token: str) -> Grant | None:
        """Return the grant of a token; None if the token is unknown.

        Takes the same time for every token: it is compared with all digests, in constant time.
        """
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        matching = [one for one in self._grants if hmac.compare_digest(one.sha256, digest)]
        return matching[0] if matching else None


def load(path: Path | None) -> Access:
    """Read the file of tokens. Raises InvalidSettings, naming the token and the field.

    A missing file is an error too, since nobody could then use the API.
    """
    if path is None:
        raise InvalidSettings(
            "api.tokens is not set: name a TOML file of tokens with --tokens FILE or "
            "MEMSIEVE_API__TOKENS"
        )
    try:
        grants = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).tokens
    except OSError as error:
        raise InvalidSettings(f"api.tokens {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"api.tokens {path} is not TOML: {error}") from error
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise InvalidSettings(f"api.tokens {path}: {where}: {problem['msg']}") from error
    _each_once(path, grants)
    return Access(grants)


def _each_once(path: Path, grants: tuple[Grant, ...]) -> None:
    for what in ("name", "sha256"):
        values = [getattr(grant, what) for grant in grants]
        if len(set(values)) < len(values):
            raise InvalidSettings(f"api.tokens {path}: two tokens have the same {what}")
