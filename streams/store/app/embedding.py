"""The choice of a store's embedding model, which the store then keeps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from streams.model.embedding import base_model
from streams.model.policy import Policy
from streams.model.ports.failures import NoModel, Unreachable
from streams.model.ports.models import Embedder
from streams.store.app import policies, wiring
from streams.store.app.reading import LogTarget
from streams.store.app.setting_groups import EmbedderSettings
from streams.store.app.settings import Settings
from streams.store.world.store_directory import StoreDirectory


@dataclass(frozen=True)
class ChosenModel:
    """The settings of one model, with its policy and embedder."""

    settings: Settings
    policy: Policy
    embedder: Embedder


def of_store(settings: Settings) -> Settings:
    """Return the settings with one model: the one of theirs that their store was made with.

    The first model if there is no store or it was made with another model; opening the store then
    reports the difference.
    """
    made = StoreDirectory(settings.store).manifest()
    models = list(_models(settings.embedder))
    kept = None if made is None else base_model(made.model)
    found = next((one for one in models if wiring.base_model_of(one) == kept), models[0])
    return _with(settings, found)


def settings_of(target: LogTarget) -> Settings:
    """Return the settings with the one model that an existing log is read with."""
    return of_store(target.settings) if target.embedded else target.settings


def for_store(settings: Settings, report: Callable[[str], None]) -> ChosenModel:
    """Return the model, policy and embedder that the settings' store is or will be written with.

    A new store gets the first available model; an existing one keeps its own. `report` receives
    every choice other than the first. Raises NoModel, Unreachable, NoServer or InvalidPolicy.
    """
    first = of_store(settings)
    policies.configured(first)  # before any download
    is_new = StoreDirectory(settings.store).manifest() is None
    with_model, embedder = _first(settings, report) if is_new else _kept(first, report)
    policy = policies.load(with_model.policy)
    policies.require_model(policy, embedder.model)
    if with_model.policy != settings.policy:
        report(f"the policy for {embedder.model} is {with_model.policy}, not {settings.policy}")
    return ChosenModel(with_model, policy, embedder)


def chosen_for(target: LogTarget, report: Callable[[str], None]) -> ChosenModel:
    """Return the model, policy and embedder that an existing log is written with.

    Raises NoStore if there is no store, and else as `for_store`.
    """
    if target.embedded:
        StoreDirectory(target.settings.store).require()
        return for_store(target.settings, report)
    policy = policies.load(target.settings.policy)
    embedder = wiring.embedder(target.settings.embedder, report)
    policies.require_model(policy, embedder.model)
    return ChosenModel(target.settings, policy, embedder)


def policy_of(target: LogTarget) -> Policy:
    """Return the policy that an existing log is written by, without opening the model."""
    settings = settings_of(target)
    policy = policies.load(settings.policy)
    if not target.embedded:
        policies.require_model(policy, wiring.shared_model_of(settings.embedder))
    return policy


def _kept(settings: Settings, report: Callable[[str], None]) -> tuple[Settings, Embedder]:
    try:
        return settings, wiring.embedder(settings.embedder, report)
    except (NoModel, Unreachable) as error:
        raise type(error)(f"{error}; {settings.store} keeps the model it was made with") from error


def _first(settings: Settings, report: Callable[[str], None]) -> tuple[Settings, Embedder]:
    """Return the first available model.

    A model that is missing or does not answer is skipped. An unknown name or a server that refuses
    is an error for a person to fix, so no other model is chosen.
    """
    models = list(_models(settings.embedder))
    for one in models:
        wiring.base_model_of(one)
    *others, last = models
    for one in others:
        try:
            return _with(settings, one), wiring.embedder(one, report)
        except (NoModel, Unreachable) as error:
            report(f"{one.model} is unavailable; trying the next model: {error}")
    return _with(settings, last), wiring.embedder(last, report)


def _models(settings: EmbedderSettings) -> Iterator[EmbedderSettings]:
    """Yield settings of one model each, in the order of preference."""
    for model in dict.fromkeys((settings.model, *settings.fallback)):
        yield settings.model_copy(update={"model": model, "fallback": ()})


def _with(settings: Settings, model: EmbedderSettings) -> Settings:
    """Return the settings with a model and the first policy made for it.

    The policy is unchanged if none fits or if the model is the first; a mismatch is then reported
    as for any model.
    """
    policy = settings.policy
    if model.model != settings.embedder.model:
        others = settings.embedder.fallback_policies
        fitting = (name for name in (policy, *others) if _is_for(name, model))
        policy = next(fitting, policy)
    return settings.model_copy(update={"embedder": model, "policy": policy})


def _is_for(policy: str, model: EmbedderSettings) -> bool:
    return policies.is_for(policies.load(policy), wiring.base_model_of(model))
