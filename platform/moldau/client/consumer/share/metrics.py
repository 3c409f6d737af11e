"""A share consumer's metrics, under the names of Kafka's share consumer. Windows are those of
`producer.metrics`."""

from __future__ import annotations

from functools import partial
from typing import Final

from moldau.client.consumer.share.acknowledgements import AcknowledgeType
from moldau.metrics import Registry
from moldau.metrics.windows import SampledRows
from moldau.runtime import Clock

FETCHES: Final = "consumer-share-fetch-manager-metrics"


class ShareMetrics:
    """All metrics of one share consumer."""

    def __init__(self, clock: Clock, window_s: float, samples_max: int) -> None:
        self._clock = clock
        self._received = SampledRows(clock, window_s, samples_max, 2)  # records, bytes
        self._sent = SampledRows(clock, window_s, samples_max)
        self._failed = SampledRows(clock, window_s, samples_max)
        self._by_type = dict.fromkeys(AcknowledgeType, 0)
        self.registry = Registry()
        for name in self._fetching():
            self.registry.read_gauge(
                f"kafka.consumer.share.{name.replace('-', '.')}",
                f"Kafka's {name} of {FETCHES}.",
                read=partial(self._one, name),
            )

    def received(self, records: int, size_bytes: int) -> None:
        """Count the acquired records of one answer."""
        self._received.add(self._clock.monotonic(), records, size_bytes)

    def acknowledged(self, kind: AcknowledgeType, count: int) -> None:
        """Count acknowledgements that the broker has stored."""
        self._by_type[kind] += count
        self._sent.add(self._clock.monotonic(), count)

    def failed(self, count: int) -> None:
        """Count acknowledgements that the broker has refused, or that were lost."""
        self._failed.add(self._clock.monotonic(), count)

    def kafka_metrics(self) -> dict[str, dict[str, float]]:
        """Return all metrics by group and name."""
        return {FETCHES: self._fetching()}

    def _one(self, name: str) -> float:
        return self._fetching()[name]

    def _fetching(self) -> dict[str, float]:
        return {
            "fetch-rate": self._received.row_rate(),
            "fetch-total": self._received.rows,
            "records-consumed-rate": self._received.rate(),
            "records-consumed-total": self._received.totals[0],
            "bytes-consumed-total": self._received.totals[1],
            "acknowledgements-send-rate": self._sent.rate(),
            "acknowledgements-send-total": self._sent.totals[0],
            "acknowledgements-error-rate": self._failed.rate(),
            "acknowledgements-error-total": self._failed.totals[0],
            **{
                f"acknowledgements-{kind.name.lower()}-total": float(count)
                for kind, count in self._by_type.items()
                if kind is not AcknowledgeType.RENEW
            },
        }
