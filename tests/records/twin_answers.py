"""The answers of both kernels, and those of the careful walker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.errors import CorruptRecord
from tests.records.editions import KERNEL, edition


def answer(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a call gives, in terms that do not depend on the kernel."""
    try:
        result = function(*arguments)
    except CorruptRecord as error:
        return "corrupt", error.reason, error.context
    except (TypeError, ValueError, OverflowError) as error:
        return type(error).__name__
    if isinstance(result, list):
        return [
            tuple(getattr(item, name) for name in ("offset", "timestamp", "key")) for item in result
        ], [(getattr(item, "value", None), getattr(item, "headers", None)) for item in result]
    return result


def both(name: str, *arguments: Any) -> Any:
    """The one answer of both kernels."""
    compiled, pure = (
        answer(getattr(edition(which)["kernel"], name), *arguments) for which in KERNEL
    )
    assert compiled == pure
    return compiled


def carefully(section: bytes, header: Any, rules: int, objects_max: int = 1 << 20) -> bool:
    """Whether the walker that explains errors finds one."""
    diagnosis = edition("pure")["diagnosis"]
    try:
        room = diagnosis.check_count(len(section), header, objects_max)
        reached = diagnosis.KernelProgress(0, 0, -1, room)
        for _ in range(header.record_count):
            reached = diagnosis.check_record(section, header, reached, rules)
    except CorruptRecord:
        return True
    return bool(reached.position != len(section))
