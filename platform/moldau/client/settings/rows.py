"""The settings of the clients, by Kafka's names: one row each, in one table a kind of client.

Only what works is listed, so an unknown name is refused with the nearest known one instead of being
ignored. Values come from files, mappings and the command line alike (`moldau.config`); Python code
writes them as keywords, `batch_size=65536` for `batch.size`.

Invariant: what a client does without settings is what Kafka's own clients of 4.3 do, but for what
costs nothing and saves work: see `batch.waiting.size`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.client.settings import producer as producer_settings
from moldau.client.settings import serdes as serde_settings
from moldau.client.settings.every_client import (
    BOOTSTRAP_CONTROLLERS,
    METRICS_ROWS,
    WITHOUT_CONTROLLERS,
    WITHOUT_MEANING_TO_CONSUMERS,
    interceptor_classes,
    refuse_bytes,
    text_of,
)
from moldau.client.settings.group import GROUP_ROWS as GROUP_ROWS
from moldau.client.settings.group import auto_commit_interval_ms as auto_commit_interval_ms
from moldau.client.settings.group import beats_often_enough, fits_protocol, group_is_whole
from moldau.client.settings.group import commits_by_itself as commits_by_itself
from moldau.client.settings.group import enable_auto_commit as enable_auto_commit
from moldau.client.settings.group import exclude_internal_topics as exclude_internal_topics
from moldau.client.settings.group import group_id as group_id
from moldau.client.settings.group import group_instance_id as group_instance_id
from moldau.client.settings.group import group_protocol as group_protocol
from moldau.client.settings.group import group_remote_assignor as group_remote_assignor
from moldau.client.settings.group import heartbeat_interval_ms as heartbeat_interval_ms
from moldau.client.settings.group import max_poll_interval_ms as max_poll_interval_ms
from moldau.client.settings.group import (
    partition_assignment_strategy as partition_assignment_strategy,
)
from moldau.client.settings.group import rebalance_timeout_ms as rebalance_timeout_ms
from moldau.client.settings.group import session_timeout_ms as session_timeout_ms
from moldau.client.settings.offset_reset import parse_reset
from moldau.client.settings.producer import (
    OWN_ROWS,
    has_no_transactions,
    partitioner_is_one,
    retries,
)
from moldau.client.settings.serdes import (
    DESERIALIZER_ROWS,
    SERDE_ROWS,
    SERIALIZER_ROWS,
    credentials_are_whole,
)
from moldau.config import (
    BOOLEAN,
    INT,
    LONG,
    STRING,
    BadSettings,
    Check,
    Problem,
    Setting,
    Settings,
    SettingTable,
    at_least,
    between,
    either,
    exactly,
    one_of,
    overrides,
    sendable,
)
from moldau.errors import ConfigError
from moldau.link.settings import CONNECTION_ROWS, OPEN_PREFIXES, hosts_have_names, nothing_unbuilt
from moldau.link.settings import bootstrap_servers as bootstrap_servers
from moldau.link.settings import client_id as client_id
from moldau.link.settings import connection_setup_timeout_ms as connection_setup_timeout_ms
from moldau.link.settings import default_api_timeout_ms as default_api_timeout_ms
from moldau.link.settings import metadata_max_age_ms as metadata_max_age_ms
from moldau.link.settings import reconnect_backoff_max_ms as reconnect_backoff_max_ms
from moldau.link.settings import reconnect_backoff_ms as reconnect_backoff_ms
from moldau.link.settings import request_timeout_ms as request_timeout_ms
from moldau.link.settings import retry_backoff_max_ms as retry_backoff_max_ms
from moldau.link.settings import retry_backoff_ms as retry_backoff_ms

_INT_MAX: Final = 2**31 - 1


def _is_reset(text: str) -> bool:
    try:
        parse_reset(text)
    except ConfigError:
        return False
    return True


ADMIN_SETTINGS: Final = SettingTable(
    CONNECTION_ROWS, open_prefixes=OPEN_PREFIXES, rules=(hosts_have_names, nothing_unbuilt)
)

GROUP_MEMBER_SETTINGS: Final = SettingTable(
    (
        *CONNECTION_ROWS,
        group_instance_id,
        session_timeout_ms,
        heartbeat_interval_ms,
        rebalance_timeout_ms,
    ),
    open_prefixes=OPEN_PREFIXES,
    rules=(hosts_have_names, nothing_unbuilt, beats_often_enough),
)

acks = Setting(
    "acks",
    STRING,
    "all",
    "Replicas that must have a record before it counts as sent: 0 none, 1 the leader, "
    "all (or -1) every replica in sync.",
    check=one_of("all", "-1", "0", "1"),
)
enable_idempotence = Setting(
    "enable.idempotence",
    BOOLEAN,
    None,
    "Whether retries can neither duplicate nor reorder records. On unless acks, retries or "
    "max.in.flight.requests.per.connection rule it out.",
)
compression_type = Setting(
    "compression.type",
    STRING,
    "none",
    "How batches are compressed.",
    check=one_of("none", "gzip", "snappy", "lz4", "zstd"),
)
compression_gzip_level = Setting(
    "compression.gzip.level",
    INT,
    -1,
    "The level for gzip; -1 is the library's default.",
    check=either(exactly(-1), between(1, 9)),
)
compression_lz4_level = Setting(
    "compression.lz4.level", INT, 9, "The level for lz4; above 12 it is 12.", check=between(1, 17)
)
compression_zstd_level = Setting(
    "compression.zstd.level", INT, 3, "The level for zstd.", check=between(-131_072, 22)
)
batch_size = Setting(
    "batch.size",
    INT,
    16_384,
    "How many bytes of records, before compression, a batch of a partition holds at most; see "
    "batch.waiting.size for those that have to wait.",
    check=at_least(0),
)
linger_ms = Setting(
    "linger.ms",
    LONG,
    5,
    "How long a batch that is not full waits for more records, at most.",
    check=at_least(0),
)
buffer_memory = Setting(
    "buffer.memory",
    LONG,
    33_554_432,
    "How many bytes of records may wait to be sent; beyond that, sending waits.",
    check=at_least(1),
)
max_block_ms = Setting(
    "max.block.ms",
    LONG,
    60_000,
    "How long sending may wait for memory or for metadata.",
    check=at_least(0),
)
max_request_size = Setting(
    "max.request.size",
    INT,
    1_048_576,
    "How large a record, or a request with several batches, may be.",
    check=at_least(1),
)
max_in_flight = Setting(
    "max.in.flight.requests.per.connection",
    INT,
    5,
    "How many requests without an answer a broker may have at a time; at most 5 with idempotence.",
    check=at_least(1),
)
delivery_timeout_ms = Setting(
    "delivery.timeout.ms",
    INT,
    120_000,
    "After this long, retries included, a record that was not acknowledged has failed. At least "
    "linger.ms + request.timeout.ms: if it is not given and they are more, it is as long as these.",
    check=at_least(1),
)


def idempotent(settings: Settings) -> bool:
    """Whether the producer is idempotent: as told, else whenever the other settings allow it."""
    told = settings[enable_idempotence]
    return told if told is not None else _against_idempotence(settings) is None


def idempotence_ruled_out(settings: Settings) -> str | None:
    """What a user should hear of it, where other settings have turned it off."""
    against = _against_idempotence(settings)
    if against is None or settings[enable_idempotence] is not None:
        return None
    needed, given = against
    return f"enable.idempotence is off: it needs {needed}, not {given}"


def _idempotence_needs(settings: Settings) -> str | None:
    against = _against_idempotence(settings)
    if against is None or not settings[enable_idempotence]:
        return None
    needed, given = against
    return f"enable.idempotence needs {needed}, not {given}"


def _against_idempotence(settings: Settings) -> tuple[str, str] | None:
    """What it needs, and what is given instead."""
    if settings[acks] not in ("all", "-1"):
        return "acks=all", f"acks={settings[acks]}"
    if settings[retries] == 0:
        return "retries of 1 or more", "retries=0"
    name, count = max_in_flight.name, settings[max_in_flight]
    if count > IDEMPOTENT_IN_FLIGHT_MAX:
        return f"{name} of {IDEMPOTENT_IN_FLIGHT_MAX} or less", f"{name}={count}"
    return None


def longest_delivery_ms(settings: Settings) -> int:
    """`delivery.timeout.ms`; as in Kafka it is raised to what one request takes after the linger,
    if it was not given."""
    return max(settings[delivery_timeout_ms], _one_request_ms(settings))


def raised_delivery(settings: Settings) -> str | None:
    """What a user should hear of it, where it was raised."""
    ms = longest_delivery_ms(settings)
    if ms == settings[delivery_timeout_ms]:
        return None
    return f"delivery.timeout.ms is raised to linger.ms + request.timeout.ms, which is {ms}"


def _one_request_ms(settings: Settings) -> int:
    return min(settings[linger_ms] + settings[request_timeout_ms], _INT_MAX)


def _delivery_outlasts_a_request(settings: Settings) -> str | None:
    least = _one_request_ms(settings)
    if settings[delivery_timeout_ms] >= least or not settings.is_given(delivery_timeout_ms):
        return None
    return f"delivery.timeout.ms must be linger.ms + request.timeout.ms ({least}) or more"


IDEMPOTENT_IN_FLIGHT_MAX: Final = 5
"""A broker remembers the last five batches of a producer, and knows no earlier one again."""

PRODUCER_SETTINGS: Final = SettingTable(
    (
        *CONNECTION_ROWS,
        acks,
        enable_idempotence,
        compression_type,
        compression_gzip_level,
        compression_lz4_level,
        compression_zstd_level,
        batch_size,
        linger_ms,
        buffer_memory,
        max_block_ms,
        max_request_size,
        max_in_flight,
        delivery_timeout_ms,
        *OWN_ROWS,
        interceptor_classes,
        *METRICS_ROWS,
        *SERDE_ROWS,
        *SERIALIZER_ROWS,
    ),
    open_prefixes=OPEN_PREFIXES,
    rules=(
        _idempotence_needs,
        _delivery_outlasts_a_request,
        hosts_have_names,
        nothing_unbuilt,
        has_no_transactions,
        partitioner_is_one,
        credentials_are_whole,
    ),
)

fetch_min_bytes = Setting(
    "fetch.min.bytes",
    INT,
    1,
    "How many bytes a broker gathers before it answers a fetch, unless fetch.max.wait.ms is over.",
    check=at_least(0),
)
fetch_max_bytes = Setting(
    "fetch.max.bytes",
    INT,
    52_428_800,
    "How many bytes an answer to a fetch holds, unless its first batch alone is larger.",
    check=at_least(0),
)
fetch_max_wait_ms = Setting(
    "fetch.max.wait.ms", INT, 500, "How long a broker waits for fetch.min.bytes.", check=at_least(0)
)
max_partition_fetch_bytes = Setting(
    "max.partition.fetch.bytes",
    INT,
    1_048_576,
    "How many bytes a fetch brings of one partition, unless its first batch alone is larger; about "
    "twice as many are kept for it in memory.",
    check=at_least(0),
)
max_poll_records = Setting(
    "max.poll.records",
    INT,
    500,
    "How many records a poll gives at most, if it is not told otherwise.",
    check=at_least(1),
)
isolation_level = Setting(
    "isolation.level",
    STRING,
    "read_uncommitted",
    "Whether records of open and aborted transactions are read too.",
    check=one_of("read_uncommitted", "read_committed"),
)
auto_offset_reset = Setting(
    "auto.offset.reset",
    STRING,
    "latest",
    "Where to go on when the position of a partition is unknown or no longer in its log: earliest, "
    "latest, by_duration:PT1H (the first record that is not older than that, KIP-1106), or none, "
    "which is an error for the user to decide about.",
    check=Check("earliest, latest, none or by_duration:<ISO 8601>", _is_reset),
)
check_crcs = Setting(
    "check.crcs", BOOLEAN, True, "Whether the checksum of each batch that was fetched is checked."
)
allow_auto_create_topics = Setting(
    "allow.auto.create.topics",
    BOOLEAN,
    True,
    "Whether asking for a topic that does not exist makes it, if the broker does so at all.",
)

buffer_memory_of_consumer = Setting(
    "buffer.memory",
    LONG,
    67_108_864,
    "How many bytes of records are kept that were fetched and not given out yet; no more are asked "
    "for until some were.",
    check=at_least(1),
)
client_rack = Setting(
    "client.rack",
    STRING,
    "",
    "Where this client is: the broker may let it read from a replica near by, and assignors may "
    "give it partitions that have one.",
    check=sendable(),
)

CONSUMER_SETTINGS: Final = SettingTable(
    (
        *CONNECTION_ROWS,
        *GROUP_ROWS,
        client_rack,
        buffer_memory_of_consumer,
        fetch_min_bytes,
        fetch_max_bytes,
        fetch_max_wait_ms,
        max_partition_fetch_bytes,
        max_poll_records,
        isolation_level,
        auto_offset_reset,
        check_crcs,
        allow_auto_create_topics,
        interceptor_classes,
        *METRICS_ROWS,
        *SERDE_ROWS,
        *DESERIALIZER_ROWS,
    ),
    open_prefixes=OPEN_PREFIXES,
    rules=(
        group_is_whole,
        fits_protocol,
        beats_often_enough,
        hosts_have_names,
        nothing_unbuilt,
        credentials_are_whole,
    ),
)


def resolve(
    table: SettingTable, given: Mapping[str, object], options: Mapping[str, object]
) -> Settings:
    """The settings of a client from a mapping by Kafka's names and from keywords; these win.

    BadSettings tells all that is wrong with them at once.
    """
    named = {**given, **{name.replace("_", "."): value for name, value in options.items()}}
    refuse_bytes(named)
    _refuse_controllers(named)
    return table.resolve(overrides({name: text_of(value) for name, value in named.items()}))


def _refuse_controllers(named: dict[str, object]) -> None:
    """Before it is said that bootstrap.servers is missing, or somebody else's are asked."""
    if named.get(BOOTSTRAP_CONTROLLERS) in (None, "", [], ()):  # Kafka's default
        named.pop(BOOTSTRAP_CONTROLLERS, None)
    else:
        reason = (
            "controllers are not asked directly, brokers pass on what is for them: give "
            "bootstrap.servers instead"
        )
        raise BadSettings([Problem(BOOTSTRAP_CONTROLLERS, reason)])


