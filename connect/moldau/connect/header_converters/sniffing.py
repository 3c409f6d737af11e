"""Infers the type of a text from its form, as Kafka's `Values.parseString` does.

A whole number gets the smallest integer type, another number float32 if it is not too large, then
float64, then Decimal; ISO 8601 dates and times get their logical types; `[..]` and `{..}` become
arrays and maps if all of the text can be read, and stay strings otherwise.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from moldau.connect.data.schema import (
    BOOLEAN,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaAndValue,
    Type,
)
from moldau.connect.data.validation import RANGES
from moldau.connect.errors import DataError
from moldau.connect.java.dates import SimpleDateFormat
from moldau.connect.java.text import shortest_single, to_single

_DELIMITERS = frozenset(':,{}[]"')
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_TEMPORAL = {
    13: (TIME, SimpleDateFormat("HH:mm:ss.SSS'Z'")),
    24: (TIMESTAMP, SimpleDateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")),
    10: (DATE, SimpleDateFormat("yyyy-MM-dd")),
}
_WIDER = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_DEPTH_MAX = 100


def sniffed(text: str) -> SchemaAndValue:
    """Return the schema and value of a text; (None, None) for the word null."""
    if not text:
        return SchemaAndValue(STRING, text)
    return _Parse(text).value(embedded=False, depth=0) or SchemaAndValue(None, None)


class _Parse:
    """A cursor over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def value(self, *, embedded: bool, depth: int) -> SchemaAndValue | None:
        """Return the next value; None stands for null."""
        if depth > _DEPTH_MAX:
            raise DataError("a header is nested too deeply")
        if embedded and self._consume('"'):
            return self._quoted()
        for word, meaning in _WORDS.items():
            if self._word(word, embedded):
                return meaning
        start = self._at
        try:
            if self._consume("["):
                return self._array(depth)
            if self._consume("{"):
                return self._map(depth)
        except DataError:
            self._at = start
        token = self._next()
        if not token.strip():
            return SchemaAndValue(STRING, token)
        return self._scalar(token.strip(), embedded)

    def _scalar(self, token: str, embedded: bool) -> SchemaAndValue:
        if token[0].isdigit():
            found = self._temporal(token)
            if found is not None:
                return found
        if token[0].isdigit() or token[0] in "+-":
            number = _number(token)
            if number is not None:
                return number
        if embedded:
            raise DataError("Failed to parse embedded value")
        return SchemaAndValue(STRING, self._text)

    def _temporal(self, token: str) -> SchemaAndValue | None:
        """Return a time. Its colons are delimiters, so it can be five tokens, this the first."""
        start = self._at
        following = ""
        for _ in range(4):
            if self._at >= len(self._text):
                break
            following += self._next()
        else:
            found = _temporal(token + following)
            if found is not None:
                return found
        self._at = start
        return _temporal(token)

    def _quoted(self) -> SchemaAndValue:
        content = ""
        while self._at < len(self._text):
            if self._consume('"'):
                break
            content += self._next()
        return _temporal(content) or SchemaAndValue(STRING, content)

    def _array(self, depth: int) -> SchemaAndValue:
        items: list[SchemaAndValue | None] = []
        last = ""
        while self._at < len(self._text):
            if self._consume("]"):
                schema = _common(items)
                values = [_aligned(schema, item) for item in items]
                return SchemaAndValue(Schema(Type.ARRAY, value_schema=schema), values)
            if self._consume(","):
                raise DataError("Unable to parse an empty array element")
            items.append(self.value(embedded=True, depth=depth + 1))
            last = ""
            if not self._peek("]"):
                if not self._consume(","):
                    raise DataError("Array elements missing ',' delimiter")
                last = ","
        raise DataError(f"Array is missing {'an element' if last else 'its end'}")

    def _map(self, depth: int) -> SchemaAndValue:
        keys: list[SchemaAndValue | None] = []
        values: list[SchemaAndValue | None] = []
        while self._at < len(self._text):
            if self._consume("}"):
                return _map_of(keys, values)
            if self._consume(","):
                raise DataError("Unable to parse a map entry with no key or value")
            key = self.value(embedded=True, depth=depth + 1)
            if key is None or key.value is None:
                raise DataError("Map entry may not have a null key")
            if not self._consume(":"):
                raise DataError("Map entry is missing ':'")
            keys.append(key)
            values.append(self.value(embedded=True, depth=depth + 1))
            self._consume(",")
        raise DataError("Map is missing its end")

    # --- tokens -----------------------------------------------------------------------------

    def _next(self) -> str:
        """Return the next delimiter, or the text up to the next delimiter that is not escaped."""
        start, escaped = self._at, False
        if start >= len(self._text):
            raise DataError("a value is missing")
        for position in range(start, len(self._text)):
            sign = self._text[position]
            if sign in _DELIMITERS and not escaped:
                self._at = max(position, start + 1)
                return self._text[start : self._at]
            escaped = sign == "\\" and not escaped
        self._at = len(self._text)
        return self._text[start:]

    def _consume(self, expected: str) -> bool:
        """Consume the next token if it is the expected one. Blanks around it are ignored."""
        start = self._at
        while self._at < len(self._text):
            token = self._next()
            if token.strip() or self._at >= len(self._text):
                if token.strip() == expected:
                    return True
                break
        self._at = start
        return False

    def _peek(self, expected: str) -> bool:
        start = self._at
        found = self._consume(expected)
        self._at = start
        return found

    def _word(self, word: str, embedded: bool) -> bool:
        start = self._at
        if self._consume(word) and (embedded or self._at >= len(self._text)):
            return True
        self._at = start
        return False


