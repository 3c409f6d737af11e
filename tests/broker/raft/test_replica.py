"""The core of Raft: one leader an epoch, nothing committed lost, a leader again after faults."""

from __future__ import annotations

import os
from random import Random

import pytest

from moldau.broker.raft.leader import OBSERVER_MS, OBSERVERS_MAX
from moldau.broker.raft.messages import (
    BeginEpoch,
    Divergence,
    EndEpoch,
    EpochAnswer,
    FetchAsk,
    FetchVerdict,
    VoteAnswer,
    VoteAsk,
)
from moldau.broker.raft.quorum_state import QuorumState
from moldau.broker.raft.replica import (
    NEVER,
    AfterFetch,
    Member,
    RaftReplica,
    RaftTimeouts,
    Role,
    SoftState,
)
from moldau.broker.raft.voters import DYNAMIC, Voter, Voters
from moldau.errors.codes import ErrorCode
from tests.broker.raft.voters_in_memory import Disk, ListLog, Record, World

OK = ErrorCode.NONE
MEMBERSHIP_SEEDS = int(os.environ.get("MOLDAU_RAFT_SEEDS", "40"))


def replica(
    node_id: int = 1,
    voters: tuple[int, ...] = (1, 2, 3),
    state: QuorumState | None = None,
    records: list[Record] | None = None,
) -> RaftReplica:
    log = ListLog(Disk(records=records or []))
    core = RaftReplica(
        Member(node_id, voters), state or QuorumState(), log, Random(1), RaftTimeouts()
    )
    core.start(0)
    return core


def elect(core: RaftReplica, now_ms: int = 10_000) -> None:
    """Through pre-vote and vote, with the voice of voter 2."""
    core.on_tick(now_ms)
    for is_pre_vote in (True, False):
        asked = [each for peer, each in core.take_ready().requests if peer == 2]
        assert isinstance(asked[0], VoteAsk)
        assert asked[0].is_pre_vote == is_pre_vote
        granted = VoteAnswer(EpochAnswer(OK, core.epoch, -1), is_granted=True)
        core.on_peer_answer(2, asked[0], granted, now_ms)
    assert core.role is Role.LEADER


def test_a_sole_voter_leads_at_once_and_waits_for_nobody() -> None:
    core = replica(voters=(1,), state=QuorumState(leader_epoch=4, leader_id=1))
    ready = core.take_ready()
    assert core.role is Role.LEADER
    assert ready.state == QuorumState(5, 1, 1)
    assert ready.elected_by == (1,)
    assert not ready.requests
    assert core.deadline_ms == NEVER


def test_a_pre_vote_raises_no_epoch_and_is_not_saved() -> None:
    core = replica()
    core.on_tick(core.deadline_ms)
    ready = core.take_ready()
    assert core.role is Role.PROSPECTIVE
    assert ready.state is None
    assert [(peer, ask.epoch) for peer, ask in ready.requests] == [(2, 0), (3, 0)]


def test_a_ready_says_once_what_has_changed_of_the_soft_state() -> None:
    core = replica()
    ready = core.take_ready()
    assert (ready.soft, ready.has_new_leader, ready.has_resigned) == (None, False, False)
    elect(core)
    ready = core.take_ready()
    assert ready.soft == SoftState(Role.LEADER, 1, 1)
    assert (ready.has_new_leader, ready.has_resigned) == (True, False)
    ready = core.take_ready()
    assert (ready.soft, ready.has_new_leader, ready.has_resigned) == (None, False, False)
    core.resign(20_000)
    ready = core.take_ready()
    assert ready.soft == SoftState(Role.RESIGNED, 1, -1)
    assert (ready.has_new_leader, ready.has_resigned) == (True, True)
    assert not core.take_ready().has_resigned


def test_a_leadership_that_no_ready_has_told_is_not_resigned() -> None:
    core = replica()
    elect(core)
    core.resign(20_000)
    ready = core.take_ready()
    assert (ready.elected_by, ready.has_resigned) == (None, False)


def test_an_elected_voter_tells_the_others_until_they_fetch() -> None:
    core = replica()
    elect(core)
    ready = core.take_ready()
    assert ready.state == QuorumState(1, 1, 1)
    assert ready.elected_by == (1, 2)
    assert ready.requests == ((2, BeginEpoch(1, 1)), (3, BeginEpoch(1, 1)))
    core.on_fetch(FetchAsk(2, 1, 0, 0), 10_001)
    core.on_tick(core.deadline_ms)
    assert core.take_ready().requests == ((3, BeginEpoch(1, 1)),)


