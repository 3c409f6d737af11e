"""A pause in virtual time."""

from __future__ import annotations

import asyncio


async def after(seconds: float) -> None:
    """So much virtual time passes."""
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    timer = loop.call_later(seconds, passed.set_result, None)
    try:
        await passed
    finally:
        timer.cancel()  # the wait may be cancelled
