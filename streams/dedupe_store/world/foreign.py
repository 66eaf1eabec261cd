"""A Qdrant collection of another program: read as a whole, and rewritten under another name."""

import asyncio
import shutil
import tempfile
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from qdrant_client import AsyncQdrantClient, models
from qdrant_client.conversions.common_types import PointId
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from streams.model.embedding import Vector
from streams.model.ports.failures import NoServer, NoStore, Unreachable

_PAGE = 500
_ID = "id"


class Collections:
    """The collections of a server, or of a copy of a local directory."""

    def __init__(self, client: AsyncQdrantClient, place: str) -> None:
        self._client = client
        self.place = place

    async def named(self, wanted: str | None) -> str:
        """Return the collection that is wanted, or the only one. Raises NoStore."""
        there = sorted(one.name for one in (await self._client.get_collections()).collections)
        if wanted in there:
            return wanted
        listed = ", ".join(there) or "none"
        if wanted is not None:
            raise NoStore(f"{self.place} has no collection {wanted}; there are: {listed}")
        if len(there) != 1:
            raise NoStore(f"name a collection of {self.place}; there are: {listed}")
        return there[0]

    async def rows(self, name: str) -> list[dict[str, Any]]:
        """Return all points of a collection: their payloads with their `id`, without vectors."""
        found: list[dict[str, Any]] = []
        offset: Any = None
        while True:
            page, offset = await self._client.scroll(
                name, limit=_PAGE, offset=offset, with_payload=True, with_vectors=False
            )
            found += [{**(one.payload or {}), _ID: _plain(one.id)} for one in page]
            if offset is None:
                return found

    async def write(self, name: str, rows: Sequence[tuple[Mapping[str, Any], Vector]]) -> None:
        """Create a collection of such rows. Raises NoStore if one of that name exists."""
        if await self._client.collection_exists(name):
            raise NoStore(f"{self.place} has a collection {name} already: name another one")
        size = len(rows[0][1]) if rows else 1
        distance = models.VectorParams(size=size, distance=models.Distance.COSINE)
        await self._client.create_collection(name, vectors_config=distance)
        for start in range(0, len(rows), _PAGE):
            points = [_point(row, vector) for row, vector in rows[start : start + _PAGE]]
            await self._client.upsert(name, points, wait=True)


def _point(row: Mapping[str, Any], vector: Vector) -> models.PointStruct:
    payload = {name: value for name, value in row.items() if name != _ID}
    return models.PointStruct(id=row[_ID], vector=vector.tolist(), payload=payload)


def _plain(identity: PointId) -> int | str:
    return identity if isinstance(identity, int) else str(identity)


@asynccontextmanager
async def of_server(client: AsyncQdrantClient, url: str) -> AsyncGenerator[Collections]:
    """Open the collections of a server. Raises Unreachable or NoServer."""
    try:
        yield Collections(client, url)
    except UnexpectedResponse as error:
        raise NoServer(f"{url} refuses: {error.status_code} {error.reason_phrase}") from error
    except ApiException as error:
        raise Unreachable(f"{url} does not answer: {error}") from error
    finally:
        await client.close()


@asynccontextmanager
async def of_directory(path: Path) -> AsyncGenerator[Collections]:
    """Open a copy of a local directory of Qdrant's Python client: opening it writes into it."""
    if not (path / "meta.json").is_file():
        raise NoStore(f"{path} is not a directory of Qdrant's Python client: meta.json is missing")
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # with many points it warns that a server is faster
        copy = Path(scratch) / "copy"
        ignored = shutil.ignore_patterns(".lock")
        await asyncio.to_thread(shutil.copytree, path, copy, ignore=ignored)
        client = AsyncQdrantClient(path=str(copy))
        try:
            yield Collections(client, str(path))
        finally:
            await client.close()
