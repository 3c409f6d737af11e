"""Expressions as Python source: the reference for what they mean, on one record.

The source is one Python expression, so that the engine puts it into its loop; a condition inside
`when` protects what follows it. Temporary names keep operands that may be null.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import field
from itertools import compress, count
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.streams.expressions import values
from moldau.streams.expressions.kinds import (
    NUMBERS,
    Kind,
    field_type,
    is_mapping,
    kind_of,
    without_none,
)
from moldau.streams.expressions.tree import SYMBOLS, Apply, Field, Literal
from moldau.streams.expressions.typed import Typed, applied, checked, may_fail

Bind = Callable[[Any, str], str]
_COMPARISONS: Final = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_SPACE: Final = " \t\n\r\f\v"
_PLAIN: Final = (bool, int, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class FieldSource:
    """Where an expression finds the fields of its record: in `fields` by name, or in `value`."""

    value: str
    record: Any
    is_present: bool
    """Whether the record is never null."""
    fields: Mapping[str, str] = field(default_factory=dict)
    is_dict: bool = False
    """Whether a record without a declared type is known to be a dict."""


class Coder:
    """Writes the source of expressions over one record."""

    def __init__(self, source: FieldSource, bind: Bind, variable: Callable[[str], str]) -> None:
        self._source = source
        self._bind = bind
        self._variable = variable

    def value(self, typed: Typed) -> str:
        """Return the source of the expression's value."""
        return self._code(typed)[0]

    def condition(self, typed: Typed) -> str:
        """Return the source of a condition for `if`: null counts as false."""
        name = typed.name
        if name in ("and", "or"):
            return f"({f' {name} '.join(self.condition(each) for each in typed.operands)})"
        if name in _COMPARISONS and typed.kind is Kind.BOOL:
            tests, arguments = self._tested(typed)
            tests = [f"{test} is not None" for test in tests]
            return f"({' and '.join([*tests, self._body(typed, arguments)])})"
        return self._logical(typed)[0]

    def _code(self, typed: Typed) -> tuple[str, bool]:
        """Return the source, and whether its value may be None."""
        node = typed.node
        if isinstance(node, Literal):
            return self._literal(node.value), node.value is None
        if isinstance(node, Field):
            return self._field(node)
        if (special := _SPECIAL.get(node.name)) is not None:
            return special(self, typed)
        tests, arguments = self._tested(typed)
        body = self._body(typed, arguments)
        if not tests:
            return body, typed.kind is Kind.ANY
        nulls = " or ".join(f"{test} is None" for test in tests)
        return f"(None if {nulls} else {body})", True

    def _literal(self, value: Any) -> str:
        if type(value) in _PLAIN:
            return f"({value!r})" if type(value) is int and value < 0 else repr(value)
        return self._bind(value, "constant")

    def _field(self, node: Field) -> tuple[str, bool]:
        source = self._source
        record, text, is_nullable = source.record, source.value, not source.is_present
        for at, name in enumerate(node.path):
            hint, may_be_null = field_type(record, name)
            if not at and name in source.fields:
                text = source.fields[name]
                is_nullable = may_be_null or not source.is_present
            elif kind_of(record) is Kind.ANY:
                text = self._untyped(text, name, is_dict=source.is_dict and not at)
                is_nullable = True
            else:
                before, text = text, self._of_record(record, text, name)
                if is_nullable:
                    held, name_of_it = self._held(before)
                    text = self._of_record(record, name_of_it, node.path[at])
                    text = f"(None if {held} is None else {text})"
                is_nullable = is_nullable or may_be_null
            record = hint
        return text, is_nullable

    def _untyped(self, text: str, name: str, *, is_dict: bool) -> str:
        """Return the source of a field of a record without a declared type: most are dicts."""
        if is_dict:
            return f"{text}.get({name!r})"
        found = f"{self._bind(values.field, 'field')}({text}, {name!r})"
        if not text.isidentifier():
            return found
        return f"({text}.get({name!r}) if type({text}) is dict else {found})"

    @staticmethod
    def _of_record(record: Any, text: str, name: str) -> str:
        return f"{text}.get({name!r})" if is_mapping(record) else f"{text}.{name}"

    def _held(self, text: str) -> tuple[str, str]:
        """Return the source that keeps a value under a name, and the name."""
        if text.isidentifier():
            return text, text
        name = self._variable("held")
        return f"({name} := {text})", name

    def _tested(self, typed: Typed) -> tuple[list[str], list[str]]:
        """Return the sources of the operands that may be null, to be tested in this order, and all
        operands as they are named afterwards. One that may fail before the first null is among
        them, so that errors do not depend on which fields are declared to be never null."""
        tests, arguments = [], []
        coded = [self._code(each) for each in typed.operands]
        last = max((at for at, (_, may_be_null) in enumerate(coded) if may_be_null), default=-1)
        for at, (text, is_nullable) in enumerate(coded):
            if is_nullable or (at < last and may_fail(typed.operands[at])):
                held, text = self._held(text)
                tests.append(held)
            arguments.append(text)
        return tests, arguments

    def _logical(self, typed: Typed) -> tuple[str, bool]:
        text, is_nullable = self._code(typed)
        if typed.kind is Kind.ANY:
            return f"{self._bind(values.boolean, 'boolean')}({text})", True
        return text, is_nullable

    def _as(self, typed: Typed, hint: Any) -> tuple[str, bool]:
        """Code a case of a result of type `hint`."""
        if kind_of(hint) is Kind.FLOAT and typed.kind is Kind.INT:
            cast = Apply("cast", (typed.node,), (float,))
            typed = Typed(cast, float, typed.is_nullable, (typed,))
        return self._code(typed)

    def _and_or(self, typed: Typed) -> tuple[str, bool]:
        (one, is_one), (other, is_other) = (self._logical(each) for each in typed.operands)
        if not is_one and not is_other:
            return f"({one} {typed.name} {other})", False
        ends = typed.name == "or"
        first, one = self._held(one)
        second, other = self._held(other)
        text = (
            f"({ends} if {first} is {ends} else {ends} if {second} is {ends} "
            f"else None if {one} is None or {other} is None else {not ends})"
        )
        return text, True

    def _not(self, typed: Typed) -> tuple[str, bool]:
        text, is_nullable = self._logical(typed.operands[0])
        if not is_nullable:
            return f"(not {text})", False
        held, text = self._held(text)
        return f"(None if {held} is None else not {text})", True

    def _is_null(self, typed: Typed) -> tuple[str, bool]:
        held, _ = self._held(self._code(typed.operands[0])[0])
        return f"({held} is None)", False

    def _when(self, typed: Typed) -> tuple[str, bool]:
        *pairs, last = typed.operands
        text, is_nullable = self._as(last, typed.hint)
        for condition, result in reversed(list(zip(pairs[::2], pairs[1::2], strict=True))):
            then, may_be_null = self._as(result, typed.hint)
            text = f"({then} if {self.condition(condition)} else {text})"
            is_nullable = is_nullable or may_be_null
        return text, is_nullable

    def _coalesce(self, typed: Typed) -> tuple[str, bool]:
        *firsts, last = [self._as(each, typed.hint) for each in typed.operands]
        text, is_nullable = last
        for first, may_be_null in reversed(firsts):
            if not may_be_null:
                text, is_nullable = first, False
                continue
            held, name = self._held(first)
            text = f"({name} if {held} is not None else {text})"
        return text, is_nullable

    def _body(self, typed: Typed, arguments: list[str]) -> str:
        """Return the source of a function of operands that are not null."""
        assert isinstance(typed.node, Apply)
        if any(each.kind is Kind.ANY for each in typed.operands):
            return self._by_type(typed, arguments)
        if any(each.kind is Kind.NULL for each in typed.operands):
            return "None"
        if typed.name in _ARITHMETIC:
            return self._arithmetic(typed, arguments)
        if typed.name in _COMPARISONS:
            return self._comparison(typed, arguments)
        first, options = arguments[0], typed.node.options
        match typed.name:
            case "contains":
                return f"({arguments[1]} in {first})"
            case "starts_with":
                return f"{first}.startswith({arguments[1]})"
            case "length":
                return f"len({first})"
            case "upper" | "lower":
                return f"{first}.{typed.name}()"
            case "strip":
                return f"{first}.strip({_SPACE!r})"
            case "substring":
                return f"{first}[{options[0]}:{options[0] + options[1]}]"
            case "concat":
                return f"({' + '.join(arguments)})"
            case "truncate":
                return f"{self._bind(values.truncated, 'truncated')}({first}, {options[0]})"
            case "date":
                return f"{self._bind(values.utc, 'utc')}({first}).date()"
            case "cast":
                return self._cast(typed, first)
        return f"{self._bind(values.utc, 'utc')}({first}).{typed.name}"

    def _by_type(self, typed: Typed, arguments: list[str]) -> str:
        """Return the source of a function of operands without a declared type. The usual types are
        tried in the line itself, because a call costs more than what most functions do."""
        assert isinstance(typed.node, Apply)
        text = f"{self._bind(FunctionByType(typed.node), typed.name)}({', '.join(arguments)})"
        unknown = [each.kind is Kind.ANY for each in typed.operands]
        tested = list(dict.fromkeys(compress(arguments, unknown)))
        for kind in reversed(_usual(typed)):
            operands = tuple(
                Typed(each.node, kind, is_nullable=False) if is_unknown else each
                for each, is_unknown in zip(typed.operands, unknown, strict=True)
            )
            try:
                guess = applied(typed.node, operands)
            except TypeError:
                continue
            tests = " and ".join(f"type({each}) is {kind.__name__}" for each in tested)
            text = f"({self._body(guess, arguments)} if {tests} else {text})"
        return text

    def _arithmetic(self, typed: Typed, arguments: list[str]) -> str:
        if typed.name == "divide" and typed.kind is Kind.FLOAT:
            arguments = self._floats(typed, arguments)
        if typed.name == "negate":
            text = f"-{arguments[0]}"
        else:
            text = f"{arguments[0]} {SYMBOLS[typed.name]} {arguments[1]}"
        if typed.kind is not Kind.INT:
            return f"({text})"
        name = self._variable("held")
        low, end = values.INT_MIN, values.INT_END
        failed = f"{self._bind(values.overflow, 'overflow')}({name})"
        return f"({name} if {low} <= ({name} := {text}) < {end} else {failed})"

    def _floats(self, typed: Typed, arguments: list[str]) -> list[str]:
        """Return operands with integers as floats."""
        found = []
        for each, argument in zip(typed.operands, arguments, strict=True):
            if isinstance(each.node, Literal) and type(each.node.value) is int:
                argument = f"({float(each.node.value)!r})"
            elif each.kind is Kind.INT:
                argument = f"float({argument})"
            found.append(argument)
        return found

    def _comparison(self, typed: Typed, arguments: list[str]) -> str:
        kinds = {each.kind for each in typed.operands}
        if kinds == {Kind.INT, Kind.FLOAT}:
            arguments = self._floats(typed, arguments)
        if Kind.TIME in kinds:
            arguments = [f"{self._bind(values.utc, 'utc')}({each})" for each in arguments]
        return f"({arguments[0]} {SYMBOLS[typed.name]} {arguments[1]})"

    def _cast(self, typed: Typed, text: str) -> str:
        kind = typed.operands[0].kind
        if kind is typed.kind:
            return text
        if typed.hint is str and kind is Kind.BOOL:
            return f"('true' if {text} else 'false')"
        function = _CASTS.get((kind, typed.hint), typed.hint)
        return f"{self._bind(function, 'cast')}({text})"


