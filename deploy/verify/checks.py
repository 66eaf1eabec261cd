"""What is proved, in this order: each check returns what it saw, or raises Failed."""

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from deploy.verify.images import ROOT
from deploy.verify.machine import Failed, run
from deploy.verify.stack import KEY, Container, Stack, ask

_WORKERS = ("deduplicator", "writer")
_PARTITIONS = 6
_GRACE_SECONDS = 90.0
_FIRST = ("trap-door.jsonl", "team.jsonl")
_WHILE_KILLED = "coffee.jsonl"
_WHILE_STOPPED = "late.jsonl"
_LATE = {
    "kind": "remember",
    "schema_version": 1,
    "event_id": "late-1",
    "scope": "acme/late",
    "text": "The cellar key hangs behind the door.",
    "occurred_at": "2026-03-20T10:00:00Z",
}
_CONFINED = """\
import errno, json, pathlib
def refused(path):
    try:
        pathlib.Path(path, "probe").touch()
    except OSError as error:
        return errno.errorcode[error.errno]
lines = pathlib.Path("/proc/self/status").read_text().splitlines()
status = dict(line.split(":\\t", 1) for line in lines if ":\\t" in line)
print(json.dumps({
    "user": status["Uid"].split()[0],
    "capabilities": int(status["CapEff"], 16) | int(status["CapBnd"], 16),
    "no_new_privileges": status["NoNewPrivs"],
    "home": refused("/home/memsieve"), "tmp": refused("/tmp"),
    "init": "init" in pathlib.Path("/proc/1/cmdline").read_text().split("\\0")[0],
}))
"""
_AS_CONFINED = {
    "user": "10001",
    "capabilities": 0,
    "no_new_privileges": "1",
    "home": "EROFS",
    "tmp": None,
    "init": True,
}
_KILL = """\
import os, pathlib
for path in pathlib.Path("/proc").glob("[1-9]*/stat"):
    if path.read_text().rpartition(")")[2].split()[1] == "1" and path.parent.name != str(os.getpid()):
        os.kill(int(path.parent.name), 9)
"""


def up(stack: Stack) -> str:
    for name in (*_FIRST, _WHILE_KILLED, "lighthouse-turns.jsonl"):
        shutil.copy(ROOT / "examples" / name, stack.data)
    (stack.data / _WHILE_STOPPED).write_text(json.dumps(_LATE) + "\n", "utf-8")
    stack.make("up")
    containers = {one.service: one for one in stack.containers()}
    topics = containers.pop("topics")
    _same("the exit code of topics", topics.state["ExitCode"], 0)
    _same("services", set(containers), {"kafka", "qdrant", *_WORKERS})
    _healthy(containers.values())
    return "kafka, qdrant, deduplicator, writer"


def order(stack: Stack) -> str:
    kafka, topics = stack.container("kafka"), stack.container("topics")
    healthy = next(one["End"] for one in kafka.state["Health"]["Log"] if not one["ExitCode"])
    moments = [
        kafka.moment("StartedAt"),
        datetime.fromisoformat(healthy),
        topics.moment("StartedAt"),
        topics.moment("FinishedAt"),
        min(one.moment("StartedAt") for one in stack.containers(*_WORKERS)),
    ]
    _same("the order of the starts", moments, sorted(moments))
    return "kafka, its health check, topics, its end, the workers"


def image(stack: Stack) -> str:
    images = {one.image for one in stack.containers("topics", *_WORKERS)}
    _same("images", len(images), 1)
    return images.pop()[:19]


def confined(stack: Stack) -> str:
    return _confined(stack.containers(*_WORKERS))


def key(stack: Stack) -> str:
    return _with_key(stack.containers("topics", *_WORKERS))


def ports(stack: Stack) -> str:
    for one in stack.containers(*_WORKERS):
        _same(f"/ready of {one.service}", one.get("/ready").status, 200)
        _same(f"partitions of {one.service}", _ready(one), _PARTITIONS)
    return f"{_PARTITIONS} partitions ready in each"


def volume(stack: Stack) -> str:
    for name in _FIRST:
        stack.memsieve("run", f"/data/{name}")
    return f"{len(_memories(stack, '--store', '/store'))} memories"


def session(stack: Stack) -> str:
    for name in _FIRST:
        stack.memsieve("publish", f"/data/{name}")
    _until_as_the_store(stack)
    kinds = _kinds(stack)
    _same("decisions", kinds, _kinds(stack, "--store", "/store"))
    return f"{len(kinds)} decisions, {len(_memories(stack))} memories"


