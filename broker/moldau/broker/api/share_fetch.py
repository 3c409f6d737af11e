"""ShareFetch: gives records of share partitions to a member, and notes its acknowledgements.

Invariants:
* Records are slices of files, as in Fetch. Only the headers of batches are read, to know their
  offsets. A group whose records name their times waits for those of a large batch.
* Acknowledgements of a request count before records are given.
* The answer waits until the acknowledgements are stored, and until there are `min_bytes` of
  records, at most `max_wait_ms`. A request that only renews locks, or ends the session, gets no
  records.
* A client over its `consumer_byte_rate` gets no records, and acquires none.
* A partition is in the answer if it has records, an error, or an acknowledgement.
* Records that come later (`LaterSlice`) wake the request, within `remote.fetch.max.wait.ms`. If the
  request is answered without them, the member asks again, and then they have come.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from moldau.broker.api.delayed_answer import DelayedAnswer, session_of
from moldau.broker.api.gate import allowed, is_allowed
from moldau.broker.api.refusal import NO_EPOCH, Lead, client_error_by_id, lead_of, message_of
from moldau.broker.api.share_acknowledging import (
    RequestAcknowledgements,
    acknowledgements_of,
    serves_share_groups,
    session_key,
)
from moldau.broker.controller.topics import NO_LEADER
from moldau.broker.log.slice import LogSlice
from moldau.broker.replication.later_slice import LaterSlice
from moldau.broker.replication.partition import READ_COMMITTED
from moldau.broker.replication.purgatory import Pause
from moldau.broker.settings.fetch import fetch_max_bytes
from moldau.broker.settings.share import group_share_max_share_sessions
from moldau.broker.settings.tiered import remote_fetch_max_wait_ms
from moldau.broker.share.batches import Enough, LocatedBatch, read_batches, sliced
from moldau.broker.share.persister import ShareKey
from moldau.broker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH
from moldau.broker.share.window import AcquireLimits
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.quota.waits import ThrottleTimes
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.log.transaction_index import AbortedTransaction
    from moldau.broker.share.partition import SharePartition
    from moldau.broker.share.piece import AcquiredRange
    from moldau.broker.share.sessions import SessionKey, TopicIdPartition

STRICT: Final = 1
"""The acquire mode in which `max_records` is never exceeded (KIP-1206)."""
_READS_AT_ONCE: Final = 16
"""How many slices are read of a partition in which all records turn out to be done."""
_NO_RECORDS: Final = LogSlice(None, 0, 0)
_LED_ELSEWHERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def serve(node: Node, request: ApiRequest) -> None:
    """Handle a ShareFetch request; see the module."""
    message = cast(ShareFetchRequest, request.decode())
    if not serves_share_groups(node):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if message.group_id is not None and not is_allowed(
        node, request, AclResource.GROUP, message.group_id
    ):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    key = session_key(message.group_id, message.member_id)
    if message.is_renew_ack:
        _check_renewal(message)
    try:
        places = _session_places(node, request, message, key)
    except KafkaError as error:
        if error.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            raise
        _refuse_later(node, request, error, message.max_wait_ms)
        return
    ShareFetch(node, request, message, key, places).begin()


def _check_renewal(message: ShareFetchRequest) -> None:
    """Raise INVALID_REQUEST if a request that renews locks wants records too."""
    for name in ("max_bytes", "min_bytes", "max_records", "max_wait_ms"):
        if getattr(message, name):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} must be 0 if IsRenewAck is set")


def _session_places(
    node: Node, request: ApiRequest, message: ShareFetchRequest, key: SessionKey
) -> list[TopicIdPartition]:
    """Begin or continue the member's session, and return what it reads now."""
    sessions = node.shares.sessions
    epoch = message.share_session_epoch
    places: list[TopicIdPartition] = []
    for topic in message.topics:
        places += [(topic.topic_id, each.partition_index) for each in topic.partitions]
    if epoch == FINAL_EPOCH:
        sessions.existing(key)
        return []
    if epoch == INITIAL_EPOCH:
        if any(each.batches for each in acknowledgements_of(message.topics)):
            text = "the first request of a session acknowledges nothing"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        limit = node.settings[group_share_max_share_sessions]
        return list(sessions.begin(key, places, session_of(request.connection), limit).places)
    forgotten: list[TopicIdPartition] = []
    for gone in message.forgotten_topics_data:
        forgotten += [(gone.topic_id, index) for index in gone.partitions]
    session = sessions.next(key, epoch, places, forgotten)
    found = list(session.places)
    turn = epoch % len(found) if found else 0
    return found[turn:] + found[:turn]


