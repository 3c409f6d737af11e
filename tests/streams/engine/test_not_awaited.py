"""A plain function that returns a coroutine: nothing would await it, so it is an error of the
record, or of the topology."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from pydantic import BaseModel

from moldau.streams import RecordFailed, Stream, Streams, TopologyError, dead_letter

Build = Callable[[Stream[str, int]], Any]


async def never(value: int) -> bool:
    return False


BUILDS: dict[str, Build] = {
    "filter": lambda stream: stream.filter(lambda value: never(value)).to("out"),
    "filter_not": lambda stream: stream.filter_not(lambda value: never(value)).to("out"),
    "branch": lambda stream: stream.branch(lambda value: never(value))[1].to("out"),
    "peek": lambda stream: stream.peek(lambda value: never(value)).to("out"),
}


@pytest.mark.parametrize("name", BUILDS)
def test_a_coroutine_of_a_lambda_is_no_result(name: str) -> None:
    app = Streams("app", on_error=dead_letter("bad"))
    BUILDS[name](app.stream("in", int, key=str))
    driver = app.test()

    driver.pipe("in", 1, key="k")

    assert driver.read("out") == []
    ((_, _, _, headers),) = driver.read_bytes("bad")
    assert any(b"coroutine" in (value or b"") for _, value in headers)


def number(value: int) -> Any:
    """Type checkers are not told that the result has to be awaited."""
    return never(value)


RESULTS: dict[str, Build] = {
    "map_values": lambda stream: stream.map_values(lambda value: number(value)).to("out"),
    "map": lambda stream: stream.map(lambda key, value: number(value)).to("out"),
    "flat_map": lambda stream: stream.flat_map(lambda value: number(value)).to("out"),
    "select_key": lambda stream: stream.select_key(lambda value: number(value)).to("out"),
    "group_by": lambda stream: (
        stream.group_by(lambda value: number(value)).count(name="n").changes().to("out")
    ),
    "reduce": lambda stream: (
        stream.group_by_key().reduce(lambda one, two: number(one), name="n").changes().to("out")
    ),
    "aggregate": lambda stream: (
        stream.group_by_key()
        .aggregate(0, lambda total, value: number(total), name="n")
        .changes()
        .to("out")
    ),
    "table map_values": lambda stream: (
        stream.to_table(name="t").map_values(lambda value: number(value)).changes().to("out")
    ),
    "to": lambda stream: stream.to(lambda value: number(value)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_coroutine_that_would_be_passed_on_fails_its_record(name: str) -> None:
    app = Streams("app", on_error=dead_letter("bad"))
    RESULTS[name](app.stream("in", int, key=str))
    driver = app.test()

    for value in range(3):
        driver.pipe("in", value, key="k")

    refused = driver.read_bytes("bad")
    assert len(refused) >= 2  # of a reduce, the first record is a sum already
    for _, _, _, headers in refused:
        facts = dict(headers)
        assert b"a coroutine, which is not awaited" in (facts["moldau.error.message"] or b"")


def test_the_failed_step_is_the_one_that_made_the_coroutine() -> None:
    app = Streams("app")
    app.stream("in", int).map_values(lambda value: number(value)).map_values(repr).to("out")

    with pytest.raises(RecordFailed, match=r"map_values\(lambda:.*a coroutine, which"):
        app.test().pipe("in", 1)


def test_a_first_result_of_none_says_nothing_about_the_next() -> None:
    app = Streams("app", on_error=dead_letter("bad"))
    app.stream("in", int).map_values(lambda value: number(value) if value else None).to("out")
    driver = app.test()

    driver.pipe("in", 0)
    driver.pipe("in", 1)

    assert [each.value for each in driver.read("out")] == [None]
    assert len(driver.read_bytes("bad")) == 1


class Model(BaseModel):
    """A value of pydantic's."""

    n: int


def late(good: Any) -> Callable[[int], Any]:
    """A function that returns a coroutine after a good result."""
    return lambda value: number(value) if value else good


@pytest.mark.parametrize(
    ("kind", "good"), [(int, 1), (str, "x"), (bytes, b"x"), (Any, "x"), (Model, Model(n=1))]
)
def test_a_coroutine_after_good_results_fails_where_it_is_encoded(kind: Any, good: Any) -> None:
    app = Streams("app", on_error=dead_letter("bad"))
    app.stream("in", int).map_values(late(good), type=kind).to("out")
    driver = app.test()

    for value in range(2):
        driver.pipe("in", value)

    ((_, _, _, headers),) = driver.read_bytes("bad")
    assert b"a coroutine, which is not awaited" in (dict(headers)["moldau.error.message"] or b"")


def test_checks_end_with_the_first_good_result() -> None:
    calls: list[int] = []

    def twice(value: int) -> int:
        calls.append(len(inspect.stack(0)))
        return 2 * value

    app = Streams("app")
    app.stream("in", int).map_values(twice).to("out")
    driver = app.test()

    for value in range(3):
        driver.pipe("in", value)

    assert [each.value for each in driver.read("out")] == [0, 2, 4]
    assert calls[0] - 1 == calls[1] == calls[2]  # no check stands between the loop and the function


def test_truth_of_other_results_is_as_python_has_it() -> None:
    app = Streams("app")
    app.stream("in", int, key=str).filter(lambda value: [0] * value).to("out")
    driver = app.test()

    for value in (0, 1, 2):
        driver.pipe("in", value, key="k")

    assert [each.value for each in driver.read("out")] == [1, 2]


def later(value: int) -> Awaitable[bool]:
    return never(value)


def soon(value: int) -> Coroutine[Any, Any, bool]:
    return never(value)


@pytest.mark.parametrize("function", [later, soon])
def test_a_plain_function_that_says_so_is_refused(function: Callable[[int], Any]) -> None:
    stream = Streams("app").stream("in", int, key=str)

    with pytest.raises(TopologyError, match=f"{function.__name__} returns what has to be awaited"):
        stream.map_values(function)
    with pytest.raises(TopologyError, match="async def"):
        stream.filter(function)
