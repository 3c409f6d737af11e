"""Where the coordinator of a group is, and a connection to it for each kind of talk.

A broker answers the requests of a connection in order, and a JoinGroup may be parked for minutes.
So members talk on a connection of their own (`MEMBERSHIP`), and commits on another one (`OFFSETS`):
neither waits behind a fetch or behind a rebalance.

Invariants: one lookup is under way at a time for all callers; an answer that says that the
coordinator is elsewhere (or a connection that ended) makes the next call look it up again.
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from moldau.errors.codes import ErrorCode, KafkaError, raise_for
from moldau.link.addresses import Address
from moldau.link.cluster import Cluster
from moldau.link.connection import Connection
from moldau.link.connections import result_of
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

R = TypeVar("R", bound=Response)

GROUP: Final = 0
TRANSACTION: Final = 1
MEMBERSHIP: Final = "membership"
OFFSETS: Final = "offsets"
_MANY_KEYS: Final = 4
_ELSEWHERE: Final = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)


async def find_coordinator(cluster: Cluster, key: str, key_type: int = GROUP) -> Address:
    """Where it listens; KafkaError, mostly retriable, when it is unknown."""
    connection = await cluster.connection()
    if connection.version_of(FindCoordinatorRequest) >= _MANY_KEYS:
        many = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        answer = await connection.request(many, FindCoordinatorResponse)
        found = answer.coordinators[0]
        raise_for(found.error_code, found.error_message or "", key=key)
        return Address(found.host, found.port)
    one = FindCoordinatorRequest(key_type=key_type, key=key)
    answer = await connection.request(one, FindCoordinatorResponse)
    raise_for(answer.error_code, answer.error_message or "", key=key)
    return Address(answer.host, answer.port)


class Coordinator:
    """The coordinator of one group, as one client sees it."""

    def __init__(self, cluster: Cluster, group_id: str, lane: str = OFFSETS) -> None:
        """`lane` is for what is not said to be on another one."""
        self.group_id = group_id
        self._lane = lane
        self._cluster = cluster
        self._address: Address | None = None
        self._finding: asyncio.Task[Address] | None = None

    async def connection(self, lane: str | None = None) -> Connection:
        """A connection to it; KafkaError when it cannot be had at present."""
        address = self._address
        if address is None:
            if self._finding is None:
                self._finding = self._cluster.runtime.spawn(
                    find_coordinator(self._cluster, self.group_id),
                    name=f"find the coordinator of {self.group_id}",
                    reported=False,
                )
                self._finding.add_done_callback(self._found)
            address = await result_of(self._finding)
        try:
            return await self._cluster.connection_to(address, self._lane if lane is None else lane)
        except KafkaError as error:
            self.note(error.code)
            raise

    def _found(self, task: asyncio.Task[Address]) -> None:
        self._finding = None
        if not task.cancelled() and task.exception() is None:
            self._address = task.result()

    def forget(self) -> None:
        """It is looked up again by the next call."""
        self._address = None

    def note(self, code: int) -> None:
        """An answer said so."""
        if code in _ELSEWHERE:
            self.forget()

    async def call(
        self,
        request: Request,
        response: type[R],
        *,
        lane: str | None = None,
        at_most: int | None = None,
        timeout_s: float | None = None,
    ) -> R:
        """One try: its answer, or KafkaError."""
        try:
            connection = await self.connection(lane)
            version = connection.version_of(type(request), at_most=at_most)
            return await connection.request(request, response, version=version, timeout_s=timeout_s)
        except KafkaError as error:
            self.note(error.code)
            raise

    def hang_up(self, lane: str) -> None:
        """Ends that connection; what waits there fails."""
        if self._address is not None:
            self._cluster.hang_up(self._address, lane)

    async def aclose(self) -> None:
        """Ends a lookup that is under way."""
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.wait([self._finding])
