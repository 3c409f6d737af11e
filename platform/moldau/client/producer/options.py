"""Typed keywords of the clients; docs/client-settings.md says what each one does.

`python -m tests.client.settings.options` makes this module of the settings' rows.
"""

from collections.abc import Sequence
from typing import Literal

from moldau.client.producer.partitioner import RecordPartitioner
from moldau.client.producer.record import ProducerInterceptor
from moldau.client.settings.options import RecordOptions


class ProducerOptions(RecordOptions, total=False):
    """Those of `Producer`."""

    acks: Literal["all", "-1", "0", "1", -1, 0, 1]
    enable_idempotence: bool | None
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    batch_size: int
    linger_ms: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: int
    batch_waiting_size: int
    retries: int
    partitioner_class: str | RecordPartitioner | type[RecordPartitioner] | None
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    metadata_max_idle_ms: int
    transactional_id: str | None
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool
    interceptor_classes: str | Sequence[str | ProducerInterceptor | type[ProducerInterceptor]]
    serializer_encoding: str
    key_serializer_encoding: str | None
    value_serializer_encoding: str | None
