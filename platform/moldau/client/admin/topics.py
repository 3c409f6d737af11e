"""Topics: list, describe, create, delete and grow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from moldau.client.admin.requests import Requests, error_of, final_error, value_of
from moldau.client.consumer.absence import final
from moldau.client.settings import arguments
from moldau.client.settings.arguments import Partition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid, format_uuid
from moldau.link.cluster import CONTROLLER
from moldau.link.metadata import Metadata, Topic, TopicPartition
from moldau.protocol.declare import Request
from moldau.protocol.messages import create_partitions as growing
from moldau.protocol.messages import create_topics as creating
from moldau.protocol.messages import delete_topics as deleting
from moldau.protocol.messages import metadata as asking

BROKER_DEFAULT: Final = -1

_TOPICS_IN_STATES: Final = 6
_COUNTS: Final = range(-1, 2**31)
_INDEXES: Final = range(2**31)
_FACTORS: Final = range(-1, 2**15)
_METADATA_BY_ID: Final = 12


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made. -1 counts mean the broker's defaults; `assignments` places replicas by
    hand, a list of brokers for each partition, in their order or by their numbers (`{0: [1, 2]}`),
    and then both counts stay -1."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] | Mapping[int, Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was made. -1 counts: the broker is too old to say, or may not tell us."""

    name: str
    topic_id: Uuid
    partitions: int
    replication_factor: int


