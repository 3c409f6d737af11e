"""The fetches from one leader: the scripts, and what holds whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.replication.fetch_script import SCRIPTS, Player, played

FILES = sorted(SCRIPTS.glob("*.txt"))
NAMES = st.sampled_from("abc")
COMMANDS = st.one_of(
    st.builds("{} {}".format, st.sampled_from(["follow", "unfollow"]), NAMES),
    st.builds("respond {}+{}".format, NAMES, st.integers(0, 3)),
    st.builds("respond {}={}".format, NAMES, st.sampled_from(["NOT_LEADER_OR_FOLLOWER", "NONE"])),
    st.builds("respond {}+1 {}+2".format, NAMES, NAMES),
    st.builds("{} {}".format, st.sampled_from(["moved", "forget"]), NAMES),
    st.builds("behind {} {}".format, NAMES, st.integers(5, 9)),
    st.builds("{} {}".format, st.sampled_from(["goes-on", "stuck"]), NAMES),
    st.sampled_from(["respond", "fail", "lose-session", "quota on", "quota off"]),
    st.builds("{} {}".format, st.sampled_from(["short", "room", "throttle", "in-sync"]), NAMES),
    st.builds("wait {}".format, st.sampled_from([1, 60, 1100])),
)
_NEED_A_REQUEST = ("respond", "fail", "lose-session", "moved")
_NEED_A_REBUILD = ("behind", "goes-on", "stuck")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_script(path: Path, rewrites: bool) -> None:
    text = path.read_text(encoding="ascii")
    if rewrites:
        path.write_text(played(text), encoding="ascii")
    else:
        assert played(text) == text


@settings(max_examples=200, deadline=None)
@given(st.lists(COMMANDS, max_size=30))
def test_after_all_troubles_every_replica_is_fetched_from_its_end(commands: list[str]) -> None:
    player = Player()
    player.play("follow a b c")
    for command in commands:
        what, *names = command.split()
        is_answer = what in _NEED_A_REBUILD
        is_possible = player.is_asking or what not in _NEED_A_REQUEST
        if names and names[0] in player.rebuilding if is_answer else is_possible:
            player.play(command)
    player.play("quota off")
    for name in "abc":
        player.play(f"room {name}")
        player.play(f"in-sync {name}")
    player.play("wait 2000")
    if player.is_asking:
        player.play("fail")
        player.play("wait 2000")
    player.play("follow a b c")
    for name in list(player.rebuilding):
        player.play(f"behind {name} 9")
    lines = player.play("follow a b c")
    ends = {name: replica.end for name, replica in player.replicas.items()}
    (request,) = [line for line in lines if line.startswith("request all")]
    assert set(request.split()[2:]) == {f"{name}@{end}" for name, end in ends.items()}


def test_a_response_that_names_a_replica_twice_counts_once() -> None:
    player = Player()
    player.play("follow a")
    lines = player.play("respond a+2 a+2")
    assert lines == ["append a 2", "request a@2"]


def test_a_response_of_an_older_epoch_is_not_used() -> None:
    player = Player()
    player.play("follow a")
    player.play("epoch a 3")
    assert player.play("respond a+2") == ["request a@0"]
