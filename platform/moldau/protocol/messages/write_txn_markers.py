"""Writes the commit or abort marker of transactions into their partitions.

Sent by transaction coordinators to the leaders of the partitions.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Int8, Int16, Int32, ProducerId, TopicName


class WritableTxnMarkerTopic(Struct):
    """One topic and the partitions that get the marker."""

    name: TopicName
    partition_indexes: list[Int32]


class WritableTxnMarker(Struct):
    """One transaction's outcome: true is commit, false is abort."""

    producer_id: ProducerId
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    # KIP-1228: lets the leader check the epoch as strictly as KIP-890 wants
    transaction_version: Int8 = field(since=2, default=0, ignorable=True)


class WriteTxnMarkersRequest(Request, key=27, versions="1-2", flexible="1+", listeners=("broker",)):
    """The markers to write."""

    markers: list[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16


class WritableTxnMarkerTopicResult(Struct):
    """One topic of the answer and its partitions."""

    name: TopicName
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    """The answer for one producer."""

    producer_id: ProducerId
    topics: list[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Response, key=27, versions="1-2", flexible="1+"):
    """An error code for each partition of each marker."""

    markers: list[WritableTxnMarkerResult]
