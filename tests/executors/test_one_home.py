"""Records are fetched, and clients are kept, in one place for all that runs in Spark's workers."""

from __future__ import annotations

import ast

from tests.architecture.allowed import Found
from tests.architecture.facts import finding
from tests.architecture.sources import Source, product

ROOMS = ("moldau.spark", "moldau.streams.spark", "moldau.connectors.spark")
FETCHING = frozenset({"Consumer", "poll_batches", "shared"})
"""A consumer, a poll of it, and the clients that a configuration shares in a process."""


@finding
def second_homes(source: Source) -> Found:
    if not any(map(source.is_in, ROOMS)):
        return {}
    called = [node.func for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    names = {each.attr if isinstance(each, ast.Attribute) else ast.unparse(each) for each in called}
    return {f"{source.path}: {name}": "use moldau.executors" for name in names & FETCHING}


def test_spark_fetches_and_keeps_clients_in_one_room() -> None:
    assert second_homes(product()) == {}


def test_a_planted_second_home_is_found() -> None:
    text = "consumer = Consumer({})\nconsumer.poll_batches(1)\n"
    planted = Source("streams/moldau/streams/spark/planted.py", text)

    assert len(second_homes([planted])) == 2
    assert second_homes([Source("streams/moldau/streams/worker/planted.py", text)]) == {}
