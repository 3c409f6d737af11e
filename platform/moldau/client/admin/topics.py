"""Topics and their records: list, describe, create, delete, add partitions, delete records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Final

from moldau.client.admin.requests import (
    Requests,
    at_once,
    error_of,
    final_error,
    value_of,
)
from moldau.client.base import arguments
from moldau.client.base.arguments import ByPartition, PartitionGiven
from moldau.client.base.offsets import Found, list_offsets
from moldau.client.base.unknown_topic import final
from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError, error_from, may_work_later
from moldau.ids import ZERO_UUID, Uuid, format_uuid
from moldau.link.cluster import CONTROLLER
from moldau.link.metadata import Metadata, Topic, TopicPartition, by_topic
from moldau.protocol.declare import Request
from moldau.protocol.messages import create_partitions as growing
from moldau.protocol.messages import create_topics as creating
from moldau.protocol.messages import delete_records as trimming
from moldau.protocol.messages import delete_topics as deleting
from moldau.protocol.messages import metadata as asking

BROKER_DEFAULT: Final = -1
TO_THE_END: Final = -1
"""As the offset to delete up to: all records of the partition."""

_AT: Final = "a broker in assignments[{}]"
_TOPICS_IN_STATES: Final = 6
_COUNTS: Final = range(-1, 2**31)
_INDEXES: Final = range(2**31)
_FACTORS: Final = range(-1, 2**15)
_METADATA_BY_ID: Final = 12


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. Counts of -1 mean the broker's defaults. `assignments` places replicas
    manually: a list of brokers for each partition, in order or by partition number (`{0: [1, 2]}`);
    both counts then stay -1."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] | Mapping[int, Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A created topic. Counts of -1: the broker is too old, or hides them from this client."""

    name: str
    topic_id: Uuid
    partitions: int
    replication_factor: int


@dataclass(slots=True)
class _Deletion:
    """A running deletion of records. It cannot be undone, so each partition's result is reported,
    whatever happens to the others."""

    before: dict[TopicPartition, int]
    results: dict[TopicPartition, int | KafkaError] = field(default_factory=dict)
    asked: set[TopicPartition] = field(default_factory=set)
    """Partitions whose leader has a request and has not answered it."""

    def open_ones(self) -> list[TopicPartition]:
        """Return the partitions without a result, or with a retriable error."""
        found = ((where, self.results.get(where)) for where in self.before)
        return [
            where
            for where, result in found
            if result is None or (isinstance(result, KafkaError) and may_work_later(result))
        ]

    def outcome(self, where: TopicPartition) -> int | KafkaError:
        """Return the final result of the partition."""
        result = self.results.get(where)
        if result is not None and where not in self.asked:
            return result
        code = ErrorCode.REQUEST_TIMED_OUT
        reason = "its leader is not known yet: nothing was deleted"
        if where in self.asked:
            reason = "its leader has not answered: its records may be deleted or not"
        return _not_deleted(code, where, self.before[where], reason)