def _names(table: SettingTable) -> frozenset[str]:
    return frozenset(name for row in table for name in (row.name, *row.aliases))


_OF_BOTH: Final = serde_settings.WITHOUT_MEANING.keys()
_OF_PRODUCERS: Final = (
    _names(PRODUCER_SETTINGS) | producer_settings.WITHOUT_MEANING.keys() | _OF_BOTH
)
_OF_CONSUMERS: Final = _names(CONSUMER_SETTINGS) | WITHOUT_MEANING_TO_CONSUMERS.keys() | _OF_BOTH
OF_PRODUCERS_ALONE: Final = _OF_PRODUCERS - _OF_CONSUMERS
"""What a producer's file may have, and nobody else has a use for."""
OF_CONSUMERS_ALONE: Final = _OF_CONSUMERS - _OF_PRODUCERS
OF_PRODUCERS_AND_CONSUMERS: Final = (
    (_OF_PRODUCERS | _OF_CONSUMERS) - _names(ADMIN_SETTINGS) - WITHOUT_CONTROLLERS.keys()
)
"""What a file of another client may have, and an Admin has no use for."""
OF_OTHERS_THAN_MEMBERS: Final = OF_PRODUCERS_AND_CONSUMERS - _names(GROUP_MEMBER_SETTINGS)
"""What a file of another client may have, and a GroupMember has no use for."""
