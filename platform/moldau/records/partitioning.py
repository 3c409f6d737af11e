"""Which partition a key, a group or a transaction belongs to: the same as in all other clients.

Two hashes, two ways to make them positive; mixing them up sends records to other partitions than
Java does. Keys: murmur2, sign bit cut off. Names of groups and transactions: Java's string hash,
absolute value.
"""

from __future__ import annotations

from moldau.records.kernel import java_string_hash, murmur2

_INT32_MIN = -(1 << 31)


def to_positive(number: int) -> int:
    """A signed 32-bit number without its sign bit (not its absolute value)."""
    return number & 0x7FFFFFFF


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Where Java's default partitioner sends a record with this key."""
    return to_positive(murmur2(key)) % partition_count


def coordinator_partition(name: str, partition_count: int) -> int:
    """The partition of `__consumer_offsets`, `__transaction_state` or `__share_group_state` whose
    leader coordinates `name`."""
    hashed = java_string_hash(name)
    return 0 if hashed == _INT32_MIN else abs(hashed) % partition_count
