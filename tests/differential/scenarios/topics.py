"""Topics that come, grow, go and come again: what is in force for those who read and write."""

from __future__ import annotations

from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.records import encode_batch
from tests.broker.api.requests import fetch, list_offsets, produce, want
from tests.differential.requests import THEN, batch, new_settings, new_topic
from tests.differential.talk import Talk, versions

NO_ID = bytes(16)


def create(*topics: CreatableTopic) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=30_000)


def metadata(*names: str) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def placed(name: str, *assignments: tuple[int, list[int]]) -> CreatableTopic:
    topic = new_topic(name, -1)
    topic.replication_factor = -1
    topic.assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in assignments
    ]
    return topic


async def scenario(talk: Talk) -> None:
    await _creations(talk)
    await _settings_in_force(talk)
    await _growth(talk)
    await _deletion(talk)


async def _creations(talk: Talk) -> None:
    wanted = {
        "by default": new_topic("by-default", -1),
        "placed": placed("placed", (0, [1]), (1, [1])),
        "placed with a gap": placed("gap", (0, [1]), (2, [1])),
        "placed on nobody": placed("nobody", (0, [])),
        "placed twice": placed("twice", (0, [1, 1])),
        "placed elsewhere": placed("elsewhere", (0, [7])),
        "no partitions": new_topic("none", 0),
        "-2 partitions": new_topic("negative", -2),
        "unknown setting": new_topic("odd-setting", 1, no_such="1"),
        "bad value": new_topic("odd-value", 1, retention_ms="soon"),
        "value out of range": new_topic("odd-range", 1, retention_ms="-2"),
        "bad list": new_topic("odd-list", 1, cleanup_policy="compact,burn"),
        "segments too small": new_topic("odd-segments", 1, segment_bytes="100"),
        "a dot": new_topic("a.b", 1),
        "collides with the dot": new_topic("a_b", 1),
        "a long name": new_topic("n" * 249, 1),
        "too long a name": new_topic("n" * 250, 1),
        "a name of dots": new_topic("..", 1),
        "an internal name": new_topic("__mine", 1),
    }
    for label, topic in wanted.items():
        await talk.ask(f"create: {label}", create(topic), versions(CreateTopicsRequest, 5, 7)[-1:])
        await talk.settled()
    for name in ("placed", "__mine", "gap", "by-default"):
        await talk.ask(f"what became of {name}", metadata(name), [8, 12])


async def _settings_in_force(talk: Talk) -> None:
    async def changed(label: str, **configs: str) -> None:
        await talk.ask(f"set: {label}", new_settings("t", **configs))
        await talk.settled()

    await talk.topic("t")
    large = batch(1, size=3000)
    await changed("small messages", max_message_bytes="1000")
    await talk.ask("too large now", produce("t", large), 9)
    await changed("large messages", max_message_bytes="100000")
    await talk.ask("not too large now", produce("t", large), 9)
    await changed("two in sync", min_insync_replicas="2")
    for acks in (-1, 1):
        await talk.ask(f"two in sync, acks {acks}", produce("t", batch(), acks=acks), 9)
    await changed("one in sync", min_insync_replicas="1")
    await talk.ask("one in sync again", produce("t", batch()), 9)
    await changed("broker's time", message_timestamp_type="LogAppendTime")
    await talk.ask("stamped now", produce("t", batch(2)), 9)
    await changed("own time", message_timestamp_type="CreateTime")
    await changed("compacted", cleanup_policy="compact")
    keyless = bytes(encode_batch([(THEN, None, b"v", ())], 0))
    await talk.ask("without a key now", produce("t", keyless), 9)
    await talk.ask("all of it", fetch(("t", want())), 12)


async def _growth(talk: Talk) -> None:
    growing = CreatePartitionsTopic(name="t", count=3, assignments=None)
    request = CreatePartitionsRequest(topics=[growing], timeout_ms=30_000, validate_only=False)
    await talk.ask("grow", request)
    await talk.until(lambda: talk.is_led("t", 2))
    await talk.ask("into a new one", produce("t", batch(), index=2), 9)
    await talk.ask("from a new one", fetch(("t", want(1)), ("t", want(2))), 12)
    await talk.ask("after growing", metadata("t"))


async def _deletion(talk: Talk) -> None:
    gone_id = await talk.topic("gone", 2)
    await talk.write("gone", batch(3))
    state = DeleteTopicState(name="gone", topic_id=NO_ID)
    for version in versions(DeleteTopicsRequest, last=5):
        unknown = DeleteTopicsRequest(topic_names=["nope", ""], timeout_ms=30_000)
        await talk.ask(f"delete what is not there, {version}", unknown, version)
        await talk.topic(f"short-{version}")
        short = DeleteTopicsRequest(topic_names=[f"short-{version}"], timeout_ms=30_000)
        await talk.ask(f"delete in version {version}", short, version)
    await talk.ask("delete", DeleteTopicsRequest(topics=[state], timeout_ms=30_000))
    await talk.settled()
    await talk.ask("produce to what is gone", produce("gone", batch()), 9)
    await talk.ask("produce to what is gone, by id", produce(gone_id, batch()), 13)
    await talk.ask("fetch what is gone", fetch(("gone", want())), 12)
    await talk.ask("fetch what is gone, by id", fetch((gone_id, want())), 13)
    await talk.ask("offsets of what is gone", list_offsets(-1, "gone"), 11)
    await talk.ask("metadata of what is gone", metadata("gone"))
    talk.symbols.call("id", gone_id, "id of the gone")
    new_id = await talk.topic("gone")
    assert new_id != gone_id
    await talk.ask("the new one is empty", fetch(("gone", want())), 12)
    await talk.ask("the old id stays gone", fetch((gone_id, want())), 13)
    await talk.ask("produce to the new one", produce(new_id, batch()), 13)
    await talk.ask("metadata of the new one", metadata("gone"))
