"""A language model behind an OpenAI-compatible endpoint, to judge pairs and to word merges.

Its answers are only advice: it may be wrong, or manipulated by the texts. An answer that does not
match the format is rejected, guards take precedence, and its wordings are checked.
"""
# ruff: noqa: SIM905 - a class of words is read as a line

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from schemas.base import Text
from schemas.decisions import Verdict
from streams.judges.chat import Chat, ModelQuestion, object_of
from streams.judges.prompting import FencedData, Prompt
from streams.judges.sharing import SharedAnswers
from streams.model.ports.models import NoAnswer, WordingRequest
from streams.model.scope import tenant
from streams.model.verdict import Opinion, Pair
from streams.text.judge.weighing import RELATIONS

_VERDICTS = {str(verdict): verdict for verdict in RELATIONS}

_DIFFERENCES = tuple(
    "number date name place owner speaker negation opposite state modality frequency quantifier "
    "attribute direction condition other".split()
)
"""The kinds of difference that make two texts distinct: those of the guards, and the rest."""

_REASON_CHARACTERS_MAX = 200
_OPINION_TOKENS_MAX = 300
"""Enough for a reason of 200 characters in any script, every difference, and the JSON."""

_WORDING_TOKENS_SPARE = 100
"""For the JSON around a text; the text has at most a token per character."""

_OPINION: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        # in this order, so that the findings lead to the verdict instead of defending it
        "differs_in": {"type": "array", "items": {"type": "string", "enum": list(_DIFFERENCES)}},
        "reason": {"type": "string", "maxLength": _REASON_CHARACTERS_MAX},
        "verdict": {"type": "string", "enum": list(_VERDICTS)},
    },
    "required": ["differs_in", "reason", "verdict"],
    "additionalProperties": False,
}

_TEXT: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},  # the prompt sets the length: grammars stay small
    "required": ["text"],
    "additionalProperties": False,
}

_STORABLE: TypeAdapter[str] = TypeAdapter(Text)


class LlmVerifier:
    """Implements ports.Verifier.

    Equal pairs of one tenant are asked only once while the answer is cached.
    """

    name = "llm"

    def __init__(self, chat: Chat, prompt: Path | None = None) -> None:
        """Raise Unusable if the prompt in that file cannot be used."""
        self.chat = chat
        self._prompt = Prompt.load("verify", prompt, "verdicts", "differences")
        self._shared: SharedAnswers[Opinion] = SharedAnswers(chat.endpoint.cache_entries)

    async def verify(self, pairs: Sequence[Pair]) -> list[Opinion | NoAnswer]:
        return await asyncio.gather(*(self._verified(pair) for pair in pairs))

    async def close(self) -> None:
        """Close the client, which a wording may share."""
        await self.chat.close()

    async def _verified(self, pair: Pair) -> Opinion | NoAnswer:
        fenced = FencedData.of(_shown(pair), self._prompt)
        # per tenant: no answer, nor its timing, may reveal what another tenant knows
        key = f"{tenant(pair.scope)}/{fenced.digest}"
        return await self._shared.get(key, lambda: self._asked(pair, fenced))

    async def _asked(self, pair: Pair, fenced: FencedData) -> Opinion | NoAnswer:
        instructions = self._prompt.filled(
            fenced, verdicts=", ".join(_VERDICTS), differences=", ".join(_DIFFERENCES)
        )
        answer = await self.chat.ask(
            ModelQuestion(pair.scope, instructions, fenced.text, _OPINION, _OPINION_TOKENS_MAX)
        )
        verdict = answer if isinstance(answer, NoAnswer) else _verdict(answer)
        return verdict if isinstance(verdict, NoAnswer) else Opinion(verdict, self.name)


class LlmWording:
    """Implements ports.Wording."""

    def __init__(self, chat: Chat, prompt: Path | None = None) -> None:
        """Raise Unusable if the prompt in that file cannot be used."""
        self._chat = chat
        self._prompt = Prompt.load("merge", prompt, "characters_max")

    async def word(self, request: WordingRequest) -> str | NoAnswer:
        fenced = FencedData.of(_to_word(request), self._prompt)
        longest = request.characters_max
        instructions = self._prompt.filled(fenced, characters_max=longest)
        tokens_max = longest + _WORDING_TOKENS_SPARE
        answer = await self._chat.ask(
            ModelQuestion(request.scope, instructions, fenced.text, _TEXT, tokens_max)
        )
        return answer if isinstance(answer, NoAnswer) else _worded(answer, longest)


def _shown(pair: Pair) -> JsonValue:
    """Return what the model sees of a pair: the texts, and the context that they may refer to."""
    event, memory = pair.event, pair.memory
    return {
        "new": _without_blanks(
            text=event.text,
            title=event.title,
            said_by=_listed((event.source,) if event.source else ()),
            said_on=_day(event.occurred_at),
            true_from=_day(event.valid_from),
            true_until=_day(event.valid_until),
        ),
        "known": _without_blanks(
            text=memory.text,
            title=memory.title,
            said_by=_listed(memory.sources),
            said_on=_day(memory.created_at),
            last_said_on=_day(memory.last_seen_at),
            true_from=_day(memory.valid_from),
            true_until=_day(memory.valid_until),
        ),
    }


def _to_word(request: WordingRequest) -> JsonValue:
    notes: list[JsonValue] = [
        _without_blanks(text=part.text, said_on=_day(part.said_at), said_by=_listed(part.sources))
        for part in request.parts
    ]
    if request.attempt is None:
        return {"notes": notes}
    lost, invented = _listed(request.missing), _listed(request.invented)
    return {"notes": notes, "attempt": request.attempt, "lost": lost, "invented": invented}


def _without_blanks(**values: JsonValue) -> dict[str, JsonValue]:
    return {name: value for name, value in values.items() if value}


def _listed(values: Sequence[str]) -> list[JsonValue]:
    return list(values)


def _day(moment: datetime | None) -> str | None:
    """Return the day: "tomorrow" refers to it, but the hour would make equal pairs differ."""
    return None if moment is None else moment.date().isoformat()


def _verdict(content: str) -> Verdict | NoAnswer:
    """Return the verdict of a valid answer."""
    answer = object_of(content, required={"reason", "verdict"}, optional={"differs_in"})
    if isinstance(answer, NoAnswer):
        return answer
    reason, verdict, differs_in = answer["reason"], answer["verdict"], answer.get("differs_in", [])
    if not isinstance(verdict, str) or verdict not in _VERDICTS:
        return NoAnswer("unknown verdict")
    if not isinstance(reason, str) or not _are_differences(differs_in):
        return NoAnswer("wrong fields")
    if len(reason) > _REASON_CHARACTERS_MAX:
        return NoAnswer("too long")
    if _VERDICTS[verdict] is Verdict.SAME and differs_in:
        return NoAnswer("contradicts itself")
    return _VERDICTS[verdict]


def _are_differences(value: JsonValue) -> bool:
    return isinstance(value, list) and all(each in _DIFFERENCES for each in value)


def _worded(content: str, characters_max: int) -> str | NoAnswer:
    answer = object_of(content, required={"text"})
    if isinstance(answer, NoAnswer):
        return answer
    text = answer["text"]
    if not isinstance(text, str):
        return NoAnswer("wrong fields")
    text = text.strip()
    if not text:
        return NoAnswer("empty")
    if len(text) > characters_max:
        return NoAnswer("too long")
    try:
        return _STORABLE.validate_python(text)
    except ValidationError:
        return NoAnswer("not storable")
