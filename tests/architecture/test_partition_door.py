"""A partition is the only way to its log: outside of replication no module reaches through it.

`.log` is also the name of loggers and of the Raft quorum's log. So a use is a violation if what
follows it is a part of `PartitionLog`, or if it is taken from something called a partition or a
leader.
"""

from __future__ import annotations

import ast

import pytest

from moldau.broker.log.log import PartitionLog
from moldau.logging import Logger
from tests.architecture.allowed import Found
from tests.architecture.facts import finding
from tests.architecture.sources import Source, product

INSIDE = tuple(f"broker/moldau/broker/{each}/" for each in ("log", "replication", "raft"))
_PARTS = {
    *(name for name in vars(PartitionLog) if not name.startswith("_")),
    *PartitionLog.__init__.__code__.co_names,
} - set(dir(Logger))
_PARTITIONS = ("partition", "leader", "replica", "hosted", "found", "readable", "find")


@finding
def reaches_through(source: Source) -> Found:
    """Each place outside of replication that reaches through a partition into its log."""
    if not source.path.startswith("broker/") or source.path.startswith(INSIDE):
        return {}
    return {
        f"{source.path}:{each.lineno}": ast.unparse(each)
        for each in ast.walk(source.tree)
        if isinstance(each, ast.Attribute) and (_is_part(each) or _is_log_of_partition(each))
    }


def _is_part(node: ast.Attribute) -> bool:
    inner = node.value
    if not isinstance(inner, ast.Attribute) or inner.attr != "log":
        return False
    return node.attr in _PARTS and not _name(inner.value).endswith("quorum")


def _is_log_of_partition(node: ast.Attribute) -> bool:
    return node.attr == "log" and _name(node.value).lstrip("_") in _PARTITIONS


def _name(node: ast.AST) -> str:
    """The last name of an expression: `node.replicas.partition(...)` is a `partition`."""
    if isinstance(node, ast.Call):
        return _name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def test_no_module_reaches_through_a_partition_into_its_log() -> None:
    assert reaches_through(product()) == {}


@pytest.mark.parametrize(
    "text",
    [
        "partition.log.state.high_watermark",
        "self._partition.log.read(0, 1)",
        "node.replicas.partition(topic, 0).log.producers",
        "log = partition.log",
        "each.log.reading.find_offset(1)",
        "x = replicas.find('t', 0).log",
    ],
)
def test_a_planted_reach_is_found(text: str) -> None:
    assert reaches_through([Source("broker/moldau/broker/api/planted.py", text)])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("api", "self._node.log.info('x')"),
        ("server", "raft.quorum.log.failure"),
        ("coordinator", "log = node.log"),
        ("replication", "partition.log.state"),
    ],
)
def test_loggers_the_quorum_and_replication_are_no_reach(path: str, text: str) -> None:
    assert reaches_through([Source(f"broker/moldau/broker/{path}/planted.py", text)]) == {}
