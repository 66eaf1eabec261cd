"""`memsieve memory expire`: retires memories that have expired under the policy."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from streams.changes.app.retiring import Retirement, end, expiring, requests
from streams.clock.system import SystemClock
from streams.store.app import policies
from streams.store.app.client import require_decided
from streams.store.app.reading import StoreReader, read
from streams.store.app.requests import author_of
from streams.store.cli import options
from streams.store.cli.console import more, note, quoted, say, tell
from streams.store.cli.replies import heard

_WHY = {
    "expired": "its lifetime has ended",
    "unused": "unused for long",
    "harmful": "it misled more often than it helped",
}


def expire(
    *,
    scope: options.ScopeBelow = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would end.")] = False,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="The reference time. [now]")
    ] = None,
    limit: options.Limit = None,
    asking: options.ChangeOptions,
) -> None:
    """Retire memories that have expired under the policy.

    A store decides at once, a cluster when its services reach the request. Memories that are
    pinned, or seen again by then, stay. Nothing is deleted: memsieve undo restores them. Without a
    table [expiry] in the policy, no memory expires.
    """
    source, wait, as_json = asking.source(), asking.wait, asking.as_json
    now = SystemClock().now()
    then = now if at is None else options.moment("--at", at)
    rules = policies.load(source.settings.policy)
    if not rules.expires:
        note(f"policy {rules.name} has no [expiry]: nothing expires")
    memories = read(source, StoreReader.memories)
    here = (memory for memory in memories if options.below(memory.scope, scope))
    endings = expiring(here, rules, then)
    if not as_json:
        _list(endings, options.limit_of(limit, as_json=as_json))
    if dry_run:
        _tell({"would_end": len(endings)}, endings, as_json=as_json)
        return
    who = author_of(source.settings, asking.author)
    asked = requests(endings, author=who, note="memsieve memory expire", now=min(now, then))
    done = heard(source, end(source, asked, wait, note))
    counts = {"ended": done.ended, "changed_meanwhile": done.stay}
    _tell(counts | ({"asked": done.asked} if done.waiting else {}), endings, as_json=as_json)
    require_decided(done.waiting, wait)


def _list(endings: Sequence[Retirement], limit: int | None) -> None:
    for one in endings[:limit]:
        say(f"{one.memory.scope}  {one.memory.id}")
        say(f"  {quoted(one.memory.text)}")
        say(f"  {_WHY[one.reason]}; last seen {one.memory.last_seen_at:%Y-%m-%d}")
    more(len(endings) - len(endings[:limit]), "memory", "memories")


def _tell(counts: dict[str, int], endings: Sequence[Retirement], *, as_json: bool) -> None:
    found: list[dict[str, Any]] = [
        {"memory_id": one.memory.id, "scope": one.memory.scope, "reason": one.reason}
        for one in endings
    ]
    reasons = Counter(one.reason for one in endings)
    line = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())
    tell([line], {**counts, "reasons": dict(reasons), "memories": found}, as_json=as_json)
