"""A producer's metrics, under the names of Kafka's producer.

A rate, an average or a maximum covers `metrics.num.samples` windows of `metrics.sample.window.ms`,
as in Kafka; totals count from the start. A batch or request is counted once, never a single record.

`kafka_metrics` returns all of them by group and name. `registry` has those of the whole producer,
for Prometheus and OTLP, with dots for hyphens: `record-send-rate` is
`kafka.producer.record.send.rate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

from moldau.client.producer.batch import Batch
from moldau.metrics import Registry
from moldau.metrics.windows import SampledRows, average, largest
from moldau.runtime import Clock

Measure: TypeAlias = Callable[[], float]

CLIENT: Final = "producer-metrics"
TOPIC: Final = "producer-topic-metrics"
NODE: Final = "producer-node-metrics"

# Columns of a batch's samples.
RECORDS, SIZE, RATIO, QUEUE_MS, RECORD_SIZE = range(5)
# Columns of an answered request's samples.
REQUEST_SIZE, REQUEST_RECORDS, LATENCY_MS, THROTTLE_MS = range(4)
# Kinds of waiting.
BUFFER_WAIT: Final = "bufferpool-wait-time"
FLUSH: Final = "flush-time"
METADATA_WAIT: Final = "metadata-wait-time"
_NAN: Final = float("nan")


class ProducerMetrics:
    """All metrics of one producer. Those of the whole producer are computed from its topics and
    brokers when they are read."""

    def __init__(self, clock: Clock, window_s: float, samples_max: int) -> None:
        self.registry = Registry()
        self._clock = clock
        self._window = (clock, window_s, samples_max)
        self._batches: dict[str, SampledRows] = {}
        self._retries: dict[str, SampledRows] = {}
        self._errors: dict[str, SampledRows] = {}
        self._splits: dict[str, SampledRows] = {}
        self._requests: dict[int, SampledRows] = {}
        self.exhausted = SampledRows(*self._window)
        self._spent_ns = {BUFFER_WAIT: 0, FLUSH: 0, METADATA_WAIT: 0}
        self._measures: dict[str, Measure] = {}
        self._declare()

    # Counting

    def drained(self, batches: list[Batch], now: float) -> None:
        """Count the batches of a request that is sent."""
        for batch in batches:
            topic = batch.where.topic
            if batch.attempts > 1 or (batch.whole is not None and batch.was_tried):
                self._of(self._retries, topic).add(now, batch.count)
                continue
            sampled = self._batches.get(topic)
            if sampled is None:
                sampled = self._batches[topic] = SampledRows(*self._window, 5)
            assert batch.data is not None
            size, before, count = len(batch.data), batch.reserved_bytes, batch.count
            queue_ms = (now - batch.created) * 1000
            sampled.add(now, count, size, size / before, queue_ms, before / count)

    def answered(
        self, node_id: int, batches: list[Batch], sent_at: float, throttle_ms: int
    ) -> None:
        """Count the response to a request."""
        now = self._clock.monotonic()
        sampled = self._requests.get(node_id)
        if sampled is None:
            sampled = self._requests[node_id] = SampledRows(*self._window, 4)
        size = records = 0
        for batch in batches:
            size += 0 if batch.data is None else len(batch.data)
            records += batch.count
        sampled.add(now, size, records, (now - sent_at) * 1000, throttle_ms)

    def failed(self, batch: Batch) -> None:
        """Count a batch that has failed for good."""
        self._of(self._errors, batch.where.topic).add(self._clock.monotonic(), batch.count)

    def split(self, batch: Batch) -> None:
        """Count a batch that was too large and was split."""
        self._of(self._splits, batch.where.topic).add(self._clock.monotonic(), 1)

    def spent(self, what: str, since_ns: int) -> None:
        """Add the time since `since_ns` to a kind of waiting."""
        self._spent_ns[what] += self._clock.monotonic_ns() - since_ns

    def _of(self, among: dict[str, SampledRows], topic: str) -> SampledRows:
        found = among.get(topic)
        if found is None:
            found = among[topic] = SampledRows(*self._window)
        return found

    # Asking

    def gauge(self, name: str, doc: str, measure: Measure) -> None:
        """Register a value of the whole producer."""
        self._measures[name] = measure
        dotted = f"kafka.producer.{name.replace('-', '.')}"
        self.registry.read_gauge(dotted, doc, read=measure)

    def kafka_metrics(self) -> dict[str, dict[str, float]]:
        """Return all metrics by group and name; the group of a topic or node ends in its name."""
        found = {CLIENT: {name: measure() for name, measure in self._measures.items()}}
        for topic in dict.fromkeys((*self._batches, *self._errors)):
            of = self._batches.get(topic)
            found[f"{TOPIC}.{topic}"] = {
                **_rate_and_total("record-send", of, RECORDS),
                **_rate_and_total("byte", of, SIZE),
                "compression-rate": _NAN if of is None else average([of], RATIO),
                **_rate_and_total("record-retry", self._retries.get(topic)),
                **_rate_and_total("record-error", self._errors.get(topic)),
            }
        for node_id, at in self._requests.items():
            found[f"{NODE}.node-{node_id}"] = {
                "request-rate": at.row_rate(),
                "request-total": at.rows,
                "request-size-avg": average([at], REQUEST_SIZE),
                "request-size-max": at.largest(REQUEST_SIZE),
                "outgoing-byte-rate": at.rate(REQUEST_SIZE),
                "outgoing-byte-total": at.totals[REQUEST_SIZE],
                "request-latency-avg": average([at], LATENCY_MS),
                "request-latency-max": at.largest(LATENCY_MS),
            }
        return found

    def _declare(self) -> None:
        batches, requests = self._batches.values(), self._requests.values()
        of_batches = (
            ("batch-size", "Bytes of a batch after compression", SIZE),
            ("record-queue-time", "Milliseconds a batch waited to be sent", QUEUE_MS),
            ("record-size", "Bytes of an uncompressed record, by averages of batches", RECORD_SIZE),
            ("compression-rate", "Bytes of a batch after compression by those before", RATIO),
        )
        of_requests = (
            ("request-latency", "Milliseconds until a request was answered", LATENCY_MS),
            ("produce-throttle-time", "Milliseconds that brokers asked to wait", THROTTLE_MS),
            ("request-size", "Bytes of a request's batches", REQUEST_SIZE),
            ("records-per-request", "Records in a request", REQUEST_RECORDS),
        )
        for counted, columns in ((batches, of_batches), (requests, of_requests)):
            for name, doc, index in columns:
                self.gauge(f"{name}-avg", f"{doc}: average.", partial(average, counted, index))
                if name not in ("compression-rate", "records-per-request"):
                    self.gauge(
                        f"{name}-max", f"{doc}: the largest.", partial(largest, counted, index)
                    )
        rates = (
            ("record-send", "Records that were sent", batches),
            ("record-retry", "Records that were sent again", self._retries.values()),
            ("record-error", "Records that have failed", self._errors.values()),
            ("batch-split", "Batches that were too large, and were split", self._splits.values()),
            ("buffer-exhausted", "Records refused for want of memory", (self.exhausted,)),
        )
        for name, doc, sampled in rates:
            self.gauge(f"{name}-rate", f"{doc}, a second.", partial(_rate, sampled))
            self.gauge(f"{name}-total", f"{doc}.", partial(_total, sampled))
        for name in self._spent_ns:
            doc = f"Nanoseconds of {name.replace('-', ' ')}."
            self.gauge(f"{name}-ns-total", doc, partial(self._spent_ns.__getitem__, name))


def _rate(among: Iterable[SampledRows]) -> float:
    return sum(each.rate() for each in among)


def _total(among: Iterable[SampledRows]) -> float:
    return sum(each.totals[0] for each in among)


def _rate_and_total(name: str, sampled: SampledRows | None, index: int = 0) -> dict[str, float]:
    if sampled is None:
        return {f"{name}-rate": 0.0, f"{name}-total": 0.0}
    return {f"{name}-rate": sampled.rate(index), f"{name}-total": sampled.totals[index]}