def test_one_vote_an_epoch_is_granted_and_saved_before_it_is_told() -> None:
    core = replica()
    assert core.on_vote_ask(VoteAsk(1, 2, 0, 0, is_pre_vote=False), 0).is_granted
    assert core.take_ready().state == QuorumState(1, -1, 2)
    assert core.on_vote_ask(VoteAsk(1, 2, 0, 0, is_pre_vote=False), 0).is_granted
    assert not core.on_vote_ask(VoteAsk(1, 3, 0, 0, is_pre_vote=False), 0).is_granted
    again = replica(state=QuorumState(1, -1, 2))
    assert not again.on_vote_ask(VoteAsk(1, 3, 0, 0, is_pre_vote=False), 0).is_granted


def test_nobody_votes_for_a_log_that_ends_earlier() -> None:
    core = replica(records=[(1, 0), (2, 0)])
    assert not core.on_vote_ask(VoteAsk(5, 2, 1, 9, is_pre_vote=False), 0).is_granted
    assert not core.on_vote_ask(VoteAsk(5, 2, 2, 1, is_pre_vote=False), 0).is_granted
    assert core.on_vote_ask(VoteAsk(5, 2, 2, 2, is_pre_vote=False), 0).is_granted


def test_a_follower_that_hears_its_leader_refuses_pre_votes() -> None:
    core = replica()
    core.on_begin_epoch(BeginEpoch(3, 2), 0)
    asked = VoteAsk(3, 3, 0, 0, is_pre_vote=True)
    assert core.on_vote_ask(asked, 0).is_granted, "it has not fetched yet"
    source, ask = core.next_fetch() or (0, None)
    assert source == 2
    assert ask is not None
    core.on_fetched(2, ask, FetchVerdict(EpochAnswer(OK, 3, 2), 0), 0)
    assert not core.on_vote_ask(asked, 0).is_granted
    core.on_leader_lost(1)
    assert core.on_vote_ask(asked, 1).is_granted


def test_a_voter_that_led_before_its_restart_asks_for_pre_votes_soon() -> None:
    """No node leads the epoch that it led, and the others may have started anew as well."""
    core = replica(state=QuorumState(leader_epoch=4, leader_id=1))
    assert core.role is Role.RESIGNED
    waits = [core.deadline_ms]
    for _ in range(12):
        now_ms = core.deadline_ms
        core.on_tick(now_ms)
        (ask, *_) = [each for _, each in core.take_ready().requests]
        assert isinstance(ask, VoteAsk)
        assert ask.is_pre_vote
        for peer in (2, 3):
            core.on_peer_failed(peer, ask, now_ms)
        waits.append(core.deadline_ms - now_ms)
    timing = RaftTimeouts()
    assert waits[0] <= timing.notice_ms
    assert max(waits[:3]) <= 4 * timing.notice_ms
    assert timing.notice_ms * 4 < max(waits) <= timing.election_ms


def test_a_voter_stands_soon_if_the_leader_started_anew_and_leads_no_more() -> None:
    core = replica(state=QuorumState(leader_epoch=4, leader_id=2))
    leader = replica(2, state=QuorumState(leader_epoch=4, leader_id=2))
    source, ask = core.next_fetch() or (0, None)
    assert source == 2
    assert ask is not None
    verdict, _ = leader.on_fetch(ask, 5)
    core.on_fetched(2, ask, verdict, 5)
    before = core.role
    assert core.deadline_ms <= 5 + RaftTimeouts().notice_ms
    core.on_tick(core.deadline_ms)
    assert (before, core.role) == (Role.FOLLOWER, Role.PROSPECTIVE)


def test_candidates_that_lost_to_each_other_stand_again_soon() -> None:
    """Two voters that lose their leader at the same time vote for themselves."""
    core, timing = replica(), RaftTimeouts()
    core.on_begin_epoch(BeginEpoch(1, 3), 0)
    source, ask = core.next_fetch() or (0, None)
    assert ask is not None
    core.on_fetched(source, ask, FetchVerdict(EpochAnswer(OK, 1, 3), 0), 0)
    core.on_leader_lost(5_000)
    waits = [core.deadline_ms - 5_000]
    for _ in range(12):
        now_ms = core.deadline_ms
        core.on_tick(now_ms)
        for is_pre_vote in (True, False):
            ready = core.take_ready()
            (vote,) = [each for peer, each in ready.requests if peer == 2]
            assert isinstance(vote, VoteAsk)
            assert vote.is_pre_vote == is_pre_vote
            answer = VoteAnswer(EpochAnswer(OK, core.epoch, -1), is_granted=is_pre_vote)
            core.on_vote_answer(2, vote, answer, now_ms)
        core.on_peer_failed(3, vote, now_ms)
        assert core.role is Role.CANDIDATE
        waits.append(core.deadline_ms - now_ms)
    assert waits[0] <= timing.notice_ms
    assert max(waits[1:3]) <= 2 * timing.notice_ms
    assert 4 * timing.notice_ms < max(waits) <= timing.backoff_ms_max


