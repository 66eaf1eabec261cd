"""A store for LangGraph that keeps texts in memsieve, each fact once.

    from memsieve import Memory
    graph = builder.compile(store=MemsieveStore(Memory("notes")))

A namespace is a scope. An item's text is its value's `content`, as LangMem writes it; what else the
value holds is kept beside it. Keys whose texts say the same name one memory: each of them gets the
text that now stands for both, and a delete by one of them retires it for all.
"""
# ruff: noqa: INP001 - a program, not a package
# pyright: basic, reportMissingImports=false

import asyncio
from collections.abc import Iterable
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from memsieve import Memory, MemoryRecord

KEY = "key:"
"""What a key's name begins with in a memory's metadata, where merges unite those of all keys."""

FOUND_MAX = 100


class MemsieveStore(BaseStore):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return [self._done(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _done(self, op: Op) -> Result:
        match op:
            case GetOp():
                found = self._named(op.namespace, op.key)
                return None if found is None else Item(**_parts(found, op.key))
            case PutOp(value=None):
                if (found := self._named(op.namespace, op.key)) is not None:
                    self._memory.retire(found.id, author="langgraph")
            case PutOp():
                self._put(op)
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                return self._namespaces(op)
        return None

    def _put(self, op: PutOp) -> None:
        value = dict(op.value or {})
        text = value.pop("content", None)
        if not isinstance(text, str):
            raise ValueError(f"{op.key}: the value has no text; give it as 'content'")  # noqa: TRY004
        self._memory.add(
            text, scope=_scope(op.namespace), memory_id=op.key, metadata={KEY + op.key: value}
        )

    def _named(self, namespace: tuple[str, ...], key: str) -> MemoryRecord | None:
        """Return the live memory that a key names: the last one, if its text was changed."""
        live = self._memory.memories(_scope(namespace))
        named = [one for one in live if KEY + key in one.metadata or one.id == key]
        return max(named, key=lambda one: one.last_seen_at, default=None)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        below = [
            one
            for one in self._memory.memories()
            if _path(one.scope)[: len(op.namespace_prefix)] == op.namespace_prefix
        ]
        found = [(one, None) for one in below] if op.query is None else self._near(op, below)
        items = [SearchItem(**_parts(one), score=score) for one, score in found]
        fitting = [item for item in items if _fits(item.value, op.filter or {})]
        return fitting[op.offset : op.offset + op.limit]

    def _near(
        self, op: SearchOp, below: list[MemoryRecord]
    ) -> list[tuple[MemoryRecord, float | None]]:
        """Return what is nearest to a query, in all namespaces below the prefix."""
        records = {str(one.id): one for one in below}
        results = [
            result
            for scope in {one.scope for one in below}
            for result in self._memory.search(str(op.query), scope=scope, limit=FOUND_MAX)
        ]
        nearest = sorted(results, key=lambda one: -one.score)
        return [(records[one.memory_id], one.score) for one in nearest if one.memory_id in records]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = {_path(one.scope) for one in self._memory.memories()}
        fitting = {
            path[: op.max_depth]
            for path in found
            if all(_matches(path, condition) for condition in op.match_conditions or ())
        }
        return sorted(fitting)[op.offset : op.offset + op.limit]


def _scope(namespace: tuple[str, ...]) -> str:
    if any("/" in part for part in namespace):
        raise ValueError(f"{namespace}: a part of a namespace must not hold a slash")
    return "/".join(namespace)


def _path(scope: str) -> tuple[str, ...]:
    return tuple(scope.split("/"))


def _parts(memory: MemoryRecord, key: str | None = None) -> dict[str, Any]:
    """Return the parts of an item; without a key, under the first of its keys, else its id."""
    keys = sorted(name.removeprefix(KEY) for name in memory.metadata if name.startswith(KEY))
    chosen = key or next(iter(keys), memory.id)
    beside = memory.metadata.get(KEY + chosen)
    return {
        "namespace": _path(memory.scope),
        "key": chosen,
        "value": {**(beside if isinstance(beside, dict) else {}), "content": memory.text},
        "created_at": memory.created_at,
        "updated_at": memory.last_seen_at,
    }


def _fits(value: dict[str, Any], wanted: dict[str, Any]) -> bool:
    for name, one in wanted.items():
        if isinstance(one, dict) and any(part.startswith("$") for part in one):
            raise ValueError(f"filter {name}: only equality is supported, not {', '.join(one)}")
    return all(value.get(name) == one for name, one in wanted.items())


def _matches(path: tuple[str, ...], condition: MatchCondition) -> bool:
    wanted = condition.path
    if len(path) < len(wanted):
        return False
    part = path[: len(wanted)] if condition.match_type == "prefix" else path[-len(wanted) :]
    return all(want in ("*", have) for want, have in zip(wanted, part, strict=True))
