"""Typed keywords of the clients: those of `Producer`. Made of the settings' rows.

`python -m tests.client.settings.options` makes this module anew.
"""

from collections.abc import Sequence

from moldau.client.producer.partitioner import RecordPartitioner
from moldau.client.producer.record import ProducerInterceptor
from moldau.client.settings.record_options import RecordOptions


class ProducerOptions(RecordOptions, total=False):
    """Kafka's settings with underscores for dots."""

    acks: int | str
    """Replicas that must have a record before it counts as sent: 0 none, 1 the leader, all (or -1)
    every replica in sync. Default: all."""

    enable_idempotence: bool | str | None
    """Whether retries can neither duplicate nor reorder records. On unless acks, retries or
    max.in.flight.requests.per.connection rule it out."""

    compression_type: str
    """How batches are compressed. Default: none."""

    compression_gzip_level: int | str
    """The level for gzip; -1 is the library's default. Default: -1."""

    compression_lz4_level: int | str
    """The level for lz4; above 12 it is 12. Default: 9."""

    compression_zstd_level: int | str
    """The level for zstd. Default: 3."""

    batch_size: int | str
    """How many bytes of records, before compression, a batch of a partition holds at most; see
    batch.waiting.size for those that have to wait. Default: 16384."""

    linger_ms: int | str
    """How long a batch that is not full waits for more records, at most. Default: 5."""

    buffer_memory: int | str
    """How many bytes of records may wait to be sent; beyond that, sending waits. Default:
    33554432."""

    max_block_ms: int | str
    """How long sending may wait for memory or for metadata. Default: 60000."""

    max_request_size: int | str
    """How large a record, or a request with several batches, may be. Default: 1048576."""

    max_in_flight_requests_per_connection: int | str
    """How many requests without an answer a broker may have at a time; at most 5 with idempotence.
    Default: 5."""

    delivery_timeout_ms: int | str
    """After this long, retries included, a record that was not acknowledged has failed. At least
    linger.ms + request.timeout.ms: if it is not given and they are more, it is as long as these.
    Default: 120000."""

    batch_waiting_size: int | str
    """How many bytes a batch may hold that has to wait because another of its partition is to be
    sent first: until then it takes more than batch.size. Without effect if it is less than that. If
    it is not given, only an idempotent producer does so, or one with a single request in flight
    that hears of refusals (acks is not 0), and neither if batch.size is given: a batch that a topic
    refuses for its size may come after those behind it. Default: 262144."""

    retries: int | str
    """How often a batch is sent again after an error that may pass; delivery.timeout.ms ends it
    sooner as a rule. Default: 2147483647."""

    partitioner_class: str | RecordPartitioner | type[RecordPartitioner] | None
    """What chooses the partition of a record: round-robin, a plugin of the group
    moldau.partitioners, the dotted name of a class, or (in Python) an object with a method
    partition(record, key, value, topic). Without it: the hash of the key, and for records without
    one a partition for batch.size bytes and then another."""

    partitioner_ignore_keys: bool | str
    """Whether records with a key are spread as if they had none. Default: false."""

    partitioner_adaptive_partitioning_enable: bool | str
    """Whether partitions of fast brokers get more of the records without a key: the fewer batches
    wait for one, the more often it is chosen. Default: true."""

    partitioner_availability_timeout_ms: int | str
    """Partitions of a broker that has taken nothing for this long are passed over for records
    without a key, while there are others; 0 passes over none. Default: 0."""

    metadata_max_idle_ms: int | str
    """A topic that nothing was sent to for this long is asked about no more, until it is written to
    again. Default: 300000."""

    transactional_id: str | None
    """The name of a transactional producer. Transactions are not built yet: refused."""

    transaction_two_phase_commit_enable: bool | str
    """Whether transactions outlive their timeout (KIP-939). Transactions are not built yet: true is
    refused. Default: false."""

    interceptor_classes: str | Sequence[str | ProducerInterceptor | type[ProducerInterceptor]]
    """What sees records on their way, and what became of them: plugins of the group
    moldau.interceptors, dotted names of classes, or (in Python) objects."""

    serializer_encoding: str
    """How the string serializer writes text. Default: UTF-8."""

    key_serializer_encoding: str | None
    """How the string serializer writes keys; as serializer.encoding says, if it is not given."""

    value_serializer_encoding: str | None
    """How the string serializer writes values; as serializer.encoding says, if it is not given."""
