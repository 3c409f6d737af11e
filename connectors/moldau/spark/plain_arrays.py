"""Make Arrow arrays of numbers and of repeated values from buffers, without importing pandas.

`pyarrow.array`, `scalar` and `repeat` import pandas to test whether their argument is a pandas
object. That costs each new Python worker of Spark a second, and no batch needs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def int32s(*values: int) -> Any:
    """Return an int32 array of these numbers."""
    return _int32_array(np.array(values, np.int32))


def repeated_int32(value: int, count: int) -> Any:
    """Return an int32 array that has `value` `count` times."""
    return _int32_array(np.full(count, value, np.int32))


def repeated_text(text: str, count: int) -> Any:
    """Return a string array that has `text` `count` times."""
    data = text.encode()
    assert count * len(data) < 2**31, "an Arrow string array has offsets of 32 bits"
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _int32_array(numbers: Any) -> Any:
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
