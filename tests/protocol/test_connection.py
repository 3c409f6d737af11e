"""Headers, correlation and order, at both ends; the ends are also put together."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.errors import MalformedMessage
from moldau.errors.codes import ErrorCode
from moldau.protocol.connection import (
    Arrival,
    ClientConnection,
    InFlight,
    Problem,
    ServerConnection,
)
from moldau.protocol.declare import Request, Response
from moldau.protocol.headers import request_header_version, response_header_version
from moldau.protocol.limits import DECODE_BUDGET
from moldau.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.protocol.schemas.headers import RequestHeader, ResponseHeader
from moldau.protocol.versions import Versions
from tests.records.memory import rest_stays_below

SERVED = {0: Versions(3, 13), 12: Versions(0, 4), 18: Versions(0, 4)}


def heartbeat(generation: int = 3) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=generation, member_id="m")


def body_of(buffers: list[Any]) -> bytes:
    """The one frame in the buffers, without its size."""
    data = b"".join(buffers)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return data[4:]


def frames_of(buffers: list[Any]) -> list[bytes]:
    data, frames = b"".join(buffers), []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        frames.append(data[4:end])
        data = data[end:]
    return frames


def arrive(
    server: ServerConnection, request: Request, version: int, client: ClientConnection
) -> Arrival:
    return server.receive(memoryview(body_of(client.send(request, version))))


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [(12, 3, 1, 0), (12, 4, 2, 1), (18, 2, 1, 0), (18, 3, 2, 0), (18, 99, 2, 0), (17, 1, 1, 0)],
)
def test_header_versions(key: int, version: int, request_header: int, response_header: int) -> None:
    assert request_header_version(key, version) == request_header
    assert response_header_version(key, version) == response_header


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("client_id", ["console", "", None])
def test_a_request_and_its_answer_go_there_and_back(version: int, client_id: str | None) -> None:
    client, server = ClientConnection(client_id), ServerConnection(SERVED)
    for number in range(3):
        arrival = arrive(server, heartbeat(number), version, client)
        assert arrival.problem is None
        assert (arrival.key, arrival.version) == (12, version)
        assert arrival.correlation_id == number
        assert arrival.client_id == client_id
        assert arrival.decode() == heartbeat(number)
        answer = client.receive(
            body_of(server.answer(arrival, HeartbeatResponse(error_code=number)))
        )
        assert answer.response == HeartbeatResponse(error_code=number)
        assert answer.request == InFlight(number, 12, version, None)
    assert server.waiting == 0
    assert not client.in_flight


def test_headers_of_both_kinds_may_alternate_on_one_connection() -> None:
    """What is remembered of one kind must not be taken for the start of the other's body."""
    client, server = ClientConnection("console"), ServerConnection(SERVED)
    for version in (4, 3, 3, 4, 4, 3):
        arrival = arrive(server, heartbeat(version), version, client)
        assert arrival.client_id == "console"
        assert arrival.decode() == heartbeat(version)


@pytest.mark.parametrize("version", [3, 4])
def test_headers_are_those_of_the_schema(version: int) -> None:
    request = body_of(ClientConnection("c").send(heartbeat(), version))
    header, position = RequestHeader.decode_from(request, 0, 1 if version == 3 else 2)
    assert header == RequestHeader(
        request_api_key=12, request_api_version=version, correlation_id=0, client_id="c"
    )
    assert HeartbeatRequest.decode(request[position:], version) == heartbeat()
    server = ServerConnection(SERVED)
    answer = body_of(server.answer(server.receive(request), HeartbeatResponse(error_code=7)))
    _, position = ResponseHeader.decode_from(answer, 0, 0 if version == 3 else 1)
    assert HeartbeatResponse.decode(answer[position:], version).error_code == 7


def test_unknown_tags_of_a_header_are_skipped() -> None:
    body = heartbeat().encode(4)
    header = b"\0\x0c\0\4\0\0\0\x09\0\1c"
    server = ServerConnection(SERVED)
    for tags in (b"\0", b"\1\7\2ab", b"\0"):
        arrival = server.receive(header + tags + body)
        assert arrival.client_id == "c"
        assert arrival.decode() == heartbeat()


def test_a_client_that_changes_its_id_is_believed() -> None:
    server = ServerConnection(SERVED)
    for client_id in ("a", "a", "b", None, "a" * 1000, "a" * 1000, "ab"):
        arrival = arrive(server, heartbeat(), 4, ClientConnection(client_id))
        assert arrival.client_id == client_id
        assert arrival.decode() == heartbeat()


