"""Tokens: what each allows, and files of them that cannot be used."""

import hashlib
from pathlib import Path

import pytest

from schemas.base import ScopeName
from streams.api.app import access
from streams.api.app.access import Access
from streams.store.app.settings import InvalidSettings

HELD = "a secret of Ana's agent"
DIGEST = hashlib.sha256(HELD.encode()).hexdigest()
OTHER = hashlib.sha256(b"another").hexdigest()


def entry(**fields: str) -> str:
    given = {
        "name": '"ana"',
        "sha256": f'"{DIGEST}"',
        "scopes": '["acme/ana"]',
        "rights": '["read"]',
        **fields,
    }
    lines = (f"{name} = {value}" for name, value in given.items() if value)
    return "\n".join(["[[tokens]]", *lines, ""])


def loaded(tmp_path: Path, *entries: str) -> Access:
    path = tmp_path / "tokens.toml"
    path.write_text("\n".join(entries), encoding="utf-8")
    return access.load(path)


@pytest.mark.covers("B141", "B56")
def test_a_token_is_for_its_scopes_and_all_below_and_no_others(tmp_path: Path) -> None:
    grant = loaded(tmp_path, entry()).grant(HELD)
    assert grant is not None
    assert grant.name == "ana"
    allowed = ["acme/ana", "acme/ana/work", "acme/ana/work/deep"]
    refused = ["acme", "acme/an", "acme/anabel", "acme/ana-2", "other", "acme/ben", "x/acme/ana"]
    for scope in [*allowed, *refused]:
        assert grant.allows("read", ScopeName(scope)) is (scope in allowed), scope
    assert not grant.allows("write", ScopeName("acme/ana"))


def test_a_token_that_nobody_has_allows_nothing(tmp_path: Path) -> None:
    tokens = loaded(tmp_path, entry(), entry(name='"ben"', sha256=f'"{OTHER}"'))
    assert tokens.holders == 2
    for unknown in ("", HELD[:-1], f"{HELD} ", DIGEST, "\ud800", "ana"):
        assert tokens.grant(unknown) is None
    ben = tokens.grant("another")
    assert ben is not None
    assert ben.name == "ben"


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([], "tokens: Field required"),
        (["tokens = []"], "tokens: Tuple should have at least 1 item"),
        (["nonsense"], "is not TOML"),
        ([entry(sha256='"secret"')], "tokens.0.sha256: String should match pattern"),
        ([entry(scopes="[]")], "tokens.0.scopes: Tuple should have at least 1 item"),
        ([entry(scopes='["*"]')], "tokens.0.scopes.0: holds the wildcard *"),
        ([entry(scopes="")], "tokens.0.scopes: Field required"),
        ([entry(rights='["admin"]')], "tokens.0.rights.0: Input should be 'read' or 'write'"),
        ([entry(rights="[]")], "tokens.0.rights: Frozenset should have at least 1 item"),
        ([entry(extra="1")], "tokens.0.extra: Extra inputs are not permitted"),
        ([entry(), entry(sha256=f'"{OTHER}"')], "two tokens have the same name"),
        ([entry(), entry(name='"b"')], "two tokens have the same sha256"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_whole(
    tmp_path: Path, entries: list[str], reason: str
) -> None:
    with pytest.raises(InvalidSettings) as refused:
        loaded(tmp_path, *entries)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_a_file_nobody_is_let_in(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"api\.tokens is not set"):
        access.load(None)
    with pytest.raises(InvalidSettings, match="No such file"):
        access.load(tmp_path / "missing.toml")
