"""Typed keywords of the clients: those of `Consumer`. Made of the settings' rows.

`python -m tests.client.settings.options` makes this module anew.
"""

from collections.abc import Sequence

from moldau.client.consumer.interceptors import ConsumerInterceptor
from moldau.client.group.assignors import AssignorGiven
from moldau.client.settings.record_options import RecordOptions


class ConsumerOptions(RecordOptions, total=False):
    """Kafka's settings with underscores for dots."""

    group_id: str | None
    """The group that shares the partitions of its topics and keeps their offsets. Needed to
    subscribe and to commit."""

    group_protocol: str
    """How members share partitions: classic (one of them decides), or consumer (the coordinator
    does, KIP-848; needs Kafka 4.0). Default: classic."""

    group_instance_id: str | None
    """Makes this a static member (KIP-345): when it comes back under this name before its session
    ends, it finds its partitions again without a rebalance."""

    group_remote_assignor: str | None
    """Which of the coordinator's assignors to use; its first one if not told. For the consumer
    protocol."""

    partition_assignment_strategy: str | AssignorGiven | Sequence[AssignorGiven]
    """The assignors that this member can use, the best first: range, roundrobin, sticky,
    cooperative-sticky (or the names of Java's classes), and those of plugins. The group takes one
    that all members have. For the classic protocol. Default: range,cooperative-sticky."""

    session_timeout_ms: int | str
    """A member that is not heard of for this long is taken for dead. For the classic protocol.
    Default: 45000."""

    heartbeat_interval_ms: int | str
    """How often a member tells that it lives; a third of the session timeout at most is wise. For
    the classic protocol. Default: 3000."""

    max_poll_interval_ms: int | str
    """A member that does not poll for this long leaves its group, and others get its partitions.
    Handlers of what one poll gives must be done before. Default: 300000."""

    enable_auto_commit: bool | str | None
    """Whether what was given out by earlier polls is committed by itself: every
    auto.commit.interval.ms, before partitions are given up, and when the consumer is closed. On
    unless there is no group.id."""

    auto_commit_interval_ms: int | str
    """How often offsets are committed by themselves. Default: 5000."""

    exclude_internal_topics: bool | str
    """Whether a pattern passes over topics that Kafka keeps for itself. One that the coordinator
    matches (a text, with group.protocol=consumer) finds them all the same. Default: true."""

    client_rack: str
    """Where this client is: the broker may let it read from a replica near by, and assignors may
    give it partitions that have one."""

    buffer_memory: int | str
    """How many bytes of records are kept that were fetched and not given out yet; no more are asked
    for until some were. Default: 67108864."""

    fetch_min_bytes: int | str
    """How many bytes a broker gathers before it answers a fetch, unless fetch.max.wait.ms is over.
    Default: 1."""

    fetch_max_bytes: int | str
    """How many bytes an answer to a fetch holds, unless its first batch alone is larger. Default:
    52428800."""

    fetch_max_wait_ms: int | str
    """How long a broker waits for fetch.min.bytes. Default: 500."""

    max_partition_fetch_bytes: int | str
    """How many bytes a fetch brings of one partition, unless its first batch alone is larger; about
    twice as many are kept for it in memory. Default: 1048576."""

    max_poll_records: int | str
    """How many records a poll gives at most, if it is not told otherwise. Default: 500."""

    isolation_level: str
    """Whether records of open and aborted transactions are read too. Default: read_uncommitted."""

    auto_offset_reset: str
    """Where to go on when the position of a partition is unknown or no longer in its log: earliest,
    latest, by_duration:PT1H (the first record that is not older than that, KIP-1106), or none,
    which is an error for the user to decide about. Default: latest."""

    check_crcs: bool | str
    """Whether the checksum of each batch that was fetched is checked. Default: true."""

    allow_auto_create_topics: bool | str
    """Whether asking for a topic that does not exist makes it, if the broker does so at all.
    Default: true."""

    interceptor_classes: str | Sequence[str | ConsumerInterceptor | type[ConsumerInterceptor]]
    """What sees records on their way, and what became of them: plugins of the group
    moldau.interceptors, dotted names of classes, or (in Python) objects."""

    deserializer_encoding: str
    """How the string deserializer reads text. Default: UTF-8."""

    key_deserializer_encoding: str | None
    """How the string deserializer reads keys; as deserializer.encoding says, if it is not given."""

    value_deserializer_encoding: str | None
    """How the string deserializer reads values; as deserializer.encoding says, if it is not
    given."""
