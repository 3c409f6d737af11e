"""Expressions reach nothing but what they are given, in bounded time and memory.

What they compute is tried in tests/connect/transforms/test_expr.py, with records.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from moldau.expressions import Expression, ExpressionFailed

LARGE = "x" * 900_000
VALUES: dict[str, Any] = {"s": LARGE, "d": Decimal("1e999999"), "n": 10**20_000, "m": {"a": 1}}


def evaluate(text: str) -> Any:
    return Expression(text).value(VALUES.__getitem__)


@pytest.mark.parametrize(
    "text",
    [
        "s.replace('x', s)",
        "s.replace('', s)",
        "s + s",
        "s.split('x') + s.split('x')",
        "int(d)",
        "round(d)",
        "n * n * n * n * n * n",
        " or ".join(["not s.upper()"] * 12),
        " + ".join(["len(s[0:800000])"] * 13),
        "str(n * n)",
    ],
)
def test_what_would_cost_too_much_fails(text: str) -> None:
    with pytest.raises(ExpressionFailed) as caught:
        evaluate(text)
    assert len(str(caught.value)) < 1000


def test_the_budget_is_that_of_one_evaluation() -> None:
    once = Expression(" or ".join(["not s.upper()"] * 9))
    for _ in range(3):
        assert once.value(VALUES.__getitem__) is False


def test_a_missing_part_is_none_and_a_value_without_fields_fails() -> None:
    assert evaluate("m.a") == 1
    assert evaluate("m.b.c") is None
    with pytest.raises(ExpressionFailed, match="str has no fields"):
        evaluate("s.a")
