"""How far a sink task is in its partitions."""

from __future__ import annotations

from moldau.client import OffsetAndMetadata, TopicPartition
from moldau.connect.task.progress import SinkProgress

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def read(progress: SinkProgress, where: TopicPartition, first: int, end: int) -> None:
    assert progress.on_begin(where, first) is None
    progress.on_reached(where, end)


def test_only_what_was_put_may_be_committed() -> None:
    progress = SinkProgress()
    read(progress, A, 3, 8)
    assert progress.done([A, B]) == {}

    progress.on_put()
    read(progress, A, 8, 9)

    assert progress.done([A, B]) == {A: OffsetAndMetadata(8)}


def test_a_part_that_is_put_alone_counts_alone() -> None:
    progress = SinkProgress()
    read(progress, A, 0, 8)
    read(progress, B, 0, 8)

    progress.on_part(A, 5)

    assert progress.done([A, B]) == {A: OffsetAndMetadata(5)}


def test_reading_begins_again_at_the_commit_or_where_it_began() -> None:
    progress = SinkProgress()
    read(progress, A, 3, 8)
    assert progress.start(A) == 3
    assert progress.start(B) == 0

    progress.on_committed({A: OffsetAndMetadata(5)})

    assert progress.start(A) == 5


def test_a_partition_of_which_nothing_was_read_has_no_start() -> None:
    progress = SinkProgress()
    read(progress, A, 3, 8)
    progress.on_note(B, "dead letters")

    assert progress.starts([A, B]) == {A: 3}


def test_a_seek_moves_everything() -> None:
    progress = SinkProgress()
    read(progress, A, 3, 8)

    progress.on_seek(A, 20)
    progress.on_put()

    assert progress.done([A]) == {A: OffsetAndMetadata(20)}
    assert progress.start(A) == 20
    assert progress.on_begin(A, 19) == 20, "the log begins anew"
    assert progress.on_begin(A, 20) is None


def test_an_offset_is_committed_once_and_again_with_another_note() -> None:
    progress = SinkProgress()
    offsets = {A: OffsetAndMetadata(8)}
    assert progress.changed(offsets) == offsets

    progress.on_committed(offsets)
    assert progress.changed(offsets) == {}

    noted = {A: OffsetAndMetadata(8, "dead letters")}
    assert progress.changed(noted) == noted

    progress.on_note(A, "dead letters")
    assert progress.changed(noted) == {}


def test_what_was_read_and_is_not_committed_is_counted() -> None:
    progress = SinkProgress()
    read(progress, A, 3, 8)
    assert progress.uncommitted([A, B]) == 5

    progress.on_put()
    progress.on_committed({A: OffsetAndMetadata(6)})

    assert progress.uncommitted([A, B]) == 2


def test_nothing_is_left_of_a_partition_that_has_gone() -> None:
    progress = SinkProgress()
    read(progress, A, 3, 8)
    progress.on_put()

    progress.on_gone([A, B])

    assert progress.done([A]) == {}
    assert progress.on_begin(A, 0) is None
