"""A decision explained in plain words, for a person who has not read the code."""

from collections.abc import Mapping, Sequence

from schemas.base import MemoryId
from schemas.decisions import (
    Band,
    Block,
    Compared,
    Decision,
    Erase,
    Finding,
    Forward,
    Ignore,
    Insert,
    Marker,
    Merge,
    OnEvent,
    Reason,
    Reinforce,
    Reject,
    Replace,
    Revise,
    Verdict,
)
from schemas.events import Answer, Remember, Retire
from schemas.memories import Memory, Standing
from streams.model.identity import update_id
from streams.model.policy import Act, Policy, Rules
from streams.model.verdict import FEW_WORDS, FOREIGN, of_one_memory
from streams.model.wordings import other_than_shown
from streams.text.guards.registry import may_be_of_two
from streams.text.judge.weighing import ONE_MEMORY

DECIDED_BEFORE = "this event was decided before"
NOTHING_CHANGED = "nothing changed"

_WHY = {
    Reason.NOTHING_NEAR: "no memory of this scope is similar",
    Reason.DISTINCT: "the closest memories state different facts",
    Reason.UNSURE: "a memory is similar, but not surely the same fact; both are kept",
    Reason.KEPT_FOR_REVIEW: "a memory is similar, and a reviewer decides what they are to each "
    "other; until then both are kept",
    Reason.CONTRADICTS_KNOWN: "it contradicts a memory, but does not replace it; both are kept",
    Reason.BRAKED: "it would have replaced a memory, but too many were replaced or merged "
    "recently: the brake is on, and both are kept",
    Reason.SWITCHED_OFF: "its scope is not deduplicated",
    Reason.TRUNCATED: "a memory is similar, but the model read only part of a text; both are kept",
    Reason.UNCHECKED: "it could not be compared, and the policy does not let it wait; the next "
    "consolidation makes up for that",
    Reason.OLDER_CONTRADICTION: "a newer memory contradicts it; it is kept as history",
    Reason.SAME_MEMORY_ID: "the event carried this memory's id",
    Reason.SAME_CONTENT: "a memory of this scope has the same words",
    Reason.SAME_FACT: "a memory states the same fact",
    Reason.KNOWN_IN_FULL: "a memory already states all of it",
    Reason.ADDS_TO_KNOWN: "it states all that a memory states, and more",
    Reason.OVERLAPS_KNOWN: "it and a memory state one fact, each with its own details",
    Reason.NEARLY_IDENTICAL: "it is nearly identical to a memory; both wordings are kept",
    Reason.BETTER_THAN_KNOWN: "the policy's quality rule prefers it to the memory",
    Reason.NO_BETTER_THAN_KNOWN: "the policy's quality rule prefers the memory",
    Reason.SUPERSEDES_BY_NAME: "the event named the memories that it replaces",
    Reason.ENDED: "a request retired it",
    Reason.PINNED: "a request pinned it",
    Reason.UNPINNED: "a request unpinned it",
    Reason.RATED: "feedback was recorded: how often it was read, helped or misled",
    Reason.UNDONE: "an earlier decision was undone",
    Reason.ONE_FACT: "each of them states the same fact, or part of it",
    Reason.NOT_ONE_FACT: "they were proposed as one fact, but no two of them were confirmed, "
    "or fit into one text",
    Reason.EMBEDDED: "it was stored without a vector of its text, and has one now",
    Reason.CHECKED: "it was stored unchecked, and was compared with the others since",
    Reason.OUT_OF_DATE: "the memory has changed since the request, or is pinned",
    Reason.FORGOTTEN: "a request to forget covers it",
    Reason.NOTHING_TO_CHANGE: "there was nothing to change",
    Reason.NEWER_CONTRADICTION: "it contradicts an older memory and is newer",
    Reason.SAME_EVENT: DECIDED_BEFORE,
}

_BAND = {
    Band.MATCH: "nearly identical",
    Band.REVIEW: "similar",
    Band.LOG: "related",
    Band.NONE: "far",
}

_VERDICT = {
    Verdict.SAME: "says the same",
    Verdict.REFINES: "is stated in full by the event, which adds to it",
    Verdict.REFINED_BY: "states all that the event states",
    Verdict.OVERLAPS: "states the same fact, each with its own details",
    Verdict.CONTRADICTS: "contradicts it",
    Verdict.DISTINCT: "states a different fact",
    Verdict.UNSURE: "may state the same fact",
}


