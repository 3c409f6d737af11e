"""The order of a roll, what the next restart waits for, and the progress that is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.errors import BadGiven
from moldau.operations.roll import (
    RollProgress,
    has_returned,
    next_node,
    order_of,
    pauses_of,
    waits_for,
)
from tests.operations.seen_clusters import NOW_MS, broker, partition, quorum, seen, topic

KNOWN = {1, 2, 3}
WHOLE = topic("t", partition(0, (1, 2, 3)), partition(1, (2, 3, 1)))


def test_brokers_come_first_and_the_active_controller_last() -> None:
    cluster = seen([], quorum(101, (101, 102, 103)))
    assert order_of(cluster, RollProgress("c", cluster.nodes)) == [1, 2, 3, 102, 103, 101]
    both = seen([], quorum(2, (1, 2, 3)))
    assert order_of(both, RollProgress("c", [1, 2, 3])) == [1, 3, 2]


def test_the_controller_of_now_counts_not_that_of_the_start() -> None:
    progress = RollProgress("c", [1, 2, 3], [1])
    assert next_node(seen([], quorum(3, (1, 2, 3))), progress) == 2
    assert next_node(seen([], quorum(2, (1, 2, 3))), progress) == 3


def test_a_roll_that_was_cut_short_begins_with_the_node_of_then() -> None:
    progress = RollProgress("c", [1, 2, 3], [1], current=3)
    again = RollProgress.parse(progress.text(), "f")
    assert again == progress
    assert order_of(seen([], quorum(3, (1, 2, 3))), again) == [3, 2]
    again.finish(3)
    again.finish(2)
    assert next_node(seen([]), again) is None
    for text in ("", "[]", '{"cluster": "c"}', '{"cluster":"c","nodes":["x"],"done":[]}'):
        with pytest.raises(BadGiven, match="f is not the progress of a roll"):
            RollProgress.parse(text, "f")


def test_nothing_is_waited_for_when_all_is_in_sync() -> None:
    assert waits_for(seen([WHOLE]), KNOWN, 1) == []
    assert waits_for(seen([WHOLE]), KNOWN) == []


def test_a_restart_waits_for_the_replicas_of_other_nodes_only() -> None:
    behind = seen([topic("t", partition(0, (1, 2, 3), (1, 2)))])
    assert waits_for(behind, KNOWN, 1) == ["t-0: not in sync on 3"]
    assert waits_for(behind, KNOWN, 3) == [], "a restart of the node itself takes nothing away"
    assert waits_for(behind, KNOWN) == ["t-0: not in sync on 3"]
    leaderless = seen([topic("t", partition(0, (1,), (1,), -1))])
    assert waits_for(leaderless, KNOWN, 2) == ["t-0: it has no leader"]


def test_a_restart_waits_for_brokers_and_voters() -> None:
    two = seen([], quorum(1, (1, 2, 3), silent=(3,)), brokers=[broker(1), broker(2)])
    assert waits_for(two, KNOWN, 1) == ["broker 3 is down", "voter 3 is behind or down"]
    assert waits_for(two, KNOWN, 3) == []
    assert waits_for(seen([], quorum(1, (1, 2, 3), behind=(2,))), KNOWN, 1) == [
        "voter 2 is behind or down"
    ]
    assert waits_for(seen([], quorum(-1, ())), KNOWN, 1) == ["the metadata quorum has no leader"]


def test_what_has_too_few_replicas_pauses_whatever_is_in_sync() -> None:
    cluster = seen([WHOLE, topic("two", partition(0, (2, 3)))])
    assert pauses_of(cluster, [1]) == []
    (found,) = pauses_of(cluster, [1, 2])
    assert (found.failure, found.what, found.partitions) == ("node 2", "two", (0,))


def test_a_node_is_back_when_its_new_process_has_read_metadata() -> None:
    """A voter that restarts in a second has read some within the last ten."""
    restarted = seen([], quorum(1, (1, 2, 3)))
    assert waits_for(restarted, KNOWN) == []
    assert not has_returned(restarted, 2, restarted), "that was the last process"
    later = quorum(1, (1, 2, 3))
    voters = [replace(each, last_fetch_ms=NOW_MS + each.node_id) for each in later.voters]
    assert has_returned(seen([], replace(later, voters=tuple(voters))), 2, restarted)
    elected = replace(quorum(3, (1, 2, 3)), leader_epoch=2)
    assert has_returned(seen([], elected), 2, restarted), "another leader has heard of it"
    silent = replace(elected, voters=(replace(elected.voters[1], last_fetch_ms=-1),))
    assert not has_returned(seen([], silent), 2, restarted)
    assert not has_returned(seen([], elected), 4, restarted)
    assert has_returned(seen([], elected), 3, restarted), "it leads"
