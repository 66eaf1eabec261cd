"""What extraction is made of, by its settings."""

from typing import TYPE_CHECKING

from streams.extract.core.triggers import TriggerRules
from streams.extract.flow.extract import Maker
from streams.extract.port import Extracting
from streams.judges.lexicons import english
from streams.model.ports.clock import Clock
from streams.store.app.product_settings import ExtractionSettings
from streams.store.app.settings import Settings
from streams.store.app.wiring import llm_endpoint

if TYPE_CHECKING:
    from streams.extract.world.extracting import LlmExtractor


def llm_extractor(settings: Settings, clock: Clock) -> "LlmExtractor":
    """Return the language model that extracts memories from turns.

    Raises InvalidSettings if none is configured.
    """
    from streams.extract.world.extracting import LlmExtractor
    from streams.judges.chat import Chat

    wanted = settings.extraction
    llm = settings.llm.model_copy(update={"model": wanted.model or settings.llm.model})
    return LlmExtractor(
        Chat(llm_endpoint(llm), clock), llm.extract_prompt, temperature=wanted.temperature
    )


def maker(settings: ExtractionSettings, model: Extracting | None) -> Maker:
    """Return what turns are made into events with; without a model, sentence by sentence."""
    return Maker(english, model, settings.attempts_max, settings.retired_max)


def rules(settings: ExtractionSettings) -> TriggerRules:
    """Return the triggers that select turns for extraction."""
    return TriggerRules(frozenset(settings.triggers), settings.response_characters)