class Topics:
    """Describes and changes topics and their logs."""

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
                or final(error_from("Metadata", found.refused.get(name, unknown), topic=name))
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
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
            return {
                each: found.get(each) or final(KafkaError(unknown, topic_id=format_uuid(each)))
                for each in wanted
            }

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
        """Send the request. `key` is the field of the response that identifies a topic."""
        request = deleting.DeleteTopicsRequest(timeout_ms=self._requests.timeout_ms, **which)
        response = deleting.DeleteTopicsResponse
        answer = await self._requests.ask_once(request, response, CONTROLLER)
        by_key = {getattr(each, key): each for each in answer.responses}
        if key == "name":
            return {
                name: final_error("DeleteTopics", each, topic=name) for name, each in by_key.items()
            }
        return {
            i: final_error("DeleteTopics", each, topic_id=format_uuid(i))
            for i, each in by_key.items()
        }

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
            return final_error("CreatePartitions", each, topic=each.name)

        await self._requests.for_one(ask)

    async def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        described = await self.describe(topics)
        return [
            TopicPartition(name, each.index)
            for name, topic in described.items()
            for each in value_of(topic).partitions
        ]

    async def led(self, chosen: Iterable[PartitionGiven]) -> list[TopicPartition]:
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

    async def offsets(self, wanted: ByPartition[int], is_committed: bool = False) -> Found:
        chosen = {
            where: arguments.timestamp_of(each, where)
            for where, each in arguments.by_partition(wanted).items()
        }
        arguments.flag(is_committed, "is_committed")
        return await list_offsets(
            self._requests.cluster, chosen, is_committed=is_committed, waits_for_topics=False
        )

    async def delete_records(
        self, before: ByPartition[int]
    ) -> dict[TopicPartition, int | KafkaError]:
        deletion = _Deletion(arguments.offsets_to_keep_from(before))
        self._requests.cluster.look_at({where.topic for where in deletion.before})

        async def attempt() -> None:
            await self._delete_records(deletion)
            for where in deletion.open_ones():
                found = deletion.results[where]
                assert isinstance(found, KafkaError)
                raise found

        try:
            await self._requests.cluster.retry(attempt)
        except KafkaError:
            if not deletion.results:
                raise  # no leader was reached
        return {where: deletion.outcome(where) for where in deletion.before}

    async def _delete_records(self, deletion: _Deletion) -> None:
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for where in deletion.open_ones():
            try:
                leader = await self._requests.cluster.leader(where)
            except KafkaError as error:
                deletion.results[where] = without_frames(error)
            else:
                by_leader.setdefault(leader, {})[where] = deletion.before[where]

        async def ask(leader: int) -> None:
            chosen = by_leader[leader]
            deletion.asked |= chosen.keys()
            deletion.results.update(await self._delete_from(leader, chosen))
            deletion.asked -= chosen.keys()

        # Each response is kept at once: the timeout may come while another leader is silent.
        await at_once(by_leader, ask)

    async def _delete_from(
        self, leader: int, before: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        def wanted(where: TopicPartition) -> trimming.DeleteRecordsPartition:
            number, offset = where.partition, before[where]
            return trimming.DeleteRecordsPartition(partition_index=number, offset=offset)

        topics = [
            trimming.DeleteRecordsTopic(name=name, partitions=each)
            for name, each in by_topic(before, wanted).items()
        ]
        request = trimming.DeleteRecordsRequest(topics=topics, timeout_ms=self._requests.timeout_ms)
        try:
            answer = await self._requests.ask_once(request, trimming.DeleteRecordsResponse, leader)
        except KafkaError as error:
            return dict.fromkeys(before, without_frames(error))
        results: dict[TopicPartition, int | KafkaError] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                results[where] = each.low_watermark
                if each.error_code:
                    refused = _not_deleted(each.error_code, where, before[where])
                    self._requests.cluster.note(refused)
                    results[where] = refused
        silence = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "left out of the broker's answer")
        return {where: results.get(where, silence) for where in before}


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
                broker_ids=arguments.brokers_of(brokers, _AT.format(index)),
            )
            for index, brokers in by_index.items()
        ],
        configs=[
            creating.CreatableTopicConfig(name=name, value=value)
            for name, value in arguments.config_values(topic.configs).items()
        ],
    )


def _added(placed: Sequence[Sequence[int]]) -> list[growing.CreatePartitionsAssignment]:
    """Return the brokers for the replicas of the new partitions."""
    return [
        growing.CreatePartitionsAssignment(broker_ids=arguments.brokers_of(each, _AT.format(index)))
        for index, each in enumerate(arguments.several(placed, "assignment"))
    ]


def _created(answer: creating.CreatableTopicResult) -> CreatedTopic | KafkaError:
    counts = answer.num_partitions, answer.replication_factor
    error = error_of("CreateTopics", answer.error_code, answer.error_message, topic=answer.name)
    return error or CreatedTopic(answer.name, answer.topic_id, *counts)


_NOT_DELETED: Final = {
    ErrorCode.POLICY_VIOLATION: "records can be deleted only where cleanup.policy includes delete",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the log ends before that offset",
}


def _not_deleted(
    code: int, where: TopicPartition, offset: int, reason: str | None = None
) -> KafkaError:
    known = KafkaError(code)
    reason = reason or _NOT_DELETED.get(known.code, known.reason)
    asked = "end" if offset == TO_THE_END else offset
    return error_from("DeleteRecords", code, reason, **where._asdict(), before=asked)
