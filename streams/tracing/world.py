"""Traces by OpenTelemetry's SDK, sent over HTTP to a collector.

The standard variables OTEL_… say where to, how many, and what else: the SDK reads them itself.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from streams.clock.stopwatch import time_limit
from streams.clock.system import SystemClock
from streams.log.threads import abandonable
from streams.model.ports.failures import Unusable
from streams.tracing.port import Attributes, Headers

_FLUSH_SECONDS = 5.0
"""How long the last spans may delay the end of a process."""
_SILENCE_SECONDS = 60.0
"""A collector that is away is told of once in this time, not at every attempt."""
_HEADER_MAX = 512
"""A longer header is ignored: it is untrusted, and W3C asks for no more to be carried on."""
_CHATTY = ("opentelemetry.exporter", "opentelemetry.trace")
"""They log each attempt to reach a collector, and each malformed header."""
_NANOSECONDS = 1_000_000_000

_W3C = TraceContextTextMapPropagator()


class OpenTelemetry:
    """Implements port.Tracing. Work never waits for the collector: a thread sends the spans."""

    def __init__(self, service: str, warn: Callable[[str], None]) -> None:
        """Name the process `service`, unless OTEL_SERVICE_NAME does.

        `warn` is told, in a line and from another thread, that spans are lost. Raises Unusable if
        the SDK refuses its variables.
        """
        for chatty in _CHATTY:
            logging.getLogger(chatty).setLevel(logging.CRITICAL)
        given = OTELResourceDetector().detect().attributes
        ours = {SERVICE_NAME: service, "service.version": version("memsieve")}
        try:
            self._exporter = _Telling(OTLPSpanExporter(), warn)
            self._provider = TracerProvider(
                resource=Resource.create({**ours, **given}), shutdown_on_exit=False
            )
            self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        except ValueError as error:
            raise Unusable(f"tracing: a variable OTEL_… cannot be used: {error}") from error
        self._tracer = self._provider.get_tracer("memsieve", version("memsieve"))
        self._clock = SystemClock()
        self._warn = warn

    def now(self) -> int:
        return int(self._clock.now().timestamp() * _NANOSECONDS)

    def step(
        self, name: str, came_with: Headers, since: int, attributes: Callable[[], Attributes]
    ) -> "_SpanStep":
        carrier = {
            name: value.decode("utf-8", "replace")
            for name, value in came_with
            if value is not None and len(value) <= _HEADER_MAX
        }
        before = _W3C.extract(carrier, Context())  # not the context of the program around us
        span = self._tracer.start_span(name, before, SpanKind.CONSUMER, start_time=since)
        if span.is_recording():
            span.set_attributes(attributes())
        return _SpanStep(span)

    async def close(self) -> None:
        """Send what is left, in bounded time."""
        ending = asyncio.create_task(abandonable(self._provider.shutdown))
        _, late = await asyncio.wait({ending}, timeout=_FLUSH_SECONDS)
        if late:
            self._exporter.shutdown()  # it does not try again
            ending.cancel()
            self._warn(
                "tracing: the last spans are lost, the collector did not take them in "
                f"{_FLUSH_SECONDS:.0f} s"
            )


class _SpanStep:
    """Implements port.TraceStep."""

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def headers(self) -> Headers:
        carrier: dict[str, str] = {}
        _W3C.inject(carrier, set_span_in_context(self._span, Context()))
        return tuple((name, value.encode()) for name, value in carrier.items())

    def end(self) -> None:
        self._span.end()


class _Telling(SpanExporter):
    """An exporter over another one that tells, now and then, that spans are lost."""

    def __init__(self, exporter: SpanExporter, warn: Callable[[str], None]) -> None:
        self._exporter = exporter
        self._warn = warn
        self._may_tell = time_limit(0)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS and self._may_tell():
            self._may_tell = time_limit(_SILENCE_SECONDS)
            self._warn(
                "tracing: the collector takes no spans, they are lost; is "
                "OTEL_EXPORTER_OTLP_ENDPOINT right, and its port that of OTLP over HTTP?"
            )
        return result

    def shutdown(self) -> None:
        """Try nothing again, and tell nothing more."""
        self._may_tell = lambda: False
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