def test_a_leader_that_nobody_fetches_from_resigns() -> None:
    core = replica()
    elect(core, 10_000)
    core.on_fetch(FetchAsk(3, 1, 0, 0), 11_000)
    for now_ms in (11_000, 12_000, 13_000, 14_000):
        core.on_tick(now_ms)
        assert core.role is Role.LEADER
    core.on_tick(15_000)
    assert core.role is Role.RESIGNED
    assert core.leader_id == -1


def test_a_leader_that_ends_names_who_should_follow_it() -> None:
    core = replica(records=[(1, 0)])
    elect(core)
    core.on_fetch(FetchAsk(3, core.epoch, 1, 1), 10_001)
    core.take_ready()
    core.resign(10_002)
    ending = EndEpoch(core.epoch, 1, (3, 2))
    assert core.take_ready().requests == ((3, ending), (2, ending))
    third = replica(3)
    third.on_end_epoch(ending, 0)
    assert third.deadline_ms == 0


def test_a_follower_cuts_what_its_leader_never_had() -> None:
    core = replica(records=[(1, 0), (1, 1), (2, 2), (2, 3)])
    core.on_begin_epoch(BeginEpoch(3, 2), 0)
    ask = FetchAsk(1, 3, 4, 2)
    for told, end in ((Divergence(1, 2), 2), (Divergence(2, 3), 3), (Divergence(1, 1), 1)):
        verdict = FetchVerdict(EpochAnswer(OK, 3, 2), 0, diverging=told)
        outcome = core.on_fetched(2, ask, verdict, 0)
        assert (outcome.action, outcome.truncate_to) == (AfterFetch.TRUNCATE, end)


def test_a_leader_says_where_another_log_leaves_its_own() -> None:
    core = replica(records=[(1, 0), (1, 1), (3, 2)])
    elect(core)
    epoch = core.epoch
    for offset, last_epoch, expected in (
        (3, 3, None),
        (0, 0, None),
        (2, 1, None),
        (3, 1, Divergence(1, 2)),
        (4, 2, Divergence(1, 2)),
        (5, 3, Divergence(3, 3)),
    ):
        verdict, _ = core.on_fetch(FetchAsk(2, epoch, offset, last_epoch), 10_001)
        assert verdict.diverging == expected, (offset, last_epoch)


def test_the_last_voter_elects_itself_when_its_leader_was_taken_out() -> None:
    core = replica(2, voters=(1, 2))
    core.on_begin_epoch(BeginEpoch(3, 1), 0)
    core.on_voters(Voters(DYNAMIC, (Voter(2),)), 10)
    core.on_end_epoch(EndEpoch(3, 1, (2,)), 20)
    core.on_tick(core.deadline_ms)
    assert core.role is Role.LEADER
    assert core.epoch == 4


def test_a_leader_that_votes_no_more_counts_the_others_alone() -> None:
    records: list[Record] = [(1, 0)]
    core = replica(records=records)
    elect(core)
    records.append((core.epoch, -1))
    core.on_voters(Voters(DYNAMIC, (Voter(2), Voter(3))), 10_001)
    assert not core.on_durable(2)
    assert not core.on_fetch(FetchAsk(2, core.epoch, 2, core.epoch), 10_002)[1]
    assert core.on_fetch(FetchAsk(3, core.epoch, 2, core.epoch), 10_002)[1]
    assert core.leader is not None
    assert core.leader.high_watermark == 2


def test_a_node_with_another_disk_is_no_voter() -> None:
    records: list[Record] = [(1, 0)]
    core = replica(records=records)
    known = Voters(DYNAMIC, (Voter(1, b"a" * 16), Voter(2, b"b" * 16), Voter(3, b"c" * 16)))
    core.on_voters(known, 0)
    assert core.member.is_voter, "its own disk is not known"
    elect(core)
    records.append((core.epoch, -1))
    core.on_durable(2)
    core.on_fetch(FetchAsk(2, core.epoch, 2, core.epoch, b"x" * 16), 10_001)
    assert core.leader is not None
    assert core.leader.high_watermark is None
    assert list(core.leader.observers) == [2]


