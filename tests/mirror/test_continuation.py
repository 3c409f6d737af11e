"""Where a partition continues: by the topic's id, or by the end of its log."""

from __future__ import annotations

import pytest

from moldau.client import TopicPartition
from moldau.connect.api import ConnectError
from moldau.mirror.continuation import CopyEnd, continuation, offset_after
from moldau.mirror.source_task import check_partition, partition_of

WHERE = TopicPartition("orders", 0)
OLD, NEW = bytes(15) + b"\2", bytes(15) + b"\3"


@pytest.mark.parametrize(
    ("copied", "continues_at", "is_told"),
    [
        (CopyEnd(7, OLD), 7, False),
        (CopyEnd(2, OLD), 3, True),
        (CopyEnd(12, OLD), 10, True),
        (CopyEnd(7, NEW), 3, True),
        (CopyEnd(12, NEW), 3, True),
        (CopyEnd(7), 7, False),
        (CopyEnd(12), 3, True),
    ],
)
def test_a_partition_continues_in_its_topic_and_begins_anew_in_another(
    copied: CopyEnd, continues_at: int, is_told: bool
) -> None:
    found = continuation(WHERE, copied, OLD, 3, 10)

    assert (found.offset, found.warning is not None) == (continues_at, is_told)


def test_a_stored_offset_has_javas_form_with_the_id_beside_it() -> None:
    assert offset_after(6) == {"offset": 6}
    assert CopyEnd.of({"offset": 6}) == CopyEnd(7)
    assert CopyEnd.of(offset_after(6, OLD)) == CopyEnd(7, OLD)
    assert CopyEnd.of(None) is None


def test_an_offset_with_another_id_than_a_topics_is_refused() -> None:
    partition = partition_of("A", WHERE)

    check_partition(partition, offset_after(6, OLD))
    for wrong in ({"offset": -1}, {"offset": 6, "topic_id": "orders"}):
        with pytest.raises(ConnectError, match="orders"):
            check_partition(partition, wrong)
