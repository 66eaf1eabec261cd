"""The views to monitor: similarity by kind of decision, and the state of the process."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response
from pydantic import ValidationError

from schemas.base import Record, ScopeName, Unit
from schemas.decisions import Band, Change, Reason, kinds_of
from streams.api.app.desk import Desk
from streams.api.app.problems import Refused
from streams.lab.app.calibrating import ANSWERS_MIN
from streams.maintain.app.diagnosis import Diagnosis
from streams.model.bands import Bands
from streams.model.policy import Policy
from streams.web.app.chronicle import LINES_MAX, Chronicle, ChronicleLine
from streams.web.app.doubts import PairFilter
from streams.web.app.forms import Below, session_of
from streams.web.app.operating import AnsweredPairs, curve
from streams.web.app.pages import page

BINS = 50
"""Of a histogram, from the similarity 0 to 1."""

KINDS = kinds_of(Change)
"""The decisions that have a nearest memory to speak of."""


class QualityQuery(Record):
    """What is looked at: a scope with all below it, "" for all; and which bounds are tried."""

    scope: Below = ""
    match: Unit | None = None
    review: Unit | None = None
    log: Unit | None = None

    def tried(self, bands: Bands) -> Bands:
        """Return the bounds, those that are not tried as they are. Raises Refused."""
        tried = self.model_dump(exclude={"scope"}, exclude_none=True)
        try:
            return Bands.model_validate({**bands.model_dump(), **tried})
        except ValidationError as error:
            said = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, said, field="bands") from error


@dataclass(frozen=True)
class BandShift:
    """How many decisions of a kind have their nearest memory in another band by the tried bounds."""

    kind: str
    before: Band
    after: Band
    count: int


def add_routes(
    app: FastAPI,
    desk: Desk,
    chronicle: Chronicle,
    policy: Policy,
    examined: Callable[[], Awaitable[list[Diagnosis]]],
) -> None:
    answered = AnsweredPairs(chronicle)

    @app.get("/quality")
    async def quality(request: Request, looked: Annotated[QualityQuery, Query()]) -> Response:
        """Show how similar the nearest memory was, and what the threshold finds and hides."""
        grant = session_of(request).grant
        known = (await chronicle.level()).lines
        lines = [line for line in known if grant.shows(line.scope, looked.scope)]
        wanted = PairFilter(grant, looked.scope)
        pairs = [pair for pair in chronicle.pairs.values() if wanted.fits(pair)]
        samples = await answered.samples(pairs)
        rules = policy.rules(ScopeName(looked.scope)) if looked.scope else policy
        tried = looked.tried(rules.bands)
        return page(
            request,
            "quality.html",
            "Quality",
            looked=looked,
            histograms=histograms(lines),
            bins=BINS,
            tried=tried,
            moved=moved(lines, rules.bands, tried),
            table=_table(lines),
            bands=[band.value for band in Band],
            decided=len(lines),
            most=LINES_MAX,
            policy=policy,
            rules=rules,
            curve=curve(samples, rules),
            answers=len(samples),
            answers_min=ANSWERS_MIN,
        )

    @app.get("/health")
    async def health(request: Request) -> Response:
        """Tell how the parts of the process are, and what the brake has held back."""
        grant = session_of(request).grant
        own = [one for one in (await chronicle.level()).lines if grant.shows(one.scope)]
        braked = [one for one in own if one.reason is Reason.BRAKED]
        return page(
            request,
            "health.html",
            "Health",
            found=await examined(),
            now=desk.life.clock.now(),
            decided=len(own),
            braked=braked,
        )


def moved(lines: Iterable[ChronicleLine], bands: Bands, tried: Bands) -> list[BandShift]:
    """Tell which decisions were on another band by other bounds, the most first.

    What would be decided then only deciding once more can tell.
    """
    counts = Counter(
        (line.kind, bands.of(line.similarity), tried.of(line.similarity))
        for line in lines
        if line.similarity is not None
    )
    return [BandShift(*one, count) for one, count in counts.most_common() if one[1] is not one[2]]


def histograms(lines: Iterable[ChronicleLine]) -> dict[str, Counter[int]]:
    """Count by kind of decision how similar the nearest memory was."""
    by_kind = {kind: Counter[int]() for kind in KINDS}
    for line in lines:
        if line.kind in by_kind and line.similarity is not None:
            by_kind[line.kind][min(BINS - 1, int(max(0.0, line.similarity) * BINS))] += 1
    return {kind: bins for kind, bins in by_kind.items() if bins}


def _table(lines: Sequence[ChronicleLine]) -> list[tuple[str, list[int], int]]:
    """Count the decisions of each kind by the band of their nearest memory."""
    counts = Counter((line.kind, line.band) for line in lines)
    totals = Counter(line.kind for line in lines)
    return [
        (kind, [counts[kind, band] for band in Band], totals[kind])
        for kind in dict.fromkeys([*KINDS, *sorted(totals)])
        if kind in totals
    ]
