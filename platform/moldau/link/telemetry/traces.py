"""Pushes ended spans to an OTLP receiver by http/protobuf, until it is closed.

    traces = trace_settings(address_or_none, ratio_or_none, environment)
    push = TracePush(runtime, traces, {"service.name": "orders"})
    push.start()
    span = push.tracer.begin(...)

    traces = ThreadTraces(settings, resource)    # for threads: on the loop of the blocking clients
    traces = traces_here(settings, resource)     # on the event loop that runs here, if one does

Invariants: spans wait in the tracer's bounded queue and nowhere else; those of a failed push go
back to it, so a receiver that restarts costs none while there is room. `aclose` pushes what is left
once, in the time of one push. Traces are off unless they are asked for: OTEL_EXPORTER_OTLP_ENDPOINT
alone, which many have for metrics, does not make spans of a million records.

`close` of `Traces` pushes what is left. That of a thread waits for it; on an event loop, where
nothing may wait, the push ends by itself soon after, also if the loop ends. (A loop that ends in
the turn in which the first span was made never starts the push.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.link.telemetry.otlp import (
    SCOPE,
    TRACES,
    OtlpPosts,
    OtlpTarget,
    StandardLog,
    otlp_target,
    resource_of,
)
from moldau.metrics.otlp import Requests
from moldau.runtime.children import start_thread
from moldau.runtime.loop_thread import LoopStopped, WrongThread, check_may_wait, enter, leave
from moldau.runtime.real import RealRuntime
from moldau.tracing.sampling import Sampler
from moldau.tracing.spans import QUEUE_MAX, Tracer, span_message

if TYPE_CHECKING:
    from moldau.runtime import Runtime

LOG: Final = logging.getLogger("moldau.traces")
_SAMPLER: Final = "OTEL_TRACES_SAMPLER"
_QUEUE: Final = "OTEL_BSP_MAX_QUEUE_SIZE"
_AT_ONCE: Final = 512
"""As many spans go in one request, and make a push before its interval is over."""
_LOOK_S: Final = 0.2
_CLOSE_S: Final = 2.0
_SAMPLERS: Final[Mapping[str, tuple[bool, float | None]]] = {
    "always_on": (False, 1.0),
    "always_off": (False, 0.0),
    "traceidratio": (False, None),
    "parentbased_always_on": (True, 1.0),
    "parentbased_always_off": (True, 0.0),
    "parentbased_traceidratio": (True, None),
}
"""Whether a sampler follows the parent, and its ratio unless OTEL_TRACES_SAMPLER_ARG has it."""


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Where spans go, and which traces are recorded."""

    target: OtlpTarget
    ratio: float = 1.0
    is_parent_based: bool = True
    queue_max: int = QUEUE_MAX


def trace_settings(
    endpoint: str | None,
    ratio: float | None,
    environment: Mapping[str, str],
    option: str = "--traces",
) -> TraceSettings | None:
    """Return the settings of traces, or None if they are off. Raise ConfigError.

    They are on with `endpoint`, a `ratio`, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or
    OTEL_TRACES_EXPORTER=otlp; the address may be OTEL_EXPORTER_OTLP_ENDPOINT."""
    is_asked = bool(
        endpoint
        or ratio is not None
        or environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        or environment.get(TRACES.exporter) == "otlp"
    )
    if not is_asked:
        return None
    target = otlp_target(endpoint, environment, option, TRACES)
    if target is None:
        is_disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
        if is_disabled or environment.get(TRACES.exporter, "otlp") != "otlp":
            return None
        raise ConfigError(
            f"traces have no receiver: give {option} http://HOST:PORT, or the variable "
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
        )
    sampler = _sampler(environment) if ratio is None else (ratio, True)
    return TraceSettings(target, *sampler, _queue(environment))


def _sampler(environment: Mapping[str, str]) -> tuple[float, bool]:
    name = environment.get(_SAMPLER) or "parentbased_always_on"
    if name not in _SAMPLERS:
        raise ConfigError(f"{_SAMPLER} is {name}: give one of {', '.join(_SAMPLERS)}")
    is_parent_based, ratio = _SAMPLERS[name]
    if ratio is None:
        argument = f"{_SAMPLER}_ARG"
        ratio = _ratio(argument, environment.get(argument) or "1")
    return ratio, is_parent_based


def _ratio(name: str, text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        raise ConfigError(f"{name} is {text}: give a number from 0 to 1")
    return ratio


def _queue(environment: Mapping[str, str]) -> int:
    text = environment.get(_QUEUE) or str(QUEUE_MAX)
    if not text.isdecimal() or not int(text):
        raise ConfigError(f"{_QUEUE} takes a number of spans, not {text!r}")
    return int(text)


class TracePush:
    """A tracer, and the task that pushes its spans; see the module."""

    def __init__(
        self, runtime: Runtime, settings: TraceSettings, resource: Mapping[str, str]
    ) -> None:
        """`resource` says what makes the spans; the attributes of OTEL_* win."""
        sampler = Sampler(runtime.random, settings.ratio, is_parent_based=settings.is_parent_based)
        self.tracer = Tracer(runtime.clock, sampler, settings.queue_max)
        self._runtime = runtime
        self._interval_s = settings.target.interval_s
        self._resource = resource_of(settings.target, resource)
        self._posts = OtlpPosts(runtime, settings.target, StandardLog(LOG), TRACES)
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        self._is_over = False
        self._told_dropped = 0

    def start(self) -> None:
        """Begin, on the runtime's loop."""
        self._task = self._runtime.spawn(self._run(), name="push traces")

    def close_soon(self) -> None:
        """Push what is left, and end; without waiting for it."""
        self._is_closing = True

    async def aclose(self) -> None:
        """Push what is left, in the time of _CLOSE_S, and end."""
        self._is_closing = True
        task = self._task
        if task is not None and not (await asyncio.wait([task], timeout=_CLOSE_S))[0]:
            self._is_over = True
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        try:
            while not self._is_closing:
                await self._wait()
                await self._push()
        finally:
            # Also when the loop ends: the last spans are those of the end, which people look for.
            await self._push()

    async def _wait(self) -> None:
        """Wait for the interval, or until there is enough for a request."""
        clock = self._runtime.clock
        due = clock.monotonic() + self._interval_s
        while self.tracer.waiting < _AT_ONCE and not self._is_closing:
            left_s = due - clock.monotonic()
            if left_s <= 0:
                break
            await asyncio.sleep(min(left_s, _LOOK_S))

    async def _push(self) -> None:
        tracer = self.tracer
        while not self._is_over and (spans := tracer.take(_AT_ONCE)):
            packed = Requests(self._resource, SCOPE)
            bodies = [packed.add(span_message(each)) for each in spans]
            failure = None
            for body in (*bodies, packed.rest()):
                if body is not None:
                    failure = await self._posts.post(body) or failure
            self._posts.report(failure)
            if failure is not None and failure.may_retry:
                tracer.put_back(spans)
                break
        if tracer.dropped > self._told_dropped:
            LOG.warning(
                "traces: %d spans found no room and are lost; record fewer (a lower ratio), or "
                "raise %s",
                tracer.dropped - self._told_dropped,
                _QUEUE,
            )
            self._told_dropped = tracer.dropped


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
