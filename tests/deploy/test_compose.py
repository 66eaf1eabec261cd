"""What docker-compose.yml hands to our containers, and how often it builds their image."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(
    (ROOT / "docker-compose.yml").read_text("utf-8")
)["services"]
OURS = {name for name, one in SERVICES.items() if one["image"].startswith("memsieve:")}


def test_one_image_is_built_once() -> None:
    """By a service that starts with all others; and for commands by hand."""
    assert {name for name in SERVICES if "build" in SERVICES[name]} == {"topics", "memsieve"}
    assert "profiles" not in SERVICES["topics"]
    for name in OURS - {"topics", "memsieve"}:
        assert "topics" in SERVICES[name]["depends_on"]


def test_the_key_of_this_machine_reaches_every_container_of_ours() -> None:
    for name in OURS:
        assert SERVICES[name]["environment"]["MEMSIEVE_FORGET__KEY"] is None


def test_what_is_kept_in_store_is_in_a_volume() -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
    assert "MEMSIEVE_STORE=/store " in dockerfile.replace("\\", "")
    assert "store:/store" in SERVICES["memsieve"]["volumes"]


def test_make_down_stops_the_services_of_every_profile() -> None:
    rules = (ROOT / "Makefile").read_text("utf-8")
    assert "\n\t@docker compose --profile '*' down\n" in rules
