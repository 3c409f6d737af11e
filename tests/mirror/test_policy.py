"""Names of copies, by both policies of Java's MirrorMaker."""

from __future__ import annotations

import pytest

from moldau.connect.api import ConnectError
from moldau.errors import ConfigError
from moldau.mirror.policy import IdentityPolicy, NameFilter, ReplicationPolicy, policy_of
from moldau.mirror.topics import Route

ALL = NameFilter([".*"], [])


def test_a_copy_has_the_alias_of_its_source_before_its_name() -> None:
    policy = ReplicationPolicy()

    assert policy.remote_topic("A", "orders") == "A.orders"
    assert policy.topic_source("A.orders") == "A"
    assert policy.upstream_topic("A.orders") == "orders"
    assert policy.topic_source("orders") is None
    assert policy.original_topic("C.B.A.orders") == "orders"


def test_internal_topics_have_the_names_of_java() -> None:
    policy = ReplicationPolicy()

    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"
    assert ReplicationPolicy("_").checkpoints_topic("A") == "A_checkpoints_internal"
    joined = ReplicationPolicy("_", separates_internal=False)
    assert joined.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"


@pytest.mark.parametrize(
    "topic",
    ["__consumer_offsets", "mm2-offset-syncs.B.internal", "A.checkpoints.internal",
     "mm2-configs.A.internal", "connect-configs-internal", ".hidden"],
)  # fmt: skip
def test_internal_topics_are_never_copied(topic: str) -> None:
    assert not Route("A", "B", ReplicationPolicy(), ALL).takes(topic)


@pytest.mark.parametrize("topic", ["B.orders", "C.B.orders"])
def test_what_has_come_from_the_target_is_not_copied_back(topic: str) -> None:
    route = Route("A", "B", ReplicationPolicy(), ALL)

    assert not route.takes(topic)
    assert route.takes("C.orders")
    assert route.takes("orders")


def test_heartbeats_are_copied_although_no_pattern_names_them() -> None:
    route = Route("A", "B", ReplicationPolicy(), NameFilter(["orders"], []))

    assert route.takes("heartbeats")
    assert not route.takes("B.heartbeats")
    assert not Route("A", "B", route.policy, route.topics, copies_heartbeats=False).takes(
        "heartbeats"
    )


def test_the_identity_policy_keeps_all_names_but_those_of_heartbeats() -> None:
    policy = IdentityPolicy("A")
    route = Route("A", "B", policy, ALL)

    assert route.remote("B.orders") == "B.orders"
    assert route.takes("B.orders")
    assert policy.topic_source("orders") == "A"
    assert policy.original_topic("orders") == "orders"
    assert route.remote("heartbeats") == "A.heartbeats"
    assert not route.takes("B.heartbeats")


def test_an_unknown_policy_is_refused() -> None:
    assert isinstance(
        policy_of({"replication.policy.class": "x.y.IdentityReplicationPolicy"}, "A"),
        IdentityPolicy,
    )
    with pytest.raises(ConfigError, match=r"replication\.policy\.class"):
        policy_of({"replication.policy.class": "com.shop.MyPolicy"}, "A")


def test_the_target_gets_missing_topics_and_missing_partitions() -> None:
    route = Route("A", "B", ReplicationPolicy(), ALL)

    changes = route.changes({"a": 3, "b": 4, "c": 1}, {"A.b": 2, "A.c": 5, "a": 1})

    assert changes.create == {"A.a": 3}
    assert changes.grow == {"A.b": 4}


@pytest.mark.parametrize(
    ("policy", "topics"),
    [(IdentityPolicy("A"), ["orders"]), (ReplicationPolicy(), [".*"])],
    ids=["the copy is its own source", "copies of copies"],
)
def test_in_one_cluster_a_copy_that_would_be_copied_again_is_refused(
    policy: ReplicationPolicy, topics: list[str]
) -> None:
    route = Route("A", "B", policy, NameFilter(topics, []), copies_heartbeats=False)

    with pytest.raises(ConnectError, match=r"one cluster.* -> correct the address"):
        route.check_one_cluster(["orders"])

    apart = Route("A", "B", ReplicationPolicy(), NameFilter(["orders"], []), False)
    apart.check_one_cluster(["orders"])
