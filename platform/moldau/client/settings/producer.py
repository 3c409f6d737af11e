"""What a producer can be given besides plain numbers and texts: partitioners and serializers, by
name or as objects; and what belongs to transactions, which is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.client.settings.every_client import WITHOUT_CONTROLLERS
from moldau.client.settings.unused import UNUSED_BY_PRODUCERS, reasons
from moldau.config import BOOLEAN, INT, LONG, STRING, Setting, Settings, at_least, not_empty

_INT_MAX: Final = 2**31 - 1
_LATE_MS: Final = 1.75
"""The loop's timers end at whole milliseconds, up to one late, and what they begin takes a while to
reach the network."""

retries = Setting(
    "retries",
    INT,
    _INT_MAX,
    "How often a batch is sent again after an error that may pass; delivery.timeout.ms ends it "
    "sooner as a rule.",
    check=at_least(0),
)
batch_waiting_size = Setting(
    "batch.waiting.size",
    INT,
    262_144,
    "How many bytes a batch may hold that has to wait because another of its partition is to be "
    "sent first: until then it takes more than batch.size. Without effect if it is less than that. "
    "If it is not given, only an idempotent producer does so, or one with a single request in "
    "flight that hears of refusals (acks is not 0), and neither if batch.size is given: a batch "
    "that a topic refuses for its size may come after those behind it.",
    check=at_least(0),
)
partitioner_class = Setting(
    "partitioner.class",
    STRING,
    None,
    "What chooses the partition of a record: round-robin, a plugin of the group "
    "moldau.partitioners, the dotted name of a class, or (in Python) an object with a method "
    "partition(record, key, value, topic). Without it: the hash of the key, and for records "
    "without one a partition for batch.size bytes and then another.",
)
partitioner_ignore_keys = Setting(
    "partitioner.ignore.keys",
    BOOLEAN,
    False,
    "Whether records with a key are spread as if they had none.",
)
partitioner_adaptive = Setting(
    "partitioner.adaptive.partitioning.enable",
    BOOLEAN,
    True,
    "Whether partitions of fast brokers get more of the records without a key: the fewer "
    "batches wait for one, the more often it is chosen.",
)
partitioner_availability_timeout_ms = Setting(
    "partitioner.availability.timeout.ms",
    LONG,
    0,
    "Partitions of a broker that has taken nothing for this long are passed over for records "
    "without a key, while there are others; 0 passes over none.",
    check=at_least(0),
)
metadata_max_idle_ms = Setting(
    "metadata.max.idle.ms",
    LONG,
    300_000,
    "A topic that nothing was sent to for this long is asked about no more, until it is written "
    "to again.",
    check=at_least(5_000),
)
transactional_id = Setting(
    "transactional.id",
    STRING,
    None,
    "The name of a transactional producer. Transactions are not built yet: refused.",
    check=not_empty(),
)
two_phase_commit = Setting(
    "transaction.two.phase.commit.enable",
    BOOLEAN,
    False,
    "Whether transactions outlive their timeout (KIP-939). Transactions are not built yet: true "
    "is refused.",
)

OWN_ROWS: Final = (
    batch_waiting_size,
    retries,
    partitioner_class,
    partitioner_ignore_keys,
    partitioner_adaptive,
    partitioner_availability_timeout_ms,
    metadata_max_idle_ms,
    transactional_id,
    two_phase_commit,
)
WITHOUT_MEANING: Final[Mapping[str, str]] = {**WITHOUT_CONTROLLERS, **reasons(UNUSED_BY_PRODUCERS)}
"""What is known and changes nothing, besides what all clients have of that kind."""
OBJECTS: Final = ("key.serializer", "value.serializer", "partitioner.class", "interceptor.classes")
"""Settings whose values may be objects."""


def grown_bytes(settings: Settings, batch_size: Setting[int], *, may_be_refused: bool) -> int:
    """How large a batch that waits may become. With `batch.size` alone it is just that, and so
    it is if it `may_be_refused` only at the cost of order, or without an error."""
    is_asked_for = settings.is_given(batch_waiting_size)
    if not is_asked_for and (settings.is_given(batch_size) or not may_be_refused):
        return 0
    return settings[batch_waiting_size]


def linger_s(linger_ms: int) -> float:
    """How long a batch takes records, so that they have left when `linger.ms` are over."""
    return max(linger_ms / 2, linger_ms - _LATE_MS) / 1000


def has_no_transactions(settings: Settings) -> str | None:
    """They must not be left out in silence."""
    if settings[transactional_id] is not None or settings[two_phase_commit]:
        return "transactional.id: transactions are not built yet"
    return None


def partitioner_is_one(settings: Settings) -> str | None:
    """Keys are not both ignored and left to somebody else."""
    if settings[partitioner_ignore_keys] and settings[partitioner_class] is not None:
        return "partitioner.ignore.keys has no effect with a partitioner.class: give one of them"
    return None
