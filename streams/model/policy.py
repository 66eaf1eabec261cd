"""The policy: every choice that a deployment can make, as a validated value with an id."""

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
from streams.model.bands import Bands

Act = Literal["reinforce", "replace", "keep-better", "merge", "keep-both", "review"]
"""The action for an event and its neighbour.

`reinforce` increments the memory's count, `replace` lets the event supersede it, `keep-better`
picks one of these by the quality rule, `merge` joins both, `keep-both` keeps two memories, and
`review` keeps two and asks a person. A joined memory keeps every wording.
"""

JOINING: frozenset[Act] = frozenset({"reinforce", "replace", "keep-better", "merge"})
"""The actions that leave one memory."""
Plain = Literal["append", "keep-better", "newer-wins"]
"""How the shown text is chosen without a language model."""
JudgeName = Literal["built-in", "llm"]
Quality = Literal["status", "length", "persistence", "importance", "recency", "feedback"]


class Nominate(Record):
    """The maximum number of neighbours to compare, and their minimum similarity.

    `same_title`: a neighbour with the event's title is in the band `match` at any similarity.
    """

    neighbours_max: Annotated[int, Field(ge=1, le=64)] = 8
    similarity_min: Cosine = 0.5
    same_title: bool = False


class Judges(Record):
    """The judges asked about a pair, in order, until one answers.

    Thresholds are probabilities. From `one_memory_min` on, a pair becomes one memory. Below it, a
    contradiction or two distinct facts count from their own thresholds on; otherwise the pair is
    unsure. If the policy supersedes on contradiction, the newer statement wins from `supersede_min`
    on. A judge that gives no probability is believed. `deep` lets the built-in judge read both
    texts together, at a cost of milliseconds per pair; without it, the judge uses only words and
    cosine. It is not asked about long texts less similar than `words_below` that share few words.
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
        """Whether the first judge is the built-in one, which weighs the guards' text findings."""
        return self.chain[:1] == ("built-in",)


class WithVerdict(Record):
    """The action for each verdict.

    `same`: both say the same. `refines`: the event says more, or each side adds something; the
    latter pair is merged unless the action is `keep-both`. `contradicts`: `supersede` keeps the
    newer of the two live, by event time.
    """

    same: Literal["reinforce", "replace", "keep-better"] = "reinforce"
    refines: Literal["merge", "replace", "keep-both"] = "merge"
    contradicts: Literal["keep-both", "supersede", "review"] = "keep-both"


class WithoutVerdict(Record):
    """The action, per band, for a pair that no judge settled."""

    match: Act = "keep-both"
    review: Act = "keep-both"

    def act(self, band: Band) -> Act:
        """Return the action for a band; below `review` both are kept."""
        match band:
            case Band.MATCH:
                return self.match
            case Band.REVIEW:
                return self.review
            case Band.LOG | Band.NONE:
                return "keep-both"


class BetterRule(Record):
    """Which of two texts `keep-better` prefers: the first of `order` in which they differ decides.

    `status`: active before tentative. `length`: an event more than `length_ratio` times as long as
    the memory. `persistence`: the stronger. `importance`: the higher, after a decay by
    `importance_decay` per 30 days without being seen, in whole days. `recency`: the later.
    `feedback`: the one that helped more often than it misled. If none differs, `tie` is the action.
    """

    order: tuple[Quality, ...] = ("status", "length", "persistence")
    length_ratio: Annotated[float, Field(ge=1.0, le=100.0)] = 1.5
    importance_decay: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    tie: Literal["reinforce", "replace", "merge"] = "reinforce"


class MergeRule(Record):
    """Which text a merged memory shows; the others are kept as wordings.

    `fallback` applies if `strategy` is `llm` and the model gives no usable text. If a composed text
    is longer than `characters_max`, the better of the source texts is shown.
    """

    strategy: Strategy = "append"
    fallback: Plain = "append"
    characters_max: Annotated[int, Field(ge=1, le=65_536)] = 600
    parts_max: Annotated[int, Field(ge=2, le=64)] = 4


