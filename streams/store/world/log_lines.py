"""The log lines of a process."""

import asyncio
import logging
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import structlog

from schemas.base import MemoryId
from schemas.decisions import Decision
from streams.stage.core.decision_lines import LogLine, checked, compared, loose, notice, unworded

_NAME = "memsieve"
_BATCH_SECONDS = ContextVar("_BATCH_SECONDS", default=0.0)
"""The duration of a task's batch: partitions run concurrently, one task each."""
_CHATTY = ("aiokafka", "httpx", "kafka", "uvicorn.error")
"""Libraries that log a lost connection at every attempt; we log it once, with the remedy."""


class DecisionLines:
    """Logs repeats found, near matches that were kept, and merges that failed.

    With `debug` also each event, with titles and times.
    """

    def __init__(self, log: structlog.stdlib.BoundLogger, *, debug: bool) -> None:
        self._log = log
        self._debug = debug
        self._titles: Mapping[MemoryId, str] = {}

    def named(self, titles: Mapping[MemoryId, str]) -> None:
        """Set the titles of the memories that the next decisions were compared with."""
        self._titles = titles

    def took(self, seconds: float) -> None:
        """Set the duration of the batch whose decisions this task logs next."""
        _BATCH_SECONDS.set(seconds)

    def decided(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            self._tell(logging.DEBUG, checked(decision))
            self._tell(logging.WARNING, unworded(decision))
            self._tell(logging.WARNING, loose(decision, self._titles))
            self._tell(logging.INFO, notice(decision, self._titles))
        if self._debug:
            self._log.debug(
                "deduplication check",
                events=len(decisions),
                compared=sum(map(compared, decisions)),
                duration_ms=round(1e3 * _BATCH_SECONDS.get(), 1),
            )

    def _tell(self, level: int, found: LogLine | None) -> None:
        if found is not None and (self._debug or level > logging.DEBUG):
            fields = {**found.fields, **found.titles} if self._debug else found.fields
            self._log.log(level, found.what, **fields)

    def rebuilt(self, memories: int, seconds: float) -> None:
        """Log that the index was brought level with the log, and how many memories it holds."""
        self._log.info("index rebuilt", memories=memories, duration_ms=round(1e3 * seconds, 1))


def run_logged(service: Coroutine[Any, Any, None], log: structlog.stdlib.BoundLogger) -> None:
    """Run a service until it is stopped; what ends it is also a line of its log."""
    try:
        asyncio.run(service)
    except Exception as error:
        log.error(str(error))  # noqa: TRY400 - whoever called prints the error
        raise


def name_worker(number: int) -> None:
    """Have every line of this process say which of several workers it is."""
    structlog.contextvars.bind_contextvars(worker=number)


def log_lines(service: str, level: int = logging.INFO) -> structlog.stdlib.BoundLogger:
    """Set up logging to standard error, as JSON unless it is a terminal; return the logger.

    Lines contain ids, places and reasons, at DEBUG also titles, but never a memory's text.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer()
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        foreign_pre_chain=shared,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger(_NAME).setLevel(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    bound: structlog.stdlib.BoundLogger = structlog.get_logger(_NAME).bind(service=service)
    return bound
