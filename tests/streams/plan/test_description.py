"""`moldau streams explain --json`: a plan as data."""

from __future__ import annotations

import pytest

from moldau.streams import Streams
from moldau.streams.plan.description import description


def joined() -> Streams:
    app = Streams("joined")
    names = app.table("names", str, key=str)
    app.stream("orders", str).join(names, lambda order, name: order + name).to("named")
    return app


def test_it_tells_what_an_app_reads_writes_and_makes() -> None:
    app = Streams("wc")
    app.stream("lines", str).group_by(lambda word: word).count(name="counts").changes().to("out")

    found = description(app.plan(), {})

    assert (found["app"], found["reads"], found["writes"]) == ("wc", ["lines"], ["out"])
    assert found["makes"] == ["wc-counts-repartition", "wc-counts-changelog", "wc-moldau-topology"]
    assert found["chooses_topics"] is False
    kinds = [[step["kind"] for step in each["steps"]] for each in found["programs"]]
    assert kinds == [["source", "select_key", "sink"], ["source", "aggregate", "changes", "sink"]]


@pytest.mark.parametrize(
    ("partitions", "is_wrong"),
    [({"names": 2, "orders": 2}, False), ({"names": 2, "orders": 3}, True), ({"names": 2}, False)],
)
def test_it_tells_whether_inputs_of_a_join_fit(
    partitions: dict[str, int], *, is_wrong: bool
) -> None:
    problem = description(joined().plan(), partitions)["problem"]

    assert (problem is not None) is is_wrong
    if problem is not None:
        assert "names=2, orders=3" in problem
