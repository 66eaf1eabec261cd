"""The results and costs of a run: the figures that `run --metrics` writes."""

from collections.abc import Sequence
from typing import Any

from schemas.decisions import Decision, Reject
from streams.stage.core.sessions import SessionCounter


class Figures:
    """Collects a run's figures per batch: first the time that it took, then its decisions.

    A batch's seconds are divided evenly among its events, which are embedded and searched together.
    """

    def __init__(self) -> None:
        self._sessions = SessionCounter()
        self._seconds = 0.0
        self._decided = 0
        self._batch_seconds = 0.0
        self._failures = 0
        self._rejected = 0
        self._rebuilds = 0
        self._rebuild_seconds = 0.0

    def took(self, seconds: float) -> None:
        """Note how long deciding on a batch took; its decisions are passed next."""
        self._batch_seconds = seconds

    def decided(self, decisions: Sequence[Decision]) -> None:
        self._seconds += self._batch_seconds
        self._decided += len(decisions)
        self._rejected += sum(isinstance(one, Reject) for one in decisions)
        for decision in decisions:
            self._sessions.add(decision, self._batch_seconds / len(decisions))

    def failed(self) -> None:
        """Note that deciding on a batch failed and is retried."""
        self._failures += 1

    def rebuilt(self, memories: int, seconds: float) -> None:
        """Note that the index was brought level with the log, and how long that took."""
        del memories  # as_json receives the final number
        self._rebuilds += 1
        self._rebuild_seconds += seconds

    def as_json(self, indexed: int) -> dict[str, Any]:
        """Return all figures; `indexed` is the number of memories with vectors in the index."""
        sessions = self._sessions.all()
        known = sum(one.reinforced for one in sessions)
        return {
            "duplicates_prevented": known,
            "metadata_updates": known,
            "supersessions_from_near_duplicates": sum(one.near_duplicates for one in sessions),
            "avg_deduplication_time_ms": (
                round(1e3 * self._seconds / self._decided, 1) if self._decided else None
            ),
            "embedding_cache_size": indexed,
            "embedding_cache_rebuild_count": self._rebuilds,
            "embedding_cache_rebuild_seconds": round(self._rebuild_seconds, 2),
            "deduplication_error_count": self._failures + self._rejected,
            "sessions": [one.as_json() for one in sessions],
        }
