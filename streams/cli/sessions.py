"""`memsieve sessions`: what deciding came to in each session of an agent."""

import asyncio

import typer

from schemas.decisions import Marker
from streams.apps.reading import reading
from streams.cli import options
from streams.cli.console import more, note, say, say_json
from streams.core.sessions import Session, Sessions


def register(app: typer.Typer) -> None:
    app.command(name="sessions")(sessions)


def sessions(
    *,
    store: options.Store = None,
    kafka: options.Kafka = None,
    scope: options.ScopeBelow = None,
    limit: options.Limit = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Count, session by session, what was new, known and superseded; the newest come last.

    With --json each is a record for an agent's own log of episodes. How long deciding took is not
    told: decisions have no clock.
    """
    found = asyncio.run(_sessions(options.source(config, store, kafka), scope))
    wanted = options.limit_of(limit, as_json=as_json)
    shown = found if wanted is None else found[-wanted:]
    if as_json:
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
    more(len(found) - len(shown), "sessions")


async def _sessions(source: options.Source, scope: str | None) -> list[Session]:
    counted = Sessions()
    async with reading(source.settings, embedded=source.embedded) as reader:
        async for entry in reader.decisions():
            decision = entry.decision
            if not isinstance(decision, Marker) and options.below(decision.event.scope, scope):
                counted.add(decision)
    return counted.all()
