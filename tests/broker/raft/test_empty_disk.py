"""A voter that started with an empty disk: whom it votes for, what it says, when it has caught up.

Voter 1 is the one with the empty disk, unless a test says otherwise.
"""

from __future__ import annotations

import os
from contextlib import suppress
from random import Random
from unittest.mock import patch

import pytest

from moldau.broker.raft.empty_disk import (
    CaughtUp,
    EmptyDisk,
    LogEnd,
    OthersHaveRecords,
    VoteWithheld,
)
from moldau.broker.raft.empty_disk_mark import EMPTY_DISK
from moldau.broker.raft.messages import (
    AnotherLeader,
    BeginEpoch,
    Divergence,
    EpochAnswer,
    FetchAsk,
    FetchVerdict,
    VoteAnswer,
    VoteAsk,
)
from moldau.broker.raft.quorum import DIRECTORY, Membership, Quorum
from moldau.broker.raft.quorum_state import QuorumState
from moldau.broker.raft.replica import Member, RaftReplica, RaftTimeouts, Role
from moldau.broker.raft.snapshots import SnapshotId
from moldau.errors import CorruptLog
from moldau.errors.codes import ErrorCode
from moldau.runtime.simulated.incarnation import NodeKilled
from tests.broker.log.simulated_node import SimulatedNode
from tests.broker.raft.voters_in_memory import Disk, ListLog, Record, World

OK = ErrorCode.NONE
THREE, FIVE = (1, 2, 3), (1, 2, 3, 4, 5)
FOLDER = f"/p/{DIRECTORY}"
SEEDS = int(os.environ.get("MOLDAU_RAFT_SEEDS", "30"))


def wiped(voters: tuple[int, ...] = THREE, records: list[Record] | None = None) -> RaftReplica:
    log = ListLog(Disk(records=[] if records is None else records))
    member = Member(1, voters, has_empty_disk=True)
    core = RaftReplica(member, QuorumState(), log, Random(1), RaftTimeouts())
    core.start(0)
    return core


def ask(candidate: int, last_epoch: int, end: int, *, is_pre_vote: bool = True) -> VoteAsk:
    return VoteAsk(last_epoch, candidate, last_epoch, end, is_pre_vote)


def is_granted(core: RaftReplica, asked: VoteAsk) -> bool:
    return core.on_vote_ask(asked, 0).is_granted


def notices(core: RaftReplica) -> list[object]:
    return list(core.take_ready().notices)


# What it votes for.


def test_in_a_new_cluster_empty_logs_elect_at_once() -> None:
    core = wiped()
    assert is_granted(core, VoteAsk(0, 2, 0, 0, is_pre_vote=True))
    assert is_granted(core, VoteAsk(1, 2, 0, 0, is_pre_vote=False))
    assert notices(core) == []


def test_the_first_leader_of_a_cluster_counts_its_own_vote_and_has_caught_up() -> None:
    core = wiped()
    core.on_tick(core.deadline_ms)
    for is_pre_vote in (True, False):
        (asked,) = [each for peer, each in core.take_ready().requests if peer == 2]
        assert isinstance(asked, VoteAsk)
        assert asked.is_pre_vote == is_pre_vote
        core.on_peer_answer(2, asked, VoteAnswer(EpochAnswer(OK, core.epoch, -1), True), 0)
    assert core.role is Role.LEADER
    ready = core.take_ready()
    assert ready.elected_by == (1, 2)
    assert ready.has_caught_up
    assert ready.notices == (CaughtUp(is_new_cluster=True),)
    assert not core.has_empty_disk


def test_a_log_with_records_gets_no_vote_while_another_log_is_unknown() -> None:
    core = wiped()
    for is_pre_vote in (True, False):
        assert not is_granted(core, ask(2, 5, 9, is_pre_vote=is_pre_vote))
    assert notices(core) == [OthersHaveRecords(2), *[VoteWithheld(2, (3,), ())] * 2]


def test_the_longest_of_all_known_logs_gets_the_vote() -> None:
    core = wiped()
    assert not is_granted(core, ask(2, 5, 9))
    assert is_granted(core, ask(3, 5, 10))
    assert not is_granted(core, ask(2, 5, 9))
    assert notices(core)[-1] == VoteWithheld(2, (), (3,))
    assert is_granted(core, ask(2, 5, 10)), "a log that is not shorter holds the same"
    assert is_granted(core, VoteAsk(6, 3, 5, 10, is_pre_vote=False))
    assert core.take_ready().state == QuorumState(6, -1, 3)


