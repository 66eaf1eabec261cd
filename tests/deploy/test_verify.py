"""What `make verify-compose` stands on, as far as that shows without Docker."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from deploy.verify import images

ROOT = Path(__file__).parents[2]
STANDINS = ROOT / "deploy" / "verify" / "standins"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(
    (ROOT / "docker-compose.yml").read_text("utf-8")
)["services"]


def test_it_finds_the_image_of_each() -> None:
    named = images.names()
    found = [named.python, named.kafka, named.qdrant, named.memsieve]
    of = [image.rpartition(":")[0] for image in found]
    assert of == ["python", "apache/kafka", "qdrant/qdrant", "memsieve"]


def test_what_stands_in_for_kafka_has_what_its_health_check_calls() -> None:
    [check] = re.findall(r"/opt/kafka/bin/(\S+)", SERVICES["kafka"]["healthcheck"]["test"][1])
    assert f"COPY {check} /opt/kafka/bin/\n" in (STANDINS / "kafka.Dockerfile").read_text("utf-8")
    assert (STANDINS / check).stat().st_mode & 0o111


def test_what_stands_in_for_kafka_is_of_the_version_named() -> None:
    pom = (STANDINS / "kafka-pom.xml").read_text("utf-8")
    assert pom.count("<version>${kafka.version}</version>") == 2


def test_without_docker_it_says_so_and_leaves_it_at_that(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deploy.verify"]
    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"skipped: `docker info` .*\n", done.stdout)
