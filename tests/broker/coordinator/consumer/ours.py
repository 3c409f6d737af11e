"""Our group as the peer of a script."""

from __future__ import annotations

from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.consumer_group_describe import DescribedGroup
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from moldau.protocol.messages.offset_commit import (
    OffsetCommitResponsePartition as CommittedPartition,
)
from moldau.protocol.messages.offset_commit import OffsetCommitResponseTopic as CommittedTopic
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from moldau.protocol.messages.offset_fetch import OffsetFetchResponseGroup as FetchedGroup
from tests.broker.coordinator.consumer.script import TOPICS
from tests.broker.coordinator.consumer.shard import GROUP, Shard

PREFIX = "p."


class Ours:
    """Satisfies `script.Peer`."""

    def __init__(self) -> None:
        self.group_id = GROUP
        self.prefix = PREFIX
        self.shard = Shard({PREFIX + name: size for name, size in TOPICS.items()})
        self._ids: dict[str, Uuid] = {}
        for name in TOPICS:
            self._remember(PREFIX + name)

    def hear(self, request: Request, version: int, client_id: str) -> Response | KafkaError:
        if isinstance(request, OffsetCommitRequest):
            return self._commit(request, version)
        if isinstance(request, OffsetFetchRequest):
            return self._fetch(request)
        return self.shard.hear(request, version, client_id)

    def describe(self) -> DescribedGroup | None:
        return self.shard.describe() if isinstance(self.shard.group, ConsumerGroup) else None

    def topic_id(self, name: str) -> Uuid:
        return self._ids[name]

    def topic_name(self, topic_id: Uuid) -> str:
        return next(name for name, known in self._ids.items() if known == topic_id)

    def change_topic(self, name: str, size: int | None) -> None:
        self.shard.change_topic(name, size)
        if size is not None:
            self._remember(name)

    def _remember(self, name: str) -> None:
        topic = self.shard.world.cluster.by_name(name)
        assert topic is not None
        self._ids[name] = topic.topic_id

    def set(self, name: str, value: str) -> None:
        self.shard.world.of_group[name] = value

    def wait(self, wait_ms: int) -> None:
        self.shard.wait(wait_ms)

    def _commit(self, request: OffsetCommitRequest, version: int) -> Response | KafkaError:
        group = self.shard.group
        assert group is not None
        topic = request.topics[0]
        partition = topic.partitions[0].partition_index
        code = ErrorCode.NONE
        try:
            check = group.check_commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                version,
                is_txn=False,
            )
            if check is not None:
                check(topic.name, topic.topic_id, partition)
        except KafkaError as refused:
            code = refused.code
        committed = CommittedPartition(partition_index=partition, error_code=code)
        return OffsetCommitResponse(
            topics=[CommittedTopic(name=topic.name, partitions=[committed])]
        )

    def _fetch(self, request: OffsetFetchRequest) -> Response:
        group = self.shard.group
        assert group is not None
        asked = request.groups[0]
        code = ErrorCode.NONE
        try:
            group.check_fetch(asked.member_id, asked.member_epoch)
        except KafkaError as refused:
            code = refused.code
        return OffsetFetchResponse(
            groups=[FetchedGroup(group_id=asked.group_id, topics=[], error_code=code)]
        )
