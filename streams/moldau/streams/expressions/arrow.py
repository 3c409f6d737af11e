"""Expressions on Arrow data: a whole batch at a time, with the kernels of pyarrow.

Invariant: the values are those of the reference (`python`), row by row. A kernel is used only where
it computes the same. Where one refuses a batch, or a function has none, the reference runs on the
rows, so an error is that of the first row that has no value.

While they are computed, values have one type for each kind: int64, float64, string, binary, date32,
and for times microseconds in UTC without a zone. A branch of `when` or `coalesce` that may fail is
computed only for the rows that take it.

Records in JSON do not go this way: decoding them into columns costs more than it saves
(bench/notes-streams.md).
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.streams.expressions import values
from moldau.streams.expressions.kinds import Kind, NoneType, record_type
from moldau.streams.expressions.python import FunctionByType, function_of
from moldau.streams.expressions.tree import (
    Apply,
    Expression,
    Field,
    Literal,
    fields_in,
    text_of,
)
from moldau.streams.expressions.typed import Typed, checked, condition, may_fail
from moldau.streams.problems import StreamsError

DIGITS_MAX: Final = 28
"""Python's Decimal rounds results with more digits."""
_DIGITS_OF_INT: Final = 19
_DAY_US: Final = 86_400_000_000
_SPACE: Final = " \t\n\r\f\v"
_COMPARISONS: Final = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_NATIVE: Final = pa.timestamp("us")


class NoKernel(Exception):
    """There are no kernels that compute these values as the reference does."""


def computed(node: Expression, rows: Any) -> Any:
    """Return the values of an expression for an Arrow table or record batch: a ChunkedArray, or an
    Array. Raise TopologyError if it does not fit the columns, StreamsError if a row has no
    value."""
    typed, record = _checked(node, rows, checked)
    if isinstance(rows, pa.RecordBatch):
        return _of_batch(typed, record, rows, 0)
    found, first = [], 0
    for batch in rows.combine_chunks().to_batches():
        found.append(_of_batch(typed, record, batch, first))
        first += batch.num_rows
    none = pa.RecordBatch.from_pylist([], rows.schema)
    return pa.chunked_array(found or [_of_batch(typed, record, none, 0)])


def kept(node: Expression, rows: Any) -> Any:
    """Return the rows for which a condition holds. Raise as `computed` does."""
    _checked(node, rows, condition)
    return rows.filter(computed(node, rows))


def _checked(node: Expression, rows: Any, check: Callable[..., Typed]) -> tuple[Typed, Any]:
    """Return the expression and the rows with their types."""
    where = f"arrow({text_of(node):.60})"
    if not isinstance(rows, pa.Table | pa.RecordBatch):
        raise StreamsError(f"{where}: {type(rows).__name__} is no Arrow table or record batch")
    names = rows.schema.names
    if len(set(names)) < len(names):
        raise StreamsError(f"{where}: two columns have one name: {', '.join(names)}")
    record = record_of(rows.schema)
    return check(node, record, where), record


@lru_cache(maxsize=64)
def record_of(schema: Any) -> Any:
    """Return the type of the rows of a schema, as expressions know it."""
    return record_type({each.name: _hint(each.type) for each in schema})


def _hint(kind: Any) -> Any:
    types = pa.types
    if types.is_dictionary(kind):
        return _hint(kind.value_type)
    if types.is_struct(kind):
        return record_type({each.name: _hint(each.type) for each in kind})
    return next((hint for test, hint in _HINTS if test(kind)), list)


_HINTS: Final[Sequence[tuple[Callable[[Any], bool], Any]]] = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_decimal, decimal.Decimal),
    (pa.types.is_string, str),
    (pa.types.is_large_string, str),
    (pa.types.is_string_view, str),
    (pa.types.is_binary, bytes),
    (pa.types.is_large_binary, bytes),
    (pa.types.is_fixed_size_binary, bytes),
    (pa.types.is_timestamp, datetime.datetime),
    (pa.types.is_date, datetime.date),
    (pa.types.is_null, NoneType),
)
_TYPES: Final = {
    Kind.BOOL: pa.bool_(),
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.TIME: _NATIVE,
    Kind.DATE: pa.date32(),
    Kind.NULL: pa.null(),
}


