"""The settings of search, consolidation, serving, forgetting and extraction."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from schemas.events import MEMBERS_MAX
from streams.extract.core.triggers import RESPONSE_CHARACTERS, Trigger
from streams.store.app.setting_groups import SettingsGroup


class LoadSettings(SettingsGroup):
    """How `load` and the API group search results; nothing stored changes."""

    enabled: bool = True
    """Group memories of one fact; false: show each separately."""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.6
    """The least cosine similarity of a pair that is judged."""
    verify: Literal["built-in", "llm", "none"] = "built-in"
    """What judges whether two memories are one fact. llm: the language model or, if unavailable,
    the built-in judge. none: guards only."""
    lexical_weight: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The weight of the query's words (BM25) against similarity of meaning; 0.3 is what hybrid
    search usually uses. It reorders the results and excludes none."""
    candidates_max: Annotated[int, Field(ge=1, le=1_000)] = 200
    """Memories fetched per search, at most."""
    pairs_max: Annotated[int, Field(ge=0, le=10_000)] = 12
    """Pairs judged per search, closest first; limits its time. Others stay ungrouped, and the next
    search continues with them. The commands judge all."""
    cache_entries: Annotated[int, Field(ge=0, le=1_000_000)] = 100_000
    """Verdicts, and texts of several memories, kept in memory."""


class ConsolidateSettings(SettingsGroup):
    """How memories that were kept apart are re-examined: `consolidate` and its service."""

    memories_min: Annotated[int, Field(ge=0)] = 10
    """Scopes with at most this many live memories are skipped."""
    hours_min: Annotated[float, Field(ge=0)] = 24.0
    """The minimum time between two consolidations of a scope."""
    quiet_minutes: Annotated[float, Field(ge=0)] = 10.0
    """How long a scope must be inactive before it is consolidated."""
    neighbours_max: Annotated[int, Field(ge=1, le=64)] = 5
    """Closest memories that each memory is compared with."""
    members_max: Annotated[int, Field(ge=2, le=MEMBERS_MAX)] = 16
    """Memories proposed as one fact, at most."""
    rounds_max: Annotated[int, Field(ge=1, le=100)] = 8
    """Rounds per scope in one pass: the result of a proposal may be merged again, and a late
    proposal is repeated."""
    seconds_max: Annotated[float, Field(gt=0)] = 60.0
    """The time limit of a pass over all scopes; the next pass continues from there."""
    llm_questions_max: Annotated[int, Field(ge=0)] = 100
    """Language model questions per pass, at most."""
    minutes: Annotated[float, Field(gt=0, le=10_080)] = 15.0
    """How often the service checks which scopes are due."""
    state: Path | None = None
    """A file with the time of each scope's last consolidation; default: one in the store, on a
    cluster none, so every scope is due when a process starts."""


class ApiSettings(SettingsGroup):
    """The HTTP API: `memsieve service api`."""

    host: str = "127.0.0.1"
    """The address; 0.0.0.0 for all."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8090
    """The port; 0 for any free port."""
    tokens: Path | None = None
    """A TOML file of the valid tokens; without it, no token is valid."""
    body_bytes_max: Annotated[int, Field(ge=1_024, le=16_777_216)] = 1_048_576
    """The largest request body, in bytes."""
    concurrency_max: Annotated[int, Field(ge=1, le=1_024)] = 16
    """Requests processed at once; further ones wait."""
    waiting_max: Annotated[int, Field(ge=0, le=65_536)] = 256
    """Waiting requests, at most; the API refuses further ones, and says when to retry."""
    decision_seconds: Annotated[float, Field(ge=0, le=600)] = 10.0
    """How long a request waits for a cluster's decision; a store decides immediately."""
    requests_per_minute: Annotated[int, Field(ge=1)] = 6_000
    """Requests of one token per minute."""


class ReviewSettings(SettingsGroup):
    """How people answer reviews."""

    author: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The author of answers and changes; default: the login name."""


class ForgetSettings(SettingsGroup):
    """How forgotten text is kept from coming back."""

    key: Annotated[SecretStr, Field(min_length=32)] | None = None
    """A secret of 32 characters or more, to recognise forgotten text that returns. The same for all
    services and commands of a log, permanently. Unset, a store creates one."""


class WebSettings(SettingsGroup):
    """The page to review and explore: `memsieve service web`. Tokens and limits are those of `api`."""

    host: str = "127.0.0.1"
    """The address; 0.0.0.0 for all."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8091
    """The port; 0 for any free port."""
    session_minutes: Annotated[int, Field(ge=1, le=43_200)] = 480
    """How long a login lasts."""


class ExtractionSettings(SettingsGroup):
    """How `extract` and the extractor make events from turns."""

    triggers: tuple[Trigger, ...] = tuple(Trigger)
    """A turn is examined if any of these triggers fires."""
    response_characters: Annotated[int, Field(ge=0, le=1_000_000)] = RESPONSE_CHARACTERS
    """The trigger long-response fires if a world's answer has more characters."""
    llm: bool = False
    """Let the language model of llm.base_url write memories; default: copy text."""
    model: str = ""
    """The endpoint's name of the model; default: llm.model."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.3
    """The model's sampling temperature."""
    attempts_max: Annotated[int, Field(ge=1, le=10)] = 2
    """Attempts before a turn is set aside; each retry states what was wrong."""
    earlier_turns: Annotated[int, Field(ge=0, le=20)] = 3
    """Earlier turns of the same scope and session that a model sees."""
    known_max: Annotated[int, Field(ge=0, le=1_000)] = 50
    """Memories of the scope that a model sees: the most recently seen."""
    retired_max: Annotated[int, Field(ge=0, le=20)] = 3
    """Memories that one turn may ask to retire. The policy decides whether they are."""
    failures_max: Annotated[int, Field(ge=1, le=10_000)] = 20
    """Failed calls of the model, with growing pauses, before the extractor makes a turn a dead
    letter; 20 take about two and a half minutes."""
    batch_turns: Annotated[int, Field(ge=1, le=1_000)] = 8
    """Turns that the extractor processes together if a model is used, those of different scopes in
    parallel. All of it must finish within consumer.poll_interval_seconds."""
    undecided_max: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Undecided or unapplied events of a partition at which the extractor stops asking the model,
    which would not see their content."""
