"""Topics and their records: list, describe, create, delete, grow, and delete from the front."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from moldau.client.admin.requests import AdminRequests, error_of
from moldau.client.consumer.absence import final, maybe_final
from moldau.client.consumer.offsets import Found, list_offsets
from moldau.client.settings import rows
from moldau.client.settings.arguments import (
    ByPartition,
    brokers_of,
    by_partition,
    config_values,
    flag,
    name_of,
    names_of,
    offsets_to_keep_from,
    several,
    timestamp_of,
    within,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid, format_uuid
from moldau.link.arguments import told
from moldau.link.backoff import may_work_later
from moldau.link.cluster import CONTROLLER
from moldau.link.metadata import Metadata, Topic, TopicPartition
from moldau.protocol.declare import Request
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from moldau.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

T = TypeVar("T")

BROKER_DEFAULT: Final = -1
TO_THE_END: Final = -1
"""As the offset to delete up to: all records that are there."""

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


@dataclass(slots=True)
class _Deletion:
    """Records that are being deleted. What is deleted cannot be had back, so that what is known of
    one partition is told, whatever becomes of the others."""

    before: dict[TopicPartition, int]
    results: dict[TopicPartition, int | KafkaError] = field(default_factory=dict)
    asked: set[TopicPartition] = field(default_factory=set)
    """Those whose leader has a request, and has not answered it."""

    def open_ones(self) -> list[TopicPartition]:
        """The partitions that have no answer yet, or one that may become another."""
        found = ((where, self.results.get(where)) for where in self.before)
        return [
            where
            for where, result in found
            if result is None or (isinstance(result, KafkaError) and may_work_later(result))
        ]

    def outcome(self) -> dict[TopicPartition, int | KafkaError]:
        """What each partition ended with."""
        return {where: self._of(where) for where in self.before}

    def _of(self, where: TopicPartition) -> int | KafkaError:
        result = self.results.get(where)
        if result is not None and where not in self.asked:
            return result
        code = ErrorCode.REQUEST_TIMED_OUT
        reason = "its leader is not known yet: nothing was deleted"
        if where in self.asked:
            reason = "its leader has not answered: its records may be deleted or not"
        return _not_deleted(code, where, self.before[where], reason)


class TopicAdmin(AdminRequests):
    """The topics of a cluster."""

    async def list_topics(self, *, internal: bool = False) -> list[Topic]:
        """All topics by name, those of the brokers themselves only if asked for."""
        flag(internal, "internal")
        metadata = _metadata(await self._ask(_metadata_request(None), MetadataResponse))
        topics = sorted(metadata.topics.values(), key=lambda each: each.name)
        return [each for each in topics if internal or not each.is_internal]

    async def describe_topics(
        self, names: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, Topic | KafkaError]:
        """Each topic, or why it cannot be described; what this client may do to it too if asked
        for."""
        chosen = names_of(names, "topic")
        flag(authorized_operations, "authorized_operations")

        async def ask(wanted: list[str]) -> dict[str, Topic | KafkaError]:
            topics = [MetadataRequestTopic(name=name) for name in wanted]
            request = _metadata_request(topics, authorized_operations)
            metadata = _metadata(await self._ask_once(request, MetadataResponse))
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return {
                name: metadata.topics.get(name)
                or final(KafkaError(metadata.refused.get(name, unknown), topic=name))
                for name in wanted
            }

        return await self._for_each(chosen, ask)

    async def describe_topics_by_id(
        self, ids: Iterable[Uuid], *, authorized_operations: bool = False
    ) -> dict[Uuid, Topic | KafkaError]:
        """As `describe_topics`: a topic that was deleted and made again has another id."""
        chosen = _ids(ids)
        flag(authorized_operations, "authorized_operations")

        async def ask(wanted: list[Uuid]) -> dict[Uuid, Topic | KafkaError]:
            await self._require_ids(MetadataRequest, _METADATA_BY_ID)
            topics = [MetadataRequestTopic(topic_id=each, name=None) for each in wanted]
            request = _metadata_request(topics, authorized_operations)
            metadata = _metadata(await self._ask_once(request, MetadataResponse))
            found = {each.topic_id: each for each in metadata.topics.values()}
            return {each: found.get(each) or _unknown_id(each) for each in wanted}

        return await self._for_each(chosen, ask)

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Makes topics, or only says whether they could be made."""
        by_name = {each.name: _creatable(each) for each in _new(topics)}
        flag(validate_only, "validate_only")

        async def ask(wanted: list[str]) -> dict[str, CreatedTopic | KafkaError]:
            request = CreateTopicsRequest(
                topics=[by_name[name] for name in wanted],
                timeout_ms=self._timeout_ms,
                validate_only=validate_only,
            )
            answer = await self._ask_once(request, CreateTopicsResponse, CONTROLLER)
            return {each.name: _created(each) for each in answer.topics}

        return await self._for_each(by_name, ask)

    async def create_topic(self, topic: NewTopic) -> CreatedTopic:
        """As `create_topics` for one; raises the KafkaError."""
        return _value((await self.create_topics([topic]))[topic.name])

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Deletes topics with all their records."""
        chosen = names_of(names, "topic", one="delete_topic")

        async def ask(wanted: list[str]) -> dict[str, KafkaError | None]:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in wanted],
                timeout_ms=self._timeout_ms,
            )
            connection = await self._cluster.connection(CONTROLLER)
            if connection.version_of(DeleteTopicsRequest) < _TOPICS_IN_STATES:
                request = DeleteTopicsRequest(topic_names=wanted, timeout_ms=self._timeout_ms)
            answer = await self._ask_once(request, DeleteTopicsResponse, CONTROLLER)
            return {
                each.name: maybe_final(
                    error_of(each.error_code, each.error_message, topic=each.name)
                )
                for each in answer.responses
                if each.name is not None
            }

        return await self._for_each(chosen, ask)

    async def delete_topics_by_id(self, ids: Iterable[Uuid]) -> dict[Uuid, KafkaError | None]:
        """As `delete_topics`: cannot hit a topic that was made again under the same name."""
        chosen = _ids(ids)

        async def ask(wanted: list[Uuid]) -> dict[Uuid, KafkaError | None]:
            await self._require_ids(DeleteTopicsRequest, _TOPICS_IN_STATES)
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=None, topic_id=each) for each in wanted],
                timeout_ms=self._timeout_ms,
            )
            answer = await self._ask_once(request, DeleteTopicsResponse, CONTROLLER)
            return {
                each.topic_id: maybe_final(
                    error_of(
                        each.error_code, each.error_message, topic_id=format_uuid(each.topic_id)
                    )
                )
                for each in answer.responses
            }

        return await self._for_each(chosen, ask)

    async def _require_ids(self, request: type[Request], version: int) -> None:
        connection = await self._cluster.connection()
        if connection.version_of(request) < version:
            reason = "the broker is too old to know topics by their ids"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, reason, broker=str(connection.address))

    async def delete_topic(self, name: str) -> None:
        """As `delete_topics` for one; raises the KafkaError."""
        _value((await self.delete_topics([name]))[name])

    async def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Makes the topic have `count` partitions in all. Keys go to other ones from then on."""
        wanted_topic = CreatePartitionsTopic(
            name=name_of(topic, "topic"),
            count=within(count, "count", _COUNTS),
            assignments=None if assignments is None else _added(assignments),
        )
        request = CreatePartitionsRequest(
            topics=[wanted_topic],
            timeout_ms=self._timeout_ms,
            validate_only=flag(validate_only, "validate_only"),
        )

        async def ask(wanted: list[str]) -> dict[str, KafkaError | None]:
            answer = await self._ask_once(request, CreatePartitionsResponse, CONTROLLER)
            return {
                each.name: maybe_final(
                    error_of(each.error_code, each.error_message, topic=each.name)
                )
                for each in answer.results
            }

        _value((await self._for_each([topic], ask))[topic])

    async def partitions(self, *topics: str) -> list[TopicPartition]:
        """All partitions of these topics; KafkaError for one that the cluster does not know."""
        described = await self.describe_topics(topics)
        return [
            TopicPartition(name, each.index)
            for name, topic in described.items()
            for each in _value(topic).partitions
        ]

    async def list_offsets(self, wanted: ByPartition[int], *, is_committed: bool = False) -> Found:
        """The offset for each partition's timestamp in ms, or for an end of its log, see
        `moldau.client.consumer.offsets`. KafkaError, at once, for a topic that there is not;
        a partition that its topic may yet get is waited for."""
        chosen = {where: timestamp_of(each, where) for where, each in by_partition(wanted).items()}
        flag(is_committed, "is_committed")
        return await list_offsets(
            self._cluster, chosen, is_committed=is_committed, waits_for_topics=False
        )

    async def delete_records(
        self, before: ByPartition[int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Deletes the records below an offset (`TO_THE_END`: all). For each partition where its log
        begins then, or why nothing was deleted there: what fails for one is done for the others.
        REQUEST_TIMED_OUT says that a leader was asked and has not answered: its records may be
        deleted or not. Raises a KafkaError only when no leader of any of them was reached."""
        deletion = _Deletion(offsets_to_keep_from(before))
        self._cluster.look_at({where.topic for where in deletion.before})

        async def attempt() -> None:
            await self._delete_records(deletion)
            for where in deletion.open_ones():
                found = deletion.results[where]
                assert isinstance(found, KafkaError)
                raise found

        try:
            await self._cluster.retry(attempt)
        except KafkaError:
            if not deletion.results:
                raise  # nobody was reached
        return deletion.outcome()

    async def _delete_records(self, deletion: _Deletion) -> None:
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for where in deletion.open_ones():
            try:
                leader = await self._cluster.leader(where)
            except KafkaError as error:
                deletion.results[where] = error
            else:
                by_leader.setdefault(leader, {})[where] = deletion.before[where]

        async def ask(leader: int, chosen: dict[TopicPartition, int]) -> None:
            deletion.asked |= chosen.keys()
            deletion.results.update(await self._delete_from(leader, chosen))
            deletion.asked -= chosen.keys()

        # Each answer is kept as it comes: the time may be over while another leader is silent.
        await asyncio.gather(*(ask(leader, chosen) for leader, chosen in by_leader.items()))

    async def _delete_from(
        self, leader: int, before: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        by_topic: dict[str, list[DeleteRecordsPartition]] = {}
        for where, offset in before.items():
            wanted = DeleteRecordsPartition(partition_index=where.partition, offset=offset)
            by_topic.setdefault(where.topic, []).append(wanted)
        topics = [DeleteRecordsTopic(name=name, partitions=each) for name, each in by_topic.items()]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=self._timeout_ms)
        try:
            answer = await self._cluster.call(request, DeleteRecordsResponse, node_id=leader)
        except KafkaError as error:
            return dict.fromkeys(before, error)
        results: dict[TopicPartition, int | KafkaError] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                results[where] = each.low_watermark
                if each.error_code:
                    refused = _not_deleted(each.error_code, where, before[where])
                    self._cluster.note(refused)
                    results[where] = refused
        silence = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "left out of the broker's answer")
        return {where: results.get(where, silence) for where in before}

    @property
    def _timeout_ms(self) -> int:
        return self._cluster.settings[rows.request_timeout_ms]


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
    return KafkaError(code, reason, topic=where.topic, partition=where.partition, before=asked)


def _unknown_id(topic_id: Uuid) -> KafkaError:
    return final(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, topic_id=format_uuid(topic_id)))


def _metadata_request(
    topics: list[MetadataRequestTopic] | None, authorized_operations: bool = False
) -> MetadataRequest:
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=authorized_operations,
    )


def _metadata(answer: MetadataResponse) -> Metadata:
    metadata = Metadata()
    metadata.update(answer)
    return metadata


def _value(result: T | KafkaError) -> T:
    if isinstance(result, KafkaError):
        raise result
    return result


def _ids(given: Iterable[Uuid]) -> list[Uuid]:
    chosen = several(given, "topic id")
    for each in chosen:
        if not isinstance(each, bytes):
            raise TypeError(f"a topic's id is 16 bytes, as Topic.topic_id has it, not {told(each)}")
        if len(each) != len(ZERO_UUID):
            raise ValueError(f"a topic's id is 16 bytes, not {len(each)}: {told(each)}")
    return chosen


def _new(topics: Iterable[NewTopic]) -> list[NewTopic]:
    chosen = several(topics, "new topic", one="create_topic")
    names: set[str] = set()
    for each in chosen:
        if not isinstance(each, NewTopic):
            raise TypeError(f"a topic to be made is a NewTopic, not {each!r}")
        if name_of(each.name, "topic") in names:
            raise ValueError(
                f"the topic {each.name!r} is to be made twice: which of them is meant?"
            )
        names.add(each.name)
    return chosen


def _creatable(topic: NewTopic) -> CreatableTopic:
    placed = topic.assignments
    by_index = placed if isinstance(placed, Mapping) else dict(enumerate(_rows(placed)))
    factor = within(topic.replication_factor, "replication_factor", _FACTORS)
    return CreatableTopic(
        name=topic.name,
        num_partitions=within(topic.partitions, "partitions", _COUNTS),
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(
                partition_index=within(index, "a partition's number", _INDEXES),
                broker_ids=_brokers(brokers, index),
            )
            for index, brokers in by_index.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value)
            for name, value in config_values(topic.configs).items()
        ],
    )


def _rows(placed: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """A list for each partition, in the order of their numbers."""
    return several(placed, "assignment")


def _brokers(given: Sequence[int], index: int) -> list[int]:
    """Where the replicas of one partition are to be."""
    return brokers_of(given, f"a broker in assignments[{index}]")


def _added(placed: Sequence[Sequence[int]]) -> list[CreatePartitionsAssignment]:
    """Where the replicas of the partitions that come are to be."""
    return [
        CreatePartitionsAssignment(broker_ids=_brokers(each, index))
        for index, each in enumerate(_rows(placed))
    ]


def _created(answer: CreatableTopicResult) -> CreatedTopic | KafkaError:
    error = error_of(answer.error_code, answer.error_message, topic=answer.name)
    if error is not None:
        return error
    return CreatedTopic(
        answer.name, answer.topic_id, answer.num_partitions, answer.replication_factor
    )