def test_the_last_two_kinds_of_headers_are_known_and_not_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Members of groups send heartbeats and commits in turn over one connection."""
    client, server = ClientConnection("member"), ServerConnection(SERVED)
    arrive(server, heartbeat(), 3, client)
    arrive(server, heartbeat(), 4, client)
    arrive(server, ApiVersionsRequest(), 3, client)
    decode_from = RequestHeader.decode_from
    decoded = []

    def decode(data: Any, position: int, version: int) -> Any:
        decoded.append(version)
        return decode_from(data, position, version)

    monkeypatch.setattr(RequestHeader, "decode_from", decode)
    for generation in range(3):
        beat = arrive(server, heartbeat(generation), 4, client)
        assert beat.decode() == heartbeat(generation)
        arrived = [arrive(server, ApiVersionsRequest(), 3, client) for _ in range(2)]
        assert {(each.key, each.version, each.client_id) for each in arrived} == {(18, 3, "member")}
    assert not decoded

    assert arrive(server, heartbeat(), 3, client).version == 3
    with pytest.raises(MalformedMessage):
        server.receive(memoryview(b"short"))
    assert arrive(server, heartbeat(), 4, client).decode() == heartbeat()
    assert decoded


def test_connections_share_the_headers_that_they_know() -> None:
    """Ten thousand idle members of groups shall not each keep two of their own."""
    client = ClientConnection("a client of a fleet, which has a long name: " + "x" * 100)
    beat = memoryview(body_of(client.send(heartbeat(), 4)))
    asked = memoryview(body_of(client.send(ApiVersionsRequest(), 3)))
    servers = [ServerConnection(SERVED) for _ in range(200)]

    def learn() -> None:
        for server in servers:
            for frame in (beat, asked):
                server.answer_nothing(server.receive(frame))

    rest_stays_below(100 * len(servers), learn)


def test_a_long_header_is_not_kept() -> None:
    """Nobody shall fill our memory with client ids and tags."""
    count = 50
    servers = [ServerConnection(SERVED) for _ in range(count)]
    header = b"\0\x0c\0\4\0\0\0\1" + (30_000).to_bytes(2, "big") + b"c" * 30_000 + b"\0"
    frame = header + heartbeat().encode(4)
    arrive(servers[0], heartbeat(), 4, ClientConnection("c"))

    def learn() -> None:
        for server in servers:
            assert len(server.receive(frame).client_id or "") == 30_000
            server.answer_nothing(server.unanswered[0])

    rest_stays_below(count * 2000, learn)


def test_answers_leave_in_the_order_of_the_requests() -> None:
    client, server = ClientConnection("c"), ServerConnection(SERVED)
    arrivals = [arrive(server, heartbeat(number), 4, client) for number in range(4)]
    answers = [HeartbeatResponse(error_code=number) for number in range(4)]
    assert server.answer(arrivals[2], answers[2]) == []
    assert server.answer_nothing(arrivals[1]) == []
    first = frames_of(server.answer(arrivals[0], answers[0]))
    assert len(first) == 2
    assert client.receive(first[0]).response == answers[0]
    assert server.waiting == 1
    last = frames_of(server.answer(arrivals[3], answers[3]))
    assert [int.from_bytes(frame[:4], "big") for frame in (*first, *last)] == [0, 2, 3]
    assert server.waiting == 0


def test_answering_twice_is_our_bug() -> None:
    server = ServerConnection(SERVED)
    arrival = arrive(server, heartbeat(), 4, ClientConnection("c"))
    server.answer_nothing(arrival)
    with pytest.raises(AssertionError, match="answered twice"):
        server.answer_nothing(arrival)


def test_an_unknown_api_is_told_not_raised() -> None:
    server = ServerConnection(SERVED)
    for key in (4, 19, 9999, -1):
        arrival = server.receive(
            key.to_bytes(2, "big", signed=True) + b"\0\0" + b"\0\0\0\5" + b"\xff\xff"
        )
        assert arrival.problem is Problem.UNKNOWN_API
        assert arrival.correlation_id == 5
        assert "unknown API" in repr(arrival)


@pytest.mark.parametrize("version", [-1, 5, 32767])
def test_an_unsupported_version_is_told_not_raised(version: int) -> None:
    header = b"\0\x0c" + version.to_bytes(2, "big", signed=True) + b"\0\0\0\1\0\1c\0"
    arrival = ServerConnection(SERVED).receive(header)
    assert arrival.problem is Problem.UNSUPPORTED_VERSION
    assert arrival.client_id == "c"


def test_a_newer_client_learns_which_versions_to_ask_for() -> None:
    server = ServerConnection(SERVED)
    arrival = server.receive(b"\0\x12\0\x63\0\0\0\x07\0\1c\0" + b"whatever\xff")
    assert arrival.problem is Problem.UNSUPPORTED_VERSION
    answer = body_of(server.answer_unsupported_api_versions(arrival))
    assert answer[:4] == b"\0\0\0\7"
    response = ApiVersionsResponse.decode(answer[4:], 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert response.api_keys == [ApiVersion(api_key=18, min_version=0, max_version=4)]


def test_a_client_understands_the_fallback() -> None:
    client, server = ClientConnection("c"), ServerConnection({**SERVED, 18: Versions(0, 2)})
    request = ApiVersionsRequest(client_software_name="moldau", client_software_version="1")
    arrival = arrive(server, request, 4, client)
    answer = client.receive(body_of(server.answer_unsupported_api_versions(arrival)))
    assert isinstance(answer.response, ApiVersionsResponse)
    assert answer.response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.response.api_keys[0].max_version == 2


@pytest.mark.parametrize("version", range(5))
def test_the_answer_to_api_versions_has_no_tags_in_its_header(version: int) -> None:
    client, server = ClientConnection("c"), ServerConnection(SERVED)
    arrival = arrive(server, ApiVersionsRequest(), version, client)
    response = ApiVersionsResponse(
        error_code=0,
        api_keys=[ApiVersion(api_key=1, min_version=4, max_version=18)],
        supported_features=[SupportedFeatureKey(name="f", min_version=1, max_version=2)],
    )
    frame = body_of(server.answer(arrival, response))
    assert frame == b"\0\0\0\0" + response.encode(version)
    assert client.receive(frame).response == ApiVersionsResponse.decode(frame[4:], version)


@pytest.mark.parametrize("size", range(8))
def test_frames_too_short_for_a_header(size: int) -> None:
    with pytest.raises(MalformedMessage, match="too short for a request header"):
        ServerConnection(SERVED).receive(bytes(size))


@pytest.mark.parametrize("end", [b"", b"\0", b"\0\5abc", b"\xff\xfe", b"\0\1\xff", b"\0\0\1\1"])
def test_headers_that_cannot_be_read(end: bytes) -> None:
    with pytest.raises(MalformedMessage) as raised:
        ServerConnection(SERVED).receive(b"\0\x0c\0\4\0\0\0\1" + end)
    assert raised.value.context["message"] == "RequestHeader"


def test_bytes_behind_a_request_are_let_be() -> None:
    """As librdkafka 2.16 asks for all topics: an array's length in four bytes instead of one."""
    body = b"\0\3\0\x0d\0\0\0\3\0\1c\0" + b"\0\0\0\0" + b"\1\0\0"
    arrival = ServerConnection({3: Versions(0, 13)}).receive(memoryview(body))

    expected = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    assert arrival.decode() == expected


