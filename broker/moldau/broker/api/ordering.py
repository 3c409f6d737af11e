"""The order in which the requests of one connection take effect: that in which they came.

Kafka reads no further request of a connection before it has answered the last one. Clients rely on
that: of two batches with consecutive sequences the first is appended first, or refused first, and
what follows the end of a transaction is in the next one. Here the next request is served while
earlier ones wait for their answers. So a request that waits *before* its effect holds the order
(`ApiRequest.hold_order`): the connection puts further frames aside until it has taken effect. The
rule is deny by default: every API holds the order until its answer, unless it is named here.

Reads (`READS`) hold nothing. They change nothing that a later request sees, and what they see was
done before them, because a change that is not done yet holds them back. A fetch waits for records,
and a lookup for a disk or another broker, while the connection goes on.

Requests that take effect in `serve` (`AT_ONCE`) hold nothing either. They wait for what makes their
effect safe, or for others:
- offsets, members and transactions: the coordinator's shard decides, appends and replays within
  the call, or in this turn of the event loop before any other decision. The answer waits for the
  replicas, and that of a joining member for the other members.
- EndTxn, AddPartitionsToTxn, AddOffsetsToTxn and WriteTxnMarkers are decided or appended within the
  call too. Brokers send those of many producers over one connection, which would wait for each
  other without need. That markers are still being written is an answer (CONCURRENT_TRANSACTIONS).
- ShareFetch and ShareAcknowledge pass acknowledgements to their partitions within the call. The
  answer waits until they are stored, and a fetch for records.
- DeleteRecords moves the log start within the call, and RestoreRecords appends. The answer waits
  for disks and followers.
- CopySegments ends the active segment within the call, and waits for nothing.
- PushTelemetry only counts.

Requests that hold for a part of their time do it themselves (`BY_THEMSELVES`):
- Produce, while a coordinator is asked whether the partitions are in the transaction, and while a
  large batch is checked in a thread. With the append it has its effect; waiting for replicas holds
  nothing.
- SaslAuthenticate, while a mechanism asks another system.

All others hold the order: TxnOffsetCommit and InitProducerId, which ask another node first; what is
forwarded to the controller, which may be asked again while it moves; changes of share groups, which
are several steps at several coordinators; and each API that is added later.

Nothing else waits between two requests: rights and quotas are looked up in memory, and a throttled
connection is not read at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.protocol.messages import api

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest, Handler

READS: Final = frozenset(
    (
        "ApiVersions",
        "ConsumerGroupDescribe",
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeDelegationToken",
        "DescribeGroups",
        "DescribeLogDirs",
        "DescribeProducers",
        "DescribeShareGroupOffsets",
        "DescribeTopicPartitions",
        "DescribeTransactions",
        "DescribeUserScramCredentials",
        "Fetch",
        "FindCoordinator",
        "GetTelemetrySubscriptions",
        "ListConfigResources",
        "ListGroups",
        "ListOffsets",
        "ListTransactions",
        "Metadata",
        "OffsetFetch",
        "OffsetForLeaderEpoch",
        "ShareGroupDescribe",
        "StreamsGroupDescribe",
    )
)
AT_ONCE: Final = frozenset(
    (
        "AddOffsetsToTxn",
        "AddPartitionsToTxn",
        "ConsumerGroupHeartbeat",
        "CopySegments",
        "DeleteRecords",
        "DeleteShareGroupState",
        "EndTxn",
        "Heartbeat",
        "InitializeShareGroupState",
        "JoinGroup",
        "LeaveGroup",
        "OffsetCommit",
        "PushTelemetry",
        "ReadShareGroupState",
        "ReadShareGroupStateSummary",
        "RestoreRecords",
        "SaslHandshake",
        "ShareAcknowledge",
        "ShareFetch",
        "ShareGroupHeartbeat",
        "StreamsGroupHeartbeat",
        "StreamsGroupTopologyDescriptionUpdate",
        "SyncGroup",
        "WriteShareGroupState",
        "WriteTxnMarkers",
    )
)
BY_THEMSELVES: Final = frozenset(("Produce", "SaslAuthenticate"))
UNHELD: Final = READS | AT_ONCE | BY_THEMSELVES


def in_order(key: int, serve: Handler) -> Handler:
    """Return the handler of an API that keeps the order of the connection. It is the handler itself
    where nothing is to be held, so that a produce and a fetch pay nothing."""
    if api(key).name in UNHELD:
        return serve

    def serve_and_hold(node: Node, request: ApiRequest) -> None:
        serve(node, request)
        request.hold_order()

    return serve_and_hold
