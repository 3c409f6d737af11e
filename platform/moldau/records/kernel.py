"""Chooses the kernel: the compiled `_speed` if it is installed, otherwise its twin `_pure`.

All modules import kernel names from here, so that there is only one `Record` class and only one
kernel is ever loaded. The same tests check both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

__all__ = [
    "KERNEL", "Appender", "ColumnBuilder", "ConsumerRecord", "Record", "Slot", "admit_usual",
    "columns", "decode", "decode_consumed", "decode_usual", "entries", "java_string_hash",
    "murmur2", "partition_for_key", "produced_batches", "scan", "scan_part", "span_list", "varint",
    "with_contents",
]  # fmt: skip

if TYPE_CHECKING:
    from moldau.records._speed import (
        Appender,
        ColumnBuilder,
        ConsumerRecord,
        Record,
        Slot,
        admit_usual,
        columns,
        decode,
        decode_consumed,
        decode_usual,
        entries,
        java_string_hash,
        murmur2,
        partition_for_key,
        produced_batches,
        scan,
        scan_part,
        span_list,
        varint,
        with_contents,
    )

    KERNEL: str
else:
    try:
        from moldau.records import _speed as _kernel

        KERNEL = "compiled"
    except ImportError:
        from moldau.records import _pure as _kernel

        KERNEL = "pure"
    for _name in __all__[1:]:
        globals()[_name] = getattr(_kernel, _name)


def kernel_notice() -> str | None:
    """A line for users of an installation without the compiled kernel; None if it has one."""
    if KERNEL == "compiled":
        return None
    from sysconfig import get_platform  # only here: each command would pay for it

    version = ".".join(map(str, sys.version_info[:2]))
    return (
        "records are read and written in plain Python, about ten times slower: this installation"
        f" has no compiled kernel for {sys.implementation.name} {version} on {get_platform()};"
        " docs/install.md says which wheels have one"
    )


def tell_kernel(tell: Callable[[str], object]) -> None:
    """Pass the line of `kernel_notice` to `tell`, if there is one: once, where a process that
    handles many records starts."""
    notice = kernel_notice()
    if notice is not None:
        tell(notice)
