"""This worker's membership in the group of workers: it joins, leads if it is elected, and follows.

Invariants: what is revoked has stopped here before this worker joins again and reports it; a worker
that is out of the group runs nothing; assignments are made from configs that are at least as new as
those that any member has read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from moldau.client import GenerationAssignment
from moldau.connect.herder.assignment import Assignor
from moldau.connect.herder.connect_protocol import (
    CONFIG_MISMATCH,
    EMPTY,
    NO_ERROR,
    PROTOCOL_TYPE,
    VERSIONS,
    Share,
    WorkerState,
    protocols_of,
    read_share,
    read_state,
    union,
    without,
    write_share,
    write_state,
)
from moldau.connect.herder.membership import Membership
from moldau.connect.herder.plan import Assignment, assigned_alone
from moldau.connect.storage.configs import ConfigImage
from moldau.connect.storage.stores import ConfigStore
from moldau.connect.task.settings import client_settings, whole
from moldau.errors import ConfigError
from moldau.folds.elected import Elected, Leader
from moldau.logging import Logger
from moldau.runtime import Runtime

ROUND_S: Final = 10.0
OWN_DELAY_MS: Final = 3_000
"""How long the work of a vanished worker waits for it by default."""

Stops = Callable[[Assignment], Coroutine[Any, Any, None]]


class GroupMembership(Membership):
    """The membership of a distributed worker. It belongs to one event loop."""

    def __init__(
        self, runtime: Runtime, settings: Mapping[str, str], url: str, configs: ConfigStore,
        log: Logger,
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._url = url
        self._configs = configs
        self._log = log
        self._names = protocols_of(settings.get("connect.protocol", "sessioned"))
        if not self._names:
            raise ConfigError(
                "must be eager, compatible or sessioned",
                setting="connect.protocol",
                value=settings["connect.protocol"],
            )
        delay_ms = whole(settings, "scheduled.rebalance.max.delay.ms", OWN_DELAY_MS)
        self._assignor = Assignor(delay_ms)
        self._led_generation = -1
        self._mine = EMPTY
        self._giving_up = EMPTY
        """What was revoked and has not stopped here yet."""
        self._reported = EMPTY
        """What the last join has reported as owned: the assignment builds on it."""
        self._shared = EMPTY
        self._of_others = EMPTY
        """At the leader: what the other workers have reported and got in the last round. What they
        have to stop is in it until they have stopped it and joined again."""
        self._later: asyncio.Task[None] | None = None
        self.on_change: Callable[[], None] = lambda: None
        self.stops: Stops | None = None
        self._joined = asyncio.Event()
        names = ("session.timeout.ms", "heartbeat.interval.ms", "rebalance.timeout.ms")
        own = {**client_settings(settings), **{name: settings[name] for name in names}}
        self._elected = Elected(runtime, own, (settings["group.id"], PROTOCOL_TYPE), self, log)

    @property
    def is_leader(self) -> bool:
        return self._elected.leads

    @property
    def leader_url(self) -> str | None:
        leader = self._elected.leader
        return None if leader is None else leader.url

    def assignment(self, image: ConfigImage) -> Assignment:
        return self._mine

    def others_have(self, connector: str) -> bool:
        return any(task.connector == connector for task in self._of_others.tasks)

    async def start(self) -> None:
        """Join the group. On return this worker has its first assignment."""
        await self._elected.start()
        await self._joined.wait()

    async def settled(self) -> None:
        await self._elected.leader_within(ROUND_S)  # another round may begin at once

    def on_configs_changed(self) -> None:
        """Join again if connectors or tasks were added or removed. Every worker does: another one
        would hear of the round only from its next heartbeat, seconds later."""
        if self._elected.leader is None:
            return  # a round is on, and its assignment is made from these configs
        configured = assigned_alone(self._configs.image)
        if configured != self._shared:
            self._shared = configured
            self._rejoin_later(0, "connectors or tasks have changed")

    def _rejoin_later(self, delay_ms: int, why: str) -> None:
        """Join again after `delay_ms`, and after this worker has stopped what it gives up."""
        if self._later is not None:
            self._later.cancel()
        self._later = self._runtime.spawn(self._rejoin(delay_ms, why), name="rejoin the workers")

    async def _rejoin(self, delay_ms: int, why: str) -> None:
        if self._giving_up != EMPTY and self.stops is not None:
            await self.stops(self._giving_up)
        self._giving_up = EMPTY
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        await self._elected.member.rejoin(why)

    async def aclose(self) -> None:
        if self._later is not None:
            self._later.cancel()
            await asyncio.wait([self._later])
        self._mine = self._giving_up = EMPTY
        await self._elected.aclose()

    # Callbacks of the group (`moldau.client.group.protocols.Protocols`)

    def metadata(self) -> list[tuple[str, bytes]]:
        """Return what runs on this worker, encoded for each protocol. What it gives up still does,
        if another worker has caused the round."""
        self._reported = union([self._mine, self._giving_up])
        state = WorkerState(self._url, self._configs.log.position, self._reported)
        return [(name, write_state(VERSIONS[name], state)) for name in self._names]

    async def assign(
        self, protocol: str, leader_id: str, members: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        """Make the assignments of all members. Called at the leader only."""
        version = VERSIONS[protocol]
        states = {member: read_state(data) for member, data in members.items()}
        newest = max(state.config_offset for state in states.values())
        await self._configs.log.read_to_end()
        offset = self._configs.log.position
        error = NO_ERROR if offset >= newest else CONFIG_MISMATCH
        url = states[leader_id].url
        if error:
            share = Share(leader_id, url, newest, error=error)
            return dict.fromkeys(states, write_share(version, share))
        if self._led_generation != self.generation:
            self._assignor.forget()
        configured = assigned_alone(self._configs.image)
        owned = {member: EMPTY if version == 0 else state.owned
                 for member, state in states.items()}  # fmt: skip
        now_ms = self._runtime.clock.monotonic_ns() // 1_000_000
        found = self._assignor.share(configured, owned, now_ms)
        self._shared = configured
        others = states.keys() - {leader_id}
        self._of_others = union(
            each for member in others for each in (owned[member], found.assigned[member])
        )
        return {
            member: write_share(
                version,
                Share(
                    leader_id, url, offset, found.assigned[member], found.revoked[member],
                    found.delay_ms,
                ),
            )
            for member in states
        }  # fmt: skip

    async def on_assigned(self, assigned: GenerationAssignment) -> None:
        """Take over the assignment of a new generation."""
        if not assigned.assignment:
            self._rejoin_later(1_000, "the leader has given this worker no share")
            return
        share = read_share(assigned.assignment)
        if share.error:
            self._rejoin_later(1_000, "the leader's configs are old")
            return
        await self._configs.log.read_to_end()
        self.generation = assigned.generation
        if assigned.is_leader:
            self._led_generation = assigned.generation
        else:
            self._of_others = EMPTY
            if self._configs.log.position <= share.config_offset:
                self._shared = assigned_alone(self._configs.image)
        if VERSIONS[assigned.protocol] == 0:
            self._mine = share.assigned
        else:
            self._mine = union([without(self._reported, share.revoked), share.assigned])
        given_back = without(self._giving_up, share.revoked)
        self._giving_up = share.revoked
        self._log.info(
            "joined the workers",
            generation=assigned.generation,
            leader=share.leader_url,
            connectors=len(self._mine.connectors),
            tasks=len(self._mine.tasks),
        )
        self._elected.announce(Leader(share.leader_url, assigned.is_leader))
        self._joined.set()
        self.on_change()
        if share.revoked != EMPTY:
            self._rejoin_later(0, "what was given up can go to others")
        elif share.delay_ms:
            self._rejoin_later(share.delay_ms, "a worker has not come back in time")
        elif given_back != EMPTY:
            self._rejoin_later(0, "this worker keeps what it was giving up")
        else:
            self.on_configs_changed()

    async def on_revoked(self) -> None:
        """Note that there is no leader during a new round. Only eager workers stop everything."""
        self._elected.announce(None)
        if self._names == ["default"]:
            await self.on_lost()

    async def on_lost(self) -> None:
        """Stop everything: this worker is out of the group, and others run its work."""
        self._elected.announce(None)
        gone = union([self._mine, self._giving_up])
        self._mine = self._giving_up = EMPTY
        self.on_change()
        if gone != EMPTY and self.stops is not None:
            await self.stops(gone)
