"""Arrow arrays of what every batch repeats, made from buffers.

`pyarrow.array`, `scalar` and `repeat` ask whether they were given something of pandas, and import
it for that: a second of each new Python worker of Spark, for nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def int32s(*values: int) -> Any:
    """These numbers."""
    return _wrapped(np.array(values, np.int32))


def repeated_int32(value: int, count: int) -> Any:
    """The number, so many times."""
    return _wrapped(np.full(count, value, np.int32))


def repeated_text(text: str, count: int) -> Any:
    """The text, so many times."""
    data = text.encode()
    assert count * len(data) < 2**31, "offsets of strings have 32 bits"
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _wrapped(numbers: Any) -> Any:
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
