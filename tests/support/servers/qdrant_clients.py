"""Clients of Qdrant servers, apart from the plugin: what they import takes a second and a half."""

import os

from qdrant_client import AsyncQdrantClient

from streams.index.qdrant import connect

_GRPC_PORT = int(os.environ.get("QDRANT_GRPC_PORT", "6334"))  # noqa: TID251 - a switch of the tests, no setting


def rest_client(url: str) -> AsyncQdrantClient:
    """Return a client that speaks what the stand-in speaks, too."""
    return connect(url, api_key=None, prefer_grpc=False, grpc_port=6334, timeout_seconds=10.0)


def grpc_client(url: str) -> AsyncQdrantClient:
    """Return a client that speaks gRPC to the server that QDRANT_URL and QDRANT_GRPC_PORT name."""
    return connect(url, api_key=None, prefer_grpc=True, grpc_port=_GRPC_PORT, timeout_seconds=10.0)