def test_answers_that_do_not_fit_their_request() -> None:
    client = ClientConnection("c")
    with pytest.raises(MalformedMessage, match="too short for a response header"):
        client.receive(b"\0\0\0")
    with pytest.raises(MalformedMessage, match="answer to no request"):
        client.receive(b"\0\0\0\0\0\0")
    client.send(heartbeat(), 0)
    client.send(heartbeat(), 0)
    with pytest.raises(MalformedMessage, match="another request than the oldest") as raised:
        client.receive(b"\0\0\0\1\0\0")
    assert raised.value.context == {"correlation_id": 1, "expected": 0}


def test_a_request_whose_answer_cannot_be_decoded_is_still_in_flight() -> None:
    """Whoever waits for it has to hear that the connection ends, as all others do."""
    client = ClientConnection("c")
    client.send(heartbeat(), 0, tag="first")
    client.send(heartbeat(), 0, tag="second")
    with pytest.raises(MalformedMessage, match="ends too early"):
        client.receive(b"\0\0\0\0\0")
    assert [request.tag for request in client.lose()] == ["first", "second"]


def test_an_answer_may_be_larger_than_what_a_stranger_may_send() -> None:
    client, server = ClientConnection("c"), ServerConnection({3: Versions(0, 13)})
    arrival = arrive(server, MetadataRequest(topics=None), 12, client)
    frame = body_of(server.answer(arrival, metadata_of(topics=10_000, partitions=10)))
    with pytest.raises(MalformedMessage, match="more memory than the budget"):
        client.receive(frame, DECODE_BUDGET)
    response = client.receive(frame).response
    assert isinstance(response, MetadataResponse)
    assert sum(len(each.partitions) for each in response.topics) == 100_000