class Topics:
    """Asks about topics, and changes them."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def all(self, internal: bool) -> list[Topic]:
        arguments.flag(internal, "internal")
        metadata = await self._requests.cluster.retry(self._metadata)
        topics = sorted(metadata.topics.values(), key=lambda each: each.name)
        return [each for each in topics if internal or not each.is_internal]

    async def describe(
        self, names: Iterable[str], authorized_operations: bool = False
    ) -> dict[str, Topic | KafkaError]:
        chosen = arguments.names_of(names, "topic")
        arguments.flag(authorized_operations, "authorized_operations")

        async def ask(wanted: list[str]) -> dict[str, Topic | KafkaError]:
            topics = [asking.MetadataRequestTopic(name=name) for name in wanted]
            found = await self._metadata(topics, authorized_operations)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return {
                name: found.topics.get(name)
                or final(KafkaError(found.refused.get(name, unknown), topic=name))
                for name in wanted
            }

        return await self._requests.for_each(chosen, ask)

    async def describe_by_id(
        self, ids: Iterable[Uuid], authorized_operations: bool
    ) -> dict[Uuid, Topic | KafkaError]:
        chosen = _ids(ids)
        arguments.flag(authorized_operations, "authorized_operations")

        async def ask(wanted: list[Uuid]) -> dict[Uuid, Topic | KafkaError]:
            await self._require_ids(asking.MetadataRequest, _METADATA_BY_ID)
            topics = [asking.MetadataRequestTopic(topic_id=each, name=None) for each in wanted]
            metadata = await self._metadata(topics, authorized_operations)
            found = {each.topic_id: each for each in metadata.topics.values()}
            return {each: found.get(each) or _unknown_id(each) for each in wanted}

        return await self._requests.for_each(chosen, ask)

    async def _metadata(
        self,
        topics: list[asking.MetadataRequestTopic] | None = None,
        authorized_operations: bool = False,
    ) -> Metadata:
        request = asking.MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=authorized_operations,
        )
        metadata = Metadata()
        metadata.update(await self._requests.ask_once(request, asking.MetadataResponse))
        return metadata

    async def create(
        self, topics: Iterable[NewTopic], validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        by_name = {each.name: _creatable(each) for each in _new(topics)}
        arguments.flag(validate_only, "validate_only")

        async def ask(wanted: list[str]) -> dict[str, CreatedTopic | KafkaError]:
            request = creating.CreateTopicsRequest(
                topics=[by_name[name] for name in wanted],
                timeout_ms=self._requests.timeout_ms,
                validate_only=validate_only,
            )
            response = creating.CreateTopicsResponse
            answer = await self._requests.ask_once(request, response, CONTROLLER)
            return {each.name: _created(each) for each in answer.topics}

        return await self._requests.for_each(by_name, ask)

    async def delete(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        async def ask(wanted: list[str]) -> dict[str, KafkaError | None]:
            connection = await self._requests.cluster.connection(CONTROLLER)
            if connection.version_of(deleting.DeleteTopicsRequest) < _TOPICS_IN_STATES:
                return await self._delete("name", topic_names=wanted)
            state = partial(deleting.DeleteTopicState, topic_id=ZERO_UUID)
            return await self._delete("name", topics=[state(name=each) for each in wanted])

        chosen = arguments.names_of(names, "topic", one="delete_topic")
        return await self._requests.for_each(chosen, ask)

    async def delete_by_id(self, ids: Iterable[Uuid]) -> dict[Uuid, KafkaError | None]:
        async def ask(wanted: list[Uuid]) -> dict[Uuid, KafkaError | None]:
            await self._require_ids(deleting.DeleteTopicsRequest, _TOPICS_IN_STATES)
            state = partial(deleting.DeleteTopicState, name=None)
            return await self._delete("topic_id", topics=[state(topic_id=each) for each in wanted])

        return await self._requests.for_each(_ids(ids), ask)

    async def _delete(self, key: str, **which: Any) -> dict[Any, KafkaError | None]:
        """`key` is the field of the answer that says which topic it is about."""
        request = deleting.DeleteTopicsRequest(timeout_ms=self._requests.timeout_ms, **which)
        response = deleting.DeleteTopicsResponse
        answer = await self._requests.ask_once(request, response, CONTROLLER)
        by_key = {getattr(each, key): each for each in answer.responses}
        if key == "name":
            return {name: final_error(each, topic=name) for name, each in by_key.items()}
        return {i: final_error(each, topic_id=format_uuid(i)) for i, each in by_key.items()}

    async def _require_ids(self, request: type[Request], version: int) -> None:
        connection = await self._requests.cluster.connection()
        if connection.version_of(request) < version:
            reason = "the broker is too old to know topics by their ids"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, reason, broker=str(connection.address))

    async def grow(
        self,
        topic: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        validate_only: bool,
    ) -> None:
        wanted = growing.CreatePartitionsTopic(
            name=arguments.name_of(topic, "topic"),
            count=arguments.within(count, "count", _COUNTS),
            assignments=None if assignments is None else _added(assignments),
        )
        request = growing.CreatePartitionsRequest(
            topics=[wanted],
            timeout_ms=self._requests.timeout_ms,
            validate_only=arguments.flag(validate_only, "validate_only"),
        )

        async def ask() -> KafkaError | None:
            response = growing.CreatePartitionsResponse
            answer = await self._requests.ask_once(request, response, CONTROLLER)
            (each,) = answer.results
            return final_error(each, topic=each.name)

        await self._requests.for_one(ask)

    async def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        described = await self.describe(topics)
        return [
            TopicPartition(name, each.index)
            for name, topic in described.items()
            for each in value_of(topic).partitions
        ]

    async def led(self, chosen: Iterable[Partition]) -> list[TopicPartition]:
        wanted = arguments.partitions_in(chosen)
        topics = await self.describe({where.topic for where in wanted})
        led = {
            TopicPartition(topic.name, each.index)
            for topic in topics.values()
            if isinstance(topic, Topic)
            for each in topic.partitions
            if each.leader >= 0
        }
        return [where for where in wanted if where in led]


def _unknown_id(topic_id: Uuid) -> KafkaError:
    return final(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, topic_id=format_uuid(topic_id)))


def _ids(given: Iterable[Uuid]) -> list[Uuid]:
    chosen = arguments.several(given, "topic id")
    return [arguments.uuid_of(each, "a topic's id", "Topic.topic_id has it") for each in chosen]


def _new(topics: Iterable[NewTopic]) -> list[NewTopic]:
    chosen = arguments.several(topics, "new topic", one="create_topic")
    names: set[str] = set()
    for each in chosen:
        if not isinstance(each, NewTopic):
            raise TypeError(f"a topic to be made is a NewTopic, not {each!r}")
        if arguments.name_of(each.name, "topic") in names:
            raise ValueError(
                f"the topic {each.name!r} is to be made twice: which of them is meant?"
            )
        names.add(each.name)
    return chosen


def _creatable(topic: NewTopic) -> creating.CreatableTopic:
    placed = topic.assignments
    by_index = (
        placed
        if isinstance(placed, Mapping)
        else dict(enumerate(arguments.several(placed, "assignment")))
    )
    factor = arguments.within(topic.replication_factor, "replication_factor", _FACTORS)
    return creating.CreatableTopic(
        name=topic.name,
        num_partitions=arguments.within(topic.partitions, "partitions", _COUNTS),
        replication_factor=factor,
        assignments=[
            creating.CreatableReplicaAssignment(
                partition_index=arguments.within(index, "a partition's number", _INDEXES),
                broker_ids=_brokers(brokers, index),
            )
            for index, brokers in by_index.items()
        ],
        configs=[
            creating.CreatableTopicConfig(name=name, value=value)
            for name, value in arguments.config_values(topic.configs).items()
        ],
    )


def _brokers(given: Sequence[int], index: int) -> list[int]:
    """Where the replicas of one partition are to be."""
    return arguments.brokers_of(given, f"a broker in assignments[{index}]")


def _added(placed: Sequence[Sequence[int]]) -> list[growing.CreatePartitionsAssignment]:
    """Where the replicas of the partitions that come are to be."""
    return [
        growing.CreatePartitionsAssignment(broker_ids=_brokers(each, index))
        for index, each in enumerate(arguments.several(placed, "assignment"))
    ]


def _created(answer: creating.CreatableTopicResult) -> CreatedTopic | KafkaError:
    counts = answer.num_partitions, answer.replication_factor
    error = error_of(answer.error_code, answer.error_message, topic=answer.name)
    return error or CreatedTopic(answer.name, answer.topic_id, *counts)
