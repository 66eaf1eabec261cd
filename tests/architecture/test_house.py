"""A stranger finds their way: small folders, short modules, a page that is true."""

import ast
from collections import Counter
from pathlib import Path

from tests.support.pages import architecture

ROOT = Path(__file__).parents[2]
MODULES = [
    ROOT / "memsieve_start.py",
    *(
        path
        for package in ("memsieve", "schemas", "streams")
        for path in (ROOT / package).rglob("*.py")
    ),
]
HELPERS = [
    path
    for folder in ("benchmarks", "deploy", "examples", "tests", "training")
    for path in (ROOT / folder).rglob("*.py")
    if not path.name.startswith("test_")
]
FILES_MAX = 17
LINES_MAX = 600
WAY_MAX = 12


def test_no_folder_holds_more_modules_than_can_be_taken_in() -> None:
    held = Counter(str(path.parent.relative_to(ROOT)) for path in MODULES + HELPERS)
    full = {folder: count for folder, count in held.items() if count > FILES_MAX}
    assert full == {}, f"more than {FILES_MAX} modules: split the folder by what its modules do"


def test_no_module_is_longer_than_can_be_read_at_once() -> None:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in MODULES
    }
    longer = {path for path, count in lines.items() if count > LINES_MAX}
    assert not longer, f"split what has more than {LINES_MAX} lines"


def test_a_module_says_what_it_is_for() -> None:
    silent = [path for path in MODULES if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]
    assert silent == [], "say in a docstring what each module is for"


def test_the_way_of_one_event_is_short() -> None:
    assert len(architecture.WAY) <= WAY_MAX, "lead an event through fewer files"


def test_the_generated_parts_of_the_page_are_up_to_date() -> None:
    page = architecture.PAGE.read_text("utf-8")
    assert architecture.written(page) == page, "run `make docs`"


ASKING = {
    "streams/dead_letters/app.py": "what may be requeued: a store has no consumer of turns",
    "streams/maintain/app/diagnosis.py": "a store's files, or a cluster's servers",
    "streams/memories_md/cli/memories_md.py": "a new store is made, a cluster is published to",
    "streams/memory/app/opening.py": "who decides: this process, or services that are waited for",
    "streams/replay/app/rematerialising.py": "a directory is swapped, or a collection's alias",
    "streams/store/cli/replies.py": "only the wait for a cluster can be interrupted",
    "streams/verify/app/verification.py": "a store's files, or a cluster's servers",
}
"""Who else asks whether a log is a store's or a cluster's, and why; none may join them."""


def test_whether_a_log_is_a_stores_is_decided_where_it_is_opened() -> None:
    asking = {
        str(path.relative_to(ROOT))
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node).endswith(("target.embedded", "source.embedded"))
    }
    outside = {path for path in asking if not path.startswith("streams/store/app/")}
    assert outside == ASKING.keys(), (
        "ask where the log is opened, in streams/store/app; take from ASKING who asks no more"
    )
