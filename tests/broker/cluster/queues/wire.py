"""The requests of one member of a share group, sent by hand to the brokers that serve them.

After an error a request goes over another connection, so a share session ends with each error, as
it does for a real client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link import Address, ConnectionOptions, Peers
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import alter_share_group_offsets as altering
from moldau.protocol.messages import share_acknowledge as acknowledging
from moldau.protocol.messages import share_fetch as fetching
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from moldau.records import coordinator_partition
from moldau.runtime import Runtime
from tests.broker.cluster.queues.ledger import Place
from tests.broker.cluster.world import SimulatedBrokers

R = TypeVar("R", bound=Response)

GROUP: Final = "workers"
OFFSETS: Final = "__consumer_offsets"
STATES: Final = "__share_group_state"
INTERNAL_PARTITIONS: Final = 3
TIMEOUT_S: Final = 7.0
"""Longer than the broker's patience with the share coordinator."""
NO_DELAY: Final = -1


class Said(NamedTuple):
    """What a member says of one record."""

    offset: int
    kind: int
    delay_ms: int = NO_DELAY


class Held(NamedTuple):
    """A record that was given to a member."""

    place: Place
    offset: int
    delivery: int


class Session:
    """A share session with one broker: its next epoch, and the places in it."""

    def __init__(self, number: int) -> None:
        self.lane = f"share-{number}"
        self.epoch = 0
        self.places: set[Place] = set()


class Wire:
    """See the module."""

    def __init__(self, runtime: Runtime, brokers: SimulatedBrokers, member: str, random: Random):
        self.member = member
        self.sessions: dict[int, Session] = {}
        self.epoch = 0
        self.assigned: set[Place] = set()
        self._brokers = brokers
        self._random = random
        self._number = 0
        self._is_unsure = True
        """Whether an answer with an assignment may have been lost, so that it is asked for."""
        options = ConnectionOptions(client_id=member, request_timeout_s=TIMEOUT_S)
        self._peers = Peers(runtime, options, _addresses(brokers))

    async def aclose(self) -> None:
        await self._peers.aclose()

    # The group.

    async def beat(self, topics: Sequence[str], ids: Mapping[bytes, str]) -> None:
        """Send a heartbeat, and note the assignment."""
        place = OFFSETS, coordinator_partition(GROUP, INTERNAL_PARTITIONS)
        leader = self._brokers.leader_of(*place)
        if leader < 0:
            node_id = self._random.choice(list(self._peers.addresses))
            search = FindCoordinatorRequest(coordinator_keys=[GROUP], key_type=0)
            await self._peers.request(node_id, search, FindCoordinatorResponse)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member,
            member_epoch=self.epoch,
            subscribed_topic_names=list(topics) if self.epoch <= 0 or self._is_unsure else None,
        )
        self._is_unsure = True
        answer = await self._peers.request(leader, request, ShareGroupHeartbeatResponse)
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.epoch = 0
        _check(answer.error_code)
        self._is_unsure = False
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {
                (ids[topic.topic_id], index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
                if topic.topic_id in ids
            }

    async def leave(self) -> None:
        """Leave the group."""
        self.epoch = -1
        await self.beat((), {})

    # Records.

    def places_by_leader(self) -> dict[int, set[Place]]:
        """The assigned partitions of each broker."""
        found: dict[int, set[Place]] = {}
        for place in sorted(self.assigned):
            leader = self._brokers.leader_of(*place)
            if leader > 0:
                found.setdefault(leader, set()).add(place)
        return found

    def _session(self, leader: int) -> Session:
        if leader not in self.sessions:
            self._number += 1
            self.sessions[leader] = Session(self._number)
        return self.sessions[leader]

    async def _ask(self, leader: int, request: Request, response: type[R]) -> R:
        session = self._session(leader)
        try:
            answer = await self._peers.request(leader, request, response, lane=session.lane)
            _check(answer.error_code)  # type: ignore[attr-defined]
        except KafkaError:
            self.forget(leader)
            raise
        session.epoch += 1
        return answer

    def forget(self, leader: int) -> None:
        """Give the session up, and close its connection."""
        session = self.sessions.pop(leader, None)
        if session is not None:
            self._peers.hang_up(leader, session.lane)

    async def fetch(
        self,
        leader: int,
        places: set[Place],
        said: Mapping[Place, Sequence[Said]],
        ids: Mapping[str, bytes],
        **how: Any,
    ) -> fetching.ShareFetchResponse:
        """Ask for records, and say something of others. The first request of a session says
        nothing."""
        session = self._session(leader)
        said = said if session.epoch else {}
        named = (places - session.places) | said.keys()
        forgotten = session.places - places
        session.places = set(places)
        request = fetching.ShareFetchRequest(
            group_id=GROUP,
            member_id=self.member,
            share_session_epoch=session.epoch,
            topics=[
                fetching.FetchTopic(
                    topic_id=ids[place[0]],
                    partitions=[
                        fetching.FetchPartition(
                            partition_index=place[1],
                            acknowledgement_batches=_batches(
                                said.get(place, ()), fetching.AcknowledgementBatch
                            ),
                        )
                    ],
                )
                for place in sorted(named)
            ],
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=ids[topic], partitions=[index])
                for topic, index in sorted(forgotten)
            ],
            max_wait_ms=how.get("max_wait_ms", 300),
            min_bytes=1,
            max_records=how.get("max_records", 20),
            batch_size=how.get("batch_size", 20),
            share_acquire_mode=how.get("mode", 0),
        )
        return await self._ask(leader, request, fetching.ShareFetchResponse)

    async def acknowledge(
        self,
        leader: int,
        said: Mapping[Place, Sequence[Said]],
        ids: Mapping[str, bytes],
        *,
        is_renew: bool = False,
    ) -> acknowledging.ShareAcknowledgeResponse:
        """Say something of records."""
        session = self._session(leader)
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.member,
            share_session_epoch=session.epoch,
            is_renew_ack=is_renew,
            topics=[
                acknowledging.AcknowledgeTopic(
                    topic_id=ids[place[0]],
                    partitions=[
                        acknowledging.AcknowledgePartition(
                            partition_index=place[1],
                            acknowledgement_batches=_batches(
                                each, acknowledging.AcknowledgementBatch
                            ),
                        )
                    ],
                )
                for place, each in sorted(said.items())
            ],
        )
        return await self._ask(leader, request, acknowledging.ShareAcknowledgeResponse)

    async def end_session(
        self, leader: int, said: Mapping[Place, Sequence[Said]], ids: Mapping[str, bytes]
    ) -> acknowledging.ShareAcknowledgeResponse:
        """End the session in order, with the last words."""
        session = self._session(leader)
        session.epoch = -1
        try:
            return await self.acknowledge(leader, said, ids)
        finally:
            self.forget(leader)


