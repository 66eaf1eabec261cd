"""One schedule: who goes on when, and what goes wrong, all drawn from a seed."""

from random import Random

from schemas.topics import DECISIONS, EVENTS
from streams.model.ports.log import CommittedOffset
from streams.stage.flow.takeover import DEDUPLICATOR_GROUP
from streams.stage.flow.writer import WRITER_GROUP
from tests.simulation.asking import left_of_forgotten, requests
from tests.simulation.cluster import QUIET, Cluster, Divergence, Rates, Tenure, at_once
from tests.simulation.passing import consolidate
from tests.simulation.processes import Actor, Life
from tests.simulation.stream import LENIENT, STRICT, Asked, stream, wishes

_TOPICS = {DEDUPLICATOR_GROUP: EVENTS.name, WRITER_GROUP: DECISIONS.name}

_ALIKE = 10
"""So many seeds in a row have the same events: what must come of them is worked out once."""

_LOST_AT_REST = 0.1
"""How often the index is lost when all is done: no decision comes by which that would show."""

_LENIENT = 0.2
"""How many streams are decided on by a rule that stores unchecked what cannot be compared."""

_AWAY = 0.005
"""How often, there, index or embedder go away at a turn, for so many turns at least and at most."""
_AWAY_FOR = (30, 200)

_SETTLES_WITHIN = 20_000
"""Turns without trouble after which everything must have been done."""


