"""Members whose users leave and come back at any moment, and whose changes and commits take time.

After every event of a game, beside what `Game` looks at: a commit that the coordinator takes is not
of a partition that somebody else was told is his. At the end whoever leaves gets out of the group,
whatever was under way.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client.consumer.membership import AnyMember
from moldau.client.group.assignors import load_assignors
from moldau.client.group.classic_consumer import ClassicConsumer
from moldau.client.group.consumer import ConsumerMember
from moldau.client.group.member import NOBODY, Change, Identity, Kind, MemberSubscription
from moldau.errors.codes import ErrorCode
from moldau.link.metadata import TopicPartition
from tests.client.group.drive import TERMS, TOPICS, Game, Player
from tests.client.group.member_kinds import KINDS

ALL = MemberSubscription(frozenset(TOPICS))
TRIES_MAX = 7


@dataclass
class Commit:
    """An offset on its way: before it is sent, it is nobody's."""

    where: TopicPartition
    tenure: int | None
    sent_by: Identity | None = None
    tries: int = 0


@dataclass
class User(Player):
    """Who polls, commits, unsubscribes and closes."""

    running: Change | None = None
    commits: list[Commit] = field(default_factory=list)
    has_closed: bool = False
    is_subscribed: bool = True


class LongGame(Game):
    """See above."""

    is_static = False

    def join(self) -> User:
        """One more."""
        member: AnyMember
        name = f"m{len(self.players)}"
        if self.protocol == "classic":
            terms = replace(TERMS, instance_id=name if self.is_static else None)
            member = ClassicConsumer(terms, load_assignors([self.assignor]), self.random)
        else:
            member = ConsumerMember(TERMS, name, self.random)
        user = User(member)
        self.players.append(user)
        member.subscribe(ALL)
        member.on_poll(self.now)
        return user

    def begin(self, user: User) -> None:
        """The user is told of the next change, and commits what goes."""
        if user.running is not None or user.has_closed:
            return
        if user.is_subscribed:
            user.member.on_poll(self.now)
        user.member.take_error()
        change = user.running = user.member.begin_change()
        if change is None:
            return
        for where in change.partitions:
            assert (user.told.get(where) is Kind.ASSIGNED) is (change.kind is not Kind.ASSIGNED)
            user.told[where] = change.kind
        if change.kind is Kind.REVOKED:
            self.begin_commits(user, change.partitions)

    def end(self, user: User) -> None:
        """The change that runs ends, unless what goes is being committed."""
        change = user.running
        if change is None:
            return
        sent = {each.where for each in user.commits if each.sent_by is not None}
        if change.kind is not Kind.REVOKED or sent.isdisjoint(change.partitions):
            user.running = None
            user.member.end_change(self.now)

    def begin_commits(self, user: User, partitions: tuple[TopicPartition, ...]) -> None:
        """Of these."""
        user.commits += [Commit(where, user.member.tenure(where)) for where in partitions]

    def step(self, user: User) -> None:
        """One of the commits is sent, or answered, or given up."""
        if not user.commits:
            return
        commit = self.random.choice(user.commits)
        if commit.sent_by is None:
            tenure, identity = user.member.tenure(commit.where), user.member.identity
            is_his = tenure is not None and tenure == commit.tenure
            if is_his and identity != NOBODY and commit.tries < TRIES_MAX:
                commit.sent_by = identity
            else:
                user.commits.remove(commit)
        elif self.model.may_commit(commit.sent_by.member_id, commit.sent_by.epoch):
            user.commits.remove(commit)
            self.check_owner(user, commit)
        else:
            self.refuse(user, commit, commit.sent_by)

    def check_owner(self, user: User, commit: Commit) -> None:
        """It was taken: nobody else has the partition who may commit it too."""
        for other in self.players:
            identity = other.member.identity
            if other is not user and self.model.may_commit(identity.member_id, identity.epoch):
                assert other.told.get(commit.where) is not Kind.ASSIGNED, commit

    def refuse(self, user: User, commit: Commit, sent_by: Identity) -> None:
        """As outdated; whether it is sent again is the member's to say."""
        is_new = self.protocol == "consumer"
        code = ErrorCode.STALE_MEMBER_EPOCH if is_new else ErrorCode.ILLEGAL_GENERATION
        user.member.on_commit_refused(sent_by, code)
        if user.member.may_commit_later(sent_by, commit.where):
            commit.sent_by, commit.tries = None, commit.tries + 1
        else:
            user.commits.remove(commit)

    def unsubscribe(self, user: User) -> None:
        """Gives everything up."""
        user.is_subscribed = False
        user.member.subscribe(MemberSubscription())

    def close(self, user: User) -> None:
        """Ends what runs, commits, and leaves."""
        if user.running is not None:
            user.commits.clear()
            self.end(user)
        user.member.hold()
        self.begin_commits(user, user.member.owned)
        user.has_closed = True

    def is_free(self, user: User) -> bool:
        """Whether nothing is left to be done for who leaves."""
        return user.running is None and not user.member.has_change() and not user.commits


def turn(game: LongGame) -> None:
    """One thing that may happen."""
    random = game.random
    user = random.choice(game.players)
    assert isinstance(user, User)
    chosen = random.randrange(100)
    if chosen < 25:
        game.act(user)
    elif chosen < 50:
        game.deliver(user)
    elif chosen < 58:
        game.begin(user)
    elif chosen < 66:
        game.end(user)
    elif chosen < 80:
        game.step(user)
    elif chosen < 83:
        game.begin_commits(user, user.member.owned)
    elif chosen < 85:
        game.lose(user)
    elif chosen < 90:
        game.now += random.choice((0.1, 0.1, 1.0, 3.0, 12.0))
        game.model.tick(game.now)
    elif chosen < 92 and len(game.players) < 5:
        game.join()
    elif chosen < 96:
        comes_and_goes(game, user, chosen)
    else:
        game.now += 0.2


def comes_and_goes(game: LongGame, user: User, chosen: int) -> None:
    """What a user decides."""
    if user.has_closed:
        user.member.leave(is_closing=True)
    elif chosen == 92:
        game.unsubscribe(user)
    elif chosen == 93 and game.random.random() < 0.3:
        game.close(user)
    else:
        topics = game.random.choice((("t",), ("u",), ("t", "u")))
        user.is_subscribed = True
        user.member.subscribe(MemberSubscription(frozenset(topics)))


@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize(("protocol", "assignor"), KINDS)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_whoever_leaves_at_any_moment_commits_only_what_is_his_and_gets_out(
    protocol: str, assignor: str, is_static: bool, seed: int
) -> None:
    game = LongGame(seed, protocol, assignor)
    game.is_static = is_static
    game.join()
    for _ in range(800):
        turn(game)
        game.check()
    all_leave(game)
    for user in game.players:
        assert user.member.is_out
    game.players = [each for each in game.players if isinstance(each, User) and not each.has_closed]
    for user in game.players:
        assert not user.member.owned
        user.member.subscribe(ALL)
    if game.players:
        game.settle()
        assert game.is_settled(), "who comes back gets everything"


def all_leave(game: LongGame) -> None:
    """No more faults; whoever has not closed unsubscribes, and has time to end it in."""
    users = [each for each in game.players if isinstance(each, User)]
    for user in users:
        game.lose(user)
        if not user.has_closed:
            game.unsubscribe(user)
    for _ in range(400):
        game.now += 0.1
        game.model.tick(game.now)
        for user in users:
            if user.has_closed and game.is_free(user):
                user.member.leave(is_closing=True)
            game.begin(user)
            game.end(user)
            game.step(user)
            game.act(user)
            game.deliver(user)
            game.check()
