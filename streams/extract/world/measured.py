"""A language model that takes memories from turns, measured."""

from schemas.events import Remember
from streams.extract.core.synthesis import Abstention, Material, RejectedAnswer
from streams.extract.port import Extracting
from streams.model.ports.models import NoAnswer
from streams.store.world.metrics import Metrics


class MeasuredExtractor:
    """Implements ports.Extracting over another, and measures its duration and failures."""

    def __init__(self, model: Extracting, metrics: Metrics) -> None:
        self._model = model
        self._metrics = metrics

    async def extract(
        self, material: Material, refused: str | None = None
    ) -> Remember | Abstention | RejectedAnswer | NoAnswer:
        with self._metrics.extract_seconds.time():
            answer = await self._model.extract(material, refused)
        if isinstance(answer, NoAnswer):
            self._metrics.extract_failures.labels(answer.reason).inc()
        elif isinstance(answer, RejectedAnswer):
            self._metrics.extract_failures.labels("not as asked for").inc()
        return answer

    async def close(self) -> None:
        await self._model.close()
