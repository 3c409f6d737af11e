"""The aggregates of `agg`: one tuple of parts for a key, and the record that is made of it.

Null values are left out, as in SQL: a sum, min, max or mean of none is null, a count is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from moldau.streams.expressions import values
from moldau.streams.expressions.kinds import Kind, without_none
from moldau.streams.expressions.python import Coder, FieldSource, FunctionByType
from moldau.streams.expressions.tree import Apply, Field
from moldau.streams.expressions.typed import Typed
from moldau.streams.plan.functions import Folding

Parts = Mapping[str, tuple[str, Typed | None]]
_VALUE: Final = "__value__"


class Aggregation:
    """Writes the expressions of a folding, part by part."""

    def __init__(self, parts: Parts, record: Any) -> None:
        self._functions: list[tuple[str, Any]] = []
        self._numbers = 0
        source = FieldSource(_VALUE, without_none(record)[0], is_present=True)
        self._coder = Coder(source, self._bind, self._variable)
        self._first: list[str] = []
        self._add: list[str] = []
        self._merge: list[str] = []
        self._types: list[Any] = []
        self._results: list[str] = []
        fields = []
        for name, (function, operand) in parts.items():
            fields.append((name, self._part(function, operand)))
        self.row: Any = msgspec.defstruct("Row", fields, frozen=True)
        self.state: Any = tuple.__class_getitem__(tuple(self._types))

    def folding(self) -> Folding:
        make = self._bind(self.row, "make")
        return Folding(
            "agg",
            add=self._text(f"({', '.join(self._add)},)"),
            first=self._text(f"({', '.join(self._first)},)"),
            merge=self._text(f"({', '.join(self._merge)},)"),
            result=self._text(f"{make}({', '.join(self._results)})"),
            functions=tuple(self._functions),
            skips_null=True,
        )

    def _part(self, function: str, operand: Typed | None) -> Any:
        """Add the parts of one aggregate, and return the type of its result."""
        old = f"__old__[{len(self._types)}]"
        if function == "count":
            self._results.append(old)
            self._count(operand)
            return int
        assert operand is not None
        if function != "mean":
            self._results.append(old)
            return self._sum(operand) if function == "sum" else self._extreme(function, operand)
        self._sum(operand if operand.kind is Kind.DECIMAL else _as_float(operand))
        self._count(operand)
        counted = f"__old__[{len(self._types) - 1}]"
        self._results.append(f"({old} / {counted} if {counted} else None)")
        hint = operand.hint if operand.kind is Kind.DECIMAL else float
        return hint | None if operand.is_nullable else hint

    def _count(self, operand: Typed | None) -> None:
        one = "1"
        if operand is not None and operand.is_nullable:
            one = f"int({self._coder.value(operand)} is not None)"
        self._folded(int, one, "({old} + {new})", is_nullable=False)

    def _sum(self, operand: Typed) -> Any:
        if operand.kind is Kind.INT:
            total = f"{self._bind(values.checked_int, 'checked')}({{old}} + {{new}})"
        elif operand.kind is Kind.ANY:
            added = Apply("add", (Field(("one",)), Field(("other",))))
            total = f"{self._bind(FunctionByType(added), 'added')}({{old}}, {{new}})"
        else:
            total = "({old} + {new})"
        return self._folded(operand.hint, self._coder.value(operand), total, operand.is_nullable)

    def _extreme(self, name: str, operand: Typed) -> Any:
        sign = "<" if name == "min" else ">"
        value = self._coder.value(operand)
        if operand.kind is Kind.TIME:
            utc = self._bind(values.utc, "utc")
            held = self._variable("held")
            value = f"(None if ({held} := {value}) is None else {utc}({held}))"
        # What is unlike itself is NaN, which any number replaces.
        chosen = f"({{new}} if {{new}} {sign} {{old}} or {{old}} != {{old}} else {{old}})"
        return self._folded(operand.hint, value, chosen, operand.is_nullable)

    def _folded(self, hint: Any, value: str, joined: str, is_nullable: bool) -> Any:
        """Add a part: `joined` is the source of two values that are not null made into one."""
        at = len(self._types)
        old, other, held = f"__old__[{at}]", f"__other__[{at}]", self._variable("held")
        named = joined.replace("{old}", old).replace("{new}", held)
        merged = joined.replace("{old}", old).replace("{new}", other)
        self._first.append(value)
        if is_nullable:
            named = (
                f"({old} if ({held} := {value}) is None else {held} if {old} is None else {named})"
            )
            merged = f"({old} if {other} is None else {other} if {old} is None else {merged})"
        elif joined.count("{new}") == 1:
            named = joined.replace("{old}", old).replace("{new}", value)
        else:
            named = f"({held} := {value}, {named})[1]"
        self._add.append(named)
        self._merge.append(merged)
        self._types.append(hint | None if is_nullable and hint is not Any else hint)
        return self._types[-1]

    def _bind(self, value: Any, hint: str) -> str:
        name = f"{hint}_of_{len(self._functions)}"
        self._functions.append((name, value))
        return f"__{name}__"

    def _variable(self, hint: str) -> str:
        self._numbers += 1
        return f"folded_{hint}{self._numbers}"

    def _text(self, source: str) -> str:
        """Return source as the engine takes it: its names are in braces."""
        text = source.replace("{", "{{").replace("}", "}}")
        for name in ("value", "old", "other", *(name for name, _ in self._functions)):
            text = text.replace(f"__{name}__", f"{{{name}}}")
        return text


def _as_float(operand: Typed) -> Typed:
    if operand.kind is Kind.FLOAT:
        return operand
    cast = Apply("cast", (operand.node,), (float,))
    return Typed(cast, float, operand.is_nullable, (operand,))
