"""Fetch: answers at once if enough can be read, otherwise when more is available or the time is up.

Invariants:
* Records are slices of files, and no code here looks at a byte of them. Those of a small response
  are read when it is answered, because one piece costs less to send than a slice between two.
* A response has at most `max_bytes` of records (the smaller of the request's and the broker's
  limit), and of each partition at most the partition's own limit. But the first partition that has
  records returns one whole batch of any size, so that every client makes progress.
* A fetch waits until `min_bytes` can be read, at most `max_wait_ms`. An error, a diverging epoch,
  or the rest of a segment that is not the active one ends the wait at once. An unknown topic alone
  does not, because its client would send the request again and again (as in Kafka).
* The records of a response are read when it is answered. All offsets of a partition in it were true
  at the same moment.
* A consumer that may be served by a follower (KIP-392, version 11) never reads beyond the high
  watermark that the follower knows.
* Records that come later (`LaterSlice`) count as none until they have come; then the fetch is
  answered at once. So a partition with slow records delays no other partition of the request. A
  fetch with nothing else waits for them `remote.fetch.max.wait.ms`, as in Kafka, whatever it asks.

While a fetch waits, a partition is read again only after its bound has moved. A fetch in the
session of a follower checks only partitions that may have news (`follower_view`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.delayed_answer import DelayedAnswer
from moldau.broker.api.fetch_reader import NO_EPOCH, FetchReader
from moldau.broker.api.fetch_session import Key, RequestedFetch, Row
from moldau.broker.api.node import Node
from moldau.broker.api.refusal import (
    UNKNOWN_TOPICS,
    Lead,
    lead_of,
)
from moldau.broker.api.refused import refused_response
from moldau.broker.api.request import ApiRequest
from moldau.broker.api.rights.fetch import GuardedReader
from moldau.broker.log.slice import LogSlice
from moldau.broker.replication.later_slice import LaterSlice
from moldau.broker.replication.partition import READ_COMMITTED
from moldau.broker.replication.traffic import REQUEST_BYTES
from moldau.broker.settings.tiered import remote_fetch_max_wait_ms
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.constructor import maker_of
from moldau.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from moldau.protocol.wire import JOINED_BYTES_MAX
from moldau.records import HEADER_BYTES

if TYPE_CHECKING:
    from moldau.broker.api.fetch_session_cache import FetchContext
    from moldau.broker.api.follower_view import FollowerView, Watch
    from moldau.broker.replication.partition import Partition
    from moldau.protocol.declare import Response

NO_OFFSET: Final = -1
_REFUSES_WHOLE_SINCE: Final = 7
_LEADERS_SINCE: Final = 16
_NS_PER_MS: Final = 1_000_000

_new_data = maker_of(
    PartitionData,
    *("partition_index", "error_code", "high_watermark", "last_stable_offset"),
    *("log_start_offset", "aborted_transactions", "records"),
)
_new_topic = maker_of(FetchableTopicResponse, "topic", "topic_id", "partitions")
_new_response = maker_of(FetchResponse, "session_id", "responses")


def serve(node: Node, request: ApiRequest) -> None:
    """Handle a Fetch request; see the module."""
    message: FetchRequest = request.decode()  # type: ignore[assignment] # by its key
    version = request.arrival.version
    if node.authorizer.allows_all:
        reader = FetchReader(node, message, version)
    else:
        reader = GuardedReader(node, message, request)
    if reader.is_follower:
        node.quotas.exempt()
    elif node.quotas.is_limiting:
        bytes_max = node.quotas.fetch_bytes_max(request)
        if bytes_max is not None:
            reader.max_bytes = min(reader.max_bytes, bytes_max)
            reader.min_bytes = min(reader.min_bytes, reader.max_bytes)
    now_ms = node.runtime.clock.monotonic_ns() // _NS_PER_MS
    try:
        context = node.fetch_sessions.begin(
            message, version, now_ms, is_follower=reader.is_follower
        )
    except KafkaError as error:
        request.answer(_session_refusal(error))
        return
    fetch = Fetch(request, reader, context)
    max_wait_ms = message.max_wait_ms
    if reader.is_follower:
        fetch.view_session()
        if context.begins_session:
            max_wait_ms = 0  # while it waits, each change of a partition would check all of them
    if not fetch.answer_at_once(max_wait_ms):
        wait_ms = fetch.later_wait_ms() if fetch.has_later else message.max_wait_ms
        fetch.wait(node.replicas.purgatory, fetch.keys, wait_ms)
    if reader.is_follower:
        fetch.note_follower(now_ms)


class _Watched:
    """A partition of a waiting fetch. It keeps the bound, the high watermark, the log start and the
    readable size of the last read."""

    __slots__ = ("bound", "high_watermark", "log_start_offset", "partition", "size", "wanted")

    def __init__(self, wanted: RequestedFetch, partition: Partition, bound: int, size: int) -> None:
        self.wanted = wanted
        self.partition = partition
        self.bound = bound
        self.size = size
        log = partition.offsets
        self.high_watermark = log.high_watermark
        self.log_start_offset = log.log_start_offset

    @classmethod
    def settled(cls, wanted: RequestedFetch, partition: Partition) -> _Watched:
        """Return a partition that had no news until now, with the marks of its last response."""
        found = cls(wanted, partition, wanted.asked.fetch_offset, 0)
        found.high_watermark = wanted.high_watermark
        found.log_start_offset = wanted.log_start_offset
        return found

    def has_marks_for_follower(self, is_rack_aware: bool) -> bool:
        """Whether the follower needs a row of the partition although there are no records for it.
        It needs a later log start, for which DeleteRecords waits, and, where consumers read from
        followers, a changed high watermark."""
        partition = self.partition
        return self.log_start_offset != partition.log_start_offset or (
            is_rack_aware and self.high_watermark != partition.high_watermark
        )


class Fetch(DelayedAnswer):
    """One fetch request, until it is answered."""

    __slots__ = (
        *("_context", "_held", "_is_urgent", "_items", "_later", "_reader", "_size", "_view"),
        *("_waiting", "_watched"),
    )

    def __init__(self, request: ApiRequest, reader: FetchReader, context: FetchContext) -> None:
        super().__init__(request)
        self._reader = reader
        self._context = context
        self._view: FollowerView | None = None
        self._items: list[tuple[Key, RequestedFetch]] | None = None
        self._is_urgent = False
        self._later: dict[RequestedFetch, LaterSlice] = {}
        """The partitions whose records come later."""
        self._size = 0
        self._watched: list[_Watched] = []
        self._held: list[_Watched] = []
        """With a view: the partitions that exceeded the replication quota at the last check."""
        self._waiting: dict[Watch, _Watched] | None = None
        """With a view, while the fetch waits: the partitions that are not settled, and the ones
        that have changed since."""

    def view_session(self) -> None:
        """Check only the partitions of a follower's session that may have news."""
        node, reader = self._reader.node, self._reader
        self._view = self._context.view(
            reader.replica_id, reader.replica_epoch, node.replicas.purgatory
        )

    @property
    def keys(self) -> Sequence[Hashable]:
        """The keys to watch in the purgatory for changes."""
        if self._view is not None:
            return (self._view, *self._later.values())
        return [*(each.partition for each in self._watched), *self._later.values()]

    @property
    def has_later(self) -> bool:
        """Whether records of a partition come later."""
        return bool(self._later)

    def later_wait_ms(self) -> int:
        """Return how long the fetch waits for records that come later."""
        wait_ms: int = self._reader.node.settings[remote_fetch_max_wait_ms]
        return wait_ms

    def note_follower(self, now_ms: int) -> None:
        """Note how far the follower has read: it holds all records below its fetch offset. Called
        after the first read, so that requests that wait for the partition never see this fetch half
        done."""
        reader = self._reader
        for watched in self._watched:
            wanted, partition = watched.wanted, watched.partition
            if wanted.is_diverging or not partition.is_leader:
                continue
            replica_id, offset = reader.replica_id, wanted.asked.fetch_offset
            start = wanted.asked.log_start_offset
            epoch = reader.replica_epoch
            candidate = partition.on_fetch(replica_id, offset, start, now_ms, epoch)
            if candidate is not None:
                reader.node.on_follower_caught_up(partition, candidate)
        if self._view is not None:
            self._settle(self._view, now_ms)

    def _settle(self, view: FollowerView, now_ms: int) -> None:
        """Settle the partitions without news, and remember the others."""
        view.clock.fetched_ms = now_ms
        self._waiting = waiting = {}
        for watched in self._watched:
            watch = watched.wanted.watch
            if not watch.settle():
                waiting[watch] = watched

    def answer_at_once(self, max_wait_ms: int) -> bool:
        """Answer now if there is enough to read or the request must not wait. Return whether it was
        answered."""
        rows = self._read()
        if (
            self._size >= self._reader.min_bytes
            or max_wait_ms <= 0
            or self._is_urgent
            or not (self._watched or (self._view is not None and self._view.has_settled))
        ):
            if self._later and not self._size and not self._is_urgent:
                return False
            self._answer(rows)
            return True
        return False

    def try_complete(self) -> bool:
        if self._context.is_superseded:
            self._answer([])
            return True
        if not self._has_enough():
            return False
        self._answer(self._read())
        return True

    def on_timeout(self) -> None:
        is_superseded = self._view is not None and self._context.is_superseded
        self._answer([] if is_superseded else self._read())

    # Reading.

    def _read(self) -> list[Row]:
        """Read all partitions, within the limits of the whole request. Return a row for each."""
        reader = self._reader
        left = reader.max_bytes
        is_first = True
        self._size = 0
        self._is_urgent = False
        view = self._view
        watched: list[_Watched] = []
        before, self._watched = self._watched, watched
        rows: list[Row] = []
        for key, wanted in self._due():
            try:
                partition = reader.find(wanted)
                data, size, bound = self._read_one(partition, wanted, left, is_first)
            except KafkaError as error:
                if view is None:
                    was_there = any(each.wanted is wanted for each in before)
                else:
                    was_there = self._waiting is not None and wanted.watch.partition is not None
                    wanted.watch.release()
                data = self._refused(wanted, error, was_there=was_there)
                rows.append((key, wanted, data))
                continue
            if view is not None:
                wanted.watch.bind(partition)
            if size:
                is_first = False
                left = left - size if left > size else 0
                self._size += size
            watched.append(_Watched(wanted, partition, bound, size))
            rows.append((key, wanted, data))
        return rows

    def _due(self) -> list[tuple[Key, RequestedFetch]]:
        """Return the partitions to read, in their order."""
        if self._view is not None:
            return self._view.due()
        if self._items is None:
            # A copy: a later request of the session may change its partitions while this one waits.
            self._items = list(self._context.wanted.items())
        return self._items

    def _read_one(
        self, partition: Partition, wanted: RequestedFetch, left: int, is_first: bool
    ) -> tuple[PartitionData, int, int]:
        """Return the response for one partition, its records' size, and the bound of the read."""
        reader = self._reader
        asked = wanted.asked
        offset = asked.fetch_offset
        isolation_level = reader.isolation_level
        bound = partition.fetch_bound(isolation_level, reader.is_follower)
        log = partition.offsets
        nearby = reader.nearby_replica(partition, offset) if reader.rack else None
        if nearby is not None:
            self._is_urgent = True
            data = _new_data(
                asked.partition,
                0,
                log.high_watermark,
                log.last_stable_offset,
                log.log_start_offset,
                None,
                b"",
            )
            data.preferred_read_replica = nearby
            return data, 0, bound
        records: LogSlice | bytes = b""
        size = 0
        diverging = None
        if asked.last_fetched_epoch >= 0:
            diverging = _divergence(partition, wanted)
        wanted.is_diverging = diverging is not None
        if diverging is None:
            max_bytes = asked.partition_max_bytes
            if left < max_bytes:
                max_bytes = left
            if reader.is_follower and reader.is_held_up(partition):
                found = partition.read(offset, 0, bound, False, isolation_level)
            elif self._later and wanted in self._later:
                found = self._later[wanted]  # its records perhaps have come
            else:
                found = partition.read(offset, max_bytes, bound, is_first, isolation_level)
            if isinstance(found, LaterSlice):
                self._later[wanted] = found
                if found.has_come and (taken := found.take(max_bytes, is_first)).size_bytes:
                    records, size = taken, taken.size_bytes
                    self._is_urgent = True
            elif found.size_bytes:
                records, size = found, found.size_bytes
                if not found.is_newest:
                    self._is_urgent = True
        else:
            self._is_urgent = True
        aborted: list[AbortedTransaction] | None = None
        if isolation_level == READ_COMMITTED and not reader.is_follower:
            if not isinstance(records, bytes):
                later = self._later.get(wanted) if self._later else None
                aborted = _aborted(partition, offset, records, later)
            elif diverging is None and (offset >= bound or max_bytes <= 0):
                aborted = []  # as in Kafka, which leaves it null if a batch does not fit
        data = _new_data(
            asked.partition,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            aborted,
            records,
        )
        if diverging is not None:
            data.diverging_epoch = diverging
        return data, size, bound

    def _refused(
        self, wanted: RequestedFetch, error: KafkaError, *, was_there: bool
    ) -> PartitionData:
        """Return the response for a partition with an error. `was_there`: the partition could be
        read earlier, while this fetch waited."""
        wanted.is_diverging = False
        traffic = self._reader.node.replicas.traffic.unknown()
        traffic.fetches += 1
        traffic.failed_fetches += 1
        refusal = self._reader.client_error(wanted, error)
        aborted: list[AbortedTransaction] | None = []
        is_patient = refusal.code in UNKNOWN_TOPICS
        is_patient = is_patient or refusal.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not is_patient:
            self._is_urgent = True
        if was_there or not is_patient:
            aborted = None
        return PartitionData(
            partition_index=wanted.asked.partition,
            error_code=refusal.code,
            high_watermark=NO_OFFSET,
            aborted_transactions=aborted,
            records=b"",
        )

    def _has_enough(self) -> bool:
        """Whether the fetch can be answered now. Only partitions with a new bound are read."""
        reader, view = self._reader, self._view
        if self._later and any(each.has_come for each in self._later.values()):
            return True
        looked = self._watched
        if view is not None:
            if view.is_closed:
                return True
            looked = self._changed(view)
        for watched in looked:
            partition = watched.partition
            wanted = watched.wanted
            try:
                if reader.find(wanted) is not partition:
                    return True
                bound = partition.fetch_bound(reader.isolation_level, reader.is_follower)
                if reader.is_follower:
                    if watched.has_marks_for_follower(reader.is_rack_aware):
                        return True
                    if reader.is_held_up(partition):
                        self._size -= watched.size
                        watched.size, watched.bound = 0, NO_OFFSET
                        if view is not None:
                            self._held.append(watched)
                        continue
                if bound != watched.bound and not (self._later and wanted in self._later):
                    offset = wanted.asked.fetch_offset
                    if reader.min_bytes <= HEADER_BYTES and bound > offset:
                        return True
                    max_bytes = wanted.asked.partition_max_bytes
                    level = reader.isolation_level
                    found = partition.read(offset, max_bytes, bound, True, level)
                    if isinstance(found, LaterSlice) or (found.size_bytes and not found.is_newest):
                        return True
                    watched.bound = bound
                    size = min(found.size_bytes, max_bytes)
                    self._size += size - watched.size
                    watched.size = size
            except KafkaError:
                return True
        return self._size >= reader.min_bytes

    def _changed(self, view: FollowerView) -> list[_Watched]:
        """Return the partitions whose readable size may have changed since the last check."""
        waiting = self._waiting
        assert waiting is not None
        held, self._held = self._held, []
        looked = list(held)
        for watch in view.take_changed():
            watched = waiting.get(watch)
            if watched is None:
                partition = watch.partition
                if partition is None:
                    continue  # another session reads it now
                watched = waiting[watch] = _Watched.settled(watch.wanted, partition)
            if watched not in held:
                looked.append(watched)
        return looked

    # Answering.

    def _count(self) -> None:
        """Count what was read, by topic."""
        is_follower = self._reader.is_follower
        for each in self._watched:
            traffic = each.partition.traffic
            traffic.fetches += 1
            if each.size:
                each.partition.work += each.size + REQUEST_BYTES
            if is_follower:
                traffic.replication_bytes_out += each.size
            else:
                traffic.bytes_out += each.size

    def _is_over_quota(self, rows: list[Row]) -> bool:
        """Whether the client must wait for the records, and gets an empty response (KIP-219)."""
        size = sum(len(data.records or b"") for _, _, data in rows)
        return size > 0 and self._reader.node.quotas.holds_fetch(self.request, size)

    def _answer(self, rows: list[Row]) -> None:
        reader = self._reader
        node, is_follower = reader.node, reader.is_follower
        now_ms = node.runtime.clock.monotonic_ns() // _NS_PER_MS
        try:
            if node.quotas.is_limiting and not is_follower and self._is_over_quota(rows):
                self.answer(_new_response(self._context.hold(), []))
                return
            session_id, told_rows = self._context.conclude(rows, now_ms)
        except KafkaError as error:
            refusal = _session_refusal(error)
            refusal.session_id = cast(int, error.context["session_id"])
            self.answer(refusal)
            return
        if is_follower:
            reader.note_sent(rows)
        if rows:
            self._count()
        if 0 < self._size <= JOINED_BYTES_MAX:
            _read_records(rows)
        response = _new_response(session_id, _by_topic(told_rows))
        if self._is_urgent and reader.version >= _LEADERS_SINCE:
            _name_leaders(node, self.request, response)
        self.answer(response)


