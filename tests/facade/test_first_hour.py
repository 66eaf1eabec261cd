"""A newcomer's first hour with the installed wheel: a file, an update, its reason, undone, forgotten.

By Python, by command line and by HTTP; the files' columns are named as their owners liked.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.facade.conftest import packages
from tests.support.encoding.models import models_dir
from tests.support.machine.brought import installed, lend
from tests.support.machine.waiting import wait_until
from tests.support.pages import snippets

ACTIVE, INACTIVE = "Dana's subscription is active.", "Dana's subscription is inactive."
CELLO, VIOLA = "Dana plays the cello.", "Dana plays the viola."
KEY = "Eli keeps the archive key."
ROWS = (
    ("2026-03-01 08:00", "dana", ACTIVE),
    ("2026-03-01 08:05", "dana", CELLO),
    ("2026-03-02 09:00", "dana", "dana plays the cello"),
    ("2026-03-03 10:00", "eli", KEY),
    ("2026-03-05 09:30", "dana", INACTIVE),
)
BECAUSE = "it contradicts an older memory and is newer"

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]  # a dozen processes


@pytest.fixture(autouse=True)
def _with_the_model() -> None:
    models_dir()


BY_PYTHON = """
import json
from memsieve import Memory

rows = json.load(open("export.json"))
told = {}
with Memory("store") as memory:
    made = memory.add_many(
        {"text": row["remark"], "scope": row["person"], "occurred_at": row["noted"]} for row in rows
    )
    told["kinds"] = [one.kind for one in made]
    told["found"] = [one.text for one in memory.search("Is the subscription active?", scope="dana")]
    told["explained"] = memory.explain(made[-1].id)
    retired = memory.get(made[0].memory_id)
    told["retired"] = [retired.text, retired.superseded.by == made[-1].memory_id]
    memory.undo(made[-1].id)
    told["undone"] = sorted(one.text for one in memory.memories("dana"))
    cello = made[1].memory_id
    memory.update(cello, "Dana plays the viola.")
    told["updated"] = [one.text for one in memory.history(cello)][-2:]
    memory.forget(cello)
    told["left"] = [one.text for one in memory.memories("dana")]
