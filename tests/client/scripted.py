"""A small cluster made of moldau.protocol alone: what tests of a client need, and nothing else.

State is one object that all brokers of a simulation share, so that a leader can be moved by setting
a number. Brokers keep the rules that a client can break: who leads, which epoch is current, the
five batches that an idempotent producer may have, one batch of a partition a request. Faults are
asked for: `lose_answers`, `cut_answers`, `babble_after`, `refuse`, `silence`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID
from moldau.protocol.api_versions import Welcome
from moldau.protocol.connection import Arrival, Problem, ServerConnection
from moldau.protocol.declare import Request, Response
from moldau.protocol.framing import FrameReader, shared_buffer
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from moldau.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from moldau.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.protocol.negotiation import supported_versions
from moldau.protocol.versions import Versions
from moldau.records import Batch, open_batch, stamp
from moldau.runtime import Runtime
from tests.client import scripted_groups

PORT = 9092
SERVED = (0, 1, 2, 3, 18, 21, 22, 23, *scripted_groups.SERVED)
NO_ANSWER = b"\0\0\0\4oops"
_REMEMBERED = 5


@dataclass
class Log:
    """One partition."""

    leader: int
    epoch: int = 0
    epochs_behind: int = 0
    """How many elections its leader has not heard of yet, though metadata tell of them."""
    batches: list[bytearray] = field(default_factory=list)
    start: int = 0
    end: int = 0
    max_message_bytes: int = 2**31 - 1
    too_large: int = 0
    """How many batches were refused for their size."""
    aborted: list[AbortedTransaction] = field(default_factory=list)
    open_since: int | None = None
    """Where a transaction begins that has not ended."""
    known_end: int | None = None
    """The high watermark of a leader just elected, that is behind what was acknowledged; None: it
    is the end."""
    # by producer id: its epoch, and (first sequence, last sequence, offset) of its last batches
    producers: dict[int, tuple[int, list[tuple[int, int, int]]]] = field(default_factory=dict)

    @property
    def high_watermark(self) -> int:
        return self.end if self.known_end is None else self.known_end

    @property
    def stable_end(self) -> int:
        """The last stable offset."""
        end = self.high_watermark
        return end if self.open_since is None else min(end, self.open_since)

    def append(self, data: bytes) -> tuple[int, int]:
        """(error code, base offset)."""
        batch = open_batch(bytearray(data))
        batch.check_crc()
        header = batch.header
        if header.size_bytes > self.max_message_bytes:
            self.too_large += 1
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        if header.producer_id >= 0:
            refused = self._check_producer(batch)
            if refused is not None:
                return refused
        offset = self.end
        self.put(batch.data)
        if header.producer_id >= 0:
            entry = self.producers[header.producer_id][1]
            entry.append((header.base_sequence, header.last_sequence, offset))
            del entry[:-_REMEMBERED]
        return 0, offset

    def put(self, data: Any) -> None:
        """Appends a batch as it is."""
        stored = bytearray(data)
        stamp(stored, self.end, self.epoch)
        self.batches.append(stored)
        self.end = open_batch(stored).header.next_offset

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to that one that has records, and where it ends; as in Kafka nothing
        of one that its leader has not reached."""
        found, end = -1, -1
        if epoch > self.epoch:
            return found, end
        for data in self.batches:
            header = open_batch(data).header
            if header.partition_leader_epoch <= epoch:
                found, end = header.partition_leader_epoch, header.next_offset
        return (epoch, self.end) if epoch == self.epoch else (found, end)

    def truncate(self, end: int) -> None:
        """Batches from that offset on are gone, as after an unclean election."""
        self.batches = [data for data in self.batches if open_batch(data).header.next_offset <= end]
        self.end = end

    def check_leader(self, node_id: int, asked_epoch: int) -> int:
        """The error code for who takes that broker for the leader of that epoch; -1: of any."""
        epoch = self.epoch - self.epochs_behind
        if asked_epoch >= 0 and asked_epoch != epoch:
            is_old = asked_epoch < epoch
            return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
        return 0 if self.leader == node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _check_producer(self, batch: Batch) -> tuple[int, int] | None:
        header = batch.header
        epoch, known = self.producers.get(header.producer_id, (-1, []))
        if header.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if header.producer_epoch > epoch:
            if header.base_sequence != 0 and epoch >= 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.producers[header.producer_id] = (header.producer_epoch, [])
            return None
        for first, last, offset in known:
            if (first, last) == (header.base_sequence, header.last_sequence):
                return 0, offset
        if known and header.base_sequence != (known[-1][1] + 1) & 0x7FFFFFFF:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return None

    def values(self) -> list[bytes | None]:
        """What all data batches hold, in order."""
        return [
            record.value
            for data in self.batches
            if not (batch := open_batch(data)).header.is_control
            for record in batch.records()
        ]


