"""The container files fit the project; building them needs Docker and is not done here."""

import re
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from streams.apps.settings import descriptions

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
VARIABLE = re.compile(r"\bMEMSIEVE_\w+")


def test_images_are_pinned_to_a_version() -> None:
    images = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    images += [service["image"] for service in COMPOSE["services"].values()]
    assert [image for image in images if not re.search(r":\d+\.\d+\.\d+", image)] == []


def test_every_variable_is_a_setting() -> None:
    text = DOCKERFILE + (ROOT / "docker-compose.yml").read_text("utf-8")
    known = {f"MEMSIEVE_{name.upper().replace('.', '__')}" for name in descriptions()}
    assert set(VARIABLE.findall(text)) <= known


def test_what_is_copied_is_there_and_sent_to_the_builder() -> None:
    sent = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in line.split():
            assert (ROOT / source).exists()
            assert f"!{source}" in sent


def test_the_final_image_runs_as_an_ordinary_user_without_build_tools() -> None:
    final = DOCKERFILE.split("FROM ")[-1]
    assert re.search(r"^USER memsieve$", final, re.MULTILINE)
    assert "pip install" not in final


def test_the_locks_hold_exact_versions_with_hashes_and_no_addresses() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        lock = (ROOT / name).read_text("utf-8")
        packages = re.findall(r"^([\w.\[\]-]+)==([^\s;\\]+)", lock, re.MULTILINE)
        assert len(packages) > 40
        assert all(Version(version) for _, version in packages)
        assert lock.count("--hash=sha256:") >= len(packages)
        assert not re.search(r"https?://|^-i |--index", lock, re.MULTILINE)


def test_what_runs_is_a_part_of_what_is_tested() -> None:
    def pins(name: str) -> set[str]:
        lines = re.findall(
            r"^[\w.\[\]-]+==[^\\\n]+", (ROOT / name).read_text("utf-8"), re.MULTILINE
        )
        return {str(Requirement(line.strip())) for line in lines}

    assert pins("requirements.lock") <= pins("requirements-dev.lock")