print(json.dumps(told))
"""


@pytest.mark.covers("B12", "B62", "B67")
def test_an_hour_by_python(python: str, tmp_path: Path) -> None:
    rows = [{"noted": f"{at}Z", "person": who, "remark": text} for at, who, text in ROWS]
    (tmp_path / "export.json").write_text(json.dumps(rows), "utf-8")
    told = json.loads(snippets.run(python, BY_PYTHON, tmp_path, installed=True))
    assert told["kinds"] == ["insert", "insert", "reinforce", "insert", "replace"]
    assert told["found"][0] == INACTIVE
    assert ACTIVE not in told["found"]
    assert any(BECAUSE in line for line in told["explained"])
    assert told["retired"] == [ACTIVE, True]
    assert told["undone"] == [CELLO, ACTIVE, INACTIVE]
    assert told["updated"] == [CELLO, VIOLA]
    assert told["left"] == [ACTIVE, INACTIVE]
    assert _files_that_say(VIOLA, tmp_path / "store") == []


@pytest.mark.covers("B12", "B62", "B67", "B91")
def test_an_hour_by_command_line(python: str, tmp_path: Path) -> None:
    lines = ["noted;person;remark", *(";".join(row) for row in ROWS)]
    (tmp_path / "export.csv").write_text("\n".join(lines), "utf-16")

    def memsieve(*arguments: str) -> str:
        command = [Path(python).with_name("memsieve"), *arguments]
        process = subprocess.run(
            command, cwd=tmp_path, env=_variables(), capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stderr
        return process.stdout

    def told(*arguments: str) -> Any:
        return json.loads(memsieve(*arguments, "--json"))

    def live(scope: str) -> list[str]:
        return sorted(one["text"] for one in told("memory", "list", "--scope", scope))

    tried = memsieve("try", "export.csv")
    assert f'"{INACTIVE}"\n    replaces "{ACTIVE}"' in tried
    assert [path.name for path in tmp_path.iterdir()] == ["export.csv"]

    ran = told("run", "export.csv")
    kinds = {kind: count for kind, count in ran["decisions"].items() if count}
    assert kinds == {"insert": 3, "replace": 1, "reinforce": 1}
    assert live("dana") == [CELLO, INACTIVE]
    found = memsieve("search", "Is the subscription active?", "--scope", "dana")
    assert INACTIVE in found
    assert ACTIVE not in found

    [update] = [one for one in told("decisions") if one["kind"] == "replace"]
    assert BECAUSE in memsieve("explain", update["decision_id"])
    memsieve("undo", update["decision_id"])
    assert live("dana") == [CELLO, ACTIVE, INACTIVE]

    [known] = told("memory", "list", "--scope", "eli")
    memsieve("forget", known["id"])
    assert live("eli") == []
    assert _files_that_say(KEY, tmp_path / "memsieve-store") == []


@pytest.mark.covers("B12", "B62", "B67")
def test_an_hour_by_http(python: str, tmp_path: Path) -> None:
    rows = [{"scope": who, "text": text, "occurred_at": f"{at}Z"} for at, who, text in ROWS]
    with _served(python, tmp_path) as api:
        added = api.post("/v1/memories/batch", json={"memories": rows}).json()["results"]
        made = [one["outcome"] for one in added]
        assert [one["status"] for one in added] == [200] * len(ROWS)
        kinds = ["insert", "insert", "reinforce", "insert", "replace"]
        assert [one["kind"] for one in made] == kinds
        assert made[-1]["why"].startswith(BECAUSE)

        asked = {"scope": "dana", "query": "Is the subscription active?"}
        entries = api.post("/v1/memories/search", json=asked).json()["entries"]
        assert entries[0]["text"] == INACTIVE
        retired = api.get(f"/v1/memories/{made[0]['memory_id']}").json()
        assert retired["superseded"]["by"] == made[-1]["memory_id"]
        story = api.get(f"/v1/decisions/{made[-1]['decision_id']}").json()["story"]
        assert any(BECAUSE in line for line in story)
        undone = api.post(f"/v1/decisions/{made[-1]['decision_id']}/undo")
        assert undone.status_code == 200, undone.text
        assert _texts(api) == [CELLO, ACTIVE, INACTIVE]

        changes = api.patch(f"/v1/memories/{made[1]['memory_id']}", json={"text": VIOLA}).json()
        assert changes["decisions"][-1]["kind"] == "replace"
        assert _texts(api) == [VIOLA, ACTIVE, INACTIVE]
        gone = made[1]["memory_id"]
        assert api.post(f"/v1/memories/{gone}/forget", json={}).json()["memory_ids"] == [gone]
        assert api.get(f"/v1/memories/{gone}").status_code == 410


def _variables() -> dict[str, str]:
    """Return the variables of a process that is to find nothing of the checkout."""
    inherited = dict(os.environ)  # noqa: TID251 - what a process is started with
    inherited.pop("PYTHONPATH", None)
    return inherited


def _files_that_say(text: str, store: Path) -> list[Path]:
    files = [path for path in store.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if text.encode() in path.read_bytes()]


def _texts(api: httpx.Client) -> list[str]:
    listed = api.get("/v1/memories", params={"scope": "dana"}).json()["memories"]
    return sorted(one["text"] for one in listed)


@contextmanager
def _served(python: str, directory: Path) -> Generator[httpx.Client]:
    """Serve a store meanwhile, on any free port, with the installed `memsieve[api]`."""
    extra = directory / "extra"
    extra.mkdir()
    lend(installed("memsieve", packages(python)), extra, "api")
    digest = hashlib.sha256(b"of dana").hexdigest()
    rows = ('name = "dana"', f'sha256 = "{digest}"', 'scopes = ["dana", "eli"]')
    token = "\n".join(["[[tokens]]", *rows, 'rights = ["read", "write"]'])
    (directory / "tokens.toml").write_text(token, "utf-8")
    ports = {"MEMSIEVE_API__PORT": "0", "MEMSIEVE_SERVICE__PORT": "0"}
    said = directory / "said"
    with (
        said.open("w") as out,
        subprocess.Popen(
            [Path(python).with_name("memsieve"), "service", "api", "--tokens", "tokens.toml"],
            cwd=directory,
            env={**_variables(), **ports, "PYTHONPATH": str(extra)},
            stdout=out,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            wait_until(lambda: _port(said) is not None, "the API says its port")
            with httpx.Client(
                base_url=f"http://127.0.0.1:{_port(said)}",
                headers={"authorization": "Bearer of dana"},
                trust_env=False,
                timeout=60,
            ) as client:
                yield client
        finally:
            process.terminate()


def _port(said: Path) -> str | None:
    found = re.search(r"API on port (\d+)", said.read_text("utf-8"))
    return None if found is None else found[1]
