"""Reads whole values of Avro, through fastavro's compiled reader wherever that is safe.

A value that may be nested so deeply that the compiled reader would run out of stack, that may claim
items without bytes, or whose branches are to be named, is read by `NestedReader`.

Invariant: a payload is read to its end, or it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from typing import Any, Final

from moldau.plugins.extras import need
from moldau.values.avro.nested import NestedReader
from moldau.values.avro.schemas import Shape
from moldau.values.failures import DeserializationFailed, told

# How deep values may be for the compiled reader, which needs stack for each level. The first limit
# counts bytes: a level takes at least one. The second counts levels, each of which takes about
# 2 KiB of a stack of usually 8 MiB, at worst 2 MiB.
_NESTED_BYTES_MAX: Final = 500
_FITTED_LEVELS_MAX: Final = 750
_DAMAGED: Final = (EOFError, ValueError, IndexError, OverflowError)
"""What fastavro raises for bytes that are not a value of the schema."""
_NAMING: Final = {"return_record_name": True, "return_record_name_override": True}
"""Makes fastavro return a record of a union with other records as a tuple (name, record)."""


def shape_of(parsed: Any, named: Mapping[str, Any], **facts: Any) -> Shape:
    """Return what a schema allows its bytes to do. Raise DeserializationFailed, with the facts, if
    nothing can be read with it."""
    shape = Shape(named)
    problem = shape.problem(parsed)
    if problem is not None:
        raise DeserializationFailed(problem, **facts)
    return shape


def value_reader(
    shape: Shape,
    writers: Any,
    readers: Any = None,
    *,
    names_records: bool = False,
    names_branches: bool = False,
    **facts: Any,
) -> Callable[[bytes, int], Any]:
    """Return a function that reads a value from bytes and a position in them.

    `shape` is that of `writers`, the schema that the value was written with; `readers` is one that
    it is fitted to. `names_records` and `names_branches` are those of `NestedReader`. Errors are
    DeserializationFailed with the facts."""
    compiled = need("fastavro", "avro").schemaless_reader
    if names_records:
        compiled = partial(compiled, **_NAMING)
    names_branches = names_branches and shape.has_unions
    is_nested = names_branches or shape.has_empty_items

    def read_nested(buffer: BytesIO, at: int) -> Any:
        nested = NestedReader(
            shape.named, buffer, names_records=names_records, names_branches=names_branches
        )
        value = nested.read(writers)
        if readers is None:
            return value
        if nested.deepest > _FITTED_LEVELS_MAX:
            raise DeserializationFailed(
                "it is nested too deeply to be fitted to another schema",
                levels_max=_FITTED_LEVELS_MAX,
                **facts,
            )
        buffer.seek(at)
        return compiled(buffer, writers, readers)

    def read(data: bytes, at: int) -> Any:
        buffer = BytesIO(data)
        buffer.seek(at)
        try:
            if is_nested or (shape.is_recursive and len(data) - at > _NESTED_BYTES_MAX):
                value = read_nested(buffer, at)
            else:
                value = compiled(buffer, writers, readers)
        except EOFError as error:
            raise DeserializationFailed(
                "it ends before its schema's value does", **facts
            ) from error
        except _DAMAGED as error:
            reason = f"it is no value of its schema: {told(error)}"
            raise DeserializationFailed(reason, **facts) from error
        left = len(data) - buffer.tell()
        if left:
            raise DeserializationFailed("there are bytes behind the value", **facts, bytes=left)
        return value

    return read
