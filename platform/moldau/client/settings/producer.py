"""The settings of a producer, by Kafka's names, and the rules that join them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.client.settings.every_client import WITHOUT_CONTROLLERS
from moldau.client.settings.unused import UNUSED_BY_PRODUCERS, reasons
from moldau.config import (
    BOOLEAN,
    INT,
    LONG,
    STRING,
    Setting,
    Settings,
    at_least,
    between,
    either,
    exactly,
    not_empty,
    one_of,
    rows_in,
)
from moldau.link import settings as link_rows

_INT_MAX: Final = 2**31 - 1
_LATE_MS: Final = 1.75
"""The loop's timers end at whole milliseconds, up to one late, and what they begin takes a while to
reach the network."""

# fmt: off
acks = Setting("acks", STRING, "all", check=one_of("all", "-1", "0", "1"),
    doc="Replicas that must have a record before it counts as sent: 0 none, 1 the leader, all (or "
    "-1) every replica in sync.")
enable_idempotence = Setting("enable.idempotence", BOOLEAN, None,
    doc="Whether retries can neither duplicate nor reorder records. On unless acks, retries or "
    "max.in.flight.requests.per.connection rule it out.")
compression_type = Setting(
    "compression.type", STRING, "none", check=one_of("none", "gzip", "snappy", "lz4", "zstd"),
    doc="How batches are compressed.")
compression_gzip_level = Setting(
    "compression.gzip.level", INT, -1, check=either(exactly(-1), between(1, 9)),
    doc="The level for gzip; -1 is the library's default.")
compression_lz4_level = Setting("compression.lz4.level", INT, 9, check=between(1, 17),
    doc="The level for lz4; above 12 it is 12.")
compression_zstd_level = Setting("compression.zstd.level", INT, 3, check=between(-131_072, 22),
    doc="The level for zstd.")
batch_size = Setting("batch.size", INT, 16_384, check=at_least(0),
    doc="How many bytes of records, before compression, a batch of a partition holds at most; see "
    "batch.waiting.size for those that have to wait.")
linger_ms = Setting("linger.ms", LONG, 5, check=at_least(0),
    doc="How long a batch that is not full waits for more records, at most.")
buffer_memory = Setting("buffer.memory", LONG, 33_554_432, check=at_least(1),
    doc="How many bytes of records may wait to be sent; beyond that, sending waits.")
max_block_ms = Setting("max.block.ms", LONG, 60_000, check=at_least(0),
    doc="How long sending may wait for memory or for metadata.")
max_request_size = Setting("max.request.size", INT, 1_048_576, check=at_least(1),
    doc="How large a record, or a request with several batches, may be.")
max_in_flight = Setting("max.in.flight.requests.per.connection", INT, 5, check=at_least(1),
    doc="How many requests without an answer a broker may have at a time; at most 5 with "
    "idempotence.")
delivery_timeout_ms = Setting("delivery.timeout.ms", INT, 120_000, check=at_least(1),
    doc="After this long, retries included, a record that was not acknowledged has failed. At "
    "least linger.ms + request.timeout.ms: if it is not given and they are more, it is as long as "
    "these.")
batch_waiting_size = Setting("batch.waiting.size", INT, 262_144, check=at_least(0),
    doc="How many bytes a batch may hold that has to wait because another of its partition is to "
    "be sent first: until then it takes more than batch.size. Without effect if it is less than "
    "that. If it is not given, only an idempotent producer does so, or one with a single request "
    "in flight that hears of refusals (acks is not 0), and neither if batch.size is given: a batch "
    "that a topic refuses for its size may come after those behind it.")
retries = Setting("retries", INT, _INT_MAX, check=at_least(0),
    doc="How often a batch is sent again after an error that may pass; delivery.timeout.ms ends it "
    "sooner as a rule.")
partitioner_class = Setting("partitioner.class", STRING, None,
    doc="What chooses the partition of a record: round-robin, a plugin of the group "
    "moldau.partitioners, the dotted name of a class, or (in Python) an object with a method "
    "partition(record, key, value, topic). Without it: the hash of the key, and for records "
    "without one a partition for batch.size bytes and then another.")
partitioner_ignore_keys = Setting("partitioner.ignore.keys", BOOLEAN, False,
    doc="Whether records with a key are spread as if they had none.")
partitioner_adaptive = Setting("partitioner.adaptive.partitioning.enable", BOOLEAN, True,
    doc="Whether partitions of fast brokers get more of the records without a key: the fewer "
    "batches wait for one, the more often it is chosen.")
partitioner_availability_timeout_ms = Setting(
    "partitioner.availability.timeout.ms", LONG, 0, check=at_least(0),
    doc="Partitions of a broker that has taken nothing for this long are passed over for records "
    "without a key, while there are others; 0 passes over none.")
metadata_max_idle_ms = Setting("metadata.max.idle.ms", LONG, 300_000, check=at_least(5_000),
    doc="A topic that nothing was sent to for this long is asked about no more, until it is "
    "written to again.")
transactional_id = Setting("transactional.id", STRING, None, check=not_empty(),
    doc="The name of a producer that has transactions. No two may run with the same one at a time: "
    "one that starts fences the one before. It implies idempotence and acks=all.")
transaction_timeout_ms = Setting("transaction.timeout.ms", INT, 60_000, check=at_least(1),
    doc="How long a transaction may be open until the cluster aborts it; at most the brokers' "
    "transaction.max.timeout.ms. Without effect if there is no transactional.id.")
two_phase_commit = Setting("transaction.two.phase.commit.enable", BOOLEAN, False,
    doc="Whether transactions outlive their timeout (KIP-939). That is not built yet: true is "
    "refused.")
# fmt: on

PRODUCER_ROWS: Final = rows_in(globals())
_IDEMPOTENT_IN_FLIGHT_MAX: Final = 5
"""A broker remembers the last five batches of a producer, and knows no earlier one again."""
WITHOUT_MEANING: Final[Mapping[str, str]] = {**WITHOUT_CONTROLLERS, **reasons(UNUSED_BY_PRODUCERS)}
"""What is known and changes nothing, besides what all clients have of that kind."""
OBJECTS: Final = ("key.serializer", "value.serializer", "partitioner.class", "interceptor.classes")
"""Settings whose values may be objects."""


def grown_bytes(settings: Settings) -> int:
    """How large a batch that waits may become: `batch.size` if only that is given, or if a refused
    batch would break the order or not be heard of."""
    if settings.is_given(batch_waiting_size):
        return settings[batch_waiting_size]
    keeps_order = settings[max_in_flight] == 1 and settings[acks] != "0"
    if settings.is_given(batch_size) or not (idempotent(settings) or keeps_order):
        return 0
    return settings[batch_waiting_size]


def linger_s(linger_ms: int) -> float:
    """How long a batch takes records, so that they have left when `linger.ms` are over."""
    return max(linger_ms / 2, linger_ms - _LATE_MS) / 1000


def transactions_are_possible(settings: Settings) -> str | None:
    """A transactional producer is idempotent."""
    if settings[two_phase_commit]:
        return "transaction.two.phase.commit.enable is not built yet: leave it out"
    if settings[transactional_id] is None:
        return None
    if settings[enable_idempotence] is False:
        return "transactional.id needs enable.idempotence=true"
    against = _against_idempotence(settings)
    if against is None:
        return None
    needed, given = against
    return f"transactional.id needs {needed}, not {given}"


def partitioner_is_one(settings: Settings) -> str | None:
    """Keys are not both ignored and left to a partitioner."""
    if settings[partitioner_ignore_keys] and settings[partitioner_class] is not None:
        return "partitioner.ignore.keys has no effect with a partitioner.class: give one of them"
    return None


def idempotent(settings: Settings) -> bool:
    """Whether the producer is idempotent: as told, else whenever the other settings allow it."""
    told = settings[enable_idempotence]
    return told if told is not None else _against_idempotence(settings) is None


def idempotence_ruled_out(settings: Settings) -> str | None:
    """What to log where other settings have turned it off."""
    against = _against_idempotence(settings)
    if against is None or settings[enable_idempotence] is not None:
        return None
    needed, given = against
    return f"enable.idempotence is off: it needs {needed}, not {given}"


def idempotence_is_possible(settings: Settings) -> str | None:
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
    if count > _IDEMPOTENT_IN_FLIGHT_MAX:
        return f"{name} of {_IDEMPOTENT_IN_FLIGHT_MAX} or less", f"{name}={count}"
    return None


def longest_delivery_ms(settings: Settings) -> int:
    """`delivery.timeout.ms`, raised to what one request takes after the linger if it was not given,
    as in Kafka."""
    return max(settings[delivery_timeout_ms], _one_request_ms(settings))


def raised_delivery(settings: Settings) -> str | None:
    """What to log where it was raised."""
    ms = longest_delivery_ms(settings)
    if ms == settings[delivery_timeout_ms]:
        return None
    return f"delivery.timeout.ms is raised to linger.ms + request.timeout.ms, which is {ms}"


def _one_request_ms(settings: Settings) -> int:
    return min(settings[linger_ms] + settings[link_rows.request_timeout_ms], _INT_MAX)


def delivery_outlasts_a_request(settings: Settings) -> str | None:
    least = _one_request_ms(settings)
    if settings[delivery_timeout_ms] >= least or not settings.is_given(delivery_timeout_ms):
        return None
    return f"delivery.timeout.ms must be linger.ms + request.timeout.ms ({least}) or more"
