"""Steps of logins run one at a time, in the order in which they were asked for."""

from __future__ import annotations

import asyncio

from moldau.link.login.one_thread import OneThread
from moldau.runtime import Runtime
from moldau.runtime.real import run


def test_steps_run_in_their_order_also_behind_one_that_fails_and_one_that_was_given_up() -> None:
    async def main(runtime: Runtime) -> None:
        thread, order = OneThread(), list[int]()

        def step(number: int) -> bytes:
            order.append(number)
            if number == 1:
                raise ValueError
            return bytes([number])

        def ask(number: int) -> asyncio.Task[bytes]:
            return asyncio.create_task(thread.result(runtime, lambda: step(number)))

        tasks = [ask(number) for number in range(50)]
        await asyncio.wait(tasks[:1])
        tasks[30].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[1], ValueError)
        assert isinstance(results[30], asyncio.CancelledError)
        assert order == [number for number in range(50) if number != 30]
        assert results[49] == bytes([49])

    run(main)
