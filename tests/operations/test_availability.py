"""What a failure takes away from a cluster."""

from __future__ import annotations

from moldau.link.addresses import Address
from moldau.operations.availability import NOW, Failure, RiskKind, failures_of, risks
from tests.operations.seen_clusters import broker, partition, quorum, seen, topic


def of(found: list[tuple[str, RiskKind, str, tuple[int, ...]]]) -> set[object]:
    return set(found)


def told(cluster: object, *failures: Failure, **clients: list[Address]) -> set[object]:
    assert hasattr(cluster, "nodes")
    chosen = failures or failures_of(cluster)  # type: ignore[arg-type]
    found = risks(cluster, chosen, clients)  # type: ignore[arg-type]
    return {(each.failure, each.kind, each.what, each.partitions) for each in found}


def test_three_replicas_and_two_needed_survive_any_one_node() -> None:
    assert told(seen([topic("t", partition(0, (1, 2, 3)), partition(1, (2, 3, 1)))])) == set()


def test_an_only_replica_and_one_at_min_insync_are_at_risk() -> None:
    cluster = seen([
        topic("one", partition(0, (1,)), partition(1, (2,))),
        topic("two", partition(0, (2, 3))),
    ], min_insync={"one": 1})  # fmt: skip
    assert told(cluster) == {
        ("node 1", RiskKind.UNREADABLE, "one", (0,)),
        ("node 2", RiskKind.UNREADABLE, "one", (1,)),
        ("node 2", RiskKind.UNWRITABLE, "two", (0,)),
        ("node 3", RiskKind.UNWRITABLE, "two", (0,)),
    }


def test_a_replica_out_of_sync_does_not_count() -> None:
    cluster = seen([topic("t", partition(0, (1, 2, 3), (1, 2)), partition(1, (1, 2, 3), (3,)))])
    assert told(cluster) == {
        (NOW, RiskKind.UNWRITABLE, "t", (1,)),
        ("node 1", RiskKind.UNWRITABLE, "t", (0,)),
        ("node 2", RiskKind.UNWRITABLE, "t", (0,)),
        ("node 3", RiskKind.UNREADABLE, "t", (1,)),
    }


def test_a_partition_without_a_leader_is_told_once() -> None:
    cluster = seen([topic("t", partition(0, (1, 2, 3), (), -1))])
    assert told(cluster) == {(NOW, RiskKind.UNREADABLE, "t", (0,))}


def test_a_rack_takes_all_its_brokers() -> None:
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "b")]
    cluster = seen([topic("t", partition(0, (1, 2, 3)))], brokers=brokers)
    assert [each.name for each in failures_of(cluster)] == ["node 1", "node 2", "node 3", "rack a"]
    assert told(cluster) == {
        ("rack a", RiskKind.UNWRITABLE, "t", (0,)),
        ("rack a", RiskKind.NO_QUORUM, "metadata", ()),
    }


def test_voters_that_are_silent_or_behind_do_not_count_for_the_quorum() -> None:
    lost = {("node 1", RiskKind.NO_QUORUM, "metadata", ())}
    for given in ({"silent": (3,)}, {"behind": (3,)}):
        cluster = seen([], quorum(1, (1, 2, 3), **given))
        assert told(cluster, Failure("node 1", frozenset({1}))) == lost
    assert told(seen([], quorum(-1, ()))) == {(NOW, RiskKind.NO_QUORUM, "metadata", ())}


def test_a_voter_that_is_fenced_as_a_broker_does_not_count_for_the_quorum() -> None:
    """A node that stopped a moment ago: the quorum still has it in sync."""
    cluster = seen([], quorum(1, (1, 2, 3)), brokers=[broker(1), broker(3)], fenced=[broker(2)])
    lost = ("node 3", RiskKind.NO_QUORUM, "metadata", ())
    assert lost in told(cluster, Failure("node 3", frozenset({3})))


def test_clients_that_know_only_one_broker_do_not_find_the_cluster() -> None:
    first, second = Address("b1", 9092), Address("b2", 9092)
    assert told(seen([]), one=[first], two=[first, second], other=[Address("proxy", 1)]) == {
        ("node 1", RiskKind.NOT_FOUND, "one", ())
    }
    cluster = seen([], brokers=[broker(2), broker(3)], fenced=[broker(1)])
    assert (NOW, RiskKind.NOT_FOUND, "one", ()) in told(cluster, one=[first])


def test_an_internal_topic_says_what_it_is_needed_for() -> None:
    cluster = seen([topic("__consumer_offsets", partition(0, (1,)))])
    (found,) = risks(cluster, [Failure("node 1", frozenset({1}))])[1:]
    assert found.why == "its only replica: groups cannot commit, join or begin"
