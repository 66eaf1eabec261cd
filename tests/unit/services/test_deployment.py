"""The container files fit the project; building them needs Docker and is not done here."""

import http.server
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from typer.main import get_command

from streams.index.qdrant import VERSION_MIN
from streams.main.command_line import app
from streams.store.app.settings import Settings, descriptions, load

ROOT = Path(__file__).parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
FINAL = DOCKERFILE.split("\nFROM ")[-1]
VARIABLE = re.compile(r"\bMEMSIEVE_\w+")
LOOPBACK = "127.0.0.1"

OURS = [name for name, service in SERVICES.items() if service["image"].startswith("memsieve:")]
WORKERS = ["deduplicator", "writer", "extractor", "consolidator"]
SERVED = ["api", "web"]
LONG_RUNNING = ["kafka", "qdrant", *WORKERS, *SERVED]


def test_images_are_pinned_to_a_version() -> None:
    images = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    images += [service["image"] for service in SERVICES.values()]
    assert [image for image in images if not re.search(r":v?\d+\.\d+\.\d+(-\w+)*$", image)] == []


def test_the_servers_are_of_versions_that_memsieve_works_with() -> None:
    assert _version("kafka", "apache/kafka").major == 4
    qdrant = _version("qdrant", "qdrant/qdrant")
    assert (qdrant.major, qdrant.minor) >= VERSION_MIN


def test_our_image_has_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {SERVICES[name]["image"] for name in OURS} == {f"memsieve:{project['version']}"}


def test_every_service_is_accounted_for() -> None:
    assert set(SERVICES) == {*LONG_RUNNING, "topics", "memsieve"}
    assert SERVICES["topics"]["restart"] == "no"
    for name in (*SERVED, "memsieve", "extractor", "consolidator"):
        assert SERVICES[name]["profiles"]  # is not started with the others


def test_every_published_port_is_for_this_machine_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) >= len(LONG_RUNNING)
    assert [port for port in published if not port.startswith(f"{LOOPBACK}:")] == []


def test_a_worker_may_be_there_several_times() -> None:
    for name in WORKERS:
        assert "container_name" not in SERVICES[name]
        assert {port.split(":")[1] for port in SERVICES[name]["ports"]} == {""}


def test_every_variable_is_a_setting() -> None:
    text = DOCKERFILE + (ROOT / "docker-compose.yml").read_text("utf-8")
    assert set(VARIABLE.findall(text)) <= set(_variables())


def test_the_settings_of_our_services_lead_to_the_servers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in OURS:
        settings = _settings(name, monkeypatch)
        listeners = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
        assert f"INTERNAL://{settings.kafka.bootstrap}," in listeners
        assert urlsplit(settings.qdrant.url).hostname == "qdrant"
        assert settings.service.host == "0.0.0.0"  # noqa: S104 - within the containers' network
        assert settings.index.kind == ("edge" if name == "memsieve" else "qdrant")


def test_every_long_running_service_is_watched_and_comes_back() -> None:
    for name in LONG_RUNNING:
        assert SERVICES[name]["healthcheck"]["test"]
        assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.process
