"""Expressions as Spark's own columns, which run in Java without a Python worker.

Invariant: where the reference (`python`) has a value, the column has the same one; where it fails,
the query fails. Spark's own functions differ from it in NaN, in the sign of `%`, in what `cast`
takes and in the time zone of the session, so the translation needs the types of the columns, and
Spark's ANSI mode for errors. What Spark computes in another way (division of Decimals, Decimals of
more than 28 digits, equality of records) is refused when the column is made.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from moldau.streams.expressions import values
from moldau.streams.expressions.kinds import Kind, NoneType, record_type
from moldau.streams.expressions.tree import (
    AggregateCall,
    Apply,
    Expression,
    Field,
    Literal,
    text_of,
)
from moldau.streams.expressions.typed import Typed, checked
from moldau.streams.problems import TopologyError

DIGITS_MAX: Final = 28
"""Python's Decimal rounds results with more digits."""
_DIGITS_OF_INT: Final = 19
_ANSI: Final = "spark.sql.ansi.enabled"
_DAY_US: Final = 86_400_000_000
_SPACE: Final = " \t\n\r\f\v"
_INTEGER: Final = r"^[+-]?[0-9]+\z"
_NUMBER: Final = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\z"
_INFINITE: Final = r"(?i)^[+-]?inf(inity)?\z"
_NAN: Final = r"(?i)^[+-]?nan\z"


def column_of(node: Expression, rows: Any) -> Any:
    """Return an expression as a column for a DataFrame, or for the rows of a StructType. Raise
    TopologyError if it does not fit them, or if Spark cannot compute it alike."""
    where = f"spark({text_of(node):.60})"
    schema = _schema_of(rows, where)
    return _translated(checked(node, record_of(schema), where), schema, where)


def aggregate_of(node: AggregateCall, rows: Any) -> Any:
    """Return an aggregate as a column, for `groupBy(...).agg(...)`."""
    where = f"spark({text_of(node):.60})"
    schema = _schema_of(rows, where)
    if node.operand is None:
        return F.count(F.lit(1))
    typed = checked(node.operand, record_of(schema), where)
    found = _translated(typed, schema, where)
    is_float = typed.kind is Kind.FLOAT
    if node.name in ("min", "max"):
        extreme = F.min if node.name == "min" else F.max
        if not is_float:
            return extreme(found)
        # NaN counts only if there is no other number.
        return F.coalesce(extreme(F.when(~F.isnan(found), found)), extreme(found))
    if node.name == "mean":
        if typed.kind is Kind.DECIMAL:
            raise TopologyError(f"{where}: the mean of Decimals has other digits in Spark")
        return F.avg(found.cast("double"))
    return F.sum(found) if node.name == "sum" else F.count(found)


def record_of(schema: Any) -> Any:
    """Return the type of the rows of a schema, as expressions know it."""
    return record_type({each.name: _hint(each.dataType) for each in schema.fields})


def _hint(kind: Any) -> Any:
    if isinstance(kind, T.StructType):
        return record_of(kind)
    return _HINTS.get(type(kind), list)


_HINTS: Final[Mapping[Any, Any]] = {
    T.BooleanType: bool,
    **dict.fromkeys((T.ByteType, T.ShortType, T.IntegerType, T.LongType), int),
    **dict.fromkeys((T.FloatType, T.DoubleType), float),
    T.DecimalType: decimal.Decimal,
    **dict.fromkeys((T.StringType, T.CharType, T.VarcharType), str),
    T.BinaryType: bytes,
    **dict.fromkeys((T.TimestampType, T.TimestampNTZType), datetime.datetime),
    T.DateType: datetime.date,
    T.NullType: NoneType,
}
_TYPES: Final = {
    Kind.BOOL: "boolean",
    Kind.INT: "bigint",
    Kind.FLOAT: "double",
    Kind.TEXT: "string",
    Kind.BYTES: "binary",
    Kind.TIME: "timestamp",
    Kind.DATE: "date",
}


def _schema_of(rows: Any, where: str) -> Any:
    """Return the schema of a DataFrame or StructType, if its session reports errors."""
    if isinstance(rows, T.StructType):
        session, schema = SparkSession.getActiveSession(), rows
    elif isinstance(rows, DataFrame) or hasattr(rows, "sparkSession"):
        session, schema = rows.sparkSession, rows.schema
    else:
        raise TopologyError(f"{where}: {type(rows).__name__} is no DataFrame and no StructType")
    if session is not None and str(session.conf.get(_ANSI)).lower() != "true":
        raise TopologyError(
            f"{where}: {_ANSI} is off, so that Spark makes wrong numbers or nulls of errors: "
            f'spark.conf.set("{_ANSI}", "true")'
        )
    return schema


