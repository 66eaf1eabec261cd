"""The documentation as a site: `python -m tests.support.pages.site build/site`.

It holds the pages that README.md leads to, how the judge is trained, and the files that they link to.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
STARTS = ("README.md", "training/relations/README.md")
"""The pages from which all others are reached."""
CONFIGURATION = ROOT / "docs" / "zensical.toml"
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def main() -> None:
    [folder] = sys.argv[1:]
    build(Path(folder))


def build(folder: Path) -> None:
    """Build the site in a folder, whose content is replaced. Raises as `render` does."""
    shutil.rmtree(folder, ignore_errors=True)
    collect(folder / "pages")
    render(folder)


def render(folder: Path) -> None:
    """Render the folder's pages. Raises CalledProcessError if a link leads nowhere."""
    shutil.copy(CONFIGURATION, folder)
    program = [sys.executable, "-m", "zensical", "build", "--strict", "-f", CONFIGURATION.name]
    subprocess.run(program, cwd=folder, check=True)


def collect(pages: Path) -> None:
    """Copy STARTS and all that they lead to; a linked folder gets a page that lists its files."""
    known: set[Path] = set()
    left = [ROOT / start for start in STARTS]
    while left:
        source = left.pop()
        if source in known:
            continue
        known.add(source)
        copy = pages / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            files = sorted(file for file in source.iterdir() if file.is_file())
            copy.mkdir(exist_ok=True)
            (copy / "README.md").write_text(_listing(source, files), encoding="utf-8")
            left += files
        else:
            shutil.copyfile(source, copy)
            left += _linked(source)


def _linked(source: Path) -> list[Path]:
    """Return the files and folders that a page links to."""
    if source.suffix != ".md":
        return []
    targets = _LINK.findall(source.read_text(encoding="utf-8"))
    local = (target for target in targets if not re.match("[a-z]+:", target))
    return [(source.parent / target).resolve() for target in local]


def _listing(folder: Path, files: list[Path]) -> str:
    lines = [f"- [{_title(file)}]({file.name})" for file in files]
    return "\n".join([f"# {folder.relative_to(ROOT)}", "", *lines, ""])


def _title(file: Path) -> str:
    """Return the heading of a page; the name of another file."""
    if file.suffix != ".md":
        return file.name
    return file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


if __name__ == "__main__":
    main()
