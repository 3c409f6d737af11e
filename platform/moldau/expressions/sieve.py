"""What an expression over a record needs of the record's bytes, to leave most records unread. Pure.

    sieve_of('value.total > 9000 and headers.country == "NL"').candidates(columns)

A sieve looks at the columns of a batch as a whole: for a text that has to be there, and for numbers
behind the name of a field. It returns the places of the records for which the expression may be
true; the `Expression` itself decides about these. So there is one language with one meaning, and a
record costs what a search for bytes costs.

Invariant: no record is left out for which the expression is true. A part of the expression that
says nothing about bytes is not looked at. JSON can write a name or a text with escapes, which begin
with a backslash, or in an encoding that has zero bytes: a record with one of these is not left out
by a look into its fields. Where a record has the name of a field several times, each of the
values counts.
"""

from __future__ import annotations

import ast
import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from moldau.deferred import dataclass

Found: TypeAlias = "set[int] | None"
"""The places of records; None for all."""
_ENOUGH: Final = 16
"""The expression is asked once so many times fewer records are left as there are."""
_SIGNS: Final = (b"\\", b"\0")
_NUMBER: Final = rb'"\s*:\s*(?:(-?\d{1,300}(?:\.\d{1,300})?(?:[eE][-+]?\d{1,3})?)(?=[\s,}\]])|)'
_COMPARED: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_TURNED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.Eq,
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}
_ENDS: Final = ("startswith", "endswith")
_FACTS: Final = ("partition", "offset", "timestamp")
_CONTENTS: Final = ("headers", "key", "value")


class Column(NamedTuple):
    """Values one after another: value i is `data[ends[i]:ends[i + 1]]`."""

    data: bytes | bytearray
    ends: Sequence[int]
    opaque: frozenset[int] = frozenset()
    """The records with a value that a schema decodes, so that its bytes say nothing."""


@dataclass(frozen=True, slots=True)
class BatchColumns:
    """The columns of records of one partition."""

    count: int
    partition: int
    offsets: Sequence[int]
    timestamps: Sequence[int]
    key: Column
    value: Column
    headers: Column
    """The contents of the headers of all records."""
    header_ends: Sequence[int]
    """The headers of record i are those from `header_ends[i]` to before `header_ends[i + 1]`."""

    def numbers(self, fact: str) -> Iterable[int]:
        """Return the offsets or the timestamps."""
        return self.offsets if fact == "offset" else self.timestamps

    def column(self, name: str) -> Column:
        """Return the column of keys, values or headers."""
        found: Column = getattr(self, name)
        return found

    def records_at(self, name: str, positions: Iterable[int]) -> set[int]:
        """Return the records that have these positions of the data of a column."""
        ends = self.column(name).ends
        found = {bisect_right(ends, each) - 1 for each in positions}
        if name == "headers":
            headers = self.header_ends
            found = {bisect_right(headers, each) - 1 for each in found}
        return {each for each in found if 0 <= each < self.count}

    def with_text(self, name: str, text: bytes) -> set[int]:
        """Return the records with a text in a column."""
        return self.records_at(name, _positions(self.column(name), text))


def _positions(column: Column, text: bytes) -> Iterable[int]:
    """Yield where a text stands, once for each value."""
    data, ends = column.data, column.ends
    at = data.find(text)
    while at >= 0:
        yield at
        behind = bisect_right(ends, at)
        if behind >= len(ends):
            return
        at = data.find(text, ends[behind])


@dataclass(frozen=True, slots=True)
class _Fact:
    """A number of the record itself, compared."""

    name: str
    holds: Callable[[Any, Any], bool]
    limit: float

    cost = 0

    def found(self, columns: BatchColumns) -> Found:
        holds, limit = self.holds, self.limit
        if self.name == "partition":
            return None if holds(columns.partition, limit) else set()
        numbers = enumerate(columns.numbers(self.name))
        return {index for index, number in numbers if holds(number, limit)}


@dataclass(frozen=True, slots=True)
class _Text:
    """A text that stands in a column; in a field of JSON it may be escaped."""

    column: str
    text: bytes
    is_field: bool

    @property
    def cost(self) -> int:
        return 1 + _CONTENTS.index(self.column)

    def found(self, columns: BatchColumns) -> Found:
        found = columns.with_text(self.column, self.text)
        if self.is_field:
            found |= _escaped(columns, self.column)
        return found | columns.column(self.column).opaque


@dataclass(frozen=True, slots=True)
class _Number:
    """A number in a field of JSON, compared."""

    column: str
    pattern: re.Pattern[bytes]
    holds: Callable[[Any, Any], bool]
    limit: float

    cost = 4

    def found(self, columns: BatchColumns) -> Found:
        data = columns.column(self.column).data
        positions = [
            each.start() for each in self.pattern.finditer(data) if self._may_hold(each[1])
        ]
        found = columns.records_at(self.column, positions) | _escaped(columns, self.column)
        return found | columns.column(self.column).opaque

    def _may_hold(self, text: bytes | None) -> bool:
        if text is None:  # something else than a number
            return True
        number = int(text) if text.lstrip(b"-").isdigit() else float(text)
        return self.holds(number, self.limit)


def _escaped(columns: BatchColumns, column: str) -> set[int]:
    """Return the records with JSON that may have escapes, or another encoding than UTF-8."""
    return set().union(*(columns.with_text(column, sign) for sign in _SIGNS))


