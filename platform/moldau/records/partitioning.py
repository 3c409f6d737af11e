"""The partition of a key, a group or a transaction: the same one as in all other clients.

There are two hashes, and two ways to make them positive; with the wrong one, records go to other
partitions than in Java. Keys: murmur2 without its sign bit. Names of groups and transactions: the
absolute value of Java's string hash.
"""

from __future__ import annotations

from moldau.records.kernel import java_string_hash
from moldau.records.kernel import partition_for_key as partition_for_key

_INT32_MIN = -(1 << 31)


def to_positive(number: int) -> int:
    """Return a signed 32-bit number without its sign bit (not its absolute value)."""
    return number & 0x7FFFFFFF


def coordinator_partition(name: str, partition_count: int) -> int:
    """Return the partition of `__consumer_offsets`, `__transaction_state` or `__share_group_state`
    whose leader coordinates `name`."""
    hashed = java_string_hash(name)
    return 0 if hashed == _INT32_MIN else abs(hashed) % partition_count
