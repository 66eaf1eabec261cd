"""`memsieve policy`: lists, shows, checks and compares policies."""

import json
from typing import Annotated, Any

import typer

from streams.store.app import policies
from streams.store.app.policies import PolicyCheck
from streams.store.cli import options
from streams.store.cli.console import note, say, say_json, say_object

Named = Annotated[str, typer.Argument(metavar="NAME", help="A policy's name or file.")]


def list_(*, as_json: options.AsJson = False) -> None:
    """List the policies that come with memsieve."""
    shipped = policies.shipped()
    if as_json:
        say_json(
            {
                "name": one.name,
                "id": one.policy.id,
                "model": one.policy.model,
                "summary": one.summary,
            }
            for one in shipped
        )
        return
    for one in shipped:
        say(f"{one.name:<16}{one.policy.model}")
        say(f"    {one.summary}", style="dim")


def show(
    name: Named,
    *,
    scope: Annotated[
        str | None, typer.Option("--scope", help="Show the rules in force in this scope.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a policy as it is written, or as it applies to a scope."""
    policy = policies.load(name)
    place = None if scope is None else options.exact(scope)
    if as_json:
        whole = policy.model_dump(mode="json")
        say_object(
            {"id": policy.id, **whole}
            if place is None
            else {"id": policy.id, "scope": place, **policies.rules_of(policy, place)}
        )
        return
    written = policies.text(name) if place is None else policies.rules_as_toml(policy, place)
    for line in written.splitlines():
        say(line.expandtabs())


def check(
    names: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files, or names of policies.")
    ],
    *,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Check policies, and whether they fit the current settings."""
    settings = options.load(config)
    checked = [policies.check(name, settings) for name in names]
    if as_json:
        say_json(_as_json(one) for one in checked)
    else:
        for one in checked:
            _show_checked(one)
    if any(one.policy is None for one in checked):
        raise typer.Exit(2)


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A policy's name or file.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another policy's name or file.")],
    *,
    as_json: options.AsJson = False,
) -> None:
    """Show in which keys two policies differ."""
    ours, theirs = policies.load(first), policies.load(second)
    found = policies.differences(ours, theirs)
    if as_json:
        say_object(
            {
                "a": ours.id,
                "b": theirs.id,
                "differences": [{"key": one.key, "a": one.first, "b": one.second} for one in found],
            }
        )
        return
    say(f"{ours.id} → {theirs.id}")
    for one in found:
        say(f"{one.key}: {_written(one.first)} → {_written(one.second)}")
    if not found:
        note("their rules are equal")


def _as_json(one: PolicyCheck) -> dict[str, Any]:
    return {
        "policy": one.name,
        "id": None if one.policy is None else one.policy.id,
        "problems": one.problems,
        "warnings": one.warnings,
    }


def _show_checked(one: PolicyCheck) -> None:
    for problem in one.problems:
        note(f"!!  {one.name}: {problem}", style="red")
    for warning in one.warnings:
        note(f"??  {one.name}: {warning}", style="yellow")
    if one.policy is not None:
        say(f"ok  {one.name}: {one.policy.id}", style="green")


def _written(value: object) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)
