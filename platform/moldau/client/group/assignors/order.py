"""The orders that Java's assignors use, so that ours get the same results. No IO.

Java's assignors iterate over hash maps and sort strings. Whatever comes first gets the odd
partition, so the order is part of the result. It can be computed: a HashMap iterates over its
buckets, a bucket keeps the order of insertion, and a key's bucket follows from its hash and the
size of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from moldau.client.group.assignors.assignor import Subscription, Topics
from moldau.link.metadata import TopicPartition
from moldau.records import java_string_hash

K = TypeVar("K")

_FIRST_TABLE: Final = 16
_PRIME: Final = 31
_UINT32: Final = 0xFFFFFFFF


def text_order(text: str) -> bytes:
    """Return a key that sorts texts as Java does: by their UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def partition_hash(where: TopicPartition) -> int:
    """Return the hash code of Java's TopicPartition."""
    return (_PRIME * (_PRIME + where.partition) + java_string_hash(where.topic)) & _UINT32


def table_size(entries: int, at_least: int = _FIRST_TABLE) -> int:
    """Return how many buckets a HashMap has after growing to this number of entries."""
    size = at_least
    while entries > size * 3 // 4:
        size *= 2
    return size


def in_hash_order(
    keys: Iterable[K], hash_of: Callable[[K], int], buckets: int | None = None
) -> list[K]:
    """Return the keys in the order of a HashMap that they were put into in this order."""
    known = list(keys)
    mask = (table_size(len(known)) if buckets is None else buckets) - 1

    def bucket(key: K) -> int:
        hashed = hash_of(key) & _UINT32
        return (hashed ^ hashed >> 16) & mask

    return sorted(known, key=bucket)


def members_in_hash_order(members: Mapping[str, Subscription]) -> dict[str, Subscription]:
    """Return the members in the order in which Java's coordinator passes them to an assignor."""
    return {each: members[each] for each in in_hash_order(members, java_string_hash)}


def by_instance(members: Mapping[str, Subscription]) -> list[str]:
    """Return the member ids in order: static members first, by their instance ids, so that a
    restart with another member id changes nothing."""

    def key(member_id: str) -> tuple[bool, bytes, bytes]:
        instance = members[member_id].instance_id
        return (instance is None, text_order(instance or ""), text_order(member_id))

    return sorted(members, key=key)


def is_rack_aware(
    member_racks: frozenset[str], partition_racks: frozenset[str], racks: Iterable[frozenset[str]]
) -> bool:
    """Whether racks can make a difference (KIP-881): some replica is in a member's rack, and not
    every partition is in all racks."""
    if not member_racks or member_racks.isdisjoint(partition_racks):
        return False
    return any(each != partition_racks for each in racks)


def wanted_topics(topics: Topics, members: Mapping[str, Subscription]) -> Topics:
    """Return the topics that members want and that have partitions, by name."""
    wanted = {topic for each in members.values() for topic in each.topics}
    return {topic: topics[topic] for topic in sorted(wanted, key=text_order) if topics.get(topic)}
