"""The bands: similarity thresholds for one embedding model."""

from typing import Self

from pydantic import model_validator

from schemas.base import Record, Unit
from schemas.decisions import Band


class Bands(Record):
    """Inclusive lower bounds in cosine similarity. Pairs below `log` are in no band.

    No bound is below 0: texts with opposite vectors are not near.
    """

    match: Unit
    review: Unit
    log: Unit

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.match >= self.review >= self.log:
            high, low = ("match", "review") if self.review > self.match else ("review", "log")
            raise ValueError(
                f"bands must fall: match {self.match} ≥ review {self.review} ≥ log {self.log}; "
                f"raise {high}, or lower {low}"
            )
        return self

    def of(self, similarity: float) -> Band:
        if similarity >= self.match:
            return Band.MATCH
        if similarity >= self.review:
            return Band.REVIEW
        if similarity >= self.log:
            return Band.LOG
        return Band.NONE
