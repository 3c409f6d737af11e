"""JSON that is read and written again with every digit of its numbers, and with keys that stand
twice. Pure.
"""

from __future__ import annotations

import json
from typing import Any, Final

from moldau.deferred import deferred_pattern

_HALF: Final = deferred_pattern("[\\ud800-\\udfff]")
"""Half of a character, which no page can have."""


class Number(str):
    """A number as it is written."""

    __slots__ = ()


class Object(list[tuple[str, Any]]):
    """The fields of an object, in their order, also those that stand twice."""


def parsed(text: str) -> Any:
    """Return a value of numbers as `Number` and objects as `Object`. Raise ValueError, and
    RecursionError for what is nested too deeply."""
    return json.loads(
        text,
        object_pairs_hook=Object,
        parse_int=Number,
        parse_float=Number,
        parse_constant=Number,
    )


def rendered(node: Any) -> str:
    """Return what `parsed` has read as text again. Raise RecursionError."""
    if isinstance(node, Number):
        return str(node)
    if isinstance(node, Object):
        return "{" + ", ".join(f"{_quoted(name)}: {rendered(each)}" for name, each in node) + "}"
    if isinstance(node, list):
        return "[" + ", ".join(map(rendered, node)) + "]"
    return _quoted(node)


def _quoted(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if _HALF.search(text) else text
