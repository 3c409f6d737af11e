"""GetTelemetrySubscriptions and PushTelemetry: clients say how they do (KIP-714).

They are offered while this node passes on what is pushed: `moldau.metrics.listener` or
`moldau.metrics.otlp.endpoint`. Apache Kafka does the same with its plugins. Both are open to every
client, as in Kafka.

A push is decompressed and read off the event loop, a few at a time: its size is bounded, and so is
what it becomes.

The newest values that clients have pushed, for `/metrics` and OTLP. A pure core.

Invariants: counters are cumulative, also where a client pushes differences; a client has
SERIES_OF_CLIENT series at most and all together SERIES_MAX: what is over is counted and left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.client_instances import Client, ClientInstances, Push
from moldau.broker.controller.configs import Resource, ResourceType
from moldau.broker.settings import telemetry
from moldau.deferred import deferred_pattern
from moldau.errors import BadData
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, format_uuid, new_uuid
from moldau.metrics.otlp_reading import Figure, read_figures
from moldau.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from moldau.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from moldau.records.codecs import Codec, decompress

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.metrics.otlp_reading import Figure

SERIES_OF_CLIENT: Final = 1_000
SERIES_MAX: Final = 20_000
_PREFIX: Final = "kafka_client_"
_KAFKAS: Final = "org.apache.kafka."
_NAME: Final = deferred_pattern(r"[a-zA-Z][a-zA-Z0-9_.\-]{0,199}")
_NOT_LABEL: Final = deferred_pattern(r"[^a-zA-Z0-9_]")

Labels = tuple[tuple[str, str], ...]
Key = tuple[str, bool, Labels]


class ClientFigures:
    """The series of all clients, by client."""

    def __init__(self) -> None:
        self._series: dict[bytes, dict[Key, float]] = {}
        self._count = 0
        self.left_out = 0

    def __len__(self) -> int:
        return self._count

    def take(self, instance_id: bytes, own: Labels, figures: Iterable[Figure]) -> None:
        """Take a push. `own` are the labels of its client."""
        series = self._series.setdefault(instance_id, {})
        for each in figures:
            name = series_name(each.name, is_counter=each.is_counter)
            if name is None or not math.isfinite(each.value):
                self.left_out += 1
                continue
            pairs = {_NOT_LABEL.sub("_", label): value for label, value in each.labels if value}
            key = name, each.is_counter, tuple({**pairs, **dict(own)}.items())
            if key not in series:
                if len(series) >= SERIES_OF_CLIENT or self._count >= SERIES_MAX:
                    self.left_out += 1
                    continue
                self._count += 1
                series[key] = 0.0
            is_added = each.is_counter and each.is_delta
            series[key] = series[key] + each.value if is_added else each.value

    def keep(self, is_known: Callable[[bytes], bool]) -> None:
        """Forget the series of clients that are not known any more."""
        for instance_id in [each for each in self._series if not is_known(each)]:
            self._count -= len(self._series.pop(instance_id))

    def series(self) -> Iterator[tuple[Key, float]]:
        """Yield every series with its value. Each name has one kind: that of its first series."""
        kinds: dict[str, bool] = {}
        for series in list(self._series.values()):
            for key, value in zip(list(series), list(series.values()), strict=True):
                if kinds.setdefault(key[0], key[1]) == key[1]:
                    yield key, value


def series_name(name: str, *, is_counter: bool) -> str | None:
    """Return the name in `/metrics`: `org.apache.kafka.producer.record.send.total` of a counter is
    `kafka_client_producer_record_send_total`. None: it cannot be one."""
    if _NAME.fullmatch(name) is None:
        return None
    short = name.removeprefix(_KAFKAS).replace(".", "_").replace("-", "_").lower()
    ended = short.removesuffix("_total") + "_total" if is_counter else short
    return _PREFIX + ended


KEYS: Final = frozenset((71, 72))
READING_MAX: Final = 16
"""Pushes that are read at a time; more are told to come later."""
DECOMPRESSED_BYTES_MAX: Final = 4 * 1024 * 1024
_CODECS: Final = [int(each) for each in (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)]
_MS: Final = 1_000_000


class ClientTelemetry:
    """What this node knows of its clients."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.instances = ClientInstances()
        self.figures = ClientFigures()
        self.reading = 0
        self.pushes = {"taken": 0, "throttled": 0, "refused": 0}

    @property
    def is_offered(self) -> bool:
        """Whether this node passes on what clients push."""
        settings = self._node.settings
        places = telemetry.moldau_metrics_listener, telemetry.moldau_metrics_otlp_endpoint
        return any(settings[each] for each in places)

    def configure(self) -> None:
        """Follow the subscriptions of the cluster."""
        configs = self._node.image.configs
        names = configs.resources(ResourceType.CLIENT_METRICS)
        self.instances.configure(
            {name: dict(configs.of(Resource(ResourceType.CLIENT_METRICS, name))) for name in names}
        )

    def expire(self, now_ms: int) -> None:
        """Forget clients that are gone, and their series."""
        self.instances.expire(now_ms)
        self.figures.keep(self.instances.__contains__)

    def refuse(self, error: KafkaError) -> None:
        """Count a push that is not taken."""
        is_early = error.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self.pushes["throttled" if is_early else "refused"] += 1


