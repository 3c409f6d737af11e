"""Asks several servers at the same time, so that a page waits for the slowest one only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def together(questions: Iterable[Awaitable[T]]) -> list[T]:
    """Return all answers, in the order of the questions; raise the first error."""
    return list(await asyncio.gather(*questions))