class Brake(Record):
    """When merging and replacing stops automatically.

    At most the share `removals_max` of a partition's last 1,000 changes may try to retire memories;
    with fewer than `decisions_min` changes, the brake stays off. The same limits apply to each
    scope's own changes among them.
    """

    enabled: bool = True
    decisions_min: Annotated[int, Field(ge=1, le=1_000)] = 50
    removals_max: Unit = 0.5


class Supersede(Record):
    """How many memories an event may retire by naming them; 0 refuses all."""

    named_max: Annotated[int, Field(ge=0, le=64)] = 0


class FailOpen(Record):
    """Whether an event is stored unchecked where it cannot be compared, instead of waiting.

    After `attempts` failures in a row of the embedder or the index. What the embedder refuses for
    good, and what makes a judge fail, is not tried again.
    """

    enabled: bool = False
    attempts: Annotated[int, Field(ge=1)] = 6


Days = Annotated[float, Field(ge=0.0, le=36_500.0)]


class Expiry(Record):
    """When `memsieve memory expire` ends memories; null is never.

    A memory ends `after_validity_days` after `valid_until`; when unseen for `ephemeral_days`
    (ephemeral), `tentative_days` (tentative) or `unseen_days` (any, if accessed fewer than
    `accessed_min` times); when it misled `harmful_min` times and more often than it helped; or when
    its importance, decayed by `better.importance_decay`, is below `importance_min`. Core and pinned
    memories never expire.
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
    """How sensitive content of an event is handled before any of it is stored.

    `secrets`: keys, tokens and passwords. `personal`: e-mail addresses and telephone, bank account
    and payment card numbers. `mask` replaces the content with its kind, `drop` stores nothing of
    the event, and `review` makes it a dead letter until a person has looked at it. `region` is the
    country of telephone numbers without a country prefix.
    """

    secrets: Screened = "keep"
    personal: Screened = "keep"
    region: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] | None = None

    def of(self, sort: Literal["secret", "personal"]) -> Screened:
        return self.secrets if sort == "secret" else self.personal

    @property
    def screens(self) -> bool:
        """Whether screening looks for anything."""
        return (self.secrets, self.personal) != ("keep", "keep")


class Calibration(Record):
    """The provenance of the bands."""

    dataset: str
    date: str
    command: str


class Rules(Record):
    """The rules of one scope.

    If `enabled` is false, every event becomes its own memory, compared with nothing.
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

    @property
    def knows_english(self) -> bool:
        """Whether texts are compared by what knows English alone: guards, the built-in judge."""
        return self.guards or "built-in" in self.judges.chain


ANY_MODEL = "any"


