"""The metadata hash is Kafka's, bit for bit."""

from __future__ import annotations

from typing import Any

from moldau.broker.coordinator.group.consumer.metadata_hash import MetadataHashes, topic_hash
from moldau.broker.coordinator.group.contract import TopicFacts
from tests.broker.coordinator.consumer.world import Topics

FOO_ID = bytes.fromhex("01020304050607081112131415161718")


def test_it_is_what_hash4j_gives_for_the_same_topic() -> None:
    """Made with hash4j 0.22.0, the library that Kafka 4.3.1 brings: XXH3-64 over putByte(0),
    putLong(id), putString("foo"), putInt(2), and for each partition its number and racks."""
    racks: Any = (("rack1", "rack0"), ("rack0", "rack1"))
    foo = TopicFacts("foo", FOO_ID, racks)
    assert topic_hash(foo) == -2534043527029666511


def test_topics_that_do_not_exist_do_not_count() -> None:
    topics = Topics({"a": 1, "b": 2})
    hashes = MetadataHashes()
    assert hashes.of([], topics) == 0
    assert hashes.of(["none"], topics) == 0
    assert hashes.of(["a", "none"], topics) == hashes.of(["a"], topics)
    assert hashes.of(["b", "a"], topics) == hashes.of(["a", "b"], topics)
    assert hashes.of(["b"], topics) != hashes.of(["a"], topics)


def test_more_partitions_and_other_racks_change_it() -> None:
    topics = Topics({"a": 1})
    hashes = MetadataHashes()
    seen = {hashes.of(["a"], topics)}
    topics.put("a", 2)
    seen.add(hashes.of(["a"], topics))
    topics.put("a", 2, ("east",))
    seen.add(hashes.of(["a"], topics))
    topics.put("a", 2, ("east", "east"))
    seen.add(hashes.of(["a"], topics))
    assert len(seen) == 4


def test_a_topic_is_hashed_anew_only_when_it_is_another() -> None:
    topics = Topics({"a": 1})
    hashes = MetadataHashes()
    first = hashes.of(["a"], topics)
    known = topics.by_name("a")
    assert known is not None
    assert hashes.of(["a"], topics) == first == MetadataHashes().of(["a"], topics)
    topics.remove("a")
    topics.put("a", 1)
    assert hashes.of(["a"], topics) != first
