"""Reads Avro that is nested to any depth, on a stack of its own, and counts items without bytes.

fastavro's compiled reader uses about 2 KiB of the thread's stack for each level and crashes the
process when the stack is used up. Its reader in Python stops at Python's recursion limit, at a
hundred and some nested records. So values that may be nested deeply are read here, and their depth
is known afterwards. Array items that take no bytes (null, a record without fields) are limited too:
a few bytes may claim billions of them.

Why not fastavro's own reader: tests/values/avro/test_libraries.py shows that it crashes the
process on deep records, and makes a million items of four bytes. All other values are read by
fastavro.

Invariant: the value is the same as that of fastavro's reader, for the schema it was written with.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from io import BytesIO
from typing import Any, Final

from moldau.plugins.extras import need
from moldau.values.avro.schemas import has_choice, has_records
from moldau.values.failures import DeserializationFailed

# More than fastavro can read in a thread of the usual 8 MiB of stack.
DEPTH_MAX: Final = 10_000

SIZELESS_ITEMS_MAX: Final = 100_000
"""The limit for all arrays of one value. So many items cost about a tenth of a second."""

_WHOLE_MAX: Final = 1 << 63

_Inside = Generator[Any, Any, Any]
"""Yields the schema of the next inner value, is sent that value, and returns the whole value."""

_LEAVES: Final = {
    "null": "read_null",
    "boolean": "read_boolean",
    "int": "read_int",
    "long": "read_long",
    "float": "read_float",
    "double": "read_double",
    "bytes": "read_bytes",
    "string": "read_utf8",
}


class NestedReader:
    """Reads one value. `deepest` is then how many records, arrays and maps were nested."""

    def __init__(
        self,
        named: Mapping[str, Any],
        buffer: BytesIO,
        *,
        names_records: bool = False,
        names_branches: bool = False,
    ) -> None:
        """`names_records` gives a record of a union with others as a tuple (name, record);
        `names_branches` so gives each value in a union of several branches beside null."""
        self._named = named
        self._names_records = names_records
        self._names_branches = names_branches
        self._position = buffer.tell
        self._sizeless_items = 0
        self._decoder = need("fastavro.io.binary_decoder", "avro").BinaryDecoder(buffer)
        self._logical = need("fastavro.read", "avro").LOGICAL_READERS
        self.deepest = 0

    def read(self, schema: Any) -> Any:
        """Return the value. Raise DeserializationFailed if it is nested too deeply."""
        inside: list[_Inside] = []
        while True:
            leaf, opened = self._open(schema)
            if opened is not None:
                inside.append(opened)
                self.deepest = max(self.deepest, len(inside))
                if len(inside) > DEPTH_MAX:
                    raise DeserializationFailed("it is nested too deeply", levels_max=DEPTH_MAX)
            value = leaf
            while inside:
                try:
                    schema = inside[-1].send(value)
                    break
                except StopIteration as end:
                    inside.pop()
                    value = end.value
            else:
                return value

    def _open(self, schema: Any) -> tuple[Any, _Inside | None]:
        """Return a value without inner values, or the generator that reads a value with them."""
        names_any = names_record = False
        while True:
            if isinstance(schema, list):
                names_any = self._names_branches and has_choice(schema)
                names_record = self._names_records and has_records(schema, self._named)
                schema = schema[self._index(len(schema))]
            elif isinstance(schema, str) and schema not in _LEAVES:
                schema = self._named[schema]
            else:
                break
        leaf, inside = self._open_whole(schema)
        if names_any or (names_record and inside is not None and "name" in schema):
            if inside is not None:
                return None, _with_name(_name_of(schema), inside)
            if schema != "null":
                return (_name_of(schema), leaf), None
        return leaf, inside

    def _open_whole(self, schema: Any) -> tuple[Any, _Inside | None]:
        """Do the same for a schema that is no union and no name of another one."""
        if isinstance(schema, str):
            return self._leaf(schema), None
        kind = schema["type"]
        opens = _OPENS.get(kind) if isinstance(kind, str) else None
        if opens is not None:
            return None, opens(self, schema)
        if kind == "fixed":
            return self._made(schema, self._decoder.read_fixed(schema["size"])), None
        if kind == "enum":
            symbols = schema["symbols"]
            return self._made(schema, symbols[self._index(len(symbols))]), None
        leaf, opened = self._open(kind)
        return (leaf, opened) if opened is not None else (self._made(schema, leaf), None)

    def _leaf(self, kind: str) -> Any:
        value = getattr(self._decoder, _LEAVES[kind])()
        if type(value) is int and not -_WHOLE_MAX <= value < _WHOLE_MAX:
            raise DeserializationFailed("a whole number of more than 64 bits")
        return value

    def _index(self, count: int) -> int:
        index: int = self._decoder.read_long()
        if not 0 <= index < count:
            raise DeserializationFailed("a branch or symbol that its schema has not", index=index)
        return index

    def _record(self, schema: Any) -> _Inside:
        record = {}
        for each in schema["fields"]:
            record[each["name"]] = yield each["type"]
        return self._made(schema, record)

    def _array(self, schema: Any) -> _Inside:
        items = []
        while count := self._count():
            for _ in range(count):
                begins_at = self._position()
                items.append((yield schema["items"]))
                if self._position() == begins_at:
                    self._count_sizeless_item()
        return self._made(schema, items)

    def _count_sizeless_item(self) -> None:
        self._sizeless_items += 1
        if self._sizeless_items > SIZELESS_ITEMS_MAX:
            raise DeserializationFailed(
                "its arrays have too many items without a size", items_max=SIZELESS_ITEMS_MAX
            )

    def _map(self, schema: Any) -> _Inside:
        entries = {}
        while count := self._count():
            for _ in range(count):
                key = self._decoder.read_utf8()
                entries[key] = yield schema["values"]
        return self._made(schema, entries)

    def _count(self) -> int:
        """Return the number of items in the next block; 0 at the end."""
        count: int = self._decoder.read_long()
        if count < 0:
            self._decoder.read_long()  # the block's size, for readers that skip it
        return abs(count)

    def _made(self, schema: Any, value: Any) -> Any:
        """Return the value in its logical type, if the schema has one that fastavro knows."""
        if "logicalType" not in schema:
            return value
        make = self._logical.get(f"{schema['type']}-{schema['logicalType']}")
        return value if make is None else make(value, schema, None)


def _name_of(schema: Any) -> str:
    name: str = schema if isinstance(schema, str) else schema.get("name", schema["type"])
    return name


def _with_name(name: str, inside: _Inside) -> _Inside:
    value = yield from inside
    return name, value


_OPENS: Final[dict[str, Callable[[NestedReader, Any], _Inside]]] = {
    "record": NestedReader._record,
    "error": NestedReader._record,
    "array": NestedReader._array,
    "map": NestedReader._map,
}
