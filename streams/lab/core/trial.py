"""Trial of a policy on rows: what becomes of each, and which pairs lie near its thresholds."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, zip_longest

from schemas.base import MemoryId
from schemas.decisions import Change, Compared, Decision, Reason, Replace, Verdict, targets_of
from schemas.events import Remember
from schemas.memories import Memory
from streams.lab.core.grading import ONE_FACT, Grade, Truth
from streams.lab.core.measures import Proportion
from streams.model.policy import Judges, Policy
from streams.model.verdict import of_one_memory
from streams.stage.core.ledger import stated
from streams.text.judge.weighing import log_odds

_FAR = 3.0
"""The margin from which on a pair is not asked about: beside a threshold of .85, probabilities
below .22 and above .99 are that far."""
_TEXT_MAX = 2
"""How often a text is asked about: ten pairs should not be all about one fact."""


class Fate(StrEnum):
    """What becomes of a row.

    It is a memory of its own; joined with what is known; the newer of two of which one replaces the
    other, or the older; or a memory of its own that contradicts another.
    """

    KEPT = "kept"
    JOINED = "joined"
    REPLACED = "replaced"
    IN_CONFLICT = "in_conflict"


@dataclass(frozen=True)
class Effect:
    """What a policy does with a row: `others` are the memories' texts, `stands` is what then stands."""

    fate: Fate
    scope: str
    text: str
    others: tuple[str, ...]
    stands: str


@dataclass(frozen=True)
class Example:
    """A row's effect, and the policies under which the row has this fate."""

    effect: Effect
    policies: tuple[str, ...]


@dataclass(frozen=True)
class ComparedPair:
    """Two texts that a judge compared, and their margin: above 0 they would not be two memories.

    The margin is the distance from the threshold in log-odds.
    """

    scope: str
    newer: str
    older: str
    margin: float


class Trial:
    """What one policy does with rows, decision by decision.

    `memories` is how many are live at the end; `silent` counts, by who should have judged or worded
    and did not, the rows concerned.
    """

    def __init__(self, name: str, policy: Policy) -> None:
        """Begin with no rows; `name` is what a person calls the policy."""
        self.name = name
        self.policy = policy
        self.fates = Counter[Fate]()
        self.effects = list[Effect]()
        self.near = list[ComparedPair]()
        self.skipped = 0
        self.braked = 0
        self.memories = 0
        self.silent = Counter[str]()
        self._versions = dict[tuple[MemoryId, int], Memory]()

    def take(self, decisions: Iterable[Decision]) -> None:
        """Take the decisions on the next rows.

        `skipped` counts rows that are no new statement, such as one that came before; `braked`
        those that are kept because the brake was on.
        """
        for decision in decisions:
            if isinstance(decision, Change) and isinstance(decision.event, Remember):
                self._changed(decision, decision.event)
            else:
                self.skipped += 1
            for memory in stated(decision):
                self._versions[memory.id, memory.version] = memory

    def _changed(self, decision: Change, event: Remember) -> None:
        others, made = tuple(self._others(decision)), decision.memory
        stands = made.text if made.live else others[0]
        effect = Effect(_fate(decision), event.scope, event.text, others, stands)
        self.fates[effect.fate] += 1
        self.silent.update(decision.evidence.degraded)
        self.braked += decision.evidence.reason is Reason.BRAKED
        if effect.fate is not Fate.KEPT:
            self.effects.append(effect)
        self.near += self._compared(decision.evidence.neighbours, event)

    def _others(self, decision: Change) -> Iterator[str]:
        """Yield the texts of the memories that the fate of a row is about."""
        about = targets_of(decision) or _contradicted(decision)
        found = [(one.memory_id, one.version) for one in about]
        yield from (self._versions[one].text for one in found if one in self._versions)

    def _compared(self, neighbours: Sequence[Compared], event: Remember) -> Iterator[ComparedPair]:
        """Yield the pairs that a judge weighed, each with the text said later first."""
        judges = self.policy.rules(event.scope).judges
        for one in neighbours:
            memory = self._versions.get((one.memory_id, one.version))
            if memory is None or one.probabilities is None or one.wording is not None:
                continue
            texts = (event.text, memory.text)
            newer, older = texts if event.occurred_at >= memory.last_seen_at else texts[::-1]
            yield ComparedPair(event.scope, newer, older, _margin(one.probabilities, judges))


