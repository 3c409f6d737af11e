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
- one whose log is out of service.

Invariants:
* The response for a partition is used only if the partition still follows the same leader in the
  same epoch as in the request, its log ends where it ended then, and there is room on its disk.
* The cost of a round depends on the changes: `_touched` has every partition whose log or role may
  differ from the last request. These are partitions that were added, that have told of a change
  (`on_changed`), that a response named, or whose pause ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from moldau.broker.replication import follower
from moldau.broker.replication.follower import Action, Marks
from moldau.broker.replication.session import (
    FollowerPosition,
    FollowerSession,
    FollowerSessionRequest,
)
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


R = TypeVar("R", bound=Replica)


class RequestedPartition(NamedTuple, Generic[R]):
    """A partition of the last request, as it was then."""

    key: Key
    replica: R
    leader_epoch: int
    log_end_offset: int


class LogStep(NamedTuple, Generic[R]):
    """What must be done with the log of a replica."""

    key: Key
    replica: R
    action: Action
    """APPEND, TRUNCATE or START_AT."""
    offset: int
    data: PartitionData | None
    """The records and marks for APPEND."""


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
    refusals: tuple[Refusal[R], ...] = ()
    request: FollowerSessionRequest | None = None
    """Send it, and tell `on_response`, `on_failed` or `on_given_up`."""
    deadline_ms: int | None = None
    """The next time at which there may be something to do; None: after the next change."""

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do before the deadline."""
        return not (self.steps or self.questions or self.refusals or self.request)


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
                self._steps.append(
                    LogStep(asked.key, asked.replica, step.action, step.offset, None)
                )

    def on_no_ends(self, asked: RequestedPartition[R], now_ms: int) -> None:
        """The leader did not tell where its log begins and ends."""
        self._pause(asked.key, now_ms)

    # Decisions.

    def ready(self, now_ms: int) -> Ready[R]:
        """Return what there is to do."""
        if self._steps or self._questions or self._refusals:
            done = Ready(tuple(self._steps), tuple(self._questions), tuple(self._refusals))
            self._steps, self._questions, self._refusals = [], [], []
            return done
        if now_ms < self._rest_until_ms:
            return Ready(deadline_ms=self._rest_until_ms)
        tell = self._session.next(*self._changes(now_ms))
        if not self._asked:
            self._session.end(is_known=True)  # the leader does not learn about this
            return Ready(deadline_ms=min(self._paused.values(), default=None))
        return Ready(request=tell)

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
            if known is None or self._is_left_out(key, known, now_ms):
                if self._asked.pop(key, None) is not None:
                    gone.append(key)
                continue
            epoch, marks = known.leader_epoch, known.marks
            self._asked[key] = RequestedPartition(key, known, epoch, marks.log_end_offset)
            changed[key] = FollowerPosition(
                epoch,
                marks.log_end_offset,
                marks.last_epoch,
                marks.log_start_offset,
                self._bytes_max,
            )
        return changed, gone

    def _is_left_out(self, key: Key, replica: R, now_ms: int) -> bool:
        if key in self._paused or not replica.is_in_service:
            return True
        if replica.is_short_of_room:
            self._paused[key] = now_ms + SHORT_MS
            return True
        return False

    def _judge(self, asked: RequestedPartition[R], data: PartitionData, now_ms: int) -> None:
        code = data.error_code
        step = follower.on_fetched(asked.replica.marks, code, data.diverging_epoch)
        if step.action is Action.ASK_ENDS:
            self._questions.append(asked)
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
