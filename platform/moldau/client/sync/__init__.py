"""`Producer`, `Consumer`, `Admin` and `SchemaRegistry` for programs with threads and no event loop.

    from moldau.client.sync import Admin, Consumer, NewTopic, Producer

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("orders", b"value", key=b"key").result()

They have the names and parameters of the asyncio clients of `moldau.client` (the registry's is in
`moldau.client.serdes`), and run those on one shared event loop, in a thread of its own
(`moldau.runtime.loop_thread`). The other names of `moldau.client` can be imported from here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.client import (
        EARLIEST,
        LATEST,
        AbortableTransactionError,
        AcknowledgeType,
        Acl,
        AclFilter,
        AclOperation,
        AclPattern,
        AclPermission,
        AclResource,
        ActiveProducer,
        AdminOptions,
        AwsKeys,
        BinaryColumn,
        Broker,
        ClientClosed,
        ClientNotStarted,
        ClusterDescription,
        ConfigEntry,
        ConfigError,
        ConfigSource,
        ConsumerInterceptor,
        ConsumerOptions,
        ConsumerRecord,
        CorruptRecord,
        CreatedTopic,
        DelegationToken,
        DeserializationFailed,
        Downgrade,
        Election,
        EligibleReplicas,
        ErrorCode,
        FatalTransactionError,
        FoundOffset,
        GenerationAssignment,
        GroupDescription,
        GroupMetadata,
        GroupProgress,
        HeadersColumn,
        K,
        KafkaError,
        ListedGroup,
        ListedTransaction,
        LogDir,
        LogDirReplica,
        MemberDescription,
        MemberOptions,
        MemberTasks,
        MoldauError,
        MskIam,
        NewTopic,
        OffsetAndMetadata,
        OffsetsNotStored,
        OnDelivery,
        OtlpTracing,
        Partition,
        PartitionColumns,
        PartitionProgress,
        PartitionRecords,
        ProducerInterceptor,
        ProducerOptions,
        ProducerRecord,
        Protocols,
        Quorum,
        QuorumReplica,
        QuotaEntity,
        Reassignment,
        RebalanceListener,
        RecordColumns,
        RecordPartitioner,
        Resource,
        ResourceType,
        RetriableTransactionError,
        ScramMechanism,
        ScramUser,
        SendOptions,
        Sent,
        SentRange,
        SerializationFailed,
        ShareConsumerOptions,
        ShareOffset,
        TimestampType,
        TokenEndpoint,
        Topic,
        TopicPartition,
        Tracing,
        TransactionDescription,
        TransactionError,
        V,
        WrongLoop,
        WrongProcess,
        load_settings,
    )
    from moldau.client.admin.sync.admin import Admin
    from moldau.client.admin.sync.delegation_tokens import TokenAdmin
    from moldau.client.admin.sync.quotas import QuotaAdmin
    from moldau.client.admin.sync.security import SecurityAdmin
    from moldau.client.admin.sync.share_groups import ShareGroupAdmin
    from moldau.client.admin.sync.transactions import TransactionAdmin
    from moldau.client.base.configuration import Configuration
    from moldau.client.consumer.sync.consumer import Consumer
    from moldau.client.consumer.sync.share_consumer import Message, ShareConsumer
    from moldau.client.group.sync.group_member import GroupMember
    from moldau.client.producer.sync.delivery import Deliveries, Delivery
    from moldau.client.producer.sync.producer import Producer, Transaction
    from moldau.client.serdes.sync.schema_registry import SchemaRegistry
    from moldau.runtime.loop_thread import WrongThread

_HOMES = {
    "Admin": "moldau.client.admin.sync.admin",
    "Configuration": "moldau.client.base.configuration",
    "Consumer": "moldau.client.consumer.sync.consumer",
    "Deliveries": "moldau.client.producer.sync.delivery",
    "Delivery": "moldau.client.producer.sync.delivery",
    "GroupMember": "moldau.client.group.sync.group_member",
    "Producer": "moldau.client.producer.sync.producer",
    "QuotaAdmin": "moldau.client.admin.sync.quotas",
    "SchemaRegistry": "moldau.client.serdes.sync.schema_registry",
    "SecurityAdmin": "moldau.client.admin.sync.security",
    "ShareConsumer": "moldau.client.consumer.sync.share_consumer",
    "Message": "moldau.client.consumer.sync.share_consumer",
    "ShareGroupAdmin": "moldau.client.admin.sync.share_groups",
    "TokenAdmin": "moldau.client.admin.sync.delegation_tokens",
    "Transaction": "moldau.client.producer.sync.producer",
    "TransactionAdmin": "moldau.client.admin.sync.transactions",
    "WrongThread": "moldau.runtime.loop_thread",
}

__all__ = [
    "EARLIEST", "LATEST", "AbortableTransactionError", "AcknowledgeType", "Acl", "AclFilter",
    "AclOperation", "AclPattern", "AclPermission", "AclResource", "ActiveProducer", "Admin",
    "AdminOptions", "AwsKeys", "BinaryColumn", "Broker", "ClientClosed", "ClientNotStarted",
    "ClusterDescription", "ConfigEntry", "ConfigError", "ConfigSource", "Configuration", "Consumer",
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
    "Resource", "ResourceType", "RetriableTransactionError", "SchemaRegistry", "ScramMechanism",
    "ScramUser", "SecurityAdmin", "SendOptions", "Sent", "SentRange", "SerializationFailed",
    "ShareConsumer", "ShareConsumerOptions", "ShareGroupAdmin", "ShareOffset", "TimestampType",
    "TokenAdmin", "TokenEndpoint", "Topic", "TopicPartition", "Tracing", "Transaction",
    "TransactionAdmin", "TransactionDescription", "TransactionError", "V", "WrongLoop",
    "WrongProcess", "WrongThread", "load_settings",
]  # fmt: skip


def __getattr__(name: str) -> object:
    from importlib import import_module

    home = _HOMES.get(name)
    if home is not None:
        return getattr(import_module(home), name)
    if name in __all__:
        return getattr(import_module("moldau.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
