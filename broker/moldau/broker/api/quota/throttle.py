"""How long a client must wait because of its quotas (KIP-219).

    wait_ms = throttle.on_produced(client, size, now_ms)

A produce is done, and its response says how long the client is not read from then on. A fetch that
would exceed the quota is answered at once without records, and the client waits then, so that what
was not sent is not counted. Records of a share group are locked once they are chosen, so they are
counted and sent, and the client waits after them.

Invariants: only clients with a quota have a rate here, and one that is idle for a whole window is
forgotten when there are many. Over a window, the rate of a client that always asks is its quota.

A rate over a sliding window, as Kafka measures it: the sum of samples over their age.

Invariant: the window is never shorter than all full samples but one, so that a single large value
is not taken for a high rate.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.controller.quota_limits import Limit, limit_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from moldau.broker.controller.quotas import ClientQuotas


class Rate:
    """Values a second, over `samples` samples of `sample_ms` each."""

    __slots__ = ("_last_ms", "_sample_ms", "_samples", "_starts", "_sum", "_values")

    def __init__(self, samples: int = 11, sample_ms: int = 1000) -> None:
        self._samples: Final = samples
        self._sample_ms: Final = sample_ms
        self._starts: deque[int] = deque()
        self._values: deque[float] = deque()
        self._sum = 0.0
        self._last_ms = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value now."""
        self._drop_old(now_ms)
        if not self._starts or now_ms - self._starts[-1] >= self._sample_ms:
            self._starts.append(now_ms)
            self._values.append(0.0)
        self._values[-1] += value
        self._sum += value
        self._last_ms = now_ms

    def measure(self, now_ms: int, more: float = 0.0) -> float:
        """Return the values a second; with `more`, as if that were added now."""
        self._drop_old(now_ms)
        return (self._sum + more) * 1000 / self.window_ms(now_ms)

    def window_ms(self, now_ms: int) -> int:
        """Return the length of the window that is measured now."""
        elapsed_ms = now_ms - self._starts[0] if self._starts else 0
        lacking = self._samples - 1 - elapsed_ms // self._sample_ms
        if lacking > 0:
            elapsed_ms += lacking * self._sample_ms
        return max(elapsed_ms, self._sample_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing was added within the window, so that the rate knows nothing."""
        return now_ms - self._last_ms >= self._samples * self._sample_ms

    def _drop_old(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._samples * self._sample_ms
        while self._starts and self._starts[0] <= oldest_ms:
            self._starts.popleft()
            self._sum -= self._values.popleft()
        if not self._starts:
            self._sum = 0.0


PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
WORK: Final = "request_percentage"
_PERCENT_PER_NS: Final = 100 / 1e9
_RATES_MAX: Final = 10_000


class Client(NamedTuple):
    """The user and the client id of a request."""

    user: str
    client_id: str


class Throttle:
    """The rates of the clients that have quotas."""

    __slots__ = ("_known", "_known_from", "_quotas", "_rates", "_sample_ms", "_samples")

    def __init__(
        self, quotas: Callable[[], ClientQuotas], samples: int = 11, sample_ms: int = 1000
    ) -> None:
        """`quotas` returns the quotas of the committed metadata."""
        self._quotas = quotas
        self._samples = samples
        self._sample_ms = sample_ms
        self._rates: dict[tuple[str, str | None, str | None], Rate] = {}
        self._known: dict[tuple[str, Client], Limit | None] = {}
        """The quotas of clients, until one changes."""
        self._known_from: tuple[ClientQuotas | None, int] = (None, 0)

    @property
    def is_limiting(self) -> bool:
        """Whether any client has a quota."""
        return bool(self._quotas().by_entity)

    def on_produced(self, client: Client, size: int, now_ms: int) -> int:
        """Count a produce of that many bytes. Return for how many milliseconds its client waits."""
        return self._count(PRODUCE, client, size, now_ms)

    def on_fetched(self, client: Client, size: int, now_ms: int) -> int:
        """Count a fetch of that many bytes if it is within the quota, and return 0. Otherwise
        return for how many milliseconds the client waits, without records."""
        limit = self._limit(FETCH, client)
        if limit is None:
            return 0
        rate = self._rate((FETCH, limit.user, limit.client_id), now_ms)
        wait_ms = _wait_ms(rate, rate.measure(now_ms, size), limit.per_second, now_ms)
        if not wait_ms:
            rate.record(size, now_ms)
        return wait_ms

    def on_given(self, client: Client, size: int, now_ms: int) -> int:
        """Count records that are given to the client whatever its quota says. Return for how many
        milliseconds it waits."""
        return self._count(FETCH, client, size, now_ms)

    def _count(self, kind: str, client: Client, size: int, now_ms: int) -> int:
        limit = self._limit(kind, client)
        if limit is None:
            return 0
        rate = self._rate((kind, limit.user, limit.client_id), now_ms)
        rate.record(size, now_ms)
        return _wait_ms(rate, rate.measure(now_ms), limit.per_second, now_ms)

    def on_worked(self, client: Client, work_ns: int, now_ms: int) -> int:
        """Count the time that a request took of the node's only thread, in percents. Return for how
        many milliseconds its client waits: at most a window, as in Kafka."""
        limit = self._limit(WORK, client)
        if limit is None:
            return 0
        rate = self._rate((WORK, limit.user, limit.client_id), now_ms)
        rate.record(work_ns * _PERCENT_PER_NS, now_ms)
        wait_ms = _wait_ms(rate, rate.measure(now_ms), limit.per_second, now_ms)
        return min(wait_ms, self._sample_ms)

    def fetch_bytes_max(self, client: Client) -> int | None:
        """Return how many bytes one fetch may have, so that it ever fits into the quota; None for a
        client without one."""
        limit = self._limit(FETCH, client)
        if limit is None:
            return None
        window_s = max(self._samples - 1, 1) * self._sample_ms / 1000
        return max(1, int(limit.per_second * window_s))

    def _limit(self, key: str, client: Client) -> Limit | None:
        quotas = self._quotas()
        if self._known_from[0] is not quotas or self._known_from[1] != quotas.changes:
            self._known, self._known_from = {}, (quotas, quotas.changes)
        try:
            return self._known[key, client]
        except KeyError:
            if len(self._known) >= _RATES_MAX:
                self._known = {}
            limit = self._known[key, client] = limit_of(quotas, key, *client)
            return limit

    def _rate(self, key: tuple[str, str | None, str | None], now_ms: int) -> Rate:
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= _RATES_MAX:
                self._rates = {k: v for k, v in self._rates.items() if not v.is_idle(now_ms)}
            rate = self._rates[key] = Rate(self._samples, self._sample_ms)
        return rate


def _wait_ms(rate: Rate, measured: float, quota: float, now_ms: int) -> int:
    """Return the time in which the rate falls to the quota, as Kafka has it: the excess, in shares
    of the quota, times the window."""
    if measured <= quota:
        return 0
    return max(1, round((measured - quota) / quota * rate.window_ms(now_ms)))
