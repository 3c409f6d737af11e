"""Run an app with patterns as inputs, and restart it when the topics that match change.

The worker commits and leaves its group first, so a change costs what a rebalance costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from moldau.streams.plan.patterns import matches, resolved
from moldau.streams.plan.plan import Plan
from moldau.streams.worker.reports import Reports

TopicNames = Callable[[], Awaitable[set[str]]]
RunPlan = Callable[[Plan], Coroutine[Any, Any, None]]


async def run_as_topics_come(
    plan: Plan, names: TopicNames, run: RunPlan, refresh_s: float, reports: Reports
) -> None:
    """Run until cancelled; then stop the worker in order. `run` runs a plan without patterns."""
    current: dict[str, tuple[str, ...]] = {}
    worker: asyncio.Future[None] | None = None
    with suppress(asyncio.CancelledError):
        try:
            while True:
                found = matches(plan, await names())
                missing = [each for each, topics in found.items() if not topics]
                if missing:
                    reports.waiting_for(missing)
                elif found != current:
                    await _stop(worker)
                    reports.matched(found)
                    current = found
                    worker = asyncio.ensure_future(run(resolved(plan, found)))
                if worker is None:
                    await asyncio.sleep(refresh_s)
                    continue
                await asyncio.wait([worker], timeout=refresh_s)
                if worker.done():
                    return worker.result()
        finally:
            await _stop(worker)


async def _stop(worker: asyncio.Future[None] | None) -> None:
    """Cancel the worker, which commits and returns. Raise its error if it has failed."""
    if worker is not None:
        worker.cancel()
        await worker
