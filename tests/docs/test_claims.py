"""What tests claim to prove, and what docs/refusals.md declines: no requirement is both."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_REFUSAL = re.compile(r"- ((?:S\d\.|[BCD])\d+) (\S.*)")
_REFERENCE = re.compile(r"\b(?:as with|reasons of) ((?:S\d\.)\d+)(?: and ((?:S\d\.)\d+))?")


def claimed() -> dict[str, list[str]]:
    """Return the ids that tests claim, each with where."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for identity, line in _claims(ast.parse(file.read_text("utf-8"))):
            found.setdefault(identity, []).append(f"{file.relative_to(ROOT)}:{line}")
    return found


def _claims(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "covers":
            for argument in node.args:
                assert isinstance(argument, ast.Constant)
                yield str(argument.value), node.lineno


def refused() -> dict[str, str]:
    """Return the ids that are declined, each with the reason."""
    lines = (ROOT / "docs" / "refusals.md").read_text("utf-8").splitlines()
    matches = filter(None, map(_REFUSAL.fullmatch, lines))
    found = [(match[1], match[2]) for match in matches]
    assert len(found) == sum(line.startswith("- ") for line in lines), "a line without an id"
    assert len(dict(found)) == len(found), "an id is declined twice"
    return dict(found)


def test_nothing_is_both_claimed_and_declined() -> None:
    claims, refusals = claimed(), refused()
    assert claims
    assert refusals
    both = {identity: claims[identity] for identity in claims.keys() & refusals.keys()}
    assert both == {}, "take the claim out of the test, or the line out of docs/refusals.md"


def test_a_refusal_that_points_at_another_points_at_what_is_there() -> None:
    known = {*claimed(), *refused()}
    for identity, reason in refused().items():
        for match in _REFERENCE.finditer(reason):
            assert {one for one in match.groups() if one} <= known, identity