def test_it_gives_no_vote_in_an_epoch_that_it_may_have_voted_in() -> None:
    """Voter 3 elected it in epoch 5, and it has forgotten that."""
    core = wiped()
    core.on_fetch(FetchAsk(3, 5, 8, 4), 0)
    assert core.epoch == 5
    asked = VoteAsk(5, 2, 4, 10, is_pre_vote=False)
    assert not is_granted(core, asked)
    assert notices(core) == [OthersHaveRecords(3)]
    assert is_granted(core, asked._replace(is_pre_vote=True)), "it would lead in epoch 6"
    assert is_granted(core, asked._replace(epoch=6))


def test_a_newer_epoch_makes_a_log_longer_than_more_records() -> None:
    core = wiped()
    is_granted(core, ask(2, 5, 90))
    assert is_granted(core, ask(3, 6, 10))


def test_of_five_voters_all_logs_must_be_known() -> None:
    core = wiped(FIVE)
    for voter in (2, 3):
        assert not is_granted(core, ask(voter, 5, 9))
    assert not is_granted(core, ask(4, 5, 9))
    assert notices(core)[-1] == VoteWithheld(4, (5,), ())
    assert is_granted(core, ask(5, 5, 9))
    assert is_granted(core, ask(2, 5, 9))


def test_another_voter_with_an_empty_disk_is_known_by_its_own_ask() -> None:
    core = wiped()
    assert not is_granted(core, ask(2, 5, 9))
    assert not is_granted(core, VoteAsk(5, 3, 0, 0, is_pre_vote=True)), "voter 2 has records"
    assert is_granted(core, ask(2, 5, 9))


def test_two_empty_disks_elect_none_of_themselves_while_another_voter_has_records() -> None:
    core = wiped()
    is_granted(core, ask(3, 5, 9))
    core.on_tick(core.deadline_ms)
    (asked,) = [each for peer, each in core.take_ready().requests if peer == 2]
    assert isinstance(asked, VoteAsk)
    core.on_peer_answer(2, asked, VoteAnswer(EpochAnswer(OK, core.epoch, -1), True), 0)
    assert core.role is Role.PROSPECTIVE, "voter 2 would vote for it, and it does not itself"


def test_a_fetch_tells_how_far_a_log_goes() -> None:
    core = wiped()
    verdict, _ = core.on_fetch(FetchAsk(3, 5, 12, 5), 0)
    assert verdict.epoch_answer == EpochAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, -1)
    assert not is_granted(core, ask(2, 5, 11))
    assert notices(core)[-1] == VoteWithheld(2, (), (3,))


def test_a_granted_vote_tells_that_a_log_goes_no_further() -> None:
    core = wiped(records=[(5, 0), (5, 1)])
    core.on_tick(core.deadline_ms)
    (asked,) = [each for peer, each in core.take_ready().requests if peer == 3]
    assert isinstance(asked, VoteAsk)
    core.on_peer_answer(3, asked, VoteAnswer(EpochAnswer(OK, core.epoch, -1), True), 0)
    assert core.role is Role.PROSPECTIVE, "its own vote does not count yet"
    assert is_granted(core, ask(2, 5, 2))


def test_what_a_leader_answers_makes_older_news_of_logs_worthless() -> None:
    core = wiped()
    is_granted(core, ask(2, 5, 9))
    core.on_begin_epoch(BeginEpoch(6, 3), 0)
    assert is_granted(core, ask(3, 5, 9)) is False
    asked = FetchAsk(1, 6, 0, 0)
    core.on_fetched(3, asked, FetchVerdict(EpochAnswer(OK, 6, 3), -1), 0)
    core.on_leader_lost(0)
    core.take_ready()
    assert not is_granted(core, VoteAsk(6, 2, 6, 20, is_pre_vote=True))
    assert notices(core) == [VoteWithheld(2, (3,), ())]
    assert not is_granted(core, VoteAsk(7, 2, 0, 0, is_pre_vote=True)), "the leader has records"


def test_of_two_voters_the_other_one_has_everything() -> None:
    assert is_granted(wiped((1, 2)), ask(2, 5, 9))


