"""Wait for the first of several coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from moldau.runtime import Runtime


async def until_first(runtime: Runtime, **waits: Coroutine[Any, Any, object]) -> None:
    """Run the coroutines as tasks of these names. Wait until one ends, and cancel the others."""
    tasks = [runtime.spawn(each, name=name.replace("_", "-")) for name, each in waits.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
