"""A worker that runs as long as a scenario goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def beside(work: Coroutine[Any, Any, None], scenario: Coroutine[Any, Any, None]) -> None:
    """The worker, as long as the scenario goes on."""
    worker = asyncio.ensure_future(work)
    told = asyncio.ensure_future(scenario)
    await asyncio.wait([worker, told], return_when=asyncio.FIRST_COMPLETED)
    if not told.done():
        told.cancel()
        await worker
    worker.cancel()
    await asyncio.wait([worker])
    await told
