"""An expression as plain data: a tree of fields, literals and functions. Equal trees are equal."""

from __future__ import annotations

from typing import Any, Final

from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the record; a path of several names leads into nested records."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. Its type is part of it, because 1, 1.0 and True are equal in Python."""

    value: Any
    type_name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """A function applied to operands; `options` are constants that are no expressions."""

    name: str
    operands: tuple[Expression, ...]
    options: tuple[Any, ...] = ()


Expression = Field | Literal | Apply


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """What to compute over the records of a group: sum, count, min, max or mean. A count without an
    operand counts records, one with an operand those for which it is not null."""

    name: str
    operand: Expression | None = None


SYMBOLS: Final = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "//",
    "modulo": "%",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and": "&",
    "or": "|",
}


def fields_in(node: Expression) -> set[str]:
    """Return the fields of the record that an expression reads."""
    if isinstance(node, Field):
        return {node.path[0]}
    if isinstance(node, Literal):
        return set()
    return set().union(*(fields_in(each) for each in node.operands))


def literal(value: Any) -> Literal:
    return Literal(value, type(value).__name__)


def text_of(node: Expression | AggregateCall) -> str:
    """Return an expression as one writes it, for plans and messages."""
    if isinstance(node, AggregateCall):
        return "count()" if node.operand is None else f"{_inner(node.operand)}.{node.name}()"
    if isinstance(node, Field):
        return ".".join(node.path)
    if isinstance(node, Literal):
        return repr(node.value)
    parts = [_inner(each) for each in node.operands]
    if node.name in SYMBOLS:
        return f" {SYMBOLS[node.name]} ".join(parts)
    if node.name == "not":
        return f"~{parts[0]}"
    if node.name == "negate":
        return f"-{parts[0]}"
    if node.name == "when":
        return _when_text([text_of(each) for each in node.operands])
    if node.name in ("coalesce", "concat"):
        return f"{node.name}({', '.join(text_of(each) for each in node.operands)})"
    options = [getattr(each, "__name__", repr(each)) for each in node.options]
    rest = [text_of(each) for each in node.operands[1:]]
    return f"{parts[0]}.{node.name}({', '.join([*rest, *options])})"


def _when_text(parts: list[str]) -> str:
    pairs = zip(parts[:-1:2], parts[1::2], strict=True)
    cases = ".".join(f"when({condition}).then({result})" for condition, result in pairs)
    return f"{cases}.otherwise({parts[-1]})"


def _inner(node: Expression) -> str:
    is_compound = isinstance(node, Apply) and node.name in SYMBOLS
    return f"({text_of(node)})" if is_compound else text_of(node)