def _refuse_later(node: Node, request: ApiRequest, error: KafkaError, wait_ms: int) -> None:
    """Refuse a session for which there is no room, after the time that the client would wait."""
    response = ShareFetchResponse(
        error_code=error.code,
        error_message=message_of(error),
        acquisition_lock_timeout_ms=0,
        responses=[],
        node_endpoints=[],
    )
    pause = Pause(lambda: request.answer(response))
    node.replicas.purgatory.watch(pause, (), wait_ms)


class ShareFetch(DelayedAnswer):
    """One ShareFetch request, until it is answered."""

    __slots__ = (
        *("_acknowledging", "_is_fetched", "_key", "_later", "_waits_for", "_message", "_node"),
        *("_places", "_readable", "_rows"),
    )

    def __init__(
        self,
        node: Node,
        request: ApiRequest,
        message: ShareFetchRequest,
        key: SessionKey,
        places: Sequence[TopicIdPartition],
    ) -> None:
        super().__init__(request)
        self._node = node
        self._message = message
        self._key = key
        self._places = places
        self._rows: dict[TopicIdPartition, PartitionData] = {}
        self._waits_for: list[Hashable] = []
        self._later: dict[tuple[SharePartition, int], LaterSlice] = {}
        """The records that come later, by share partition and offset."""
        self._is_fetched = False
        self._readable: Collection[bytes] = ()
        self._acknowledging = RequestAcknowledgements(
            node, request, key, message, self._end_if_complete
        )

    def begin(self) -> None:
        """Note the acknowledgements, then give records or wait for some."""
        message = self._message
        self._acknowledging.begin(acknowledgements_of(message.topics, with_empty=False))
        has_records = message.max_records > 0 and message.max_bytes > 0 and bool(self._places)
        if not has_records or message.is_renew_ack:
            self._is_fetched = True
            self._end_if_complete()
            return
        self._find_readable()
        if not self._fetch(is_last=message.max_wait_ms <= 0):
            self._wait(message.max_wait_ms)

    def _wait(self, wait_ms: int) -> None:
        if self._later:
            wait_ms = self._node.settings[remote_fetch_max_wait_ms]
        keys = [*self._waits_for, *self._later.values()]
        self.wait(self._node.replicas.purgatory, keys, wait_ms)

    def _find_readable(self) -> None:
        node = self._node
        every = node.image.topics.by_id
        if node.authorizer.allows_all:
            self._readable = every
            return
        topics = {topic_id: every[topic_id] for topic_id, _ in self._places if topic_id in every}
        names = tuple(each.name for each in topics.values())
        may = set(allowed(node, self.request, AclResource.TOPIC, names))
        self._readable = {topic_id for topic_id, each in topics.items() if each.name in may}

    def try_complete(self) -> bool:
        watched, later = self._waits_for, set(self._later)
        if self._fetch(is_last=False):
            return True
        if self._waits_for == watched and later.issuperset(self._later):
            return False
        # A share partition was loaded anew, or other records come later: they do not wake this
        # request.
        self._is_fetched = True
        self._end_if_complete()
        return True

    def on_timeout(self) -> None:
        self._fetch(is_last=True)

    # Reading.

    def _fetch(self, *, is_last: bool) -> bool:
        """Give what there is, if it is enough. Return whether this was the last attempt."""
        shares = self._find_shares()
        if not is_last and self._message.min_bytes > 1 and not self._rows:
            ready = sum(self._readable_bytes(share) for share in shares.values())
            if ready < self._message.min_bytes:
                return False
        quotas = self._node.quotas if self._node.quotas.is_limiting else None
        if quotas is not None and quotas.holds_fetch(self.request, 0):
            # The client must wait for records, and gets an empty response (KIP-219).
            self._is_fetched = True
            self._end_if_complete()
            return True
        self._acquire(shares, quotas, is_last=is_last)
        if not self._rows and not is_last:
            return False
        self._is_fetched = True
        self._end_if_complete()
        return True

    def _find_shares(self) -> dict[TopicIdPartition, SharePartition]:
        """Return the share partitions that are loaded. Those with errors get their rows."""
        found: dict[TopicIdPartition, SharePartition] = {}
        node = self._node
        self._waits_for = []
        for place in self._places:
            topic_id, index = place
            try:
                if topic_id not in self._readable and topic_id in node.image.topics.by_id:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                partition = node.replicas.partition_by_id(topic_id, index)
                share = node.shares.find(ShareKey(self._key.group_id, topic_id, index), partition)
                share.refresh()
            except KafkaError as error:
                self._refuse(place, error)
                continue
            self._waits_for += (partition, share)
            if share.window is not None:
                found[place] = share
        return found

    def _refuse(self, place: TopicIdPartition, error: KafkaError) -> None:
        heard = client_error_by_id(self._node, *place, error)
        row = self._rows[place] = _row(place[1])
        row.error_code = heard.code
        row.error_message = message_of(heard)
        if heard.code in _LED_ELSEWHERE:
            lead = self._lead(place)
            row.current_leader = LeaderIdAndEpoch(
                leader_id=lead.leader_id, leader_epoch=lead.leader_epoch
            )

    def _lead(self, place: TopicIdPartition) -> Lead:
        return lead_of(self._node, "", *place, self.request.connection.listener)

    def _readable_bytes(self, share: SharePartition) -> int:
        window = share.window
        assert window is not None
        if not window.can_acquire(share.settings):
            return 0
        try:
            read = self._read(share, window.fetch_offset, self._message.max_bytes, is_first=True)
            return len(read.records)
        except KafkaError:
            return self._message.min_bytes  # the attempt to read gets the error

    def _acquire(
        self,
        shares: dict[TopicIdPartition, SharePartition],
        quotas: ThrottleTimes | None,
        *,
        is_last: bool,
    ) -> None:
        """Acquire records of the share partitions, within the limits of the request and, if there
        are any, of the quotas."""
        message = self._message
        quota_bytes = None if quotas is None else quotas.fetch_bytes_max(self.request)
        most = min(message.max_bytes, self._node.settings[fetch_max_bytes])
        left_bytes = most if quota_bytes is None else min(most, quota_bytes)
        left = message.max_records
        given_bytes = 0
        is_first = True
        for place, share in shares.items():
            if left <= 0:
                break
            wanted = AcquireLimits(
                left, max(message.batch_size, 1), message.share_acquire_mode == STRICT
            )
            try:
                records, acquired = self._acquire_one(share, wanted, left_bytes, is_first=is_first)
            except KafkaError as error:
                self._refuse(place, error)
                continue
            if not acquired:
                if is_last and message.share_session_epoch == INITIAL_EPOCH:
                    self._rows[place] = _row(place[1])  # the first answer lists what is read
                continue
            row = self._rows[place] = _row(place[1])
            row.records = records
            row.acquired_records = [
                AcquiredRecords(
                    first_offset=each.first, last_offset=each.last, delivery_count=each.deliveries
                )
                for each in acquired
            ]
            left -= sum(each.last - each.first + 1 for each in acquired)
            left_bytes = max(left_bytes - len(records), 0)
            given_bytes += len(records)
            is_first = False
        if given_bytes and quotas is not None:
            quotas.charge_share_fetch(self.request, given_bytes)

    def _acquire_one(
        self, share: SharePartition, wanted: AcquireLimits, max_bytes: int, *, is_first: bool
    ) -> tuple[LogSlice | bytes, list[AcquiredRange]]:
        """Acquire records of one share partition. Slices without any that are wanted are passed
        over."""
        window = share.window
        assert window is not None
        for _ in range(_READS_AT_ONCE):
            if not window.can_acquire(share.settings):
                break
            before = window.fetch_offset
            read, aborted = self._read(share, before, max_bytes, is_first=is_first)
            found = _batches(share, before, read, aborted, wanted.records)
            if not found:
                break
            batches = [each.batch for each in found]
            if share.settings.delivers_at:
                batches = share.times.timed(read, found, share.wall_ahead_ms())
                if not batches:
                    break  # it wakes this request when it has read them
            acquired = share.acquire(self._key.member_id, batches, wanted)
            if acquired:
                return sliced(read, found, acquired), acquired
            if window.fetch_offset == before:
                break
        return b"", []

    def _read(
        self, share: SharePartition, offset: int, max_bytes: int, *, is_first: bool
    ) -> _ReadRecords:
        """Return the records from the window's fetch offset. Those that come later count as none
        until they have come, and are kept: a request with `min_bytes` counts them first."""
        partition, level = share.partition, share.settings.isolation_level
        bound = partition.fetch_bound(level, is_follower=False)
        offset = max(offset, partition.log_start_offset)
        if offset >= bound:
            return _NOTHING_READ
        key = share, offset
        found: LogSlice | LaterSlice | None = self._later.get(key) if self._later else None
        if found is None:
            found = partition.read(offset, max_bytes, bound, is_first, level)
        if not isinstance(found, LaterSlice):
            return _ReadRecords(found, None)
        self._later[key] = found
        if not found.has_come:
            return _NOTHING_READ
        return _ReadRecords(found.take(max_bytes, is_first), found.aborted)

    # The answer.

    def _end_if_complete(self) -> None:
        if not self._is_fetched or not self._acknowledging.is_done:
            return
        rows = self._rows
        for place, error in self._acknowledging.results.items():
            row = rows.get(place)
            if row is None:
                row = rows[place] = _row(place[1])
            if error is not None:
                row.acknowledge_error_code = error.code
                row.acknowledge_error_message = message_of(error)
        settings = self._node.coordinator_node.share_settings(self._key.group_id)
        self.answer(
            ShareFetchResponse(
                error_code=ErrorCode.NONE,
                acquisition_lock_timeout_ms=settings.lock_ms,
                responses=_by_topic(rows),
                node_endpoints=self._endpoints(),
            )
        )
        if self._message.share_session_epoch == FINAL_EPOCH:
            session = self._node.shares.sessions.end(self._key)
            if session is not None:
                self._node.shares.release(self._key, session.places)

    def _endpoints(self) -> list[NodeEndpoint]:
        leads: dict[int, Lead] = {}
        for place, row in self._rows.items():
            if row.error_code in _LED_ELSEWHERE:
                lead = self._lead(place)
                if lead.is_reachable:
                    leads[lead.leader_id] = lead
        return [
            NodeEndpoint(node_id=lead.leader_id, host=lead.host, port=lead.port, rack=lead.rack)
            for lead in leads.values()
        ]


