"""A member of a group with a protocol of its own, for threads.

    with GroupMember(
        group_id="greeters", protocol_type="greet", protocols=Greeters(),
        bootstrap_servers="localhost:9092",
    ) as member:
        member.wait()

The methods of `Protocols` must be plain ones here. Each is called in a thread of its own, never two
at a time, while heartbeats continue. They may call the member, except to close it. Any number of
threads may use one member.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Unpack

from moldau.client.group.group_member import GroupMember as AsyncMember
from moldau.client.group.options import MemberOptions
from moldau.client.group.protocols import GenerationAssignment, Protocols
from moldau.client.group.sync.group_member_calls import GroupMemberCalls
from moldau.link.arguments import seconds
from moldau.runtime import Runtime

_CLOSE_S: Final = 30.0


class _ProtocolsInThread:
    """Calls `Protocols` outside of the loop's thread."""

    def __init__(self, protocols: Protocols, runtime: Runtime) -> None:
        self._protocols: Any = protocols
        self._runtime = runtime

    async def metadata(self) -> Any:
        return await self._runtime.run_blocking(self._protocols.metadata)

    async def assign(self, protocol: str, leader_id: str, members: Mapping[str, bytes]) -> Any:
        assign = self._protocols.assign
        return await self._runtime.run_blocking(assign, protocol, leader_id, members)

    async def on_assigned(self, assigned: GenerationAssignment) -> None:
        await self._runtime.run_blocking(self._protocols.on_assigned, assigned)

    async def on_revoked(self) -> None:
        await self._runtime.run_blocking(self._protocols.on_revoked)

    async def on_lost(self) -> None:
        protocols = self._protocols
        on_lost = getattr(protocols, "on_lost", protocols.on_revoked)
        await self._runtime.run_blocking(on_lost)


class GroupMember(GroupMemberCalls):
    """Joins its group at `start` and stays in it until `close`, through every rebalance."""

    kind = "group member"

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        group_id: str,
        protocol_type: str,
        protocols: Protocols,
        **options: Unpack[MemberOptions],
    ) -> None:
        """Take `settings` by Kafka's names; `options` (underscores for dots) override them. In
        `settings`, those that only producers and consumers have are ignored."""
        own = {"group_id": group_id, "protocol_type": protocol_type, "protocols": protocols}
        super().__init__(settings, {**own, **options})
        self._client = self._make()
        self.settings = self._client.settings
        self.group_id = self._client.group_id
        self.protocol_type = self._client.protocol_type

    def _make(self, runtime: Runtime | None = None) -> AsyncMember:
        settings, options = self._given
        if runtime is not None:
            options = {**options, "protocols": _ProtocolsInThread(options["protocols"], runtime)}
        return AsyncMember(settings, runtime=runtime, **options)

    async def _begin(self, runtime: Runtime) -> None:
        self._client = self._make(runtime)
        await self._client.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, timeout_s: float = _CLOSE_S, *, leave_group: bool | None = None) -> None:
        """Call `on_revoked`, leave the group, and close the connections. May be called again, also
        by several threads at once: each returns when it is closed.

        Without `leave_group`, a static member stays in its group until its session ends, so that it
        gets its share again, and any other member leaves (KIP-1092). A call of `Protocols` that
        takes longer than `timeout_s` is no longer waited for.
        """
        timeout_s = seconds(timeout_s, "timeout_s")
        self._check_may_close()
        self._end(self._client.aclose(timeout_s, leave_group=leave_group))

    async def _drop(self) -> None:
        await self._client._close(0.0)
