"""Policies by name or file: reading, checking and comparing them."""

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from schemas.base import ScopeName
from streams.model.bands import Bands
from streams.model.embedding import base_model
from streams.model.policy import (
    ANY_MODEL,
    InvalidPolicy,
    Policy,
    Rules,
    dotted,
    overlaid,
    read,
)
from streams.store.app import wiring
from streams.store.app.settings import Settings
from streams.store.core.suggestions import did_you_mean
from streams.store.core.toml import as_toml, leaves

_POLICIES = resources.files("streams") / "store" / "policies"


@dataclass(frozen=True)
class ShippedPolicy:
    """A policy that comes with memsieve; `summary` is the first line of its file's comment."""

    name: str
    policy: Policy
    summary: str


@dataclass(frozen=True)
class PolicyCheck:
    """The result of checking a policy; `policy` is None if it is not valid.

    `problems` must be fixed; `warnings` name conflicts with the current settings.
    """

    name: str
    policy: Policy | None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class PolicyDifference:
    """A key on which two policies differ; a value is None if that policy lacks the key."""

    key: str
    first: object
    second: object


def names() -> list[str]:
    """Return the names of the policies that come with memsieve."""
    files = _POLICIES.iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def shipped() -> list[ShippedPolicy]:
    """Return the policies that come with memsieve, with their summaries."""
    return [ShippedPolicy(name, load(name), _summary(text(name))) for name in names()]


def load(name: str) -> Policy:
    """Return a policy that comes with memsieve, or the policy of a TOML file.

    Raises InvalidPolicy, naming the policy, the keys and the remedies.
    """
    content = _content(name)
    try:
        return read(content)
    except InvalidPolicy as error:
        raise InvalidPolicy(f"policy {name}: {error}") from error


def configured(settings: Settings) -> Policy:
    """Return the settings' policy. Raises InvalidPolicy if it is not one for their model."""
    policy = load(settings.policy)
    require_model(policy, wiring.named_model(settings.embedder))
    return policy


def text(name: str) -> str:
    """Return a policy's TOML as written. Raises InvalidPolicy if there is no such policy.

    The name may be followed by overrides of single keys: `two-threshold {bands.match = 0.97}`.
    """
    changed = _CHANGED.fullmatch(name)
    if changed is None:
        return _written(name)
    return as_toml(_content(name), [f"{changed['base']}, with {changed['changes']}"])


def _content(name: str) -> dict[str, Any]:
    """Return all that a policy says, with what it has from the one that it extends."""
    if changed := _CHANGED.fullmatch(name):
        return overlaid(_content(changed["base"]), _changes(name, changed["changes"]))
    content = _table(name, _written(name))
    base = content.pop("extends", None)
    return content if base is None else overlaid(_extended(name, base), content)


def _extended(name: str, base: object) -> dict[str, Any]:
    """Return what the policy that another extends says; it gives all but its name.

    Only what stands alone can be extended: so whoever reads two files has read all of it.
    """
    if not isinstance(base, str):
        raise InvalidPolicy(f"policy {name}: extends: name one policy, or a file next to this one")
    place = base if base in names() else str(Path(name).parent / base)
    if place == name:
        raise InvalidPolicy(f"policy {name}: extends: it cannot extend itself; name another")
    try:
        content = _table(place, _written(place))
    except InvalidPolicy as error:
        raise InvalidPolicy(f"policy {name}: extends: {error}") from error
    if (further := content.get("extends")) is not None:
        raise InvalidPolicy(
            f"policy {name}: extends: {base} extends {further} itself, and only a policy that "
            f"extends none can be extended; extend {further}, and write down what {base} changes"
        )
    return {key: value for key, value in content.items() if key != "name"}


_CHANGED = re.compile(r"(?P<base>.*?)\s*(?P<changes>\{.*\})\s*", re.DOTALL)
_ITS_OWN = ("name", "model", "calibration")
"""What identifies a policy: with another model or origin it would be another policy."""


def _changes(name: str, written: str) -> dict[str, Any]:
    """Read the overrides behind a policy's name, an inline table of TOML."""
    try:
        changes = tomllib.loads(f"changes = {written}")["changes"]
    except tomllib.TOMLDecodeError as error:
        raise InvalidPolicy(
            f"policy {name}: {written} is not an inline TOML table ({error}); write keys with their "
            "values, such as {bands.match = 0.97, judges.chain = []}"
        ) from error
    if own := [key for key in _ITS_OWN if key in changes]:
        raise InvalidPolicy(
            f"policy {name}: {own[0]} is the policy's own and cannot be changed behind its name; "
            "write a policy file"
        )
    return changes


