"""Consolidation of a store that kept everything: how fast, with how much memory, and how well.

Usage: python benchmarks/stores/consolidation.py [--memories N] [--graded N] [--peers] [--out FILE]

Generated facts, a hundred in each scope, are kept apart by the policy keep-both; of each fifteen
one says an earlier one of its scope in other words, of each fifty one says it with another number.
Speed: one pass over the embedded store of N memories by the policy default, without a language
model, opening it left out; vectors are given, so that only the texts of merges would be encoded.
The command has numpy keep to one core, so give this OPENBLAS_NUM_THREADS=1.
Memory: the most that the process has held by then, the making of the store included. Quality: B³
F1 of the groups against the planted ones over the first texts, with the default model's vectors.
Linkage: over the same texts, and over the locomo observations where they lie beside the project,
all pairs from a cosine on are taken for one fact, as a policy without judges does: the groups by
chains alone (union-find) and by complete linkage, with the lowest cosine inside one. --peers adds
SemHash on the texts that are graded, all in one batch with the same vectors, in the environment
that `beside_libraries.py --install` makes: it knows no scopes, and goes by the cosine alone.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.harness.deciding import START
from benchmarks.harness.embedders import default_embedder
from benchmarks.harness.material import STREAMS, Event, short_texts, write
from benchmarks.harness.measuring import Cost, Result, Watch, arguments
from benchmarks.harness.vectors import Given, of_texts
from benchmarks.throughput.beside_libraries import ENVIRONMENT, PEERS
from schemas.base import EventId, MemoryId, ScopeName
from schemas.decisions import Verdict
from schemas.events import Remember
from streams.clock.system import SystemClock
from streams.consolidate.app.consolidated import ConsolidationPass
from streams.consolidate.app.consolidating import Consolidation, ScopeSelection
from streams.consolidate.core.nominating import near_pairs
from streams.consolidate.world import Passes
from streams.lab.core.measures import BCubed, b_cubed
from streams.main.collector import search_seldom
from streams.model.embedding import Vector
from streams.model.identity import decision_id, memory_id
from streams.model.policy import Policy
from streams.model.verdict import Judgement
from streams.stage.core.consolidation import MergeCandidate, RelatedPair, cohesive, linked
from streams.stage.core.survivorship import born
from streams.store.app import policies, settings, wiring
from streams.store.app.dry_run import DecidingDependencies, DryRunClient, over
from streams.store.app.processes import StoreClient, embedded
from streams.store.app.product_settings import ConsolidateSettings
from streams.store.app.reading import LogTarget, reading
from streams.store.app.settings import Settings
from streams.store.world.files import FileSource

_IN_A_SCOPE = 100
_REPEATED, _CHANGED, _CHANGED_AT = 15, 50, 8
_WORDINGS = (
    ("Guest {n} likes the window seat of carriage {m}.", "{plain} It is booked again."),
    (
        "Customer {n} has moved to {m} Harbour Road.",
        "Customer {n} has recently moved to {m} Harbour Road.",
    ),
    (
        "Parcel {n} waits for its owner on shelf {m}.",
        "On shelf {m}, parcel {n} waits for its owner.",
    ),
    ("Bus {n} stops at the old mill at gate {m}.", "At the old mill, bus {n} stops at gate {m}."),
)
_COSINES = (0.75, 0.85, 0.90)
_ALL = ConsolidateSettings(seconds_max=3_600)


def main() -> None:
    options = _options()
    search_seldom()
    events = planted(options.memories)
    consolidated, cost, mebibytes = asyncio.run(_consolidated(events))
    graded = events[: options.graded]
    truth = _truth(graded)
    vectors = asyncio.run(_encoded([event.text for event in graded]))
    stays, graded_cost = asyncio.run(_groups(graded, vectors))
    ours = _graded(truth, stays)
    figures = {
        "seconds": cost.wall,
        "processor_seconds": cost.cpu,
        "mebibytes": mebibytes,
        "memories_per_second": len(events) / cost.wall,
        "per_processor_second": len(events) / cost.cpu,
        "groups": float(consolidated.groups),
        "graded_seconds": graded_cost.wall,
        "b_cubed_f1": ours.f1,
        "b_cubed_precision": ours.precision,
        "b_cubed_recall": ours.recall,
        **_linkages("planted", [(e.scope, e.text) for e in graded], vectors, truth),
    }
    if (STREAMS / "locomo_observations.jsonl").exists():
        texts = short_texts().texts
        figures |= _linkages(
            "locomo", [("locomo", text) for text in texts], asyncio.run(_encoded(texts)), None
        )
    if options.peers:
        figures |= _semhash(graded, vectors, truth)
    Result(
        benchmark="consolidation",
        method=str(__doc__),
        material={
            "memories": len(events),
            "scopes": len({event.scope for event in events}),
            "planted": sum(event.near is not None for event in events),
            "graded": len(graded),
        },
        figures=figures,
        packages=("qdrant-edge-py", "onnxruntime"),
    ).give(options.out)


def planted(count: int) -> list[Event]:
    """Return facts in scopes of a hundred; `near` is the fact that an event repeats or changes."""
    made: list[Event] = []
    for number in range(count):
        place = number % _IN_A_SCOPE
        is_repeat, is_change = place % _REPEATED == _REPEATED - 1, place % _CHANGED == _CHANGED_AT
        like = number - 4 if is_repeat or is_change else number
        plain, other = _WORDINGS[like % len(_WORDINGS)]
        at = like * 7 % 9_973
        known = plain.format(n=like, m=at)
        if is_repeat:
            text = other.format(n=like, m=at, plain=known)
        else:
            text = plain.format(n=like, m=at + is_change)
        near = known if is_repeat or is_change else None
        made.append(Event(f"acme/user-{number // _IN_A_SCOPE}", text, f"e-{number}", near))
    return made


def _truth(events: Sequence[Event]) -> dict[str, str]:
    """Return the fact that each text states; a changed number makes it another fact."""
    return {
        event.text: event.text
        if event.near is None or _numbers(event.text) != _numbers(event.near)
        else event.near
        for event in events
    }


def _numbers(text: str) -> list[str]:
    return sorted(
        word for word in text.replace(".", "").replace(",", "").split() if word.isdecimal()
    )


async def _consolidated(events: Sequence[Event]) -> tuple[ConsolidationPass, Cost, float]:
    """Store all events without merging, then make one consolidation pass."""
    given, policy = Given(of_texts(events)), policies.load("default")
    with tempfile.TemporaryDirectory() as directory:
        file = write(Path(directory) / "events.jsonl", events)
        chosen = settings.load({"store": Path(directory) / "store"})
        async with embedded(chosen, policies.load("keep-both"), given, print) as pipeline:
            await pipeline.run(FileSource(str(file)), None, lambda _: None)
        async with (
            embedded(chosen, policy, given, print) as pipeline,
            reading(LogTarget.of_store(chosen)) as reader,
        ):
            pipeline.judging.keep_judgements()
            client = StoreClient(pipeline, reader)
            pass_ = Consolidation(
                client, policy, pipeline.judging, _ALL, Passes(None), SystemClock()
            )
            watch = Watch()
            done = await pass_.run(ScopeSelection(now=True))
            cost = watch.lap()
    return done, cost, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _encoded(texts: Sequence[str]) -> dict[str, Vector]:
    made = await default_embedder().embed(texts)
    return {text: one.vector for text, one in zip(texts, made, strict=True)}


async def _groups(
    events: Sequence[Event], vectors: Mapping[str, Vector]
) -> tuple[dict[str, str], Cost]:
    """Consolidate in memory; return the id of the memory that represents each text, and the cost."""
    policy, stays = policies.load("default"), dict[str, str]()
    async with wiring.judging(Settings(), SystemClock()) as judging:
        means = DecidingDependencies(Given(vectors), judging, batch_records=512)
        apart = DryRunClient(policies.load("keep-both"), means)
        said = [_said(event, number) for number, event in enumerate(events)]
        await apart.submit(said)
        kept = [stored async for stored in (await apart.index()).scan()]
        client = await over(await apart.index(), policy, means)
        pass_ = Consolidation(client, policy, judging, _ALL, Passes(None), SystemClock())
        watch = Watch()
        await pass_.run(ScopeSelection(now=True))
        cost = watch.lap()
        after = {one.memory.id: one.memory async for one in (await client.index()).scan()}
    for stored in kept:
        at = after[stored.memory.id]
        while at.superseded is not None and at.superseded.by is not None:
            at = after[at.superseded.by]
        stays[stored.memory.text] = at.id
    return stays, cost


def _said(event: Event, number: int) -> Remember:
    return Remember(
        event_id=EventId(f"e-{number}"),
        scope=ScopeName(event.scope),
        text=event.text,
        occurred_at=START + timedelta(seconds=number),
    )


def _graded(truth: Mapping[str, str], found: Mapping[str, str]) -> BCubed:
    graded = b_cubed((fact, found[text]) for text, fact in truth.items())
    if graded is None:
        raise ValueError("nothing to grade")
    return graded


def _linkages(
    name: str,
    placed: Sequence[tuple[str, str]],
    vectors: Mapping[str, Vector],
    truth: Mapping[str, str] | None,
) -> dict[str, float]:
    """Group by cosine alone, by single and by complete linkage; return the figures of both."""
    figures: dict[str, float] = {}
    for cosine in _COSINES:
        for way, groups in _by_cosine(placed, vectors, cosine).items():
            at = f"{name}_{way}_at_{round(cosine * 100)}"
            figures[f"{at}_largest"] = float(max(map(len, groups), default=0))
            figures[f"{at}_removed"] = float(sum(len(group) - 1 for group in groups))
            figures[f"{at}_lowest_cosine"] = min(
                (_lowest([vectors[text] for text in group]) for group in groups), default=1.0
            )
            if truth is not None:
                found = {text: text for text in truth} | {
                    text: group[0] for group in groups for text in group
                }
                figures[f"{at}_b_cubed_f1"] = _graded(truth, found).f1
    return figures


def _by_cosine(
    placed: Sequence[tuple[str, str]], vectors: Mapping[str, Vector], cosine: float
) -> dict[str, list[list[str]]]:
    rules = _believing(cosine)
    found: dict[str, list[list[str]]] = {"chains": [], "complete": []}
    for scope in dict.fromkeys(scope for scope, _ in placed):
        members = _members([text for at, text in placed if at == scope], vectors)
        near = near_pairs(members, rules, neighbours_max=len(members))
        relations = [RelatedPair(*pair, Judgement(Verdict.UNSURE, "bands")) for pair in near]
        for way, group in (("chains", linked), ("complete", cohesive)):
            found[way] += [
                [members[one].memory.text for one in ids] for ids in group(relations, rules)
            ]
    return found


def _believing(cosine: float) -> Policy:
    """Return a policy that treats all pairs at or above a cosine as one fact."""
    content = policies.load("default").model_dump(mode="json")
    bands = {"match": cosine, "review": cosine, "log": cosine}
    acts = {"match": "merge", "review": "merge"}
    nominate = {**content["nominate"], "similarity_min": cosine}
    changed = {"bands": bands, "without_verdict": acts, "nominate": nominate}
    return Policy.model_validate({**content, **changed})


def _members(texts: Sequence[str], vectors: Mapping[str, Vector]) -> dict[MemoryId, MergeCandidate]:
    members: dict[MemoryId, MergeCandidate] = {}
    for number, text in enumerate(dict.fromkeys(texts)):
        said = _said(Event("bench/one", text), number)
        identity = memory_id(decision_id(said.scope, said.event_id))
        members[identity] = MergeCandidate(born(said, identity, truncated=False), vectors[text])
    return members


def _lowest(vectors: Sequence[Vector]) -> float:
    return min(float(a @ b) for a, b in combinations(vectors, 2))


def _semhash(
    events: Sequence[Event], vectors: Mapping[str, Vector], truth: Mapping[str, str]
) -> dict[str, float]:
    """Group the same texts with SemHash; return its time and its quality."""
    with tempfile.TemporaryDirectory() as directory:
        texts = [event.text for event in events]
        (Path(directory) / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
        np.save(Path(directory) / "vectors.npy", np.stack([vectors[text] for text in texts]))
        done = subprocess.run(  # noqa: S603 - our own script
            [str(ENVIRONMENT / "bin/python"), str(PEERS / "semhash_groups.py"), directory],
            check=True,
            capture_output=True,
            text=True,
        )
    figures: dict[str, float] = {}
    for told in json.loads(done.stdout):
        at = f"semhash_at_{round(told['threshold'] * 100)}"
        graded = _graded(truth, told["stands"])
        figures[f"{at}_seconds"] = told["seconds"]
        figures[f"{at}_b_cubed_f1"] = graded.f1
        figures[f"{at}_b_cubed_precision"] = graded.precision
    return figures


def _options() -> argparse.Namespace:
    parser = arguments(__doc__, rounds=None)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--graded", type=int, default=2_000)
    parser.add_argument("--peers", action="store_true", help="beside SemHash, which is installed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