class _ReadRecords(NamedTuple):
    """Records, and the aborted transactions in them if they came later."""

    records: LogSlice
    aborted: Sequence[AbortedTransaction] | None


_NOTHING_READ: Final = _ReadRecords(_NO_RECORDS, None)


def _batches(
    share: SharePartition,
    offset: int,
    read: LogSlice,
    transactions: Sequence[AbortedTransaction] | None,
    records_max: int,
) -> list[LocatedBatch]:
    if not len(read):
        return []
    aborted: dict[int, list[int]] = {}
    if share.settings.isolation_level == READ_COMMITTED:
        partition = share.partition
        if transactions is None:
            offset = max(offset, partition.log_start_offset)
            transactions = partition.aborted_transactions(offset, read)
        for each in transactions:
            aborted.setdefault(each.producer_id, []).append(each.first_offset)
    window, enough = share.window, None
    if window is not None and not share.settings.delivers_at:  # else some rest, and more are needed
        enough = Enough(window.next_offset, records_max)
    return read_batches(read, aborted, enough)


def _row(index: int) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=ErrorCode.NONE,
        acknowledge_error_code=ErrorCode.NONE,
        # A client takes 0 for the id of a broker.
        current_leader=LeaderIdAndEpoch(leader_id=NO_LEADER, leader_epoch=NO_EPOCH),
        records=b"",
        acquired_records=[],
    )


def _by_topic(rows: dict[TopicIdPartition, PartitionData]) -> list[ShareFetchableTopicResponse]:
    topics: dict[bytes, list[PartitionData]] = {}
    for (topic_id, _), row in rows.items():
        topics.setdefault(topic_id, []).append(row)
    return [
        ShareFetchableTopicResponse(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in topics.items()
    ]
