"""Typed keywords of the clients; docs/client-settings.md says what each one does.

`python -m tests.client.settings.options` makes this module of the settings' rows.
"""

from collections.abc import Sequence

from moldau.client.producer.partitioner import RecordPartitioner
from moldau.client.producer.record import ProducerInterceptor
from moldau.client.settings.options import RecordOptions


class ProducerOptions(RecordOptions, total=False):
    """Those of `Producer`."""

    acks: int | str
    enable_idempotence: bool | str | None
    compression_type: str
    compression_gzip_level: int | str
    compression_lz4_level: int | str
    compression_zstd_level: int | str
    batch_size: int | str
    linger_ms: int | str
    buffer_memory: int | str
    max_block_ms: int | str
    max_request_size: int | str
    max_in_flight_requests_per_connection: int | str
    delivery_timeout_ms: int | str
    batch_waiting_size: int | str
    retries: int | str
    partitioner_class: str | RecordPartitioner | type[RecordPartitioner] | None
    partitioner_ignore_keys: bool | str
    partitioner_adaptive_partitioning_enable: bool | str
    partitioner_availability_timeout_ms: int | str
    metadata_max_idle_ms: int | str
    transactional_id: str | None
    transaction_timeout_ms: int | str
    transaction_two_phase_commit_enable: bool | str
    interceptor_classes: str | Sequence[str | ProducerInterceptor | type[ProducerInterceptor]]
    serializer_encoding: str
    key_serializer_encoding: str | None
    value_serializer_encoding: str | None
