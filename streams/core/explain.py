"""A decision in plain words, for a person who has not read the code."""

from collections.abc import Mapping

from schemas.base import MemoryId
from schemas.decisions import (
    Band,
    Compared,
    Decision,
    Forward,
    Ignore,
    Insert,
    Marker,
    Merge,
    Reason,
    Reinforce,
    Reject,
    Replace,
    Verdict,
)
from streams.core.policy import Policy

_WHY = {
    Reason.NOTHING_NEAR: "no memory of this scope is similar",
    Reason.DISTINCT: "the nearest memory is related at most, by the policy's bands",
    Reason.UNSURE: "a memory is similar, but no judge could tell whether it says the same; "
    "in doubt both are kept",
    Reason.TRUNCATED: "a memory is similar, but the model did not read the whole of a text; "
    "nothing is merged on a part, both are kept",
    Reason.TOO_LONG_TO_MERGE: "a memory is nearly identical, but together they would be longer "
    "than the policy allows; both are kept",
    Reason.CANNOT_BE_JOINED: "a memory is nearly identical, but in one text their sentences could no "
    "longer be told apart; both are kept",
    Reason.OLDER_CONTRADICTION: "a newer memory contradicts it; it is kept as history",
    Reason.SAME_MEMORY_ID: "its producer addressed this memory by name",
    Reason.SAME_CONTENT: "the same words are known in this scope",
    Reason.SAME_FACT: "a memory says the same",
    Reason.KNOWN_IN_FULL: "a memory already says all of it",
    Reason.ADDS_TO_KNOWN: "it says all of what is known, and more",
    Reason.NEARLY_IDENTICAL: "it is nearly identical to what is known; every sentence of both is "
    "kept",
    Reason.NEWER_CONTRADICTION: "it contradicts an older memory and is newer",
    Reason.SAME_EVENT: "this event was decided before",
}

_BAND = {
    Band.MATCH: "nearly identical",
    Band.REVIEW: "similar",
    Band.LOG: "related",
    Band.NONE: "far",
}

_VERDICT = {
    Verdict.SAME: "says the same",
    Verdict.REFINES: "is said in full by the event, which adds to it",
    Verdict.REFINED_BY: "says all that the event says",
    Verdict.CONTRADICTS: "contradicts it",
    Verdict.DISTINCT: "is another fact",
    Verdict.UNSURE: "whether it says the same is not settled",
}


def why(decision: Decision) -> str:
    """Return the reason in one clause."""
    if isinstance(decision, Reject):
        return f"the record cannot be used; it is dead letter {decision.dead_letter_id}"
    if isinstance(decision, Forward):
        return f"scope {decision.scope} belongs into partition {decision.partition}"
    return _WHY[decision.evidence.reason]


def outcome(decision: Decision) -> str:
    """Return in one sentence what the decision does."""
    match decision:
        case Insert():
            return f"kept as the new memory {decision.memory.id}"
        case Replace():
            retired = [t.memory_id for t in decision.targets if t.memory_id != decision.memory.id]
            if not retired:
                return f"memory {decision.memory.id} now says this"
            return f"the new memory {decision.memory.id} takes the place of {', '.join(retired)}"
        case Merge():
            targets = ", ".join(target.memory_id for target in decision.targets)
            return f"merged with {targets} into the new memory {decision.memory.id}"
        case Reinforce():
            times = decision.memory.observation_count
            return f"memory {decision.memory.id} was seen once more, {times} times by now"
        case Forward():
            return f"published anew in partition {decision.partition}, to be decided there"
        case Ignore() | Reject():
            return "nothing changed"


def explain(
    decision: Decision, texts: Mapping[tuple[MemoryId, int], str], policy: Policy | None
) -> list[str]:
    """Return the story of a decision, line by line.

    `texts` gives the texts of the memories concerned, by id and version; `policy` is the one
    decided by, if known.
    """
    at = decision.source
    lines = [f"decision   {decision.decision_id}"]
    if isinstance(decision, Marker):
        return [
            *lines,
            f"{decision.kind}: {why(decision)}",
            f"event from {at.topic}/{at.partition}/{at.offset}",
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
        lines += ["", f'the memory now says  "{decision.memory.text}"', *_proof(decision)]
    if isinstance(decision, Replace):
        lines += _before(decision, texts)
    lines += ["", *_compared(decision.evidence.neighbours, texts)]
    if decision.evidence.truncated:
        lines.append("the model read only the beginning of the text.")
    if decision.evidence.degraded:
        lines.append(f"did not answer: {', '.join(decision.evidence.degraded)}.")
    return [*lines, "", *_policy(decision.policy_id, policy)]


def _before(decision: Replace, texts: Mapping[tuple[MemoryId, int], str]) -> list[str]:
    seen = [(target.memory_id, target.version) for target in decision.targets]
    return [f'before, {target[0]} said  "{texts[target]}"' for target in seen if target in texts]


def _proof(decision: Merge) -> list[str]:
    proof = decision.evidence.merge
    if proof is None:
        return []
    return [
        f'  "{sentence}" from {"the event" if origin == decision.event.event_id else origin}'
        for sentence, origin in zip(proof.sentences, proof.origins, strict=True)
    ]


def _compared(
    neighbours: tuple[Compared, ...], texts: Mapping[tuple[MemoryId, int], str]
) -> list[str]:
    if not neighbours:
        return ["it was compared with no memory."]
    lines = ["compared with, nearest first:"]
    for near in neighbours:
        text = texts.get((near.memory_id, near.version), "its text is not in the log")
        lines += [
            f"  {near.similarity:.3f}  {near.band.value:<6}  {near.memory_id}",
            f'         "{text}"',
            f"         {_BAND[near.band]}; {_VERDICT[near.verdict]} ({near.judge})",
        ]
    return lines


def _policy(policy_id: str, policy: Policy | None) -> list[str]:
    if policy is None:
        return [f"policy {policy_id}"]
    bands = policy.bands
    unsettled = policy.without_verdict
    line = (
        f"policy {policy_id}: match from {bands.match}, review from {bands.review}, "
        f"log from {bands.log}; where no judge settles it, a match is {_RULE[unsettled.match]}, "
        f"a review {_RULE[unsettled.review]}"
    )
    return [line]


_RULE = {"merge": "merged", "keep-both": "kept beside the other"}