def explained(stack: Stack) -> str:
    told = stack.memsieve("explain", "trap-6")
    [decision] = [one for one in stack.listed("decisions") if _event(one) == "trap-6"]
    if decision["why"] not in told:
        raise Failed(f"explain trap-6 does not say {decision['why']!r}:\n{told}")
    return decision["why"]


def letters(stack: Stack) -> str:
    found = stack.memsieve("dead-letters", "list")
    if "acme/*" not in found:
        raise Failed(f"no letter about the scope acme/*:\n{found}")
    return found.strip().splitlines()[0]


def scaled(stack: Stack) -> str:
    stack.compose("up", "--detach", "--wait", "--scale", "deduplicator=2", "deduplicator")
    taken = stack.wait("3 partitions each", lambda: _shares(stack) == [3, 3])
    return f"3 and 3, after {taken:.0f} s"


def killed(stack: Stack) -> str:
    victim = stack.containers("deduplicator")[0]
    victim.execute("python", "-c", _KILL)
    stack.memsieve("publish", f"/data/{_WHILE_KILLED}")
    stack.memsieve("run", f"/data/{_WHILE_KILLED}")
    _until_as_the_store(stack)
    _same("decisions", _kinds(stack), _kinds(stack, "--store", "/store"))
    stack.wait("both healthy", lambda: all(one.healthy for one in stack.containers("deduplicator")))
    taken = stack.wait("3 partitions each", lambda: _shares(stack) == [3, 3])
    [again] = [one for one in stack.containers("deduplicator") if one.id == victim.id]
    _same("restarts", again.restarts, 1)
    return f"3 and 3 again, after {taken:.0f} s more"


def stopped(stack: Stack) -> str:
    start = time.monotonic()
    stack.compose("stop", "writer")
    taken = time.monotonic() - start
    _same("the exit code of the writer", stack.container("writer").state["ExitCode"], 0)
    if taken >= _GRACE_SECONDS:
        raise Failed(f"it took {taken:.0f} s")
    stack.memsieve("publish", f"/data/{_WHILE_STOPPED}")
    stack.wait("a decision without a writer", lambda: "late-1" in _kinds(stack))
    stack.compose("start", "writer")
    stack.wait("the writer is healthy", lambda: stack.container("writer").healthy)
    stack.memsieve("run", f"/data/{_WHILE_STOPPED}")
    _until_as_the_store(stack)
    return f"it took {taken:.0f} s to stop"


def audited(stack: Stack) -> str:
    told = stack.memsieve("check", "--full", variables=("MEMSIEVE_INDEX__KIND=qdrant",))
    [line] = [line for line in told.splitlines() if line.startswith("ok  index")]
    return line.removeprefix("ok  index").strip()


def forgotten(stack: Stack) -> str:
    [memory] = [one for one in stack.listed("memory", "list") if one["scope"] == "acme/late"]
    stack.memsieve("forget", memory["id"])
    stack.wait(
        "the memory is gone",
        lambda: memory["id"] not in {one["id"] for one in stack.listed("memory", "list")},
    )
    return memory["id"][:8]


def api(stack: Stack) -> str:
    stack.compose("--profile", "api", "up", "--detach", "--wait", "api")
    place = "http://127.0.0.1:8090/v1/memories"
    event = {"scope": "cafe/verify", "text": "Verity orders mint tea.", "event_id": "api-1"}
    added = ask(place, event)
    if added.status not in {200, 202}:  # 202: not decided within api.decision_seconds
        raise Failed(f"adding: {added}")
    query = {"scope": "cafe/verify", "query": "mint tea"}
    stack.wait("it is found", lambda: event["text"] in ask(f"{place}/search", query).text)
    return "a memory added and found"


def web(stack: Stack) -> str:
    stack.compose("--profile", "web", "up", "--detach", "--wait", "web")
    page = ask("http://127.0.0.1:8091/decisions")
    if page.status != 200 or 'type="password"' not in page.text:
        raise Failed(f"no login: {page}")
    return "200"


def turns(stack: Stack) -> str:
    stack.compose("--profile", "turns", "up", "--detach", "--wait", "extractor")
    stack.memsieve("publish", "/data/lighthouse-turns.jsonl", "--turns")
    stack.wait("memories of island/ana", lambda: "island/ana" in _scopes(stack))
    return "island/ana"


