"""Expressions over the fields of a record: a small subset of Python, compiled to functions.

    amount * 1.19                        name.lower() if name else "unnamed"
    home.street + " " + str(home.number)     _topic == "orders" and amount > 10

What the names mean is up to the user of an `Expression`. There are no loops, no comprehensions, no
powers, no products of texts, and only the functions and methods listed here, so an expression can
access nothing but the record.

Invariants: the length of an expression bounds its operations, and each charges the size of its
result to a budget. A result that would be too large is refused before it is made. So an evaluation
costs bounded time and memory for any record.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from moldau.errors import MoldauError

Scope = Callable[[str], Any]
Evaluate = Callable[[Scope], Any]
LENGTH_MAX = 2000
_DEPTH_MAX = 60
_TEXT_MAX = 1_000_000
"""The length of a result."""
_WORK_MAX = 10_000_000
"""The length of all results of an evaluation."""
_BITS_MAX = 100_000
_DIGITS_MAX = 4300


class ExpressionError(ValueError):
    """A text is no expression, or uses what expressions do not have."""


class ExpressionFailed(MoldauError):
    """An expression has no result for a record."""


Member = Callable[[Any, str], Any]
"""Returns a field of a value. Raises TypeError if the value has no fields."""


class _Budget:
    """What one evaluation may still cost, in characters, bytes and items of its results."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _WORK_MAX

    def charge(self, value: Any) -> Any:
        """Return the result of an operation. Raise ValueError if it is too large or the last one
        that the budget does not cover."""
        if isinstance(value, (str, bytes, list)):
            size = len(value)
            self.left -= size
            if size > _TEXT_MAX:
                raise ValueError(_TOO_LONG)
            if self.left < 0:
                raise ValueError("the expression costs too much for this record")
        return value


_TOO_LONG = "a value becomes too long"


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _whole(value: Any) -> int:
    if isinstance(value, Decimal) and value.adjusted() > _DIGITS_MAX:
        raise ValueError(_TOO_LONG)
    return int(value)


def _rounded(value: Any, digits: int | None = None) -> Any:
    if isinstance(value, Decimal) and value.adjusted() > _DIGITS_MAX:
        raise ValueError(_TOO_LONG)
    return round(value) if digits is None else round(value, digits)


def _replaced(text: Any, old: Any, new: Any) -> Any:
    count = text.count(old)
    if len(text) + count * (len(new) - len(old)) > _TEXT_MAX:
        raise ValueError(_TOO_LONG)
    return text.replace(old, new)


def _sum(left: Any, right: Any) -> Any:
    if isinstance(left, (str, bytes, list)) and len(left) + len(right) > _TEXT_MAX:
        raise ValueError(_TOO_LONG)
    return left + right


def _product(left: Any, right: Any) -> Any:
    left, right = _number(left), _number(right)
    is_whole = isinstance(left, int) and isinstance(right, int)
    if is_whole and left.bit_length() + right.bit_length() > _BITS_MAX:
        raise ValueError(_TOO_LONG)
    return left * right


def _remainder(left: Any, right: Any) -> Any:
    return _number(left) % _number(right)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "coalesce": _coalesce,
    "decimal": lambda value: Decimal(str(value)),
    "float": float,
    "int": _whole,
    "len": len,
    "max": max,
    "min": min,
    "round": _rounded,
    "str": str,
}
_METHODS: Mapping[str, Callable[..., Any]] = {
    "contains": lambda text, part: part in text,
    "endswith": lambda text, part: text.endswith(part),
    "get": lambda value, name, default=None: value.get(name, default),
    "isoformat": lambda value: value.isoformat(),
    "lower": lambda text: text.lower(),
    "replace": _replaced,
    "split": lambda text, separator=None: text.split(separator),
    "startswith": lambda text, part: text.startswith(part),
    "strip": lambda text: text.strip(),
    "title": lambda text: text.title(),
    "upper": lambda text: text.upper(),
}
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _sum,
    ast.Sub: operator.sub,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, among: item in among,
    ast.NotIn: lambda item, among: item not in among,
}


def member(owner: Any, name: str) -> Any:
    """Return a field of a map. A field of None is None: a missing part is no error."""
    if owner is None:
        return None
    if isinstance(owner, dict):
        return owner.get(name)
    raise TypeError(f"{type(owner).__name__} has no fields")


class Expression:
    """A compiled expression. It is for one thread at a time."""

    def __init__(
        self,
        text: str,
        *,
        member: Member = member,
        failure: type[MoldauError] = ExpressionFailed,
    ) -> None:
        """Compile the text. `member` returns fields, and `failure` is raised for a record. `names`
        are the names that the expression looks up."""
        self.text = text
        if len(text) > LENGTH_MAX:
            raise ExpressionError(f"an expression has at most {LENGTH_MAX} characters")
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else str(error)
            raise ExpressionError(f"{text!r} is no expression: {reason}") from None
        self._failure = failure
        self.names = frozenset(
            each.id
            for each in ast.walk(tree)
            if isinstance(each, ast.Name) and each.id not in _FUNCTIONS
        )
        self._budget = _Budget()
        self._evaluate = _Compiler(member, self._budget).compiled(tree.body, 0)

    def value(self, scope: Scope) -> Any:
        """Return the result. Raise the failure, with the expression, if there is none."""
        self._budget.left = _WORK_MAX
        try:
            return self._evaluate(scope)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise self._failure(f"{self.text} failed: {reason}") from None


