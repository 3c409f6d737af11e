"""Decide about one share partition: initialize, read, write, delete, summarize.

Order and codes of the checks are Kafka's. Each answer is a response with the one partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.coordinator.outcome import Outcome, Ticket, answered
from moldau.broker.coordinator.share.combining import NO_OFFSET
from moldau.broker.coordinator.share.state import (
    UNKNOWN_COUNT,
    SharePartitionKey,
    ShareState,
    Write,
    deleted,
    runs_of,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import delete_share_group_state as deleting
from moldau.protocol.messages import initialize_share_group_state as initializing
from moldau.protocol.messages import read_share_group_state as reading
from moldau.protocol.messages import read_share_group_state_summary as summing
from moldau.protocol.messages import write_share_group_state as writing

if TYPE_CHECKING:
    from moldau.broker.coordinator.share.states import ShareStates

FIRST_LEADER_EPOCH = 0


def initialize(
    states: ShareStates,
    key: SharePartitionKey,
    asked: initializing.PartitionData,
    ticket: Ticket,
    now_ms: int,
) -> Outcome:
    """Begin a state anew. What was known before is forgotten.

    A request without a start offset that names the present state epoch changes nothing: it is the
    first one, sent again because its answer was lost, and members may have gone on since.
    """
    _check_partition(key)
    _check_epochs(state=asked.state_epoch)
    known = states.get(key)
    _check_state_epoch(states, key, asked.state_epoch)
    _check_exists(states, key)
    result = initializing.PartitionResult(partition=key.partition, error_code=ErrorCode.NONE)
    response = initializing.InitializeShareGroupStateResponse(
        results=[initializing.InitializeStateResult(topic_id=key.topic_id, partitions=[result])]
    )
    is_known = known is not None and known.state_epoch == asked.state_epoch
    if is_known and asked.start_offset == NO_OFFSET:
        return answered(ticket, response)
    wall_ms = states.services.wall_ms(now_ms)
    fresh = ShareState(
        snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
        state_epoch=asked.state_epoch,
        leader_epoch=FIRST_LEADER_EPOCH,
        start_offset=asked.start_offset,
        complete_count=UNKNOWN_COUNT if asked.start_offset == NO_OFFSET else 0,
        created_ms=wall_ms,
        written_ms=wall_ms,
    )
    return Outcome((fresh.snapshot(key),), ((ticket, response),))


def read(
    states: ShareStates,
    key: SharePartitionKey,
    asked: reading.PartitionData,
    ticket: Ticket,
    now_ms: int,
) -> Outcome:
    """Return the state to a leader. A leader with a new epoch fences the ones before it."""
    _check_partition(key)
    _check_epochs(leader=asked.leader_epoch)
    known = _initialized(states, key, "read")
    _check_leader_epoch(states, key, asked.leader_epoch)
    _check_exists(states, key)
    result = reading.PartitionResult(
        partition=key.partition,
        error_code=ErrorCode.NONE,
        state_epoch=known.state_epoch,
        start_offset=known.start_offset,
        state_batches=[
            reading.StateBatch(
                first_offset=run.first,
                last_offset=run.last,
                delivery_state=run.state,
                delivery_count=run.deliveries,
                not_before_ms=run.not_before_ms,
            )
            for run in known.runs
        ],
    )
    response = reading.ReadShareGroupStateResponse(
        results=[reading.ReadStateResult(topic_id=key.topic_id, partitions=[result])]
    )
    if asked.leader_epoch == states.epochs(key).leader:
        return answered(ticket, response)
    write = Write(asked.leader_epoch, known.start_offset, known.complete_count)
    return Outcome((states.written(key, write, now_ms),), ((ticket, response),))


def write(
    states: ShareStates,
    key: SharePartitionKey,
    asked: writing.PartitionData,
    ticket: Ticket,
    now_ms: int,
) -> Outcome:
    """Store a change of a leader that knows the current epochs.

    The start never falls: a leader that did not hear that a change was stored still sends the start
    before it, and the records in between are done.
    """
    _check_partition(key)
    _check_epochs(leader=asked.leader_epoch, state=asked.state_epoch)
    known = _initialized(states, key, "write")
    _check_leader_epoch(states, key, asked.leader_epoch)
    _check_state_epoch(states, key, asked.state_epoch)
    _check_exists(states, key)
    change = Write(
        known.leader_epoch,
        max(asked.start_offset, known.start_offset),
        asked.delivery_complete_count,
        runs_of(asked.state_batches),
    )
    result = writing.PartitionResult(partition=key.partition, error_code=ErrorCode.NONE)
    response = writing.WriteShareGroupStateResponse(
        results=[writing.WriteStateResult(topic_id=key.topic_id, partitions=[result])]
    )
    return Outcome((states.written(key, change, now_ms),), ((ticket, response),))


def delete(states: ShareStates, key: SharePartitionKey, ticket: Ticket, now_ms: int) -> Outcome:
    """Forget a state. It is no error if there is none."""
    _check_partition(key)
    _check_exists(states, key)
    result = deleting.PartitionResult(partition=key.partition, error_code=ErrorCode.NONE)
    response = deleting.DeleteShareGroupStateResponse(
        results=[deleting.DeleteStateResult(topic_id=key.topic_id, partitions=[result])]
    )
    if states.get(key) is None:
        return answered(ticket, response)
    return Outcome((deleted(key),), ((ticket, response),))


def summarize(states: ShareStates, key: SharePartitionKey, ticket: Ticket, now_ms: int) -> Outcome:
    """Return where the group stands, without single records."""
    _check_partition(key)
    _check_exists(states, key)
    known = states.get(key)
    result = summing.PartitionResult(
        partition=key.partition,
        error_code=ErrorCode.NONE,
        state_epoch=0 if known is None else known.state_epoch,
        leader_epoch=0 if known is None else known.leader_epoch,
        start_offset=NO_OFFSET if known is None else known.start_offset,
        delivery_complete_count=UNKNOWN_COUNT if known is None else known.complete_count,
    )
    response = summing.ReadShareGroupStateSummaryResponse(
        results=[summing.ReadStateSummaryResult(topic_id=key.topic_id, partitions=[result])]
    )
    return answered(ticket, response)


def _check_partition(key: SharePartitionKey) -> None:
    if key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition is not negative")


def _check_epochs(**epochs: int) -> None:
    for name, epoch in epochs.items():
        if epoch < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a {name} epoch is not negative")


def _initialized(states: ShareStates, key: SharePartitionKey, what: str) -> ShareState:
    known = states.get(key)
    if known is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the share partition must be initialized before a {what}",
            key=str(key),
        )
    return known


def _check_leader_epoch(states: ShareStates, key: SharePartitionKey, epoch: int) -> None:
    known = states.epochs(key).leader
    if known > epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, epoch=epoch, known=known)


def _check_state_epoch(states: ShareStates, key: SharePartitionKey, epoch: int) -> None:
    known = states.epochs(key).state
    if known > epoch:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, epoch=epoch, known=known)


def _check_exists(states: ShareStates, key: SharePartitionKey) -> None:
    if not states.exists(key.topic_id, key.partition):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, key=str(key))
