"""The bytes of the group protocol `connect`."""

from __future__ import annotations

import pytest

from moldau.connect.herder.connect_protocol import (
    CONFIG_MISMATCH,
    EMPTY,
    Share,
    WorkerState,
    read_share,
    read_state,
    write_share,
    write_state,
)
from moldau.connect.herder.plan import Assignment
from moldau.connect.storage.keys import TaskId
from moldau.errors import MalformedMessage

SOME = Assignment(frozenset({"a"}), frozenset({TaskId("a", 0), TaskId("b-1", 7)}))
MORE = Assignment(frozenset({"c"}), frozenset())
URL = "http://127.0.0.1:8083/"


def test_a_worker_of_version_0_tells_its_address_and_what_it_has_read() -> None:
    assert write_state(0, WorkerState("u", 5)) == bytes.fromhex("0000 0001 75 0000000000000005")


def test_a_share_of_version_0_is_kafkas() -> None:
    share = Share("L", "u", 1, Assignment(frozenset({"a"}), frozenset({TaskId("a", 0)})))

    assert write_share(0, share) == bytes.fromhex(
        "0000 0000 0001 4c 0001 75 000000000000000100000001 0001 61 00000002 ffffffff 00000000"
    )


def test_a_share_of_version_1_has_what_is_given_up_and_the_delay() -> None:
    share = Share("L", "u", 1, EMPTY, Assignment(frozenset({"a"}), frozenset()), 300)

    assert write_share(1, share) == bytes.fromhex(
        "0001 0000 0001 4c 0001 75 0000000000000001"
        "00000000 00000001 0001 61 00000001 ffffffff 0000012c"
    )


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("owned", [EMPTY, SOME])
def test_a_worker_tells_what_it_runs(version: int, owned: Assignment) -> None:
    state = WorkerState(URL, 12, owned)

    assert read_state(write_state(version, state)) == state


@pytest.mark.parametrize("version", [1, 2])
def test_a_share_is_read_as_it_was_written(version: int) -> None:
    share = Share("leader-1", URL, 12, SOME, MORE, 3_000, CONFIG_MISMATCH)

    assert read_share(write_share(version, share)) == share


def test_absent_lists_of_java_are_empty() -> None:
    data = bytes.fromhex("0001 0000 0000 0000 0000000000000000 ffffffff ffffffff 00000000")

    assert read_share(data) == Share("", "", 0)


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 10, 18, 20, 30, 60, 80])
def test_what_is_cut_short_is_refused(cut: int) -> None:
    data = write_share(2, Share("leader", URL, 12, SOME, MORE, 1))

    with pytest.raises(MalformedMessage):
        read_share(data[: len(data) - cut])
