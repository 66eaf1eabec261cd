"""A stand-in for a Qdrant server, for tests alone: the part of its REST API that is used here.

It prints its port once it answers, and ends when its standard input does: with its parent.
"""

import argparse
import json
import sys
import threading
import time
import traceback
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from tests.standin import faults, routes
from tests.standin.faults import Faults
from tests.standin.storage import Storage
from tests.standin.translation import Refused, meanings

_OPEN_TO_ALL = {"/", "/healthz", "/livez", "/readyz"}
_PLAIN = {
    "/healthz": b"healthz check passed",
    "/livez": b"healthz check passed",
    "/readyz": b"all shards are ready",
}


class _Reply(NamedTuple):
    status: int
    body: bytes
    kind: str = "application/json"


class _Service:
    """Answers requests; knows nothing of connections."""

    def __init__(self, storage: Storage, api_key: str | None, version: str) -> None:
        self._storage = storage
        self._api_key = api_key
        self._version = version
        self._faults = Faults()
        self._faults_lock = threading.Lock()

    def reply(self, method: str, target: str, body: bytes, api_key: str | None) -> _Reply:
        url = urlsplit(target)
        if url.path == faults.ROUTE:
            return self._misbehave(body)
        if (failure := self._failure()) is not None:
            return _refusal(failure, "Service internal error: told to fail")
        if url.path not in _OPEN_TO_ALL and self._api_key not in {None, api_key}:
            return _denial(api_key)
        if url.path == "/":
            version = {"title": "qdrant - vector search engine", "version": self._version}
            return _Reply(HTTPStatus.OK, json.dumps(version).encode())
        if url.path in _PLAIN:
            return _Reply(HTTPStatus.OK, _PLAIN[url.path], "text/plain")
        return self._served(
            method, url.path, body, wait="true" in parse_qs(url.query).get("wait", [])
        )

    def _misbehave(self, body: bytes) -> _Reply:
        wanted = Faults.model_validate_json(body)
        with self._faults_lock:
            self._faults = wanted
        return _Reply(HTTPStatus.OK, b"{}")

    def _failure(self) -> int | None:
        with self._faults_lock:
            now = self._faults.model_copy()
            if now.failing:
                self._faults.failing -= 1
        time.sleep(now.slow_seconds)
        return now.status if now.failing else None

    def _served(self, method: str, path: str, body: bytes, *, wait: bool) -> _Reply:
        found = routes.find(method, path)
        if found is None:
            return _Reply(HTTPStatus.NOT_FOUND, b"", "text/plain")
        answer, name = found
        started = time.perf_counter()
        try:
            with meanings():
                result = answer(self._storage, routes.Call(unquote(name), body, wait))
        except Refused as refused:
            if refused.status is HTTPStatus.INTERNAL_SERVER_ERROR:
                traceback.print_exception(refused)
            return _refusal(refused.status, str(refused))
        took = time.perf_counter() - started
        return _Reply(HTTPStatus.OK, _json({"result": result, "status": "ok", "time": took}))


def _refusal(status: int, error: str) -> _Reply:
    return _Reply(status, _json({"status": {"error": error}, "time": 0.0}))


def _denial(api_key: str | None) -> _Reply:
    missing = b"Must provide an API key or an Authorization bearer token"
    wrong = b"Invalid API key or JWT"
    return _Reply(HTTPStatus.UNAUTHORIZED, missing if api_key is None else wrong, "text/plain")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps the connection
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together

    def __init__(self, service: _Service, *connection: Any) -> None:
        self._service = service
        super().__init__(*connection)

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        reply = self._service.reply(self.command, self.path, body, self.headers.get("api-key"))
        self.send_response(reply.status)
        self.send_header("content-type", reply.kind)
        self.send_header("content-length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 -- so named by the base

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- so named by the base
        """Keep silent: the tests say what went wrong."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report what went wrong, unless it is only that a client has gone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _shutdown_with_parent(server: _Server) -> None:
    sys.stdin.buffer.read()
    server.shutdown()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, required=True, help="0: any that is free")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--api-key")
    parser.add_argument("--version", default="1.19.0", help="the version to report")
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    storage = Storage(arguments.data)
    service = _Service(storage, arguments.api_key, arguments.version)
    with _Server((arguments.host, arguments.port), partial(_Handler, service)) as server:
        threading.Thread(target=_shutdown_with_parent, args=[server], daemon=True).start()
        sys.stdout.write(f"{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever(poll_interval=0.05)
    storage.end()