async def reset_offset(
    runtime: Runtime, brokers: SimulatedBrokers, place: Place, offset: int
) -> bool:
    """Let the group begin at an offset again. It is refused while the group has members."""
    leader = brokers.leader_of(OFFSETS, coordinator_partition(GROUP, INTERNAL_PARTITIONS))
    partition = altering.AlterShareGroupOffsetsRequestPartition(
        partition_index=place[1], start_offset=offset
    )
    topic = altering.AlterShareGroupOffsetsRequestTopic(topic_name=place[0], partitions=[partition])
    request = altering.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic])
    peers = Peers(runtime, ConnectionOptions(client_id="resetter"), _addresses(brokers))
    try:
        answer = await peers.request(leader, request, altering.AlterShareGroupOffsetsResponse)
    except KafkaError:
        return False
    finally:
        await peers.aclose()
    return answer.error_code == 0


def _addresses(brokers: SimulatedBrokers) -> dict[int, Address]:
    found = {}
    for number, each in enumerate(brokers.bootstrap_servers.split(","), 1):
        host, _, port = each.rpartition(":")
        found[number] = Address(host, int(port))
    return found


def _batches(said: Iterable[Said], batch: Any) -> list[Any]:
    """Runs of neighbours with one delay."""
    runs: list[list[Said]] = []
    for each in sorted(said):
        last = runs[-1][-1] if runs else None
        if last is None or last.offset + 1 != each.offset or last.delay_ms != each.delay_ms:
            runs.append([])
        runs[-1].append(each)
    return [
        batch(
            first_offset=run[0].offset,
            last_offset=run[-1].offset,
            acknowledge_types=[each.kind for each in run],
            delay_ms=run[0].delay_ms,
        )
        for run in runs
    ]


def _check(code: int) -> None:
    if code:
        raise KafkaError(ErrorCode(code))
