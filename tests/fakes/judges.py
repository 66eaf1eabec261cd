"""A Verifier and a Wording that say what a test tells them to."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from schemas.decisions import Verdict
from streams.model.ports.models import NoAnswer, WordingRequest
from streams.model.verdict import Opinion, Pair

Said: TypeAlias = Verdict | Opinion | NoAnswer


class ScriptedVerifier:
    """Answers from a table of (event's text, memory's text), or what a function says of the pair.

    KeyError on a pair outside the table: nobody thought of it. `asked` holds every pair.
    """

    def __init__(
        self,
        script: Mapping[tuple[str, str], Said] | Callable[[Pair], Said],
        *,
        name: str = "llm",
    ) -> None:
        self._script = script
        self._name = name
        self.asked: list[Pair] = []
        self.closed = False

    @property
    def name(self) -> str:
        return self._name

    async def verify(self, pairs: Sequence[Pair]) -> list[Opinion | NoAnswer]:
        self.asked += pairs
        return [self._answer(self._said(pair)) for pair in pairs]

    async def close(self) -> None:
        self.closed = True

    def _said(self, pair: Pair) -> Said:
        if callable(self._script):
            return self._script(pair)
        return self._script[pair.event.text, pair.memory.text]

    def _answer(self, said: Said) -> Opinion | NoAnswer:
        return Opinion(said, self._name) if isinstance(said, Verdict) else said


class ScriptedWording:
    """Words in turn what it is given, or what a function says of the request.

    IndexError on a request too many. `asked` holds every request.
    """

    def __init__(
        self, script: Sequence[str | NoAnswer] | Callable[[WordingRequest], str | NoAnswer]
    ) -> None:
        self._script = script
        self.asked: list[WordingRequest] = []

    async def word(self, request: WordingRequest) -> str | NoAnswer:
        self.asked.append(request)
        if callable(self._script):
            return self._script(request)
        return self._script[len(self.asked) - 1]
