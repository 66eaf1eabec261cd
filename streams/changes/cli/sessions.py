"""`memsieve memory sessions`: the decisions of each session of an agent, and the end of one."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated

import typer

from schemas.decisions import Marker
from streams.changes.app import retiring
from streams.clock.system import SystemClock
from streams.stage.core.sessions import SessionCounter, SessionCounts
from streams.store.app.client import require_decided
from streams.store.app.reading import StoreReader, read
from streams.store.app.requests import author_of
from streams.store.cli import options
from streams.store.cli.console import more, note, say, say_json, tell
from streams.store.cli.replies import heard
from streams.store.core.suggestions import alike


def list_(
    *,
    scope: options.ScopeBelow = None,
    limit: options.Limit = None,
    where: options.ReadOptions,
) -> None:
    """List the sessions with what each added, the newest last.

    With --json, each line is a record for an agent's own log of episodes. For the time that
    deciding took, see `run --metrics`.
    """
    found = read(where.to_read(), partial(_sessions, scope=scope))
    wanted = options.limit_of(limit, as_json=where.as_json)
    shown = found if wanted is None else found[-wanted:]
    if where.as_json:
        say_json(one.as_json() for one in shown)
        return
    if not found:
        note("no sessions")
        return
    say(f"{'events':>8}{'new':>8}{'known':>8}{'superseded':>12}  session", style="bold")
    for one in shown:
        say(
            f"{one.events:>8,}{one.inserted:>8,}{one.reinforced:>8,}{one.supersessions:>12,}"
            f"  {one.name or '(none named)'}"
        )
    more(len(found) - len(shown), "session", "sessions")


def end(
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="The session's name, as in the events.")
    ],
    *,
    scope: options.ScopeBelow = None,
    asking: options.ChangeOptions,
) -> None:
    """End a session: retire the ephemeral memories that it alone saw.

    A store decides at once, a cluster when its services reach the request. Memories that are
    pinned, or have changed by then, stay. Running the command again ends newer memories of the
    session.
    """
    source, wait = asking.source(), asking.wait
    who = author_of(source.settings, asking.author)
    memories = read(source, StoreReader.memories)
    here = (memory for memory in memories if options.below(memory.scope, scope))
    requests = retiring.session_over(session, here, author=who, now=SystemClock().now())
    done = heard(source, retiring.end(source, requests, wait, note))
    if not requests and (lacking := read(source, partial(_lacking, session=session, scope=scope))):
        note(lacking)
    counts = {"ended": done.ended, "stay": done.stay}
    counts |= {"asked": done.asked} if done.waiting else {}
    tell(_lines(counts), {"session": session, **counts}, as_json=asking.as_json)
    require_decided(done.waiting, wait)


async def _sessions(reader: StoreReader, scope: str | None) -> list[SessionCounts]:
    counted = SessionCounter()
    async for entry in reader.decisions():
        decision = entry.decision
        if not isinstance(decision, Marker) and options.below(decision.event.scope, scope):
            counted.add(decision)
    return counted.all()


async def _lacking(reader: StoreReader, session: str, scope: str | None) -> str | None:
    """Return one line that says that there is no such session; None if there is."""
    known = [one.name for one in await _sessions(reader, scope) if one.name is not None]
    if session in known:
        return None
    others = alike(session, known)
    return f"no session {session}" + (f"; others are: {', '.join(others)}" if others else "")


def _lines(counts: Mapping[str, int]) -> Iterator[str]:
    means = {
        "ended": "ephemeral memories of this session only",
        "stay": "pinned, or changed meanwhile",
        "asked": "requested; the services have not decided yet",
    }
    for name, count in counts.items():
        yield f"{name:<7}{count:>8,}   {means[name]}"
