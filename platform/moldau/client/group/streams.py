"""A member of a streams group (KIP-1071): tasks of a topology, in three roles. No IO.

It lives by heartbeats (`heartbeats`). Joining, it sends the topology of its application; the
coordinator answers with tasks, one for each partition of a subtopology:

- *Active* tasks run. Their input partitions are what the member owns, so they change as partitions
  of a consumer do: revoked and committed, then assigned.
- *Standby* and *warm-up* tasks keep a copy of the state, and own no partition. They come and go
  with the next change of kind ASSIGNED, which may have no partitions: the user closes those that
  are not in `tasks` any more, and opens the new ones. Only then they are reported.

Invariants:
- `tasks` is what the user was given by the last change that has begun. A heartbeat reports it only
  between changes, so nothing is reported as given up that the user still has.
- A task is in one role at a time; the coordinator gives a task in another role only after the
  first one was reported as given up.

A response has tasks only if they have changed. If a response may have been lost, and the next one
has no tasks, an assignment may be missing: the member gives all up in order and joins again, which
is answered with tasks in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from moldau.client.group.assignors import Topics
from moldau.client.group.heartbeats import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    OWNED,
    HeartbeatMember,
    HeartbeatState,
)
from moldau.client.group.member import Change, Kind, MemberSettings, Ready, reassigned
from moldau.client.group.topology import TopologyDescription, topology_message
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Response
from moldau.protocol.messages import streams_group_heartbeat as messages
from moldau.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from random import Random

_NO_ENDPOINTS: Final = -1
_NOT_SENT: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""No broker was reached, so no response was lost."""
_DELAYED: Final = 5
"""The status of a group that waits for more members before it assigns tasks."""
_SHUTDOWN_APPLICATION: Final = 4
"""The status of a group of which a member has asked all to stop."""
_SOON_S: Final = 0.2
"""How soon a member without tasks asks again for those that its group delays."""
_HINTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNSUPPORTED_VERSION: "the broker has no streams groups: it needs moldau, or Apache "
    "Kafka 4.2 with streams.version=1, and 4.4 for members with a group.instance.id; or set "
    "group.protocol=classic",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as the broker's "
    "group.streams.max.size allows",
    ErrorCode.INVALID_REQUEST: "if the app has changed, or its inputs have more partitions: Apache "
    "Kafka takes no changed topology in a streams group; set group.protocol=classic, give the app "
    "another name, or let it begin again with moldau streams reset",
}
_OTHER_TYPE: Final = frozenset(
    (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
)
"""A member that joins is refused so while the group has members of another protocol."""
_WAITING: Final = (
    "the group is of another type: its members have another group.protocol, or it is no group of "
    "workers. This one waits, and joins when the last of them has stopped"
)


class GroupTask(NamedTuple):
    """A task: one partition of a subtopology."""

    subtopology: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupTasks:
    """The tasks of one member."""

    active: frozenset[GroupTask] = frozenset()
    standby: frozenset[GroupTask] = frozenset()
    warmup: frozenset[GroupTask] = frozenset()

    @property
    def copies(self) -> frozenset[GroupTask]:
        """The tasks of which it keeps a copy of the state."""
        return self.standby | self.warmup


NO_TASKS: Final = GroupTasks()


class TaskPosition(NamedTuple):
    """How far the state of a task is: everything below `offset` of its changelogs, which are
    summed, is in it; `end` is how far they go."""

    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """What a member says of its process. `endpoint` is where others can query its state."""

    process_id: str
    endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)


