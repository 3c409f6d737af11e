"""A conversation with Apache Kafka about topics, settings and the cluster, kept as data.

`kafka_conversation.jsonl` begins with what Kafka stood on: its settings and its metadata log. Then
comes a line for each request of `questions`, in order, with Kafka's answer. Requests that change
something come late, and what is asked after them sees the change. `python -m
tests.broker.api.renew` has the conversation anew, where there is a Java.

Kafka's wording is not kept, only that there was some; nor are its random ids compared.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moldau.protocol.declare import Request, Response, Struct
from moldau.protocol.messages import request_class, response_class
from moldau.protocol.messages.alter_configs import AlterableConfig as NewConfig
from moldau.protocol.messages.alter_configs import AlterConfigsRequest
from moldau.protocol.messages.alter_configs import AlterConfigsResource as NewConfigs
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from moldau.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreateTopicsRequest,
)
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from moldau.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.controller.cluster import topic
from tests.broker.settings.cases import INTERNAL_TO_KAFKA, is_own

KEPT = Path(__file__).with_name("kafka_conversation.jsonl")
PLAINTEXT, OTHER = "PLAINTEXT", "OTHER"
TOPIC, BROKER, LOGGER, SUBSCRIPTION, GROUP = 2, 4, 8, 16, 32
NO_ID, ANY_ID = bytes(16), b"\7" * 16
SOON_MS = 30_000

# What is the sender's own wording, and what chance decides.
_WORDING = frozenset(("error_message", "documentation"))
_CHANCE = frozenset(("topic_id", "finalized_features_epoch", "api_keys"))


@dataclass(frozen=True, slots=True)
class Question:
    """One request, and how it is sent."""

    request: Request
    version: int
    listener: str = PLAINTEXT


@dataclass(frozen=True, slots=True)
class Footing:
    """What Kafka's answers rest on."""

    properties: Mapping[str, str]
    cluster_id: str
    endpoints: Mapping[str, tuple[str, int]]
    batches: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and Kafka's answer."""

    question: Question
    answer: Response


def questions() -> Iterator[Question]:
    """The whole conversation."""
    for request in (MetadataRequest(topics=None), _cluster(operations=True)):
        yield Question(request, type(request).spec.versions.last, OTHER)
    for part in (_about_topics, _about_the_cluster, _about_pages, _about_settings, _about_changes):
        for request, versions in part():
            for version in versions:
                yield Question(request, version)


_Asked = Iterator[tuple[Request, Iterable[int]]]


def _named(*names: str | None) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=each) for each in names]


def _about_topics() -> _Asked:
    yield MetadataRequest(topics=[]), range(14)
    yield MetadataRequest(topics=None), range(1, 14)
    yield MetadataRequest(topics=_named("t", "t", "a.b")), range(14)
    missing = _named("t", "nope", "b ad", "", "__x", "__transaction_state", "n" * 250)
    yield MetadataRequest(topics=missing, allow_auto_topic_creation=False), range(4, 14)
    yield (
        MetadataRequest(
            topics=missing,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        ),
        range(8, 14),
    )
    yield (
        MetadataRequest(topics=[], include_cluster_authorized_operations=True),
        range(8, 11),
    )
    unknown = MetadataRequestTopic(name="t", topic_id=ANY_ID)
    yield MetadataRequest(topics=[unknown, *_named("t")]), range(10, 14)
    nameless = MetadataRequestTopic(name=None, topic_id=ANY_ID)
    yield (
        MetadataRequest(topics=[nameless], include_topic_authorized_operations=True),
        range(10, 14),
    )


def _cluster(*, operations: bool = False, fenced: bool = False, kind: int = 1) -> Request:
    return DescribeClusterRequest(
        include_cluster_authorized_operations=operations,
        include_fenced_brokers=fenced,
        endpoint_type=kind,
    )


def _about_the_cluster() -> _Asked:
    yield _cluster(), range(3)
    yield _cluster(operations=True), range(3)
    yield _cluster(fenced=True), [2]
    for kind in (0, 2, 3):
        yield _cluster(kind=kind), [1, 2]
    for name in ("kafka", "", "b ad"):
        yield ApiVersionsRequest(client_software_name=name, client_software_version="1"), range(5)
    yield ListPartitionReassignmentsRequest(topics=None), [0]
    moving = ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 9])
    yield ListPartitionReassignmentsRequest(topics=[moving]), [0]
    for kinds in ([], [TOPIC], [BROKER, LOGGER], [SUBSCRIPTION], [GROUP, GROUP], [0], [1], [64]):
        yield ListConfigResourcesRequest(resource_types=kinds), [1]
    yield ListConfigResourcesRequest(), [0]
    placed = [
        TopicPartitions(topic="t", partitions=[0, 9]),
        TopicPartitions(topic="no", partitions=[0]),
    ]
    yield ElectLeadersRequest(topic_partitions=placed), range(3)
    yield ElectLeadersRequest(topic_partitions=[]), range(3)
    for kind in (1, 5):
        yield ElectLeadersRequest(topic_partitions=placed[:1], election_type=kind), [1, 2]