def test_an_answer_is_bounded_too() -> None:
    client = ClientConnection("c")
    client.send(ListGroupsRequest(), 5)
    with pytest.raises(MalformedMessage, match="more memory than the budget"):
        client.receive(nameless_groups(6_000_000))


def metadata_of(topics: int, partitions: int) -> MetadataResponse:
    return MetadataResponse(
        brokers=[],
        topics=[
            MetadataResponseTopic(
                error_code=0,
                name=f"topic-{topic}",
                partitions=[
                    MetadataResponsePartition(
                        error_code=0,
                        partition_index=index,
                        leader_id=1,
                        replica_nodes=[1, 2, 3],
                        isr_nodes=[1, 2, 3],
                    )
                    for index in range(partitions)
                ],
            )
            for topic in range(topics)
        ],
    )


def nameless_groups(count: int) -> bytes:
    """What costs most for its length: an answer that lists so many, each as short as can be."""
    header, throttle_time, error_code = bytes(5), bytes(4), bytes(2)
    size = bytes((count + 1 >> shift & 127) | 128 for shift in (0, 7, 14)) + bytes((count >> 21,))
    return header + throttle_time + error_code + size + b"\1\1\1\1\0" * count + b"\0"


def test_numbers_start_again_after_the_last_one() -> None:
    client = ClientConnection("c")
    client._next_correlation_id = 2**31 - 1
    client.send(heartbeat(), 0)
    client.send(heartbeat(), 0)
    assert [request.correlation_id for request in client.in_flight] == [2**31 - 1, 0]
    assert client.receive(b"\x7f\xff\xff\xff\0\0").response == HeartbeatResponse(error_code=0)


def test_what_was_in_flight_when_the_connection_broke() -> None:
    client = ClientConnection("c")
    client.send(heartbeat(), 0, tag="first")
    client.send(heartbeat(), 0, tag="second")
    assert [request.tag for request in client.lose()] == ["first", "second"]
    assert client.lose() == []


def test_a_produce_without_acks_waits_for_nothing() -> None:
    client, server = ClientConnection("c"), ServerConnection(SERVED)
    records = memoryview(b"records")
    request = ProduceRequest(
        acks=0,
        timeout_ms=1,
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=0, records=records)]
            )
        ],
    )
    buffers = client.send(request, 9, expects_answer=False)
    assert any(buffer is records for buffer in buffers)
    assert not client.in_flight
    arrival = server.receive(memoryview(body_of(buffers)))
    decoded = arrival.decode()
    assert isinstance(decoded, ProduceRequest)
    assert decoded == request
    assert server.answer_nothing(arrival) == []


def test_an_answer_whose_views_are_sent_by_other_means() -> None:
    class Slice:
        def __len__(self) -> int:
            return 10

    from moldau.protocol.messages.fetch import (
        FetchableTopicResponse,
        FetchRequest,
        FetchResponse,
        PartitionData,
    )

    server = ServerConnection({1: Versions(4, 18)})
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[])
    arrival = arrive(server, request, 12, ClientConnection("c"))
    slice_ = Slice()
    partition = PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=5,
        aborted_transactions=None,
        records=slice_,
    )
    response: Response = FetchResponse(
        throttle_time_ms=0,
        responses=[FetchableTopicResponse(topic="t", partitions=[partition])],
    )
    buffers = server.answer(arrival, response)
    assert buffers[1] is slice_
    assert int.from_bytes(buffers[0][:4], "big") == sum(map(len, buffers)) - 4


def test_a_produce_answer_takes_the_version_of_its_request() -> None:
    client, server = ClientConnection("c"), ServerConnection(SERVED)
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[])
    arrival = arrive(server, request, 9, client)
    frame = body_of(server.answer(arrival, ProduceResponse(responses=[], throttle_time_ms=9)))
    assert client.receive(frame).response == ProduceResponse(responses=[], throttle_time_ms=9)
