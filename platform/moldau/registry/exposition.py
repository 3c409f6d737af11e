"""The metrics of an instance, for Prometheus: `GET /metrics` beside the REST API.

The names are those that Prometheus' JMX exporter makes of the MBeans of Confluent's registry, where
it has the figure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from moldau.metrics import Registry, render_prometheus

if TYPE_CHECKING:
    from moldau.registry.store import Store
    from moldau.runtime import Clock

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE")
_FAILED: Final = 400


class RegistryMetrics:
    """Counts what the API answers, and reads the rest from the store."""

    def __init__(self, store: Store, is_leading: Callable[[], bool], clock: Clock) -> None:
        self._clock = clock
        self.registry = registry = Registry()
        self._requests = registry.counters(
            "kafka.schema_registry.api.requests",
            "Requests that were answered.",
            labels=("method", "status"),
        )
        self._succeeded = registry.counter(
            "kafka.schema_registry.api.success.count", "Requests that were done."
        )
        self._failed = registry.counter(
            "kafka.schema_registry.api.failure.count", "Requests that were refused, or failed."
        )
        self._seconds = registry.histogram(
            "kafka.schema_registry.api.duration", "How long requests take.", "s"
        )
        read = registry.read_gauge
        read(
            "kafka.schema_registry.registered.count",
            "Versions of subjects that are not deleted.",
            read=lambda: store.counts[False],
        )
        read(
            "kafka.schema_registry.deleted.count",
            "Versions of subjects that are deleted but kept.",
            read=lambda: store.counts[True],
        )
        read(
            "kafka.schema_registry.subjects",
            "Subjects, also those of which all versions are deleted.",
            read=lambda: len(store.subjects),
        )
        read(
            "kafka.schema_registry.master_slave_role",
            "1 on the instance that writes, 0 on the others.",
            read=lambda: int(is_leading()),
        )
        read(
            "kafka.schema_registry.records.unreadable",
            "Records of the topic of schemas that have no known form.",
            read=lambda: store.unreadable,
        )

    def begin(self) -> float:
        """Return the time at which a request begins."""
        return self._clock.monotonic()

    def end(self, began: float, method: str, status: int) -> None:
        """Count an answer."""
        named = method if method in _METHODS else "other"
        self._requests.bind(named, str(status)).add()
        (self._failed if status >= _FAILED else self._succeeded).add()
        self._seconds.observe(self._clock.monotonic() - began)

    def text(self) -> str:
        """Return the page."""
        return render_prometheus(self.registry.snapshot())