def test_a_part_of_the_log_does_not_make_it_a_leader() -> None:
    """It holds 2 of the records that it once acknowledged; voter 2 never had more than 1."""
    core = wiped(records=[(5, 0), (5, 1)])
    core.on_tick(core.deadline_ms)
    ready = core.take_ready()
    assert ready.notices == (VoteWithheld(1, (2, 3), ()),)
    (asked,) = [each for peer, each in ready.requests if peer == 2]
    assert isinstance(asked, VoteAsk)
    core.on_peer_answer(2, asked, VoteAnswer(EpochAnswer(OK, core.epoch, -1), True), 0)
    core.on_peer_failed(3, asked, 0)
    assert core.role is Role.PROSPECTIVE


def test_a_sole_voter_leads_at_once() -> None:
    core = wiped((1,))
    assert core.role is Role.LEADER
    assert core.take_ready().has_caught_up


# When it has caught up.


def following(records: list[Record]) -> RaftReplica:
    core = wiped(records=records)
    core.on_begin_epoch(BeginEpoch(5, 2), 0)
    core.on_fetched(2, FetchAsk(1, 5, 0, 0), FetchVerdict(EpochAnswer(OK, 5, 2), 9), 0)
    return core


def test_it_says_at_once_that_its_leader_has_records() -> None:
    core = following([])
    assert notices(core) == [OthersHaveRecords(2)]
    core.on_fetched(2, FetchAsk(1, 5, 0, 0), FetchVerdict(EpochAnswer(OK, 5, 2), 9), 0)
    assert notices(core) == [], "once"


@pytest.mark.parametrize(("durable", "mark"), [(8, 9), (9, -1), (0, 0)])
def test_it_has_not_caught_up_before_all_that_is_committed_is_durable(
    durable: int, mark: int
) -> None:
    core = following([(5, 0)])
    core.on_caught_up(durable, mark)
    assert core.has_empty_disk
    assert not core.take_ready().has_caught_up


def test_it_votes_like_any_other_when_it_has_caught_up() -> None:
    core = following([(5, 0)])
    core.take_ready()
    core.on_caught_up(9, 9)
    ready = core.take_ready()
    assert ready.has_caught_up
    assert ready.notices == (CaughtUp(is_new_cluster=False),)
    assert not core.take_ready().has_caught_up
    core.on_leader_lost(0)
    assert is_granted(core, VoteAsk(5, 3, 5, 1, is_pre_vote=True))


def test_who_voted_for_an_empty_log_is_not_told_that_the_leader_has_records() -> None:
    core = wiped()
    assert is_granted(core, VoteAsk(1, 2, 0, 0, is_pre_vote=False))
    core.on_begin_epoch(BeginEpoch(1, 2), 0)
    core.on_fetched(2, FetchAsk(1, 1, 0, 0), FetchVerdict(EpochAnswer(OK, 1, 2), 1), 0)
    core.on_caught_up(1, 1)
    assert notices(core) == [CaughtUp(is_new_cluster=True)]


# What lost disks do to others.


def test_a_leader_says_once_that_another_one_leads_in_its_epoch() -> None:
    log = ListLog(Disk(records=[(5, 0)]))
    core = RaftReplica(Member(1, THREE), QuorumState(5, 1, 1), log, Random(1), RaftTimeouts())
    core.start(0)
    for _ in range(2):
        core.on_begin_epoch(BeginEpoch(5, 3), 0)
    assert notices(core) == [AnotherLeader(5, 3)]
    assert core.next_fetch() is None, "it does not follow it"
    core.on_begin_epoch(BeginEpoch(6, 3), 0)
    assert notices(core) == []


@pytest.mark.parametrize("is_in_snapshot", [False, True])
def test_what_is_committed_is_not_cut_off_for_a_leader_that_lacks_it(is_in_snapshot: bool) -> None:
    log = ListLog(Disk(records=[(1, 0), (1, 1), (2, 2)]))
    if is_in_snapshot:
        log.newest_snapshot = SnapshotId(2, 1)
    else:
        log.high_watermark = 2
    core = RaftReplica(Member(1, THREE), QuorumState(), log, Random(1), RaftTimeouts())
    core.start(0)
    core.on_begin_epoch(BeginEpoch(3, 2), 0)
    asked = FetchAsk(1, 3, 3, 2)
    verdict = FetchVerdict(EpochAnswer(OK, 3, 2), 0, diverging=Divergence(1, 1))
    with pytest.raises(CorruptLog, match="voters lost their disks"):
        core.on_fetched(2, asked, verdict, 0)


# The mark on the disk.


def opened(node: SimulatedNode, voters: tuple[int, ...] = THREE, node_id: int = 1) -> Quorum:
    return Quorum.open(node.files, "/p", Membership(node_id, voters), 0)


