"""The settings of what is done with memories: searching, consolidating, serving, forgetting, extracting."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from schemas.events import MEMBERS_MAX
from streams.extract.core.triggers import RESPONSE_CHARACTERS, Trigger
from streams.store.app.setting_groups import Group


class LoadSettings(Group):
    """How `load` and the API group search results; nothing stored changes."""

    enabled: bool = Field(
        default=True, description="Show memories of one fact as one; false shows each by itself."
    )
    threshold: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.4, description="The greatest cosine distance of two that are asked about."
    )
    verify: Literal["built-in", "llm", "none"] = Field(
        default="built-in",
        description=(
            "Who tells whether two are one fact. llm: the language model, or where it is away the "
            "built-in judge. none: guards alone."
        ),
    )
    lexical_weight: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0,
        description=(
            "How much the query's own words count (BM25) beside nearness in meaning; 0.3 is what "
            "hybrid search usually takes. They reorder what was found, and exclude nothing."
        ),
    )
    candidates_max: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=200, description="Memories that one search may fetch."
    )
    pairs_max: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=12,
        description=(
            "Pairs that one search may ask about, the nearest first: its time. Others stay apart, "
            "and the next search goes on with them. The commands ask about all."
        ),
    )
    cache_entries: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=100_000, description="Verdicts, and texts of several memories, kept in memory."
    )


class ConsolidateSettings(Group):
    """How memories that were kept apart are re-examined: `consolidate` and its service."""

    memories_min: Annotated[int, Field(ge=0)] = Field(
        default=10, description="Scopes that have no more live memories than this are left alone."
    )
    hours_min: Annotated[float, Field(ge=0)] = Field(
        default=24.0, description="How long a scope is left alone after it was consolidated."
    )
    quiet_minutes: Annotated[float, Field(ge=0)] = Field(
        default=10.0,
        description="How long nothing may have been seen in a scope before it is looked at.",
    )
    neighbours_max: Annotated[int, Field(ge=1, le=64)] = Field(
        default=5, description="Nearest memories that each memory is compared with."
    )
    members_max: Annotated[int, Field(ge=2, le=MEMBERS_MAX)] = Field(
        default=16, description="Memories proposed as one fact, at most."
    )
    rounds_max: Annotated[int, Field(ge=1, le=100)] = Field(
        default=8,
        description=(
            "How often a scope is looked at in one pass: what a proposal has made may be joined "
            "again, and one that came too late is made anew."
        ),
    )
    seconds_max: Annotated[float, Field(gt=0)] = Field(
        default=60.0,
        description="How long one pass over all scopes may take; the next goes on behind it.",
    )
    llm_questions_max: Annotated[int, Field(ge=0)] = Field(
        default=100, description="Pairs that one pass may ask a language model about."
    )
    minutes: Annotated[float, Field(gt=0, le=10_080)] = Field(
        default=15.0, description="How often the service looks which scopes are due."
    )
    state: Path | None = Field(
        default=None,
        description=(
            "A file that remembers when each scope was consolidated; unset takes one in the store, "
            "and on a cluster none: every scope is due when a process starts."
        ),
    )


class ApiSettings(Group):
    """The HTTP API: `memsieve service api`."""

    host: str = Field(default="127.0.0.1", description="Where it is served; 0.0.0.0 for all.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=8090, description="Its port; 0 takes a free one."
    )
    tokens: Path | None = Field(
        default=None, description="A TOML file of the tokens that may be used; without, none may."
    )
    body_bytes_max: Annotated[int, Field(ge=1_024, le=16_777_216)] = Field(
        default=1_048_576, description="The longest body of a request."
    )
    concurrency_max: Annotated[int, Field(ge=1, le=1_024)] = Field(
        default=16, description="Requests worked on at once; beyond, they wait for their turn."
    )
    waiting_max: Annotated[int, Field(ge=0, le=65_536)] = Field(
        default=256, description="Requests that wait; beyond, they are told when to come back."
    )
    decision_seconds: Annotated[float, Field(ge=0, le=600)] = Field(
        default=10.0,
        description="How long a request waits for the decision of a cluster; a store's comes at once.",
    )
    requests_per_minute: Annotated[int, Field(ge=1)] = Field(
        default=6_000, description="Requests of one token in a minute."
    )


class ReviewSettings(Group):
    """How people answer reviews."""

    author: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="Who answers, or asks for a change; unset takes the login name."
    )


class ForgetSettings(Group):
    """How forgotten text is kept from coming back."""

    key: Annotated[SecretStr, Field(min_length=32)] | None = Field(
        default=None,
        description=(
            "A secret of 32 characters or more: by it a text that comes back is recognised. The "
            "same for all services and commands of a log, for ever. Unset, a store makes its own."
        ),
    )


class ExtractionSettings(Group):
    """How `extract` and the extractor make events from turns."""

    triggers: tuple[Trigger, ...] = Field(
        default=tuple(Trigger), description="What makes a turn worth a closer look, any of these."
    )
    response_characters: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=RESPONSE_CHARACTERS,
        description="The trigger long-response fires where a world answers more characters.",
    )
    llm: bool = Field(
        default=False,
        description="Let the language model of llm.base_url word memories; else sentences are taken.",
    )
    model: str = Field(
        default="", description="What the endpoint calls the model; unset takes llm.model."
    )
    temperature: Annotated[float, Field(ge=0, le=2)] = Field(
        default=0.3, description="How much of a model's wording is left to chance."
    )
    attempts_max: Annotated[int, Field(ge=1, le=10)] = Field(
        default=2,
        description="Answers asked for before a turn is set aside; each is told what was wrong.",
    )
    earlier_turns: Annotated[int, Field(ge=0, le=20)] = Field(
        default=3, description="Turns before it, of its scope and session, that a model sees."
    )
    known_max: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default=50, description="Memories of the scope that a model sees: those seen last."
    )
    retired_max: Annotated[int, Field(ge=0, le=20)] = Field(
        default=3,
        description=(
            "Memories that one turn may ask to retire. Whether they are retired, the policy says."
        ),
    )
    failures_max: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=20,
        description=(
            "Calls of the model in vain, with growing pauses, before the extractor makes a turn a "
            "dead letter; 20 take about two minutes and a half."
        ),
    )
    batch_turns: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=8,
        description=(
            "Turns that the extractor works on together where a model is asked, those of different "
            "scopes side by side. All of it has to be done in consumer.poll_interval_seconds."
        ),
    )
    undecided_max: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=10_000,
        description=(
            "Events of a partition that may wait to be decided on and applied before the extractor "
            "asks no model: it would not see what they say."
        ),
    )
