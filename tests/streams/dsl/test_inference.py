"""Types of what functions return, without calling them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from moldau.streams.dsl.inference import element_type, pair_types, required_parameters, result_type
from moldau.streams.plan.functions import Call


class User(msgspec.Struct):
    name: str
    age: int


class Order(msgspec.Struct):
    user: User
    items: list[str]


def annotated(order: Order) -> float:
    return order.user.age / 2


async def awaited(order: Order) -> int:
    return order.user.age


class Callable1:
    def __call__(self, order: Order) -> bytes:
        return order.user.name.encode()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (annotated, float),
        (awaited, int),
        (Callable1(), bytes),
        (User, User),
        (str.split, list[str]),
        (lambda order: order, Order),
        (lambda order: order.user.name, str),
        (lambda order: order.items, list[str]),
        (lambda order: f"{order.user.age}!", str),
        (lambda order: (order.user.name, order.user.age), tuple[str, int]),
        (lambda order: "all", str),
        (lambda order: order.user.age + 1, Any),
        (lambda order: order.nothing, Any),
        (print, Any),
    ],
)
def test_the_type_of_a_result(function: Callable[..., Any], expected: Any) -> None:
    assert result_type(Call(function), str, Order) == expected


def test_a_function_of_key_and_value_may_return_the_key() -> None:
    assert result_type(Call(lambda key, value: key, takes_key=True), str, Order) is str


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (list[str], str),
        (Iterator[int], int),
        (tuple[int, ...], int),
        (str, str),
        (list, Any),
        (int, Any),
    ],
)
def test_the_type_of_elements(kind: Any, expected: Any) -> None:
    assert element_type(kind) == expected


def test_the_types_of_a_pair() -> None:
    assert pair_types(tuple[str, int]) == (str, int)
    assert pair_types(list[str]) == (Any, Any)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda: 0, 0),
        (lambda value: 0, 1),
        (lambda key, value: 0, 2),
        (lambda value, flag=1: 0, 1),
        (lambda *values: 0, 0),
        (str.split, 1),
        (int, 1),
    ],
)
def test_required_parameters_are_counted(function: Callable[..., Any], count: int) -> None:
    assert required_parameters(function) in (count, 0 if function is int else count)
