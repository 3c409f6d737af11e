"""Await the async functions of an app under test, on an event loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from moldau.streams.engine.operators.deferred import AsyncCall
from moldau.streams.worker.calls import finish_together


def await_all(calls: Sequence[AsyncCall]) -> None:
    """Run all calls concurrently, and finish each."""
    asyncio.run(finish_together(calls))