@dataclass
class ScriptedCluster:
    """What all brokers share, and what shall go wrong."""

    names: Mapping[int, str]
    topics: dict[str, list[Log]] = field(default_factory=dict)
    ids: dict[str, bytes] = field(default_factory=dict)
    served: dict[int, Versions] = field(default_factory=dict)
    requests: list[tuple[int, Request]] = field(default_factory=list)
    versions: list[tuple[int, int]] = field(default_factory=list)
    lose_answers: set[type[Request]] = field(default_factory=set)
    cut_answers: Counter[type[Request]] = field(default_factory=Counter)
    """How many answers of a kind come in a frame of their own, but without their last bytes."""
    babble_after: set[type[Request]] = field(default_factory=set)
    internal_topics: set[str] = field(default_factory=set)
    refused_topics: dict[str, int] = field(default_factory=dict)
    """Names that metadata are refused for, and with what."""
    silence: set[type[Request]] = field(default_factory=set)
    refuse: dict[type[Request], list[int]] = field(default_factory=lambda: defaultdict(list))
    delay_s: float = 0.0
    log_append_time_ms: int = -1
    """What produce answers say of it, as if topics went by that."""
    next_producer_id: int = 1000
    next_session: int = 0
    cluster_id: str = "scripted"
    on_request: Callable[[int, Request], None] | None = None
    wrong_epochs: list[tuple[type[Request], int]] = field(default_factory=list)
    """The requests that were refused for a leader's epoch, and with what."""

    def __post_init__(self) -> None:
        self.groups = scripted_groups.ScriptedGroups(self)
        self.sessions: dict[tuple[int, int], _Session] = {}
        supported = supported_versions("broker")
        self.served = self.served or {key: supported[key] for key in SERVED}

    def add_topic(self, name: str, leaders: list[int], *, has_id: bool = True) -> list[Log]:
        """A topic with a partition for each of these leaders."""
        self.topics[name] = [Log(leader) for leader in leaders]
        number = len(self.ids) + 1
        self.ids[name] = number.to_bytes(16, "big") if has_id else ZERO_UUID
        return self.topics[name]

    def move(self, name: str, partition: int, leader: int) -> None:
        """Another broker leads the partition."""
        log = self.topics[name][partition]
        log.leader = leader
        log.epoch += 1

    def note_epoch(self, request: Request, error: int) -> None:
        """A partition of a request was answered with that."""
        if error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH):
            self.wrong_epochs.append((type(request), error))

    def main(self, node_id: int) -> Any:
        """What a simulated machine runs to be that broker."""

        async def serve(runtime: Runtime) -> None:
            async with await runtime.network.listen(lambda: _Connection(self, node_id), None, PORT):
                await asyncio.Event().wait()

        return serve

    def find(self, name: str, topic_id: bytes) -> str:
        """The topic's name, by it or by its id."""
        if name:
            return name
        return next((each for each, known in self.ids.items() if known == topic_id), "")


