"""`memsieve recall`: what an agent is reminded of, as a block for its prompt."""

import asyncio
from typing import Annotated

import typer

from streams.recall.app.recalling import Asked, recalling
from streams.recall.core.patterns import SCOPES_MIN
from streams.recall.core.recall import BUDGET, LASTING_MAX, RECENT_MAX, Block
from streams.store.app.reading import LogTarget
from streams.store.cli import options
from streams.store.cli.console import note, say, say_object
from streams.store.cli.options import UsageError


def register(app: typer.Typer) -> None:
    app.command(name="recall")(recall)


def recall(
    *,
    scope: Annotated[
        str | None, typer.Option("--scope", help="The one scope whose memories are recalled.")
    ] = None,
    across: Annotated[
        str | None,
        typer.Option(
            "--across",
            metavar="PREFIX",
            help="In place of --scope: this scope and all below it. Without --query, what several "
            "of them remember in the same words.",
        ),
    ] = None,
    patterns: Annotated[
        bool,
        typer.Option(
            "--patterns",
            help=f"With --across: what {SCOPES_MIN} or more of them say in nearly the same words.",
        ),
    ] = False,
    query: Annotated[
        str | None, typer.Option("--query", help="Recall what is nearest to this, nearest first.")
    ] = None,
    budget: Annotated[
        int, typer.Option("--budget", min=1, help="Tokens that the block may have.")
    ] = BUDGET,
    lasting: Annotated[
        int,
        typer.Option("--lasting", min=0, help="How many core and permanent memories, and dangers."),
    ] = LASTING_MAX,
    recent: Annotated[
        int, typer.Option("--recent", min=0, help="How many of the others, the newest.")
    ] = RECENT_MAX,
    store: options.Store = None,
    kafka: options.Kafka = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Print the memories of a scope as a block for a prompt.

    Dangers and failures come first, what is uncertain last, below a warning. No memory is cut:
    what does not fit is left out and counted. With --query as many as --lasting and --recent
    together are shown. Tokens are those of the embedding model's tokenizer.
    """
    if (scope is None) == (across is None):
        raise UsageError("name one scope with --scope, or several with --across PREFIX")
    if patterns and (across is None or query is not None):
        raise UsageError("--patterns goes with --across PREFIX, and without --query")
    given = {
        "scope": scope if across is None else across.removesuffix("/"),
        "across": across is not None,
        "patterns": patterns,
        "query": query,
        "budget": budget,
        "lasting": lasting,
        "recent": recent,
    }
    asked = options.asked(Asked, given, {} if across is None else {"scope": "--across"})
    block = asyncio.run(_recall(options.source(config, store, kafka), asked))
    if not block.text:
        raise UsageError(
            f"--budget {budget}: without a single memory the block takes {block.tokens_min} tokens"
        )
    if as_json:
        say_object({**asked.model_dump(mode="json"), **block.as_json()})
        return
    for line in block.text.split("\n"):
        say(line)


async def _recall(source: LogTarget, asked: Asked) -> Block:
    async with recalling(source, report=note) as recaller:
        return await recaller.recall(asked)