def consolidation(stack: Stack) -> str:
    stack.compose("--profile", "consolidation", "up", "--detach", "--wait", "consolidator")
    one = stack.container("consolidator")
    stack.wait("a pass", lambda: one.metric("memsieve_consolidation_passes_total") >= 1)
    one.execute("test", "-s", "/store/passes.sqlite3")
    return "a pass made"


def profiles(stack: Stack) -> str:
    found = stack.containers("api", "web", "extractor", "consolidator")
    _healthy(found)
    _with_key(found)
    return _confined(found)


def down(stack: Stack) -> str:
    before = _memories(stack)
    nameless = [name for one in stack.containers() for name in one.nameless]
    stack.make("down")
    run(["docker", "volume", "rm", *nameless])  # of Kafka's image; `down` leaves them
    _same("containers", [one.service for one in stack.containers()], [])
    stack.make("up")
    _same("memories", _memories(stack), before)
    return f"{len(before)} memories"


CHECKS: Mapping[str, Callable[[Stack], str]] = {
    "`make up` ends with every server and worker healthy, and the topics made": up,
    "What depends on another started after it": order,
    "All our containers are of one image": image,
    "Our containers run as 10001 with a read-only root, no capability and an init; /tmp is theirs": confined,
    "MEMSIEVE_FORGET__KEY of this machine reaches our containers": key,
    "/ready and /metrics of each worker answer at the port that Docker gave": ports,
    "`run` keeps a store in the volume at /store, and the next container reads it": volume,
    "`publish`, `memory list` and `decisions` say of the cluster what they say of that store": session,
    "`explain` gives the reason for a decision": explained,
    "`dead-letters list` shows the event that cannot be used": letters,
    "Two deduplicators share the partitions": scaled,
    "`kill -9` of one loses nothing, and Docker starts it again": killed,
    "The writer stops in order within its grace; what is decided meanwhile is applied later": stopped,
    "`check --full` finds that log and collection agree": audited,
    "`forget` is carried out: every process has the key": forgotten,
    "The profile `api` answers at 127.0.0.1:8090 whoever has a token": api,
    "The profile `web` shows its login at 127.0.0.1:8091": web,
    "The profile `turns` makes memories of turns": turns,
    "The profile `consolidation` keeps in its volume what it has examined": consolidation,
    "Each of the profiles' containers is confined like the others, has the key, and is healthy": profiles,
    "`make down` removes every container, `make up` finds all memories again": down,
}
"""What each proves, in a line."""


def _healthy(containers: Iterable[Container]) -> None:
    _same("not healthy", [one.service for one in containers if not one.healthy], [])


def _with_key(containers: Iterable[Container]) -> str:
    key = f"MEMSIEVE_FORGET__KEY={KEY}"
    _same("without it", [one.service for one in containers if key not in one.environment], [])
    return _names(containers)


def _confined(containers: Iterable[Container]) -> str:
    for one in containers:
        _same(one.service, json.loads(one.execute("python", "-c", _CONFINED)), _AS_CONFINED)
    return _names(containers)


def _names(containers: Iterable[Container]) -> str:
    return ", ".join(sorted({one.service for one in containers}))


def _same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Failed(f"{what}: {found!r}, not {wanted!r}")


def _ready(one: Container) -> float:
    topic = {"deduplicator": "memory.events", "writer": "memory.decisions"}[one.service]
    return one.metric("memsieve_partitions", topic=topic, state="ready")


def _shares(stack: Stack) -> list[float]:
    """Return how many partitions each healthy deduplicator has claimed."""
    return [_ready(one) for one in stack.containers("deduplicator") if one.healthy]


def _memories(stack: Stack, *where: str) -> set[tuple[str, str, int]]:
    found = stack.listed("memory", "list", *where)
    return {(one["id"], one["text"], one["observation_count"]) for one in found}


def _kinds(stack: Stack, *where: str) -> Mapping[str, list[str]]:
    """Return the kinds of decision on each event, in order."""
    return _grouped((_event(one), one["kind"]) for one in stack.listed("decisions", *where))


def _grouped(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for event, kind in pairs:
        kinds.setdefault(event, []).append(kind)
    return kinds


def _scopes(stack: Stack) -> set[str]:
    return {one["scope"] for one in stack.listed("memory", "list")}


def _event(decision: dict[str, Any]) -> str:
    """Return the id of the event; a record that is no event has none."""
    return decision["event"]["event_id"] if "event" in decision else ""


def _until_as_the_store(stack: Stack) -> None:
    wanted = _memories(stack, "--store", "/store")
    stack.wait("the memories of the store", lambda: _memories(stack) == wanted)
