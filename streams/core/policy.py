"""The policy: every choice that judgement leaves open, as a validated value with an id."""

import hashlib
import tomllib
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from schemas.base import Cosine, ModelId, PolicyId, Record
from streams.core.bands import Bands

Unverified = Literal["merge", "keep-both"]


class Nominate(Record):
    """How many neighbours are compared at most, and how similar they are at least."""

    neighbours_max: Annotated[int, Field(ge=1, le=64)] = 8
    similarity_min: Cosine = 0.5


class WithoutVerdict(Record):
    """What to do, per band, with a pair that no judge has settled.

    "merge" keeps every sentence of both in one memory; "keep-both" makes two.
    """

    match: Unverified
    review: Unverified


class MergeRule(Record):
    """`append` keeps each sentence once. A longer text than `characters_max` is not made."""

    strategy: Literal["append"] = "append"
    characters_max: Annotated[int, Field(ge=1, le=65_536)] = 600


class Calibration(Record):
    """Where the bands come from."""

    dataset: str
    date: str
    command: str


class Policy(Record):
    """Everything that a decision depends on besides the event, its neighbours and the verdicts.

    `model` is the embedding model that the bands were calibrated for; no other may be used.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    model: Annotated[ModelId, Field(min_length=1)]
    bands: Bands
    nominate: Nominate = Nominate()
    without_verdict: WithoutVerdict
    merge: MergeRule = MergeRule()
    calibration: Calibration

    @model_validator(mode="after")
    def _all_bands_are_nominated(self) -> Self:
        if self.nominate.similarity_min > self.bands.log:
            raise ValueError(
                f"nominate.similarity_min {self.nominate.similarity_min} is above bands.log "
                f"{self.bands.log}: neighbours of that band would never be seen"
            )
        return self

    @cached_property
    def id(self) -> PolicyId:
        """The policy's name and the hash of what it decides.

        Comments, layout and the calibration's provenance do not count.
        """
        content = self.model_dump_json(exclude={"calibration"})
        digest = hashlib.sha256(content.encode()).hexdigest()
        return PolicyId(f"{self.name}-{digest[:12]}")


class InvalidPolicy(ValueError):
    """A policy text that cannot be used; the message names the key and the reason."""


def parse(text: str) -> Policy:
    """Read a policy from TOML. Raises InvalidPolicy with all problems in one line."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidPolicy(f"not TOML: {error}") from error
    try:
        return Policy.model_validate(content)
    except ValidationError as error:
        problems = (
            f"{'.'.join(str(part) for part in problem['loc']) or 'policy'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        raise InvalidPolicy("; ".join(problems)) from error
