"""The types that a checker infers for the steps of a chain: mypy reads this in `make check`."""

from __future__ import annotations

from typing import Any, assert_type

from moldau.streams import Stream, Streams, Table, col
from moldau.streams.dsl.grouped import Grouped


async def looked_up(value: int) -> str | None:
    return f"row {value}" if value else None


async def of_both(key: str, value: int) -> bytes:
    return key.encode() * value


async def is_odd(value: int) -> bool:
    return value % 2 == 1


async def all_below(value: int) -> list[int]:
    return list(range(value))


async def turned(key: str, value: int) -> tuple[int, str]:
    return value, key


def numbers(app: Streams) -> Stream[str, int]:
    return app.stream("in", int, key=str)


def test_results_of_async_functions_have_their_types() -> None:
    stream = numbers(Streams("app"))

    assert_type(stream.map_values(looked_up), Stream[str, str | None])
    assert_type(stream.map_values(of_both), Stream[str, bytes])
    assert_type(stream.filter(is_odd), Stream[str, int])
    assert_type(stream.flat_map(all_below), Stream[str, int])
    assert_type(stream.map(turned), Stream[int, str])
    assert_type(stream.select_key(is_odd), Stream[bool, int])
    assert_type(stream.group_by(is_odd), Grouped[bool, int])
    counts = stream.map_values(looked_up, on_error="skip").group_by_key().count(name="counts")
    assert_type(counts, Table[str, int])


def test_results_of_lambdas_and_expressions_have_their_types() -> None:
    stream = numbers(Streams("app"))

    assert_type(stream.map_values(lambda value: value / 2), Stream[str, float])
    assert_type(stream.map_values(lambda key, value: (key, value)), Stream[str, tuple[str, int]])
    assert_type(stream.flat_map(lambda value: [str(value)]), Stream[str, str])
    assert_type(stream.select_key(lambda key, value: len(key)), Stream[int, int])
    assert_type(stream.group_by(lambda value: value % 3 == 0), Grouped[bool, int])
    assert_type(stream.map_values(looked_up).map_values(lambda row: row or ""), Stream[str, str])
    anything: Stream[str, Any] = Streams("other").stream("in", key=str)
    assert_type(anything.map_values(col("a")), Stream[str, Any])