class _Connection(asyncio.BufferedProtocol):
    def __init__(self, cluster: ScriptedCluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._frames = FrameReader(shared_buffer())
        self._protocol = ServerConnection(cluster.served)
        self._transport: Any = None
        self._queue: list[Arrival] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        for frame in self._frames.received(nbytes):
            arrival = self._protocol.receive(memoryview(bytes(frame)))
            loop = asyncio.get_running_loop()
            if self._cluster.delay_s:
                loop.call_later(self._cluster.delay_s, self._serve, arrival)
            else:
                self._serve(arrival)

    def _serve(self, arrival: Arrival) -> None:
        cluster = self._cluster
        cluster.versions.append((arrival.key, arrival.version))
        if arrival.problem is Problem.UNSUPPORTED_VERSION and arrival.key == 18:
            self._write(self._protocol.answer_unsupported_api_versions(arrival))
            return
        if arrival.problem is not None:
            self._transport.abort()
            return
        request = arrival.decode()
        cluster.requests.append((self._node_id, request))
        if cluster.on_request is not None:
            cluster.on_request(self._node_id, request)
        if type(request) in cluster.silence:
            return
        self._answer(arrival, request)

    def _answer(self, arrival: Arrival, request: Request) -> None:
        cluster = self._cluster
        if scripted_groups.is_handled(request):
            cluster.groups.handle(
                self._node_id, request, lambda response: self._reply(arrival, request, response)
            )
            return
        refused = cluster.refuse[type(request)]
        code = refused.pop(0) if refused else 0
        response = _ANSWERS[type(request)](cluster, self._node_id, request, code)
        if isinstance(response, float):  # a fetch that waits
            loop = asyncio.get_running_loop()
            loop.call_later(response, self._answer_fetch, arrival, request)
        elif isinstance(request, ProduceRequest) and not request.acks:
            assert isinstance(response, ProduceResponse)
            self._write(self._protocol.answer_nothing(arrival))
            if any(
                each.error_code
                for topic in response.responses
                for each in topic.partition_responses
            ):
                self._transport.close()  # as brokers do, for they have no other way to tell
        else:
            self._reply(arrival, request, response)

    def _reply(self, arrival: Arrival, request: Request, response: Response) -> None:
        if self._transport.is_closing():
            return
        if type(request) in self._cluster.lose_answers:
            self._cluster.lose_answers.discard(type(request))
            self._transport.abort()
            return
        parts = self._protocol.answer(arrival, response)
        if self._cluster.cut_answers[type(request)] > 0:
            self._cluster.cut_answers[type(request)] -= 1
            parts = [_cut(parts)]
        if type(request) in self._cluster.babble_after:
            self._cluster.babble_after.discard(type(request))
            parts = [*parts, NO_ANSWER]
        self._write(parts)

    def _answer_fetch(self, arrival: Arrival, request: Any) -> None:
        response = _fetch_now(self._cluster, self._node_id, request, 0)
        self._write(self._protocol.answer(arrival, response))

    def _write(self, parts: list[Any]) -> None:
        if parts:
            self._transport.writelines(parts)


def _cut(parts: list[Any]) -> bytes:
    frame = b"".join(map(bytes, parts))[4:-3]
    return len(frame).to_bytes(4, "big") + frame


def _api_versions(
    cluster: ScriptedCluster, node_id: int, request: ApiVersionsRequest, code: int
) -> Response:
    meant, here = (request.cluster_id, request.node_id), (cluster.cluster_id, node_id)
    if request.cluster_id is not None and meant != here:
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=[])
    # Before version 3 a client does not say what software it is.
    version = 3 if request.client_software_name else 0
    return Welcome(cluster.served).answer(request, version)


def _metadata(
    cluster: ScriptedCluster, node_id: int, request: MetadataRequest, code: int
) -> Response:
    wanted = [each.name or "" for each in request.topics or ()]
    if request.topics is None:
        wanted = list(cluster.topics)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=each, host=name, port=PORT)
            for each, name in cluster.names.items()
        ],
        cluster_id=cluster.cluster_id,
        controller_id=min(cluster.names),
        topics=[_topic(cluster, name) for name in wanted],
        error_code=code,
    )


def _topic(cluster: ScriptedCluster, name: str) -> MetadataResponseTopic:
    logs = cluster.topics.get(name)
    if logs is None:
        code = cluster.refused_topics.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return MetadataResponseTopic(error_code=code, name=name, partitions=[])
    partitions = [
        MetadataResponsePartition(
            error_code=0 if log.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=log.leader,
            leader_epoch=log.epoch,
            replica_nodes=list(cluster.names),
            isr_nodes=list(cluster.names),
        )
        for index, log in enumerate(logs)
    ]
    return MetadataResponseTopic(
        error_code=0,
        name=name,
        topic_id=cluster.ids[name],
        is_internal=name in cluster.internal_topics,
        partitions=partitions,
    )