_WORDS: dict[str, SchemaAndValue | None] = {
    "null": None,
    "true": SchemaAndValue(BOOLEAN, True),
    "false": SchemaAndValue(BOOLEAN, False),
}


def _number(token: str) -> SchemaAndValue | None:
    if _NUMBER.fullmatch(token) is None:
        return None
    try:
        number = Decimal(token)
    except InvalidOperation:
        return None
    size = abs(number)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if (size >= 1 or not size) and size <= 10**19 and number == number.to_integral_value():
        whole = int(number)
        for schema in (INT8, INT16, INT32, INT64):
            low, high = RANGES[schema.type]
            if low <= whole <= high:
                return SchemaAndValue(schema, whole)
    value = float(number)
    if exponent != 0 and not math.isinf(to_single(value)):
        return SchemaAndValue(FLOAT32, float(shortest_single(value)))
    if exponent != 0 and not math.isinf(value):
        return SchemaAndValue(FLOAT64, value)
    return SchemaAndValue(Schema.decimal(-exponent), number)


def _temporal(token: str) -> SchemaAndValue | None:
    token = token.replace("\\:", ":")
    found = _TEMPORAL.get(len(token))
    if found is None:
        return None
    schema, pattern = found
    try:
        when = pattern.parse(token)
    except DataError:
        return None
    return SchemaAndValue(schema, _of_schema(schema, when))


def _of_schema(schema: Schema, when: datetime) -> Any:
    if schema is DATE:
        return when.date()
    return when.time() if schema is TIME else when


def _map_of(
    keys: list[SchemaAndValue | None], values: list[SchemaAndValue | None]
) -> SchemaAndValue:
    key_schema, value_schema = _common(keys), _common(values)
    if key_schema is None:
        value_schema = None
    pairs = {}
    for key, item in zip(keys, values, strict=True):
        try:
            pairs[_aligned(key_schema, key)] = _aligned(value_schema, item)
        except TypeError:
            raise DataError("a key of a map is an array or a map") from None
    return SchemaAndValue(Schema(Type.MAP, key_schema=key_schema, value_schema=value_schema), pairs)


def _common(values: list[SchemaAndValue | None]) -> Schema | None:
    """Return a schema that fits all of them; None if there is none, or if all are null."""
    common: Schema | None = None
    for value in values:
        if value is None or value.schema is None:
            continue
        common = value.schema if common is None else _merged(common, value.schema)
        if common is None:
            return None
    return common


def _merged(one: Schema, other: Schema) -> Schema | None:
    if one.type is other.type:
        # As Kafka merges two schemas of one type: the later one, although its name may differ.
        return one if one.optional else other
    if one.type in _WIDER and other.type in _WIDER:
        return one if _WIDER.index(one.type) > _WIDER.index(other.type) else other
    return None


def _aligned(schema: Schema | None, item: SchemaAndValue | None) -> Any:
    if item is None:
        if schema is not None:
            raise DataError("a null among values whose schema requires one")
        return None
    if schema is not None and schema.type in (Type.FLOAT32, Type.FLOAT64):
        return float(item.value)
    return item.value
