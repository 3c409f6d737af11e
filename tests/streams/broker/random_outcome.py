"""What a random app has written, against the plain model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.streams.broker.random_apps import Node, RandomApp, drawn_inputs


def end_of(node: Node, records: Iterable[tuple[str, int | None]]) -> Any:
    """What an output comes to: the rows of a table, or the records of a stream in any order."""
    if not node.is_table:
        return Counter(records)
    return {key: value for key, value in dict(records).items() if value is not None}


def wrong(app: RandomApp, seed: int, found: dict[str, list[tuple[str, int | None]]]) -> list[Any]:
    """The outputs that are not as the model says."""
    inputs = drawn_inputs(seed)
    return [
        (node.what, expected, end)
        for topic, node in app.outputs.items()
        if (end := end_of(node, found.get(topic, [])))
        != (expected := end_of(node, _pairs(node.rows(inputs))))
    ]


def _pairs(rows: Any) -> list[tuple[str, int | None]]:
    return list(rows.items()) if isinstance(rows, dict) else rows
