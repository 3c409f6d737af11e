"""Bugs on purpose, of the kind that people really write, in clients and in coordinators. The
simulation must find them all, each by a promise that it names.

Each is a context in which the code has the bug; what is patched is told by its name, so a part that
is renamed fails here and not silently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import partial
from typing import Any
from unittest.mock import patch

from moldau.broker.coordinator import running_shard
from moldau.broker.coordinator.batches import Piece, decode_piece
from moldau.broker.coordinator.group.classic import group as classic_group
from moldau.broker.coordinator.group.classic import offsets as classic_offsets
from moldau.broker.coordinator.group.classic import sync
from moldau.broker.coordinator.group.classic.step import GroupEvent
from moldau.broker.coordinator.group.consumer import departure
from moldau.broker.coordinator.group.consumer import group as consumer_group
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState as ConsumerState
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.group.offsets import Offsets
from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket
from moldau.broker.decision.outcome import give
from moldau.broker.decision.runtime import DecisionRuntime
from moldau.client import TopicPartition
from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.consumer.consumer_core import ConsumerCore
from moldau.client.consumer.membership import ConsumerGroup
from moldau.client.consumer.position import Position, RequestedPosition
from moldau.client.consumer.progress import ReadProgress
from moldau.client.group.classic_consumer import ClassicConsumer
from moldau.client.group.consumer import ConsumerMember
from moldau.client.group.member import Change, Kind, Member
from moldau.client.group.session import GroupSession
from moldau.client.producer.batch import Batch, Trace
from moldau.client.producer.queue import PartitionQueue
from moldau.ids import Uuid
from moldau.protocol.messages.consumer_group_heartbeat import TopicPartitions
from moldau.protocol.messages.join_group import JoinGroupResponse
from moldau.protocol.messages.sync_group import SyncGroupRequest
from tests.broker.simulation.search import Hunt, Mutant
from tests.client.simulation.producer_mutants import PRODUCER_MUTANTS
from tests.client.simulation.promises import Promise
from tests.client.simulation.scenario import Bias, run_clients

Mutation = AbstractContextManager[object]


# Clients.


def begins_at_the_beginning() -> Mutation:
    """What the group has committed is asked for, and forgotten."""
    return patch.object(
        Position, "on_committed", lambda self, offset, epoch: self.forget(self.policy.reset)
    )


def commits_what_was_fetched() -> Mutation:
    """Not only what was given out."""

    def consumed(self: ReadProgress) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            each.where: OffsetAndMetadata(each.fetch_offset, "", each.epoch)
            for each in self._positions.values()
            if each.position >= 0
        }

    return patch.object(ReadProgress, "consumed", consumed)


@contextmanager
def takes_back_what_it_has_committed() -> Iterator[None]:
    """As time passes: some records less than the poll before."""
    original = ReadProgress.done

    def done(self: ReadProgress) -> dict[TopicPartition, OffsetAndMetadata] | None:
        found = original(self) or {}
        return {where: each._replace(offset=each.offset // 2) for where, each in found.items()}

    with patch.object(ReadProgress, "done", done):
        yield


def believes_old_answers() -> Mutation:
    """An answer to a look-up or fetch counts although the partition was assigned anew since."""

    def current(self: ConsumerCore, requested: RequestedPosition) -> Position | None:
        return self.positions.get(requested.where)

    return patch.object(ConsumerCore, "current", current)


def commits_old_offsets_to_new_topics() -> Mutation:
    """By the id that the name has now."""

    def topic_ids(
        self: ConsumerCore, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Uuid]:
        known = self.metadata.topics
        return {
            each: known[each.topic].topic_id if each.topic in known else bytes(16)
            for each in partitions
        }

    return patch.object(ConsumerCore, "topic_ids", topic_ids)


def reads_on_in_a_new_topic() -> Mutation:
    """A topic that was made again is read from where the old one was."""

    return patch.object(ConsumerCore, "on_topics", lambda self: None)


def keeps_what_is_lost() -> Mutation:
    """Who is fenced joins again and thinks that it still has everything."""
    return patch.object(Member, "_lose_everything", lambda self: self._plan())


@contextmanager
def says_that_it_has_given_up() -> Iterator[None]:
    """As soon as it hears what to give up, and not when the user has."""
    original = ConsumerMember._heartbeat

    def heartbeat(self: ConsumerMember) -> Any:
        request: Any
        request, says_owned = original(self)
        if (self._changes or self._running) and self.epoch > 0:
            says_owned = True
            request.topic_partitions = [
                TopicPartitions(topic_id=each, partitions=list(self._target[each]))
                for each in sorted(self._target)
            ]
        return request, says_owned

    with patch.object(ConsumerMember, "_heartbeat", heartbeat):
        yield


@contextmanager
def joins_before_it_has_given_up() -> Iterator[None]:
    """An eager member, while the user still works on what it had."""
    with patch.object(ClassicConsumer, "_prepares", lambda self: False):
        yield


@contextmanager
def watches_no_topics_when_it_is_back() -> Iterator[None]:
    """A static leader (KIP-814)."""
    original = ClassicConsumer.on_joined

    def joined(self: ClassicConsumer, answer: JoinGroupResponse, *, has_missed: bool) -> bool:
        assigns = original(self, answer, has_missed=has_missed)
        if answer.skip_assignment:
            self._must_compare = False
            self._watched = frozenset()
        return assigns

    with patch.object(ClassicConsumer, "on_joined", joined):
        yield


@contextmanager
def reads_on_what_was_revoked() -> Iterator[None]:
    """The listener is told, and the positions stay."""
    original = ConsumerGroup._take_over

    def take_over(self: ConsumerGroup, change: Change) -> None:
        if change.kind is not Kind.REVOKED:
            original(self, change)

    with patch.object(ConsumerGroup, "_take_over", take_over):
        yield


@contextmanager
def sends_again_as_something_new() -> Iterator[None]:
    """Under another epoch, which the broker cannot know for the same."""
    original = PartitionQueue.put_back

    def put_back(self: PartitionQueue, batch: Batch) -> None:
        batch.trace = Trace.NONE
        self.must_restart = True
        original(self, batch)

    with patch.object(PartitionQueue, "put_back", put_back):
        yield


def waits_for_what_nobody_ends() -> Mutation:
    """The session of a consumer that is closed waits for its task, and has not told it."""

    async def end(self: GroupSession, timeout_s: float) -> None:
        if self._driver.task is not None:
            await asyncio.wait([self._driver.task])

    return patch.object(GroupSession, "end", end)


# Coordinators.


def takes_commits_of_any_generation() -> Mutation:
    return patch.object(classic_offsets, "check_commit", lambda *_, **__: None)


def takes_commits_of_any_epoch() -> Mutation:
    return patch.object(consumer_group, "check_commit", lambda *_, **__: None)


@contextmanager
def syncs_in_any_generation() -> Iterator[None]:
    """Which one a sync names is not looked at."""
    original = sync.on_sync_group

    def on_sync_group(
        group: Any, step: GroupEvent, message: SyncGroupRequest, ticket: Ticket
    ) -> None:
        asked = copy(message)
        asked.generation_id = group.generation_id
        original(group, step, asked, ticket)

    with patch.object(classic_group, "on_sync_group", on_sync_group):
        yield


@contextmanager
def answers_before_it_is_committed() -> Iterator[None]:
    def park(self: DecisionRuntime[Groups, LogRecord], outcome: Outcome) -> None:
        for ticket, response in outcome.answers:
            give(ticket, response)

    with patch.object(DecisionRuntime, "_park", park):
        yield


def gives_what_others_still_have() -> Mutation:
    """A partition counts as free as soon as its owner was told to give it up."""

    def is_free(self: ConsumerState, topic_id: Uuid, partition: int) -> bool:
        return True

    return patch.object(ConsumerState, "is_free", is_free)


@contextmanager
def loads_without_the_end() -> Iterator[None]:
    """The last batch of what was read at once."""
    original = decode_piece

    def decode(*arguments: Any) -> Piece:
        found = original(*arguments)
        return found._replace(entries=found.entries[:-1]) if len(found.entries) > 3 else found

    with patch.object(running_shard, "decode_piece", decode):
        yield


def deletes_no_offsets() -> Mutation:
    """Tombstones are written, and not replayed."""
    return patch.object(Offsets, "_remove", lambda self, key: None)


def never_ends_a_session() -> Mutation:
    return patch.object(departure, "still_counts", lambda what, progress: False)


run_static_members = partial(
    run_clients, bias=Bias(groups=("eager", "cooperative"), static_share=1.0)
)
run_restless_members = partial(
    run_clients, bias=Bias(groups=("consumer", "mixed"), changes_share=0.1)
)

MUTANTS: dict[Mutant, Hunt] = {
    begins_at_the_beginning: Hunt(range(160), {Promise.NOTHING_REPEATED}),
    commits_what_was_fetched: Hunt(range(160), {Promise.ONLY_WORKED_ON}),
    takes_back_what_it_has_committed: Hunt(range(160), {Promise.COMMITTED_GROWS}),
    believes_old_answers: Hunt(
        range(320), {Promise.NOTHING_LEFT_OUT, Promise.NO_GAP}, run_restless_members
    ),
    commits_old_offsets_to_new_topics: Hunt(
        range(160), {Promise.COMMITTED_OF_TOPIC, Promise.ALL_WORKED_ON}
    ),
    reads_on_in_a_new_topic: Hunt(range(160), {Promise.COMMITTED_OF_TOPIC, Promise.ALL_WORKED_ON}),
    keeps_what_is_lost: Hunt(range(160), {Promise.HEARD_IN_ORDER, Promise.ONE_OWNER}),
    says_that_it_has_given_up: Hunt(range(160), {Promise.ONE_OWNER}),
    joins_before_it_has_given_up: Hunt(range(160), {Promise.ONE_OWNER}),
    watches_no_topics_when_it_is_back: Hunt(
        range(160), {Promise.ALL_COMMITTED}, run_static_members
    ),
    reads_on_what_was_revoked: Hunt(range(160), {Promise.ONLY_ASSIGNED}),
    sends_again_as_something_new: Hunt(range(160), {Promise.STANDS_ONCE}),
    waits_for_what_nobody_ends: Hunt(range(160), {Promise.ALL_END}),
    takes_commits_of_any_generation: Hunt(range(160), {Promise.FENCED, Promise.COMMITTED_GROWS}),
    takes_commits_of_any_epoch: Hunt(range(160), {Promise.FENCED, Promise.COMMITTED_GROWS}),
    syncs_in_any_generation: Hunt(range(160), {Promise.SYNC_OF_GENERATION}),
    answers_before_it_is_committed: Hunt(range(160), {Promise.COMMITTED_SURVIVES}),
    gives_what_others_still_have: Hunt(range(160), {Promise.ONE_OWNER}),
    loads_without_the_end: Hunt(range(160), {Promise.SHARD_IS_ITS_LOG}),
    deletes_no_offsets: Hunt(range(160), {Promise.COMMITTED_TOLD, Promise.SHARD_IS_ITS_LOG}),
    never_ends_a_session: Hunt(range(160), {Promise.ALL_COMMITTED}),
    **PRODUCER_MUTANTS,
}
"""Each with what must find it, and seeds enough for that; several times what it took."""