def test_observers_that_are_silent_are_forgotten_and_their_number_is_bounded() -> None:
    core = replica()
    elect(core, 10_000)
    for number in range(10, 10 + 2 * OBSERVERS_MAX):
        core.on_fetch(FetchAsk(number, core.epoch, 0, 0), 10_000 + number)
    assert core.leader is not None
    assert len(core.leader.observers) == OBSERVERS_MAX
    assert 10 not in core.leader.observers
    core.on_fetch(FetchAsk(5, core.epoch, 0, 0), 20_000 + OBSERVER_MS)
    assert list(core.leader.observers) == [5]


def test_an_observer_asks_any_voter_and_learns_the_leader() -> None:
    core = replica(9)
    assert core.role is Role.UNATTACHED
    source, ask = core.next_fetch() or (0, None)
    assert source in (1, 2, 3)
    assert ask is not None
    told = FetchVerdict(EpochAnswer(ErrorCode.FENCED_LEADER_EPOCH, 7, 2))
    assert core.on_fetched(source, ask, told, 0).action is AfterFetch.NOTHING
    assert (core.role, core.epoch) == (Role.FOLLOWER, 7)
    assert (core.next_fetch() or (0, None))[0] == 2
    core.on_tick(core.deadline_ms)
    assert core.role is Role.UNATTACHED, "an observer never stands for election"


@pytest.mark.parametrize("voters", [3, 5])
def test_under_random_faults_nothing_committed_is_lost_and_a_leader_comes_back(voters: int) -> None:
    for seed in range(60):
        world = World(seed, voters)
        random = Random(seed)
        value = 0
        for _ in range(25):
            world.run(random.randrange(20, 200))
            leader = world.leader()
            if leader is not None:
                for _ in range(random.randrange(4)):
                    value += 1
                    leader.append(value)
            match random.randrange(6):
                case 0:
                    world.nodes[random.randrange(voters) + 1].crash()
                case 1 | 2:
                    for node in world.nodes.values():
                        if not node.is_up:
                            node.boot()
                case 3:
                    pair = random.sample(sorted(world.nodes), 2)
                    world.cut.add(frozenset(pair))
                case 4:
                    world.cut.clear()
        world.heal()
        world.run(3_000)
        leader = world.leader()
        assert leader is not None, f"no leader after the faults ended, seed {seed}"
        leader.append(10**6)
        world.run(500)
        ends = {node.log.high_watermark for node in world.nodes.values()}
        assert ends == {leader.log.log_end_offset}, f"seed {seed}"
        assert world.committed[-1] == (leader.core.epoch, 10**6)


def test_under_random_faults_voters_come_and_go_and_nothing_committed_is_lost() -> None:
    """Voters are added and removed, the leader among them, one by one or with nodes down and cut:
    one leader an epoch, committed records stay, and a leader is there again after the faults."""
    changes = 0
    for seed in range(MEMBERSHIP_SEEDS):
        world = World(seed, seed % 3 + 1, observers=2)
        random = Random(seed)
        value = 0
        for _ in range(40):
            world.run(random.randrange(20, 200))
            leader = world.leader()
            if leader is not None:
                for _ in range(random.randrange(3)):
                    value += 1
                    leader.append(value)
                if random.random() < 0.5 and leader.core.leader is not None:
                    changes += leader.change_voters(random)
                leader.carry_out()
            match random.randrange(8):
                case 0:
                    world.nodes[random.choice(sorted(world.nodes))].crash()
                case 1 | 2 | 3:
                    for node in world.nodes.values():
                        if not node.is_up:
                            node.boot()
                case 4:
                    world.cut.add(frozenset(random.sample(sorted(world.nodes), 2)))
                case 5:
                    world.cut.clear()
        world.heal()
        world.run(4_000)
        leader = world.leader()
        assert leader is not None, f"no leader after the faults ended, seed {seed}"
        leader.append(10**6)
        leader.carry_out()
        world.run(1_000)
        ends = {node.log.high_watermark for node in world.nodes.values()}
        assert ends == {leader.log.log_end_offset}, f"seed {seed}"
    assert changes > 5 * MEMBERSHIP_SEEDS
