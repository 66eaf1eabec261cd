"""The policy: every choice that judgement leaves open, as a validated value with an id."""

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, ValidationError, model_validator
from pydantic_core import ErrorDetails

from schemas.base import Cosine, ModelId, PolicyId, Record, Scope, ScopeName, Unit
from schemas.decisions import Band, Strategy
from streams.core.bands import Bands

Act = Literal["reinforce", "replace", "keep-better", "merge", "keep-both", "review"]
"""What follows for an event and its neighbour.

`reinforce` counts the memory once more, `replace` lets the event take its place, `keep-better` asks
the quality rule which of the two, `merge` makes one of both, `keep-both` makes two, and `review`
makes two and asks a person. Of what becomes one every wording is kept.
"""

JOINING: frozenset[Act] = frozenset({"reinforce", "replace", "keep-better", "merge"})
"""What makes one memory of two."""
Plain = Literal["append", "keep-better", "newer-wins"]
"""How a text is shown for several where no model words it."""
JudgeName = Literal["built-in", "llm"]
Quality = Literal["status", "length", "persistence", "importance", "recency", "feedback"]


class Nominate(Record):
    """How many neighbours are compared at most, and how similar they are at least.

    `same_title`: one that has the event's title is in the band `match`, whatever its similarity.
    """

    neighbours_max: Annotated[int, Field(ge=1, le=64)] = 8
    similarity_min: Cosine = 0.5
    same_title: bool = False


class Judges(Record):
    """Who is asked about a pair: one after the other, until one answers.

    Two become one memory from the probability `one_memory_min` on. Of what is below, a
    contradiction and two facts count from their own least probabilities on; else the pair is
    unsure. A contradiction lets the newer stand, where the policy wants that, from the probability
    `supersede_min` on. A judge that tells no probability is believed. `deep` lets the built-in
    judge read both texts together, which costs milliseconds a pair; without it, words and cosine
    tell alone. Nor is it asked about texts that are less similar than `words_below` and share
    hardly a word.
    """

    chain: tuple[JudgeName, ...] = ("built-in",)
    deep: bool = True
    words_below: Cosine = 0.85
    one_memory_min: Unit = 0.5
    contradicts_min: Unit = 0.5
    supersede_min: Unit = 0.5
    distinct_min: Unit = 0.5

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.chain)) != len(self.chain):
            raise ValueError(f"chain names a judge twice: {', '.join(self.chain)}")
        return self

    @property
    def weighs(self) -> bool:
        """Whether the first judge is the built-in one, which weighs what guards find in texts."""
        return self.chain[:1] == ("built-in",)


class WithVerdict(Record):
    """What follows from a verdict.

    `same`: both say the same. `refines`: the event says more, or each side adds to what both say;
    those are merged unless both are kept. `contradicts`: `supersede` lets the newer of the two
    stand, by the events' own times.
    """

    same: Literal["reinforce", "replace", "keep-better"] = "reinforce"
    refines: Literal["merge", "replace", "keep-both"] = "merge"
    contradicts: Literal["keep-both", "supersede", "review"] = "keep-both"


class WithoutVerdict(Record):
    """What to do, per band, with a pair that no judge has settled."""

    match: Act = "keep-both"
    review: Act = "keep-both"

    def act(self, band: Band) -> Act:
        """Return what to do with such a pair of a band; below `review` both are kept."""
        match band:
            case Band.MATCH:
                return self.match
            case Band.REVIEW:
                return self.review
            case Band.LOG | Band.NONE:
                return "keep-both"


class BetterRule(Record):
    """Which of two texts stands, for `keep-better`: the first of these that tells them apart.

    `status`: active before tentative. `length`: an event more than `length_ratio` times as long as
    the memory. `persistence`: the stronger. `importance`: the higher, after it has decayed by
    `importance_decay` for each 30 days without being seen, by whole days. `recency`: the later.
    `feedback`: what has helped more often than it misled. Where none tells them apart, `tie` says
    what is done.
    """

    order: tuple[Quality, ...] = ("status", "length", "persistence")
    length_ratio: Annotated[float, Field(ge=1.0, le=100.0)] = 1.5
    importance_decay: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    tie: Literal["reinforce", "replace", "merge"] = "reinforce"


class MergeRule(Record):
    """Which text is shown for several; the others are kept as wordings.

    `fallback` is taken where `strategy` is `llm` and the model gives no text that can be taken. A
    text that is made is at most `characters_max` long: past that, the better of the texts is shown.
    """

    strategy: Strategy = "append"
    fallback: Plain = "append"
    characters_max: Annotated[int, Field(ge=1, le=65_536)] = 600
    parts_max: Annotated[int, Field(ge=2, le=64)] = 4


class Brake(Record):
    """When merging and replacing stops by itself.

    Of a partition's last 1,000 changes, at most the share `removals_max` may want to retire
    memories; fewer than `decisions_min` tell nothing. Of a scope's own among them the same holds.
    """

    enabled: bool = True
    decisions_min: Annotated[int, Field(ge=1, le=1_000)] = 50
    removals_max: Unit = 0.5


