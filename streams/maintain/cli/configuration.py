"""Commands about the settings, and whether everything is in order."""

import asyncio
from dataclasses import asdict

import typer

from streams.maintain.app import diagnosis
from streams.store.app import policies, settings
from streams.store.cli import options
from streams.store.cli.console import note, say, say_json, say_object

_config = typer.Typer(help="Show the settings.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(_config, name="config")
    app.command(name="doctor")(doctor)


@_config.command()
def show(*, config: options.Config = None, as_json: options.AsJson = False) -> None:
    """Show every setting in force; secrets are masked."""
    values = settings.listing(options.load(config))
    if as_json:
        say_object(values)
        return
    purposes = settings.descriptions()
    for name, value in values.items():
        say(f"{name} = {'unset' if value is None else value}")
        say(f"    {purposes[name]}", style="dim")


@_config.command()
def check(*, config: options.Config = None) -> None:
    """Check the settings and the policy that they name."""
    loaded = options.load(config)
    policy = policies.load(loaded.policy)
    say(f"the settings are valid; policy {policy.id}, model {loaded.embedder.model}")


def doctor(
    *,
    store: options.Store = None,
    kafka: options.Kafka = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Check model, policy, log and index, and say what to do."""
    source = options.source(config, store, kafka)
    findings = asyncio.run(diagnosis.examine(source))
    if as_json:
        say_json(asdict(finding) for finding in findings)
    else:
        for finding in findings:
            mark, style = ("ok", "green") if finding.healthy else ("!!", "red")
            say(f"{mark}  {finding.subject:<8}{finding.fact}", style=style)
    if not all(finding.healthy for finding in findings):
        note("something needs attention", style="red")
        raise typer.Exit(3)
