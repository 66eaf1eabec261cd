"""Reads the full exports of other memory stores: one JSON document each.

Chroma: the result of `collection.get()`, parallel lists. mem0: the result of `get_all()`, a list of
memories, or an object with it as `results`. Any other list of objects is taken unchanged.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic_core import from_json

from streams.model.ports import Fatal

DOCUMENT_BYTES_MAX = 2_147_483_648
"""A document is held in memory as a whole: a larger one must be exported in parts."""

_LISTS = ("results", "memories", "data")


def rows_of(path: Path) -> list[dict[str, Any]] | None:
    """Return the rows of an export; None if the file is no such document.

    Raises Fatal, naming the file, if it cannot be read.
    """
    try:
        if path.stat().st_size > DOCUMENT_BYTES_MAX:
            raise Fatal(f"{path} is longer than {DOCUMENT_BYTES_MAX:,} bytes: export it in parts")
        document = from_json(path.read_bytes(), allow_inf_nan=False)
    except OSError as error:
        raise Fatal(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Fatal(f"{path} is not JSON: {error}") from error
    return _of_chroma(document, path) if _is_chroma(document) else _listed(document)


def _is_chroma(document: object) -> bool:
    return isinstance(document, dict) and {"ids", "documents"} <= document.keys()


def _of_chroma(document: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    """Make a row from the entries at the same position of each list."""
    ids, documents = document["ids"], document["documents"]
    metadatas = document.get("metadatas") or [None] * len(ids)
    if not len(ids) == len(documents or ()) == len(metadatas):
        raise Fatal(f"{path}: ids, documents and metadatas are not of one length: export them anew")
    return [
        {**(metadata or {}), "id": identity, "document": text}
        for identity, text, metadata in zip(ids, documents, metadatas, strict=True)
    ]


def _listed(document: object) -> list[dict[str, Any]] | None:
    if isinstance(document, dict):
        held = cast("dict[str, Any]", document)
        document = next((held[name] for name in _LISTS if isinstance(held.get(name), list)), None)
    if not isinstance(document, list):
        return None
    entries = cast("Sequence[object]", document)
    return [cast("dict[str, Any]", one) if isinstance(one, dict) else {} for one in entries]