def _divergence(partition: Partition, wanted: RequestedFetch) -> EpochEndOffset | None:
    """Return the point where the log of the follower or client diverges from ours, or None. The
    request's last fetched epoch shows it, so no OffsetForLeaderEpoch request is needed."""
    asked = wanted.asked
    epoch, end_offset = partition.epoch_end(asked.last_fetched_epoch)
    if epoch == NO_EPOCH or end_offset == NO_OFFSET:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            "the last fetched epoch is not known here",
            epoch=asked.last_fetched_epoch,
        )
    if asked.fetch_offset < partition.log_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            offset=asked.fetch_offset,
            log_start_offset=partition.log_start_offset,
        )
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def _aborted(
    partition: Partition, offset: int, read: LogSlice, later: LaterSlice | None
) -> list[AbortedTransaction]:
    found = partition.aborted_transactions(offset, read) if later is None else later.aborted
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in found
    ]


def _read_records(rows: list[Row]) -> None:
    """Read the records of a small response, so that it leaves in one piece."""
    for _, _, data in rows:
        records = data.records
        if isinstance(records, LogSlice):
            try:
                found = records.read()
            except OSError:
                return  # the connection reads the slice again, and closes
            if len(found) == records.size_bytes:
                data.records = found


def _by_topic(rows: Iterable[Row]) -> list[FetchableTopicResponse]:
    """Group the partitions by topic, in their order. Only adjacent partitions are merged."""
    topics: list[FetchableTopicResponse] = []
    name: str | None = None
    topic_id = b""
    for _, wanted, data in rows:
        if wanted.topic != name or wanted.topic_id != topic_id:
            name, topic_id = wanted.topic, wanted.topic_id
            partitions = [data]
            topics.append(_new_topic(name, topic_id, partitions))
        else:
            partitions.append(data)
    return topics


