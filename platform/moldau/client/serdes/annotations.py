"""What the annotation of a type is made of: arguments, aliases, the fields of classes.

Typing has many forms and no common way into them. Here each is asked one level at a time, so that
who walks through may stop where it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

UNKNOWN: Final = object()
"""Stands for what cannot be found out: a name that is not known where the class is."""


def reachable(annotation: Any, is_end: Callable[[Any], bool]) -> Iterator[Any]:
    """The annotation and everything that it is made of, each once; not what an end is made of."""
    left, seen = [annotation], dict[int, Any]()
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part  # which keeps it, or another one could get its id
        yield part
        if not is_end(part):
            left += made_of(part)


def made_of(annotation: Any) -> list[Any]:
    """What it is made of directly. The metadata of `Annotated` is among it."""
    origin = get_origin(annotation)
    if origin is Literal:
        return []
    parts = list(get_args(annotation))
    if origin is not None:
        parts.append(origin)
    if hasattr(annotation, "__value__"):  # an alias
        parts.append(annotation.__value__)
    if isinstance(annotation, type) and _has_types(annotation):
        parts += _types_of(annotation)
    return parts


def is_union(annotation: Any) -> bool:
    """Whether it is one of several."""
    return get_origin(annotation) in (Union, UnionType)


def _has_types(kind: type[Any]) -> bool:
    is_named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    is_typed_dict = hasattr(kind, "__total__")
    is_object = hasattr(kind, "model_fields") or hasattr(kind, "__struct_fields__")
    return is_dataclass(kind) or is_named_tuple or is_typed_dict or is_object


def _types_of(kind: Any) -> list[Any]:
    """Of its fields, with their metadata."""
    fields = getattr(kind, "model_fields", None) or getattr(kind, "__pydantic_fields__", None)
    if fields:
        return [part for each in fields.values() for part in (each.annotation, *each.metadata)]
    try:
        return list(get_type_hints(kind, include_extras=True).values())
    except (NameError, AttributeError, TypeError, ValueError, SyntaxError):
        return [UNKNOWN]
