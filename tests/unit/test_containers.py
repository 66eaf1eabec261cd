"""Servers in containers: one image for tests and Compose, and a slow fetch is told."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.servers import containers

ROOT = Path(__file__).parents[2]
ASKS = "def test_asks(kafka_bootstrap): ...\n"
DOCKER = """\
#!/bin/sh
case $1 in
  image) exit 1 ;;
  pull) exec /bin/sleep 60 ;;
esac
"""
"""Docker as it is where the image is not there, and takes a minute to come."""
TOLD = (
    r"docker pull apache/kafka:[0-9.]+ was not done within 0.2 s, so the tests go on without it: "
    r"run it first, or set TEST_PULL_SECONDS \(and pytest --timeout\) higher"
)


@pytest.fixture
def slow_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    docker = directory / "docker"
    docker.write_text(DOCKER, "utf-8")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("TEST_PULL_SECONDS", "0.2")
    for name in ("KAFKA_BOOTSTRAP", "TEST_KAFKA_IMAGE", "JAVA_HOME", "CI"):
        monkeypatch.delenv(name, raising=False)
    return directory


def test_kafka_and_qdrant_are_the_images_of_compose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_KAFKA_IMAGE", raising=False)
    monkeypatch.delenv("TEST_QDRANT_IMAGE", raising=False)
    assert re.fullmatch(r"apache/kafka:\d+\.\d+\.\d+", containers.image_of("kafka"))
    assert re.fullmatch(r"qdrant/qdrant:v\d+\.\d+\.\d+", containers.image_of("qdrant"))
    monkeypatch.setenv("TEST_KAFKA_IMAGE", "apache/kafka:4.0.0")
    assert containers.image_of("kafka") == "apache/kafka:4.0.0"


def test_no_other_file_names_an_image() -> None:
    files = [*(ROOT / "tests").rglob("*.py"), ROOT / "pyproject.toml", ROOT / "CONTRIBUTING.md"]
    image = re.compile(r"(cp-kafka|apache/kafka|qdrant/qdrant):v?[0-9]+\.[0-9]")
    here = Path(__file__)
    assert [f for f in files if f != here and image.search(f.read_text("utf-8"))] == []


@pytest.mark.process
@pytest.mark.usefixtures("slow_docker")
def test_an_image_that_is_slow_to_come_is_not_waited_for() -> None:
    with ExitStack() as stack, pytest.raises(containers.SlowPull, match=TOLD):
        containers.address("kafka", stack)


@pytest.mark.process
@pytest.mark.usefixtures("slow_docker")
@pytest.mark.parametrize("workers", [["-p", "no:xdist"], ["-n", "1"]], ids=["alone", "a worker"])
def test_whoever_runs_the_tests_is_told_so(workers: list[str], tmp_path: Path) -> None:
    """Said in one line though pytest captures output; without Java the test is skipped then."""
    (tmp_path / "test_asking.py").write_text(ASKS, "utf-8")
    command = [
        "-m",
        "pytest",
        "-p",
        "tests.support.servers.brokers",
        *workers,
        "-c",
        os.devnull,
        ".",
    ]
    done = subprocess.run(
        [sys.executable, *command, "--rootdir", str(tmp_path), "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},  # noqa: TID251 - the child's own
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 skipped" in done.stdout
    assert len(re.findall(f"^{TOLD}$", done.stderr, re.MULTILINE)) == 1, done.stderr
