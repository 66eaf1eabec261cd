"""Settings, and whether everything is in order."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import SecretStr

from streams.main.command_line import EXIT_CODES
from streams.store.app.settings import Settings, listing
from tests.commands.conftest import Memsieve, start_holding, write_events
from tests.support.encoding.models import models_dir
from tests.support.machine.read_only import read_only
from tests.support.machine.waiting import wait_until
from tests.support.servers.kafka import free_port


@pytest.mark.covers("B108")
def test_flags_win_over_variables_over_the_file_over_defaults(
    memsieve: Memsieve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memsieve.toml").write_text(
        'store = "from-file"\npolicy = "from-file"\n[run]\nbatch_records = 5\n', encoding="utf-8"
    )
    monkeypatch.setenv("MEMSIEVE_STORE", "from-variable")
    monkeypatch.setenv("MEMSIEVE_EMBEDDER__THREADS", "2")
    shown = memsieve("service", "settings", "show", "--json").json()
    assert shown["store"] == "from-variable"
    assert shown["policy"] == "from-file"
    assert (shown["run.batch_records"], shown["embedder.threads"]) == (5, 2)
    assert shown["index.kind"] == "edge"
    assert "from-flag holds no store" in memsieve("memory", "list", "--store", "from-flag").err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("stoer = 'x'", "stoer is not a setting; did you mean store?"),
        ("[run]\nbatch_recrods = 5", "run.batch_recrods is not a setting"),
        ("[run]\nbatch_records = 0", "run.batch_records: should be greater than or equal to 1"),
        ("[index]\nkind = 'faiss'", "index.kind: should be 'edge', 'exact' or 'qdrant'"),
        ("store = ", "memsieve.toml is not TOML"),
        ("policy = 'none'", "policy none: there is no such policy"),
        ("[kafka]\nusername = 'ana'", "mechanism and username go together"),
        ("[kafka]\nca_file = 'ca.pem'", "ca_file has no effect without TLS: set tls"),
        ("[kafka]\ntls = true\nkey_file = 'a.key'", "key_file is the key of a certificate: set"),
    ],
)
def test_a_wrong_setting_is_named(
    content: str, message: str, memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / "memsieve.toml").write_text(content, encoding="utf-8")
    result = memsieve("service", "settings", "check")
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_a_misspelt_variable_is_an_error(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIEVE_INDEX__KIDN", "edge")
    result = memsieve("service", "settings", "show")
    assert result.code == 2
    assert "MEMSIEVE_INDEX__KIDN is not a setting; did you mean index.kind?" in result.err


def test_secrets_are_masked() -> None:
    class WithSecret(Settings):
        key: SecretStr = SecretStr("hunter2")

    assert listing(WithSecret())["key"] == "**********"


@pytest.mark.covers("B109")
def test_reversed_bands_are_refused_by_name(memsieve: Memsieve, tmp_path: Path) -> None:
    shipped = Path(__file__).parents[3] / "streams" / "store" / "policies" / "zork-semantic.toml"
    reversed_ = shipped.read_text("utf-8").replace("review = 0.85", "review = 0.99")
    (tmp_path / "mine.toml").write_text(reversed_, "utf-8")
    (tmp_path / "memsieve.toml").write_text('policy = "mine.toml"', encoding="utf-8")
    result = memsieve("service", "settings", "check")
    assert result.code == 2
    assert "mine.toml: bands must fall: match 0.95" in result.err


def test_doctor_finds_a_sound_store_in_order(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "facts.jsonl", "Ana likes tea.")
    memsieve("run", "facts.jsonl", "--store", "store")
    result = memsieve("check", "--store", "store", "--json")
    assert result.code == 0
    facts = {finding["subject"]: finding for finding in result.json()}
    assert all(finding["healthy"] for finding in facts.values())
    assert facts["index"]["fact"] == "edge, 1 memory, 0 retired, all as the log says"
    assert "0 events to decide, 0 records to apply" in facts["log"]["fact"]


def test_doctor_compares_the_settings_with_the_store(
    memsieve: Memsieve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_events(tmp_path / "facts.jsonl", "Ana likes tea.")
    memsieve("run", "facts.jsonl", "--store", "store")
    monkeypatch.setenv("MEMSIEVE_LOG__PARTITIONS", "4")
    result = memsieve("check", "--store", "store")
    assert result.code == 3
    assert "was made with partitions 1, not 4" in result.out


def test_doctor_leaves_a_store_alone_that_is_being_written(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    write_events(tmp_path / "facts.jsonl", "Ana likes tea.")
    memsieve("run", "facts.jsonl", "--store", "store")
    with start_holding("store", cwd=tmp_path) as process:
        lock = tmp_path / "store" / "lock"
        wait_until(lambda: lock.read_text() == str(process.pid), "the store is held")
        result = memsieve("check", "--store", "store")
    assert result.code == 0
    assert f"being written by process {process.pid}" in result.out


def test_doctor_ends_with_the_exit_code_of_the_first_failure(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIEVE_KAFKA__BOOTSTRAP", f"127.0.0.1:{free_port()}")
    result = memsieve("check", "--json")
    assert result.code == 7
    healthy = {one["subject"]: one["healthy"] for one in result.json()}
    assert healthy == {
        "policy": True,
        "model": True,
        "topics": False,
        "groups": False,
        "index": True,
    }
    monkeypatch.setenv("MEMSIEVE_EMBEDDER__CACHE_DIR", "empty")
    assert memsieve("check").code == 4


def test_doctor_is_content_before_the_first_run(memsieve: Memsieve) -> None:
    result = memsieve("check")
    assert result.code == 0
    assert "none yet in memsieve-store; the first run creates it" in result.out


def test_a_store_that_is_named_must_be_there(memsieve: Memsieve) -> None:
    result = memsieve("check", "--store", "nowhere")
    assert result.code == 3
    assert "nowhere holds no store; make one with: memsieve run FILE --store nowhere" in result.err


def test_doctor_names_what_is_damaged_and_still_examines_the_rest(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    write_events(tmp_path / "facts.jsonl", "Ana likes tea.")
    memsieve("run", "facts.jsonl", "--store", "store")
    for wal in (tmp_path / "store" / "index" / "wal").iterdir():
        wal.write_bytes(b"junk")
    result = memsieve("check", "--store", "store", "--json")
    assert result.code == 3
    healthy = {finding["subject"]: finding["healthy"] for finding in result.json()}
    assert healthy == {"policy": True, "model": True, "store": True, "log": True, "index": False}


@pytest.mark.covers("B130")
def test_doctor_finds_vectors_that_are_not_those_of_the_log(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """The engine keeps no checksums: it opens and searches rubbish without a word."""
    write_events(tmp_path / "facts.jsonl", "Ana likes tea.", "Bo works in Lisbon.")
    memsieve("run", "facts.jsonl", "--store", "store")
    for chunk in (tmp_path / "store" / "index").rglob("vectors/chunk_0.mmap"):
        chunk.write_bytes(bytes(chunk.stat().st_size))
    result = memsieve("check", "--store", "store")
    assert result.code == 3
    assert "2 memories of store/index differ from the log" in result.out
    shutil.rmtree(tmp_path / "store" / "index")
    memsieve("run", "facts.jsonl", "--store", "store")
    assert memsieve("check", "--store", "store").code == 0


def test_a_damaged_model_stops_every_run(
    memsieve: Memsieve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(models_dir(), tmp_path / "models")
    [graph] = (tmp_path / "models").rglob("model.onnx")
    content = bytearray(graph.read_bytes())
    content[len(content) // 2] ^= 1
    graph.write_bytes(content)
    monkeypatch.setenv("MEMSIEVE_EMBEDDER__CACHE_DIR", str(tmp_path / "models"))
    write_events(tmp_path / "facts.jsonl", "Ana likes tea.")
    result = memsieve("run", "facts.jsonl", "--store", "store")
    assert result.code == 4
    assert "model.onnx" in result.err
    assert "memsieve model install" in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "store").exists()


def test_the_contracts_are_exported(memsieve: Memsieve, tmp_path: Path) -> None:
    result = memsieve("service", "schema", "export", "contracts")
    written = [tmp_path / line for line in result.out.splitlines()]
    assert [path.name for path in written] == [
        "memory.events.schema.json",
        "memory.decisions.schema.json",
        "memory.changes.schema.json",
        "memory.reviews.schema.json",
        "memory.dead-letters.schema.json",
        "memory.turns.schema.json",
        "asyncapi.json",
    ]
    assert all(json.loads(path.read_text("utf-8")) for path in written)
    listed = memsieve("service", "schema", "export", "contracts", "--json").json()
    assert listed == result.out.splitlines()


def test_valid_settings_are_told_with_their_policy_and_model(memsieve: Memsieve) -> None:
    line = memsieve("service", "settings", "check").out
    told = memsieve("service", "settings", "check", "--json").json()
    assert line == (f"the settings are valid; policy {told['policy_id']}, model {told['model']}\n")


def test_the_exit_codes_are_in_the_help(memsieve: Memsieve) -> None:
    help_ = " ".join(memsieve("--help").out.split())
    for code, meaning in EXIT_CODES.items():
        assert f"{code} {meaning}" in help_


def test_a_store_that_cannot_be_written_is_read_and_that_is_said(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """With what a kill has left in the journal: that is part of the log, and not in its file yet."""
    write_events(tmp_path / "facts.jsonl", "Ana likes tea.")
    memsieve("run", "facts.jsonl", "--store", "store")
    with closing(sqlite3.connect(tmp_path / "store" / "log.sqlite3", isolation_level=None)) as held:
        held.execute("BEGIN")
        held.execute(
            "SELECT count(*) FROM records"
        ).fetchone()  # so that no run empties the journal
        write_events(tmp_path / "more.jsonl", "The bus leaves at 8.")
        memsieve("run", "more.jsonl", "--store", "store")
        shutil.copytree(tmp_path / "store", tmp_path / "backup")
    assert (tmp_path / "backup" / "log.sqlite3-wal").stat().st_size > 0
    before = {
        path: path.read_bytes() for path in (tmp_path / "backup").rglob("*") if path.is_file()
    }
    with read_only(tmp_path / "backup"):
        examined = memsieve("check", "--store", "backup")
        audited = memsieve("check", "--full", "--store", "backup")
        kept = memsieve("memory", "list", "--store", "backup", "--json").json()
        refused = memsieve("run", "facts.jsonl", "--store", "backup")
    assert (examined.code, audited.code) == (0, 0), examined.out + audited.out
    assert "it is readable but not writable" in examined.out
    assert (
        "edge, 2 memories, 0 retired, all as the log says, by a copy of it, for it cannot be "
        "written" in examined.out
    )
    assert "(a copy of it, for it cannot be written): 2 memories as the log says" in audited.out
    assert {memory["text"] for memory in kept} == {"Ana likes tea.", "The bus leaves at 8."}
    assert (refused.code, "cannot be used as a store" in refused.err) == (3, True)
    after = {path: path.read_bytes() for path in (tmp_path / "backup").rglob("*") if path.is_file()}
    assert after == before
