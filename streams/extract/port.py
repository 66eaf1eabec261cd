"""What takes memories from turns, as the flow sees it."""

from typing import Protocol

from schemas.events import Remember
from streams.extract.core.synthesis import Abstention, Material, RejectedAnswer
from streams.model.ports.models import NoAnswer


class Extracting(Protocol):
    """Extracts a memory from a turn in its own words."""

    async def extract(
        self, material: Material, refused: str | None = None
    ) -> Remember | Abstention | RejectedAnswer | NoAnswer:
        """Return the event extracted from a turn, or why there is none.

        `refused` says why the previous answer was rejected. Never raises for what a turn says.
        """
        ...

    async def close(self) -> None: ...
