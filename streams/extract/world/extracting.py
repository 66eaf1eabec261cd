"""A language model that extracts a memory from a turn; the core checks its answers."""

from pathlib import Path

from schemas.events import Remember
from streams.extract.core import synthesis
from streams.extract.core.synthesis import Abstention, Material, RejectedAnswer
from streams.judges.chat import Chat, ModelQuestion, object_of
from streams.judges.prompting import FencedData, Prompt
from streams.model.ports.models import NoAnswer

_LENGTHS = {
    "text_max": synthesis.TEXT_CHARACTERS,
    "title_max": synthesis.TITLE_CHARACTERS,
    "reasoning_max": synthesis.REASONING_CHARACTERS,
    "reason_max": synthesis.REASON_CHARACTERS,
}
_TOKENS_MAX = (
    synthesis.REASONING_CHARACTERS + synthesis.TITLE_CHARACTERS + synthesis.TEXT_CHARACTERS + 400
)
"""A text has at most a token per character; the rest is for ids, short fields and JSON's signs."""


class LlmExtractor:
    """Implements port.Extracting: asks for one memory of a turn.

    Answers to the same question may differ in wording, depending on `temperature`.
    """

    def __init__(self, chat: Chat, prompt: Path | None = None, *, temperature: float) -> None:
        """Raise Unusable if the prompt in that file cannot be used."""
        self._chat = chat
        self._temperature = temperature
        self._prompt = Prompt.load("extract", prompt, "retired_max", *_LENGTHS)

    async def extract(
        self, material: Material, refused: str | None = None
    ) -> Remember | Abstention | RejectedAnswer | NoAnswer:
        fenced = FencedData.of(synthesis.shown(material, refused), self._prompt)
        question = ModelQuestion(
            scope=material.looked.turn.scope,
            instructions=self._prompt.filled(fenced, retired_max=material.retired_max, **_LENGTHS),
            data=fenced.text,
            schema=synthesis.ANSWER,
            tokens_max=_TOKENS_MAX + synthesis.REASON_CHARACTERS * material.retired_max,
            temperature=self._temperature,
        )
        answer = await self._chat.ask(question)
        if isinstance(answer, NoAnswer):
            return answer
        fields = object_of(answer, required=synthesis.REQUIRED, optional=synthesis.OPTIONAL)
        return fields if isinstance(fields, NoAnswer) else synthesis.understood(fields, material)

    async def close(self) -> None:
        await self._chat.close()
