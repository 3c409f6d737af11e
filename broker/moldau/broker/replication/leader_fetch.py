"""The fetches from one leader: which partitions are asked for, and what each response means. Pure.

A volatile core: `on_...` notes what has happened, and `ready` returns all there is to do now. One
request is under way at a time, in a session (`session`), for all partitions that the leader leads.
Added or removed partitions end the wait for a response, so that a new topic does not wait for the
end of a fetch without news.

Partitions that are left out of a request:
- one that pauses after an error: mostly the leader does not know yet that it leads;
- a throttled one that is not in sync, while the quota of the node is exceeded (KIP-73);
- one on a disk that is nearly full, until there is room again (`log.disk_room` has the floor). The
  cluster's own topics are still copied, as their leaders still write them;
- one whose log is out of service;
- one that is about to begin anew behind remote records: what it must know of them is read by a task
  of its own (`Ready.rebuilds`), and no other partition waits for that. A log that has lost its
  history, and a new one that is to skip what is remote, begin so before their first fetch.

Invariants:
* The response for a partition is used only if the partition still follows the same leader in the
  same epoch as in the request, its log ends where it ended then, and there is room on its disk.
* The cost of a round depends on the changes: `_touched` has every partition whose log or role may
  differ from the last request. These are partitions that were added, that have told of a change
  (`on_changed`), that a response named, or whose pause ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from moldau.broker.log.truncation import LogHistory
from moldau.broker.replication import follower
from moldau.broker.replication.follower import Action, Marks
from moldau.broker.replication.session import (
    FollowerPosition,
    FollowerSession,
    FollowerSessionRequest,
)
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode

if TYPE_CHECKING:
    from moldau.ids import Uuid
    from moldau.protocol.messages.fetch import FetchResponse, PartitionData

    Key = tuple[Uuid, int]

PAUSE_MS_MAX: Final = 50
"""The longest pause after an error, whatever `replica.fetch.backoff.ms` allows."""
THROTTLED_MS: Final = 100
"""The pause of a throttled partition while the quota is exceeded."""
SHORT_MS: Final = 1000
"""The pause of a partition on a disk that is nearly full; the room is measured as often."""
REBUILD_MS: Final = 1000
"""The pause after an attempt to begin behind remote records that failed."""
_SESSION_ERRORS: Final = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)


class Replica(Protocol):
    """The facts about a replica that decide what is fetched."""

    @property
    def leader_epoch(self) -> int: ...
    @property
    def marks(self) -> Marks:
        """The facts about its log."""

    @property
    def is_in_service(self) -> bool:
        """Whether its log can be written."""

    @property
    def is_throttled(self) -> bool:
        """Whether the quota applies to it: it is throttled by the topic, and not in sync."""

    @property
    def is_short_of_room(self) -> bool:
        """Whether its disk is nearly full, and the topic is none of the cluster's own."""

    @property
    def is_remote_skipped(self) -> bool:
        """Whether it copies nothing that is in remote storage already, if it is new (KIP-1023)."""


R = TypeVar("R", bound=Replica)


class RequestedPartition(NamedTuple, Generic[R]):
    """A partition of the last request, as it was then."""

    key: Key
    replica: R
    leader_epoch: int
    log_end_offset: int


class RemoteStart(NamedTuple):
    """How a log begins behind remote records."""

    history: LogHistory
    log_start_offset: int
    """The start of the leader's log."""


class LogStep(NamedTuple, Generic[R]):
    """What must be done with the log of a replica."""

    key: Key
    replica: R
    action: Action
    """APPEND, TRUNCATE, START_AT or REBUILD."""
    offset: int
    data: PartitionData | None = None
    """The records and marks for APPEND."""
    start: RemoteStart | None = None
    """For REBUILD."""


class Refusal(NamedTuple, Generic[R]):
    """A partition that the leader did not give, for the log."""

    replica: R
    code: int


