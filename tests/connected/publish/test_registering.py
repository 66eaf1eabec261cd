"""The example that registers schemas, as a process of its own, against a stand-in for a registry."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "examples" / "peers" / "register_schemas.py"
SCHEMAS = ROOT / "schemas" / "json"


class Registry:
    """Answers as a registry does, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, Any], str | None]] = []
        self.status = 200
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                login = self.headers.get("Authorization")
                kept.asked.append((self.command, self.path, json.loads(content), login))
                answer = json.dumps({"id": len(kept.asked), "message": "schema is invalid"})
                self.send_response(kept.status)
                self.end_headers()
                self.wfile.write(answer.encode())

            do_PUT = do_POST  # noqa: N815 - http.server's name

            def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - http.server's
                del format

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def registry() -> Generator[Registry]:
    made = Registry()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def register(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-I", str(PROGRAM), *arguments],
        env={"PATH": os.defpath, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_topics_schema_is_registered_as_its_value(registry: Registry) -> None:
    done = register(registry.url, str(SCHEMAS), "--prefix", "eu.", REGISTRY_AUTH="ana:secret")
    assert done.returncode == 0, done.stderr
    topics = sorted(
        file.name.removesuffix(".schema.json") for file in SCHEMAS.glob("*.schema.json")
    )
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        f"eu.{topic}-value" for topic in topics
    ]
    settings, posted = registry.asked[::2], registry.asked[1::2]
    assert {(one[0], one[2]["compatibility"]) for one in settings} == {("PUT", "NONE")}
    assert [one[1] for one in settings] == [f"/config/eu.{topic}-value" for topic in topics]
    assert [one[1] for one in posted] == [f"/subjects/eu.{t}-value/versions" for t in topics]
    for topic, (_, _, body, login) in zip(topics, posted, strict=True):
        assert (body["schemaType"], login) == ("JSON", "Basic YW5hOnNlY3JldA==")
        schema = json.loads(body["schema"])
        Draft202012Validator.check_schema(schema)
        assert schema == json.loads((SCHEMAS / f"{topic}.schema.json").read_text("utf-8"))


def test_a_refusal_and_a_registry_that_is_away_are_told_in_one_line(registry: Registry) -> None:
    registry.status = 422
    refused = register(registry.url, str(SCHEMAS))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("memory.changes-value: 422 ")
    assert "schema is invalid" in refused.stderr
    away = register("http://127.0.0.1:9", str(SCHEMAS))
    assert away.returncode == 1
    assert away.stderr == "http://127.0.0.1:9 does not answer: [Errno 111] Connection refused\n"


def test_a_folder_without_schemas_is_named(registry: Registry, tmp_path: Path) -> None:
    told = register(registry.url, str(tmp_path))
    assert told.returncode == 2
    assert told.stderr.endswith("holds no file *.schema.json: export the schemas first\n")
    assert registry.asked == []
