"""The images that docker-compose.yml and deploy/Dockerfile name, or what stands in for them.

A stand-in bears the name of the image and a label; it is for the time of the checks alone.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from deploy.verify.machine import Failed, run, works

ROOT = Path(__file__).parents[2]
_STANDINS = Path(__file__).parent / "standins"
_LABEL = "memsieve.stands-in"
_DEBIAN = "memsieve-verify/debian"
_PACKAGES = "ca-certificates,python3,python3-venv,default-jre-headless"
_SUITE = "bookworm"
_TRUST = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_PULL_SECONDS = 600.0
_LONG_SECONDS = 3600.0


@dataclass(frozen=True)
class Names:
    """What the images are called, version included."""

    python: str
    kafka: str
    qdrant: str
    memsieve: str


def names() -> Names:
    """Read the names from docker-compose.yml and deploy/Dockerfile."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
    [python] = set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE))
    image = {name: service["image"] for name, service in services.items()}
    return Names(python, image["kafka"], image["qdrant"], image["writer"])


def have(image: str) -> bool:
    """Say whether the image itself is here now, fetched if need be; False: only a stand-in may be."""
    if works(["docker", "image", "inspect", image]):
        return not stands_in(image)
    return works(["docker", "pull", "--quiet", image], seconds=_PULL_SECONDS)


def stands_in(image: str) -> bool:
    """Say whether what has the name is a stand-in."""
    label = f'{{{{index .Config.Labels "{_LABEL}"}}}}'
    inspect = ["docker", "image", "inspect", "--format", label, image]
    return works(inspect) and run(inspect).strip() == "yes"


def python(name: str) -> None:
    """Build Python's stand-in, with what pip needs to reach the package index from here."""
    with _context("python.Dockerfile") as context:
        (context / "trust").mkdir()
        for path in map(Path, _TRUST):
            if path.is_file():
                target = context / "trust" / path.relative_to("/etc")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        _build(name, context)


def kafka(name: str) -> None:
    """Build Kafka's stand-in from the jars of its version, which Maven fetches."""
    version = name.rpartition(":")[2]
    with _context("kafka.Dockerfile", "kafka-run", "kafka-broker-api-versions.sh") as context:
        pom = str(_STANDINS / "kafka-pom.xml")
        into = f"-DoutputDirectory={context / 'jars'}"
        what = [_COPY, into, "-DincludeScope=runtime", f"-Dkafka.version={version}"]
        run(["mvn", "-q", "-B", "-f", pom, *what])
        _build(name, context)


def qdrant(name: str, memsieve: str) -> None:
    """Build Qdrant's stand-in from memsieve's image, which has Qdrant's engine."""
    with _context("qdrant.Dockerfile", "qdrant-run") as context:
        shutil.copytree(ROOT / "tests" / "standin", context / "standin")
        _build(name, context, "--build-arg", f"MEMSIEVE={memsieve}")


def remove_stand_ins() -> None:
    """Remove every image that bears the label: the newest first, since it stands on older ones."""
    found = ["docker", "images", "--quiet", "--filter", f"label={_LABEL}=yes"]
    for image in dict.fromkeys(run(found).split()):
        works(["docker", "rmi", "--force", image])  # one may have gone with another
    if left := run(found).split():
        raise Failed(f"stand-ins are left; remove them by `docker rmi`: {' '.join(left)}")


@contextmanager
def _context(dockerfile: str, *files: str) -> Generator[Path]:
    """Make a folder to build a stand-in from, on top of Debian's image."""
    _debian()
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch)
        shutil.copy(_STANDINS / dockerfile, context / "Dockerfile")
        for name in files:
            shutil.copy(_STANDINS / name, context / name)
        yield context


def _build(name: str, context: Path, *arguments: str) -> None:
    label = ["--label", f"{_LABEL}=yes"]
    run(["docker", "build", *label, *arguments, "--tag", name, str(context)], seconds=_LONG_SECONDS)


def _debian() -> None:
    """Make an image of Debian with Python and Java from Debian's packages."""
    if works(["docker", "image", "inspect", _DEBIAN]):
        return
    if os.geteuid() != 0:
        raise Failed("debootstrap makes the base of the stand-ins, and must be run by root")
    with tempfile.TemporaryDirectory() as scratch:
        system = ["--variant=minbase", f"--include={_PACKAGES}", _SUITE, f"{scratch}/root"]
        run(["debootstrap", *system], seconds=_LONG_SECONDS)
        run(["tar", "-C", f"{scratch}/root", "-cf", f"{scratch}/root.tar", "."])
        label = ["--change", f"LABEL {_LABEL}=yes"]
        run(["docker", "import", *label, f"{scratch}/root.tar", _DEBIAN])
