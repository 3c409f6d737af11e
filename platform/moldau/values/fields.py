"""Reads the fields of dataclasses, pydantic models and msgspec structs, one level at a time.

The values in the fields stay unchanged, because only the schema knows what they become: a nested
object keeps its class, by which a union finds its branch, and a field that has its default value is
kept, which msgspec's own conversion may leave out.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping
from functools import lru_cache
from typing import Any, Final, cast

_KINDS_MAX: Final = 1_000


def has_fields(value: object) -> bool:
    """Whether the value is a dataclass, a pydantic model or a msgspec struct."""
    kind = type(value)
    return (
        hasattr(kind, "__struct_fields__")
        or hasattr(kind, "model_dump")
        or hasattr(kind, "__dataclass_fields__")
    )


def fields_of(value: Any, wanted: Container[str] = ()) -> dict[str, Any] | None:
    """Return the fields by name, or None for a value without fields. A struct's tag and a model's
    computed fields are included if they are in `wanted`."""
    kind = type(value)
    if hasattr(kind, "__struct_fields__"):
        return _of_struct(value, kind, wanted)
    if hasattr(kind, "model_dump") or "__pydantic_decorators__" in kind.__dict__:
        from moldau.values.models import model_fields

        given = model_fields(value, wanted)
        return given if type(given) is dict else fields_of(given, wanted)
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in _names(cast(Hashable, kind))}
    return dict(value) if isinstance(value, Mapping) else None


def _of_struct(value: Any, kind: Any, wanted: Container[str]) -> dict[str, Any]:
    from msgspec import UNSET

    names = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
    fields = {encoded: getattr(value, name) for encoded, name in names}
    config = kind.__struct_config__
    if config.tag is not None and config.tag_field in wanted:
        fields[config.tag_field] = config.tag
    return {name: each for name, each in fields.items() if each is not UNSET}


@lru_cache(_KINDS_MAX)
def _names(kind: Hashable) -> tuple[str, ...]:
    from dataclasses import fields

    return tuple(each.name for each in fields(cast(Any, kind)))