def _init_producer(
    cluster: ScriptedCluster, node_id: int, request: InitProducerIdRequest, code: int
) -> Response:
    cluster.next_producer_id += 1
    return InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=code,
        producer_id=cluster.next_producer_id,
        producer_epoch=0,
    )


def _produce(
    cluster: ScriptedCluster, node_id: int, request: ProduceRequest, code: int
) -> Response | None:
    answers = []
    for topic in request.topic_data:
        name = cluster.find(topic.name, topic.topic_id)
        logs = cluster.topics.get(name, [])
        partitions = []
        for data in topic.partition_data:
            offset = -1
            error = code
            if not error and data.index >= len(logs):
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not error and logs[data.index].leader != node_id:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if not error:
                error, offset = logs[data.index].append(bytes(data.records or b""))
            partitions.append(
                PartitionProduceResponse(
                    index=data.index,
                    error_code=error,
                    base_offset=offset,
                    log_append_time_ms=cluster.log_append_time_ms,
                )
            )
        answers.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
            )
        )
    return ProduceResponse(responses=answers)


@dataclass
class _Session:
    """A fetch session: what was asked for, and what was said of it last."""

    epoch: int
    wanted: dict[tuple[str, int], Any] = field(default_factory=dict)


def _fetch(
    cluster: ScriptedCluster, node_id: int, request: FetchRequest, code: int
) -> Response | float:
    response = _fetch_now(cluster, node_id, request, code)
    has_news = (
        code
        or response.error_code
        or any(
            each.error_code or each.records
            for topic in response.responses
            for each in topic.partitions
        )
    )
    return response if has_news or not request.max_wait_ms else request.max_wait_ms / 1000


def _session(
    cluster: ScriptedCluster, node_id: int, request: FetchRequest
) -> tuple[int, _Session, bool] | None:
    """The session's id, the session with the request's news in it, and whether it is new."""
    if request.session_epoch <= 0:
        session_id = 0
        if request.session_epoch == 0:
            cluster.sessions.pop((node_id, request.session_id), None)
            session_id = cluster.next_session = cluster.next_session + 1
        session = _Session(0)
        cluster.sessions[node_id, session_id] = session
    else:
        session_id = request.session_id
        found = cluster.sessions.get((node_id, session_id))
        # A fetch that waits is looked at twice.
        if found is None or request.session_epoch not in (found.epoch, found.epoch + 1):
            return None
        session = found
        session.epoch = request.session_epoch
    for gone in request.forgotten_topics_data:
        for index in gone.partitions:
            session.wanted.pop((cluster.find(gone.topic, gone.topic_id), index), None)
    for topic in request.topics:
        name = cluster.find(topic.topic, topic.topic_id)
        for wanted in topic.partitions:
            session.wanted[name, wanted.partition] = wanted
    return session_id, session, request.session_epoch <= 0


def _fetch_now(
    cluster: ScriptedCluster, node_id: int, request: FetchRequest, code: int
) -> FetchResponse:
    found = _session(cluster, node_id, request)
    if found is None:
        lost = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return FetchResponse(throttle_time_ms=0, error_code=lost, responses=[])
    session_id, session, is_full = found
    by_topic: dict[str, list[PartitionData]] = {}
    room, is_first = request.max_bytes, True
    for (name, index), wanted in list(session.wanted.items()):
        logs = cluster.topics.get(name, [])
        log = logs[index] if index < len(logs) else None
        error = code or _fetch_error(log, node_id, wanted)
        cluster.note_epoch(request, error)
        most = min(wanted.partition_max_bytes, max(0, room))
        data = _partition_data(log, wanted, error, request.isolation_level, (most, is_first))
        if data.records:
            # As Kafka does: the next fetch of the session begins with others.
            room, is_first = room - len(data.records), False
            session.wanted[name, index] = session.wanted.pop((name, index))
        is_marked = log is not None and log.known_end is not None
        if is_full or data.error_code or data.records or is_marked:
            by_topic.setdefault(name, []).append(data)
    answers = [
        FetchableTopicResponse(
            topic=name, topic_id=cluster.ids.get(name, ZERO_UUID), partitions=partitions
        )
        for name, partitions in by_topic.items()
    ]
    return FetchResponse(throttle_time_ms=0, session_id=session_id, responses=answers)


