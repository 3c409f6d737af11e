"""A shard in a few lines: the table of groups, its log in memory, and time that is told to go on.

Each record goes through its bytes on the way to the log. After every step the invariants are
checked: see `invariants`; and what is live must be what the log would bring back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from moldau.broker.coordinator.group.consumer.group import ConsumerGroup, replay
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.group.consumer.validation import check_heartbeat
from moldau.broker.coordinator.group.contract import Group
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.group.kinds import Kinds
from moldau.broker.coordinator.group.offsets import Offsets
from moldau.broker.coordinator.outcome import LogRecord, Outcome
from moldau.broker.coordinator.shard import NO_PRODUCER
from moldau.broker.decision.context import RequestContext
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import LogKey, LogValue, Request, Response
from moldau.protocol.messages.consumer_group_describe import DescribedGroup
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest
from moldau.protocol.messages.sync_group import SyncGroupRequest
from moldau.protocol.schemas.consumer_group_log import ConsumerGroupMetadataKey
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from tests.broker.coordinator.consumer.invariants import check_state
from tests.broker.coordinator.consumer.world import World

GROUP = "g"
HOST = "/127.0.0.1"

Answer = Response | KafkaError


class Shard:
    """One group's coordinator."""

    def __init__(
        self,
        sizes: Mapping[str, int] | None = None,
        named: Mapping[str, object] | None = None,
        seed: int = 0,
        group_id: str = GROUP,
    ) -> None:
        self.group_id = group_id
        self.world = World(sizes, named, seed)
        self.now_ms = 1_000
        self.log: list[LogRecord] = []
        self.refusal: ErrorCode | None = None
        self._answers: dict[int, Answer] = {}
        self._tickets = 0
        self.groups = Groups(self.world, Kinds(), Offsets())

    # What happens

    def ask(self, request: Request, version: int, client_id: str = "client") -> int:
        """A request comes in; its ticket."""
        self._tickets += 1
        ticket = self._tickets
        context = RequestContext(client_id, HOST, version, "PLAINTEXT")
        try:
            if isinstance(request, ConsumerGroupHeartbeatRequest):
                check_heartbeat(request, version, self.world.settings)
            outcome = self._decide(request, context)(ticket, self.now_ms)
        except KafkaError as refused:
            self._answers[ticket] = refused
            self._settle()
        else:
            self._apply(outcome)
        self._tick()
        return ticket

    def take(self, ticket: int) -> Answer | None:
        """The answer, if there is one by now."""
        return self._answers.pop(ticket, None)

    def hear(self, request: Request, version: int, client_id: str = "client") -> Answer:
        """Ask, and the answer that must come at once."""
        answer = self.take(self.ask(request, version, client_id))
        assert answer is not None
        return answer

    def wait(self, wait_ms: int) -> None:
        """Time goes by."""
        until_ms = self.now_ms + wait_ms
        while True:
            due_ms = self._due_ms()
            if due_ms is None or due_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self._tick()
        self.now_ms = until_ms

    def change_topic(self, name: str, size: int | None) -> None:
        """The topic is created, grows, or (None) is deleted."""
        if size is None:
            self.world.cluster.remove(name)
        else:
            self.world.cluster.put(name, size)
        gone = [name] if size is None else []
        for outcome in self.groups.on_topics_changed([name], gone, self.now_ms):
            self._apply(outcome)
        self._tick()

    def fail_over(self) -> None:
        """Another broker leads, and reads the log."""
        self.groups.on_unloaded()
        self.groups = Groups(self.world, Kinds(), Offsets())
        for offset, record in enumerate(self.log):
            self._replay(self.groups, offset, record)
        self._settle()
        self._tick()

    # What is

    @property
    def group(self) -> Group | None:
        return self.groups.get(self.group_id)

    @property
    def state(self) -> ConsumerGroupState:
        group = self.group
        assert isinstance(group, ConsumerGroup)
        return group.state

    def describe(self) -> DescribedGroup:
        group = self.group
        assert isinstance(group, ConsumerGroup)
        return group.describe()

    # How its runtime does it

    def _decide(self, request: Request, context: RequestContext) -> Callable[[int, int], Outcome]:
        match request:
            case ConsumerGroupHeartbeatRequest():
                return partial(self.groups.on_consumer_group_heartbeat, request, context)
            case JoinGroupRequest():
                return partial(self.groups.on_join_group, request, context)
            case SyncGroupRequest():
                return partial(self.groups.on_sync_group, request)
            case HeartbeatRequest():
                return partial(self.groups.on_heartbeat, request)
            case LeaveGroupRequest():
                return partial(self.groups.on_leave_group, request)
        raise AssertionError(f"no request of members: {request}")

    def _apply(self, outcome: Outcome) -> None:
        if outcome.records and self.refusal is not None:
            error, self.refusal = KafkaError(self.refusal), None
            failed: Outcome = Outcome(
                answers=tuple((ticket, error) for ticket, _ in outcome.answers)
            )
            if outcome.on_failure is not None:
                failed = outcome.on_failure(error, self.now_ms)
            outcome = failed
        for record in outcome.records:
            record = through_bytes(record)
            self.log.append(record)
            self._replay(self.groups, len(self.log) - 1, record)
        for ticket, answer in outcome.answers:
            assert isinstance(ticket, int)
            assert ticket not in self._answers
            self._answers[ticket] = answer
        self._settle()

    def _replay(self, groups: Groups, offset: int, record: LogRecord) -> None:
        groups.replay(offset, NO_PRODUCER, record.key, record.value, self.now_ms)

    def _settle(self) -> None:
        if not self.groups.is_settled:
            more = self.groups.settle(self.now_ms)
            if more is not None:
                self._apply(more)
        group = self.group
        if isinstance(group, ConsumerGroup):
            check_state(group.state)
            assert durable(group.state) == durable(self._read_anew())

    def _read_anew(self) -> ConsumerGroupState:
        """The state that the records since the group's last end give."""
        state = ConsumerGroupState(self.group_id, self.world)
        for record in self.log:
            if isinstance(record.key, ConsumerGroupMetadataKey) and record.value is None:
                state = ConsumerGroupState(self.group_id, self.world)
            elif type(record.key).__name__.startswith("ConsumerGroup"):
                replay(state, record.key, record.value)
        return state

    def _tick(self) -> None:
        while (due_ms := self._due_ms()) is not None and due_ms <= self.now_ms:
            self._apply(self.groups.on_tick(self.now_ms))

    def _due_ms(self) -> int | None:
        """Of the group; when offsets expire is not looked at here."""
        group = self.group
        if group is None or group.next_deadline_ms() is None:
            return None
        return self.groups.next_deadline_ms()


def through_bytes(record: LogRecord) -> LogRecord:
    """As it comes back from the log."""
    key = GROUP_LOG.encode_key(record.key)
    value = None
    if record.value is not None:
        assert record.version is not None
        value = GROUP_LOG.encode_value(record.value, record.version)
    read: tuple[LogKey, LogValue | None] = GROUP_LOG.decode(key, value)
    return LogRecord(*read, record.version)


def durable(state: ConsumerGroupState) -> tuple[object, ...]:
    """Everything that the log must bring back."""
    return (
        state.epoch,
        state.metadata_hash,
        state.target_epoch,
        state.target_timestamp_ms,
        state.members,
        state.target,
        state.resolved,
        state.static,
        state.owners,
        state.names,
        state.regexes,
        state.assignors,
        state.classic_protocols,
        state.classic_count,
    )