class Supersede(Record):
    """How many memories an event may retire by naming them; 0 refuses all."""

    named_max: Annotated[int, Field(ge=0, le=64)] = 0


Days = Annotated[float, Field(ge=0.0, le=36_500.0)]


class Expiry(Record):
    """When memories end by themselves, looked for by `memsieve expire`; null is never.

    So many days after `valid_until`; not seen for so many days, for ephemeral memories, guesses and
    all, the last only where it was accessed fewer times than `accessed_min`; misled so often, and more often than it helped; importance decayed below so much, by
    `better.importance_decay`. Core memories and pinned ones never end so.
    """

    after_validity_days: Days | None = None
    ephemeral_days: Days | None = None
    tentative_days: Days | None = None
    unseen_days: Days | None = None
    accessed_min: Annotated[int, Field(ge=1)] | None = None
    harmful_min: Annotated[int, Field(ge=1)] | None = None
    importance_min: Unit | None = None


Screened = Literal["keep", "mask", "drop", "review"]


class Privacy(Record):
    """What is done with what an event should not hold, before anything of it is stored.

    `secrets`: keys, tokens and passwords. `personal`: e-mail addresses, numbers of telephones, bank
    accounts and payment cards. `mask` puts the kind in its place, `drop` keeps nothing of the event,
    and `review` sets it aside as a dead letter until a person has looked at it. `region` is where a
    telephone number without a country's prefix is from.
    """

    secrets: Screened = "keep"
    personal: Screened = "keep"
    region: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] | None = None

    def of(self, sort: Literal["secret", "personal"]) -> Screened:
        return self.secrets if sort == "secret" else self.personal

    @property
    def screens(self) -> bool:
        """Whether anything is looked for."""
        return (self.secrets, self.personal) != ("keep", "keep")


class Calibration(Record):
    """Where the bands come from."""

    dataset: str
    date: str
    command: str


class Rules(Record):
    """What is decided by, in one scope.

    `enabled` false makes every event a memory of its own, compared with nothing.
    """

    enabled: bool = True
    bands: Bands
    nominate: Nominate = Nominate()
    guards: bool = True
    judges: Judges = Judges()
    with_verdict: WithVerdict = WithVerdict()
    without_verdict: WithoutVerdict = WithoutVerdict()
    better: BetterRule = BetterRule()
    merge: MergeRule = MergeRule()
    supersede: Supersede = Supersede()
    brake: Brake = Brake()
    expiry: Expiry = Expiry()
    privacy: Privacy = Privacy()

    @model_validator(mode="after")
    def _all_bands_are_nominated(self) -> Self:
        if self.nominate.similarity_min > self.bands.log:
            raise ValueError(
                f"nominate.similarity_min {self.nominate.similarity_min} is above bands.log "
                f"{self.bands.log}: neighbours of that band would never be seen; lower it"
            )
        return self


ANY_MODEL = "any"


class Policy(Rules):
    """Everything that a decision depends on besides the event, its neighbours and the verdicts.

    `model` is the embedding model that the bands were calibrated for; no other may be used. A
    policy for `any` has no bands, and asks nobody: it keeps both of whatever is similar.
    `scopes` overrides rules below a scope: of several the longest path counts, alone.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    model: Annotated[ModelId, Field(min_length=1)]
    calibration: Calibration
    scopes: dict[Scope, dict[str, JsonValue]] = Field(
        default_factory=dict[Scope, dict[str, JsonValue]]
    )

    @model_validator(mode="after")
    def _overrides_are_rules(self) -> Self:
        told: list[str] = []
        for scope in self.scopes:
            try:
                self._overridden(scope)
            except ValidationError as error:
                told += _problems(error, ("scopes", scope), Rules)
        if told:
            raise ValueError("; ".join(told))
        return self

    @model_validator(mode="after")
    def _any_model_tells_nothing(self) -> Self:
        if self.model == ANY_MODEL and not all(map(_is_blind, (self, *self._by_scope.values()))):
            raise ValueError(
                "model: a policy for any model may not go by similarity, which no two models give "
                'alike; set all bands to 1.0, judges.chain to [] and without_verdict to "keep-both", '
                "or name the model that the bands are for"
            )
        return self

    @cached_property
    def id(self) -> PolicyId:
        """The policy's name and the hash of what it decides.

        Comments, layout, the calibration's provenance and what ends by time do not count, nor does
        a screening that looks for nothing.
        """
        silent = {"calibration", "expiry"}
        if not self.screens:
            silent.add("privacy")
        content = self.model_dump(mode="json", exclude=silent)
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return PolicyId(f"{self.name}-{digest[:12]}")

    def rules(self, scope: ScopeName) -> Rules:
        """Return what holds in a scope."""
        if not self.scopes:
            return self
        return next(
            (self._by_scope[path] for path in ancestry(scope) if path in self._by_scope), self
        )

    @property
    def screens(self) -> bool:
        """Whether events are looked through for secrets or personal data, in any scope."""
        return any(rules.privacy.screens for rules in (self, *self._by_scope.values()))

    @property
    def expires(self) -> bool:
        """Whether memories end by themselves, in any scope."""
        return any(rules.expiry != Expiry() for rules in (self, *self._by_scope.values()))

    @cached_property
    def _by_scope(self) -> dict[str, Rules]:
        return {scope: self._overridden(scope) for scope in self.scopes}

    def _overridden(self, scope: ScopeName) -> Rules:
        content = self.model_dump(mode="json", include=set(Rules.model_fields))
        return Rules.model_validate(overlaid(content, self.scopes[scope]))


def _is_blind(rules: Rules) -> bool:
    """Tell whether nothing follows from how similar two texts are."""
    silent = not rules.judges.chain and rules.without_verdict == WithoutVerdict()
    return silent and rules.bands.log == 1.0 and not rules.nominate.same_title


def ancestry(scope: str) -> Iterator[str]:
    """Yield a scope and the paths above it, the longest first."""
    while scope:
        yield scope
        scope = scope.rpartition("/")[0]


def overlaid(base: Mapping[str, JsonValue], over: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a tree with another's leaves in place of its own."""
    joined = dict(base)
    for key, value in over.items():
        before = base.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            joined[key] = overlaid(before, value)
        else:
            joined[key] = value
    return joined