def _epoch_ends(
    cluster: ScriptedCluster, node_id: int, request: OffsetForLeaderEpochRequest, code: int
) -> Response:
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            log = cluster.topics[topic.topic][wanted.partition]
            error = code or log.check_leader(node_id, wanted.current_leader_epoch)
            cluster.note_epoch(request, error)
            epoch, end = log.end_of(wanted.leader_epoch)
            partitions.append(
                EpochEndOffset(
                    error_code=error,
                    partition=wanted.partition,
                    leader_epoch=epoch,
                    end_offset=end,
                )
            )
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=topics)


def _fetch_error(log: Log | None, node_id: int, wanted: Any) -> int:
    if log is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    error = log.check_leader(node_id, wanted.current_leader_epoch)
    if not error and not log.start <= wanted.fetch_offset <= log.end:
        error = ErrorCode.OFFSET_OUT_OF_RANGE
    return error


def _partition_data(
    log: Log | None, wanted: Any, error: int, isolation: int, limit: tuple[int, bool]
) -> PartitionData:
    """`limit`: how many bytes, and whether one batch is given all the same if it is larger."""
    records = b""
    most, at_least_one = limit
    if log is not None and not error:
        for batch in log.batches:
            header = open_batch(batch).header
            if header.next_offset <= wanted.fetch_offset:
                continue
            if len(records) + len(batch) > most and (records or not at_least_one):
                break
            if header.next_offset > log.high_watermark:
                break
            records += bytes(batch)
    end = -1 if log is None or error else log.high_watermark
    stable = end if log is None or error else log.stable_end
    return PartitionData(
        partition_index=wanted.partition,
        error_code=error,
        high_watermark=end,
        last_stable_offset=stable,
        log_start_offset=-1 if log is None else log.start,
        aborted_transactions=list(log.aborted) if log is not None and isolation else None,
        records=records,
    )


def _list_offsets(
    cluster: ScriptedCluster, node_id: int, request: ListOffsetsRequest, code: int
) -> Response:
    answers = []
    for topic in request.topics:
        logs = cluster.topics.get(topic.name, [])
        partitions = []
        for wanted in topic.partitions:
            log = logs[wanted.partition_index]
            error = code or log.check_leader(node_id, wanted.current_leader_epoch)
            cluster.note_epoch(request, error)
            end = log.stable_end if request.isolation_level else log.end
            offset = {-1: end, -2: log.start}.get(wanted.timestamp)
            if offset is None:
                offset = _by_time(log, wanted.timestamp)
            if log.known_end is not None and not 0 <= offset < log.known_end:
                error = error or ErrorCode.OFFSET_NOT_AVAILABLE
            partitions.append(
                ListOffsetsPartitionResponse(
                    partition_index=wanted.partition_index,
                    error_code=error,
                    offset=-1 if error else offset,
                )
            )
        answers.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=answers)


def _by_time(log: Log, timestamp: int) -> int:
    for data in log.batches:
        for record in open_batch(data).records():
            if record.timestamp >= timestamp:
                return record.offset
    return -1


def _delete_records(
    cluster: ScriptedCluster, node_id: int, request: DeleteRecordsRequest, code: int
) -> Response:
    answers = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            log = cluster.topics[topic.name][wanted.partition_index]
            error = code or (0 if log.leader == node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if not error:
                log.start = log.end if wanted.offset < 0 else wanted.offset
            partitions.append(
                DeleteRecordsPartitionResult(
                    partition_index=wanted.partition_index,
                    low_watermark=-1 if error else log.start,
                    error_code=error,
                )
            )
        answers.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    return DeleteRecordsResponse(throttle_time_ms=0, topics=answers)


_ANSWERS: dict[type[Request], Callable[..., Any]] = {
    ApiVersionsRequest: _api_versions,
    MetadataRequest: _metadata,
    InitProducerIdRequest: _init_producer,
    ProduceRequest: _produce,
    FetchRequest: _fetch,
    ListOffsetsRequest: _list_offsets,
    OffsetForLeaderEpochRequest: _epoch_ends,
    DeleteRecordsRequest: _delete_records,
}
