"""Work in a thread of its own that nobody waits for any more."""

import asyncio
import threading

from streams.log.threads import abandonable


def test_abandoned_work_may_end_after_its_loop() -> None:
    goes_on, ended = threading.Event(), list[threading.Thread]()

    def work() -> None:
        ended.append(threading.current_thread())
        goes_on.wait(30)

    async def abandon() -> None:
        waiting = asyncio.create_task(abandonable(work))
        await asyncio.wait({waiting}, timeout=0.05)
        waiting.cancel()

    asyncio.run(abandon())
    goes_on.set()
    ended[0].join(30)  # an error in it would fail the test: warnings are errors
    assert not ended[0].is_alive()
