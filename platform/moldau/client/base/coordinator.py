"""A group's coordinator: its address, and one connection for each kind of request.

A broker answers the requests of a connection in order, and a JoinGroup may be parked for minutes.
So membership has a connection of its own (`MEMBERSHIP`), and commits another one (`OFFSETS`):
neither waits behind a fetch or a rebalance.

Invariants: one lookup is pending at a time, for all callers. After an error that says that the
coordinator has moved (or after a lost connection) the next call looks it up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from moldau.errors.codes import ErrorCode, KafkaError, raise_for
from moldau.ids import Uuid
from moldau.link.addresses import Address
from moldau.link.cluster import Cluster
from moldau.link.connection import Connection
from moldau.link.connections import result_of
from moldau.link.metadata import TopicPartition
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


class GroupMetadata(NamedTuple):
    """A consumer's identity in its group; generation -1 and an empty id while it is not a member.
    With group.protocol=consumer the generation is the member's epoch. `topic_ids` are the topics
    that it has read, so that their offsets are not committed to new topics of the same names; None
    if it knows none."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    topic_ids: Mapping[TopicPartition, Uuid] | None = None


async def find_coordinator(
    cluster: Cluster, key: str, key_type: int = GROUP, *, purpose: str = "FindCoordinator"
) -> Address:
    """Return the coordinator's address. Raise KafkaError, mostly retriable, if it is unknown.
    `purpose` is the API that the coordinator will be asked, for the error of a missing right."""
    connection = await cluster.connection()
    if connection.version_of(FindCoordinatorRequest) >= _MANY_KEYS:
        many = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        answer = await connection.request(many, FindCoordinatorResponse)
        found = answer.coordinators[0]
        raise_for(purpose, found.error_code, found.error_message or "", key=key)
        return Address(found.host, found.port)
    one = FindCoordinatorRequest(key_type=key_type, key=key)
    answer = await connection.request(one, FindCoordinatorResponse)
    raise_for(purpose, answer.error_code, answer.error_message or "", key=key)
    return Address(answer.host, answer.port)


class Coordinator:
    """The coordinator of one group or transactional id, as one client knows it."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        lane: str = OFFSETS,
        *,
        key_type: int = GROUP,
        purpose: str = "FindCoordinator",
    ) -> None:
        """Use `lane` as the connection of requests that name none. With key_type=TRANSACTION it is
        the coordinator of the transactional id `group_id`. `purpose` is that of
        `find_coordinator`."""
        self._purpose = purpose
        self.group_id = group_id
        self._key_type = key_type
        self._lane = lane
        self._cluster = cluster
        self._address: Address | None = None
        self._finding: asyncio.Task[Address] | None = None

    async def connection(self, lane: str | None = None) -> Connection:
        """Return a connection to the coordinator. Raise KafkaError if there is none at present."""
        address = self._address
        if address is None:
            if self._finding is None:
                self._finding = self._cluster.runtime.spawn(
                    find_coordinator(
                        self._cluster, self.group_id, self._key_type, purpose=self._purpose
                    ),
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
        """Make the next call look the coordinator up again."""
        self._address = None

    def note(self, code: int) -> None:
        """Forget the coordinator if this error code says that it has moved."""
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
        """Send the request once. Return its response or raise KafkaError."""
        try:
            connection = await self.connection(lane)
            version = connection.version_of(type(request), at_most=at_most)
            return await connection.request(request, response, version=version, timeout_s=timeout_s)
        except KafkaError as error:
            self.note(error.code)
            raise

    def hang_up(self, lane: str) -> None:
        """Close this connection; requests that wait on it fail."""
        if self._address is not None:
            self._cluster.hang_up(self._address, lane)

    async def aclose(self) -> None:
        """Cancel a pending lookup."""
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.wait([self._finding])