def why(decision: Decision) -> str:
    """Return the reason for a decision as one clause."""
    if isinstance(decision, Reject):
        return f"the record cannot be used; it is dead letter {decision.dead_letter_id}"
    if isinstance(decision, Block) and decision.memory_id is None:
        return f"it contains what the policy excludes: {', '.join(decision.found)}"
    if isinstance(decision, Block):
        return f"it says what memory {decision.memory_id} said, and that is forgotten"
    if isinstance(decision, Forward):
        return f"scope {decision.scope} belongs to partition {decision.partition}"
    if isinstance(decision.event, Answer):
        return _answered(decision.event, decision.evidence.reason)
    if isinstance(decision, Insert) and decision.evidence.reason is Reason.SAME_MEMORY_ID:
        return "the memory that it names was seen since; it is kept as history"
    if decision.evidence.reason is Reason.NOTHING_NEAR and decision.evidence.refused:
        return "its event asks to replace memories, and is compared with none"
    if isinstance(decision.event, Retire) and _all_pinned(refused := decision.evidence.refused):
        several = f"all {len(refused):,} memories are pinned; unpin them first"
        return several if len(refused) > 1 else "the memory is pinned; unpin it first"
    return _WHY[decision.evidence.reason] + _sure(decision)


def _all_pinned(refused: Sequence[str]) -> bool:
    return bool(refused) and all(one.endswith(": pinned") for one in refused)


def _answered(event: Answer, reason: Reason) -> str:
    """Return who answered what about two memories, or updated one, and whether it came too late."""
    late = ", but the memories have changed since" if reason is Reason.ANSWERED_TOO_LATE else ""
    if event.event_id == update_id(
        event.review_id, event.verdict, event.newer.memory_id, event.author
    ):
        return f"{event.author} asked for this update{late}"
    return f"{event.author} said that {_ANSWER[event.verdict]}{late}"


_ANSWER: Mapping[str, str] = {
    "same": "both say the same",
    "refines": "the newer says more",
    "refined-by": "the older says more",
    "contradicts": "the newer contradicts the older",
    "distinct": "they state different facts",
}


def _sure(decision: OnEvent) -> str:
    """Return how sure a judge was of the joined memory; empty if it gave no probability."""
    if decision.evidence.reason not in _BY_JUDGES:
        return ""
    joined = (near for near in decision.evidence.neighbours if near.verdict in ONE_MEMORY)
    near = next(joined, None)
    if near is None or near.probabilities is None:
        return ""
    return f", {of_one_memory(near.probabilities):.0%} sure; both wordings are kept"


_BY_JUDGES = frozenset(
    {Reason.SAME_FACT, Reason.KNOWN_IN_FULL, Reason.ADDS_TO_KNOWN, Reason.OVERLAPS_KNOWN}
)


def outcome(decision: Decision) -> str:
    """Return what the decision does as one clause."""
    match decision:
        case Insert():
            return f"kept as the new memory {decision.memory.id}"
        case Replace():
            retired = [t.memory_id for t in decision.targets if t.memory_id != decision.memory.id]
            if not retired:
                return f"memory {decision.memory.id} now says this"
            new = "the new " if len(retired) == len(decision.targets) else ""
            return f"{new}memory {decision.memory.id} replaces {', '.join(retired)}"
        case Merge():
            targets = ", ".join(target.memory_id for target in decision.targets)
            return f"merged with {targets} into the new memory {decision.memory.id}"
        case Reinforce():
            times = decision.memory.observation_count
            return f"memory {decision.memory.id} was seen once more, {times} times in total"
        case Revise(event=Answer()):
            return f"memories {' and '.join(one.memory.id for one in decision.memories)} both stay"
        case Revise() | Erase():
            return "; ".join(_revised(one.memory) for one in decision.memories)
        case Forward():
            return f"republished to partition {decision.partition}, to be decided there"
        case Ignore() | Reject() | Block():
            return NOTHING_CHANGED


def _revised(memory: Memory) -> str:
    """Return what happened to a memory."""
    if memory.status is Standing.FORGOTTEN:
        done = "is forgotten" if memory.metadata else "is decided on again"
        return f"memory {memory.id} {done}"
    if memory.superseded is not None:
        return f"memory {memory.id} is retired: {memory.superseded.reason}"
    return f"memory {memory.id} is at version {memory.version}"