class Policy(Rules):
    """Everything that a decision depends on apart from the event, its neighbours and the verdicts.

    `model` is the embedding model that the bands were calibrated for; no other may be used. A
    policy for `any` has no bands, and asks nobody: it keeps both of whatever is similar.
    `scopes` overrides rules below a scope: of several the longest path counts, alone. `fail_open`
    holds for all: events of several scopes are decided on in one order.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    model: Annotated[ModelId, Field(min_length=1)]
    calibration: Calibration
    fail_open: FailOpen = FailOpen()
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
                "model: a policy for any model may not use similarity, which no two models give "
                'alike; set all bands to 1.0, judges.chain to [] and without_verdict to "keep-both", '
                "or name the model that the bands are for"
            )
        return self

    @cached_property
    def id(self) -> PolicyId:
        """The policy's name and a hash of the rules that affect decisions.

        Comments, layout, the calibration's provenance and what ends by time do not count, nor do
        a screening that looks for nothing, and a check that is waited for.
        """
        silent = {"calibration", "expiry"}
        if not self.screens:
            silent.add("privacy")
        if not self.fail_open.enabled:
            silent.add("fail_open")
        content = self.model_dump(mode="json", exclude=silent)
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return PolicyId(f"{self.name}-{digest[:12]}")

    def rules(self, scope: ScopeName) -> Rules:
        """Return the rules that apply to a scope."""
        if not self.scopes:
            return self
        return next(
            (self._by_scope[path] for path in ancestry(scope) if path in self._by_scope), self
        )

    @property
    def screens(self) -> bool:
        """Whether events are screened for secrets or personal data in any scope."""
        return any(rules.privacy.screens for rules in (self, *self._by_scope.values()))

    @property
    def tells_languages(self) -> bool:
        """Whether the language of a text matters in any scope."""
        return any(rules.knows_english for rules in (self, *self._by_scope.values()))

    @property
    def expires(self) -> bool:
        """Whether memories expire in any scope."""
        return any(rules.expiry != Expiry() for rules in (self, *self._by_scope.values()))

    @cached_property
    def _by_scope(self) -> dict[str, Rules]:
        return {scope: self._overridden(scope) for scope in self.scopes}

    def _overridden(self, scope: ScopeName) -> Rules:
        content = self.model_dump(mode="json", include=set(Rules.model_fields))
        return Rules.model_validate(overlaid(content, self.scopes[scope]))


def _is_blind(rules: Rules) -> bool:
    """Return whether the similarity of two texts has no effect under these rules."""
    silent = not rules.judges.chain and rules.without_verdict == WithoutVerdict()
    return silent and rules.bands.log == 1.0 and not rules.nominate.same_title


def ancestry(scope: str) -> Iterator[str]:
    """Yield a scope and its parent paths, longest first."""
    while scope:
        yield scope
        scope = scope.rpartition("/")[0]


def overlaid(base: Mapping[str, JsonValue], over: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the tree `base` with the leaves of `over` merged into it."""
    joined = dict(base)
    for key, value in over.items():
        before = base.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            joined[key] = overlaid(before, value)
        else:
            joined[key] = value
    return joined


class InvalidPolicy(ValueError):
    """An invalid policy; each problem has its key and the remedy."""

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
    """Return one line per problem; `at` is the TOML path where the rules begin."""
    return [
        _problem(problem, at, rules)
        for problem in error.errors(include_url=False, include_context=False)
    ]


def _problem(problem: ErrorDetails, at: tuple[str, ...], rules: type[Record]) -> str:
    where = tuple(part for part in problem["loc"] if part != "[key]")
    key, told = dotted((*at, *where)), problem["msg"]
    if problem["type"] == "extra_forbidden":
        return f"{key} is not a policy key; {_instead(where, at, rules)}"
    if problem["type"] == "missing":
        wanted = _REMEDIES.get(key)
        return f"{key} is missing: {f'write {wanted}' if wanted else 'add it'}"
    if told.startswith(_VALUE_ERROR):
        told = told.removeprefix(_VALUE_ERROR)
        return told if not key or told.startswith(key) else f"{key}: {told}"
    if problem["type"] in {"model_type", "dict_type"}:
        return f"{key} is not a table: write [{key}] and its keys below"
    if problem["type"] == "bool_parsing":
        told = "should be true or false"
    told = told.removeprefix("Input ").removeprefix("String ")
    instead = f", not {_shown(problem['input'])}" if told.startswith("should ") else ""
    wanted = f"; it is {_REMEDIES[key]}" if key in _REMEDIES else ""
    return f"{key}: {told}{instead}{wanted}"


def dotted(path: Sequence[str | int]) -> str:
    """Return a path in TOML notation; list entries are counted from 1."""
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
    """Return the key that was probably meant, or the keys that the table has."""
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
    """Return a value quoted as in TOML, cut to _SHOWN_MAX characters."""
    written = json.dumps(value, ensure_ascii=False, default=str)
    return written if len(written) <= _SHOWN_MAX else f"{written[:_SHOWN_MAX]}…"


_SHOWN_MAX = 60