_CASTS: Final[dict[tuple[Kind, Any], Callable[[Any], Any]]] = {
    (Kind.FLOAT, int): values.int_of_float,
    (Kind.TEXT, int): values.int_of_text,
    (Kind.TEXT, float): values.float_of_text,
    (Kind.TIME, int): values.epoch_ms,
    (Kind.INT, datetime.datetime): values.time_of,
}
_ARITHMETIC: Final = (
    "add", "subtract", "multiply", "divide", "negate", "floor_divide", "modulo",
)  # fmt: skip
_TEXT: Final = (
    "upper", "lower", "strip", "substring", "concat", "contains", "starts_with", "length",
)  # fmt: skip


def _usual(typed: Typed) -> tuple[type, ...]:
    """Return the types that operands without a declared type usually have, the most likely one
    first."""
    known = {each.kind for each in typed.operands} - {Kind.ANY}
    if typed.name in _TEXT:
        return (str,)
    if typed.name not in (*_ARITHMETIC, *_COMPARISONS) or not known <= {*NUMBERS, Kind.TEXT}:
        return ()
    if Kind.TEXT in known:
        return (str,)
    is_any = typed.name in _COMPARISONS and not known
    return (float, int, str) if is_any else (float, int)


_SPECIAL: Final = {
    "and": Coder._and_or,
    "or": Coder._and_or,
    "not": Coder._not,
    "is_null": Coder._is_null,
    "when": Coder._when,
    "coalesce": Coder._coalesce,
}


