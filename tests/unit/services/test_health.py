"""Servers are asked for a limited time whether they answer."""

import asyncio

from streams.services.world.health import without_answer


async def test_it_is_told_which_servers_give_no_answer_and_why() -> None:
    async def well() -> str:
        return "fine"

    async def failing() -> None:
        raise OSError("connection refused")

    async def silent() -> None:
        await asyncio.Event().wait()

    told = await without_answer({"kafka": well, "index": failing, "memories": silent})
    assert told == {"index": "connection refused", "memories": "no answer in 2 s"}
