"""The metadata log on files: led, committed, shortened, and never forgetting across power loss."""

from __future__ import annotations

from contextlib import suppress

import pytest

from moldau.broker.raft.quorum import Membership, Quorum
from moldau.broker.raft.quorum_state import read_quorum_state
from moldau.broker.raft.snapshots import SnapshotHeader, SnapshotId, write_snapshot
from moldau.broker.raft.voters import DYNAMIC, Voter, Voters
from moldau.errors import CorruptLog
from moldau.records import control_records, encode_batch
from moldau.runtime.simulated.incarnation import NodeKilled
from tests import suites
from tests.broker.log.simulated_node import SimulatedNode
from tests.broker.raft import keeping
from tests.broker.raft.leading import lead
from tests.broker.raft.lone_voter import ALONE, FOLDER, NOW, values

SELF = Voters(DYNAMIC, (Voter(1, b"d" * 16, (("CONTROLLER", "127.0.0.1", 9093),)),))


def record(value: int) -> bytearray:
    return encode_batch([(NOW, None, b"%d" % value, ())])


def opened(node: SimulatedNode, membership: Membership = ALONE) -> Quorum:
    return Quorum.open(node.files, "/p", membership, NOW)


def leading(node: SimulatedNode) -> Quorum:
    quorum = opened(node)
    lead(quorum, NOW)
    return quorum


def add(quorum: Quorum, *added: int) -> None:
    for value in added:
        quorum.append(record(value), NOW)
    quorum.flush()


def test_the_first_epoch_is_1_and_its_first_record_says_who_leads() -> None:
    quorum = leading(SimulatedNode())
    assert (quorum.epoch, quorum.log_end_offset, quorum.high_watermark) == (1, 1, 1)
    (batch,) = quorum.log.batches(0)
    assert [each.type for each in control_records(batch)] == [2]
    value = control_records(batch)[0].value
    assert value is not None
    assert value.hex() == "00000000000102000000010002000000010000", "Kafka's bytes"
    assert values(quorum) == []


def test_each_leadership_has_an_epoch_of_its_own() -> None:
    node = SimulatedNode()
    for epoch in (1, 2, 3):
        quorum = leading(node)
        assert quorum.epoch == epoch
        assert read_quorum_state(node.files, FOLDER).leader_epoch == epoch
        quorum.close()


def test_nothing_is_committed_before_it_is_durable() -> None:
    quorum = leading(SimulatedNode())
    last = quorum.append(record(7), NOW)
    assert (last, quorum.high_watermark) == (1, 1)
    assert quorum.flush()
    assert quorum.high_watermark == 2
    assert not quorum.flush()


def test_voters_formatted_into_the_first_snapshot_enter_the_log() -> None:
    node = SimulatedNode()
    node.files.make_dirs(FOLDER)
    path = f"{FOLDER}/{SnapshotId(0, 0).file_name}"
    write_snapshot(node.files, path, SnapshotHeader(0, NOW, NOW, SELF), [])
    quorum = opened(node, Membership(1))
    assert quorum.voters == SELF
    lead(quorum, NOW)
    (batch,) = quorum.log.batches(0)
    assert [each.type for each in control_records(batch)] == [2, 5, 6]
    quorum.close()
    node.files.remove(path)
    assert opened(node, Membership(1)).voters == SELF


def test_a_snapshot_takes_the_place_of_the_log_before_it() -> None:
    node = SimulatedNode()
    quorum = leading(node)
    add(quorum, 1, 2, 3)
    made = keeping.write_snapshot(quorum, quorum.high_watermark, [record(6)], NOW)
    assert made == SnapshotId(4, 1)
    add(quorum, 4)
    assert values(quorum) == [6, 4]
    quorum.close()
    again = opened(node)
    assert values(again) == [6, 4]
    lead(again, NOW)
    add(again, 5)
    keeping.write_snapshot(again, again.high_watermark, [record(15)], NOW)
    keeping.write_snapshot(again, again.high_watermark, [record(15)], NOW)
    add(again, 8)
    keeping.write_snapshot(again, again.high_watermark, [record(23)], NOW)
    assert len(again.snapshots) == 2
    assert again.log.log_start_offset == again.snapshots[0].end_offset
    again.close()
    assert values(opened(node)) == [23]


def test_a_log_that_lost_its_beginning_is_refused() -> None:
    node = SimulatedNode()
    quorum = leading(node)
    quorum.log.truncate_fully_and_start_at(5)
    quorum.close()
    with pytest.raises(CorruptLog):
        opened(node)


def live(node: SimulatedNode, acknowledged: list[int]) -> None:
    """One life: lead, write, snapshot on the way; what is committed is acknowledged."""
    quorum = leading(node)
    for step in range(6):
        value = acknowledged[-1] + 1 if acknowledged else 1
        quorum.append(record(value), NOW)
        quorum.flush()
        acknowledged.append(value)
        if step % 3 == 2:
            kept = [record(each) for each in values(quorum)]
            keeping.write_snapshot(quorum, quorum.high_watermark, kept, NOW)
    quorum.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", suites.seeds(range(4), quick=1))
def test_power_may_fail_at_any_call_and_nothing_acknowledged_is_lost(seed: int) -> None:
    for step in range(3, 400, 7):
        node = SimulatedNode(seed * 1000 + step)
        acknowledged: list[int] = []
        epochs = [0]
        for _ in range(2):
            node.die_after(step)
            with suppress(NodeKilled):
                live(node, acknowledged)
            node.power_loss()
            node.die_after(None)
            found = opened(node)
            told = values(found)
            assert told[: len(acknowledged)] == acknowledged
            assert len(told) <= len(acknowledged) + 1, "at most the one that was under way"
            acknowledged[:] = told
            assert found.state.leader_epoch >= epochs[-1]
            epochs.append(found.state.leader_epoch)
            lead(found, NOW)
            assert found.epoch > epochs[-1]
            epochs.append(found.epoch)
            found.close()
