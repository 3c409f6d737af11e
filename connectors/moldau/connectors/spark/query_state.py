"""Whether a streaming query keeps state from batch to batch, as an aggregate does.

Only the text of Spark's plan says so on a Spark Connect server too. In it each operator has a line,
a child is three columns further in than its parent, and `~` marks rows that come from a stream:

    ~Join Inner, (id#1 = id#2)
    :- ~SubqueryAlias source
    +- Relation [id#2] parquet
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any, Final

_BEGIN, _END = "== Analyzed Logical Plan ==", "== Optimized Logical Plan =="
_OPERATOR: Final = re.compile(r"^(?P<before>[\s:+-]*)(?P<is_stream>~?)(?P<name>\w+)")
_STATEFUL: Final = re.compile(r"Aggregate|Distinct|Deduplicate\w*|GlobalLimit|\w+WithState\w*")
_INDENT: Final = 3

Operator = tuple[int, bool, str]
"""The column of an operator, whether its rows come from a stream, and its name."""


def is_stateful(rows: Any) -> bool:
    """Whether the query of a streaming DataFrame keeps state."""
    text = io.StringIO()
    with redirect_stdout(text):
        rows.explain(extended=True)
    return is_stateful_plan(text.getvalue())


def is_stateful_plan(text: str) -> bool:
    """Whether a plan in the text of `explain(extended=True)` has an operator with state: one over
    a stream that needs other rows too, or a join of two streams."""
    plan = text.partition(_BEGIN)[2].partition(_END)[0]
    found = [_OPERATOR.match(line) for line in plan.splitlines()]
    operators = [
        (len(each["before"]), bool(each["is_stream"]), each["name"])
        for each in found
        if each is not None
    ]
    return any(
        is_stream
        and (
            _STATEFUL.fullmatch(name) is not None
            or (name == "Join" and _stream_count(column, operators[position + 1 :]) > 1)
        )
        for position, (column, is_stream, name) in enumerate(operators)
    )


def _stream_count(column: int, below: Sequence[Operator]) -> int:
    """Return how many children of an operator are streams. `below` are the operators after it."""
    count = 0
    for each, is_stream, _ in below:
        if each <= column:
            break
        count += is_stream and each == column + _INDENT
    return count
