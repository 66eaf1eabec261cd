"""An OpenAI-compatible endpoint that answers what a test tells it to, over real sockets."""

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

_TRICKLE_SECONDS = 0.02


@dataclass(frozen=True)
class Asked:
    """A request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def form(self) -> str | None:
        """The form that was asked for; None where any will do."""
        return self.body.get("response_format", {}).get("type")

    @property
    def instructions(self) -> str:
        return self.body["messages"][0]["content"]

    @property
    def shown(self) -> str:
        """What follows the instructions: the data in its fence."""
        return self.body["messages"][1]["content"]

    @property
    def texts(self) -> list[str]:
        """The texts to be embedded."""
        return self.body["input"]

    @property
    def data(self) -> Any:
        """The data, read from between the two lines of its fence."""
        _, line, _ = self.shown.split("\n")
        return json.loads(line)


@dataclass(frozen=True)
class Reply:
    """An answer, and how it comes: late, a byte at a time and never whole, or not at all."""

    status: int = HTTPStatus.OK
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    wait_seconds: float = 0.0
    trickles: bool = False
    hangs_up: bool = False


Script = Callable[[Asked], Reply]


def said(content: str | None, *, finish_reason: str = "stop", **message: Any) -> Reply:
    """Return a model's message."""
    choice = {"message": {"content": content, **message}, "finish_reason": finish_reason}
    return completion(choice)


def completion(*choices: dict[str, Any]) -> Reply:
    return Reply(content=json.dumps({"object": "chat.completion", "choices": choices}).encode())


def opinion(verdict: str, **fields: Any) -> Reply:
    """Return a verdict as it is asked for; the fields change or add to it."""
    return said(json.dumps({"differs_in": [], "reason": "so it is", "verdict": verdict} | fields))


def worded(text: str) -> Reply:
    return said(json.dumps({"text": text}))


def embeddings(vectors: Sequence[Sequence[float]]) -> Reply:
    """Return vectors, in the order of the texts that were asked about."""
    data = [{"index": place, "embedding": list(vector)} for place, vector in enumerate(vectors)]
    return Reply(content=json.dumps({"object": "list", "data": data}).encode())


def embedding(vector_of: Callable[[str], Sequence[float]]) -> Script:
    """Embed whatever is asked about."""
    return lambda asked: embeddings([vector_of(text) for text in asked.texts])


def in_turn(*replies: Reply) -> Script:
    """Give the replies one after the other, the last one for ever."""
    left = list(replies)
    taking = threading.Lock()

    def reply(_: Asked) -> Reply:
        with taking:
            return left.pop(0) if len(left) > 1 else left[0]

    return reply


class LlmServer:
    """Listens from its making to its end; `asked` holds every request."""

    def __init__(self, script: Script) -> None:
        self.asked: list[Asked] = []
        self._script = script
        self._ended = threading.Event()
        self._server = _Server(("127.0.0.1", 0), partial(_Handler, self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def end(self) -> None:
        """Answer nobody any more. May be called twice."""
        self._ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        reply = self._script(asked)
        self._ended.wait(reply.wait_seconds)
        return reply

    def goes_on(self) -> bool:
        """Wait a moment; tell whether the server still listens."""
        return not self._ended.wait(_TRICKLE_SECONDS)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, server: LlmServer, *connection: Any) -> None:
        self._llm = server
        super().__init__(*connection)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        names = {name.lower(): value for name, value in self.headers.items()}
        reply = self._llm.reply(Asked(self.path, names, body))
        if reply.hangs_up:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        length = 1_000 if reply.trickles else len(reply.content)
        self.send_header("content-length", str(length))
        self.end_headers()
        self.wfile.write(reply.content)
        while reply.trickles and self._llm.goes_on():
            self.wfile.write(b" ")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- so named by the base
        """Keep silent: the tests say what went wrong."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True  # a client keeps its connection, and its thread, until it closes

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report what went wrong, unless it is only that a client has gone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
