"""An operator of another class: what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.streams import Streams, StreamsError


@pytest.mark.parametrize(
    ("what", "operator", "hint"),
    [
        ("stream", "count", r"count: .*\.group_by_key\(\)\.count\(\.\.\.\)"),
        ("stream", "window", r"\.group_by_key\(\)\.window\(\.\.\.\)"),
        ("stream", "changes", "records already"),
        ("table", "to", r"\.changes\(\)"),
        ("table", "sum", r"\.group_by\("),
        ("grouped", "to", r"\.count\(name="),
        ("table", "to_stream", r"to_stream: its name is \.changes\(\.\.\.\) here"),
        ("table", "toStream", r"\.changes\("),
        ("stream", "mapValues", r"\.map_values\("),
        ("stream", "windowedBy", r"\.group_by_key\(\)\.window\("),
        ("grouped", "windowedBy", r"\.window\("),
    ],
)
def test_it_is_told(what: str, operator: str, hint: str) -> None:
    app = Streams("app")
    nodes: dict[str, Any] = {
        "stream": app.stream("in", str),
        "table": app.table("rows", str),
        "grouped": app.stream("other", str).group_by_key(),
    }

    with pytest.raises(StreamsError, match=hint):
        getattr(nodes[what], operator)
    assert not hasattr(nodes[what], operator)


def test_a_name_that_nothing_has_is_an_ordinary_error() -> None:
    stream: Any = Streams("app").stream("in", str)

    with pytest.raises(AttributeError, match="'Stream' object has no attribute 'cuont'"):
        stream.cuont()