def explain(
    decision: Decision,
    versions: Mapping[tuple[MemoryId, int], Memory],
    policy: Policy | None,
    answers: Sequence[Replace] = (),
) -> list[str]:
    """Return the explanation of a decision, line by line.

    `versions` maps id and version to the memories concerned; `policy` is the policy that the
    decision was made by, if known. `answers` are people's, by which what the event asked to replace
    was replaced.
    """
    lines = [f"decision   {decision.decision_id}"]
    if isinstance(decision, Marker):
        return [
            *lines,
            f"{decision.kind}: {why(decision)}",
            f"event from {decision.source.place}",
        ]
    event = decision.event
    lines += [
        f"event      {event.event_id}",
        f"scope      {event.scope}",
        f"happened   {event.occurred_at:%Y-%m-%d %H:%M:%S} UTC",
        f'it says    "{event.text}"',
        "",
        f"{decision.kind}: {outcome(decision)}",
        f"because {why(decision)}.",
    ]
    if isinstance(decision, Merge):
        lines += ["", f'the memory now says  "{decision.memory.text}"', *_sentences(decision)]
    if isinstance(decision, Replace):
        lines += _before(decision, versions)
    lines += ["", *_compared(decision.evidence.neighbours, versions)]
    if decision.evidence.truncated:
        lines.append("the model read only the beginning of the text.")
    if decision.evidence.masked:
        lines.append(f"masked: {', '.join(decision.evidence.masked)}.")
    asks = isinstance(event, Remember) and event.supersedes
    kept = "it asks to replace" if asks else "not retired:"
    lines += [f"{kept} {refused}." for refused in decision.evidence.refused]
    lines += [f"then {why(one)}: {outcome(one)} (decision {one.decision_id})." for one in answers]
    lines += [f"asked: memsieve reviews show {review}" for review in decision.evidence.reviews]
    if decision.evidence.degraded:
        lines.append(f"did not answer: {', '.join(decision.evidence.degraded)}.")
    rules = None if policy is None else policy.rules(event.scope)
    if rules is not None:
        lines += _missing(decision.evidence.neighbours, rules)
        if decision.evidence.reason is Reason.CONTRADICTS_KNOWN:
            lines += _not_replaced(decision.evidence.neighbours, versions, rules)
    return [*lines, "", _policy(decision.policy_id, rules)]


def _before(decision: Replace, versions: Mapping[tuple[MemoryId, int], Memory]) -> list[str]:
    seen = [(target.memory_id, target.version) for target in decision.targets]
    return [f'before, {one[0]} said  "{versions[one].text}"' for one in seen if one in versions]


def _sentences(decision: Merge) -> list[str]:
    made = decision.evidence.merge
    if made is None:
        return []
    return [
        f'  "{sentence}" from {"the event" if origin == decision.event.event_id else origin}'
        for sentence, origin in zip(made.sentences, made.origins, strict=True)
    ]


def _compared(
    neighbours: tuple[Compared, ...], versions: Mapping[tuple[MemoryId, int], Memory]
) -> list[str]:
    if not neighbours:
        return ["it was compared with no memory."]
    lines = ["compared with, nearest first:"]
    for near in neighbours:
        memory = versions.get((near.memory_id, near.version))
        text = "its text is not in the log" if memory is None else memory.text
        wording = None if memory is None else other_than_shown(memory, near.wording)
        lines += [
            f"  {near.similarity:.3f}  {near.band.value:<6}  {near.memory_id}",
            f'         "{text}"',
            *([] if wording is None else [f'         closest is its wording "{wording}"']),
            *(f"         {line}" for line in opinions(near)),
        ]
    return lines


def _missing(neighbours: tuple[Compared, ...], rules: Rules) -> list[str]:
    """Return what kept the likeliest pairs from being one memory, and from being in conflict.

    That is how far they were from `one_memory_min` and `contradicts_min`, if close, or that both
    texts are negated, the only case in which a pair above `one_memory_min` stays unsure.
    """
    judges = rules.judges
    told = [
        (near.verdict, near.probabilities)
        for near in neighbours
        if near.probabilities is not None and near.verdict not in ONE_MEMORY
    ]
    one = max((of_one_memory(given) for _, given in told), default=0.0)
    unmarked = [given for verdict, given in told if verdict is not Verdict.CONTRADICTS]
    other = max((given.get(Verdict.CONTRADICTS, 0.0) for given in unmarked), default=0.0)
    lines = [
        (one, "kept apart", "one memory", "one_memory_min", judges.one_memory_min),
        (other, "not in conflict", "a contradiction", "contradicts_min", judges.contradicts_min),
    ]
    denied = any(
        verdict is Verdict.UNSURE and of_one_memory(given) >= judges.one_memory_min
        for verdict, given in told
    )
    return [
        *(["kept apart: both are negated, and which says more is in doubt."] if denied else []),
        *(
            f"{so}: {sure:.1%} sure of {what}, judges.{name} is {least:.1%}."
            for sure, so, what, name, least in lines
            if RATHER_ONE <= sure < least
        ),
    ]


