"""What an operator cannot take, and operators that do not exist: one line when the app is built."""

from __future__ import annotations

import re
from typing import Any

import pytest

from moldau.streams import Streams, StreamsError, TopologyError


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda app: app.stream(5), "names no topics"),
        (lambda app: app.stream([5]), "names no topics"),
        (
            lambda app: app.table(re.compile("a.*"), name="t"),
            "app=app table: re.compile.* no topic",
        ),
        (lambda app: app.table(["a", "b"]), r"app=app table: .* stream\(...\).to_table\(name="),
        (lambda app: app.global_table(re.compile("a.*"), name="t"), "app=app global_table: re.com"),
        (lambda app: app.global_table(["a", "b"]), "write them to one topic and read that"),
        (lambda app: app.stream("in").merge(5), "merge: it takes streams, not 5"),
        (lambda app: app.stream("in").merge(app.table("t")), "merge: it takes streams"),
        (lambda app: app.stream("in").join(5), "join: a stream joins a stream, a table or"),
        (lambda app: app.stream("in").left_join("t"), "left_join: a stream joins"),
        (lambda app: app.table("t").join(app.stream("in")), "join: a table joins a table, not"),
        (lambda app: type(app)("a", emit="foo"), "app=a: emit='foo' must be \"commit\" or"),
        (lambda app: app.table("t").group_by(lambda v: v), "group_by: .* takes no two arguments"),
        (lambda app: app.stream("in").map(lambda v: v), "map: .* takes no two arguments"),
        (lambda app: app.stream("in").map_values(lambda: 1), "map_values: .* cannot be called"),
        (lambda app: app.table("t").join(app.table("u"), lambda v: v), "takes no two arguments"),
        (lambda app: app.stream("in").group_by_key().reduce(lambda v: v), "reduce: .* takes no"),
        (lambda app: app.stream("in").group_by_key().count(nme="x"), "count: it takes no nme="),
        (
            lambda app: app.table("t").group_by(lambda k, v: (k, v)).count(nme="x"),
            "count: it takes no nme=",
        ),
        (lambda app: app.stream("in").group_by_key().window("1m"), "window: '1m' is no windows"),
    ],
)
def test_a_wrong_argument_is_told_in_one_line(build: Any, told: str) -> None:
    with pytest.raises(TopologyError, match=told) as failed:
        build(Streams("app"))

    assert "\n" not in str(failed.value)


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
