"""Policies by name or file."""

from importlib import resources
from pathlib import Path

from streams.core.policy import InvalidPolicy, Policy, parse

_POLICIES = resources.files("streams") / "policies"


def names() -> list[str]:
    """Return the policies that come with memsieve."""
    files = _POLICIES.iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load(name: str) -> Policy:
    """Return a policy that comes with memsieve, or that of a TOML file.

    Raises InvalidPolicy, naming the policy, the key and the reason.
    """
    try:
        return parse(_text(name))
    except InvalidPolicy as error:
        raise InvalidPolicy(f"policy {name}: {error}") from error


def require_model(policy: Policy, model: str) -> None:
    """Raise InvalidPolicy where the bands were made for the similarities of another model."""
    if policy.model != model:
        raise InvalidPolicy(
            f"policy {policy.name} is calibrated for {policy.model}, not for {model}: name a "
            "policy for that model with --policy"
        )


def _text(name: str) -> str:
    if name in names():
        return (_POLICIES / f"{name}.toml").read_text(encoding="utf-8")
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidPolicy(
            f"there is no such policy or file; policies here: {', '.join(names())}"
        ) from error
