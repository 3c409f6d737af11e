"""Run an app with patterns as inputs, and restart it when the topics that match change.

The worker commits and leaves its group first, so a change costs what a rebalance costs. A deleted
topic of a pattern ends the worker, not the app: the next worker reads what matches then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from moldau.streams.plan.patterns import matches, resolved
from moldau.streams.plan.plan import Plan
from moldau.streams.problems import InputDeleted, MissingTopics
from moldau.streams.worker.reports import Reports

TopicNames = Callable[[], Awaitable[set[str]]]
RunPlan = Callable[[Plan], Coroutine[Any, Any, None]]
_LOOK_AGAIN_S: Final = 1.0


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
                    await _stop(worker, current, reports)
                    reports.matched(found)
                    current = found
                    worker = asyncio.ensure_future(run(resolved(plan, found)))
                if worker is None:
                    await asyncio.sleep(refresh_s)
                    continue
                await asyncio.wait([worker], timeout=refresh_s)
                if worker.done():
                    if not await _has_lost_match(worker, current, reports):
                        return
                    worker, current = None, {}
                    await asyncio.sleep(min(refresh_s, _LOOK_AGAIN_S))
        finally:
            await _stop(worker, current, reports)


async def _stop(
    worker: asyncio.Future[None] | None, found: Mapping[str, Sequence[str]], reports: Reports
) -> None:
    """Cancel the worker, which commits and returns. Raise its error if it has failed."""
    if worker is not None:
        worker.cancel()
        await _has_lost_match(worker, found, reports)


async def _has_lost_match(
    worker: asyncio.Future[None], found: Mapping[str, Sequence[str]], reports: Reports
) -> bool:
    """Wait for the end of the worker. Return whether topics of patterns are gone; raise any other
    error."""
    try:
        await worker
    except (InputDeleted, MissingTopics) as error:
        if not {name for topics in found.values() for name in topics}.issuperset(error.topics):
            raise
        reports.unmatched(error.topics)
        return True
    return False
