"""The messages that a page keeps of those that match: the first or last of all, and no more."""

from __future__ import annotations

import random

import pytest

from moldau.console.messages import SHOWN, Found, Message, readable
from moldau.ids import ZERO_UUID
from moldau.link.metadata import Partition, Topic


@pytest.mark.parametrize("is_newest", [True, False])
def test_only_what_is_shown_is_kept_while_matches_come(*, is_newest: bool) -> None:
    given = [Message(0, at, at // 2, "", "", (), (None, b"x" * 9)) for at in range(2_000)]
    expected = given[: -SHOWN - 1 : -1] if is_newest else given[:SHOWN]
    random.Random(7).shuffle(given)
    found = Found()
    for begin in range(0, len(given), 500):
        found.messages += given[begin : begin + 500]
        found.keep(is_newest=is_newest)
        assert len(found.messages) == SHOWN
    assert found.messages == expected


def test_a_partition_without_a_leader_keeps_no_other_from_being_read() -> None:
    partitions = tuple(Partition(each, leader, 0, (1,), (1,)) for each, leader in ((0, 1), (1, -1)))
    topic = Topic("orders", ZERO_UUID, partitions)
    assert readable(topic, "") == ([0], [1])
    assert readable(topic, "1") == ([0, 1], [])
