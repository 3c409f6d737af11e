"""What an operator cannot take is told when the app is built, in one line."""

from __future__ import annotations

import re
from typing import Any

import pytest

from moldau.streams import Streams, TopologyError


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
