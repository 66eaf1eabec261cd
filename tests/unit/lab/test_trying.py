import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from schemas.events import Remember
from streams.lab.app import trying
from streams.lab.app.labelled import LabelledPair
from streams.lab.core.trial import ComparedPair, Fate
from streams.model.embedding import TextVector
from streams.model.policy import Policy
from streams.stage.core.mapping import FieldMapping
from streams.store.app.dry_run import DecidingDependencies
from streams.store.world.files import FileSource
from tests.builders import at_cosine, event, judging, policy, unit
from tests.fakes.clock import StandingClock
from tests.fakes.sentences import SentenceEmbedder

BEES, HIVES, BOATS = "Ana keeps bees.", "Ana keeps some bees.", "Ana builds boats."
VECTORS = {BEES: unit(1), HIVES: at_cosine(0.96), BOATS: at_cosine(0.1)}


class CountingEmbedder(SentenceEmbedder):
    """Counts how often each text was embedded."""

    def __init__(self) -> None:
        super().__init__(VECTORS, characters_max=500)
        self.embedded = Counter[str]()

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        self.embedded.update(texts)
        return await super().embed(texts)


def joining() -> Policy:
    return policy(name="joining", without_verdict={"match": "reinforce", "review": "keep-both"})


def keeping() -> Policy:
    return policy(name="keeping", without_verdict={"match": "keep-both", "review": "keep-both"})


def means(embedder: SentenceEmbedder) -> DecidingDependencies:
    return DecidingDependencies(embedder, judging(), batch_records=2)


def file(path: Path, *texts: str) -> tuple[FileSource, FieldMapping | None]:
    rows = ({"text": text, "scope": "acme/ana"} for text in texts)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return FileSource(str(path)), FieldMapping()


async def test_each_policy_decides_on_every_row_and_no_text_is_embedded_twice() -> None:
    embedder = CountingEmbedder()
    said = [event(text) for text in (BEES, HIVES, BOATS)]
    progress: list[int] = []
    tried = await trying.decided(
        said,
        {"joining": joining(), "keeping": keeping()},
        means(embedder),
        done=progress.append,
    )
    assert [(one.name, one.fates[Fate.JOINED], one.memories) for one in tried] == [
        ("joining", 1, 2),
        ("keeping", 0, 3),
    ]
    assert set(embedder.embedded.values()) == {1}
    assert progress == [2, 2, 1, 1]


def test_rows_beyond_the_limit_are_left_and_told(tmp_path: Path) -> None:
    first = file(tmp_path / "one.jsonl", BEES, HIVES)
    second = file(tmp_path / "two.jsonl", BOATS)
    for limit, rows, more in ((1, 1, True), (2, 2, True), (3, 3, False)):
        taken = trying.take([first, second], limit, StandingClock())
        assert (taken.rows, taken.more) == (rows, more)
    assert [one.text for one in taken.events if isinstance(one, Remember)] == [BEES, HIVES, BOATS]


def test_a_row_that_cannot_be_used_is_named_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"text": "{BEES}", "scope": "*"}}\n{{\n{{"scope": "a"}}\n', "utf-8")
    taken = trying.take([(FileSource(str(path)), FieldMapping())], 10, StandingClock())
    assert taken.events == []
    wildcard, broken, textless = taken.refused
    assert wildcard.startswith(f"{path}:1: scope holds the wildcard *")
    assert broken.startswith(f"{path}:2: not JSON")
    assert textless.startswith(f"{path}:3: column text is missing")


def answers(**labels: str) -> list[LabelledPair]:
    texts = {"bees": (HIVES, BEES), "boats": (BOATS, BEES)}
    given = {ComparedPair("acme/ana", *texts[name], 0.0): label for name, label in labels.items()}
    return trying.labelled_pairs(given)


async def test_a_policy_agrees_with_the_answers_that_it_decides_by() -> None:
    given = answers(bees="same", boats="distinct")
    for one, count in ((joining(), 2), (keeping(), 1)):
        agreed = await trying.agreement(given, one, means(CountingEmbedder()))
        assert (agreed.count, agreed.of) == (count, 2)


def test_few_answers_prove_no_rate_and_many_a_low_one() -> None:
    pairs = [
        ComparedPair("acme/ana", f"Box {n} is full.", "Box 7 is empty.", 0.0) for n in range(400)
    ]
    few, many = (trying.labelled_pairs(dict.fromkeys(pairs[:n], "distinct")) for n in (3, 400))
    assert trying.provable(few) is None
    least = trying.provable(many)
    assert least is not None
    assert 0.01 < least < 0.03
