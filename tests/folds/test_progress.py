"""The positions of a fold: what counts as read, when to read again, where to continue."""

from __future__ import annotations

from random import Random

from moldau.client import TopicPartition
from moldau.folds.progress import RETRY, FoldProgress

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_partition_is_read_when_its_position_is_at_the_end() -> None:
    progress = FoldProgress()
    assert progress.unread({A: 0, B: 3}) == {B: 3}, "an empty partition has nothing to read"
    progress.on_read({A: 0, B: 2})
    assert progress.unread({A: 0, B: 3}) == {B: 1}
    progress.note({A: None, B: 4})
    assert progress.unread({A: 0, B: 3}) == {}


def test_pauses_after_errors_grow_until_a_read_succeeds() -> None:
    progress, random = FoldProgress(), Random(1)
    pauses = [progress.on_error(random) for _ in range(8)]
    assert pauses[0] < 0.3
    assert pauses[-1] > 0.8 * RETRY.longest_ms / 1000
    progress.on_read({})
    assert progress.on_error(random) < 0.3
