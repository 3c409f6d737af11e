"""A member of a group with a protocol of its own: Connect's workers, Streams' instances, yours.

    class Greeters:
        def metadata(self):
            return [("greet-v1", b"I speak Czech")]
        def assign(self, protocol, leader_id, members):
            return {member: b"greet" for member in members}
        async def on_assigned(self, assigned): print(assigned.generation, assigned.assignment)
        async def on_revoked(self): ...
        async def on_lost(self): ...

    async with GroupMember(
        group_id="greeters", protocol_type="greet", protocols=Greeters(),
        bootstrap_servers="localhost:9092",
    ) as member:
        await member.wait()

One task follows the core (`opaque`, `session`). Each call of the user's `Protocols` runs in a task
of its own, so heartbeats continue while the user's code runs.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, Self, Unpack

from moldau.client.base.arguments import (
    ByPartition,
    OffsetAndMetadata,
    PartitionGiven,
    flag_or_none,
    name_of,
    offsets_to_store,
    partitions_in,
)
from moldau.client.base.coordinator import Coordinator, GroupMetadata
from moldau.client.base.given import GivenSettings, resolve
from moldau.client.base.lifecycle import Lifecycle, comes_with_start, reach
from moldau.client.base.user_code import LOG
from moldau.client.group.member import NOBODY, Identity, MemberSettings, Ready
from moldau.client.group.offsets import GroupOffsets
from moldau.client.group.opaque import AssignorMethod, Call, OpaqueMember, checked
from moldau.client.group.options import MemberOptions
from moldau.client.group.protocols import Protocols
from moldau.client.group.session import GroupSession
from moldau.client.settings import group as group_rows
from moldau.client.settings import rows
from moldau.client.settings.every_client import WITHOUT_MEANING_TO_ADMINS
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.link import settings as link_rows
from moldau.link.arguments import seconds, seconds_at_most, text_of, told
from moldau.link.cluster import Cluster
from moldau.link.lifetime import closed
from moldau.link.metadata import TopicPartition
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff

_CLOSE_S: Final = 30.0
_METHODS: Final = ("metadata", "assign", "on_assigned", "on_revoked")


class GroupMember:
    """Joins its group at `start` and stays in it until `aclose`, through every rebalance."""

    _cluster: Cluster = comes_with_start("group member")
    _coordinator: Coordinator = comes_with_start("group member")
    _offsets: GroupOffsets = comes_with_start("group member")
    _core: OpaqueMember = comes_with_start("group member")
    _session: GroupSession = comes_with_start("group member")

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        group_id: str,
        protocol_type: str,
        protocols: Protocols,
        runtime: Runtime | None = None,
        **options: Unpack[MemberOptions],
    ) -> None:
        """Take `settings` by Kafka's names; `options` (underscores for dots) override them. In
        `settings`, those that only producers and consumers have are ignored."""
        self._given = GivenSettings(
            settings or {},
            options,
            without_meaning=WITHOUT_MEANING_TO_ADMINS,
            of_others=rows.OF_OTHERS_THAN_MEMBERS,
        )
        self.settings = resolve(rows.GROUP_MEMBER_SETTINGS, self._given.settings, {})
        self.group_id = name_of(group_id, "group")
        self.protocol_type = name_of(protocol_type, "protocol type")
        _check_protocols(protocols)
        self._protocols = protocols
        self._world = Lifecycle("group member", runtime)
        self._waiters = set[asyncio.Future[None]]()
        self._calling: asyncio.Task[object] | None = None
        self._is_closing = False
        self._begun: GroupSession | None = None
        """Its session, from `start` on."""
        self._logged: BaseException | None = None
        """The error that was logged."""

    def __repr__(self) -> str:
        client = self._world.shown(self, self.settings).removesuffix(">")
        place = "not in it"
        if self._begun is not None and self._core.identity != NOBODY:
            place = f"generation {self.generation}" + (", leader" if self.is_leader else "")
        return f"{client} group {self.group_id} ({self.protocol_type}): {place}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Connect, and start to join; `on_assigned` is called after the join. Raise KafkaError if
        no bootstrap server is reachable, ClientClosed after a close. A second call does nothing."""
        async with self._world.opening(self._close) as is_new:
            if is_new:
                self._given.log_notices("group member", self.settings)
                self._begin()
                await reach(self._cluster, "group member")
                self._core.begin()
                self._session.begin().add_done_callback(self._ended)

    def _begin(self) -> None:
        runtime = self._world.enter()
        self._is_closing = False
        self._cluster = self._world.cluster = Cluster(
            runtime, self.settings, tokens=self._given.objects.get("oauth")
        )
        self._coordinator = Coordinator(self._cluster, self.group_id, purpose="JoinGroup")
        self._core = OpaqueMember(self._terms(), self.protocol_type, runtime.random)
        self._offsets = GroupOffsets(
            self._cluster, self._coordinator, self._identity, self._commit_refused, _never
        )
        self._session = GroupSession(runtime, self._coordinator, self._core, self._step)
        self._begun = self._session

    def _terms(self) -> MemberSettings:
        settings = self.settings
        return MemberSettings(
            group_id=self.group_id,
            instance_id=settings[group_rows.group_instance_id],
            session_timeout_s=settings[group_rows.session_timeout_ms] / 1000,
            heartbeat_interval_s=settings[group_rows.heartbeat_interval_ms] / 1000,
            poll_interval_s=settings[group_rows.rebalance_timeout_ms] / 1000,
            request_timeout_s=settings[link_rows.request_timeout_ms] / 1000,
            backoff=Backoff(
                settings[link_rows.retry_backoff_ms], settings[link_rows.retry_backoff_max_ms]
            ),
        )

    # What it is

    @property
    def member_id(self) -> str:
        """The member id; empty while the member is not in its group."""
        return self._core.identity.member_id

    @property
    def generation(self) -> int:
        """The generation; -1 while the member is not in its group."""
        return self._core.identity.epoch

    @property
    def is_leader(self) -> bool:
        """Whether it makes the assignments of the current generation."""
        return self._core.is_leader

    @property
    def error(self) -> BaseException | None:
        """The error that has ended the membership; None again after `rejoin`."""
        return self._core.error

    def group_metadata(self) -> GroupMetadata:
        """Return the member's identity, for a transactional producer."""
        identity, instance_id = self._core.identity, self._core.terms.instance_id
        return GroupMetadata(self.group_id, identity.epoch, identity.member_id, instance_id)

    # What its user does

    async def rejoin(self, reason: str = "the application asked for it") -> None:
        """Make all members join again, with new metadata, and return at once: `on_revoked`,
        `metadata` and `on_assigned` are called later. After an error it starts a new membership."""
        text_of(reason, "reason")
        self._check_open()
        self._core.rejoin(reason[:255])
        self._session.poke()

    async def wait(self) -> None:
        """Return when the member is closed. Raise the error that has ended its membership: a
        KafkaError that no retry heals, or the exception of a method of `Protocols`."""
        while not self._is_closing:
            error = self._core.error
            if error is not None:
                raise error
            ended = asyncio.get_running_loop().create_future()
            self._waiters.add(ended)
            try:
                await ended
            finally:
                self._waiters.discard(ended)

    async def commit(
        self,
        offsets: ByPartition[int | OffsetAndMetadata],
        metadata: str = "",
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Store offsets in the group, as this member in its current generation. `metadata` is
        stored with those given as a number. KafkaError names the first partition that cannot be
        stored, such as ILLEGAL_GENERATION after the group has continued without this member."""
        text_of(metadata, "metadata")
        self._check_open()
        noted = {
            where: OffsetAndMetadata(each, metadata) if isinstance(each, int) else each
            for where, each in offsets.items()
        }
        left = offsets_to_store(noted)
        begun = self._identity()

        def is_given_up(where: TopicPartition) -> bool:
            return self._core.identity != begun

        ids = dict.fromkeys(left, ZERO_UUID)
        timeout_s = seconds_at_most(timeout_s, "timeout_s")
        await self._offsets.commit(left, ids, is_given_up, timeout_s=timeout_s)

    async def committed(
        self, partitions: Iterable[PartitionGiven], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets of these partitions; None where there is none."""
        self._check_open()
        timeout_s = seconds_at_most(timeout_s, "timeout_s")
        return await self._offsets.committed(partitions_in(partitions), timeout_s=timeout_s)

    def _identity(self) -> Identity:
        identity = self._core.identity
        if identity == NOBODY:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                "not committed: this is no member of its group at present",
                group=self.group_id,
            )
        return identity

    def _commit_refused(self, identity: Identity, code: ErrorCode) -> None:
        self._core.on_commit_refused(identity, code)
        self._session.poke()

    def _check_open(self) -> None:
        if self._is_closing or self._cluster.is_closed:  # `_cluster` exists from the start on
            raise closed("group member")
        self._cluster.check_loop()

    # Its life

    def _step(self, now: float) -> Ready:
        """Return what the core wants now, and start the call that it wants."""
        ready = self._core.ready(now)
        while self._core.notices:
            LOG.warning("group member: %s", self._core.notices.pop(0))
        self._note_error()
        call = self._core.begin_call()
        if call is not None:
            self._calling = self._cluster.runtime.spawn(
                self._answer_of(call), name=f"{call.step.value} of {self.group_id}", reported=False
            )
            self._calling.add_done_callback(partial(self._called, call))
        return ready

    async def _answer_of(self, call: Call) -> object:
        name = call.step.value
        if call.step is AssignorMethod.LOST and not hasattr(self._protocols, name):
            name = AssignorMethod.REVOKED.value
        answer = getattr(self._protocols, name)(*call.arguments)
        if inspect.isawaitable(answer):
            answer = await answer
        return checked(call.step, answer)

    def _called(self, call: Call, task: asyncio.Task[object]) -> None:
        self._calling = None
        if task.cancelled():
            self._core.on_call_failed(call, RuntimeError(f"{call.step.value} was cancelled"))
        elif (error := task.exception()) is not None:
            self._core.on_call_failed(call, error)
        else:
            self._core.on_called(call, task.result())
        self._note_error()
        self._session.poke()

    def _note_error(self) -> None:
        """Log once why the membership ended, and wake the waiters that raise it."""
        error, before = self._core.error, self._logged
        self._logged = error
        if error is not None and error is not before:
            LOG.error("group member: out of its group %s: %r", self.group_id, error)
            self._wake_waiters()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Handle the end of the task: by a close, or by a bug, treated like a call that raises."""
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._core.fail(bug)
            self._note_error()

    # The end

    async def aclose(self, timeout_s: float = _CLOSE_S, *, leave_group: bool | None = None) -> None:
        """Call `on_revoked`, leave the group, and close the connections. May be called again.

        Without `leave_group`, a static member stays in its group until its session ends, so that it
        gets its share again, and any other member leaves (KIP-1092). A call of `Protocols` that
        takes longer than `timeout_s` is cancelled.
        """
        timeout_s = seconds(timeout_s, "timeout_s")
        leave_group = flag_or_none(leave_group, "leave_group")
        if self._calling is not None and asyncio.current_task() is self._calling:
            raise RuntimeError("a method of Protocols cannot close its member: do it elsewhere")
        self._world.check_loop()
        self._world.is_closed = True
        await self._close(timeout_s, leave_group=leave_group)

    async def _close(self, timeout_s: float = _CLOSE_S, *, leave_group: bool | None = None) -> None:
        self._is_closing = True
        self._wake_waiters()
        try:
            if self._begun is not None and self._begun.is_alive:
                await self._leave(timeout_s, leave_group)
        finally:
            if self._begun is not None:
                await self._coordinator.aclose()
            await self._world.disconnect()
            await self._world.aclose()

    async def _leave(self, timeout_s: float, leave_group: bool | None) -> None:
        core = self._core
        if leave_group is not None:
            core.terms = replace(core.terms, leaves_when_closed=leave_group)
        core.leave("the member is closed")
        try:
            await self._session.end(timeout_s)
        finally:
            if self._calling is not None:
                self._calling.cancel()
                await asyncio.wait([self._calling])

    def _wake_waiters(self) -> None:
        for ended in self._waiters:
            if not ended.done():
                ended.set_result(None)


def _never(identity: Identity, where: TopicPartition, code: ErrorCode) -> bool:
    """Return False: the user decides about a commit that was begun in an old generation."""
    return False


def _check_protocols(protocols: object) -> None:
    missing = [name for name in _METHODS if not callable(getattr(protocols, name, None))]
    if missing or isinstance(protocols, type):
        raise TypeError(
            f"protocols is an object with the methods {', '.join(_METHODS)} and on_lost, not "
            f"{told(protocols)}"
        )
