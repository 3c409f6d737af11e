"""A consumer's metrics, under the names of Kafka's consumer.

Windows are those of `producer.metrics`. A poll, a fetch, a commit or a rebalance is counted once,
never a single record; lags are computed when the metrics are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from moldau.deferred import dataclass
from moldau.link.metadata import TopicPartition
from moldau.metrics import Registry
from moldau.metrics.windows import SampledRows, average
from moldau.runtime import Clock

CLIENT: Final = "consumer-metrics"
FETCHES: Final = "consumer-fetch-manager-metrics"
GROUP: Final = "consumer-coordinator-metrics"

Lags: TypeAlias = Callable[[], Mapping[TopicPartition, "Lag"]]
_NAN: Final = float("nan")
MS: Final = 1000.0
_HOUR_S: Final = 3600.0


class Lag(NamedTuple):
    """How many offsets the position is before the log's end and after its start, if known."""

    lag: int | None
    lead: int | None


@dataclass(slots=True)
class PollTimes:
    """The times of the polls, which `Polling` keeps."""

    samples: SampledRows
    """Of each poll: the ms since the one before, and how much of that was idle."""
    began_at: float | None = None
    ended_at: float | None = None
    """When the last poll began and ended; None before that, and while it runs."""


class ConsumerMetrics:
    """All metrics of one consumer."""

    def __init__(
        self,
        clock: Clock,
        window_s: float,
        samples_max: int,
        lags: Lags,
        connections: Callable[[], int] = int,
        missed: Callable[[], int] = int,
    ) -> None:
        """`lags` returns those of the assigned partitions, `connections` how many there are, and
        `missed` how many records were deleted before they were read."""
        self._clock = clock
        self._window = (clock, window_s, samples_max)
        self._lags = lags
        self._records: dict[str, SampledRows] = {}
        self._bytes: dict[str, SampledRows] = {}
        self._fetches = SampledRows(*self._window, 3)  # bytes, latency, throttling
        self._commits = SampledRows(*self._window)
        self._rebalances = SampledRows(*self._window)
        self._failed_rebalances = SampledRows(*self._window)
        self.polls = PollTimes(SampledRows(*self._window, 2))
        self._rebalanced_at: float | None = None
        self._connections = connections
        self._missed = missed
        self.registry = Registry()
        self._declare()

    # Counting

    def consumed(self, counts: Iterable[tuple[str, int]], emptied: Mapping[str, int]) -> None:
        """Count records returned by topic, and by topic the bytes of fetches returned whole."""
        now = self._clock.monotonic()
        for topic, count in counts:
            self._of(self._records, topic).add(now, count)
        for topic, size in emptied.items():
            self._of(self._bytes, topic).add(now, size)

    def fetched(self, size_bytes: int, latency_s: float, throttle_ms: int) -> None:
        """Count a fetch response."""
        now = self._clock.monotonic()
        self._fetches.add(now, size_bytes, latency_s * MS, throttle_ms)

    def committed(self, latency_s: float) -> None:
        """Count a successful commit."""
        self._commits.add(self._clock.monotonic(), latency_s * MS)

    def rebalanced(self, latency_s: float, *, has_failed: bool) -> None:
        """Count a rebalance: the member has its partitions, or is out of its group."""
        now = self._clock.monotonic()
        if has_failed:
            self._failed_rebalances.add(now, 1)
            return
        self._rebalances.add(now, latency_s * MS)
        self._rebalanced_at = now

    def _of(self, among: dict[str, SampledRows], topic: str) -> SampledRows:
        found = among.get(topic)
        if found is None:
            found = among[topic] = SampledRows(*self._window)
        return found

    # Asking

    def kafka_metrics(self) -> dict[str, dict[str, float]]:
        """Return all metrics by group and name; groups of a topic or partition end in its name."""
        lags = self._lags()
        found = {
            CLIENT: self._client(),
            FETCHES: self._fetching(lags),
            GROUP: self._group(len(lags)),
        }
        for topic in sorted({*self._records, *self._bytes}):
            found[f"{FETCHES}.{topic}"] = {
                **_rate_and_total("records-consumed", [self._of(self._records, topic)]),
                **_rate_and_total("bytes-consumed", [self._of(self._bytes, topic)]),
            }
        for where, each in lags.items():
            found[f"{FETCHES}.{where}"] = {
                "records-lag": _known(each.lag),
                "records-lead": _known(each.lead),
            }
        return found

    def _client(self) -> dict[str, float]:
        return {
            **_average_and_max("time-between-poll", self.polls.samples, 0),
            "poll-idle-ratio-avg": average([self.polls.samples], 1),
            "last-poll-seconds-ago": self._ago(self.polls.began_at),
            "connection-count": self._connections(),
        }

    def _fetching(self, lags: Mapping[TopicPartition, Lag]) -> dict[str, float]:
        fetches = self._fetches
        return {
            **_rate_and_total("records-consumed", self._records.values()),
            **_rate_and_total("bytes-consumed", self._bytes.values()),
            "fetch-rate": fetches.row_rate(),
            "fetch-total": fetches.rows,
            **_average_and_max("fetch-size", fetches, 0),
            **_average_and_max("fetch-latency", fetches, 1),
            **_average_and_max("fetch-throttle-time", fetches, 2),
            "records-missed-total": self._missed(),
            "records-lag-max": max((n for n, _ in lags.values() if n is not None), default=_NAN),
            "records-lead-min": min((n for _, n in lags.values() if n is not None), default=_NAN),
        }

    def _group(self, assigned: int) -> dict[str, float]:
        return {
            "assigned-partitions": assigned,
            **_average_and_max("commit-latency", self._commits),
            "commit-rate": self._commits.row_rate(),
            "commit-total": self._commits.rows,
            **_average_and_max("rebalance-latency", self._rebalances),
            "rebalance-latency-total": self._rebalances.totals[0],
            "rebalance-rate-per-hour": self._rebalances.row_rate() * _HOUR_S,
            "rebalance-total": self._rebalances.rows,
            "failed-rebalance-rate-per-hour": self._failed_rebalances.row_rate() * _HOUR_S,
            "failed-rebalance-total": self._failed_rebalances.rows,
            "last-rebalance-seconds-ago": self._ago(self._rebalanced_at),
        }

    def _ago(self, then: float | None) -> float:
        """Return the seconds since `then`; -1 if it has not happened yet, as in Kafka."""
        return -1.0 if then is None else self._clock.monotonic() - then

    def _declare(self) -> None:
        """Register the whole consumer's metrics for Prometheus and OTLP: `records-lag-max` becomes
        `kafka.consumer.records.lag.max`."""
        groups: Mapping[str, Callable[[], dict[str, float]]] = {
            CLIENT: self._client,
            FETCHES: lambda: self._fetching(self._lags()),
            GROUP: lambda: self._group(len(self._lags())),
        }
        for group, measure in groups.items():
            for name in measure():
                self.registry.read_gauge(
                    f"kafka.consumer.{name.replace('-', '.')}",
                    f"Kafka's {name} of {group}.",
                    read=partial(_one_of, measure, name),
                )


def _one_of(measure: Callable[[], dict[str, float]], name: str) -> float:
    return measure()[name]


def _known(number: int | None) -> float:
    return _NAN if number is None else float(number)


def _average_and_max(name: str, sampled: SampledRows, index: int = 0) -> dict[str, float]:
    return {f"{name}-avg": average([sampled], index), f"{name}-max": sampled.largest(index)}


def _rate_and_total(name: str, among: Iterable[SampledRows]) -> dict[str, float]:
    among = list(among)
    return {
        f"{name}-rate": sum(each.rate() for each in among),
        f"{name}-total": sum(each.totals[0] for each in among),
    }
