"""The documentation as a site: every page is in it, and every link leads somewhere."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.pages import site

DOCS = sorted(page.name for page in (site.ROOT / "docs").glob("*.md"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site.build(folder)
    return folder


def test_every_page_becomes_one_of_the_site_and_is_in_its_navigation(built: Path) -> None:
    made = {page.stem for page in (built / "html" / "docs").glob("*.html")}
    assert made == {Path(name).stem for name in DOCS}
    assert (built / "html" / "training" / "relations" / "index.html").exists()
    listed = tomllib.loads(site.CONFIGURATION.read_text(encoding="utf-8"))["project"]["nav"]
    assert not [name for name in DOCS if f"docs/{name}" not in str(listed)]


def test_a_linked_folder_becomes_a_page_that_lists_its_files(built: Path) -> None:
    page = (built / "html" / "docs" / "decisions" / "index.html").read_text(encoding="utf-8")
    assert "34. A memory keeps every wording" in page


@pytest.mark.parametrize("link", ["docs/nowhere.md", "docs/python.md#nowhere"])
def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path, link: str) -> None:
    site.collect(tmp_path / "pages")
    with (tmp_path / "pages" / "README.md").open("a", encoding="utf-8") as page:
        page.write(f"\n[A link]({link}).\n")
    with pytest.raises(subprocess.CalledProcessError):
        site.render(tmp_path)
