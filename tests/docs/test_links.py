"""The pages' links to each other: the file is there, and has the heading."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "training/**/*.md")
    for page in sorted(ROOT.glob(pattern))
]
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if re.match("[a-z]+:", target):
            continue
        file, _, heading = target.partition("#")
        found = page.parent / file if file else page
        assert found.exists(), target
        if heading and found.suffix == ".md":
            assert heading in _headings(found), target


def _headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as Markdown's renderers make them."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return {_anchor(line.lstrip("#")) for line in lines if re.match("#+ ", line)}


def _anchor(heading: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text).strip().lower().replace(" ", "-")
