"""A plain function that returns a coroutine: nothing would await it, so it is an error of the
record, or of the topology."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from moldau.streams import Stream, Streams, TopologyError, dead_letter

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
