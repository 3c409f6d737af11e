"""The clients that ask what to push (KIP-714): their subscriptions and their pace. A pure core.

Invariants: a client is known by the id that it was given. The table of them has a bounded size, and
forgets first the client that was silent for longest. An answer follows Kafka's
ClientMetricsManager, the order of its checks included.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final, NamedTuple

from moldau.broker.settings import client_metrics, client_metrics_settings
from moldau.broker.settings.syntax import parse_selector
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.records.checksum import crc32c

INSTANCES_MAX: Final = 16_384
_DEFAULT_INTERVAL_MS: Final = 300_000
_KEPT_MS_MIN: Final = 60_000
_KEPT_INTERVALS: Final = 3
_ALL: Final = "*"
_RESERVED: Final = (ZERO_UUID, bytes(15) + b"\x01")
_CODECS: Final = range(5)
_MATCHED_CHARACTERS: Final = 1_000


class Client(NamedTuple):
    """What a subscription may ask of a client, and its id."""

    instance_id: bytes
    properties: Mapping[str, str]
    """By the names of the setting `match`."""


class Subscription(NamedTuple):
    """What a client shall push."""

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


class Push(NamedTuple):
    """What a client says of its push."""

    subscription_id: int
    codec_id: int
    size_bytes: int
    is_last: bool


@dataclass(slots=True)
class Instance:
    """One client."""

    subscription: Subscription
    edition: int
    asked_ms: int | None = None
    pushed_ms: int | None = None
    is_terminating: bool = False
    may_ask: bool = False
    """Whether its last push was refused so that it has to ask anew, at once."""
    seen_ms: int = field(default=0)

    @property
    def kept_ms(self) -> int:
        """How long it is remembered after its last request."""
        return max(_KEPT_MS_MIN, _KEPT_INTERVALS * self.subscription.interval_ms)


class ClientInstances:
    """The table of clients."""

    def __init__(self) -> None:
        self._instances: OrderedDict[bytes, Instance] = OrderedDict()
        self._configs: Mapping[str, Mapping[str, str]] = {}
        self._edition = 0

    def __len__(self) -> int:
        return len(self._instances)

    def configure(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Take the present subscriptions, by name. Clients get new ones if they have changed."""
        if configs != self._configs:
            self._configs = configs
            self._edition += 1

    def on_ask(self, client: Client, now_ms: int) -> Subscription:
        """A client asks what to push. Raise KafkaError if it has not waited for its interval."""
        instance = self._instance(client, now_ms)
        heard_ms = _later(instance.asked_ms, instance.pushed_ms)
        interval_ms = instance.subscription.interval_ms
        is_early = heard_ms is not None and now_ms - heard_ms < interval_ms
        if is_early and not instance.may_ask:
            raise _too_early()
        instance.asked_ms = now_ms
        instance.may_ask = False
        return instance.subscription

    def on_push(self, client: Client, push: Push, size_bytes_max: int, now_ms: int) -> None:
        """A client pushes. Raise KafkaError if it must not: too early, too much, or after its last
        push."""
        if client.instance_id in _RESERVED:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "invalid client instance id")
        instance = self._instance(client, now_ms)
        was_last, instance.is_terminating = instance.is_terminating, push.is_last
        if was_last:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the push before was the last one")
        if self._is_early(instance, now_ms) and not push.is_last:
            raise _too_early()
        if push.subscription_id != instance.subscription.subscription_id:
            instance.may_ask = True
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "the subscription has changed")
        if push.codec_id not in _CODECS:
            instance.may_ask = True
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "no such compression")
        if push.size_bytes > size_bytes_max:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE, "more than telemetry.max.bytes")

    def expire(self, now_ms: int) -> None:
        """Forget clients that have not been heard of."""
        for instance_id, each in list(self._instances.items()):
            if now_ms - each.seen_ms > each.kept_ms:
                del self._instances[instance_id]

    def __contains__(self, instance_id: bytes) -> bool:
        return instance_id in self._instances

    def _is_early(self, instance: Instance, now_ms: int) -> bool:
        """Whether a push comes before its time. The first one after an answer does not: a client
        waits for a part of the interval only."""
        asked, pushed = instance.asked_ms, instance.pushed_ms
        is_first = asked is not None and (pushed is None or asked > pushed)
        interval_ms = instance.subscription.interval_ms
        if not is_first and pushed is not None and now_ms - pushed < interval_ms:
            return True
        instance.pushed_ms = now_ms
        return False

    def _instance(self, client: Client, now_ms: int) -> Instance:
        found = self._instances.get(client.instance_id)
        if found is None or found.edition != self._edition:
            found = Instance(_subscription(self._configs.values(), client), self._edition)
            self._instances[client.instance_id] = found
        found.seen_ms = now_ms
        self._instances.move_to_end(client.instance_id)
        if len(self._instances) > INSTANCES_MAX:
            self._instances.popitem(last=False)
        return found


def _later(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return max(first, second)


def _too_early() -> KafkaError:
    return KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "before the next push interval")


def _subscription(configs: Iterable[Mapping[str, str]], client: Client) -> Subscription:
    metrics: set[str] = set()
    interval_ms = _DEFAULT_INTERVAL_MS
    for values in configs:
        settings = client_metrics_settings("stored", values)
        if not all(_fits(each, client.properties) for each in settings[client_metrics.match]):
            continue
        metrics.update(settings[client_metrics.metrics])
        interval_ms = min(interval_ms, settings[client_metrics.interval_ms])
    wanted = (_ALL,) if _ALL in metrics else tuple(sorted(metrics))
    shown = f"[{', '.join(wanted)}]{interval_ms}".encode()
    number = crc32c(shown) ^ _java_hash(client.instance_id)
    return Subscription(number - 2**32 if number >= 2**31 else number, wanted, interval_ms)


def _fits(item: str, properties: Mapping[str, str]) -> bool:
    parsed = parse_selector(item)
    if parsed is None:
        return False
    name, pattern = parsed
    return pattern.fullmatch(properties.get(name, "")[:_MATCHED_CHARACTERS]) is not None


def _java_hash(uuid: bytes) -> int:
    both = int.from_bytes(uuid[:8], "big") ^ int.from_bytes(uuid[8:], "big")
    return (both >> 32) ^ (both & 0xFFFF_FFFF)
