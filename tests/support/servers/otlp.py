"""A collector for tests: it takes spans by OTLP over HTTP, and keeps what it was sent."""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

_TYPE = "application/x-protobuf"


@dataclass(frozen=True)
class Sent:
    """A span as it was sent; ids in hexadecimal, times in nanoseconds since 1970."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    began: int
    ended: int
    attributes: Mapping[str, Any]


class Collector:
    """A server at `address` while it is entered; `status` is what it answers."""

    def __init__(self, status: int = 200) -> None:
        self.spans: list[Sent] = []
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if status == 200:
                    collector.take(self.path, self.headers["Content-Type"], body)
                self.send_response(status)
                self.send_header("Content-Type", _TYPE)
                self.end_headers()
                self.wfile.write(ExportTraceServiceResponse().SerializeToString())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a process that is to send its spans here, and soon."""
        return {
            "MEMSIEVE_TRACING__ENABLED": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.address,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def take(self, path: str, content_type: str, body: bytes) -> None:
        assert (path, content_type) == ("/v1/traces", _TYPE)
        self.bodies.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {one.key: _value(one.value) for one in resource.resource.attributes}
            self.spans += [
                Sent(
                    service=named["service.name"],
                    name=span.name,
                    trace=span.trace_id.hex(),
                    span=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    began=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                    attributes={one.key: _value(one.value) for one in span.attributes},
                )
                for scope in resource.scope_spans
                for span in scope.spans
            ]

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _value(value: AnyValue) -> Any:
    if value.HasField("array_value"):
        return [_value(one) for one in value.array_value.values]
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)