class StreamsMember(HeartbeatMember):
    """One member of a streams group."""

    response: ClassVar[type[Response]] = StreamsGroupHeartbeatResponse
    api: ClassVar[str] = "StreamsGroupHeartbeat"
    hints: ClassVar[Mapping[ErrorCode, str]] = _HINTS
    session_setting: ClassVar[str] = "streams.session.timeout.ms"

    def __init__(
        self,
        terms: MemberSettings,
        member_id: str,
        random: Random,
        topology: Callable[[], TopologyDescription],
        process: StreamsSettings,
    ) -> None:
        """`topology` is called before each join."""
        super().__init__(terms, member_id, random)
        self._topology_of = topology
        self.topology = topology()
        self.tasks = NO_TASKS
        """The tasks that the user was given."""
        self.active_owners: Mapping[TopicPartition, str] = {}
        """host:port of the process that has the active task of an input partition."""
        self.standby_owners: Mapping[TopicPartition, tuple[str, ...]] = {}
        """host:port of the processes that have a copy of it."""
        self.statuses: tuple[str, ...] = ()
        """What hinders the group, as the coordinator says it."""
        self.ends_app = False
        """Whether it asks all members to stop when it leaves."""
        self.is_app_ended = False
        """Whether a member has asked all to stop."""
        self._process = process
        self._target = NO_TASKS
        self._planned = NO_TASKS
        self._counts: dict[str, int] = {}
        self._unknown = frozenset[str]()
        self._endpoint_epoch = _NO_ENDPOINTS
        self._has_missed = False
        """Whether a response may have been lost."""
        self._report_interval_s = 0.0
        """How often the coordinator wants positions; 0: never."""
        self._acceptable_lag = 0
        self._report_at = 0.0
        self._positions: tuple[tuple[GroupTask, TaskPosition], ...] = ()
        self._near = frozenset[GroupTask]()
        """The warm-ups that were near their ends when positions were reported last."""
        self._rejoins = False
        """Whether it gives all up to join again."""
        self._is_waiting = False
        """Whether members of another protocol keep it out."""

    # Heartbeats

    def _request(self, epoch: int, news: Mapping[str, Any]) -> StreamsGroupHeartbeatRequest:
        request = StreamsGroupHeartbeatRequest(
            group_id=self.terms.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.terms.instance_id,
            endpoint_information_epoch=self._endpoint_epoch,
        )
        for name, each in news.items():
            if name == OWNED:
                active, standby, warmup = each
                request.active_tasks = _as_message(active)
                request.standby_tasks = _as_message(standby)
                request.warmup_tasks = _as_message(warmup)
            elif name == "user_endpoint":
                host, port = each
                request.user_endpoint = messages.Endpoint(host=host, port=port)
            elif name == "client_tags":
                request.client_tags = [
                    messages.KeyValue(key=key, value=value) for key, value in each
                ]
            elif name == "positions":
                request.task_offsets = [_task_offset(task, at.offset) for task, at in each]
                request.task_end_offsets = [_task_offset(task, at.end) for task, at in each]
            else:
                setattr(request, name, each)
        if epoch == JOIN_EPOCH:
            request.topology = topology_message(self.topology)
        return request

    def _parting(self) -> StreamsGroupHeartbeatRequest:
        is_static = self.terms.instance_id is not None
        stays = is_static and self.terms.leaves_when_closed is None and not self.ends_app
        epoch = LEAVE_STATIC_EPOCH if stays else LEAVE_EPOCH
        return self._request(epoch, {"shutdown_application": self.ends_app})

    def _report(self) -> dict[str, object]:
        return {
            "rebalance_timeout_ms": round(self.terms.poll_interval_s * 1000),
            "rack_id": self.terms.rack,
            "process_id": self._process.process_id,
            "user_endpoint": self._process.endpoint,
            "client_tags": tuple(sorted(self._process.client_tags.items())),
            **({"positions": self._positions} if self._report_interval_s else {}),
        }

    def _owned_report(self) -> tuple[tuple[GroupTask, ...], ...]:
        if self.state is HeartbeatState.JOINING:
            return (), (), ()
        tasks = self.tasks
        return tuple(tuple(sorted(each)) for each in (tasks.active, tasks.standby, tasks.warmup))

    def on_answer(self, answer: Response | KafkaError, now: float) -> None:
        """Apply the coordinator's answer, or the failure to get one."""
        if isinstance(answer, KafkaError) and answer.code is not _NOT_SENT:
            self._has_missed = True
        super().on_answer(answer, now)

    def _accepted(self, answer: StreamsGroupHeartbeatResponse, now: float) -> None:
        self._take_endpoints(answer)
        self._take_statuses(answer)
        self._report_interval_s = answer.task_offset_interval_ms / 1000
        self._acceptable_lag = max(0, answer.acceptable_recovery_lag)
        if self._has_missed and answer.active_tasks is None:
            self._rejoins = True
        self._has_missed = self._is_waiting = False
        super()._accepted(answer, now)
        if self.statuses and not (self._target.active or self._target.copies):
            self._next_heartbeat = min(self._next_heartbeat, now + _SOON_S)

    def _refused(self, code: ErrorCode, message: str, now: float) -> None:
        if code in _OTHER_TYPE and self.epoch == JOIN_EPOCH:
            self._retries.put_off(now)
            if not self._is_waiting:
                self._is_waiting = True
                self.notices.append(MoldauError(_WAITING, group=self.terms.group_id))
            return
        super()._refused(code, message, now)

    def _take_target(self, answer: StreamsGroupHeartbeatResponse) -> bool:
        if self._rejoins:
            self._target = NO_TASKS
            return True
        if answer.active_tasks is None:
            return False
        self._target = GroupTasks(
            _tasks_in(answer.active_tasks),
            _tasks_in(answer.standby_tasks or ()),
            _tasks_in(answer.warmup_tasks or ()),
        )
        return True

    def on_positions(self, positions: Mapping[GroupTask, TaskPosition], now: float) -> None:
        """Report how far the copies are: as often as the coordinator wants it, and at once when a
        warm-up has come near, because its task moves then."""
        if not self._report_interval_s:
            return
        near = frozenset(
            task
            for task in self.tasks.warmup
            if task in positions
            and positions[task].end - positions[task].offset <= self._acceptable_lag
        )
        is_news = not near <= self._near
        if now < self._report_at and not is_news:
            return
        self._report_at = now + self._report_interval_s
        self._near = near
        self._positions = tuple(sorted(positions.items()))
        if is_news and self.state is HeartbeatState.STABLE:
            self._next_heartbeat = 0.0

    def on_tags(self, tags: Mapping[str, str]) -> None:
        """Report these client tags from now on, at once."""
        self._process = replace(self._process, client_tags=tags)
        self._next_heartbeat = 0.0

    def _take_endpoints(self, answer: StreamsGroupHeartbeatResponse) -> None:
        self._endpoint_epoch = answer.endpoint_information_epoch
        if answer.partitions_by_user_endpoint is None:
            return
        active: dict[TopicPartition, str] = {}
        standby: dict[TopicPartition, tuple[str, ...]] = {}
        for each in answer.partitions_by_user_endpoint:
            host, port = each.user_endpoint.host, each.user_endpoint.port
            server = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            active.update(dict.fromkeys(_partitions_in(each.active_partitions), server))
            for where in _partitions_in(each.standby_partitions):
                standby[where] = (*standby.get(where, ()), server)
        self.active_owners, self.standby_owners = active, standby

    def _take_statuses(self, answer: StreamsGroupHeartbeatResponse) -> None:
        """Log what hinders the group, once. That it waits for more members at its start is no
        hindrance."""
        given = answer.status or ()
        found = tuple(each.status_detail for each in given)
        for each in given:
            if each.status_code != _DELAYED and each.status_detail not in self.statuses:
                self.notices.append(MoldauError(each.status_detail, group=self.terms.group_id))
        self.statuses = found
        self.is_app_ended = any(each.status_code == _SHUTDOWN_APPLICATION for each in given)

    def _forget_target(self) -> None:
        self.topology = self._topology_of()
        self._target = self._planned = NO_TASKS
        self._unknown = frozenset()
        self._endpoint_epoch = _NO_ENDPOINTS
        self._has_missed = self._rejoins = False
        self._near = frozenset()
        self._report_interval_s = 0.0
        self._report_at = 0.0

    # The partitions of tasks

    def _look_up(self) -> Ready | None:
        return Ready(topics=self._unknown, wake=self._next_heartbeat) if self._unknown else None

    def on_topics(self, topics: Topics, now: float) -> None:
        """Take the partition counts of topics that it required."""
        self._counts |= {name: len(topics[name]) for name in self._unknown if name in topics}
        before, self._unknown = self._unknown, self._missing(self._target.active)
        if before == self._unknown:
            self._retries.put_off(now)
        self._reconcile()

    def _missing(self, tasks: Iterable[GroupTask]) -> frozenset[str]:
        """Return the inputs of tasks whose partitions are not known. A task with a number that no
        input has is of a topic that has grown."""
        missing: set[str] = set()
        for task in tasks:
            inputs = self.topology.inputs_of(task.subtopology)
            counts = [self._counts.get(name, 0) for name in inputs]
            if not all(counts) or task.partition >= max(counts, default=0):
                missing.update(inputs)
        return frozenset(missing)

    def _partitions(self, tasks: Iterable[GroupTask]) -> list[TopicPartition]:
        return sorted(
            TopicPartition(name, task.partition)
            for task in tasks
            for name in self.topology.inputs_of(task.subtopology)
            if task.partition < self._counts.get(name, 0)
        )

    # Getting there

    def _reconcile(self) -> None:
        if self.state is not HeartbeatState.RECONCILING or self._running is not None:
            return
        self._unknown = self._missing(self._target.active)
        if self._unknown:
            return
        giving_up, taking = reassigned(self.owned, self._partitions(self._target.active))
        is_new = bool(taking.partitions) or not self._target.copies <= self.tasks.copies
        if is_new and self._is_reporting_owned():
            return  # its response calls this method again
        self._planned = self._target
        if giving_up is not None or taking.partitions or self._target != self.tasks:
            self._plan(*([] if giving_up is None else [giving_up]), taking)
        else:
            self._plan()
            self._acknowledge()

    def _acknowledge(self) -> None:
        if self._rejoins:
            self._join_again()
        else:
            super()._acknowledge()

    def begin_change(self) -> Change | None:
        """Return the change to run now; the user has to have `tasks` when it ends."""
        change = super().begin_change()
        if change is None:
            return None
        if change.kind is Kind.ASSIGNED:
            self.tasks = self._planned
        elif not change.owned:
            # Copies stay until the change that assigns the rest, unless the member leaves.
            keeps = self._changes or self.state is HeartbeatState.RECONCILING
            self.tasks = replace(self.tasks, active=frozenset()) if keeps else NO_TASKS
        else:
            kept = set(change.owned)
            self.tasks = replace(
                self.tasks,
                active=frozenset(
                    each
                    for each in self.tasks.active
                    if not kept.isdisjoint(self._partitions([each]))
                ),
            )
        return change

    def _changed(self, now: float) -> None:
        if self.state is HeartbeatState.FENCED:
            self._join_unless_changing()
        elif not self._changes:
            self._reconcile()

    def _lose_everything(self) -> None:
        """Lose the partitions; copies go with them, though they are of no partition."""
        owned = self._owned_soon()
        has_copies = bool(self.tasks.copies or self.tasks.active)
        self._plan(*[Change(Kind.LOST, owned, ())] if owned or has_copies else [])


def _as_message(tasks: Iterable[GroupTask]) -> list[messages.TaskIds]:
    by_name: dict[str, list[int]] = {}
    for each in sorted(tasks):
        by_name.setdefault(each.subtopology, []).append(each.partition)
    return [
        messages.TaskIds(subtopology_id=name, partitions=found) for name, found in by_name.items()
    ]


def _tasks_in(named: Iterable[messages.TaskIds]) -> frozenset[GroupTask]:
    return frozenset(
        GroupTask(each.subtopology_id, partition) for each in named for partition in each.partitions
    )


def _partitions_in(named: Iterable[messages.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, number) for each in named for number in each.partitions]


def _task_offset(task: GroupTask, offset: int) -> messages.TaskOffset:
    return messages.TaskOffset(
        subtopology_id=task.subtopology, partition=task.partition, offset=offset
    )
