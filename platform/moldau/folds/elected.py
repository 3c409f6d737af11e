"""A member of a group in which one member leads.

The group's protocol says which one, in bytes of its own: its `Protocols` call `announce`. Here is
what every such member does: it stays in the group until it is closed, knows the leader, and asks
for another election when it cannot lead any more. The group decides which member should write; that
only one can is ensured by the transactional id (`LeaderWriter`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from moldau.client import GroupMember, Protocols
from moldau.errors import MoldauError
from moldau.logging import Logger
from moldau.runtime import Runtime
from moldau.runtime.timeouts import timeout

REJOIN_S: Final = 1.0
LEAVE_S: Final = 5.0
"""How long a closing member waits for a coordinator that may be gone."""


class Leader(NamedTuple):
    """The member that leads."""

    url: str
    is_own: bool
    """Whether it is this member."""


class Elected:
    """This process's membership."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Mapping[str, object],
        group: tuple[str, str],
        protocols: Protocols,
        log: Logger,
    ) -> None:
        """`group` is its id and its protocol type."""
        self._runtime = runtime
        self._log = log
        self._group, kind = group
        self.leader: Leader | None = None
        self._announced = asyncio.Event()
        self._staying: asyncio.Task[None] | None = None
        self._resigning: asyncio.Task[None] | None = None
        self.member = GroupMember(
            settings, group_id=self._group, protocol_type=kind, protocols=protocols, runtime=runtime
        )

    @property
    def leads(self) -> bool:
        """Whether this member leads."""
        return self.leader is not None and self.leader.is_own

    async def start(self) -> None:
        """Join the group; the leader is known later."""
        await self.member.start()
        self._staying = self._runtime.spawn(self._stay(), name=f"stay in {self._group}")

    def stayed(self) -> asyncio.Task[None]:
        """Return the task that stays in the group. It does not end by itself."""
        assert self._staying is not None, "not started"
        return self._staying

    async def _stay(self) -> None:
        """Join again whenever the membership has ended, for example because the broker lost it."""
        while True:
            try:
                await self.member.wait()
                return
            except (MoldauError, TimeoutError) as error:
                group = self._group
                self._log.error("out of the group, joining again", group=group, error=str(error))
            await asyncio.sleep(REJOIN_S)
            await self.member.rejoin("the membership had ended")

    def announce(self, leader: Leader | None) -> None:
        """Take over the leader. None: it is not known, or this member is out of the group."""
        self.leader = leader
        (self._announced.clear if leader is None else self._announced.set)()

    async def leader_within(self, timeout_s: float) -> Leader | None:
        """Return the leader. While there is none, wait for it; None if it does not come in time."""
        with suppress(TimeoutError):
            async with timeout(timeout_s):
                while self.leader is None:
                    await self._announced.wait()
        return self.leader

    def resign(self) -> None:
        """Ask for another election, because this member cannot lead now. Returns at once."""
        self.announce(None)
        asking = self.member.rejoin("the leader has resigned")
        self._resigning = self._runtime.spawn(asking, name=f"elect again in {self._group}")

    async def aclose(self) -> None:
        """Leave the group. May be called again."""
        for task in (self._staying, self._resigning):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        self.announce(None)
        await self.member.aclose(LEAVE_S)
