"""Requests of a client with no right, with each single right, with DENY, a prefix and a wildcard.

The client is ANONYMOUS. Rules are taken while none is about the cluster, because everyone is
allowed what no rule is about (allow.everyone.if.no.acl.found); the first ones leave the client the
rights to change rules and to be the other broker. A rule for somebody else about every other
resource makes them closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.broker.security.access.rule import Acl
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.declare import Request
from moldau.protocol.messages.alter_configs import AlterConfigsRequest
from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.describe_acls import DescribeAclsRequest
from moldau.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from moldau.protocol.messages.describe_topic_partitions import TopicRequest as TopicToDescribe
from moldau.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from moldau.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from moldau.protocol.messages.offset_commit import OffsetCommitResponse
from moldau.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.api.requests import delete_records, fetch, list_offsets, produce, want
from tests.differential.group_requests import commit, coordinated, delete_offsets, fetch_offsets
from tests.differential.requests import batch, new_topic
from tests.differential.talk import Talk

SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "false",
}
CLIENT: Final = "User:ANONYMOUS"
TOPIC, GROUP, CLUSTER = AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER
TRANSACTION = AclResource.TRANSACTIONAL_ID
LITERAL, PREFIXED = AclPattern.LITERAL, AclPattern.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY


def rule(
    resource: AclResource,
    name: str,
    operation: AclOperation,
    pattern: AclPattern = LITERAL,
    permission: AclPermission = ALLOW,
    principal: str = CLIENT,
) -> Acl:
    return Acl(resource, name, pattern, principal, "*", operation, permission)


FIRST: Final = (
    rule(CLUSTER, "kafka-cluster", AclOperation.ALTER),
    rule(CLUSTER, "kafka-cluster", AclOperation.CLUSTER_ACTION),
    *(
        rule(each, "*", AclOperation.READ, principal="User:nobody")
        for each in (TOPIC, GROUP, TRANSACTION, AclResource.DELEGATION_TOKEN, AclResource.USER)
    ),
)


def grants() -> Iterator[tuple[str, list[Acl]]]:
    """The rights of the client, with their names."""
    yield "none", []
    for operation in (
        *(AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
        *(AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
        *(AclOperation.CREATE, AclOperation.ALL),
    ):
        yield f"{operation.name} topic", [rule(TOPIC, "t", operation)]
    for operation in (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE):
        yield f"{operation.name} group", [rule(GROUP, "g", operation)]
    yield "READ group and topic", [rule(each, "*", AclOperation.READ) for each in (GROUP, TOPIC)]
    for operation in (
        *(AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS),
        *(AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE),
    ):
        yield f"{operation.name} cluster", [rule(CLUSTER, "kafka-cluster", operation)]
    for operation in (AclOperation.WRITE, AclOperation.DESCRIBE):
        yield f"{operation.name} transaction", [rule(TRANSACTION, "x", operation)]
    yield "prefix", [rule(TOPIC, "t", AclOperation.READ, PREFIXED)]
    denied = rule(TOPIC, "t", AclOperation.READ, permission=DENY)
    yield "wildcard without one", [rule(TOPIC, "*", AclOperation.ALL), denied]


def changes() -> list[AlterConfigsResource]:
    return [
        AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterableConfig(name=setting, config_operation=0, value=value)],
        )
        for kind, name, setting, value in (
            (2, "t", "retention.ms", "100000"),
            (2, "nope", "retention.ms", "100000"),
            (4, "", "log.retention.ms", "-1"),
            (32, "g", "consumer.session.timeout.ms", "50000"),
        )
    ]


def described(*resources: tuple[int, str, str]) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=[setting]
            )
            for kind, name, setting in resources
        ]
    )


def metadata(*names: str, **more: bool) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=each) for each in names]
    fields = {"allow_auto_topic_creation": False, **more}
    return MetadataRequest(topics=topics if names else None, **fields)


def requests(topic_id: bytes) -> Iterator[tuple[str, Request, int]]:
    """What the client asks for with each of its rights. Versions are the last with names, where a
    later one has ids."""
    yield "produce", produce("t", batch()), 9
    yield "fetch", fetch(("t", want())), 12
    yield "offsets", list_offsets(-1, "t"), 7
    yield "offsets of none", list_offsets(-1, "nope"), 7
    yield "metadata", metadata("t", "nope", include_topic_authorized_operations=True), 12
    yield "metadata of all", metadata(), 12
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
    yield "metadata by id", by_id, 12
    yield (
        "old metadata",
        metadata(
            "t",
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        9,
    )
    yield "commit", commit("g", {"t": {0: 1}}, {})(9), 9
    yield "committed", fetch_offsets({"g": {"t": [0], "nope": [0]}}, {})(9), 9
    yield "all committed", fetch_offsets({"g": None}, {})(9), 9
    yield "old committed", fetch_offsets({"g": {"t": [0]}}, {})(5), 5
    yield "delete offsets", delete_offsets("g", {"t": [7]}), 0
    yield from of_groups()
    yield from of_topics()
    yield from of_the_cluster()


def of_groups() -> Iterator[tuple[str, Request, int]]:
    yield "coordinator", FindCoordinatorRequest(key="g"), 3
    yield "coordinators", FindCoordinatorRequest(key_type=1, coordinator_keys=["x", "y"]), 4
    yield "heartbeat", HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4
    member = [MemberIdentity(member_id="m")]
    yield "leave", LeaveGroupRequest(group_id="g", members=member), 4
    yield "describe groups", DescribeGroupsRequest(groups=["g", "h"]), 5
    yield (
        "describe consumers",
        ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True),
        0,
    )
    yield "list groups", ListGroupsRequest(), 4
    yield "delete groups", DeleteGroupsRequest(groups_names=["none"]), 2


def of_topics() -> Iterator[tuple[str, Request, int]]:
    topics = [new_topic("t"), new_topic("new")]
    yield "create", CreateTopicsRequest(topics=topics, timeout_ms=9_000, validate_only=True), 7
    states = [DeleteTopicState(name="nope", topic_id=bytes(16))]
    yield "delete", DeleteTopicsRequest(topics=states, timeout_ms=9_000), 6
    yield (
        "delete by id",
        DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=b"\7" * 16)], timeout_ms=9_000),
        6,
    )
    more = [CreatePartitionsTopic(name="t", count=1, assignments=None)]
    yield (
        "partitions",
        CreatePartitionsRequest(topics=more, timeout_ms=9_000, validate_only=True),
        3,
    )
    yield "delete records", delete_records("t", 0), 2


def of_the_cluster() -> Iterator[tuple[str, Request, int]]:
    yield "producer id", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4
    yield (
        "transaction",
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=0),
        4,
    )
    epochs = OffsetForLeaderTopic(
        topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    )
    yield "epochs", OffsetForLeaderEpochRequest(replica_id=-1, topics=[epochs]), 4
    yield (
        "settings",
        described(
            (2, "t", "retention.ms"),
            (4, "1", "node.id"),
            (32, "g", "consumer.session.timeout.ms"),
        ),
        4,
    )
    yield (
        "change settings",
        IncrementalAlterConfigsRequest(resources=changes(), validate_only=True),
        1,
    )
    yield "replace settings", AlterConfigsRequest(resources=[], validate_only=True), 2
    yield "resources", ListConfigResourcesRequest(resource_types=[16]), 1
    yield (
        "producers",
        DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])]),
        0,
    )
    yield "transactions", DescribeTransactionsRequest(transactional_ids=["x"]), 0
    yield (
        "topic partitions",
        DescribeTopicPartitionsRequest(
            topics=[TopicToDescribe(name=each) for each in ("t", "nope")]
        ),
        0,
    )
    yield "all topic partitions", DescribeTopicPartitionsRequest(topics=[]), 0
    yield "users", DescribeUserScramCredentialsRequest(users=[]), 0
    yield "quotas", DescribeClientQuotasRequest(components=[], strict=False), 1
    yield (
        "rules",
        DescribeAclsRequest(
            resource_type_filter=AclResource.GROUP,
            resource_name_filter=None,
            pattern_type_filter=AclPattern.ANY,
            principal_filter="User:nobody",
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermission.ANY,
        ),
        3,
    )


async def add(talk: Talk, *rules: Acl) -> None:
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                resource_pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission_type,
            )
            for each in rules
        ]
    )
    response = await talk.send(request, CreateAclsResponse)
    assert all(each.error_code == 0 for each in response.results), response
    await talk.settled()


async def remove(talk: Talk, *rules: Acl) -> None:
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission_type,
            )
            for each in rules
        ]
    )
    response = await talk.send(request, DeleteAclsResponse)
    assert all(len(each.matching_acls) == 1 for each in response.filter_results), response
    await talk.settled()


async def scenario(talk: Talk) -> None:
    topic_id = await talk.topic("t")
    await talk.topic("hidden")
    await talk.producer_id()
    await coordinated(talk)

    async def is_coordinated() -> bool:
        request = DescribeTransactionsRequest(transactional_ids=["x"])
        response = await talk.send(request, DescribeTransactionsResponse)
        found = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
        await talk.send(found, FindCoordinatorResponse)
        code = response.transaction_states[0].error_code
        return code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    await talk.until(is_coordinated)
    await talk.send(commit("g", {"t": {0: 1}}, {})(9), OffsetCommitResponse, 9)
    every = await talk.send(metadata(), MetadataResponse, 12)
    for topic in every.topics:
        talk.symbols.call("id", bytes(topic.topic_id), f"id of {topic.name}")
    await add(talk, *FIRST)
    for name, rules in grants():
        if rules:
            await add(talk, *rules)
        for label, request, version in requests(topic_id):
            await talk.ask(f"{name}: {label}", request, [version])
        if rules:
            await remove(talk, *rules)