class _Compiler:
    """Turns the tree of an expression into functions."""

    def __init__(self, member: Member, budget: _Budget) -> None:
        self._member = member
        self._charge = budget.charge

    def compiled(self, node: ast.expr, depth: int) -> Evaluate:
        if depth > _DEPTH_MAX:
            raise ExpressionError("an expression is nested too deeply")
        match node:
            case ast.Constant(value=value) if isinstance(
                value, (str, int, float, bool, type(None))
            ):
                return lambda scope: value
            case ast.Name(id=name):
                return lambda scope: scope(name)
            case ast.BoolOp():
                return self._logic(node, depth + 1)
            case ast.UnaryOp(op=op, operand=operand):
                return _unary(op, self.compiled(operand, depth + 1))
            case ast.BinOp():
                return self._binary(node, depth + 1)
            case ast.Compare():
                return self._comparison(node, depth + 1)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return _choice(*(self.compiled(each, depth + 1) for each in (test, body, orelse)))
            case ast.Attribute(value=owner, attr=name):
                inner, member = self.compiled(owner, depth + 1), self._member
                return lambda scope: member(inner(scope), name)
            case ast.Subscript(value=owner, slice=index):
                return self._item(self.compiled(owner, depth + 1), index, depth + 1)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                parts = [self.compiled(each, depth + 1) for each in elements]
                return lambda scope: [part(scope) for part in parts]
            case ast.Call():
                return self._call(node, depth + 1)
        raise ExpressionError(f"an expression has no {type(node).__name__}")

    def _logic(self, node: ast.BoolOp, depth: int) -> Evaluate:
        parts = [self.compiled(each, depth) for each in node.values]
        stops_at = isinstance(node.op, ast.Or)

        def evaluate(scope: Scope) -> Any:
            value: Any = None
            for part in parts:
                value = part(scope)
                if bool(value) is stops_at:
                    break
            return value

        return evaluate

    def _binary(self, node: ast.BinOp, depth: int) -> Evaluate:
        left, right = self.compiled(node.left, depth), self.compiled(node.right, depth)
        if isinstance(node.op, (ast.Mult, ast.Mod)):
            calculate = _product if isinstance(node.op, ast.Mult) else _remainder
            return lambda scope: calculate(left(scope), right(scope))
        found = _BINARY.get(type(node.op))
        if found is None:
            raise ExpressionError(f"an expression has no {type(node.op).__name__}")
        return lambda scope: self._charge(found(left(scope), right(scope)))

    def _comparison(self, node: ast.Compare, depth: int) -> Evaluate:
        first = self.compiled(node.left, depth)
        steps = [
            (_COMPARE[type(op)], self.compiled(right, depth))
            for op, right in zip(node.ops, node.comparators, strict=True)
        ]

        def evaluate(scope: Scope) -> bool:
            left = first(scope)
            for compare, right in steps:
                value = right(scope)
                if not compare(left, value):
                    return False
                left = value
            return True

        return evaluate

    def _item(self, owner: Evaluate, index: ast.expr, depth: int) -> Evaluate:
        if isinstance(index, ast.Slice):
            if index.step is not None:
                raise ExpressionError("a slice has no step")
            low, high = (
                None if each is None else self.compiled(each, depth)
                for each in (index.lower, index.upper)
            )
            return lambda scope: self._charge(
                owner(scope)[slice(low(scope) if low else None, high(scope) if high else None)]
            )
        at = self.compiled(index, depth)
        return lambda scope: owner(scope)[at(scope)]

    def _call(self, node: ast.Call, depth: int) -> Evaluate:
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            raise ExpressionError("functions in expressions take plain arguments only")
        arguments = [self.compiled(each, depth) for each in node.args]
        if isinstance(node.func, ast.Name):
            function = _FUNCTIONS.get(node.func.id)
            if function is None:
                known = ", ".join(_FUNCTIONS)
                raise ExpressionError(f"no function {node.func.id!r}; there are {known}")
            return lambda scope: self._charge(function(*(each(scope) for each in arguments)))
        if isinstance(node.func, ast.Attribute):
            method = _METHODS.get(node.func.attr)
            if method is None:
                known = ", ".join(_METHODS)
                raise ExpressionError(f"no method {node.func.attr!r}; there are {known}")
            owner = self.compiled(node.func.value, depth)
            return lambda scope: self._charge(
                method(owner(scope), *(each(scope) for each in arguments))
            )
        raise ExpressionError("only named functions can be called")


def _choice(test: Evaluate, body: Evaluate, orelse: Evaluate) -> Evaluate:
    return lambda scope: body(scope) if test(scope) else orelse(scope)


def _unary(op: ast.unaryop, operand: Evaluate) -> Evaluate:
    if isinstance(op, ast.Not):
        return lambda scope: not operand(scope)
    if isinstance(op, ast.USub):
        return lambda scope: -operand(scope)
    raise ExpressionError(f"an expression has no {type(op).__name__}")


def _number(value: Any) -> Any:
    if isinstance(value, (int, float, Decimal)):
        return value
    raise TypeError(f"{type(value).__name__} is no number")
