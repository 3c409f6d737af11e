"""The fields of pydantic's models, one level at a time.

`model_dump()` makes plain dicts of everything below, by which a union loses the class that says
which branch is meant. So the fields are taken as they are, under the names and without the fields
that `model_dump()` would give, and only what a model says about its own writing is left to
pydantic: a field with a serializer of its own, and all of a model that has one as a whole.

A computed field is no part of the value: it is given only where it is asked for by name.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast, get_args

_KINDS_MAX: Final = 1_000


class _Field(NamedTuple):
    """`name` is the attribute's, `key` what it is given as."""

    name: str
    key: str
    is_dumped: bool
    has_roots: bool
    is_left_out: Callable[[Any], bool] | None


class _Plan(NamedTuple):
    """How instances of a class are taken apart."""

    fields: tuple[_Field, ...]
    computed: tuple[_Field, ...]


def model_fields(value: Any, wanted: Container[str]) -> Any:
    """The fields by name; what else a model stands for where it has a root instead."""
    plan = _plan_of(cast(Hashable, type(value)))
    if plan is None:
        return value.model_dump()
    if getattr(type(value), "__pydantic_root_model__", False):
        return value.root
    held = value.__dict__
    found: dict[str, Any] = {}
    for each in plan.fields:
        if each.name in held:
            inside = held[each.name]
            if each.is_left_out is None or not each.is_left_out(inside):
                found[each.key] = _given(each, value, inside)
    found.update(value.__pydantic_extra__ or {})
    for each in plan.computed:
        if each.key in wanted:
            found[each.key] = _given(each, value, getattr(value, each.name))
    return found


def _given(field: _Field, model: Any, inside: Any) -> Any:
    if field.is_dumped:
        return model.model_dump(include={field.name}, by_alias=False)[field.name]
    return _without_roots(inside) if field.has_roots else inside


def _without_roots(value: Any) -> Any:
    """What models with a root stand for, also in lists and dicts."""
    if getattr(type(value), "__pydantic_root_model__", False):
        return _without_roots(value.root)
    if type(value) is dict:
        return {_without_roots(key): _without_roots(each) for key, each in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(_without_roots, value))
    return value


@lru_cache(_KINDS_MAX)
def _plan_of(kind: Any) -> _Plan | None:
    """None where only the class itself knows what is written of it."""
    from pydantic import BaseModel

    if not issubclass(kind, BaseModel) or kind.model_dump is not BaseModel.model_dump:
        return None
    decorators = kind.__pydantic_decorators__
    if decorators.model_serializers:
        return None
    decorated = {
        name for each in decorators.field_serializers.values() for name in each.info.fields
    }

    def field(name: str, info: Any, types: tuple[Any, ...]) -> _Field:
        parts = [part for each in types for part in _parts(each)]
        own = "*" in decorated or name in decorated or any(map(_has_serializer, parts))
        has_roots = any(getattr(part, "__pydantic_root_model__", False) for part in parts)
        key = name
        if kind.model_config.get("serialize_by_alias"):
            key = getattr(info, "serialization_alias", None) or info.alias or name
        return _Field(name, key, own, has_roots, getattr(info, "exclude_if", None))

    return _Plan(
        tuple(
            field(name, info, (info.annotation, *info.metadata))
            for name, info in kind.model_fields.items()
            if info.exclude is not True
        ),
        tuple(
            field(name, info, (info.return_type,))
            for name, info in kind.model_computed_fields.items()
        ),
    )


def _parts(annotation: Any) -> Iterator[Any]:
    """The annotation and everything that it is made of."""
    yield annotation
    for each in get_args(annotation):
        yield from _parts(each)


def _has_serializer(part: Any) -> bool:
    """Whether pydantic is told there how to write it; a type of the user's may tell it too."""
    from pydantic import BaseModel, EncodedBytes, EncodedStr, PlainSerializer, WrapSerializer

    if isinstance(part, PlainSerializer | WrapSerializer | EncodedBytes | EncodedStr):
        return True
    is_type = isinstance(part, type) and not issubclass(part, BaseModel)
    return is_type and hasattr(part, "__get_pydantic_core_schema__")