def _about_pages() -> _Asked:
    for wanted in ("", "t", "t/a.b", "no0/no1/t", "t/t", "b ad/t", "t/zz"):
        for limit in (2000, 2, 1, 0):
            for at in (
                None,
                *(("t", n) for n in (0, 1, 2, 5, -1)),
                ("a.b", 0),
                ("s", 1),
                ("zz", 3),
            ):
                cursor = at and Cursor(topic_name=at[0], partition_index=at[1])
                request = DescribeTopicPartitionsRequest(
                    topics=[TopicRequest(name=each) for each in wanted.split("/") if each],
                    response_partition_limit=limit,
                    cursor=cursor,
                )
                yield request, [0]


def _describe(
    kind: int, name: str, *keys: str, synonyms: bool = True, docs: bool = False
) -> Request:
    wanted = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(
        resources=[wanted], include_synonyms=synonyms, include_documentation=docs
    )


def _about_settings() -> _Asked:
    yield _describe(TOPIC, "t"), [4]
    yield _describe(GROUP, "g"), [4]
    yield _describe(SUBSCRIPTION, "sub"), [4]
    yield _describe(BROKER, ""), [4]
    yield _describe(TOPIC, "t", "retention.ms", "segment.bytes", "nope"), range(1, 5)
    yield _describe(TOPIC, "t", "retention.ms", docs=True), [3, 4]
    yield _describe(TOPIC, "t", "retention.ms", synonyms=False), range(1, 5)
    keys = ("log.retention.ms", "log.segment.bytes", "a.plugins", "node.id", "ssl.key.password")
    for name in ("1", "01", "+1", "", "2", "-1", "x", " 1"):
        yield _describe(BROKER, name, *keys), [4]
    for kind, name in (
        (TOPIC, "nope"),
        (TOPIC, ""),
        (TOPIC, "b ad"),
        (TOPIC, "__cluster_metadata"),
        (LOGGER, ""),
        (LOGGER, "2"),
        (LOGGER, "x"),
        (SUBSCRIPTION, "other"),
        (SUBSCRIPTION, ""),
        (GROUP, ""),
        (0, "x"),
        (1, "x"),
        (64, "x"),
    ):
        yield _describe(kind, name), [1, 4]


def _alter(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Request:
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
        ],
        validate_only=True,
    )


def _replace(kind: int, name: str, *values: tuple[str, str | None]) -> Request:
    return AlterConfigsRequest(
        resources=[
            NewConfigs(
                resource_type=kind,
                resource_name=name,
                configs=[NewConfig(name=key, value=value) for key, value in values],
            )
        ],
        validate_only=True,
    )


def _about_changes() -> _Asked:
    yield from _alterations()
    for level, kind in ((1, 1), (9, 1), (0, 1), (0, 2), (1, 9)):
        update = FeatureUpdateKey(
            feature="group.version", max_version_level=level, upgrade_type=kind
        )
        yield UpdateFeaturesRequest(feature_updates=[update], validate_only=True), [1, 2]
    unknown = FeatureUpdateKey(feature="nope", max_version_level=1)
    yield UpdateFeaturesRequest(feature_updates=[unknown]), range(3)
    for wanted in (topic("new"), topic("t"), topic("b ad"), topic("new", 0), topic("new", 1, 2)):
        yield _creation(wanted, validate_only=True), range(2, 8)
    yield _creation(topic("new"), timeout_ms=0), [7]
    yield _creation(topic("twice"), topic("twice")), [7]
    yield _creation(topic("made", 2, configs={"cleanup.policy": "compact"})), [7]
    yield MetadataRequest(topics=_named("made", "new"), allow_auto_topic_creation=False), [13]
    yield _growth(("made", 3), ("t", 1), ("nope", 2)), range(4)
    yield _growth(("t", 3), placed=[[1]]), [3]
    yield _growth(("t", 5), placed=[[1]]), [3]
    yield _growth(("t", 5), timeout_ms=0), [3]
    yield _describe(TOPIC, "made", "cleanup.policy"), [4]
    yield DescribeTopicPartitionsRequest(topics=[TopicRequest(name="made")]), [0]
    yield _deletion("nope", "", "", ANY_ID, NO_ID), [6]
    yield (
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=ANY_ID)], timeout_ms=9),
        [6],
    )
    yield DeleteTopicsRequest(topic_names=["made", "nope"], timeout_ms=SOON_MS), [1]
    yield MetadataRequest(topics=_named("made"), allow_auto_topic_creation=False), [13]
    yield MetadataRequest(topics=_named("auto")), [13]


