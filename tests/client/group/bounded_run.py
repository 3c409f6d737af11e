"""A run on a real event loop that ends in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def run(main: Callable[[], Coroutine[Any, Any, Any]], within_s: float = 60) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(within_s):
            return await main()

    return asyncio.run(bounded())
