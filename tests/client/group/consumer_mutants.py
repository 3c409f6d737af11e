"""Bugs on purpose, in what consumers commit, and in what they give by which way. Games of whole
consumers must find them all, each by a promise that it names.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from moldau.client.consumer.commits import Commits
from moldau.client.consumer.consumer import Consumer
from moldau.client.consumer.membership import ConsumerGroup
from moldau.client.consumer.progress import ReadProgress
from moldau.client.consumer.reader import RecordStream
from moldau.client.group.classic_consumer import ClassicConsumer
from moldau.client.group.consumer import ConsumerMember
from moldau.records import ConsumerRecord
from tests.broker.simulation.search import Hunt, Mutant
from tests.client.group.consumer_book import Promise

Mutation = AbstractContextManager[object]


# Who goes, and what he leaves.


def what_goes_is_not_committed() -> Mutation:
    """Partitions are revoked, and what was given of them is forgotten."""
    return patch.object(Commits, "commit_before", Commits.commits_ended)


def nothing_is_committed_at_last() -> Mutation:
    """By close."""

    async def nothing(*_: object) -> None:
        return None

    return patch.object(Commits, "commit_at_last", nothing)


def who_unsubscribes_waits_for_nothing() -> Mutation:
    """His listener is told by some later poll."""

    async def nothing(*_: object) -> None:
        return None

    return patch.object(ConsumerGroup, "run_changes", nothing)


@contextmanager
def who_closes_does_not_leave() -> Iterator[None]:
    """The coordinator finds out by itself."""

    def forget(member: Any, *, is_closing: bool) -> None:
        member._give_everything_up(is_closing=is_closing)
        if not is_closing:
            member._depart() if isinstance(member, ConsumerMember) else member._depart("")

    with (
        patch.object(ClassicConsumer, "leave", forget),
        patch.object(ConsumerMember, "leave", forget),
    ):
        yield


def nobody_gives_up_before_he_joins() -> Mutation:
    """As if every group were cooperative."""
    return patch.object(ClassicConsumer, "_prepares", lambda _: False)


# What is committed.


def a_record_too_many_is_committed() -> Mutation:
    """One that no poll has given yet."""
    original = ReadProgress._ahead_of

    def ahead(progress: ReadProgress, left: Any) -> Any:
        found = original(progress, left)
        return {where: each._replace(offset=each.offset + 1) for where, each in found.items()}

    return patch.object(ReadProgress, "_ahead_of", ahead)


def the_timer_commits_what_is_in_hand() -> Mutation:
    """As a poll would, which comes when the user is done with all."""
    return patch.object(ReadProgress, "done", ReadProgress.consumed)


def what_is_at_hand_counts_as_done() -> Mutation:
    """To the timer, while the user goes through records or parts."""
    return patch.object(ReadProgress, "finished", ReadProgress.returned)


def what_a_poll_gave_counts_as_done() -> Mutation:
    """To the timer."""
    return patch.object(ReadProgress, "gave", lambda *_: None)


def the_timer_takes_commits_back() -> Mutation:
    """The user's own, which covered what he had in hand."""
    return patch.object(ReadProgress, "_note_commit", lambda *_: None)


def a_commit_leaves_out_what_is_at_hand() -> Mutation:
    """As if it went by itself."""

    return patch.object(ReadProgress, "returned", ReadProgress.finished)


def nothing_is_committed_as_time_passes() -> Mutation:
    """By polls alone."""
    return patch.object(Commits, "_commit_meanwhile", lambda _: None)


def a_cancelled_task_was_done() -> Mutation:
    """With what it had at hand."""
    return patch.object(ReadProgress, "_is_finished", lambda *_: True)


# What is given.


def what_is_left_of_a_part_is_lost() -> Mutation:
    """When its reader leaves it in the middle."""
    return patch.object(ReadProgress, "_cut", lambda _: None)


def a_paused_part_is_read_on() -> Mutation:
    """By who is in the midst of it."""
    return patch.object(ReadProgress, "pause", lambda *_: None)


def a_seek_keeps_what_lies_here() -> Mutation:
    """It is given before what was sought."""
    return patch.object(ReadProgress, "drop", lambda *_: None)


def who_is_cut_off_has_no_stream_any_more() -> Mutation:
    """As with an asynchronous generator."""

    async def generated(consumer: Consumer) -> AsyncIterator[ConsumerRecord]:
        async for record in RecordStream(consumer._reader, 500):
            yield record

    return patch.object(Consumer, "__aiter__", generated)


MUTANTS: Final[dict[Mutant, Hunt]] = {
    what_goes_is_not_committed: Hunt(range(100), (Promise.NOTHING_REPEATED,)),
    nothing_is_committed_at_last: Hunt(range(100), (Promise.COMMITTED_AT_THE_END,)),
    who_unsubscribes_waits_for_nothing: Hunt(range(100), (Promise.HEARD_TO_THE_END,)),
    who_closes_does_not_leave: Hunt(range(300), (Promise.LEAVES,)),
    nobody_gives_up_before_he_joins: Hunt(
        range(100), (Promise.ONE_OWNER, Promise.HEARD_IN_ORDER, Promise.NOTHING_REPEATED)
    ),
    a_record_too_many_is_committed: Hunt(
        range(100), (Promise.ONLY_GIVEN_COMMITTED, Promise.NOT_IN_HAND)
    ),
    the_timer_commits_what_is_in_hand: Hunt(range(100), (Promise.NOT_IN_HAND,)),
    what_is_at_hand_counts_as_done: Hunt(range(100), (Promise.NOT_IN_HAND,)),
    what_a_poll_gave_counts_as_done: Hunt(range(100), (Promise.NOT_IN_HAND,)),
    the_timer_takes_commits_back: Hunt(range(100), (Promise.COMMITS_GO_ON,)),
    a_commit_leaves_out_what_is_at_hand: Hunt(range(100), (Promise.COVERS_ALL_GIVEN,)),
    a_cancelled_task_was_done: Hunt(range(200), (Promise.NOT_IN_HAND,)),
    nothing_is_committed_as_time_passes: Hunt(range(100), (Promise.COMMITTED_MEANWHILE,)),
    what_is_left_of_a_part_is_lost: Hunt(range(100), (Promise.NO_GAP, Promise.NOT_IN_HAND)),
    a_paused_part_is_read_on: Hunt(range(100), (Promise.PAUSED_GIVES_NOTHING,)),
    a_seek_keeps_what_lies_here: Hunt(range(100), (Promise.NO_GAP,)),
    who_is_cut_off_has_no_stream_any_more: Hunt(range(100), (Promise.STREAMS_GO_ON,)),
}
"""Each with what must find it, and seeds enough for that; several times what it took."""
