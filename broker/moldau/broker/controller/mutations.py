"""Quotas on the rate of partitions that clients create and delete (KIP-599).

A client with the quota `controller_mutation_rate` has a bucket that fills at this rate, up to what
a whole window would fill. A change is admitted while the bucket is not below empty, and may take
more than it has. Requests of newer versions are strict: what comes then is refused with
THROTTLING_QUOTA_EXCEEDED, topic by topic. Those of older versions are admitted and wait afterwards,
because their clients do not know the error. The response says how long to wait.

Invariants: buckets are of the active controller and start full; only clients with a quota have one.
A node's own requests have no quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from moldau.broker.controller.quota_limits import limit_of
from moldau.broker.decision.context import NODE
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest

if TYPE_CHECKING:
    from moldau.broker.controller.quotas import ClientQuotas
    from moldau.broker.decision.context import RequestContext
    from moldau.protocol.declare import Request

MUTATION_RATE: Final = "controller_mutation_rate"
STRICT_SINCE: Final[Mapping[type[Request], int]] = {
    CreateTopicsRequest: 6,
    DeleteTopicsRequest: 5,
    CreatePartitionsRequest: 3,
}
"""The first versions in which clients know THROTTLING_QUOTA_EXCEEDED."""
_BUCKETS_MAX: Final = 10_000
_EXCEEDED: Final = "The throttling quota has been exceeded."


class Bucket:
    """Tokens that grow with time, up to `burst`. They may be below zero."""

    __slots__ = ("_at_ms", "tokens")

    def __init__(self, burst: float, now_ms: int) -> None:
        self.tokens = burst
        self._at_ms = now_ms

    def fill(self, per_second: float, burst: float, now_ms: int) -> None:
        """Add the tokens of the time since the last call."""
        grown = self.tokens + (now_ms - self._at_ms) * per_second / 1000
        self.tokens = min(burst, grown)
        self._at_ms = now_ms


class Charge:
    """What one request takes from its client's bucket."""

    __slots__ = ("_bucket", "_is_strict", "_per_second")

    def __init__(self, bucket: Bucket, per_second: float, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._per_second = per_second
        self._is_strict = is_strict

    def take(self, partitions: int) -> None:
        """Take tokens for a change. Raise THROTTLING_QUOTA_EXCEEDED if it is refused."""
        if self._is_strict and self._bucket.tokens < 0:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, _EXCEEDED)
        self._bucket.tokens -= partitions

    @property
    def wait_ms(self) -> int:
        """How long the client is to wait after the response."""
        return max(0, round(-self._bucket.tokens / self._per_second * 1000))


class Mutations:
    """The buckets of all clients with the quota."""

    __slots__ = ("_buckets", "_window_s")

    def __init__(self, window_s: int) -> None:
        """`window_s` is how many seconds of the rate a full bucket has."""
        self._window_s = window_s
        self._buckets: dict[tuple[str | None, str | None], Bucket] = {}

    def charge_of(
        self,
        quotas: ClientQuotas,
        request: type[Request],
        context: RequestContext,
        now_ms: int,
    ) -> Charge | None:
        """Return what a request is charged by; None if it is not limited."""
        since = STRICT_SINCE.get(request)
        if since is None or not quotas.by_entity or context.principal.type == NODE:
            return None
        limit = limit_of(quotas, MUTATION_RATE, context.principal.name, context.client_id)
        if limit is None:
            return None
        burst = limit.per_second * self._window_s
        key = (limit.user, limit.client_id)
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= _BUCKETS_MAX:
                self._buckets.pop(next(iter(self._buckets)))  # the oldest is full most likely
            bucket = self._buckets[key] = Bucket(burst, now_ms)
        bucket.fill(limit.per_second, burst, now_ms)
        return Charge(bucket, limit.per_second, is_strict=context.version >= since)
