"""The way to the share coordinator, on this node or another (KIP-932).

Invariant: each call is answered once. While the coordinator moves, loads or is not there yet, the
request is sent again, up to PATIENCE_SECONDS; then the last error is the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.api.metadata import create_topics
from moldau.broker.api.share_state import (
    DELETE,
    INITIALIZE,
    READ,
    SUMMARIZE,
    WRITE,
    StateApi,
    decide_state,
)
from moldau.broker.coordinator.kind import KeyType
from moldau.broker.coordinator.share.combining import AT_ONCE
from moldau.broker.coordinator.share.state import SharePartitionKey
from moldau.broker.replication.purgatory import Pause
from moldau.broker.share.persister import StoredState
from moldau.broker.share.piece import StoredRun
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import write_share_group_state as writing
from moldau.protocol.schemas.coordinator_log import SHARE_LOG
from moldau.records import coordinator_partition
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.share.persister import OnLoaded, OnStored, ShareKey
    from moldau.broker.share.window import Store

LANE: Final = "share"
PATIENCE_SECONDS: Final = 5.0
_BACKOFF: Final = Backoff(50, 500)
_RETRIED: Final = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)
_AS_ANSWER: Final = {
    **dict.fromkeys(_RETRIED, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
_NO_LEADER: Final = -1
OnResult = Callable[[Any], None]
"""Receives the result of the one partition of a request, with its `error_code`."""


def as_error(result: Any) -> KafkaError:
    """Return the error that a leader's clients get for an error of the share coordinator."""
    code = _AS_ANSWER.get(ErrorCode(result.error_code), ErrorCode.UNKNOWN_SERVER_ERROR)
    return KafkaError(code, result.error_message or "")


class SharePersister:
    """Satisfies `share.persister.Persister`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.tasks: set[Any] = set()
        self.is_closed = False

    def close(self) -> None:
        """Stop: nothing is sent again."""
        self.is_closed = True
        for task in self.tasks:
            task.cancel()

    # Leaders of partitions.

    def load(self, key: ShareKey, leader_epoch: int, then: OnLoaded) -> None:
        asked = READ.asked(partition=key.partition, leader_epoch=leader_epoch)

        def loaded(result: Any) -> None:
            if result.error_code:
                then(as_error(result))
                return
            runs = tuple(
                StoredRun(
                    each.first_offset,
                    each.last_offset,
                    each.delivery_state,
                    each.delivery_count,
                    max(each.not_before_ms, 0),
                )
                for each in result.state_batches
            )
            then(StoredState(result.state_epoch, result.start_offset, runs))

        self.send(key, READ, asked, loaded)

    def store(
        self, key: ShareKey, state_epoch: int, leader_epoch: int, change: Store, then: OnStored
    ) -> None:
        asked = writing.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.complete_count,
            state_batches=[
                writing.StateBatch(
                    first_offset=run.first,
                    last_offset=run.last,
                    delivery_state=run.state,
                    delivery_count=run.delivery_count,
                    not_before_ms=run.rest_ms or AT_ONCE,
                )
                for run in change.runs
            ],
        )
        self.send(
            key, WRITE, asked, lambda result: then(as_error(result) if result.error_code else None)
        )

    # Coordinators of groups.

    def initialize(
        self, key: ShareKey, state_epoch: int, start_offset: int, then: OnResult
    ) -> None:
        """Begin a state anew."""
        asked = INITIALIZE.asked(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        self.send(key, INITIALIZE, asked, then)

    def delete(self, key: ShareKey, then: OnResult) -> None:
        """Forget a state."""
        self.send(key, DELETE, DELETE.asked(partition=key.partition), then)

    def summarize(self, key: ShareKey, then: OnResult) -> None:
        """Read where a group stands."""
        asked = SUMMARIZE.asked(partition=key.partition, leader_epoch=-1)
        self.send(key, SUMMARIZE, asked, then)

    # Sending.

    def send(self, key: ShareKey, api: StateApi, asked: Any, then: OnResult) -> None:
        """Send a request about one partition, as often as needed."""
        _Sending(self, SharePartitionKey(*key), api, asked, then).attempt()


class _Sending:
    """One request until it is answered."""

    def __init__(
        self,
        persister: SharePersister,
        key: SharePartitionKey,
        api: StateApi,
        asked: Any,
        then: OnResult,
    ) -> None:
        self._persister = persister
        self._node = persister.node
        self._key = key
        self._api = api
        self._asked = asked
        self._then = then
        self._failures = 0
        self._until = self._node.runtime.clock.monotonic() + PATIENCE_SECONDS

    def attempt(self) -> None:
        node = self._node
        coordinator = node.coordinators.of(KeyType.SHARE)
        topic = node.image.topics.by_name(SHARE_LOG.topic)
        if topic is None:
            create_topics(node, (SHARE_LOG.topic,), None)
            self._refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        index = coordinator_partition(str(self._key), len(topic.partitions))
        leader = topic.partitions[index].leader
        if leader == node.node_id:
            about = self._key, self._asked
            decide_state(coordinator, index, self._api, about, self._on_result)
        elif leader == _NO_LEADER:
            self._refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            task = node.runtime.spawn(self._ask(leader), name=f"share-{leader}")
            self._persister.tasks.add(task)
            task.add_done_callback(self._persister.tasks.discard)

    async def _ask(self, leader: int) -> None:
        peers = self._node.peers
        code = ErrorCode.NETWORK_EXCEPTION
        if peers is not None:
            try:
                request = self._api.request_of(self._key, self._asked)
                response = await peers.request(leader, request, self._api.response, lane=LANE)
            except KafkaError as error:
                code = error.code
            else:
                if response.results:
                    self._on_result(response.results[0].partitions[0])
                    return
                code = ErrorCode.INVALID_REQUEST  # of a request without a group
        self._refused(code)

    def _on_result(self, result: Any) -> None:
        if result.error_code in _RETRIED:
            self._refused(ErrorCode(result.error_code))
        else:
            self._then(result)

    def _refused(self, code: ErrorCode) -> None:
        persister, clock = self._persister, self._node.runtime.clock
        is_retried = code in _RETRIED and not persister.is_closed
        if is_retried and clock.monotonic() < self._until:
            self._failures += 1
            pause_ms = _BACKOFF.plain_ms(self._failures)
            self._node.replicas.purgatory.watch(Pause(self.attempt), (), pause_ms)
        else:
            self._then(self._api.refused(self._key.partition, KafkaError(code)))