def _not_replaced(
    neighbours: tuple[Compared, ...],
    versions: Mapping[tuple[MemoryId, int], Memory],
    rules: Rules,
) -> list[str]:
    """Return why the event replaces none of the memories that it contradicts, a line for each."""
    if rules.with_verdict.contradicts == "keep-both":
        return ["not replaced: with_verdict.contradicts is keep-both."]
    contradicted = (near for near in neighbours if near.verdict is Verdict.CONTRADICTS)
    return [
        f"not replaced: {near.memory_id}, "
        f"{_kept_because(near, versions.get((near.memory_id, near.version)), rules)}."
        for near in contradicted
    ]


def _kept_because(near: Compared, memory: Memory | None, rules: Rules) -> str:
    """Return what kept a contradicted memory from being replaced."""
    if memory is not None and memory.pinned:
        return "it is pinned"
    for finding in near.findings:
        if may_be_of_two([finding]):
            return f"another {finding.what} may name another thing"
    least = rules.judges.supersede_min
    sure = None if near.probabilities is None else near.probabilities.get(Verdict.CONTRADICTS, 0.0)
    if sure is not None and sure < least:
        return f"{sure:.1%} sure of a contradiction, judges.supersede_min is {least:.1%}"
    return "the event's time is unlikely, so neither is the newer"


def opinions(near: Compared) -> list[str]:
    """Return a neighbour's assessment: its band and verdict, guard findings and probabilities."""
    return [
        f"{_BAND[near.band]}; {_verdict(near)} ({_UNASKED.get(near.judge, near.judge)})",
        *_language(near),
        *(_objection(finding) for finding in near.findings),
        *_likelihood(near),
    ]


_UNASKED = {FEW_WORDS: "they share too few words to ask a judge"}


def _verdict(near: Compared) -> str:
    """Return a verdict in words; of an unsure one, what it leans to."""
    told = near.probabilities or {}
    contradicts = told.get(Verdict.CONTRADICTS, 0.0)
    if near.verdict is Verdict.UNSURE and contradicts > of_one_memory(told):
        return "may contradict it"
    return _VERDICT[near.verdict]


def _language(near: Compared) -> list[str]:
    """Return that the texts are not in English, if therefore nobody settled the pair."""
    if not near.judge.startswith(FOREIGN):
        return []
    language = near.judge.removeprefix(FOREIGN)
    return [f"not in English ({language}): only equal sentences, values and names are compared"]


def _objection(finding: Finding) -> str:
    """Return a guard's finding as one line."""
    if finding.outcome == "cannot-tell":
        return f"guard {finding.guard} cannot tell: {finding.what}"
    said = f'"{finding.event_says}"' if finding.event_says else "nothing of it"
    known = f'"{finding.memory_says}"' if finding.memory_says else "nothing of it"
    return f"guard {finding.guard}: another {finding.what}; event {said}, memory {known}"


def _likelihood(near: Compared) -> list[str]:
    """Return the judge's probability of each verdict, likeliest first."""
    if near.probabilities is None:
        return []
    ranked = sorted(near.probabilities.items(), key=lambda one: -one[1])
    told = ", ".join(f"{verdict.value} {p:.0%}" for verdict, p in ranked if p >= _SHOWN_MIN)
    return [f"{near.judge} gives: {told}"]


def _policy(policy_id: str, rules: Rules | None) -> str:
    if rules is None:
        return f"policy {policy_id}"
    bands, unsettled = rules.bands, rules.without_verdict
    judges = ", then ".join(rules.judges.chain) or "nobody"
    return (
        f"policy {policy_id}: match from {bands.match}, review from {bands.review}, "
        f"log from {bands.log}; {judges} is asked; if that settles nothing, a match is "
        f"{_ACT[unsettled.match]}, a review {_ACT[unsettled.review]}"
    )


_ACT: Mapping[Act, str] = {
    "reinforce": "counted as seen again",
    "replace": "replaced by the newer",
    "keep-better": "decided by quality",
    "merge": "merged",
    "keep-both": "kept as well",
    "review": "kept, and a reviewer is asked",
}
_SHOWN_MIN = 0.005
RATHER_ONE = 0.5
"""How sure of one memory a judge that keeps two apart is when that is worth telling."""