def _translated(typed: Typed, schema: Any, where: str) -> Any:
    try:
        return Translation(schema).column(typed)
    except TypeError as error:
        raise TopologyError(f"{where}: {error}") from None


class Translation:
    """Translates expressions over rows of one schema. Raises TypeError for what Spark computes in
    another way."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def column(self, typed: Typed) -> Any:
        node = typed.node
        if isinstance(node, Literal):
            return _literal(node.value)
        if isinstance(node, Field):
            return self._field(node, typed)
        if (special := _SPECIAL.get(node.name)) is not None:
            return special(self, typed)
        if any(each.kind is Kind.NULL for each in typed.operands):
            return F.lit(None).cast(_TYPES.get(typed.kind, "void"))
        columns = [self.column(each) for each in typed.operands]
        if (function := _FUNCTIONS.get(node.name)) is not None:
            return function(self, typed, columns)
        return _part_of_time(node.name, columns[0])

    def _type(self, node: Field) -> Any:
        kind = self._schema
        for name in node.path:
            kind = kind[name].dataType
        return kind

    def _field(self, node: Field, typed: Typed) -> Any:
        found = F.col(".".join(f"`{name.replace('`', '``')}`" for name in node.path))
        kind = self._type(node)
        if isinstance(kind, T.TimestampNTZType):
            return F.timestamp_micros(_micros_without_zone(found))
        if typed.kind in (Kind.INT, Kind.FLOAT) and not isinstance(kind, T.LongType | T.DoubleType):
            return found.cast(_TYPES[typed.kind])
        return found

    def _logical(self, typed: Typed) -> Any:
        found = self.column(typed)
        return found.cast("boolean") if typed.kind is Kind.NULL else found

    def _and_or(self, typed: Typed) -> Any:
        one, other = (self._logical(each) for each in typed.operands)
        return one & other if typed.name == "and" else one | other

    def _not(self, typed: Typed) -> Any:
        return ~self._logical(typed.operands[0])

    def _is_null(self, typed: Typed) -> Any:
        return self.column(typed.operands[0]).isNull()

    def _as(self, typed: Typed, kind: Kind) -> Any:
        found = self.column(typed)
        if kind is Kind.FLOAT and typed.kind is Kind.INT:
            return found.cast("double")
        return found

    def _when(self, typed: Typed) -> Any:
        *pairs, last = typed.operands
        self._check_digits(typed)
        found = self._as(last, typed.kind)
        for condition, result in reversed(list(zip(pairs[::2], pairs[1::2], strict=True))):
            then = self._as(result, typed.kind)
            found = F.when(self._condition(condition), then).otherwise(found)
        return found

    def _condition(self, typed: Typed) -> Any:
        """Return a condition of `when`: null is false, so that nothing after it is computed."""
        if typed.name not in ("and", "or"):
            return self._logical(typed)
        one, other = (self._condition(each) for each in typed.operands)
        return F.coalesce(one, F.lit(False)) & other if typed.name == "and" else one | other

    def _coalesce(self, typed: Typed) -> Any:
        self._check_digits(typed)
        return F.coalesce(*(self._as(each, typed.kind) for each in typed.operands))

    def _check_digits(self, typed: Typed) -> None:
        if typed.kind is Kind.DECIMAL:
            self.digits(typed)

    def digits(self, typed: Typed) -> tuple[int, int]:
        """Return the precision and scale of a Decimal or int. Raise TypeError if its values may
        have more digits than Python keeps."""
        found = self._digits(typed)
        if found[0] > DIGITS_MAX:
            raise TypeError(
                f"{typed} may have {found[0]} digits, and Decimal keeps {DIGITS_MAX}; cast the "
                "columns to smaller types"
            )
        return found

    def _digits(self, typed: Typed) -> tuple[int, int]:
        node = typed.node
        if isinstance(node, Literal) and node.value is not None:
            return _digits_of(decimal.Decimal(node.value))
        if typed.kind is Kind.NULL:
            return 1, 0
        if typed.kind is Kind.INT:
            return _DIGITS_OF_INT, 0
        if isinstance(node, Field):
            kind = self._type(node)
            return kind.precision, kind.scale
        assert isinstance(node, Apply)
        if node.name == "negate":
            return self.digits(typed.operands[0])
        if node.name in ("when", "coalesce"):
            is_when = node.name == "when"
            *cases, last = typed.operands
            return _widest([self.digits(each) for each in (*cases[is_when :: 1 + is_when], last)])
        (one, one_scale), (other, other_scale) = (self.digits(each) for each in typed.operands)
        if node.name == "multiply":
            return one + other + 1, one_scale + other_scale
        precision, scale = _widest([(one, one_scale), (other, other_scale)])
        return precision + 1, scale

    # Functions of operands that are no literal null

    def _arithmetic(self, typed: Typed, columns: list[Any]) -> Any:
        name = typed.name
        if typed.kind is Kind.DECIMAL:
            if name == "divide":
                raise TypeError(f"{typed}: the quotient of Decimals has other digits in Spark")
            self._check_digits(typed)
            pairs = zip(typed.operands, columns, strict=True)
            columns = [
                column.cast(f"decimal({self.digits(each)[0]}, 0)")
                if each.kind is Kind.INT
                else column
                for each, column in pairs
            ]
        if name == "negate":
            return -columns[0]
        if typed.kind is Kind.FLOAT:
            columns = [each.cast("double") for each in columns]
        one, other = columns
        match name:
            case "add":
                return one + other
            case "subtract":
                return one - other
            case "multiply":
                return one * other
        return one / other

    def _whole(self, typed: Typed, columns: list[Any]) -> Any:
        """Round down: Spark rounds toward zero."""
        one, other = columns
        rest = one % other
        is_below = (rest != 0) & ((rest < 0) != (other < 0))
        if typed.name == "modulo":
            return F.when(is_below, rest + other).otherwise(rest)
        quotient = F.call_function("div", one, other)
        return F.when(is_below, quotient - 1).otherwise(quotient)

    def _comparison(self, typed: Typed, columns: list[Any]) -> Any:
        kinds = {each.kind for each in typed.operands}
        if Kind.OTHER in kinds:
            raise TypeError(f"{typed}: records and lists are compared in another way in Spark")
        if Kind.FLOAT in kinds:
            columns = [each.cast("double") for each in columns]
        found = _compared(typed.name, *columns)
        return _without_nan(typed, columns, found) if Kind.FLOAT in kinds else found

    def _text(self, typed: Typed, columns: list[Any]) -> Any:
        first, node = columns[0], typed.node
        assert isinstance(node, Apply)
        match node.name:
            case "upper":
                return F.upper(first)
            case "lower":
                return F.lower(first)
            case "contains":
                return F.contains(first, columns[1])
            case "starts_with":
                return F.startswith(first, columns[1])
            case "length":
                return F.length(first).cast("bigint")
            case "strip":
                return F.btrim(first, F.lit(_SPACE))
            case "concat":
                return F.concat(*columns)
        start, length = node.options
        return F.substring(first, start + 1, length)

    def _cast(self, typed: Typed, columns: list[Any]) -> Any:
        (found,) = columns
        match typed.operands[0].kind, typed.kind:
            case one, other if one is other:
                return found
            case Kind.TEXT, Kind.INT:
                return _or_fail(found.rlike(_INTEGER), found.cast("bigint"), found, typed)
            case Kind.TEXT, Kind.FLOAT:
                return _float_of_text(found, typed)
            case Kind.FLOAT, Kind.INT:
                # Spark takes 2**63 for the largest integer.
                is_inside = found < F.lit(float(values.INT_END))
                return _or_fail(is_inside, found.cast("bigint"), found, typed)
            case Kind.TIME, Kind.INT:
                return F.unix_millis(found)
            case Kind.INT, Kind.TIME:
                is_inside = (found >= values.MICROS_MIN // 1000) & (
                    found < values.MICROS_END // 1000
                )
                return _or_fail(is_inside, F.timestamp_millis(found), found, typed)
        return found.cast(_TYPES[typed.kind])

    def _of_time(self, typed: Typed, columns: list[Any]) -> Any:
        micros = F.unix_micros(columns[0])
        assert isinstance(typed.node, Apply)
        if typed.name == "date":
            return _date(micros)
        size_us = F.lit(typed.node.options[0] * 1000).cast("bigint")
        whole = micros - F.pmod(micros, size_us)
        is_inside = whole >= F.lit(values.MICROS_MIN)
        return _or_fail(is_inside, F.timestamp_micros(whole), columns[0], typed)


_SPECIAL: Final[dict[str, Callable[[Translation, Typed], Any]]] = {
    "and": Translation._and_or,
    "or": Translation._and_or,
    "not": Translation._not,
    "is_null": Translation._is_null,
    "when": Translation._when,
    "coalesce": Translation._coalesce,
}
_FUNCTIONS: Final[dict[str, Callable[[Translation, Typed, list[Any]], Any]]] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "negate"), Translation._arithmetic),
    **dict.fromkeys(("floor_divide", "modulo"), Translation._whole),
    **dict.fromkeys(
        ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        Translation._comparison,
    ),
    **dict.fromkeys(
        ("upper", "lower", "contains", "starts_with", "length", "strip", "concat", "substring"),
        Translation._text,
    ),
    **dict.fromkeys(("date", "truncate"), Translation._of_time),
    "cast": Translation._cast,
}


def _literal(value: Any) -> Any:
    if type(value) is datetime.datetime:
        since = values.utc(value) - datetime.datetime(1970, 1, 1, tzinfo=values.UTC)
        return F.timestamp_micros(F.lit(since // datetime.timedelta(microseconds=1)).cast("bigint"))
    if type(value) is int:
        return F.lit(value).cast("bigint")
    if type(value) is decimal.Decimal:
        return F.lit(decimal.Decimal(format(value, "f")))
    return F.lit(value)


def _digits_of(value: decimal.Decimal) -> tuple[int, int]:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise TypeError(f"{value} is no Decimal of Spark")
    count = len(value.as_tuple().digits)
    scale = max(0, -exponent)
    return max(count + max(0, exponent), scale), scale


def _widest(sizes: list[tuple[int, int]]) -> tuple[int, int]:
    scale = max(scale for _, scale in sizes)
    return max(precision - scale for precision, scale in sizes) + scale, scale


def _compared(name: str, one: Any, other: Any) -> Any:
    match name:
        case "equal":
            return one == other
        case "not_equal":
            return one != other
        case "less":
            return one < other
        case "less_equal":
            return one <= other
        case "greater":
            return one > other
    return one >= other


def _without_nan(typed: Typed, columns: list[Any], found: Any) -> Any:
    """Compare as IEEE 754 says. For Spark, NaN is equal to itself and above all other numbers."""
    may_be_nan = [
        each.kind is Kind.FLOAT
        and not (isinstance(each.node, Literal) and each.node.value == each.node.value)
        for each in typed.operands
    ]
    # Where the other side alone is NaN, Spark's answer is the right one.
    at = 1 if typed.name in ("less", "less_equal") else 0
    is_equality = typed.name in ("equal", "not_equal")
    if not may_be_nan[at] or (is_equality and not all(may_be_nan)):
        return found
    is_wrong = F.isnan(columns[at]) & columns[1 - at].isNotNull()
    return F.when(is_wrong, F.lit(typed.name == "not_equal")).otherwise(found)


def _or_fail(test: Any, found: Any, given: Any, typed: Typed) -> Any:
    """Return the column where the test holds, null where it is null, and fail elsewhere."""
    text = F.concat(F.lit(f"{typed}: "), given.cast("string"), F.lit(" does not fit"))
    failed = F.raise_error(text).cast(_TYPES[typed.kind])
    return F.when(test, found).when(~test, failed)


def _float_of_text(found: Any, typed: Typed) -> Any:
    infinite = F.when(F.startswith(found, F.lit("-")), F.lit(float("-inf")))
    number = _or_fail(found.rlike(_NUMBER), found.cast("double"), found, typed)
    return (
        F.when(found.rlike(_NAN), F.lit(float("nan")))
        .when(found.rlike(_INFINITE), infinite.otherwise(F.lit(float("inf"))))
        .otherwise(number)
    )


def _micros_without_zone(found: Any) -> Any:
    """Return a time without a zone as microseconds, which are those of UTC."""
    days = F.unix_date(found.cast("date")).cast("bigint")
    minutes = (days * 24 + F.hour(found)) * 60 + F.minute(found)
    seconds = F.date_part(F.lit("SECOND"), found) * 1_000_000
    return minutes * 60_000_000 + seconds.cast("bigint")


def _date(micros: Any) -> Any:
    day_us = F.lit(_DAY_US).cast("bigint")
    days = F.call_function("div", micros - F.pmod(micros, day_us), day_us)
    return F.date_from_unix_date(days.cast("int"))


def _part_of_time(name: str, found: Any) -> Any:
    """Return a part of a time in UTC: Spark's functions use the time zone of the session."""
    micros = F.unix_micros(found)
    if name in ("year", "month", "day"):
        date = _date(micros)
        part = {"year": F.year, "month": F.month, "day": F.dayofmonth}[name](date)
        return part.cast("bigint")
    above, unit = {"hour": (_DAY_US, 3_600), "minute": (3_600, 60), "second": (60, 1)}[name]
    if name != "hour":
        above *= 1_000_000
    rest = F.pmod(micros, F.lit(above).cast("bigint"))
    return F.call_function("div", rest, F.lit(unit * 1_000_000).cast("bigint"))
