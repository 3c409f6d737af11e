"""Takes the annotation of a type apart: arguments, aliases, the fields of classes.

Typing has many forms and no common way to inspect them. The functions here go one level at a time,
so that the caller can stop at any level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from inspect import get_annotations
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    ForwardRef,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

UNKNOWN: Final = object()
"""Stands for a type that cannot be resolved: its name is not defined where the class is."""

_UNRESOLVED: Final = (NameError, AttributeError, TypeError, ValueError, SyntaxError)


def reachable(annotation: Any, is_end: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield the annotation and all its parts, each once, but no parts of what `is_end` accepts."""
    left, seen = [annotation], dict[int, Any]()
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part  # keeps the part, or another one could get its id
        yield part
        if not is_end(part):
            left += made_of(part)


def made_of(annotation: Any) -> list[Any]:
    """Return the direct parts of an annotation, including the metadata of `Annotated`."""
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
    return [UNKNOWN if isinstance(each, ForwardRef) else each for each in parts]


def is_union(annotation: Any) -> bool:
    """Whether the annotation is a union."""
    return get_origin(annotation) in (Union, UnionType)


def _has_types(kind: type[Any]) -> bool:
    is_named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    is_typed_dict = hasattr(kind, "__total__")
    is_object = hasattr(kind, "model_fields") or hasattr(kind, "__struct_fields__")
    return is_dataclass(kind) or is_named_tuple or is_typed_dict or is_object


def field_types(kind: Any) -> Iterator[tuple[str, list[str], Any]]:
    """Yield each field's name, its keys in plain values, and its type. A hint that cannot be
    resolved gives UNKNOWN."""
    for name, info in _pydantic_fields(kind).items():
        keys = {name, *(each for each in (info.alias, info.validation_alias) if type(each) is str)}
        metadata = [*info.metadata, *([info] if info.discriminator is not None else [])]
        typed = Annotated[info.annotation, *metadata] if metadata else info.annotation
        yield name, list(keys), typed
    if not _pydantic_fields(kind):
        renamed = dict[str, str]()
        if hasattr(kind, "__struct_fields__"):
            renamed.update(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
        for name, typed in _hints(kind).items():
            yield name, [renamed.get(name, name)], typed


def _types_of(kind: Any) -> list[Any]:
    """Return the types of a class's fields, with their metadata."""
    fields = _pydantic_fields(kind)
    if fields:
        return [part for each in fields.values() for part in (each.annotation, *each.metadata)]
    return list(_hints(kind).values())


def _pydantic_fields(kind: Any) -> dict[str, Any]:
    if getattr(kind, "__pydantic_complete__", True) is False:
        _complete(kind)
    return getattr(kind, "model_fields", None) or getattr(kind, "__pydantic_fields__", None) or {}


def _complete(kind: Any) -> None:
    """Resolve the names that were not defined yet when the class was made, if they are now."""
    if hasattr(kind, "model_rebuild"):
        kind.model_rebuild(raise_errors=False)
    else:
        from pydantic.dataclasses import rebuild_dataclass

        rebuild_dataclass(kind, raise_errors=False)


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except _UNRESOLVED:
        bases = reversed(kind.__mro__)
        each_alone = (
            (name, _hint(kind, base, written))
            for base in bases
            for name, written in get_annotations(base).items()
        )
        return dict(each_alone)


def _hint(kind: Any, base: Any, written: Any) -> Any:
    """Return the type of one field, which `base` declares, or UNKNOWN."""
    alone = type("", (), {"__annotations__": {"": written}, "__module__": base.__module__})
    try:
        return get_type_hints(alone, localns={kind.__name__: kind}, include_extras=True)[""]
    except _UNRESOLVED:
        return UNKNOWN
