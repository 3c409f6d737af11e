"""Formatting: whole or not at all, never twice, and readable by Apache Kafka."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from moldau.broker.controller.bootstrap import bootstrap_records
from moldau.broker.controller.storage import (
    Plan,
    format_storage,
    read_bootstrap,
    storage_info,
)
from moldau.broker.raft.quorum import Membership, Quorum
from moldau.broker.raft.voters import DYNAMIC
from moldau.errors import ConfigError, CorruptLog
from moldau.runtime.simulated.incarnation import NodeKilled
from tests.broker.controller.cluster import CLUSTER_ID
from tests.broker.log.simulated_node import SimulatedNode
from tests.broker.raft.leading import lead

NOW = 1_700_000_000_000
PLAN = Plan(
    CLUSTER_ID,
    1,
    ("/p/one", "/p/two"),
    "/p/one",
    tuple(bootstrap_records()),
    (("CONTROLLER", "127.0.0.1", 9093),),
)


def formatted(node: SimulatedNode, plan: Plan = PLAN, **options: bool) -> list[str]:
    return format_storage(node.files, plan, Random(3), NOW, **options)


def test_each_directory_gets_an_id_and_the_first_records() -> None:
    node = SimulatedNode()
    assert formatted(node) == ["/p/one", "/p/two"]
    one, two = storage_info(node.files, PLAN.directories)
    assert one.meta is not None
    assert two.meta is not None
    assert one.problem is two.problem is None
    assert one.meta.cluster_id == two.meta.cluster_id == CLUSTER_ID
    assert one.meta.directory_id != two.meta.directory_id
    for path in PLAN.directories:
        assert read_bootstrap(node.files, path) == list(PLAN.bootstrap)


def test_the_node_is_the_only_voter_of_what_it_formatted() -> None:
    node = SimulatedNode()
    formatted(node)
    quorum = Quorum.open(node.files, "/p/one", Membership(1), NOW)
    assert quorum.voters.kraft_version == DYNAMIC
    meta = storage_info(node.files, ["/p/one"])[0].meta
    assert meta is not None
    assert quorum.voters.voters[0].directory_id == meta.directory_id
    assert lead(quorum, NOW) == 1


def test_what_is_formatted_is_not_touched() -> None:
    node = SimulatedNode()
    formatted(node)
    before = storage_info(node.files, PLAN.directories)
    with pytest.raises(ConfigError):
        formatted(node)
    assert formatted(node, ignore_formatted=True) == []
    other = Plan("BBBBBBBBBBBBBBBBBBBBBA", 1, PLAN.directories, "/p/one", PLAN.bootstrap)
    with pytest.raises(ConfigError):
        formatted(node, other, ignore_formatted=True)
    assert storage_info(node.files, PLAN.directories) == before


def test_info_says_what_is_wrong() -> None:
    node = SimulatedNode()
    formatted(node)
    node.files.make_dirs("/p/empty")
    node.files.make_dirs("/p/bad")
    node.files.write_text_atomic("/p/bad/meta.properties", "version=7\n")
    problems = [
        each.problem is not None
        for each in storage_info(node.files, ["/p/one", "/p/none", "/p/empty", "/p/bad"])
    ]
    assert problems == [False, True, True, True]


@pytest.mark.parametrize("content", ["", "abc\n", "version=1\nnode.id=1\n", "node.id=abc\n"])
def test_a_damaged_directory_is_told_with_the_way_out(content: str) -> None:
    node = SimulatedNode()
    formatted(node)
    whole = node.files.read_text("/p/one/meta.properties")
    node.files.write_text_atomic("/p/one/meta.properties", content)
    (found,) = storage_info(node.files, ["/p/one"])
    assert found.meta is None
    assert found.problem is not None
    assert "put it back from a copy, or write its lines anew" in found.problem
    with pytest.raises((ConfigError, CorruptLog), match="write its lines anew"):
        formatted(node, ignore_formatted=True)

    node.files.write_text_atomic("/p/one/meta.properties", whole)
    assert storage_info(node.files, ["/p/one"])[0].problem is None


def test_formatting_cut_short_can_be_done_again() -> None:
    for step in range(40):
        node = SimulatedNode(step)
        node.die_after(step)
        with suppress(NodeKilled):
            formatted(node)
        node.power_loss()
        node.die_after(None)
        formatted(node, ignore_formatted=True)
        assert all(each.problem is None for each in storage_info(node.files, PLAN.directories))
        assert read_bootstrap(node.files, "/p/two") == list(PLAN.bootstrap)
        assert lead(Quorum.open(node.files, "/p/one", Membership(1), NOW), NOW) == 1
