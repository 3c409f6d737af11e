"""An app under test goes on as another version of itself."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.streams import Streams, tumbling
from moldau.streams.problems import StateError, TopologyChanged, TopologyError


def counting(add: Any, **options: Any) -> Streams:
    app = Streams("counting")
    grouped = app.stream("lines", str, key=str).group_by_key()
    name = options.pop("name", "counts")
    grouped.aggregate(options.pop("initial", int), add, name=name, **options)
    return app


def bars(count: int) -> str:
    return "|" * count


FIRST = counting(lambda so_far, _: so_far + 1, type=int)
OPTIONS = {"initial": str, "type": str, "version": 2, "migrate": {1: bars}}
SECOND = counting(lambda so_far, _: so_far + "|", **OPTIONS)


@pytest.mark.parametrize("partitions", [1, 3])
def test_values_of_an_earlier_version_are_migrated(partitions: int) -> None:
    driver = FIRST.test(partitions=partitions)
    for key in ("a", "b", "a"):
        driver.pipe("lines", "x", key=key)
    driver.upgrade(SECOND)
    assert driver.store("counts") == {"a": "||", "b": "|"}
    driver.pipe("lines", "x", key="a")
    driver.upgrade(SECOND)
    driver.restart(from_changelog=True)
    assert driver.store("counts") == {"a": "|||", "b": "|"}


def test_windows_and_their_times_stay() -> None:
    def windows(add: Any, kind: Any, **options: Any) -> Streams:
        app = Streams("counting")
        grouped = app.stream("lines", str, key=str).group_by_key()
        grouped.window(tumbling("1m")).aggregate(kind, add, name="counts", type=kind, **options)
        return app

    driver = windows(lambda so_far, _: so_far + 1, int).test()
    driver.pipe("lines", "x", key="a", timestamp=90_000)
    driver.upgrade(windows(lambda so_far, _: so_far + "|", str, version=2, migrate={1: bars}))
    driver.pipe("lines", "x", key="a", timestamp=70_000)
    driver.pipe("lines", "x", key="a", timestamp=1_000)
    assert driver.store("counts") == {("a", 60_000): "||"}
    assert driver.counters()["late counts"] == 1


def test_a_worker_of_an_earlier_version_is_refused() -> None:
    driver = SECOND.test()
    with pytest.raises(StateError, match="its rows have version 2"):
        driver.upgrade(FIRST)


def test_a_store_that_is_gone_is_refused() -> None:
    driver = FIRST.test()
    with pytest.raises(TopologyChanged, match="gone: store counts"):
        driver.upgrade(counting(lambda so_far, _: so_far + 1, type=int, name="totals"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"version": 0}, "must be a number from 1 on"),
        ({"version": True}, "must be a number from 1 on"),
        ({"migrate": {1: bars}}, "leads nowhere"),
        ({"version": 3, "migrate": {1: bars}}, r"migrate\[2\] is missing"),
        ({"version": 2, "migrate": bars}, "must be a dict"),
        ({"version": 2, "migrate": {1: "bars"}}, "expected a function"),
        ({"version": 2, "migrate": {1: lambda key, value: value}}, "must take one argument"),
        ({"version": 2, "migrate": {1: bars}, "logged": False}, "needs a changelog"),
    ],
)
def test_a_wrong_version_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        counting(lambda so_far, _: so_far, **options)
