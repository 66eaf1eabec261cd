"""Opens another program's collections."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from streams.store.app.settings import Settings
from streams.store.world.extras import require

if TYPE_CHECKING:
    from streams.dedupe_store.world.foreign import Collections


def is_server(place: str) -> bool:
    """Return whether a place is a server's URL."""
    return place.startswith(("http://", "https://"))


@asynccontextmanager
async def foreign_collections(settings: Settings, place: str) -> AsyncGenerator["Collections"]:
    """Open another program's collections, from a server's URL or from a copy of a directory."""
    require("qdrant", "a Qdrant collection")
    from streams.dedupe_store.world.foreign import of_directory, of_server
    from streams.index.qdrant import connect

    if not is_server(place):
        async with of_directory(Path(place)) as copy:
            yield copy
        return
    wanted = settings.qdrant
    key = None if wanted.api_key is None else wanted.api_key.get_secret_value()
    client = connect(
        place,
        api_key=key,
        prefer_grpc=False,
        grpc_port=wanted.grpc_port,
        timeout_seconds=wanted.timeout_seconds,
    )
    async with of_server(client, place) as there:
        yield there
