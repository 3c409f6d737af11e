"""Any members, any order, a log that refuses records, failovers: what must hold all the same.

`Place` checks after each event that no ticket is lost or answered twice, that the state is in order
and that a settled group is what its log says. Here is what members can tell: who leads, which
generation, whose assignment they have.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.broker.coordinator.group.classic.states import ClassicGroupState
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from moldau.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.broker.coordinator.classic.place import GROUP, Asked, Place

LABELS = ("a", "b", "c", "d", "e")
FOREVER_MS = 3_600_000
REFUSALS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.RECORD_LIST_TOO_LARGE,
)
OFFERS = (
    ("range",),
    ("range", "sticky"),
    ("sticky", "range"),
    ("range", "robin", "sticky"),
    ("robin", "sticky"),
)

labels = st.sampled_from(LABELS)


@dataclass
class Client:
    """What one client believes."""

    member_id: str = ""
    generation: int = -1
    protocol: str = "range"
    instance_id: str | None = None
    members: list[str] = field(default_factory=list)


class Members(RuleBasedStateMachine):
    """Clients, one group."""

    @initialize(
        delay_ms=st.sampled_from([0, 500]),
        size=st.integers(1, 5),
        statics=st.sets(labels),
    )
    def begin(self, delay_ms: int, size: int, statics: set[str]) -> None:
        self.place = Place(
            {
                "group.initial.rebalance.delay.ms": delay_ms,
                "group.min.session.timeout.ms": 1,
                "group.max.size": size,
            }
        )
        self.size = size
        self.clients = {
            each: Client(instance_id=f"static-{each}" if each in statics else None)
            for each in LABELS
        }
        self.syncs = 0
        self._new_life()
        self._new_group()

    def _new_life(self) -> None:
        """Of the coordinator: what it had not recorded is forgotten."""
        self.highest = -1
        self.leaders: dict[int, set[str]] = {}

    def _new_group(self) -> None:
        self.given: dict[int, set[str]] = {}

    # What clients do.

    @rule(
        label=labels,
        offer=st.sampled_from(OFFERS),
        version=st.sampled_from([0, 3, 5, 9]),
        session_ms=st.sampled_from([1_000, 10_000]),
        rebalance_ms=st.sampled_from([0, 2_000, 20_000]),
        is_reborn=st.booleans(),
    )
    def join(
        self,
        label: str,
        offer: tuple[str, ...],
        version: int,
        session_ms: int,
        rebalance_ms: int,
        is_reborn: bool,
    ) -> None:
        client = self.clients[label]
        if is_reborn:
            client.member_id = ""
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=client.member_id,
            group_instance_id=client.instance_id if version >= 5 else None,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=b"\x00\x00" + bytes(8))
                for name in offer
            ],
        )
        self._ask(label, request, version)

    @rule(label=labels, behind=st.sampled_from([0, 0, 0, 1]), forgets=st.booleans())
    def sync(self, label: str, behind: int, forgets: bool) -> None:
        client = self.clients[label]
        self.syncs += 1
        generation = client.generation - behind
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocol_name=client.protocol,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=each, assignment=f"{generation} {self.syncs} {each}".encode()
                )
                for each in sorted(client.members)[forgets:]
            ],
        )
        self._ask(label, request, 5)

    @precondition(lambda self: self.place.group is not None)
    @rule(offer=st.sampled_from(OFFERS[:4]), forgets=st.booleans())
    def settle(self, offer: tuple[str, ...], forgets: bool) -> None:
        """All do as they should, but the leader may forget somebody."""
        for _ in range(2):
            for label in LABELS:
                self.join(label, offer, 9, 10_000, 20_000, False)
            self.wait(1_000)
        for label in LABELS:
            self.sync(label, 0, forgets)

    @rule(label=labels)
    def heartbeat(self, label: str) -> None:
        client = self.clients[label]
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
        )
        self._ask(label, request, 4)

    @rule(label=labels)
    def commit(self, label: str) -> None:
        client = self.clients[label]
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            topics=[OffsetCommitRequestTopic(name="t1", partitions=[])],
        )
        self._ask(label, request, 9)

    @rule(leaving=st.lists(labels, min_size=1, max_size=3), by_instance=st.booleans())
    def leave(self, leaving: list[str], by_instance: bool) -> None:
        clients = [self.clients[each] for each in leaving]
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[
                MemberIdentity(
                    member_id="" if by_instance else each.member_id,
                    group_instance_id=each.instance_id,
                )
                for each in clients
            ],
        )
        self._ask(leaving[0], request, 5)

    @rule()
    def delete(self) -> None:
        had_group = self.place.group is not None
        self._ask("a", DeleteGroupsRequest(groups_names=[GROUP]), 2)
        if had_group and self.place.group is None:
            self._new_life()
            self._new_group()

    # What happens to them.

    @rule(wait_ms=st.sampled_from([1, 400, 1_000, 3_000, 30_000]))
    def wait(self, wait_ms: int) -> None:
        self.place.wait(wait_ms)
        self._hear()

    @rule(code=st.sampled_from(REFUSALS))
    def refuse(self, code: ErrorCode) -> None:
        self.place.refuse_next(code)

    @precondition(lambda self: self.place.group is not None)
    @rule()
    def fail_over(self) -> None:
        self.place.refusal = None
        self._new_life()
        self.place.fail_over()
        self._hear()

    # What they hear.

    def _ask(self, label: str, request: object, version: int) -> None:
        assert isinstance(
            request,
            JoinGroupRequest
            | SyncGroupRequest
            | HeartbeatRequest
            | LeaveGroupRequest
            | OffsetCommitRequest
            | DeleteGroupsRequest,
        )
        self.place.ask(label, request, version)
        self._hear()

    def _hear(self) -> None:
        for asked, response in self.place.take_answers():
            if isinstance(response, JoinGroupResponse):
                self._joined(asked, response)
            elif isinstance(response, SyncGroupResponse) and not response.error_code:
                self._assigned(asked, response)

    def _joined(self, asked: Asked, response: JoinGroupResponse) -> None:
        client = self.clients[asked.label]
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        if response.error_code:
            return
        assert response.generation_id >= self.highest, "the generation went back"
        assert response.protocol_name, "a generation without an assignor"
        self.highest = response.generation_id
        client.member_id = response.member_id
        client.generation = response.generation_id
        client.protocol = response.protocol_name
        client.members = [each.member_id for each in response.members]
        if client.members:
            assert response.leader == response.member_id
            assert response.member_id in client.members
            if not response.skip_assignment:
                leaders = self.leaders.setdefault(response.generation_id, set())
                leaders.add(response.member_id)
                assert len(leaders) == 1, "two were told to assign"

    def _assigned(self, asked: Asked, response: SyncGroupResponse) -> None:
        assert isinstance(asked.request, SyncGroupRequest)
        if not response.assignment:
            return
        generation, sync, _member = response.assignment.decode().split()
        assert int(generation) == asked.request.generation_id, "another generation's assignment"
        syncs = self.given.setdefault(int(generation), set())
        syncs.add(sync)
        assert len(syncs) == 1, "two assignments for one generation"

    # What holds.

    @invariant()
    def who_waits_will_be_answered(self) -> None:
        group = self.place.group
        if self.place.parked:
            assert group is not None
            assert group.next_deadline_ms() is not None

    @invariant()
    def no_more_join_than_there_is_room_for(self) -> None:
        group = self.place.group
        if group is not None and group.state is ClassicGroupState.PREPARING_REBALANCE:
            joining = sum(each.is_joining for each in group.members.values())
            assert joining <= self.size

    def teardown(self) -> None:
        if not hasattr(self, "place"):
            return
        self.place.wait(FOREVER_MS)
        self._hear()
        assert not self.place.parked, "waits for ever"
        group = self.place.group
        if group is not None:
            assert group.state is ClassicGroupState.EMPTY, "all have been silent for an hour"
            assert not group.members


Members.TestCase.settings = settings(max_examples=120, stateful_step_count=50)
TestMembers = Members.TestCase
