"""A memory block for LlamaIndex that keeps what users said in memsieve, each fact once.

    from llama_index.core.memory import Memory as ChatMemory
    from memsieve import Memory
    block = MemsieveBlock(memory=Memory("notes"), scope="acme/ana")
    chat = ChatMemory.from_defaults(session_id="chat-1", memory_blocks=[block])

It takes the user's messages that leave the short-term memory, and gives what memsieve recalls for
the newest one. For the facts in longer messages, extract them first.
"""
# ruff: noqa: INP001 - a program, not a package
# pyright: basic, reportMissingImports=false

import asyncio

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock

from memsieve import Memory


class MemsieveBlock(BaseMemoryBlock[str]):
    name: str = "memories"
    memory: Memory
    scope: str
    budget: int = 500
    """The most tokens that the block takes in a prompt."""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        said = [
            {"text": message.content, "session": message.additional_kwargs.get("session_id")}
            for message in _of_user(messages)
        ]
        rows = [{name: one for name, one in row.items() if one is not None} for row in said]
        await asyncio.to_thread(self.memory.add_many, rows, scope=self.scope)

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: object) -> str:
        asked = [message.content for message in _of_user(messages or [])]
        return await asyncio.to_thread(
            self.memory.recall, asked[-1] if asked else None, scope=self.scope, budget=self.budget
        )


def _of_user(messages: list[ChatMessage]) -> list[ChatMessage]:
    return [one for one in messages if one.role == MessageRole.USER and one.content]