def _fate(decision: Change) -> Fate:
    if isinstance(decision, Replace) or not decision.memory.live:
        return Fate.REPLACED
    if targets_of(decision):
        return Fate.JOINED
    return Fate.IN_CONFLICT if _contradicted(decision) else Fate.KEPT


def _contradicted(decision: Change) -> Sequence[Compared]:
    near = decision.evidence.neighbours
    return [one for one in near if one.verdict is Verdict.CONTRADICTS]


def _margin(probabilities: Mapping[Verdict, float], judges: Judges) -> float:
    """Return how far a pair is from being joined or, if that is likelier, from being replaced."""
    one, other = of_one_memory(probabilities), probabilities.get(Verdict.CONTRADICTS, 0.0)
    if other > one:
        return log_odds(other) - log_odds(judges.supersede_min)
    return log_odds(one) - log_odds(judges.one_memory_min)


def borderline(
    near: Iterable[ComparedPair], known: Iterable[tuple[str, str]], count: int
) -> list[ComparedPair]:
    """Return the pairs nearest to a threshold, as many above as below it as far as there are.

    Pairs in `known` were answered, and are left out.
    """
    done = set(known)
    pairs = {(one.newer, one.older): one for one in near}
    asked = [
        one
        for texts, one in pairs.items()
        if texts not in done and texts[::-1] not in done and abs(one.margin) < _FAR
    ]
    asked.sort(key=lambda one: (abs(one.margin), one.newer, one.older))
    asked = list(_varied(asked))
    above = [one for one in asked if one.margin >= 0]
    below = [one for one in asked if one.margin < 0]
    half = count // 2
    taken = {*above[: max(half, count - len(below))], *below[: max(half, count - len(above))]}
    return [one for one in asked if one in taken][:count]


def _varied(pairs: Iterable[ComparedPair]) -> Iterator[ComparedPair]:
    used: Counter[str] = Counter()
    for one in pairs:
        if max(used[one.newer], used[one.older]) < _TEXT_MAX:
            used.update((one.newer, one.older))
            yield one


def examples(trials: Sequence[Trial], fate: Fate) -> list[Example]:
    """Return rows of one fate, from each group of policies in turn; the largest group begins."""
    found: dict[tuple[str, str], Example] = {}
    for trial in trials:
        for effect in trial.effects:
            if effect.fate is fate:
                said = effect.scope, effect.text
                before = found.get(said, Example(effect, ()))
                if trial.name not in before.policies:
                    found[said] = Example(before.effect, (*before.policies, trial.name))
    groups: dict[tuple[str, ...], list[Example]] = {}
    for one in found.values():
        groups.setdefault(one.policies, []).append(one)
    largest = sorted(groups, key=lambda names: (len(groups[names]), len(names)), reverse=True)
    turns = zip_longest(*(groups[names] for names in largest))
    return [one for one in chain.from_iterable(turns) if one is not None]


def agrees(truth: Truth, grade: Grade) -> bool:
    """Return whether a decision on a pair does what a person's answer asks for."""
    if truth is Truth.CONTRADICTS:
        return bool(grade.superseded)
    if truth in ONE_FACT:
        return bool(grade.found)
    return not (grade.hidden or grade.displaced)


def not_told_apart(agreed: Mapping[str, Proportion], best: str) -> list[str]:
    """Return the policies that so few answers cannot tell from the best: the intervals overlap."""
    low, _ = agreed[best].interval or (0.0, 1.0)
    return [
        name
        for name, one in agreed.items()
        if name != best and (one.interval is None or one.interval[1] >= low)
    ]


def recommended(agreed: Mapping[str, Proportion], usual: str) -> str:
    """Return the policy that agrees with most answers; of several the usual one, else the first."""
    most = max(rate.count for rate in agreed.values())
    best = [name for name, rate in agreed.items() if rate.count == most]
    return usual if usual in best else best[0]
