"""Members of both protocols under lost answers, slow users and comings and goings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client.group.member import MemberSubscription
from tests.client.group.drive import Game
from tests.client.group.member_kinds import KINDS


def turn(game: Game) -> None:
    """One thing that may happen."""
    random = game.random
    player = random.choice(game.players)
    chosen = random.randrange(20)
    if chosen < 7:
        game.act(player)
    elif chosen < 13:
        game.deliver(player)
    elif chosen < 16:
        game.poll(player)
    elif chosen == 16:
        game.lose(player)
    elif chosen == 17:
        game.now += random.choice((0.1, 1.0, 3.0, 12.0))
        game.model.tick(game.now)
    elif chosen == 18 and len(game.players) < 5:
        game.join()
    elif chosen == 19:
        fewer = frozenset(random.choice((("t",), ("u",), ("t", "u"))))
        player.member.subscribe(MemberSubscription(fewer))
    else:
        game.now += 0.2


@pytest.mark.parametrize(("protocol", "assignor"), KINDS)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_nobody_reads_what_another_one_reads_and_all_is_read(
    protocol: str, assignor: str, seed: int
) -> None:
    game = Game(seed, protocol, assignor)
    game.join()
    for _ in range(250):
        turn(game)
        game.check()
    for player in game.players:
        game.lose(player)
        player.member.subscribe(MemberSubscription(frozenset(("t", "u"))))
    game.settle()
    assert game.is_settled()


@pytest.mark.parametrize(("protocol", "assignor"), KINDS)
def test_a_member_that_does_not_poll_leaves_and_comes_back(protocol: str, assignor: str) -> None:
    game = Game(1, protocol, assignor)
    first, second = game.join(), game.join()
    game.settle(20)
    assert game.is_settled()
    while not second.member.is_out:
        game.now += 0.1
        game.model.tick(game.now)
        game.poll(first)
        for player in game.players:
            game.act(player)
            game.deliver(player)
        game.check()
        assert game.now < 60
    game.players.remove(second)
    game.settle(20)
    assert game.is_settled(), "the other one has taken over"
    game.players.append(second)
    game.settle(20)
    assert game.is_settled()


@pytest.mark.parametrize(("protocol", "assignor"), KINDS)
def test_who_leaves_gives_everything_up_first(protocol: str, assignor: str) -> None:
    game = Game(1, protocol, assignor)
    first, second = game.join(), game.join()
    game.settle(20)
    assert first.member.owned
    assert second.member.owned
    second.member.subscribe(MemberSubscription())
    for _ in range(3):
        game.act(second)
        game.deliver(second)
        assert not second.member.is_out, "its user has not heard of it yet"
    game.settle(20)
    assert second.member.is_out
    assert second.member.owned == ()
    game.players.remove(second)
    assert game.is_settled()
