"""`memsieve service settings`: shows and checks the settings."""

from streams.store.app import policies, settings
from streams.store.cli import options
from streams.store.cli.console import say, say_object, tell


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


def check(*, config: options.Config = None, as_json: options.AsJson = False) -> None:
    """Check the settings and the policy that they name."""
    loaded = options.load(config)
    policy = policies.load(loaded.policy)
    model = loaded.embedder.model
    line = f"the settings are valid; policy {policy.id}, model {model}"
    tell([line], {"policy_id": policy.id, "model": model}, as_json=as_json)
