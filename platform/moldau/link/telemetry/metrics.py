"""Pushes the metrics of a Streams worker, a Connect worker or a registry by OTLP.

    target = metrics_target(address_or_none, environment, "--otlp")
    if target is not None:
        push = metrics_push(runtime, target, {"service.name": "orders"}, read)
        push.start()
        ...
        await push.finish()         # the last values go too

The broker has a push of its own, which gathers in slices, as a broker has far more series.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from moldau.errors import ConfigError, MoldauError
from moldau.link.telemetry.otlp import (
    OtlpPush,
    OtlpTarget,
    PushContent,
    StandardLog,
    otlp_target,
    resource_of,
)
from moldau.metrics.otlp import Times, metric_messages
from moldau.metrics.snapshot import Metric

if TYPE_CHECKING:
    from moldau.runtime import Runtime

LOG: Final = logging.getLogger("moldau.metrics")
SETTING: Final = "moldau.metrics.otlp.endpoint"
_NS_PER_MS: Final = 1_000_000
Read = Callable[[], Awaitable[Sequence[Metric]]]


def metrics_target(
    given: str | None, environment: Mapping[str, str], option: str = SETTING
) -> OtlpTarget | None:
    """Return where metrics are pushed to; None if they are not. Raise ConfigError if `given` is no
    address, or a variable keeps it from being in force.

    Variables alone, which are often there for other programs, keep no program from starting: those
    that cannot be followed cost a line of the log."""
    try:
        return otlp_target(given, environment, option)
    except ConfigError as error:
        if given:
            raise
        LOG.warning("metrics are not pushed: %s", error)
        return None


def metrics_push(
    runtime: Runtime, target: OtlpTarget, resource: Mapping[str, str], read: Read
) -> OtlpPush:
    """Return the push of what `read` returns at each interval, not started. A MoldauError of `read`
    means that there is nothing to push now. `resource` says what has these metrics; the attributes
    of OTEL_* win."""
    started_ns = runtime.clock.wall_ms() * _NS_PER_MS

    async def messages() -> AsyncIterator[bytes]:
        try:
            metrics = await read()
        except MoldauError as error:
            LOG.debug("no metrics are pushed now: %s", error)
            return
        times = Times(started_ns, runtime.clock.wall_ms() * _NS_PER_MS)
        for metric in metrics:
            for each in metric_messages(metric, times):
                yield each

    def gather() -> PushContent:
        return PushContent(resource_of(target, resource), messages())

    return OtlpPush(runtime, target, gather, StandardLog(LOG))
