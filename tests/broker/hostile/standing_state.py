"""What exists while extreme requests come: topics, groups of each kind and state, transactions.

It is made by whole requests on connections of its own, and made again when it may be gone.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request
from moldau.protocol.messages import request_class
from moldau.protocol.messages.metadata import MetadataRequest
from tests.fuzz.extremes import Names

HOST: Final = "127.0.0.1"
ANSWER_SECONDS: Final = 10.0
TOPICS: Final = ("orders", "compacted", "gone")
INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
CLASSIC, CONSUMER, SHARE, STREAMS, EMPTY = "classic", "consumer", "share", "streams", "empty"
GROUPS: Final = (CLASSIC, CONSUMER, SHARE, STREAMS, EMPTY, "dead")
OPEN, DONE = "open-transaction", "ended-transaction"
MEMBER: Final = "Zm9vYmFyZm9vYmFyZm9vYg"
SUBSCRIPTION: Final = b"\0\0" + (1).to_bytes(4, "big") + b"\0\6orders" + b"\0\0\0\0"


class Asking:
    """One connection, one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._client = ClientConnection("standing")

    async def ask(self, request: Request, version: int | None = None) -> Any:
        last = type(request).spec.stable_versions.last
        at = last if version is None else version
        self._writer.write(b"".join(map(bytes, self._client.send(request, at))))
        async with asyncio.timeout(ANSWER_SECONDS):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            return self._client.receive(await self._reader.readexactly(size)).response

    async def build(self, key: int, **values: Any) -> Any:
        """Ask with a request of the class of that API, whose other fields have their defaults."""
        return await self.ask(request_class(key)(**values))


class Standing:
    """Makes it, and knows its names."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.names = Names(strings=_strings(()), integers=_integers(()))

    async def make(self) -> None:
        """Make what is missing. A part that cannot be made is left out."""
        reader, writer = await asyncio.open_connection(HOST, self._port)
        asking = Asking(reader, writer)
        try:
            members, producers = [MEMBER], [0]
            await self._topics(asking)
            for make in (self._classic, self._heartbeats, self._committed):
                with suppress(TimeoutError, AssertionError):
                    members += await make(asking)
            with suppress(TimeoutError, AssertionError):
                producers += await self._transactions(asking)
            answer = await asking.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False))
            ids = [each.topic_id for each in answer.topics]
            self.names = Names(
                strings=_strings(members),
                uuids=ids,
                integers=_integers(producers),
                payloads=(SUBSCRIPTION, b"", b"\0\1"),
            )
        finally:
            writer.transport.abort()

    async def _topics(self, asking: Asking) -> None:
        from moldau.protocol.messages.create_topics import (
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )

        compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=4,
                replication_factor=1,
                assignments=[],
                configs=compacted if name == "compacted" else [],
            )
            for name in TOPICS
        ]
        await asking.ask(CreateTopicsRequest(topics=topics, timeout_ms=5_000, validate_only=False))

    async def _classic(self, asking: Asking) -> list[str]:
        from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
        from moldau.protocol.messages.sync_group import (
            SyncGroupRequest,
            SyncGroupRequestAssignment,
        )

        member = ""
        for _ in range(2):
            joined = await asking.ask(
                JoinGroupRequest(
                    group_id=CLASSIC,
                    session_timeout_ms=1_800_000,
                    rebalance_timeout_ms=1_000,
                    member_id=member,
                    protocol_type="consumer",
                    protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
                )
            )
            member = joined.member_id
        assert not joined.error_code
        row = SyncGroupRequestAssignment(member_id=member, assignment=b"\0\0\0\0\0\0\0\0\0\0")
        await asking.ask(
            SyncGroupRequest(
                group_id=CLASSIC,
                generation_id=joined.generation_id,
                member_id=member,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[row],
            )
        )
        return [member]

    async def _heartbeats(self, asking: Asking) -> list[str]:
        common = {"member_id": MEMBER, "member_epoch": 0}
        await asking.build(
            68,
            group_id=CONSUMER,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
            **common,
        )
        await asking.build(76, group_id=SHARE, subscribed_topic_names=["orders"], **common)
        return []

    async def _committed(self, asking: Asking) -> list[str]:
        from moldau.protocol.messages.offset_commit import (
            OffsetCommitRequest,
            OffsetCommitRequestPartition,
            OffsetCommitRequestTopic,
        )

        row = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=0, committed_metadata=""
        )
        topics = [OffsetCommitRequestTopic(name="orders", partitions=[row])]
        await asking.ask(
            OffsetCommitRequest(
                group_id=EMPTY,
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=topics,
            ),
            8,
        )
        return []

    async def _transactions(self, asking: Asking) -> list[int]:
        from moldau.protocol.messages.add_partitions_to_txn import (
            AddPartitionsToTxnRequest,
            AddPartitionsToTxnTopic,
        )

        found = []
        for name in (OPEN, DONE):
            begun = await asking.build(22, transactional_id=name, transaction_timeout_ms=600_000)
            if begun.error_code:
                continue
            found.append(begun.producer_id)
            await asking.ask(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=name,
                    v3_and_below_producer_id=begun.producer_id,
                    v3_and_below_producer_epoch=begun.producer_epoch,
                    v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
                ),
                3,
            )
        return found


def _strings(members: Any) -> dict[str, list[str]]:
    topics = [*TOPICS, *TOPICS, *INTERNAL]
    return {
        "transactional": [OPEN, DONE],
        "member": [*members, MEMBER],
        "group": list(GROUPS),
        "topic": topics,
        "protocol_type": ["consumer", "share"],
        "protocol": ["range"],
        "assignor": ["uniform", "range"],
        "operation": ["READ"],
        "resource_name": ["orders", "1", "", CLASSIC],
        "resource": ["orders", "1", "kafka-cluster"],
        "principal": ["User:a", "User:*"],
        "host": ["*", HOST],
        "key": [*topics, *GROUPS, OPEN, "cleanup.policy", "retention.ms", "orders:0", "share:x:0"],
        "name": [*topics, "cleanup.policy", "retention.ms", "user", "metadata.version"],
        "value": ["1", "-1", "compact", "9223372036854775807"],
        "feature": ["metadata.version", "transaction.version"],
        "mechanism": ["SCRAM-SHA-256"],
        "regex": ["ord.*", "("],
        "cluster": ["x"],
    }


def _integers(producers: Any) -> dict[str, list[int]]:
    return {
        "producer_id": [*producers, 0],
        "producer_epoch": [0, 0, 1],
        "partition_index": [0, 0, 1, 2, 3],
        "partition_max_bytes": [1 << 20],
        "max_bytes": [1 << 20, 0],
        "replica_id": [-1, -1, -1, 1],
        "broker_id": [1, 1, 2],
        "node_id": [1, 1, 2],
        "leader_epoch": [-1, 0],
        "member_epoch": [0, 1, 1, -1, -2],
        "generation": [1, 1, -1],
        "resource_type": [2, 2, 3, 4, 5, 32],
        "operation": [2, 3, 8, 10],
        "key_type": [0, 1, 2],
        "session_timeout": [6_000, 30_000, 1_800_000],
        "offset": [0, 0, 1, -1, -2],
        "partition": [0, 0, 1, 2, 3],
        "acks": [-1, 1],
    }
