"""Make Arrow arrays of numbers and of repeated values from buffers, without numpy and pandas.

`pyarrow.array`, `scalar` and `repeat` import pandas to test whether their argument is a pandas
object. That costs each new Python worker of Spark a second, and no batch needs it. Neither pyarrow
nor PySpark brings numpy.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import Any

import pyarrow as pa


def int32s(*values: int) -> Any:
    """Return an int32 array of these numbers."""
    return _int32_array(array("i", values))


def repeated_int32(value: int, count: int) -> Any:
    """Return an int32 array that has `value` `count` times."""
    return _int32_array(array("i", [value]) * count)


def repeated_text(text: str, count: int) -> Any:
    """Return a string array that has `text` `count` times."""
    data = text.encode()
    assert count * len(data) < 2**31, "an Arrow string array has offsets of 32 bits"
    capacity = 1 << count.bit_length()
    if capacity * len(data) >= 2**31:
        capacity = count
    buffers = [None, _text_ends(len(data), capacity), pa.py_buffer(data * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


@lru_cache(maxsize=8)
def _text_ends(length: int, capacity: int) -> Any:
    """Return the buffer with the ends of `capacity` texts of this length. A shorter array uses the
    begin of it, so the batches of a topic share it."""
    if length == 0:
        return pa.py_buffer(array("i", [0]) * (capacity + 1))
    return pa.py_buffer(array("i", range(0, (capacity + 1) * length, length)))


def _int32_array(numbers: array[int]) -> Any:
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
