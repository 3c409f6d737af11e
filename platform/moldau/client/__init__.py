"""moldau's own client: `Producer`, `Consumer` and `Admin` on asyncio, for any Kafka cluster.

    from moldau.client import Admin, Consumer, NewTopic, Producer

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        await (await producer.send("orders", b"value", key=b"key"))

Importing this package loads no client module: each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin
    from moldau.client.admin.cluster import (
        ActiveProducer,
        ClusterDescription,
        Downgrade,
        LogDir,
        LogDirReplica,
        Quorum,
        QuorumReplica,
    )
    from moldau.client.admin.configs import ConfigEntry, ConfigSource, Resource, ResourceType
    from moldau.client.admin.delegation_tokens import DelegationToken, TokenAdmin
    from moldau.client.admin.groups import OffsetsNotStored
    from moldau.client.admin.partitions import EligibleReplicas, Reassignment
    from moldau.client.admin.progress import GroupProgress, PartitionProgress
    from moldau.client.admin.quotas import QuotaAdmin, QuotaEntity
    from moldau.client.admin.security import Acl, AclFilter, ScramUser, SecurityAdmin
    from moldau.client.admin.share_groups import ShareGroupAdmin, ShareOffset
    from moldau.client.admin.topics import CreatedTopic, NewTopic
    from moldau.client.admin.transactions import (
        ListedTransaction,
        TransactionAdmin,
        TransactionDescription,
    )
    from moldau.client.base.arguments import OffsetAndMetadata
    from moldau.client.base.columns import BinaryColumn, HeadersColumn, PartitionColumns
    from moldau.client.base.coordinator import GroupMetadata
    from moldau.client.base.file import load_settings
    from moldau.client.base.interceptor import ConsumerInterceptor
    from moldau.client.base.lifecycle import ClientNotStarted
    from moldau.client.base.offsets import EARLIEST, LATEST, FoundOffset
    from moldau.client.consumer.consumer import Consumer
    from moldau.client.consumer.options import ConsumerOptions
    from moldau.client.consumer.records import PartitionRecords
    from moldau.client.consumer.share.acknowledgements import AcknowledgeType
    from moldau.client.consumer.share.consumer import ShareConsumer, ShareConsumerOptions
    from moldau.client.consumer.share.message import Message
    from moldau.client.group.descriptions import (
        GroupDescription,
        ListedGroup,
        MemberDescription,
        MemberTasks,
    )
    from moldau.client.group.group_member import GroupMember
    from moldau.client.group.listener import RebalanceListener
    from moldau.client.group.options import MemberOptions
    from moldau.client.group.protocols import GenerationAssignment, Protocols
    from moldau.client.producer.columns import RecordColumns
    from moldau.client.producer.delivery import Deliveries, Delivery, Sent, SentRange
    from moldau.client.producer.options import ProducerOptions
    from moldau.client.producer.otlp_tracing import OtlpTracing
    from moldau.client.producer.partitioner import RecordPartitioner
    from moldau.client.producer.producer import Producer
    from moldau.client.producer.record import (
        OnDelivery,
        ProducerInterceptor,
        ProducerRecord,
        SendOptions,
    )
    from moldau.client.producer.tracing import Tracing
    from moldau.client.producer.transaction_block import Transaction
    from moldau.client.producer.transaction_errors import (
        AbortableTransactionError,
        FatalTransactionError,
        RetriableTransactionError,
        TransactionError,
    )
    from moldau.client.settings.options import AdminOptions
    from moldau.errors import ConfigError, CorruptRecord, MoldauError
    from moldau.errors.codes import ErrorCode, KafkaError
    from moldau.link.lifetime import ClientClosed, WrongLoop, WrongProcess
    from moldau.link.login.msk_iam import AwsKeys, MskIam
    from moldau.link.login.token_endpoint import TokenEndpoint
    from moldau.link.metadata import Broker, Partition, Topic, TopicPartition
    from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
    from moldau.protocol.election import Election
    from moldau.protocol.scram import ScramMechanism
    from moldau.records import ConsumerRecord, K, TimestampType, V
    from moldau.values.failures import DeserializationFailed, SerializationFailed

# The public names of each module. A leading dot means a module beside this package.
_MODULES = {
    ".errors": "ConfigError CorruptRecord MoldauError",
    ".errors.codes": "ErrorCode KafkaError",
    ".link.lifetime": "ClientClosed WrongLoop WrongProcess",
    ".link.metadata": "Broker Partition Topic TopicPartition",
    ".link.login.msk_iam": "AwsKeys MskIam",
    ".link.login.token_endpoint": "TokenEndpoint",
    ".protocol.acl_operations": "AclOperation AclPattern AclPermission AclResource",
    ".protocol.election": "Election",
    ".protocol.scram": "ScramMechanism",
    ".records": "ConsumerRecord K TimestampType V",
    ".values.failures": "DeserializationFailed SerializationFailed",
    "admin.admin": "Admin",
    "admin.cluster": (
        "ActiveProducer ClusterDescription Downgrade LogDir LogDirReplica Quorum QuorumReplica"
    ),
    "admin.configs": "ConfigEntry ConfigSource Resource ResourceType",
    "admin.delegation_tokens": "DelegationToken TokenAdmin",
    "admin.groups": "OffsetsNotStored",
    "settings.options": "AdminOptions",
    "admin.partitions": "EligibleReplicas Reassignment",
    "admin.progress": "GroupProgress PartitionProgress",
    "admin.quotas": "QuotaAdmin QuotaEntity",
    "admin.security": "Acl AclFilter ScramUser SecurityAdmin",
    "admin.share_groups": "ShareGroupAdmin ShareOffset",
    "admin.topics": "CreatedTopic NewTopic",
    "admin.transactions": "ListedTransaction TransactionAdmin TransactionDescription",
    "base.columns": "BinaryColumn HeadersColumn PartitionColumns",
    "consumer.consumer": "Consumer",
    "base.interceptor": "ConsumerInterceptor",
    "base.offsets": "EARLIEST FoundOffset LATEST",
    "consumer.options": "ConsumerOptions",
    "consumer.records": "PartitionRecords",
    "group.descriptions": "GroupDescription ListedGroup MemberDescription MemberTasks",
    "group.group_member": "GroupMember",
    "group.listener": "RebalanceListener",
    "base.coordinator": "GroupMetadata",
    "group.options": "MemberOptions",
    "group.protocols": "GenerationAssignment Protocols",
    "producer.columns": "RecordColumns",
    "producer.delivery": "Deliveries Delivery Sent SentRange",
    "producer.options": "ProducerOptions",
    "producer.partitioner": "RecordPartitioner",
    "producer.producer": "Producer",
    "producer.record": "OnDelivery ProducerInterceptor ProducerRecord SendOptions",
    "producer.otlp_tracing": "OtlpTracing",
    "producer.tracing": "Tracing",
    "producer.transaction_block": "Transaction",
    "producer.transaction_errors": (
        "AbortableTransactionError FatalTransactionError RetriableTransactionError TransactionError"
    ),
    "base.arguments": "OffsetAndMetadata",
    "base.file": "load_settings",
    "base.lifecycle": "ClientNotStarted",
    "consumer.share.acknowledgements": "AcknowledgeType",
    "consumer.share.consumer": "ShareConsumer ShareConsumerOptions",
    "consumer.share.message": "Message",
}
_HOMES = {name: home for home, names in _MODULES.items() for name in names.split()}

__all__ = [
    "EARLIEST", "LATEST", "AbortableTransactionError", "AcknowledgeType", "Acl", "AclFilter",
    "AclOperation", "AclPattern", "AclPermission", "AclResource", "ActiveProducer", "Admin",
    "AdminOptions", "AwsKeys", "BinaryColumn", "Broker", "ClientClosed", "ClientNotStarted",
    "ClusterDescription", "ConfigEntry", "ConfigError", "ConfigSource", "Consumer",
    "ConsumerInterceptor", "ConsumerOptions", "ConsumerRecord", "CorruptRecord", "CreatedTopic",
    "DelegationToken", "Deliveries", "Delivery", "DeserializationFailed", "Downgrade", "Election",
    "EligibleReplicas", "ErrorCode", "FatalTransactionError", "FoundOffset", "GenerationAssignment",
    "GroupDescription", "GroupMember", "GroupMetadata", "GroupProgress", "HeadersColumn", "K",
    "KafkaError", "ListedGroup", "ListedTransaction", "LogDir", "LogDirReplica",
    "MemberDescription", "MemberOptions", "MemberTasks", "Message", "MoldauError", "MskIam",
    "NewTopic", "OffsetAndMetadata", "OffsetsNotStored", "OnDelivery", "OtlpTracing", "Partition",
    "PartitionColumns", "PartitionProgress", "PartitionRecords", "Producer", "ProducerInterceptor",
    "ProducerOptions", "ProducerRecord", "Protocols", "Quorum", "QuorumReplica", "QuotaAdmin",
    "QuotaEntity", "Reassignment", "RebalanceListener", "RecordColumns", "RecordPartitioner",
    "Resource", "ResourceType", "RetriableTransactionError", "ScramMechanism", "ScramUser",
    "SecurityAdmin", "SendOptions", "Sent", "SentRange", "SerializationFailed", "ShareConsumer",
    "ShareConsumerOptions", "ShareGroupAdmin", "ShareOffset", "TimestampType", "TokenAdmin",
    "TokenEndpoint", "Topic", "TopicPartition", "Tracing", "Transaction", "TransactionAdmin",
    "TransactionDescription", "TransactionError", "V", "WrongLoop", "WrongProcess", "load_settings",
]  # fmt: skip


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