def serve_get(node: Node, request: ApiRequest) -> None:
    """Say what the client shall push, and when."""
    message = cast(GetTelemetrySubscriptionsRequest, request.decode())
    known, now_ms = node.telemetry, _now_ms(node)
    instance_id = bytes(message.client_instance_id)
    if instance_id == ZERO_UUID:
        instance_id = new_uuid(node.runtime.random)
    known.configure()
    wanted = known.instances.on_ask(_client(request, instance_id), now_ms)
    request.answer(
        GetTelemetrySubscriptionsResponse(
            error_code=ErrorCode.NONE,
            client_instance_id=instance_id,
            subscription_id=wanted.subscription_id,
            accepted_compression_types=list(_CODECS),
            push_interval_ms=wanted.interval_ms,
            telemetry_max_bytes=node.settings[telemetry.telemetry_max_bytes],
            delta_temporality=True,
            requested_metrics=list(wanted.metrics),
        )
    )


def serve_push(node: Node, request: ApiRequest) -> None:
    """Take the metrics of a client."""
    message = cast(PushTelemetryRequest, request.decode())
    known, now_ms = node.telemetry, _now_ms(node)
    known.configure()
    client = _client(request, bytes(message.client_instance_id))
    data = bytes(message.metrics)  # a copy: it is read after the request's bytes are gone
    try:
        push = Push(
            message.subscription_id, message.compression_type, len(data), message.terminating
        )
        size_bytes_max = node.settings[telemetry.telemetry_max_bytes]
        known.instances.on_push(client, push, size_bytes_max, now_ms)
        if data and known.reading >= READING_MAX:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many pushes at once")
    except KafkaError as error:
        known.refuse(error)
        raise
    known.expire(now_ms)
    if not data or not known.is_offered:
        known.pushes["taken"] += 1
        request.answer(PushTelemetryResponse(error_code=ErrorCode.NONE))
        return
    known.reading += 1
    own = (
        ("client_id", client.properties["client_id"]),
        ("client_instance_id", format_uuid(client.instance_id)),
    )
    reading = node.runtime.run_blocking(_read, data, message.compression_type)
    reading.add_done_callback(
        lambda done: _on_read(known, request, (client.instance_id, own), done)
    )


def _on_read(
    known: ClientTelemetry,
    request: ApiRequest,
    client: tuple[bytes, Labels],
    done: asyncio.Future[list[Figure] | None],
) -> None:
    known.reading -= 1
    figures = None if done.cancelled() else done.result()
    if figures is None:
        known.pushes["refused"] += 1
        request.answer(PushTelemetryResponse(error_code=ErrorCode.INVALID_RECORD))
        return
    known.figures.take(*client, figures)
    known.pushes["taken"] += 1
    request.answer(PushTelemetryResponse(error_code=ErrorCode.NONE))


def _read(data: bytes, codec_id: int) -> list[Figure] | None:
    """Return what was pushed; None if it cannot be read."""
    try:
        plain = bytes(decompress(Codec(codec_id), data, DECOMPRESSED_BYTES_MAX))
        return read_figures(plain, SERIES_OF_CLIENT)
    except BadData:
        return None


def _client(request: ApiRequest, instance_id: bytes) -> Client:
    at = request.connection
    name, version = at.software
    properties = {
        "client_instance_id": format_uuid(instance_id),
        "client_id": request.arrival.client_id or "",
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": at.address,
        "client_source_port": str(at.peer_port),
    }
    return Client(instance_id, properties)


def _now_ms(node: Node) -> int:
    return node.runtime.clock.monotonic_ns() // _MS