class InvalidPolicy(ValueError):
    """A policy that cannot be used: what is wrong, each problem with its key and the remedy."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def parse(text: str) -> Policy:
    """Read a policy from TOML. Raises InvalidPolicy with all problems."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidPolicy(f"not TOML: {error}") from error
    return read(content)


def read(content: Mapping[str, object]) -> Policy:
    """Read a policy from what its TOML holds. Raises InvalidPolicy with all problems."""
    try:
        return Policy.model_validate(content)
    except ValidationError as error:
        raise InvalidPolicy(*_problems(error, (), Policy)) from error


_VALUE_ERROR = "Value error, "
_REMEDIES = {
    "name": "what decisions are to call the policy: small letters, digits and hyphens, 40 at most",
    "model": "the embedding model that the bands are for",
    "bands": "the lower bounds match, review and log",
    "calibration": "dataset, date and command that the bands come from",
}
"""What to write for a key that every policy must have."""


def _problems(error: ValidationError, at: tuple[str, ...], rules: type[Record]) -> list[str]:
    """Return each problem in a line; `at` is where in the TOML the rules begin."""
    return [
        _problem(problem, at, rules)
        for problem in error.errors(include_url=False, include_context=False)
    ]


def _problem(problem: ErrorDetails, at: tuple[str, ...], rules: type[Record]) -> str:
    where = tuple(part for part in problem["loc"] if part != "[key]")
    key, told = dotted((*at, *where)), problem["msg"]
    if problem["type"] == "extra_forbidden":
        return f"{key} is no key of a policy; {_instead(where, at, rules)}"
    if problem["type"] == "missing":
        wanted = _REMEDIES.get(key)
        return f"{key} is missing: {f'write {wanted}' if wanted else 'add it'}"
    if told.startswith(_VALUE_ERROR):
        told = told.removeprefix(_VALUE_ERROR)
        return told if not key or told.startswith(key) else f"{key}: {told}"
    if problem["type"] in {"model_type", "dict_type"}:
        return f"{key} is no table: write [{key}] and its keys below"
    if problem["type"] == "bool_parsing":
        told = "should be true or false"
    told = told.removeprefix("Input ").removeprefix("String ")
    instead = f", not {_shown(problem['input'])}" if told.startswith("should ") else ""
    wanted = f"; it is {_REMEDIES[key]}" if key in _REMEDIES else ""
    return f"{key}: {told}{instead}{wanted}"


def dotted(path: Sequence[str | int]) -> str:
    """Write a path as TOML does; entries of a list are counted from 1."""
    dotted = ""
    for part in path:
        if isinstance(part, int):
            dotted += f", entry {part + 1}"
        elif re.fullmatch(r"[A-Za-z0-9_-]+", part):
            dotted += f".{part}" if dotted else part
        else:
            dotted += f'."{part}"'
    return dotted


def _instead(where: Sequence[str | int], at: tuple[str, ...], rules: type[Record]) -> str:
    """Say which key may have been meant, or which there are in that table."""
    *table, written = (str(part) for part in where)
    known = list(_keys(rules, ()))
    here = [path[-1] for path in known if list(path[:-1]) == table]
    if near := difflib.get_close_matches(written, here, n=1):
        return f"did you mean {dotted((*at, *table, near[0]))}?"
    if elsewhere := [path for path in known if path[-1] == written]:
        return f"did you mean {dotted((*at, *elsewhere[0]))}?"
    return f"there are {', '.join(here)}"


def _keys(rules: type[Record], at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the path of every key."""
    for name, field in rules.model_fields.items():
        yield (*at, name)
        table = field.annotation
        if isinstance(table, type) and issubclass(table, Record):
            yield from _keys(table, (*at, name))


def _shown(value: object) -> str:
    """Quote a value as TOML writes it, as far as that is short."""
    written = json.dumps(value, ensure_ascii=False, default=str)
    return written if len(written) <= _SHOWN_MAX else f"{written[:_SHOWN_MAX]}…"


_SHOWN_MAX = 60
