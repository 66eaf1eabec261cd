"""The contracts of pyproject.toml report what they forbid: each is shown a planted violation."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = [
    one["name"]
    for one in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
]
PLANTED = [
    ("Facade: memsieve stands on", "streams/text/tokens.py", "import memsieve"),
    ("Facade: memsieve asks", "memsieve/fields.py", "import streams.model.scope"),
    ("Order", "streams/log/consumer.py", "import streams.stage.flow.partition_owner"),
    ("Order", "streams/index/exact.py", "import streams.sinks.jsonl"),  # of one layer
    ("Order", "streams/misc/__init__.py", ""),  # in no layer
    ("Inside a slice", "streams/verify/app/audited.py", "import streams.verify.cli"),
    (
        "Inside a slice",
        "streams/extract/flow/extract.py",
        "import streams.extract.world.extracting",
    ),
    ("Purity: schemas, text", "streams/text/tokens.py", "import time"),
    ("Purity: schemas, text", "streams/model/scope.py", "import streams.log.consumer"),
    ("Purity: schemas, text", "streams/stage/core/decide.py", "import sqlite3"),
    ("Purity: no rule", "streams/recall/core/recall.py", "import streams.model.ports"),
    ("Purity: what travels", "schemas/base.py", "import numpy"),
    ("Ports", "streams/stage/flow/partition_owner.py", "import streams.index.exact"),
    ("Ports", "streams/recall/flow.py", "import pathlib"),
    ("Vendors", "streams/stage/flow/partition_owner.py", "import aiokafka"),
    ("Vendors", "streams/store/world/files.py", "import qdrant_client"),
    ("No cycles", "streams/log/failures.py", "import streams.log.consumer"),
]


def test_every_contract_is_shown_a_violation() -> None:
    for name in CONTRACTS:
        shown = [one for one, _, _ in PLANTED if name.startswith(one)]
        assert shown, f"add a violation of {name!r} to PLANTED"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the code that can be spoiled."""
    copy = tmp_path_factory.mktemp("house")
    for package in ("memsieve", "schemas", "streams"):
        unused = shutil.ignore_patterns("__pycache__", "*.onnx", "*.gz", "*.npz")
        shutil.copytree(ROOT / package, copy / package, ignore=unused)
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def broken(checkout: Path) -> list[str]:
    """Return the contracts that the linter reports as broken."""
    ran = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "COLUMNS": "500"},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Contracts: " in ran.stdout, ran.stdout + ran.stderr
    named = [line.partition(" BROKEN")[0] for line in ran.stdout.splitlines() if " BROKEN" in line]
    assert (ran.returncode != 0) == bool(named)
    return named


def test_the_code_keeps_every_contract(copied: Path) -> None:
    assert broken(copied) == []


@pytest.mark.parametrize(("contract", "file", "line"), PLANTED)
def test_a_planted_violation_is_reported(copied: Path, contract: str, file: str, line: str) -> None:
    planted = copied / file
    before = planted.read_text("utf-8") if planted.exists() else None
    planted.parent.mkdir(exist_ok=True)
    try:
        planted.write_text(f"{before or ''}\n{line}\n", "utf-8")
        assert [one for one in broken(copied) if one.startswith(contract)]
    finally:
        if before is None:
            shutil.rmtree(planted.parent)
        else:
            planted.write_text(before, "utf-8")