class FunctionByType:
    """A function for operands without a declared type: it is checked and made for the types that
    they have, once for each combination."""

    def __init__(self, node: Apply) -> None:
        self._node = node
        self._made: dict[tuple[type, ...], Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        types = tuple(map(type, arguments))
        found = self._made.get(types)
        if found is None:
            found = self._made[types] = self._make(types)
        return found(*arguments)

    def _make(self, types: tuple[type, ...]) -> Callable[..., Any]:
        names = [f"value{index}" for index in range(len(types))]
        fields = tuple(Field((name,)) for name in names)
        operands = tuple(
            Typed(each, kind, is_nullable=False) for each, kind in zip(fields, types, strict=True)
        )
        typed = applied(Apply(self._node.name, fields, self._node.options), operands)
        bound: dict[str, Any] = {}
        coder = Coder(
            FieldSource("", Any, is_present=True, fields={name: name for name in names}),
            _binding(bound),
            _numbered(),
        )
        return _compiled(", ".join(names), coder._body(typed, names), bound)


def function_of(typed: Typed, record: Any) -> Callable[[Any], Any]:
    """Return the expression as a function of the record, which may be None."""
    bound: dict[str, Any] = {}
    source = FieldSource("value", without_none(record)[0], is_present=False)
    text = Coder(source, _binding(bound), _numbered()).value(typed)
    return _compiled("value", text, bound)


def evaluated(node: Any, record: Any, value: Any) -> Any:
    """Return the value of an expression for one record of a type: the reference."""
    return function_of(checked(node, record, "expression"), record)(value)


def _binding(bound: dict[str, Any]) -> Bind:
    def bind(value: Any, hint: str) -> str:
        name = f"{hint}_{len(bound)}"
        bound[name] = value
        return name

    return bind


def _numbered() -> Callable[[str], str]:
    numbers = count(1)
    return lambda hint: f"{hint}{next(numbers)}"


def _compiled(parameters: str, text: str, bound: dict[str, Any]) -> Callable[..., Any]:
    made: Callable[..., Any] = eval(f"lambda {parameters}: {text}", bound)  # noqa: S307
    return made
