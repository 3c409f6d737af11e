"""Where the transactions of a source task end, and which offsets are in them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.connect.api import SourceRecord
from moldau.connect.errors import ConnectError
from moldau.connect.task.boundaries import Boundaries, Boundary, Ready

A, B = {"file": "a"}, {"file": "b"}


def record(place: dict[str, str], position: int) -> SourceRecord:
    return SourceRecord(place, {"position": position}, "topic", value=position)


def send(to: Boundaries, *records: SourceRecord) -> list[Ready]:
    """Send the records of a poll one by one; what has to be done after each, then after all."""
    found = []
    for each in records:
        to.on_sent()
        to.on_offset(each.source_partition, each.source_offset)
        to.on_record(each)
        found.append(to.ready())
    to.on_poll()
    return [*found, to.ready()]


def made(boundary: Boundary, interval_ms: int = 100) -> Boundaries:
    return Boundaries(boundary, interval_ms, now_ms=0)


def test_each_poll_is_a_transaction_with_the_last_offset_of_each_partition() -> None:
    ready = send(made(Boundary.POLL), record(A, 1), record(B, 5), record(A, 2))

    assert ready[:3] == [Ready()] * 3
    assert ready[3] == Ready(commits=True, offsets=[(A, {"position": 2}), (B, {"position": 5})])


def test_a_poll_whose_records_are_all_dropped_commits_its_offsets() -> None:
    boundaries = made(Boundary.POLL)
    boundaries.on_offset(A, {"position": 3})
    boundaries.on_poll()

    assert boundaries.ready() == Ready(commits=True, offsets=[(A, {"position": 3})])


def test_a_poll_with_nothing_to_keep_commits_nothing() -> None:
    boundaries = made(Boundary.POLL)
    boundaries.on_offset(None, None)
    boundaries.on_poll()

    assert not boundaries.ready()


@pytest.mark.parametrize("boundary", Boundary)
def test_a_transaction_with_a_part_of_a_poll_is_aborted_at_the_end(boundary: Boundary) -> None:
    boundaries = made(boundary)
    if boundaries.wishes is not None:
        boundaries.wishes.commit_transaction()
    boundaries.on_sent()
    boundaries.on_offset(A, {"position": 1})
    boundaries.on_cut()
    boundaries.on_stop()

    assert boundaries.ready() == Ready(aborts=True, is_read_again=True)


def test_an_interval_ends_also_while_nothing_is_polled() -> None:
    boundaries = made(Boundary.INTERVAL)
    assert send(boundaries, record(A, 1)) == [Ready(), Ready()]
    boundaries.on_time(99)
    assert not boundaries.ready()

    boundaries.on_time(100)

    assert boundaries.ready() == Ready(commits=True, offsets=[(A, {"position": 1})])
    boundaries.on_time(200)
    assert not boundaries.ready(), "nothing was sent since"


def test_a_connector_commits_and_aborts_after_a_record_and_after_a_poll() -> None:
    boundaries = made(Boundary.CONNECTOR)
    wishes = boundaries.wishes
    assert wishes is not None
    first, second, third = record(A, 1), record(A, 2), record(A, 3)
    wishes.commit_transaction(first)
    wishes.abort_transaction(second)

    ready = send(boundaries, first, second, third)

    assert ready[0] == Ready(commits=True, offsets=[(A, {"position": 1})])
    assert ready[1] == Ready(aborts=True, commits=True, offsets=[(A, {"position": 2})])
    assert ready[2:] == [Ready(), Ready()]
    wishes.commit_transaction()
    assert send(boundaries, record(A, 4))[-1] == Ready(commits=True, offsets=[(A, {"position": 4})])
    assert send(boundaries, record(A, 5))[-1] == Ready(), "each wish counts once"


@pytest.mark.parametrize("boundary", [Boundary.POLL, Boundary.INTERVAL])
def test_the_end_commits_what_was_sent(boundary: Boundary) -> None:
    boundaries = made(boundary)
    boundaries.on_sent()
    boundaries.on_offset(A, {"position": 1})

    boundaries.on_stop()

    assert boundaries.ready() == Ready(commits=True, offsets=[(A, {"position": 1})])


def test_the_end_aborts_what_a_connector_has_not_finished() -> None:
    boundaries = made(Boundary.CONNECTOR)
    send(boundaries, record(A, 1))

    boundaries.on_stop()

    assert boundaries.ready() == Ready(aborts=True, is_read_again=True)


@pytest.mark.parametrize("target", [lambda: None, lambda: record(A, 1)])
def test_a_wish_to_commit_and_to_abort_the_same_is_refused(
    target: Callable[[], SourceRecord | None],
) -> None:
    wishes = made(Boundary.CONNECTOR).wishes
    assert wishes is not None
    at = target()
    wishes.commit_transaction(at)

    with pytest.raises(ConnectError, match="commit and to abort"):
        wishes.abort_transaction(at)