def _alterations() -> _Asked:
    key = "retention.ms"
    for operation, value in ((0, "5"), (0, None), (0, "x"), (1, None), (2, "1"), (3, "1")):
        yield _alter(TOPIC, "t", (key, operation, value)), [0, 1]
    yield _alter(TOPIC, "t"), [1]
    yield _alter(TOPIC, "t", (key, 0, "5"), (key, 0, "6")), [1]
    for name in ("nope", "", "b ad"):
        yield _alter(TOPIC, name, (key, 0, "5")), [1]
        yield _replace(TOPIC, name, (key, "5")), range(3)
    for name in ("1", "", "2", "x"):
        yield _alter(BROKER, name, ("log.retention.ms", 0, "5")), [1]
        yield _alter(BROKER, name, ("log.dirs", 0, "5")), [1]
        yield _replace(BROKER, name, ("log.dirs", "5")), [2]
        yield _alter(LOGGER, name, ("root", 0, "BAD")), [1]
    for change in (("nope", 0, "INFO"), ("root", 1, None), ("root", 2, "INFO"), ("root", 0, None)):
        yield _alter(LOGGER, "1", change), [1]
    yield _replace(LOGGER, "1", ("root", "INFO")), [2]
    for kind, name, change in (
        (SUBSCRIPTION, "sub", ("interval.ms", 0, "1")),
        (SUBSCRIPTION, "sub", ("nope", 0, "1")),
        (SUBSCRIPTION, "", ("interval.ms", 0, "1000")),
        (GROUP, "g", ("consumer.session.timeout.ms", 0, "1")),
        (GROUP, "g", ("nope", 0, "1")),
        (GROUP, "", ("consumer.session.timeout.ms", 0, "50000")),
        (0, "x", ("a", 0, "b")),
        (64, "x", ("a", 0, "b")),
    ):
        yield _alter(kind, name, change), [1]


def _creation(
    *topics: CreatableTopic, timeout_ms: int = SOON_MS, validate_only: bool = False
) -> Request:
    return CreateTopicsRequest(
        topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only
    )


def _growth(
    *wanted: tuple[str, int], placed: list[list[int]] | None = None, timeout_ms: int = SOON_MS
) -> Request:
    assignments = None
    if placed is not None:
        assignments = [CreatePartitionsAssignment(broker_ids=each) for each in placed]
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=count, assignments=assignments)
            for name, count in wanted
        ],
        timeout_ms=timeout_ms,
        validate_only=False,
    )


def _deletion(*wanted: str | bytes) -> Request:
    return DeleteTopicsRequest(
        topics=[
            DeleteTopicState(name=each, topic_id=NO_ID)
            if isinstance(each, str)
            else DeleteTopicState(name=None, topic_id=each)
            for each in wanted
        ],
        timeout_ms=SOON_MS,
    )


# What is kept, and what is compared.


def write(footing: Footing, exchanges: Iterable[Exchange]) -> None:
    """The conversation as data."""
    lines = [
        {
            "properties": footing.properties,
            "cluster_id": footing.cluster_id,
            "endpoints": footing.endpoints,
            "batches": [_text(each) for each in footing.batches],
        },
        *(
            {
                "key": type(each.question.request).spec.key,
                "version": each.question.version,
                "listener": each.question.listener,
                "request": _text(each.question.request.encode(each.question.version)),
                "answer": _text(without_wording(each.answer).encode(each.question.version)),
            }
            for each in exchanges
        ),
    ]
    text = "".join(f"{json.dumps(line, sort_keys=True)}\n" for line in lines)
    KEPT.write_text(text, encoding="ascii")


def read() -> tuple[Footing, list[Exchange]]:
    """The conversation as it is kept."""
    first, *lines = map(json.loads, KEPT.read_text(encoding="ascii").splitlines())
    footing = Footing(
        first["properties"],
        first["cluster_id"],
        {name: (host, port) for name, (host, port) in first["endpoints"].items()},
        [b64decode(each) for each in first["batches"]],
    )
    return footing, [_exchange(line) for line in lines]


def _exchange(line: Mapping[str, Any]) -> Exchange:
    key, version = line["key"], line["version"]
    request = request_class(key).decode(b64decode(line["request"]), version)
    answer = response_class(key).decode(b64decode(line["answer"]), version)
    return Exchange(Question(request, version, line["listener"]), answer)


def _text(data: bytes | bytearray) -> str:
    return b64encode(data).decode("ascii")


def without_wording(answer: Any) -> Any:
    for field in type(answer).spec.fields:
        value = getattr(answer, field.name)
        if field.name in _WORDING and value:
            setattr(answer, field.name, "...")
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Struct):
                without_wording(each)
    return answer


def _is_own_setting(value: Any) -> bool:
    is_setting = isinstance(value, DescribeConfigsResourceResult | CreatableTopicConfigs)
    return is_setting and (is_own(value.name) or value.name in INTERNAL_TO_KAFKA)


def comparable(value: Any) -> Any:
    """An answer without wording, chance, our own settings and those of Kafka 4.4. Lists of things
    are in one order, of numbers in theirs."""
    if isinstance(value, list):
        items = [comparable(each) for each in value if not _is_own_setting(each)]
        return items if all(isinstance(each, int) for each in value) else sorted(items, key=repr)
    if isinstance(value, Struct | Response):
        return {
            field.name: comparable(getattr(value, field.name))
            for field in type(value).spec.fields
            if field.name not in _WORDING | _CHANCE
        }
    return value