class Schedule:
    """The processes of a seed: two or three that decide, and two that write."""

    def __init__(self, seed: int, *, harder: bool = False) -> None:
        """Where it is `harder`, more goes wrong than usual."""
        rng = self._rng = Random(seed)  # noqa: S311
        rates = Rates.drawn(rng, harder=harder)
        partitions = 2 if rng.random() < 0.2 else 1
        is_lenient = Random(f"rule {seed // _ALIKE}").random() < _LENIENT  # noqa: S311
        rule = LENIENT if is_lenient else STRICT
        self.cluster = Cluster(rng, rates, partitions, room=3 if harder else 100, rule=rule)
        told = stream(Random(seed // _ALIKE), partitions, rule)  # noqa: S311
        self._events = wishes(Random(f"wishes {seed // _ALIKE}"), told, partitions, rule)  # noqa: S311
        self._absences = Random(f"absences {seed}")  # noqa: S311
        groups = {DEDUPLICATOR_GROUP: rng.choice(("D1 D2", "D1 D2 D3")), WRITER_GROUP: "W1 W2"}
        self._lives = [
            Life(self.cluster, name, group, 1)
            for group, names in groups.items()
            for name in names.split()
        ]

    def run(self) -> None:
        """Publish the events while everything goes wrong; then let everything be done."""
        try:
            for group in _TOPICS:
                for partition in range(self.cluster.partitions):
                    self._assign(group, partition)
            self._trouble(self._rng.randint(200, 600))
            self._calm()
        finally:
            for life in self._lives:
                life.end()

    def _trouble(self, turns: int) -> None:
        published = 2 * len(self._events) / turns
        for _ in range(turns):
            if self._events and self._rng.random() < published and not self._waits():
                self._publish()
            if self.cluster.rule.is_lenient and self._absences.random() < _AWAY:
                what = self._absences.choice(("index", "embedder"))
                self.cluster.go_away(what, self._absences.randint(*_AWAY_FOR))
            if not self._turn():
                self._wait()
        while self._events:
            self._publish()

    def _calm(self) -> None:
        self.cluster.rates = QUIET
        self.cluster.away.clear()
        self.cluster.tell("from here on nothing goes wrong")
        now = self.cluster.turns
        for life in self._lives:
            for actor in life.actors:
                actor.wakes = min(actor.wakes, now + 50)
        self._settle()
        while self._forget_again():
            self._settle()
        if self.cluster.rule.is_lenient:
            consolidate(self.cluster, self._settle)
        if self._rng.random() < _LOST_AT_REST:
            at_once(self.cluster.lose_index(noticed=self._rng.random() < 0.5))
            self._settle()

    def _settle(self) -> None:
        began = self.cluster.turns
        while not self._settled():
            if self.cluster.turns > began + _SETTLES_WITHIN:
                raise Divergence("it does not come to an end")
            if self._rng.random() < 0.1:
                self._inform()
                self._arrive()
            self._turn()

    def _forget_again(self) -> bool:
        """Ask for what came to the log only after a request to forget had been worked out.

        An answer of an owner that was fenced out may be late, and events may come again.
        """
        log, count = self.cluster.log, self.cluster.partitions
        asked = left_of_forgotten(log, count, hours=200 + self.cluster.turns)
        for record in asked:
            self.cluster.happened["it was asked to forget again"] += 1
            at_once(self.cluster.append("producer", [record]))
        return bool(asked)

    def _turn(self) -> bool:
        """Let one that is awake go on; tell whether there is one."""
        self.cluster.turns += 1
        now, changes = self.cluster.turns, self.cluster.changes
        awake = [
            actor
            for life in self._lives
            for actor in life.actors
            if actor.wakes <= now and actor.settled != changes
        ]
        if awake:
            actor = self._rng.choice(awake)
            risk = actor.step()
            if self.cluster.rates is not QUIET:
                self._mishaps(actor, risk)
        return bool(awake)

    def _wait(self) -> None:
        """Nobody has anything to do: go on to when somebody has, or move what is stalled."""
        if self._events:
            self._publish()
            return
        sleepers = [(actor, life) for life in self._lives for actor in life.actors]
        actor, life = min(sleepers, key=lambda pair: pair[0].wakes)
        if self.cluster.rates.move and self._rng.random() < 0.5:
            self._move(life)
        else:
            actor.wakes = self.cluster.turns

    def _settled(self) -> bool:
        """Tell whether everybody has found nothing left to do."""
        cluster = self.cluster
        actors = (actor for life in self._lives for actor in life.actors)
        return not cluster.arrivals and all(one.settled == cluster.changes for one in actors)

    def _mishaps(self, busy: Actor, risk: float) -> None:
        """Let at most one thing happen, mostly to one that is in the middle of something."""
        rates, chance = self.cluster.rates, self._rng.random()
        if chance >= rates.most(risk):
            return
        for rate, happen in (
            (risk * rates.crash, lambda: self._crash(self._life_of(busy))),
            (risk * rates.stall, lambda: self._stall(busy, 40)),
            (risk * rates.move, lambda: self._give_up_on(busy)),
            (rates.rebalance, lambda: self._move(self._rng.choice(self._lives))),
            (rates.rewind, self._rewind),
            (rates.lose, lambda: self._lose(noticed=True)),
            (rates.swap, lambda: self._lose(noticed=False)),
            (rates.news, self._inform),
            (rates.news, self._arrive),
        ):
            chance -= rate
            if chance < 0.0:
                happen()
                return

    def _give_up_on(self, busy: Actor) -> None:
        self._stall(busy, self._rng.choice((100, 300, 600)))
        self._move(self._life_of(busy))

    def _publish(self) -> None:
        step = self._events.pop(0)
        if isinstance(step, Asked):
            self._ask(step)
        else:
            at_once(self.cluster.append("producer", [step]))

    def _waits(self) -> bool:
        """Tell whether the next one to publish waits until all is decided on."""
        step, log = self._events[0], self.cluster.log
        if not isinstance(step, Asked) or not step.patient:
            return False
        group, topic = DEDUPLICATOR_GROUP, EVENTS.name
        for partition in range(self.cluster.partitions):
            committed = at_once(log.committed(group, topic, partition))
            if (committed or CommittedOffset(0)).offset < at_once(log.end(topic, partition)):
                return True
        return False

    def _ask(self, wish: Asked) -> None:
        """Work out what is asked for; until it is published, others may be heard."""
        at = self._rng.choice((0, 0, 0, 0, 1, 2))
        try:
            found = requests(wish, self.cluster.log, self.cluster.partitions)
        except Exception as error:
            raise Divergence(f"to {wish.kind}: {type(error).__name__}: {error}") from error
        self._events[at:at] = found
        self.cluster.tell(f"somebody asks to {wish.kind}, in {len(found)} requests")

    def _stall(self, actor: Actor, longest: int) -> None:
        actor.wakes = self.cluster.turns + self._rng.randint(5, longest)
        self.cluster.happened["somebody stalled"] += 1
        self.cluster.tell(f"{actor.name} is not heard of until {actor.wakes}")

    def _move(self, life: Life) -> None:
        """Give the partitions that a process has to others, as when it was not heard of."""
        for (group, partition), tenure in list(self.cluster.tenures.items()):
            if tenure.holder == life.name:
                self._assign(group, partition)
                self.cluster.happened["a partition was moved"] += 1

    def _assign(self, group: str, partition: int) -> None:
        """Give a partition to one that is awake, if there is any; who had it learns of it later."""
        members = [life for life in self._lives if life.group == group]
        awake = [life for life in members if life.actors[partition].wakes <= self.cluster.turns]
        life = self._rng.choice(awake or members)
        life.actors[partition].wakes = self.cluster.turns
        tenure = self.cluster.tenures[group, partition] = Tenure(life.name)
        life.believed[partition] = tenure
        self.cluster.changes += 1
        self.cluster.tell(f"{life.who} gets {_TOPICS[group]}/{partition}")

    def _inform(self) -> None:
        """Let one learn that a partition of its was moved."""
        for life in self._rng.sample(self._lives, len(self._lives)):
            for partition, tenure in life.believed.items():
                if tenure not in {None, self.cluster.tenures[life.group, partition]}:
                    life.believed[partition] = None
                    place = f"{_TOPICS[life.group]}/{partition}"
                    self.cluster.tell(f"{life.who} learns that {place} was moved")
                    return

    def _arrive(self) -> None:
        if self.cluster.arrivals:
            at_once(self.cluster.arrive())

    def _crash(self, life: Life) -> None:
        """End a process and begin it anew; its partitions go to anybody."""
        self.cluster.happened["a process crashed"] += 1
        self.cluster.tell(f"{life.who} crashes")
        life.end()
        place = self._lives.index(life)
        self._lives[place] = Life(self.cluster, life.name, life.group, life.number + 1)
        for (group, partition), tenure in list(self.cluster.tenures.items()):
            if tenure.holder == life.name:
                self._assign(group, partition)

    def _rewind(self) -> None:
        """Set the writer back by hand, which is done while its group is away; stragglers are not."""
        partition = self._rng.randrange(self.cluster.partitions)
        kept = self.cluster.kept.get(partition)
        if not kept:
            return
        place = self._rng.choice(kept)
        if self._rng.random() < 0.3:
            place = CommittedOffset(self._rng.randint(0, place.offset))
        self._crash(self._holder(WRITER_GROUP, partition))
        at_once(self.cluster.log.commit(WRITER_GROUP, DECISIONS.name, partition, place))
        self.cluster.happened["the writer was set back"] += 1
        self.cluster.tell(f"the writer is set back to {DECISIONS.name}/{partition}/{place.offset}")

    def _lose(self, *, noticed: bool) -> None:
        """Empty the index; often the writers are started again at once, to build it anew."""
        at_once(self.cluster.lose_index(noticed=noticed))
        if self._rng.random() < 0.5:
            for partition in range(self.cluster.partitions):
                self._crash(self._holder(WRITER_GROUP, partition))

    def _holder(self, group: str, partition: int) -> Life:
        name = self.cluster.tenures[group, partition].holder
        return next(life for life in self._lives if life.name == name)

    def _life_of(self, actor: Actor) -> Life:
        return next(life for life in self._lives if actor in life.actors)
