"""Pushes of spans without a runtime of one's own: on the event loop that runs, or on a thread.

    traces = ThreadTraces(settings, resource)    # for threads: on the loop of the blocking clients
    traces = traces_here(settings, resource)     # on the event loop that runs here, if one does

Invariant: `close` pushes what is left. That of a thread waits for it; on an event loop, where
nothing may wait, the push ends by itself soon after, also if the loop ends. (A loop that ends in
the turn in which the first span was made never starts the push.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from moldau.link.otlp_traces import TracePush, TraceSettings
from moldau.runtime.children import start_thread
from moldau.runtime.loop_thread import LoopStopped, WrongThread, check_may_wait, enter, leave
from moldau.runtime.real import RealRuntime
from moldau.tracing import Tracer


class Traces(Protocol):
    """A tracer, and the push of its spans."""

    tracer: Tracer

    def close(self) -> None:
        """Push what is left, and end."""
        ...


class ThreadTraces:
    """The traces of a thread, pushed on the loop of the process's blocking clients."""

    def __init__(self, settings: TraceSettings, resource: Mapping[str, str]) -> None:
        self._thread = enter(self)
        self._push = TracePush(self._thread.runtime, settings, resource)
        self.tracer = self._push.tracer
        self._thread.soon(self._push.start)

    def finish(self) -> None:
        """Push what is left, because the program ends."""
        with suppress(LoopStopped):
            self._thread.call(self._push.aclose())

    def close(self) -> None:
        """Push what is left, and end. On the loop's own thread, which may not wait, another thread
        does that."""
        if self._thread.is_here:
            start_thread(self._end, "end traces")
        else:
            self._end()

    def _end(self) -> None:
        self.finish()
        leave(self)


class LoopTraces:
    """The traces of an event loop, pushed on it."""

    def __init__(self, settings: TraceSettings, resource: Mapping[str, str]) -> None:
        self._push = TracePush(RealRuntime("traces"), settings, resource)
        self.tracer = self._push.tracer
        self._push.start()

    def close(self) -> None:
        """Push what is left soon, and end."""
        self._push.close_soon()


def traces_here(settings: TraceSettings, resource: Mapping[str, str]) -> Traces:
    """Return traces that are pushed on the event loop that runs here; without one, or on the loop
    of the blocking clients, which ends with the last of them, those of a thread."""
    try:
        asyncio.get_running_loop()
        check_may_wait()
    except (RuntimeError, WrongThread):
        return ThreadTraces(settings, resource)
    return LoopTraces(settings, resource)
