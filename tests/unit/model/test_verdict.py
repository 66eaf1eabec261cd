import pytest

from schemas.decisions import Band, Verdict
from streams.model.neighbours import Neighbour
from streams.model.verdict import Judgement, by_sentences
from tests.builders import event, memory

GRAPES = "Ana likes green grapes."
BOTH = "Ana likes green grapes. Ben plays chess."


@pytest.mark.parametrize(
    ("said", "known", "judgement"),
    [
        (GRAPES, "ana LIKES  green grapes", Judgement(Verdict.SAME, "sentences")),
        ("Ben plays chess. Ana likes green grapes.", BOTH, Judgement(Verdict.SAME, "sentences")),
        (GRAPES, BOTH, Judgement(Verdict.REFINED_BY, "sentences")),
        (BOTH, GRAPES, Judgement(Verdict.REFINES, "sentences")),
        (GRAPES, "Ana enjoys green grapes.", None),
        (GRAPES, "Does Ana like green grapes?", None),
        (GRAPES, "Ana likes green grapes?", None),
        (GRAPES, "Ana hardly likes green grapes.", None),
    ],
)
@pytest.mark.parametrize("band", [Band.MATCH, Band.REVIEW])
def test_near_pairs_are_settled_by_their_sentences(
    said: str, known: str, judgement: Judgement | None, band: Band
) -> None:
    assert by_sentences(event(said), Neighbour(memory(known), 0.9, band)) == judgement


@pytest.mark.covers("S0.11")
@pytest.mark.parametrize("band", [Band.LOG, Band.NONE])
@pytest.mark.parametrize("known", ["Ana enjoys green grapes.", BOTH])
def test_pairs_that_are_not_near_are_distinct(known: str, band: Band) -> None:
    near = Neighbour(memory(known), 0.7, band)
    assert by_sentences(event(GRAPES), near) == Judgement(Verdict.DISTINCT, "bands")
