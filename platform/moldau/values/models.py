"""The fields of pydantic's models, one level at a time.

`model_dump()` makes plain dicts of all nested objects, so a union loses the class that says which
branch is meant. So fields are taken unchanged, under the names that `model_dump()` would give and
without the fields that it would leave out. What may define how it is written is left to pydantic: a
field, unless its type is known to define nothing, and a whole model if the model defines it.
pydantic's dataclasses are models here. Other dataclasses and other types with fields define it only
inside a model's field, which is the only place where pydantic sees them.

A computed field is no part of the value: it is returned only if it is requested by name.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from moldau.values.annotations import UNKNOWN, reachable

_KINDS_MAX: Final = 1_000
_VALIDATORS: Final = "pydantic.functional_validators"


class _ModelField(NamedTuple):
    """A field of a model: `name` is the attribute, `key` its name in the result."""

    name: str
    key: str
    is_dumped: bool
    has_roots: bool
    is_left_out: Callable[[Any], bool] | None


class _Plan(NamedTuple):
    """How to take the instances of a class apart."""

    fields: tuple[_ModelField, ...]
    computed: tuple[_ModelField, ...]
    is_root: bool


def model_fields(value: Any, wanted: Container[str]) -> Any:
    """Return the fields by name. For a root model, return the value that it stands for."""
    kind = type(value)
    plan = _plan_of(cast(Hashable, kind))
    if plan is None:
        return _dumped(value)
    if plan.is_root:
        return _given(plan.fields[0], value, value.root)
    held = value.__dict__ if hasattr(kind, "model_fields") else _of_dataclass(value, plan.fields)
    kept = [each for each in plan.fields if each.name in held and not _left_out(each, held)]
    names = {each.name for each in kept if each.is_dumped}
    dumped = _dumped(value, include=names, by_alias=False) if names else {}
    found: dict[str, Any] = {}
    for each in kept:
        if each.is_dumped:
            found[each.key] = dumped[each.name]
        else:
            found[each.key] = _given(each, value, held[each.name])
    found.update(getattr(value, "__pydantic_extra__", None) or {})
    for each in plan.computed:
        if each.key in wanted:
            found[each.key] = _given(each, value, getattr(value, each.name))
    return found


def _left_out(field: _ModelField, held: dict[str, Any]) -> bool:
    return field.is_left_out is not None and field.is_left_out(held[field.name])


def _of_dataclass(value: Any, fields: tuple[_ModelField, ...]) -> dict[str, Any]:
    """Return the fields that are set, whether in slots or not."""
    return {each.name: getattr(value, each.name) for each in fields if hasattr(value, each.name)}


def _dumped(value: Any, **options: Any) -> Any:
    """Return what `model_dump()` gives, also for a dataclass, which has no such method."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        return type(value).__pydantic_serializer__.to_python(value, **options)
    return dump(**options)


def _given(field: _ModelField, model: Any, inside: Any) -> Any:
    if field.is_dumped:
        if _is_root(type(model)):
            return model.model_dump()
        return _dumped(model, include={field.name}, by_alias=False)[field.name]
    return _without_roots(inside) if field.has_roots else inside


def _is_root(part: Any) -> bool:
    return bool(getattr(part, "__pydantic_root_model__", False))


def _without_roots(value: Any) -> Any:
    """Return the value with root models replaced by their values, also in lists and dicts."""
    kind = type(value)
    if _is_root(kind):
        given = model_fields(value, ())
        plan = _plan_of(cast(Hashable, kind))
        is_without = plan is None or plan.fields[0].is_dumped or plan.fields[0].has_roots
        return given if is_without else _without_roots(given)
    if kind is dict:
        return {_without_roots(key): _without_roots(each) for key, each in value.items()}
    if kind in (list, tuple, set, frozenset):
        return kind(map(_without_roots, value))
    return value


@lru_cache(_KINDS_MAX)
def _plan_of(kind: Any) -> _Plan | None:
    """Return the plan of a class, or None if only the class itself knows how it is written."""
    from pydantic import BaseModel

    is_model = issubclass(kind, BaseModel)
    if is_model and kind.model_dump is not BaseModel.model_dump:
        return None
    decorators = kind.__pydantic_decorators__
    if decorators.model_serializers or says_itself(kind):
        return None
    decorated = {
        name for each in decorators.field_serializers.values() for name in each.info.fields
    }
    config = kind.model_config if is_model else kind.__pydantic_config__

    def field(name: str, info: Any, types: tuple[Any, ...]) -> _ModelField:
        parts = [part for each in types for part in reachable(each, is_model_class)]
        own = "*" in decorated or name in decorated or any(map(_may_say, parts))
        key = name
        if config.get("serialize_by_alias"):
            key = getattr(info, "serialization_alias", None) or info.alias or name
        return _ModelField(
            name, key, own, any(map(_is_root, parts)), getattr(info, "exclude_if", None)
        )

    held = kind.model_fields if is_model else kind.__pydantic_fields__
    return _Plan(
        tuple(
            field(name, info, (info.annotation, *info.metadata))
            for name, info in held.items()
            if info.exclude is not True
        ),
        tuple(
            field(name, each.info, (each.info.return_type,))
            for name, each in decorators.computed_fields.items()
        ),
        _is_root(kind),
    )


def is_model_class(part: Any) -> bool:
    """Whether it is a class of pydantic's, whose instances define how they are written."""
    return isinstance(part, type) and "__pydantic_decorators__" in part.__dict__


def says_itself(kind: Any) -> bool:
    """Whether a class of pydantic's defines its own core schema."""
    from pydantic import BaseModel

    made = getattr(kind, "__get_pydantic_core_schema__", None)
    usual = BaseModel.__get_pydantic_core_schema__.__func__  # type: ignore[attr-defined]
    return made is not None and getattr(made, "__func__", made) is not usual


def _may_say(part: Any) -> bool:
    """Whether the type may define how pydantic writes it. Types with their own core schema may, and
    classes that contain something of pydantic's."""
    from pydantic import Discriminator, SerializeAsAny, Tag

    if part is UNKNOWN:
        return True
    if is_model_class(part):
        return False
    if isinstance(part, type):
        inside = [each for base in part.__mro__ for each in vars(base).values()]
        inside += [each.default for each in getattr(part, "__dataclass_fields__", {}).values()]
        if any(type(each).__module__.startswith("pydantic.") for each in inside):
            return True
    elif type(part).__module__ == _VALIDATORS or isinstance(
        part, Discriminator | Tag | SerializeAsAny
    ):
        return False
    return hasattr(part, "__get_pydantic_core_schema__")
