"""Await the async functions of an app under test, on an event loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from moldau.streams.engine.operators.deferred import AsyncCall, finish_all


def await_all(calls: Sequence[AsyncCall]) -> None:
    """Run all calls concurrently, and finish each."""

    async def run() -> None:
        coroutines = (call.coroutine for call in calls)
        results = await asyncio.gather(*coroutines, return_exceptions=True)
        finish_all(calls, results)

    asyncio.run(run())
