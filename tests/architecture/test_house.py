"""A stranger finds their way: small folders, short modules, a page that is true."""

import ast
from collections import Counter
from pathlib import Path

from tests.support import architecture

ROOT = Path(__file__).parents[2]
MODULES = [
    path
    for package in ("memsieve", "schemas", "streams")
    for path in (ROOT / package).rglob("*.py")
]
FILES_MAX = 17
LINES_MAX = 600
WAY_MAX = 12
LONGER = {
    "memsieve/http_memory.py",
}
"""Modules that are still to be split up; none may join them."""


def test_no_folder_holds_more_modules_than_can_be_taken_in() -> None:
    held = Counter(str(path.parent.relative_to(ROOT)) for path in MODULES)
    assert {folder: count for folder, count in held.items() if count > FILES_MAX} == {}


def test_no_module_is_longer_than_can_be_read_at_once() -> None:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in MODULES
    }
    assert {path for path, count in lines.items() if count > LINES_MAX} == LONGER


def test_a_module_says_what_it_is_for() -> None:
    silent = [path for path in MODULES if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]
    assert silent == []


def test_the_way_of_one_event_is_short() -> None:
    assert len(architecture.WAY) <= WAY_MAX


def test_the_generated_parts_of_the_page_are_up_to_date() -> None:
    page = architecture.PAGE.read_text("utf-8")
    assert architecture.written(page) == page, "run `make docs`"