def _table(name: str, written: str) -> dict[str, Any]:
    try:
        return tomllib.loads(written)
    except tomllib.TOMLDecodeError as error:
        raise InvalidPolicy(f"policy {name}: not TOML: {error}") from error


def _written(name: str) -> str:
    if name in names():
        return (_POLICIES / f"{name}.toml").read_text(encoding="utf-8")
    try:
        return Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidPolicy(f"policy {name}: the file is not text in UTF-8") from error
    except OSError as error:
        if "{" in name:
            raise InvalidPolicy(
                f"policy {name}: the closing }} of its keys is missing; write "
                "'NAME {bands.match = 0.97}'"
            ) from error
        raise InvalidPolicy(
            f"policy {name}: there is no such policy or file{did_you_mean(name, names())}; "
            f"policies here: {', '.join(names())}"
        ) from error


def is_for(policy: Policy, model: str) -> bool:
    """Return whether the bands were calibrated for the similarities of a model.

    Precisions of one model differ less than the bands' uncertainty, so they share policies.
    """
    return policy.model in {ANY_MODEL, base_model(model)}


def require_model(policy: Policy, model: str) -> None:
    """Raise InvalidPolicy if the bands were calibrated for another model's similarities."""
    if not is_for(policy, model):
        raise InvalidPolicy(
            f"policy {policy.name} is calibrated for {policy.model}, not for {model}: name a "
            "policy for that model with --policy"
        )


def check(name: str, settings: Settings) -> PolicyCheck:
    """Return all that is wrong with a policy, or would be with these settings."""
    try:
        policy = read(_content(name))
    except InvalidPolicy as error:
        problems = (problem.removeprefix(f"policy {name}: ") for problem in error.problems)
        return PolicyCheck(name, None, tuple(problems))
    return PolicyCheck(name, policy, warnings=tuple(dict.fromkeys(_warnings(policy, settings))))


def rules_as_toml(policy: Policy, scope: ScopeName) -> str:
    """Return the rules that are in force in a scope, as TOML."""
    return as_toml(rules_of(policy, scope), [f"{policy.id}, in scope {scope}"])


def rules_of(policy: Policy, scope: ScopeName) -> dict[str, Any]:
    """Return the rules that are in force in a scope, as JSON values."""
    return policy.rules(scope).model_dump(mode="json", include=set(Rules.model_fields))


def differences(first: Policy, second: Policy) -> list[PolicyDifference]:
    """Return the keys on which two policies differ, except for their calibration's origin."""
    ours, theirs = _flat(first), _flat(second)
    return [
        PolicyDifference(key, ours.get(key), theirs.get(key))
        for key in dict.fromkeys([*ours, *theirs])
        if ours.get(key) != theirs.get(key)
    ]


def _summary(written: str) -> str:
    return written.partition("\n")[0].removeprefix("#").strip()


def _warnings(policy: Policy, settings: Settings) -> Iterator[str]:
    model = wiring.named_model(settings.embedder)
    if not is_for(policy, model):
        yield (
            f"model: the settings embed with {model}, which this policy will "
            "refuse; set embedder.model, or calibrate a policy for that model"
        )
    if settings.llm.base_url is not None:
        return
    for where, rules in _all_rules(policy):
        if "llm" in rules.judges.chain:
            yield (
                f"{where}judges.chain names llm, but llm.base_url is not set: it will not answer; "
                "set llm.base_url and llm.model, or take it out"
            )
        if rules.merge.strategy == "llm":
            yield (
                f"{where}merge.strategy is llm, but llm.base_url is not set: its fallback, "
                f"{rules.merge.fallback}, is taken; set llm.base_url and llm.model, or another "
                "strategy"
            )


def _all_rules(policy: Policy) -> Iterator[tuple[str, Rules]]:
    yield "", policy
    for scope, overrides in policy.scopes.items():
        if overrides.keys() & {"judges", "merge"}:
            yield f"{dotted(('scopes', scope))}.", policy.rules(scope)


def _flat(policy: Policy) -> dict[str, object]:
    content = policy.model_dump(mode="json", exclude={"calibration"})
    return {dotted(path): value for path, value in leaves(content)}


def with_bands(policy: Policy, change: Callable[[Bands], Bands]) -> Policy:
    """Return a policy with its bands changed in every scope."""

    def changed(rules: Rules) -> dict[str, Any]:
        bands, nominate = change(rules.bands), rules.nominate.model_dump(mode="json")
        least = min(rules.nominate.similarity_min, bands.log)
        return {"bands": bands.model_dump(), "nominate": {**nominate, "similarity_min": least}}

    scopes = {
        scope: {**own, **changed(policy.rules(scope))} for scope, own in policy.scopes.items()
    }
    content = policy.model_dump(mode="json")
    return Policy.model_validate({**content, **changed(policy), "scopes": scopes})