@dataclass(frozen=True, slots=True)
class _All:
    """Each of the tests."""

    tests: tuple[_Test, ...]

    @property
    def cost(self) -> int:
        return sum(each.cost for each in self.tests)

    def found(self, columns: BatchColumns) -> Found:
        left: Found = None
        for test in sorted(self.tests, key=lambda each: each.cost):
            found = test.found(columns)
            if found is not None:
                left = found if left is None else left & found
            if left is not None and len(left) * _ENOUGH <= columns.count:
                return left
        return left


@dataclass(frozen=True, slots=True)
class _Any:
    """One of the tests."""

    tests: tuple[_Test, ...]

    @property
    def cost(self) -> int:
        return sum(each.cost for each in self.tests)

    def found(self, columns: BatchColumns) -> Found:
        whole: set[int] = set()
        for test in self.tests:
            found = test.found(columns)
            if found is None:
                return None
            whole |= found
        return whole


_Test: TypeAlias = "_Fact | _Text | _Number | _All | _Any"


class Sieve:
    """The tests of one expression."""

    def __init__(self, test: _Test) -> None:
        self._test = test

    def candidates(self, columns: BatchColumns) -> Sequence[int]:
        """Return the places of the records for which the expression may be true, in order."""
        found = self._test.found(columns)
        return range(columns.count) if found is None else sorted(found)


def sieve_of(text: str) -> Sieve | None:
    """Return the sieve of an expression that was compiled; None if any bytes may satisfy it."""
    test = _test_of(ast.parse(text.strip(), mode="eval").body)
    return None if test is None else Sieve(test)


def sieve_of_text(text: str) -> Sieve:
    """Return the sieve of a text that a key or a value has in it."""
    sides = ("key", "value")
    return Sieve(_Any(tuple(_Text(each, text.encode(), is_field=False) for each in sides)))


def _test_of(node: ast.expr) -> _Test | None:
    match node:
        case ast.BoolOp(op=op, values=values):
            found = [_test_of(each) for each in values]
            known = tuple(each for each in found if each is not None)
            if isinstance(op, ast.And):
                return _All(known) if known else None
            return _Any(known) if len(known) == len(found) else None
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [left, *others]
            found = [_comparison(*each) for each in zip(sides, ops, others, strict=False)]
            known = tuple(each for each in found if each is not None)
            return _All(known) if known else None
        case ast.Call(
            func=ast.Attribute(value=owner, attr="contains"), args=[ast.Constant(value=str(text))]
        ):
            return _part_of(owner, text)
        case ast.Call(
            func=ast.Attribute(value=owner, attr=method), args=[ast.Constant(value=str(text))]
        ) if method in _ENDS:
            return _text_in(owner, text)
    return None


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr) -> _Test | None:
    if isinstance(op, ast.In):
        if isinstance(left, ast.Constant) and isinstance(left.value, str):
            return _part_of(right, left.value)
        if isinstance(right, (ast.List, ast.Tuple)):
            tests = [_comparison(left, ast.Eq(), each) for each in right.elts]
            known = tuple(each for each in tests if each is not None)
            return _Any(known) if known and len(known) == len(tests) else None
        return None
    kind = type(op)
    if kind not in _COMPARED:
        return None
    value = _constant(right)
    if value is None:
        value, left, kind = _constant(left), right, _TURNED[kind]
    if isinstance(value, str):
        return _text_in(left, value) if kind is ast.Eq else None
    if value is None:
        return None
    if isinstance(left, ast.Name):
        return _Fact(left.id, _COMPARED[kind], value) if left.id in _FACTS else None
    place = _field_of(left)
    if place is None or not _is_plain(place[1]):
        return None
    column, name = place
    pattern = re.compile(b'"' + re.escape(name.encode()) + _NUMBER)
    return _Number(column, pattern, _COMPARED[kind], value)


def _constant(node: ast.expr) -> str | float | None:
    """Return a text or a number that stands in the expression."""
    match node:
        case ast.Constant(value=value) if isinstance(value, (str, int, float)):
            return None if isinstance(value, bool) else value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if isinstance(
            value, (int, float)
        ):
            return None if isinstance(value, bool) else -value
    return None


def _part_of(owner: ast.expr, text: str) -> _Test | None:
    """Return the test for a text in a longer one, in a list, or as the name of a field."""
    test = _text_in(owner, text)
    return None if test is None else replace(test, is_field=True)


def _text_in(owner: ast.expr, text: str) -> _Text | None:
    """Return the test for a text that a key, a header or a field of JSON has in it."""
    if not text or not _is_encodable(text):
        return None
    if isinstance(owner, ast.Name):
        is_known = owner.id in ("key", "value")
        return _Text(owner.id, text.encode(), is_field=False) if is_known else None
    place = _field_of(owner)
    if place is None:
        return None
    column, _ = place
    is_header = column == "headers" and _is_name(_owner_of(owner), "headers")
    return _Text(column, text.encode(), is_field=not is_header)


def _field_of(node: ast.expr) -> tuple[str, str] | None:
    """Return the column, and the last name, of a path such as `value.customer.name`. Its owner is
    a field, too, so it is JSON."""
    name = _last_name(node)
    if name is None:
        return None
    root = _owner_of(node)
    while not isinstance(root, ast.Name):
        if not isinstance(root, (ast.Attribute, ast.Subscript)):
            return None
        root = root.value
    return (root.id, name) if root.id in _CONTENTS else None


def _last_name(node: ast.expr) -> str | None:
    match node:
        case ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
    return None


def _owner_of(node: ast.expr) -> ast.expr:
    assert isinstance(node, (ast.Attribute, ast.Subscript))
    return node.value


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_plain(name: str) -> bool:
    """Whether JSON writes a name without escapes, if it wants to."""
    return _is_encodable(name) and not any(each in '"\\' or each < " " for each in name)
