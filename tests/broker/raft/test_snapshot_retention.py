"""Old snapshots of the metadata log: which go, when, and the log with them."""

from __future__ import annotations

from contextlib import suppress

import pytest

from moldau.broker.log.log_config import LogConfig
from moldau.broker.raft.quorum import Quorum
from moldau.broker.raft.snapshot_retention import (
    FEWEST,
    SNAPSHOTS_KEPT_MIN,
    KeptSnapshot,
    SnapshotRetention,
)
from moldau.broker.raft.snapshots import read_last_timestamp
from moldau.records import encode_batch
from moldau.runtime.simulated.incarnation import NodeKilled
from tests.broker.log.simulated_node import SimulatedNode
from tests.broker.raft import keeping
from tests.broker.raft.leading import lead
from tests.broker.raft.lone_voter import ALONE, FOLDER, NOW, values

HOUR_MS = 3_600_000
SEGMENTS = LogConfig(
    retention_ms=-1,
    retention_bytes=-1,
    segment_bytes=200,
    segment_index_bytes=400,
    file_delete_delay_ms=9,
)


@pytest.mark.parametrize(
    ("bytes_max", "ms_max", "needless"),
    [
        (-1, -1, 0),
        (1_000, 1_000, 0),
        (0, -1, 3),
        (-1, 0, 3),
        (-1, 350, 2),
        (-1, 250, 3),  # never the newest two
        (549, -1, 1),  # 5 x 100 and a log of 50 are one byte too many
        (550, -1, 0),
        (449, -1, 2),
        (549, 350, 2),
    ],
)
def test_what_is_too_old_or_too_much_goes(bytes_max: int, ms_max: int, needless: int) -> None:
    snapshots = [KeptSnapshot(100, NOW - age) for age in (500, 400, 300, 200, 100)]
    assert SnapshotRetention(bytes_max, ms_max).count_needless(snapshots, 50, NOW) == needless


def test_the_newest_two_stay_whatever_is_said() -> None:
    for count in range(4):
        snapshots = [KeptSnapshot(100, 0)] * count
        expected = max(0, count - SNAPSHOTS_KEPT_MIN)
        assert FEWEST.count_needless(snapshots, 0, NOW) == expected


def opened(node: SimulatedNode, retention: SnapshotRetention, now_ms: int = NOW) -> Quorum:
    return Quorum.open(node.files, "/p", ALONE, now_ms, SEGMENTS, retention)


def add(quorum: Quorum, value: int, now_ms: int) -> None:
    quorum.append(encode_batch([(now_ms, None, b"%d" % value, ())]), now_ms)
    quorum.flush()


def with_snapshots(node: SimulatedNode, retention: SnapshotRetention, count: int) -> Quorum:
    """One an hour, each after a record; every record is the sum of all so far."""
    quorum = opened(node, retention)
    lead(quorum, NOW)
    for hour in range(count):
        now_ms = NOW + hour * HOUR_MS
        add(quorum, hour, now_ms)
        total = [encode_batch([(now_ms, None, b"%d" % sum(range(hour + 1)), ())])]
        keeping.write_snapshot(quorum, quorum.high_watermark, total, now_ms)
    return quorum


def test_snapshots_and_the_log_behind_them_stay_until_they_are_too_old() -> None:
    node = SimulatedNode()
    quorum = with_snapshots(node, SnapshotRetention(-1, 10 * HOUR_MS), 5)
    assert len(quorum.snapshots) == 5
    assert quorum.log.log_start_offset == quorum.snapshots[0].end_offset
    first, second = quorum.snapshots[0], quorum.snapshots[1]
    assert read_last_timestamp(node.files, f"{FOLDER}/{second.file_name}") == NOW + HOUR_MS

    keeping.clean(quorum, NOW + 10 * HOUR_MS)
    assert quorum.snapshots[0] == first, "as old as may be"
    keeping.clean(quorum, NOW + 10 * HOUR_MS + 1)
    assert quorum.snapshots[0] == second
    assert quorum.log.log_start_offset == second.end_offset
    assert not node.files.exists(f"{FOLDER}/{first.file_name}")
    quorum.close()

    again = opened(node, SnapshotRetention(-1, 10 * HOUR_MS))
    assert len(again.snapshots) == 4
    assert values(again) == [10]


def test_files_of_the_log_that_were_let_go_are_freed() -> None:
    node = SimulatedNode()
    quorum = with_snapshots(node, FEWEST, 8)
    later = NOW + 100 * HOUR_MS
    keeping.clean(quorum, later)
    assert not [each for each in node.files.list(FOLDER) if each.endswith(".log.deleted")]
    segments = [name for name in node.files.list(FOLDER) if name.endswith(".log")]
    assert 0 < len(segments) < 8, "the log was rolled, and its beginning went"
    assert values(quorum) == [sum(range(8))]


def test_what_is_too_much_goes_from_the_oldest_on() -> None:
    node = SimulatedNode()
    quorum = with_snapshots(node, SnapshotRetention(-1, -1), 6)
    assert len(quorum.snapshots) == 6
    names = [each.file_name for each in quorum.snapshots]
    sizes = [node.files.stat(f"{FOLDER}/{name}").size_bytes for name in names]
    quorum.retention = SnapshotRetention(quorum.log.size_bytes + sum(sizes[2:]), -1)
    keeping.clean(quorum, NOW)
    assert [each.file_name for each in quorum.snapshots] == names[2:]


def test_no_loss_of_power_leaves_a_log_with_a_hole() -> None:
    """Names of removed files come back, some of them: never a snapshot whose log is gone."""
    for seed in range(40):
        node = SimulatedNode(seed)
        keep_all = SnapshotRetention(-1, -1)
        quorum = with_snapshots(node, keep_all, 6)
        quorum.retention = FEWEST
        node.die_after(seed)
        with suppress(NodeKilled):
            keeping.clean(quorum, NOW)
            keeping.clean(quorum, NOW + HOUR_MS)
        node.die_after(None)
        node.power_loss()
        again = opened(node, keep_all)
        assert values(again) == [sum(range(6))]
        start, oldest = again.log.log_start_offset, again.snapshots[0].end_offset
        assert start == oldest
        offsets = [batch.header.base_offset for batch in again.log.batches(start)]
        assert offsets == list(range(offsets[0], again.log.log_end_offset)), "no hole"
        lead(again, NOW)
        add(again, 7, NOW)
        again.close()