def test_only_one_of_several_voters_in_the_settings_is_marked() -> None:
    assert opened(SimulatedNode()).has_empty_disk
    assert not opened(SimulatedNode(), (1,)).has_empty_disk, "a sole voter"
    assert not opened(SimulatedNode(), ()).has_empty_disk, "the log says who votes"
    assert not opened(SimulatedNode(), THREE, 4).has_empty_disk, "an observer"


def test_a_disk_with_a_vote_or_a_log_is_not_marked() -> None:
    for keeps_vote in (True, False):
        node = SimulatedNode()
        quorum = opened(node)
        quorum.end_empty_disk()
        if keeps_vote:
            quorum.save_state(QuorumState(3, 2, 2))
        else:
            leader = wiped((1,)).leader
            assert leader is not None
            quorum.begin_epoch(leader, (1,), 0)
        quorum.close()
        assert not opened(node).has_empty_disk


def test_the_mark_outlives_restarts_until_the_voter_has_caught_up() -> None:
    node = SimulatedNode()
    quorum = opened(node)
    for epoch in range(1, 4):
        quorum.save_state(QuorumState(epoch))
        node.power_loss()
        quorum = opened(node)
        assert quorum.has_empty_disk
    quorum.end_empty_disk()
    node.power_loss()
    assert not opened(node).has_empty_disk


@pytest.mark.parametrize("seed", range(3))
def test_power_may_fail_at_any_call_and_no_vote_leaves_without_the_mark(seed: int) -> None:
    ends = {"before the vote": 0, "after the vote": 0}
    for step in range(60):
        node = SimulatedNode(seed * 1000 + step)
        has_voted = False
        node.die_after(step)
        with suppress(NodeKilled):
            opened(node).save_state(QuorumState(1, -1, 2))
            has_voted = True
        node.power_loss()
        node.die_after(None)
        if has_voted:
            assert node.files.exists(f"{FOLDER}/{EMPTY_DISK}")
        ends["after the vote" if has_voted else "before the vote"] += 1
        assert opened(node).has_empty_disk
    assert all(ends.values()), ends


# Whole quorums under faults.


def storm(seed: int, voters: int) -> World:
    """Nodes die and are cut off, and now and then one comes back with an empty disk: one at a time,
    while all others have records."""
    world, random, value = World(seed, voters), Random(seed), 0
    for _ in range(40):
        world.run(random.randrange(20, 300))
        leader = world.leader()
        if leader is not None:
            for _ in range(random.randrange(4)):
                value += 1
                leader.append(value)
        match random.randrange(7):
            case 0:
                world.nodes[random.randrange(voters) + 1].crash()
            case 1 | 2:
                for node in world.nodes.values():
                    if not node.is_up:
                        node.boot()
            case 3:
                world.cut.add(frozenset(random.sample(sorted(world.nodes), 2)))
            case 4:
                world.cut.clear()
            case _:
                others = [each for each in world.nodes.values() if each.disk.records]
                is_safe = not any(each.disk.is_marked for each in world.nodes.values())
                if is_safe and len(others) == voters:
                    random.choice(others).wipe()
    world.heal()
    world.run(5_000)
    return world


@pytest.mark.parametrize("voters", [3, 5])
def test_a_wiped_disk_loses_nothing_committed_and_a_leader_comes_back(voters: int) -> None:
    wipes = 0
    for seed in range(SEEDS):
        world = storm(seed, voters)
        leader = world.leader()
        assert leader is not None, f"no leader after the faults ended, seed {seed}"
        leader.append(10**6)
        world.run(500)
        assert world.committed[-1] == (leader.core.epoch, 10**6), f"seed {seed}"
        ends = {node.log.high_watermark for node in world.nodes.values()}
        assert ends == {leader.log.log_end_offset}, f"seed {seed}"
        assert not any(node.disk.is_marked for node in world.nodes.values()), f"seed {seed}"
        wipes += sum(node.wipes for node in world.nodes.values())
    assert wipes > SEEDS


def test_without_the_rule_a_wiped_disk_loses_what_was_committed() -> None:
    def storms() -> None:
        for seed in range(60):
            storm(seed, 3)

    with (
        patch.object(EmptyDisk, "objection", lambda *_: None),
        pytest.raises((AssertionError, CorruptLog)),
    ):
        storms()


def test_log_ends_compare_as_raft_compares_logs() -> None:
    assert LogEnd(2, 1) > LogEnd(1, 9) > LogEnd(1, 8) > LogEnd(0, 0)
