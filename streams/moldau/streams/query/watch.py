"""What watches a worker: its metrics for Prometheus, and its health for a supervisor.

| path | 200 | 503 |
|-|-|-|
| /metrics | the series of the worker's tasks | it starts |
| /healthz | the process answers | |
| /readyz | it is in its group, and all its tasks run | it starts, restores or moves tasks |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from moldau.metrics import CONTENT_TYPE, Metric, render_prometheus
from moldau.streams.query.http import Answer, Request, refusal

PROBES: Final = (("healthz",), ("readyz",))
"""Paths for a supervisor, which has no login and learns no names of topics."""
_TEXT: Final = "text/plain; charset=utf-8"
STARTS: Final = "the worker starts"
ENDED: Final = "the worker has ended"


class WatchPages:
    """The pages; they are there before the worker is."""

    def __init__(self) -> None:
        self._metrics: Callable[[], Awaitable[Sequence[Metric]]] | None = None
        self._waits_for: Callable[[], str | None] = lambda: STARTS

    def watch(
        self,
        metrics: Callable[[], Awaitable[Sequence[Metric]]],
        waits_for: Callable[[], str | None],
    ) -> None:
        """Show a worker. `waits_for` says what it waits for; None if it is ready."""
        self._metrics = metrics
        self._waits_for = waits_for

    async def metrics(self) -> Sequence[Metric]:
        """Return the present values of the worker's metrics; none while it starts."""
        return () if self._metrics is None else await self._metrics()

    async def answer(self, request: Request) -> Answer:
        """Answer a request."""
        if request.method != "GET":
            return refusal(405, f"{request.method} is not for metrics: use GET")
        match request.path:
            case ():
                return _text("/metrics /healthz /readyz")
            case ("metrics",):
                if self._metrics is None:
                    return _text(STARTS, 503)
                text = render_prometheus(await self.metrics())
                return Answer(200, text.encode(), CONTENT_TYPE)
            case ("healthz",):
                return _text("alive")
            case ("readyz",):
                missing = self._waits_for()
                return _text("ready") if missing is None else _text(missing, 503)
        return refusal(404, f"there is no {request.target}: /metrics /healthz /readyz")


def _text(text: str, status: int = 200) -> Answer:
    return Answer(status, f"{text}\n".encode(), _TEXT)