@pytest.mark.parametrize("name", [*WORKERS, *SERVED])
def test_a_worker_is_healthy_where_it_is_ready(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    port = _settings(name, monkeypatch).service.port
    command = [sys.executable, *_check(name, "python")]
    assert _outcomes(command, port, "/ready") == [True, False, False]


@pytest.mark.process
def test_qdrant_is_healthy_where_it_is_ready() -> None:
    command = ["bash", *_check("qdrant", "bash")]
    assert _outcomes(command, 6333, "/readyz") == [True, False, False]


def test_each_waits_for_what_it_needs() -> None:
    needed = {name: _conditions(name) for name in SERVICES}
    healthy = {"kafka": "service_healthy", "qdrant": "service_healthy"}
    for name in (*WORKERS, *SERVED):
        assert needed[name] == {**healthy, "topics": "service_completed_successfully"}
    assert needed["topics"] == {"kafka": "service_healthy"}


def test_the_commands_exist() -> None:
    for name in ("topics", *WORKERS, *SERVED):
        command: Any = get_command(app)
        for word in SERVICES[name]["command"]:
            command = command.commands[word]


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_has_time_to_end(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its batch, and then the group's member, may each take as long as the drain."""
    monkeypatch.chdir(tmp_path)
    drain = _settings(name, monkeypatch).service.drain_seconds
    assert _seconds(SERVICES[name]["stop_grace_period"]) > 2 * drain


@pytest.mark.parametrize("name", SERVED)
def test_what_is_served_is_in_the_image_and_finds_its_tokens(
    name: Literal["api", "web"], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    assert {"aiokafka", "fastapi", "jinja2"} <= set(re.findall(r"^(\w+)==", lock, re.MULTILINE))
    settings = _settings(name, monkeypatch)
    port = getattr(settings, name).port
    assert [f"{LOOPBACK}:{port}:{port}"] == SERVICES[name]["ports"]
    assert SERVICES[name]["volumes"] == [f"${{TOKENS:-./tokens.toml}}:{settings.api.tokens}:ro"]


def test_our_containers_can_do_no_more_than_they_must() -> None:
    for name in OURS:
        service = SERVICES[name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
    for service in SERVICES.values():
        assert "no-new-privileges:true" in service["security_opt"]


def test_kafka_keeps_one_copy_and_makes_no_topics_by_itself() -> None:
    environment = SERVICES["kafka"]["environment"]
    assert environment["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    factors = {name: value for name, value in environment.items() if "REPLICATION" in name}
    assert len(factors) == 4
    assert set(factors.values()) == {"1"}


def test_what_must_last_is_in_volumes() -> None:
    for name, path in {"kafka": "/var/lib/kafka/data", "qdrant": "/qdrant/storage"}.items():
        assert f"{name}:{path}" in SERVICES[name]["volumes"]
        assert name in COMPOSE["volumes"]
    assert SERVICES["kafka"]["environment"]["KAFKA_LOG_DIRS"] == "/var/lib/kafka/data"


def test_what_is_copied_is_there_and_sent_to_the_builder() -> None:
    sent = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in line.split():
            assert (ROOT / source).exists()
            assert f"!{source}" in sent


def test_the_final_image_runs_as_an_ordinary_user_without_build_tools() -> None:
    assert re.search(r"^USER [1-9]\d+:[1-9]\d+$", FINAL, re.MULTILINE)
    assert not re.search(r"pip install|apt-get|\bgcc\b", FINAL)
    assert re.search(r'^ENTRYPOINT \["memsieve"\]$', FINAL, re.MULTILINE)


def test_the_final_image_has_the_model_and_tells_nobody_of_its_use() -> None:
    environment = _image_environment()
    models = environment["MEMSIEVE_EMBEDDER__CACHE_DIR"]
    assert f"COPY --from=build {models} {models}\n" in FINAL
    assert f"MEMSIEVE_EMBEDDER__CACHE_DIR={models}\n" in DOCKERFILE.split("\nFROM ")[1]
    assert environment["ORT_DISABLE_TELEMETRY"] == "1"


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


def _version(service: str, image: str) -> Version:
    name, _, tag = SERVICES[service]["image"].partition(":")
    assert name == image
    return Version(tag)


def _variables() -> Iterator[str]:
    """Yield the variable of every setting."""
    for name in descriptions():
        yield f"MEMSIEVE_{name.upper().replace('.', '__')}"


def _image_environment() -> dict[str, str]:
    [line] = re.findall(r"^ENV ((?:.*\\\n)*.*)$", FINAL, re.MULTILINE)
    pairs = (pair.partition("=") for pair in shlex.split(line.replace("\\\n", " ")))
    return {name: value for name, _, value in pairs}


def _settings(service: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the settings that a container of ours has."""
    for variable in (*_variables(), "MEMSIEVE_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in (_image_environment() | SERVICES[service]["environment"]).items():
        if VARIABLE.fullmatch(variable) and value is not None:  # None: as this machine has it
            monkeypatch.setenv(variable, value)
    return load({})


def _conditions(service: str) -> dict[str, str]:
    """Return what a service waits for, and until when."""
    needed: dict[str, dict[str, str]] = SERVICES[service].get("depends_on", {})
    return {name: how["condition"] for name, how in needed.items()}


def _seconds(duration: str) -> int:
    written = re.fullmatch(r"(\d+)s", duration)
    assert written is not None
    return int(written[1])


def _check(service: str, program: str) -> list[str]:
    """Return what a health check gives to its program, as Compose hands it on."""
    words: list[str] = SERVICES[service]["healthcheck"]["test"]
    assert words[:2] == ["CMD", program]
    return [word.replace("$$", "$") for word in words[2:]]


def _outcomes(command: list[str], port: int, path: str) -> list[bool]:
    """Tell whether a check that asks a port passes: of a ready server, a busy one, and none."""
    outcomes: list[bool] = []
    for status in (200, 503):
        with _answering(status, path) as there:
            outcomes.append(_passes(command, port, there))
    return [*outcomes, _passes(command, port, there)]


def _passes(command: list[str], port: int, instead: int) -> bool:
    """Run a check against another port than the one that it names."""
    asked = [re.sub(rf"(?<={LOOPBACK}[:/]){port}\b", str(instead), word) for word in command]
    assert asked != command
    done = subprocess.run(asked, capture_output=True, check=False, timeout=20)
    return done.returncode == 0


@contextmanager
def _answering(status: int, path: str) -> Generator[int]:
    """Serve one path with a status meanwhile, and nothing else; give the port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == path else 404)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    with http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