@dataclass(frozen=True, slots=True)
class Ready(Generic[R]):
    """All there is to do, in this order. Then call `ready` again: at once after a step, a question
    or a response, otherwise at the deadline or after the next change."""

    steps: tuple[LogStep[R], ...] = ()
    """Tell errors with `on_step_failed`."""
    questions: tuple[RequestedPartition[R], ...] = ()
    """Ask the leader where these logs begin and end, and tell `on_ends` or `on_no_ends`."""
    rebuilds: tuple[RequestedPartition[R], ...] = ()
    """Find out how these logs begin anew, beside all else, and tell `on_start`, `on_no_rebuild` or
    `on_rebuild_failed`."""
    refusals: tuple[Refusal[R], ...] = ()
    request: FollowerSessionRequest | None = None
    """Send it, and tell `on_response`, `on_failed` or `on_given_up`."""
    deadline_ms: int | None = None
    """The next time at which there may be something to do; None: after the next change."""

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do before the deadline."""
        has_some = self.steps or self.questions or self.rebuilds or self.refusals
        return not (has_some or self.request)


class LeaderFetch(Generic[R]):
    """The fetches from one leader; see the module."""

    def __init__(self) -> None:
        self._replicas: dict[Key, R] = {}
        self._paused: dict[Key, int] = {}
        """The time until which a partition is left out."""
        self._asked: dict[Key, RequestedPartition[R]] = {}
        """The partitions of the session."""
        self._touched: dict[Key, None] = {}
        """The partitions to check for the next request."""
        self._session = FollowerSession()
        self._steps: list[LogStep[R]] = []
        self._questions: list[RequestedPartition[R]] = []
        self._rebuilds: list[RequestedPartition[R]] = []
        self._rebuilding: dict[Key, RequestedPartition[R]] = {}
        self._whole: set[Key] = set()
        """The new replicas that copy all from their leader."""
        self._refusals: list[Refusal[R]] = []
        self._rest_until_ms = 0
        """The time before which nothing is sent: the leader did not answer."""
        self._bytes_max = 0
        self._pause_ms = PAUSE_MS_MAX
        self._is_quota_exceeded = False

    # Events.

    def on_added(self, key: Key, replica: R) -> None:
        """The replica follows this leader from now on, or follows it in another epoch."""
        self._replicas[key] = replica
        self._on_membership(key)

    def on_removed(self, key: Key) -> None:
        """The replica does not follow this leader any more."""
        self._replicas.pop(key, None)
        self._on_membership(key)

    def _on_membership(self, key: Key) -> None:
        self._paused.pop(key, None)
        self._rebuilding.pop(key, None)
        self._whole.discard(key)
        self._touched[key] = None
        self._rest_until_ms = 0

    def on_changed(self, key: Key) -> None:
        """Something about the replica has changed, such as the start of its log."""
        self._touched[key] = None

    def on_settings(self, partition_bytes_max: int, backoff_ms: int) -> None:
        """Note the limit of each partition, and the pause after an error."""
        self._bytes_max, self._pause_ms = partition_bytes_max, min(backoff_ms, PAUSE_MS_MAX)

    def on_quota(self, is_exceeded: bool) -> None:
        """Note whether throttled replicas must copy nothing now."""
        self._is_quota_exceeded = is_exceeded

    def on_given_up(self) -> None:
        """The request was given up, because the partitions have changed."""
        self._session.end(is_known=True)

    def on_failed(self, now_ms: int) -> None:
        """The leader did not answer."""
        self._session.end()
        self._rest_until_ms = now_ms + self._pause_ms

    def on_response(self, response: FetchResponse, now_ms: int) -> None:
        """The leader answered."""
        if response.error_code in _SESSION_ERRORS:
            self._session.end()  # the leader dropped it: send everything again, at once
            return
        if response.error_code:
            self.on_failed(now_ms)
            return
        self._session.answered(response.session_id)
        named: list[RequestedPartition[R]] = []
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                self._touched[key] = None
                asked = self._asked.pop(key, None)  # so that it counts once in a response
                if asked is not None:
                    named.append(asked)
                    if self._is_current(asked) and not asked.replica.is_short_of_room:
                        self._judge(asked, data, now_ms)
        for asked in named:
            self._asked[asked.key] = asked

    def on_step_failed(self, key: Key, now_ms: int) -> None:
        """A step could not be carried out, for example because the response was damaged."""
        self._pause(key, now_ms)

    def on_ends(
        self, asked: RequestedPartition[R], leader_start: int, leader_end: int, now_ms: int
    ) -> None:
        """The leader told where its log begins and ends."""
        if self._is_current(asked):
            step = follower.on_ends(asked.replica.marks, leader_start, leader_end)
            if step.action is Action.PAUSE:
                self._pause(asked.key, now_ms)
            else:
                self._steps.append(LogStep(asked.key, asked.replica, step.action, step.offset))

    def on_no_ends(self, asked: RequestedPartition[R], now_ms: int) -> None:
        """The leader did not tell where its log begins and ends."""
        self._pause(asked.key, now_ms)

    def on_start(self, asked: RequestedPartition[R], start: RemoteStart | int) -> None:
        """The log begins anew: behind remote records, or at the start of the leader's log."""
        if not self._end_rebuild(asked):
            return
        key, replica = asked.key, asked.replica
        if isinstance(start, int):
            self._steps.append(LogStep(key, replica, Action.START_AT, start))
        else:
            offset = start.history.offset
            self._steps.append(LogStep(key, replica, Action.REBUILD, offset, start=start))

    def on_no_rebuild(self, asked: RequestedPartition[R]) -> None:
        """The leader has all that comes next: fetch it."""
        if self._end_rebuild(asked):
            self._whole.add(asked.key)

    def on_rebuild_failed(self, asked: RequestedPartition[R], now_ms: int) -> None:
        """The leader or the store did not give what is needed now."""
        if self._end_rebuild(asked):
            self._paused[asked.key] = now_ms + REBUILD_MS

    def _end_rebuild(self, asked: RequestedPartition[R]) -> bool:
        """Return whether the result is of use: the replica is not removed, nor in another epoch."""
        if self._rebuilding.get(asked.key) is not asked:
            return False
        del self._rebuilding[asked.key]
        self._touched[asked.key] = None
        return self._is_current(asked)

    # Decisions.

    def ready(self, now_ms: int) -> Ready[R]:
        """Return what there is to do."""
        if self._steps or self._questions or self._refusals:
            steps, questions, refusals = self._steps, self._questions, self._refusals
            self._steps, self._questions, self._refusals = [], [], []
            rebuilds = self._take_rebuilds()
            return Ready(tuple(steps), tuple(questions), rebuilds, tuple(refusals))
        if now_ms < self._rest_until_ms:
            return Ready(rebuilds=self._take_rebuilds(), deadline_ms=self._rest_until_ms)
        tell = self._session.next(*self._changes(now_ms))
        rebuilds = self._take_rebuilds()
        if not self._asked:
            self._session.end(is_known=True)  # the leader does not learn about this
            deadline_ms = min(self._paused.values(), default=None)
            return Ready(rebuilds=rebuilds, deadline_ms=deadline_ms)
        return Ready(rebuilds=rebuilds, request=tell)

    def _take_rebuilds(self) -> tuple[RequestedPartition[R], ...]:
        rebuilds, self._rebuilds = self._rebuilds, []
        return tuple(rebuilds)

    def _changes(self, now_ms: int) -> tuple[dict[Key, FollowerPosition], list[Key]]:
        """Update `_asked`. Return the changed fetch positions, and the partitions to forget."""
        if self._is_quota_exceeded:
            for key, replica in self._replicas.items():
                if replica.is_throttled:
                    self._paused[key] = now_ms + THROTTLED_MS
                    self._touched[key] = None
        for key in [key for key, until_ms in self._paused.items() if until_ms <= now_ms]:
            del self._paused[key]
            self._touched[key] = None
        touched, self._touched = self._touched, {}
        changed: dict[Key, FollowerPosition] = {}
        gone: list[Key] = []
        for key in touched:
            known = self._replicas.get(key)
            marks = None if known is None else self._marks_to_fetch(key, known, now_ms)
            if known is None or marks is None:
                if self._asked.pop(key, None) is not None:
                    gone.append(key)
                continue
            epoch = known.leader_epoch
            self._asked[key] = RequestedPartition(key, known, epoch, marks.log_end_offset)
            changed[key] = FollowerPosition(
                epoch,
                marks.log_end_offset,
                marks.last_epoch,
                marks.log_start_offset,
                self._bytes_max,
            )
        return changed, gone

    def _marks_to_fetch(self, key: Key, replica: R, now_ms: int) -> Marks | None:
        """Return the marks of a replica that is fetched now; None if it is left out."""
        if key in self._paused or key in self._rebuilding or not replica.is_in_service:
            return None
        if replica.is_short_of_room:
            self._paused[key] = now_ms + SHORT_MS
            return None
        marks = replica.marks
        is_new = not marks.log_end_offset and key not in self._whole
        if not marks.is_history_known or (is_new and replica.is_remote_skipped):
            end = marks.log_end_offset
            self._rebuild(RequestedPartition(key, replica, replica.leader_epoch, end))
            return None
        return marks

    def _rebuild(self, asked: RequestedPartition[R]) -> None:
        self._rebuilding[asked.key] = asked
        self._rebuilds.append(asked)

    def _judge(self, asked: RequestedPartition[R], data: PartitionData, now_ms: int) -> None:
        code = data.error_code
        step = follower.on_fetched(asked.replica.marks, code, data.diverging_epoch)
        if step.action is Action.ASK_ENDS:
            self._questions.append(asked)
        elif step.action is Action.REBUILD:
            self._rebuild(asked)
        elif step.action is not Action.PAUSE:
            self._steps.append(LogStep(asked.key, asked.replica, step.action, step.offset, data))
        else:
            self._refusals.append(Refusal(asked.replica, code))
            self._pause(asked.key, now_ms)

    def _is_current(self, asked: RequestedPartition[R]) -> bool:
        replica = asked.replica
        return (
            self._replicas.get(asked.key) is replica
            and replica.leader_epoch == asked.leader_epoch
            and replica.marks.log_end_offset == asked.log_end_offset
        )

    def _pause(self, key: Key, now_ms: int) -> None:
        if key in self._replicas:
            self._paused[key] = now_ms + self._pause_ms
            self._touched[key] = None
