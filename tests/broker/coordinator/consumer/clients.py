"""Clients of a consumer group as they are: they give up what is taken away in their own time, lose
answers, and hold what they hold until they are told otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from moldau.protocol.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from moldau.protocol.schemas.versioned import decode_as_known, encode_versioned
from tests.broker.coordinator.consumer.shard import GROUP, Answer, Shard

TopicPartitionId = tuple[Uuid, int]

ABANDONS = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.ILLEGAL_GENERATION,
)


@dataclass(slots=True)
class Client:
    """A consumer of the new protocol."""

    shard: Shard
    member_id: str
    topics: list[str]
    regex: str | None = None
    instance: str | None = None
    assignor: str | None = None
    rebalance_ms: int = 10_000
    epoch: int = 0
    must_say_all: bool = False
    """An answer was lost: the next request says everything, so that the next answer does."""
    told: set[TopicPartitionId] = field(default_factory=set)
    owned: set[TopicPartitionId] = field(default_factory=set)

    def beat(self, *, gives_up: bool = True, hears: bool = True, is_full: bool = False) -> Answer:
        """One heartbeat; without `gives_up` it holds on to what was taken away, without `hears`
        the answer is lost."""
        joins = self.epoch == 0
        if joins:
            self.abandon()
        self.follow(gives_up=gives_up)
        says_all = joins or is_full or self.must_say_all
        answer = self.shard.hear(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self.member_id,
                member_epoch=self.epoch,
                instance_id=self.instance,
                rebalance_timeout_ms=self.rebalance_ms if says_all else -1,
                subscribed_topic_names=self.topics if says_all else None,
                subscribed_topic_regex=self.regex if says_all else None,
                server_assignor=self.assignor if says_all else None,
                topic_partitions=topic_partitions(self.owned),
            ),
            1,
        )
        self.must_say_all = not hears
        if hears:
            self.hear(answer)
        return answer

    def hear(self, answer: Answer) -> None:
        """The answer has come."""
        if isinstance(answer, KafkaError):
            self.must_say_all = True
            if answer.code in ABANDONS:
                self.abandon()
            return
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.told = {
                (each.topic_id, partition)
                for each in answer.assignment.topic_partitions
                for partition in each.partitions
            }
            assert not self.told & self.owned - self.told
        if self.owned <= self.told:
            self.owned = set(self.told)

    def follow(self, *, gives_up: bool) -> None:
        """Revoke first; only then take what is new."""
        if gives_up:
            self.owned &= self.told
        if self.owned <= self.told:
            self.owned = set(self.told)

    def abandon(self) -> None:
        """It has nothing any more and joins anew."""
        self.epoch = 0
        self.told = set()
        self.owned = set()

    def leave(self, epoch: int = -1) -> Answer:
        """It has given up everything before."""
        answer = self.shard.hear(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self.member_id,
                member_epoch=epoch,
                instance_id=self.instance,
                rebalance_timeout_ms=-1,
            ),
            1,
        )
        self.abandon()
        return answer


@dataclass(slots=True)
class ClassicClient:
    """A consumer of the classic protocol with a cooperative assignor."""

    shard: Shard
    member_id: str
    topics: list[str]
    epoch: int = 0
    must_join: bool = True
    owned: set[TopicPartitionId] = field(default_factory=set)

    def step(self) -> None:
        """Join and sync if that is due, else a heartbeat."""
        if self.must_join:
            self._join()
            return
        answer = self.shard.hear(
            HeartbeatRequest(group_id=GROUP, generation_id=self.epoch, member_id=self.member_id),
            4,
        )
        code = answer.code if isinstance(answer, KafkaError) else ErrorCode.NONE
        if isinstance(answer, HeartbeatResponse):
            code = ErrorCode(answer.error_code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.must_join = True
        elif code:
            self.abandon()

    def abandon(self) -> None:
        self.epoch = 0
        self.must_join = True
        self.owned = set()

    def _join(self) -> None:
        named: dict[str, list[int]] = {}
        for topic_id, partition in self.owned:
            topic = self.shard.world.cluster.by_id(topic_id)
            if topic is not None:
                named.setdefault(topic.name, []).append(partition)
        subscription = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[
                TopicPartition(topic=name, partitions=sorted(held)) for name, held in named.items()
            ],
        )
        offer = JoinGroupRequestProtocol(
            name="cooperative-sticky", metadata=encode_versioned(subscription, 3)
        )
        answer = self.shard.hear(
            JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=2_500,
                rebalance_timeout_ms=10_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[offer],
            ),
            9,
        )
        if isinstance(answer, KafkaError):
            self.abandon()
            return
        assert isinstance(answer, JoinGroupResponse)
        self.epoch = answer.generation_id
        synced = self.shard.hear(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.epoch,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name=answer.protocol_name,
                assignments=[],
            ),
            5,
        )
        if isinstance(synced, KafkaError):
            if synced.code in ABANDONS:
                self.abandon()
            return
        assert isinstance(synced, SyncGroupResponse)
        given = decode_as_known(ConsumerProtocolAssignment, synced.assignment)
        told = set()
        for each in given.assigned_partitions:
            topic = self.shard.world.cluster.by_name(each.topic)
            assert topic is not None
            told |= {(topic.topic_id, partition) for partition in each.partitions}
        self.must_join = bool(self.owned - told)
        self.owned = told


def topic_partitions(owned: set[TopicPartitionId]) -> list[TopicPartitions]:
    by_topic: dict[Uuid, list[int]] = {}
    for topic_id, partition in sorted(owned):
        by_topic.setdefault(topic_id, []).append(partition)
    return [
        TopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in by_topic.items()
    ]
