"""Expressions over the fields of a record: a small subset of Python, compiled to functions.

    amount * 1.19                        name.lower() if name else "unnamed"
    home.street + " " + str(home.number)     _topic == "orders" and amount > 10

Names are fields; those that begin with `_` are facts of the record. There are no loops, no
comprehensions, no powers, no products of texts, and only the functions and methods listed here, so
an expression costs little and can access nothing but the record.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError

Scope = Callable[[str], Any]
Evaluate = Callable[[Scope], Any]
LENGTH_MAX = 2000
_DEPTH_MAX = 60
_TEXT_MAX = 1_000_000


class ExpressionError(ValueError):
    """A text is no expression, or uses what expressions do not have."""


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "coalesce": _coalesce,
    "decimal": lambda value: Decimal(str(value)),
    "float": float,
    "int": int,
    "len": len,
    "max": max,
    "min": min,
    "round": round,
    "str": str,
}
_METHODS: Mapping[str, Callable[..., Any]] = {
    "contains": lambda text, part: part in text,
    "endswith": lambda text, part: text.endswith(part),
    "get": lambda value, name, default=None: value.get(name, default),
    "isoformat": lambda value: value.isoformat(),
    "lower": lambda text: text.lower(),
    "replace": lambda text, old, new: text.replace(old, new),
    "split": lambda text, separator=None: text.split(separator),
    "startswith": lambda text, part: text.startswith(part),
    "strip": lambda text: text.strip(),
    "title": lambda text: text.title(),
    "upper": lambda text: text.upper(),
}
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
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


class Expression:
    """A compiled expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > LENGTH_MAX:
            raise ExpressionError(f"an expression has at most {LENGTH_MAX} characters")
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else str(error)
            raise ExpressionError(f"{text!r} is no expression: {reason}") from None
        self._evaluate = _compiled(tree.body, 0)

    def value(self, scope: Scope) -> Any:
        """Return the result. Raise DataError, with the expression, if it fails."""
        try:
            return self._evaluate(scope)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise DataError(f"{self.text} failed: {reason}") from None


def _compiled(node: ast.expr, depth: int) -> Evaluate:
    if depth > _DEPTH_MAX:
        raise ExpressionError("an expression is nested too deeply")
    match node:
        case ast.Constant(value=value) if isinstance(value, (str, int, float, bool, type(None))):
            return lambda scope: value
        case ast.Name(id=name):
            return lambda scope: scope(name)
        case ast.BoolOp():
            return _logic(node, depth + 1)
        case ast.UnaryOp(op=op, operand=operand):
            return _unary(op, _compiled(operand, depth + 1))
        case ast.BinOp():
            return _binary(node, depth + 1)
        case ast.Compare():
            return _comparison(node, depth + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _choice(*(_compiled(each, depth + 1) for each in (test, body, orelse)))
        case ast.Attribute(value=owner, attr=name):
            inner = _compiled(owner, depth + 1)
            return lambda scope: _member(inner(scope), name)
        case ast.Subscript(value=owner, slice=index):
            return _item(_compiled(owner, depth + 1), index, depth + 1)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            parts = [_compiled(each, depth + 1) for each in elements]
            return lambda scope: [part(scope) for part in parts]
        case ast.Call():
            return _call(node, depth + 1)
    raise ExpressionError(f"an expression has no {type(node).__name__}")


def _choice(test: Evaluate, body: Evaluate, orelse: Evaluate) -> Evaluate:
    return lambda scope: body(scope) if test(scope) else orelse(scope)


def _logic(node: ast.BoolOp, depth: int) -> Evaluate:
    parts = [_compiled(each, depth) for each in node.values]
    stops_at = isinstance(node.op, ast.Or)

    def evaluate(scope: Scope) -> Any:
        value: Any = None
        for part in parts:
            value = part(scope)
            if bool(value) is stops_at:
                break
        return value

    return evaluate


def _unary(op: ast.unaryop, operand: Evaluate) -> Evaluate:
    if isinstance(op, ast.Not):
        return lambda scope: not operand(scope)
    if isinstance(op, ast.USub):
        return lambda scope: -operand(scope)
    raise ExpressionError(f"an expression has no {type(op).__name__}")


def _binary(node: ast.BinOp, depth: int) -> Evaluate:
    left, right = _compiled(node.left, depth), _compiled(node.right, depth)
    if isinstance(node.op, (ast.Mult, ast.Mod)):
        calculate = operator.mul if isinstance(node.op, ast.Mult) else operator.mod
        return lambda scope: calculate(_number(left(scope)), _number(right(scope)))
    found = _BINARY.get(type(node.op))
    if found is None:
        raise ExpressionError(f"an expression has no {type(node.op).__name__}")
    return lambda scope: _bounded(found(left(scope), right(scope)))


def _number(value: Any) -> Any:
    if isinstance(value, (int, float, Decimal)):
        return value
    raise TypeError(f"{type(value).__name__} is no number")


def _bounded(value: Any) -> Any:
    if isinstance(value, (str, bytes, list)) and len(value) > _TEXT_MAX:
        raise ValueError("a value becomes too long")
    return value


def _comparison(node: ast.Compare, depth: int) -> Evaluate:
    first = _compiled(node.left, depth)
    steps = [
        (_COMPARE[type(op)], _compiled(right, depth))
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


def _member(owner: Any, name: str) -> Any:
    """Return a field of a struct or map. A field of None is None: a missing part is no error."""
    if owner is None:
        return None
    if isinstance(owner, Struct):
        return owner[name]
    if isinstance(owner, dict):
        return owner.get(name)
    raise TypeError(f"{type(owner).__name__} has no fields")


def _item(owner: Evaluate, index: ast.expr, depth: int) -> Evaluate:
    if isinstance(index, ast.Slice):
        if index.step is not None:
            raise ExpressionError("a slice has no step")
        low, high = (
            None if each is None else _compiled(each, depth) for each in (index.lower, index.upper)
        )
        return lambda scope: owner(scope)[
            slice(low(scope) if low else None, high(scope) if high else None)
        ]
    at = _compiled(index, depth)
    return lambda scope: owner(scope)[at(scope)]


def _call(node: ast.Call, depth: int) -> Evaluate:
    if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
        raise ExpressionError("functions in expressions take plain arguments only")
    arguments = [_compiled(each, depth) for each in node.args]
    if isinstance(node.func, ast.Name):
        function = _FUNCTIONS.get(node.func.id)
        if function is None:
            known = ", ".join(_FUNCTIONS)
            raise ExpressionError(f"no function {node.func.id!r}; there are {known}")
        return lambda scope: function(*(each(scope) for each in arguments))
    if isinstance(node.func, ast.Attribute):
        method = _METHODS.get(node.func.attr)
        if method is None:
            known = ", ".join(_METHODS)
            raise ExpressionError(f"no method {node.func.attr!r}; there are {known}")
        owner = _compiled(node.func.value, depth)
        return lambda scope: _bounded(method(owner(scope), *(each(scope) for each in arguments)))
    raise ExpressionError("only named functions can be called")