def refuse(request: FetchRequest, version: int, error: KafkaError) -> Response:
    """Return the response for the case that the whole request fails. Versions without a code for
    that have it in each partition."""
    if version >= _REFUSES_WHOLE_SINCE:
        return _session_refusal(error)
    return refused_response(request, version, error)


def _session_refusal(error: KafkaError) -> FetchResponse:
    return FetchResponse(error_code=error.code, responses=[])


_LED_ELSEWHERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def _name_leaders(node: Node, request: ApiRequest, response: FetchResponse) -> None:
    """Add the current leader and its epoch to partitions whose error is a wrong leader or a fenced
    leader epoch (KIP-951)."""
    leads: dict[int, Lead] = {}
    listener = request.connection.listener
    for topic in response.responses:
        for data in topic.partitions:
            if data.error_code not in _LED_ELSEWHERE:
                continue
            lead = lead_of(node, topic.topic, topic.topic_id, data.partition_index, listener)
            data.current_leader = LeaderIdAndEpoch(
                leader_id=lead.leader_id, leader_epoch=lead.leader_epoch
            )
            if lead.is_reachable:
                leads[lead.leader_id] = lead
    response.node_endpoints = [
        NodeEndpoint(node_id=lead.leader_id, host=lead.host, port=lead.port, rack=lead.rack)
        for lead in leads.values()
    ]