def _of_batch(typed: Typed, record: Any, batch: Any, first: int) -> Any:
    wanted = sorted(fields_in(typed.node))
    batch = _whole_microseconds(batch.select(wanted) if wanted else batch)
    try:
        found = ColumnEvaluator(batch).array(typed)
    except (NoKernel, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        found = _by_rows(typed, record, batch, first)
    return found.cast(pa.timestamp("us", "UTC")) if typed.kind is Kind.TIME else found


def _whole_microseconds(batch: Any) -> Any:
    """Round nanoseconds down: times of Python have none."""
    for at, column in enumerate(batch.schema):
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            whole = _floor_divide(batch.column(at).cast(pa.int64()), 1000)
            zoned = pa.timestamp("us", column.type.tz)
            batch = batch.set_column(at, column.name, whole.cast(zoned))
    return batch


def _by_rows(typed: Typed, record: Any, batch: Any, first: int) -> Any:
    """Compute row by row, as the reference does."""
    function = function_of(typed, record)
    found: list[Any] = []
    try:
        for row in batch.to_pylist():
            value = function(row)
            if type(value) is datetime.datetime:
                value = values.utc(value).replace(tzinfo=None)
            found.append(value)
        return pa.array(found, _TYPES.get(typed.kind))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise StreamsError(f"arrow({typed}): row {first + len(found)}: {error}") from error


class ColumnEvaluator:
    """Computes expressions over one batch. A value is an array, or a scalar for all rows."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def array(self, typed: Typed) -> Any:
        """Return one value for each row. Raise NoKernel, ArrowInvalid or
        ArrowNotImplementedError if the kernels cannot compute them."""
        return self._spread(self._value(typed))

    def _spread(self, found: Any) -> Any:
        if not isinstance(found, pa.Scalar):
            return found
        size = self._batch.num_rows
        return pa.repeat(found, size) if found.is_valid else pa.nulls(size, found.type)

    def _value(self, typed: Typed) -> Any:
        node = typed.node
        if isinstance(node, Literal):
            return _scalar(node.value)
        if isinstance(node, Field):
            found = self._batch.column(node.path[0])
            for name in node.path[1:]:
                found = pc.struct_field(found, name)
            return _native(found, typed.kind)
        if (special := _SPECIAL.get(node.name)) is not None:
            return special(self, typed)
        # An operand that is null makes the result null, but others may fail nevertheless.
        arguments = [self._value(each) for each in typed.operands]
        if any(each.kind is Kind.NULL for each in typed.operands):
            return pa.scalar(None, _TYPES[typed.kind])
        return _applied(node, typed, arguments)

    def _logical(self, typed: Typed) -> Any:
        found = self._value(typed)
        return found.cast(pa.bool_()) if pa.types.is_null(found.type) else found

    def _and_or(self, typed: Typed) -> Any:
        one, other = (self._logical(each) for each in typed.operands)
        return pc.and_kleene(one, other) if typed.name == "and" else pc.or_kleene(one, other)

    def _not(self, typed: Typed) -> Any:
        return pc.invert(self._logical(typed.operands[0]))

    def _is_null(self, typed: Typed) -> Any:
        return pc.is_null(self._value(typed.operands[0]))

    def _as(self, typed: Typed, kind: Kind) -> Any:
        """Return the values of a case of a result of this kind."""
        found = self._value(typed)
        if kind is Kind.FLOAT and typed.kind is Kind.INT:
            return _float(found)
        if typed.kind is Kind.NULL and kind in _TYPES:
            return found.cast(_TYPES[kind])
        return found

    def _when(self, typed: Typed) -> Any:
        if typed.kind in (Kind.OTHER, Kind.NULL):
            raise NoKernel
        return self._cases(typed.operands, typed.kind)

    def _cases(self, operands: Sequence[Typed], kind: Kind) -> Any:
        """Return the values of condition, result, condition, result, ..., other result."""
        if len(operands) == 1:
            return self._as(operands[0], kind)
        condition, result, *rest = operands
        test = self._logical(condition)
        if isinstance(test, pa.Scalar):
            return self._as(result, kind) if test.as_py() else self._cases(rest, kind)
        test = pc.fill_null(test, False)
        if not any(may_fail(each) for each in (result, *rest)):
            return pc.if_else(test, *_alike(self._as(result, kind), self._cases(rest, kind)))
        other = pc.invert(test)
        here, there = (ColumnEvaluator(self._batch.filter(each)) for each in (test, other))
        then, otherwise = _alike(
            here._spread(here._as(result, kind)), there._spread(there._cases(rest, kind))
        )
        found = pc.replace_with_mask(pa.nulls(len(test), then.type), test, then)
        return pc.replace_with_mask(found, other, otherwise)

    def _coalesce(self, typed: Typed) -> Any:
        if typed.kind in (Kind.OTHER, Kind.NULL):
            raise NoKernel
        return self._first(typed.operands, typed.kind)

    def _first(self, operands: Sequence[Typed], kind: Kind) -> Any:
        """Return the first value of each row that is not null."""
        found, rest = self._as(operands[0], kind), operands[1:]
        if not rest:
            return found
        if isinstance(found, pa.Scalar):
            return found if found.is_valid else self._first(rest, kind)
        if not found.null_count:
            return found
        if not any(may_fail(each) for each in rest):
            return pc.coalesce(*_alike(found, self._first(rest, kind)))
        missing = pc.is_null(found)
        there = ColumnEvaluator(self._batch.filter(missing))
        found, other = _alike(found, there._spread(there._first(rest, kind)))
        return pc.replace_with_mask(found, missing, other)


_SPECIAL: Final[dict[str, Callable[[ColumnEvaluator, Typed], Any]]] = {
    "and": ColumnEvaluator._and_or,
    "or": ColumnEvaluator._and_or,
    "not": ColumnEvaluator._not,
    "is_null": ColumnEvaluator._is_null,
    "when": ColumnEvaluator._when,
    "coalesce": ColumnEvaluator._coalesce,
}


def _scalar(value: Any) -> Any:
    if type(value) is datetime.datetime:
        return pa.scalar(values.utc(value).replace(tzinfo=None), _NATIVE)
    if type(value) is int:
        return pa.scalar(value, pa.int64())
    return pa.scalar(value)


def _native(found: Any, kind: Kind) -> Any:
    """Return a column with the type that its kind has here."""
    if pa.types.is_dictionary(found.type):
        found = found.dictionary_decode()
    if kind is Kind.TIME:
        micros = found.cast(pa.timestamp("us", found.type.tz)).cast(pa.int64())
        return micros.cast(_NATIVE)
    if kind is Kind.DECIMAL:
        return found.cast(_decimal(found.type.precision, found.type.scale))
    if kind is Kind.DATE:
        return found.cast(pa.date32())
    if kind is Kind.OTHER or found.type == _TYPES[kind]:
        return found
    return found.cast(_TYPES[kind])


def _decimal(precision: int, scale: int) -> Any:
    if precision > DIGITS_MAX or scale < 0:
        raise NoKernel
    return pa.decimal128(precision, scale)


def _float(found: Any) -> Any:
    """Return integers as the nearest floats."""
    return found.cast(pa.float64(), safe=False)


def _alike(one: Any, other: Any) -> tuple[Any, Any]:
    """Return decimals with one type."""
    kinds = [each.type for each in (one, other)]
    if kinds[0] == kinds[1]:
        return one, other
    if pa.types.is_null(kinds[0]):
        return one.cast(kinds[1]), other
    if pa.types.is_null(kinds[1]):
        return one, other.cast(kinds[0])
    if not all(pa.types.is_decimal(each) for each in kinds):
        raise NoKernel
    scale = max(each.scale for each in kinds)
    common = _decimal(max(each.precision - each.scale for each in kinds) + scale, scale)
    return one.cast(common), other.cast(common)


def _applied(node: Apply, typed: Typed, arguments: list[Any]) -> Any:
    if (function := _FUNCTIONS.get(node.name)) is not None:
        return function(node, typed, arguments)
    found = getattr(pc, node.name)(arguments[0])  # a part of a time
    return found.cast(pa.int64())


def _numbers(typed: Typed, arguments: list[Any]) -> list[Any]:
    """Return numbers of one kind: an int beside another number becomes one."""
    kinds = [each.kind for each in typed.operands]
    if Kind.DECIMAL in kinds:
        pairs = zip(kinds, arguments, strict=True)
        return [_exact(each) if kind is Kind.INT else each for kind, each in pairs]
    if Kind.FLOAT in kinds or typed.name == "divide":
        pairs = zip(kinds, arguments, strict=True)
        return [_float(each) if kind is Kind.INT else each for kind, each in pairs]
    return arguments


def _exact(found: Any) -> Any:
    """Return integers as decimals; one for all rows gets as few digits as it has."""
    if isinstance(found, pa.Scalar) and found.is_valid:
        return pa.scalar(decimal.Decimal(found.as_py()))
    return found.cast(_decimal(_DIGITS_OF_INT, 0))


def _arithmetic(node: Apply, typed: Typed, arguments: list[Any]) -> Any:
    if node.name == "divide" and typed.kind is Kind.DECIMAL:
        raise NoKernel
    found = getattr(pc, f"{node.name}_checked")(*_numbers(typed, arguments))
    if typed.kind is Kind.DECIMAL:
        if not pa.types.is_decimal(found.type):
            raise NoKernel  # all are null
        _decimal(found.type.precision, found.type.scale)
    return found


def _whole(node: Apply, typed: Typed, arguments: list[Any]) -> Any:
    one, other = arguments
    return (_floor_divide if node.name == "floor_divide" else _modulo)(one, other)


def _floor_divide(one: Any, other: Any) -> Any:
    quotient, _, is_below = _divided(one, other)
    return pc.if_else(is_below, pc.subtract(quotient, 1), quotient)


def _modulo(one: Any, other: Any) -> Any:
    _, rest, is_below = _divided(one, other)
    return pc.if_else(is_below, pc.add(rest, other), rest)


def _divided(one: Any, other: Any) -> tuple[Any, Any, Any]:
    """Return the quotient toward zero, its rest, and where the floor is one below it."""
    quotient = pc.divide_checked(one, other)
    rest = pc.subtract(one, pc.multiply(quotient, other))
    has_signs = pc.xor(pc.less(rest, 0), pc.less(other, 0))
    return quotient, rest, pc.and_(pc.not_equal(rest, 0), has_signs)


def _comparison(node: Apply, typed: Typed, arguments: list[Any]) -> Any:
    kinds = {each.kind for each in typed.operands}
    if Kind.OTHER in kinds:
        raise NoKernel
    one, other = _numbers(typed, arguments)
    if Kind.DECIMAL in kinds:
        one, other = _alike(one, other)
    return getattr(pc, node.name)(one, other)


def _letters(node: Apply, typed: Typed, arguments: list[Any]) -> Any:
    """Change ASCII letters: for others, the tables of Arrow are not those of Python."""
    (text,) = arguments
    is_ascii = pc.string_is_ascii(text)
    if isinstance(is_ascii, pa.Scalar) or pc.all(is_ascii).as_py() is False:
        return _by_element(node, typed, arguments)
    return pc.ascii_upper(text) if node.name == "upper" else pc.ascii_lower(text)


def _search(node: Apply, typed: Typed, arguments: list[Any]) -> Any:
    text, part = arguments
    if not isinstance(part, pa.Scalar) or not part.is_valid:
        return _by_element(node, typed, arguments)
    search = pc.match_substring if node.name == "contains" else pc.starts_with
    return search(text, part.as_py())


def _text(node: Apply, typed: Typed, arguments: list[Any]) -> Any:
    first = arguments[0]
    match node.name:
        case "length":
            return pc.utf8_length(first).cast(pa.int64())
        case "strip":
            return pc.utf8_trim(first, characters=_SPACE)
        case "concat":
            return pc.binary_join_element_wise(*arguments, "")
    start, length = node.options
    return pc.utf8_slice_codeunits(first, start, start + length)


def _by_element(node: Apply, typed: Typed, arguments: list[Any]) -> Any:
    """Call the reference's function on each row that has all operands."""
    function = FunctionByType(node)
    sizes = [len(each) for each in arguments if not isinstance(each, pa.Scalar)]
    size = sizes[0] if sizes else 1
    columns = [
        [each.as_py()] * size if isinstance(each, pa.Scalar) else each.to_pylist()
        for each in arguments
    ]
    rows = zip(*columns, strict=True)
    try:
        found = [None if None in row else function(*row) for row in rows]
    except (ArithmeticError, ValueError):
        raise NoKernel from None
    kind = _TYPES[typed.kind]
    return pa.array(found, kind) if sizes else pa.scalar(found[0], kind)


def _within(found: Any, low: Any, end: Any) -> Any:
    """Raise NoKernel if a value is outside; NaN is."""
    inside = pc.and_(pc.greater_equal(found, low), pc.less(found, end))
    if (inside if isinstance(inside, pa.Scalar) else pc.all(inside)).as_py() is False:
        raise NoKernel
    return found


def _cast(node: Apply, typed: Typed, arguments: list[Any]) -> Any:
    (found,) = arguments
    match typed.operands[0].kind, typed.kind:
        case one, other if one is other:
            return found
        case Kind.TEXT, _:
            return _by_element(node, typed, arguments)
        case Kind.INT, Kind.FLOAT:
            return _float(found)
        case Kind.FLOAT, Kind.INT:
            _within(found, float(values.INT_MIN), float(values.INT_END))
            return found.cast(pa.int64(), safe=False)
        case Kind.BOOL, Kind.TEXT:
            return pc.if_else(found, "true", "false")
        case Kind.TIME, Kind.INT:
            return _floor_divide(found.cast(pa.int64()), 1000)
        case Kind.INT, Kind.TIME:
            return _time(pc.multiply_checked(found, 1000))
    return found.cast(_TYPES[typed.kind])


def _time(micros: Any) -> Any:
    return _within(micros, values.MICROS_MIN, values.MICROS_END).cast(_NATIVE)


def _of_time(node: Apply, typed: Typed, arguments: list[Any]) -> Any:
    micros = arguments[0].cast(pa.int64())
    if node.name == "date":
        return _floor_divide(micros, _DAY_US).cast(pa.int32()).cast(pa.date32())
    return _time(pc.subtract(micros, _modulo(micros, node.options[0] * 1000)))


_FUNCTIONS: Final[dict[str, Callable[[Apply, Typed, list[Any]], Any]]] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "negate"), _arithmetic),
    **dict.fromkeys(("floor_divide", "modulo"), _whole),
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(("upper", "lower"), _letters),
    **dict.fromkeys(("contains", "starts_with"), _search),
    **dict.fromkeys(("length", "strip", "concat", "substring"), _text),
    **dict.fromkeys(("date", "truncate"), _of_time),
    "cast": _cast,
}
