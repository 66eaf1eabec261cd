"""Prints the differences between two sets of decisions, for people and programs."""

from typing import Any

from schemas.decisions import Marker, Supersession
from streams.replay.core import DecisionDifference, DecisionDifferences
from streams.stage.core.explain import outcome, why
from streams.store.cli.console import quoted, say
from streams.store.cli.replies import decision_json

_TEXT_WIDTH = 100


def show(differences: DecisionDifferences) -> None:
    """Print the counts by kind before and after, and an example or more of each."""
    total, changed = differences.compared.total(), differences.changed.total()
    say(f"{total:,} events compared, {changed:,} decided otherwise")
    for (before, after), count in sorted(differences.compared.items()):
        differing = differences.changed[before, after]
        other = f", {differing:,} with another outcome" if before == after and differing else ""
        say(f"  {before:<10} -> {after:<10}{count:>9,}{other}")
    if differences.new:
        say(f"{differences.new:,} events were not decided on before")
    for examples in differences.examples.values():
        for difference in examples:
            say()
            show_one(difference)


def show_one(difference: DecisionDifference) -> None:
    """Print an event, and what was made of it in either way."""
    decision = difference.after
    if not isinstance(decision, Marker):
        say(f"{decision.event.scope}  {decision.event.event_id}", style="bold")
        say(f"  {quoted(decision.event.text, _TEXT_WIDTH)}")
    for name, made in (("before", difference.before), ("after", difference.after)):
        say(f"  {name:<7}{made.kind}: {outcome(made)}")
        say(f"         because {why(made)}", style="dim")
        if isinstance(made, Supersession):
            say(f"         it then says {quoted(made.memory.text)}")


def as_json(differences: DecisionDifferences) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "compared": differences.compared.total(),
        "changed": differences.changed.total(),
        "not_decided_before": differences.new,
        "kinds": [
            {
                "before": before,
                "after": after,
                "events": count,
                "changed": differences.changed[before, after],
            }
            for (before, after), count in sorted(differences.compared.items())
        ],
        "examples": [
            one_as_json(difference)
            for examples in differences.examples.values()
            for difference in examples
        ],
    }


def one_as_json(difference: DecisionDifference) -> dict[str, Any]:
    before, after = decision_json(difference.before), decision_json(difference.after)
    return {"before": before, "after": after}
