"""Where one classic group lives in tests: the table of groups and its runtime in a few lines.

It appends a record, replays it, and gives the answers, or refuses the append; the clock goes on
when it is told to. After each event the invariants are checked: the group's own, each ticket
answered once, every answer encodable, and what is live is what the log would bring back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from moldau.broker.coordinator.group.classic import offsets
from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.classic.states import ClassicGroupState
from moldau.broker.coordinator.group.classic.validation import check_join, check_sync
from moldau.broker.coordinator.outcome import LogRecord, Outcome
from moldau.broker.decision.context import RequestContext
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import response_class
from moldau.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from moldau.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest
from moldau.protocol.schemas.group_log import GroupMetadataValue
from tests.broker.coordinator.classic.world import SmallWorld

GROUP = "g"
HOST = "/127.0.0.1"
NULL_PROTOCOL_NAME_SINCE = 7
LEAVE_IN_BATCHES_SINCE = 3


class Asked(NamedTuple):
    """One request: a ticket is this object itself."""

    number: int
    label: str
    request: Request
    version: int

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class Place:
    """One group, or none yet, and its log."""

    def __init__(self, settings: Mapping[str, object] | None = None, seed: int = 0) -> None:
        self.world = SmallWorld(settings, seed)
        self.now_ms = 0
        self.group: ClassicGroup | None = None
        self.log: list[LogRecord] = []
        self.parked: set[Asked] = set()
        self.answered: list[tuple[Asked, Response]] = []
        self.refusal: ErrorCode | None = None
        self._count = 0

    # What happens.

    def ask(self, label: str, request: Request, version: int) -> Asked:
        """A request comes in; its answer is among `take_answers` when there is one."""
        self._count += 1
        read = type(request).decode(request.encode(version), version)
        asked = Asked(self._count, label, read, version)
        self.parked.add(asked)
        try:
            self._answer_or_decide(asked)
        except KafkaError as error:
            self._give(asked, self._response(asked, error.code))
        self._settle()
        return asked

    def wait(self, wait_ms: int) -> None:
        """Time goes by."""
        until_ms = self.now_ms + wait_ms
        while (due_ms := self._next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self._tick()
        self.now_ms = until_ms

    def refuse_next(self, code: ErrorCode) -> None:
        """The next append will not be taken, with that error of the log."""
        self.refusal = code

    def fail_over(self) -> None:
        """Another broker leads: whoever is parked hears so, and the log is read anew."""
        if self.group is not None:
            for ticket in self.group.on_unloaded():
                assert isinstance(ticket, Asked)
                self._give(ticket, self._response(ticket, ErrorCode.NOT_COORDINATOR))
        self.group = self._loaded()
        if self.group is not None:
            self._apply(self.group.on_loaded(self.now_ms))
        self._settle()

    def take_answers(self) -> list[tuple[Asked, Response]]:
        """What has been answered since the last time."""
        taken, self.answered = self.answered, []
        return taken

    # How the table does it.

    def _answer_or_decide(self, asked: Asked) -> None:
        request, version = asked.request, asked.version
        if isinstance(request, JoinGroupRequest):
            self._join(asked, request)
        elif isinstance(request, SyncGroupRequest):
            refusal = check_sync(request, version)
            if refusal is not None:
                self._give(asked, refusal)
            else:
                group = self._known(asked)
                self._apply(group.on_sync_group(request, asked, self.now_ms))
        elif isinstance(request, HeartbeatRequest):
            group = self._known(asked)
            self._apply(group.on_heartbeat(request, asked, self.now_ms))
        elif isinstance(request, LeaveGroupRequest):
            if version < LEAVE_IN_BATCHES_SINCE:
                request.members = [MemberIdentity(member_id=request.member_id)]
            if self.group is None:
                self._give(asked, _nobody_left(request))
            else:
                group = self.group
                self._apply(group.on_leave_group(request, asked, self.now_ms))
        else:
            self._give(asked, self._administer(request, version))

    def _join(self, asked: Asked, request: JoinGroupRequest) -> None:
        refusal = check_join(request, self.world.settings)
        if refusal is not None:
            self._give(asked, refusal)
            return
        is_new = self.group is None
        if self.group is None:
            if request.member_id:
                self._give(asked, _refused_join(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
                return
            self.group = ClassicGroup(GROUP, self.world)
        size = len(self.log)
        self._apply(self.group.on_join_group(request, context(asked), asked, self.now_ms))
        if is_new and len(self.log) == size:
            self.group = None

    def _known(self, asked: Asked) -> ClassicGroup:
        if self.group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return self.group

    def _administer(self, request: Request, version: int) -> Response:
        if isinstance(request, DescribeGroupsRequest):
            return DescribeGroupsResponse(groups=[self._described(version)])
        if isinstance(request, OffsetCommitRequest):
            return self._commit(request, version)
        if isinstance(request, OffsetDeleteRequest):
            return self._delete_offsets(request)
        assert isinstance(request, DeleteGroupsRequest)
        code = self._delete()
        return DeleteGroupsResponse(
            throttle_time_ms=0, results=[DeletableGroupResult(group_id=GROUP, error_code=code)]
        )

    def _described(self, version: int) -> DescribedGroup:
        if self.group is not None:
            return self.group.describe()
        is_told = version >= 6
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.NONE,
            error_message=f"Group {GROUP} not found." if is_told else None,
            group_id=GROUP,
            group_state="Dead",
            protocol_type="",
            protocol_data="",
            members=[],
        )

    def _commit(self, request: OffsetCommitRequest, version: int) -> Response:
        code = ErrorCode.NONE
        member_id, epoch = request.member_id, request.generation_id_or_member_epoch
        try:
            if self.group is None:
                if epoch >= 0:
                    is_told = version >= 9
                    raise KafkaError(
                        ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.ILLEGAL_GENERATION
                    )
                self.group = ClassicGroup(GROUP, self.world)
            instance_id = request.group_instance_id
            self.group.check_commit(member_id, instance_id, epoch, version, is_txn=False)
            self.group.on_commit(member_id, self.now_ms)
        except KafkaError as error:
            code = error.code
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=each.name,
                    partitions=[OffsetCommitResponsePartition(partition_index=0, error_code=code)],
                )
                for each in request.topics
            ]
        )

    def _delete_offsets(self, request: OffsetDeleteRequest) -> Response:
        if self.group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        self.group.check_offset_delete()
        return OffsetDeleteResponse(
            error_code=0,
            throttle_time_ms=0,
            topics=[self._deleted_offsets(each.name) for each in request.topics],
        )

    def _deleted_offsets(self, topic: str) -> OffsetDeleteResponseTopic:
        assert self.group is not None
        is_read = self.group.is_subscribed_to(topic)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        partition = OffsetDeleteResponsePartition(partition_index=0, error_code=code)
        return OffsetDeleteResponseTopic(name=topic, partitions=[partition])

    def _delete(self) -> ErrorCode:
        if self.group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        try:
            self.group.check_delete()
        except KafkaError as error:
            return error.code
        self.log.extend(self.group.tombstones())
        self.group = None
        return ErrorCode.NONE

    # How its runtime does it.

    def _apply(self, outcome: Outcome) -> None:
        if outcome.records and self.refusal is not None:
            error, self.refusal = KafkaError(self.refusal), None
            assert outcome.on_failure is not None
            outcome = outcome.on_failure(error, self.now_ms)
            assert not outcome.records, "what follows a refused append appends nothing"
        for record in outcome.records:
            assert record.version is not None
            assert isinstance(record.value, GroupMetadataValue)
            assert self.group is not None
            encoded = record.value.encode(record.version)
            assert GroupMetadataValue.decode(encoded, record.version) == record.value
            self.log.append(record)
            self.group.replay_group_metadata(record.value, self.now_ms)
        for ticket, answer in outcome.answers:
            assert isinstance(ticket, Asked)
            if isinstance(answer, KafkaError):
                answer = self._response(ticket, answer.code)
            self._give(ticket, answer)

    def _tick(self) -> None:
        assert self.group is not None
        self._apply(self.group.on_tick(self.now_ms))
        self._check()

    def _settle(self) -> None:
        """What is due at once is done at once."""
        self._check()
        while (due_ms := self._next_deadline_ms()) is not None and due_ms <= self.now_ms:
            self._tick()

    def _next_deadline_ms(self) -> int | None:
        return None if self.group is None else self.group.next_deadline_ms()

    def _give(self, asked: Asked, response: Response) -> None:
        assert asked in self.parked, "answered twice"
        self.parked.discard(asked)
        if isinstance(response, JoinGroupResponse):
            is_nameless = response.protocol_name is None
            if is_nameless and asked.version < NULL_PROTOCOL_NAME_SINCE:
                response.protocol_name = ""
        if isinstance(response, LeaveGroupResponse) and asked.version < LEAVE_IN_BATCHES_SINCE:
            (only,) = response.members
            response = LeaveGroupResponse(error_code=response.error_code or only.error_code)
        assert type(response).spec.key == type(asked.request).spec.key, "another API's answer"
        read = type(response).decode(response.encode(asked.version), asked.version)
        assert isinstance(read, Response)
        self.answered.append((asked, read))

    def _response(self, asked: Asked, code: ErrorCode) -> Response:
        cls: Any = response_class(type(asked.request).spec.key or 0)
        if cls is JoinGroupResponse:
            return _refused_join(code)
        needed: dict[str, Any] = {"SyncGroupResponse": {"assignment": b""}}.get(cls.__name__, {})
        if cls is OffsetDeleteResponse:
            needed = {"throttle_time_ms": 0, "topics": []}
        made = cls(error_code=code, **needed)
        assert isinstance(made, Response)
        return made

    # What must hold.

    def _check(self) -> None:
        if self.group is None:
            return
        self.group.check()
        waiting = {
            ticket
            for member in self.group.members.values()
            for ticket in (member.join_ticket, member.sync_ticket)
            if ticket is not None
        }
        assert waiting == self.parked, "a ticket is lost, or kept though it was answered"
        sessions = self.group._group.deadlines
        for member in self.group.members.values():
            assert member.join_ticket or member.sync_ticket or member.member_id in sessions
        assert all(each in sessions for each in self.group._group.pending_joins)
        if self.group.state is ClassicGroupState.STABLE and self.log:
            loaded = self._loaded()
            assert loaded is not None
            assert settled(loaded) == settled(self.group)

    def _loaded(self) -> ClassicGroup | None:
        """What reading the log gives."""
        group = None
        for record in self.log:
            if record.value is None:
                group = None
                continue
            assert isinstance(record.value, GroupMetadataValue)
            group = group or ClassicGroup(GROUP, self.world)
            group.replay_group_metadata(record.value, self.now_ms)
        return group


def context(asked: Asked) -> RequestContext:
    """Each label is a client of its own."""
    return RequestContext(asked.label, HOST, asked.version, "PLAINTEXT")


def settled(group: ClassicGroup) -> tuple[object, ...]:
    """What must survive a failover of a stable group."""
    return (
        group.state,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        {
            each.member_id: (
                each.instance_id,
                each.client_id,
                each.session_timeout_ms,
                each.rebalance_timeout_ms,
                each.metadata(group.protocol_name),
                each.assignment,
            )
            for each in group.members.values()
        },
        offsets.is_subscribed_to(group._group, "t1"),
    )


def _refused_join(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, protocol_name=None, leader="", member_id=member_id, members=[]
    )


def _nobody_left(request: LeaveGroupRequest) -> LeaveGroupResponse:
    members: Iterable[MemberResponse] = (
        MemberResponse(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=ErrorCode.UNKNOWN_MEMBER_ID,
        )
        for each in request.members
    )
    return LeaveGroupResponse(error_code=0, members=list(members))
