"""What tests claim to prove, and what docs/refusals.md declines: no requirement is both."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_REFUSAL = re.compile(r"- ((?:S\d\.|[BCD])\d+) (\S.*)")
_REFERENCE = re.compile(r"\b(?:as with|reasons of) ((?:S\d\.)\d+)(?: and ((?:S\d\.)\d+))?")


@cache
def _tests() -> list[tuple[Path, ast.Module]]:
    """Return the files that claim something, read once."""
    texts = {file: file.read_text("utf-8") for file in sorted((ROOT / "tests").rglob("*.py"))}
    return [(file, ast.parse(text)) for file, text in texts.items() if "covers(" in text]


def claimed() -> dict[str, list[str]]:
    """Return the ids that tests claim, each with where."""
    found: dict[str, list[str]] = {}
    for file, tree in _tests():
        for identity, line in _claims(tree):
            found.setdefault(identity, []).append(f"{file.relative_to(ROOT)}:{line}")
    return found


def _claims(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "covers":
            for argument in node.args:
                assert isinstance(argument, ast.Constant)
                yield str(argument.value), node.lineno


def only_hoped_for() -> set[str]:
    """Return the ids that are claimed by nothing but tests that are expected to fail."""
    proven, hoped_for = set[str](), set[str]()
    for _, tree in _tests():
        failing = {line for test in ast.walk(tree) for line in _claims_of_a_failure(test)}
        for identity, line in _claims(tree):
            (hoped_for if line in failing else proven).add(identity)
    return hoped_for - proven


def _claims_of_a_failure(node: ast.AST) -> list[int]:
    """Return the lines on which a test claims something, where it is expected to fail."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    marks = [part for one in node.decorator_list for part in (one, getattr(one, "func", one))]
    fails = {getattr(mark, "id", getattr(mark, "attr", None)) for mark in marks}
    if not fails & {"PENDING", "xfail"}:
        return []
    return [one.lineno for one in node.decorator_list]


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


def test_what_is_expected_to_fail_proves_nothing() -> None:
    assert only_hoped_for() == set(), "prove it elsewhere, or decline it in docs/refusals.md"


def test_a_refusal_that_points_at_another_points_at_what_is_there() -> None:
    known = {*claimed(), *refused()}
    for identity, reason in refused().items():
        for match in _REFERENCE.finditer(reason):
            assert {one for one in match.groups() if one} <= known, identity
