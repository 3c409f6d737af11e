"""The cost of messages: the generated codec beside a schema walker, in microseconds a message."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

from bench.harness import Case, Goal, Table, seconds
from bench.schema_walker import SchemaWalker
from moldau.protocol.connection import ClientConnection, ServerConnection
from moldau.protocol.declare import Message
from moldau.protocol.messages import API, request_class
from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from moldau.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.protocol.versions import Versions

GENERATED = "moldau, generated"
WALKER = "schema walker"
RATIO = 1 / 2.5
BATCH_BYTES = 16 << 10


def tables() -> list[Table]:
    """Return a table of Produce in a broker, then of the other hot messages, each way."""
    return [
        _produce(),
        _one_way("ApiVersions v4 response encode", _api_versions(), 4, decode=False),
        _one_way("ApiVersions v4 response decode", _api_versions(), 4, decode=True),
        _one_way("Metadata v12 response 10 x 6 encode", _metadata(), 12, decode=False),
        _one_way("Metadata v12 response 10 x 6 decode", _metadata(), 12, decode=True),
        _one_way("Fetch v12 request 1 x 10 decode", _fetch_request(10), 12, decode=True),
        _one_way("Fetch v12 request 1 x 1 encode", _fetch_request(1), 12, decode=False),
        _one_way("Fetch v12 response 1 x 10 encode", _fetch_response(10), 12, decode=False),
        _one_way("Fetch v12 response 1 x 10 decode", _fetch_response(10), 12, decode=True),
        _connection(),
    ]


def _produce() -> Table:
    request, response = _produce_request().encode(9), _produce_response()
    frame = memoryview(request)
    walk_request = SchemaWalker(ProduceRequest.spec, 9)
    walk_response = SchemaWalker(ProduceResponse.spec, 9)
    answer = walk_response.decode(response.encode(9))

    def generated() -> None:
        ProduceRequest.decode(frame, 9)
        response.encode(9)

    def walked() -> None:
        walk_request.decode(frame)
        walk_response.encode(answer)

    return Table(
        "Produce v9 1 x 1 of 16 KB: request decode and response encode",
        "us",
        [_case(WALKER, walked, 5_000), _case(GENERATED, generated, 10_000)],
        [Goal(GENERATED, at_most=4.0), Goal(GENERATED, versus=WALKER, ratio_at_most=RATIO)],
        higher_is_better=False,
    )


def _one_way(title: str, message: Message, version: int, *, decode: bool) -> Table:
    cls = type(message)
    data = message.encode(version)
    walker = SchemaWalker(cls.spec, version)
    walked = walker.decode(memoryview(data))
    assert walker.encode(walked) == data
    cases = (
        (lambda: walker.decode(data), lambda: cls.decode(data, version))
        if decode
        else (lambda: walker.encode(walked), lambda: message.encode(version))
    )
    repeats = max(100, 1_000_000 // len(data) // 2)
    return Table(
        title,
        "us",
        [_case(WALKER, cases[0], repeats), _case(GENERATED, cases[1], repeats)],
        [Goal(GENERATED, versus=WALKER, ratio_at_most=RATIO)],
        higher_is_better=False,
    )


def _connection() -> Table:
    """Return the table of a request's whole way through both headers, as in a broker."""
    client = ClientConnection("producer-1")
    frame = memoryview(b"".join(client.send(_produce_request(), 9)))[4:]
    server = ServerConnection({0: Versions(3, 13)})
    response = _produce_response()

    def serve() -> None:
        arrival = server.receive(frame)
        arrival.decode()
        server.answer(arrival, response)

    return Table(
        "Produce v9 1 x 1: from a frame to the frame of its answer",
        "us",
        [_case(GENERATED, serve, 10_000)],
        higher_is_better=False,
    )


def _case(name: str, work: Callable[[], Any], repeats: int) -> Case:
    def run() -> None:
        for _ in range(repeats):
            work()

    # Time of this process only: nothing here waits, and other processes are not to be measured.
    each = seconds(run, repeats, clock=process_time)
    return Case(name, lambda: each() * 1e6)


def _produce_request() -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=bytes(BATCH_BYTES))
    topic = TopicProduceData(name="some-topic", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def _produce_response() -> ProduceResponse:
    partition = PartitionProduceResponse(
        index=3, error_code=0, base_offset=1_234_567, log_start_offset=0
    )
    topic = TopicProduceResponse(name="some-topic", partition_responses=[partition])
    return ProduceResponse(responses=[topic], throttle_time_ms=0)


def _api_versions() -> ApiVersionsResponse:
    ranges = [(key, request_class(key).spec.versions) for key in API]
    return ApiVersionsResponse(
        error_code=0,
        api_keys=[
            ApiVersion(api_key=key, min_version=versions.first, max_version=versions.last)
            for key, versions in ranges
        ],
        finalized_features_epoch=17,
    )


def _metadata() -> MetadataResponse:
    partitions = [
        MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=index % 3,
            leader_epoch=5,
            replica_nodes=[0, 1, 2],
            isr_nodes=[0, 1, 2],
            offline_replicas=[],
        )
        for index in range(6)
    ]
    topics = [
        MetadataResponseTopic(
            error_code=0,
            name=f"topic-number-{number}",
            topic_id=bytes([number]) * 16,
            is_internal=False,
            partitions=partitions,
        )
        for number in range(10)
    ]
    brokers = [
        MetadataResponseBroker(node_id=node, host=f"broker-{node}.example.org", port=9092)
        for node in range(3)
    ]
    return MetadataResponse(
        brokers=brokers, cluster_id="R2d0VUxyQmSdQVZBSFNjYw", controller_id=1, topics=topics
    )


def _fetch_request(partitions: int) -> FetchRequest:
    wanted = [
        FetchPartition(
            partition=index,
            current_leader_epoch=5,
            fetch_offset=1_000_000 + index,
            partition_max_bytes=1 << 20,
        )
        for index in range(partitions)
    ]
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        session_id=1234,
        session_epoch=7,
        topics=[FetchTopic(topic="some-topic", partitions=wanted)],
    )


def _fetch_response(partitions: int) -> FetchResponse:
    data = [
        PartitionData(
            partition_index=index,
            error_code=0,
            high_watermark=2_000_000,
            last_stable_offset=2_000_000,
            log_start_offset=0,
            aborted_transactions=None,
            records=bytes(100),
        )
        for index in range(partitions)
    ]
    return FetchResponse(
        throttle_time_ms=0,
        session_id=1234,
        responses=[FetchableTopicResponse(topic="some-topic", partitions=data)],
    )
