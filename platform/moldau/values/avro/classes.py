"""Chooses the class for a record of a union: the one that is named after the record.

The value alone does not show it: two records may have the same fields, and a validator takes the
first class that fits. So fastavro reports which record of a union it has read, and that becomes an
instance of its class (a struct gets its tag) before the whole value is made.

The value and the type are walked together, and an instance is made only where the type has a union
with its class. If no class there, or more than one, has the name of the record, the record stays
unchanged and is matched by its fields. So does every value that other code sees first: a validator
that runs before, a discriminator that is a function, a type that defines its own core schema.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Container, Iterator
from functools import cached_property
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Required,
    TypeVar,
    get_args,
    get_origin,
)

from moldau.values.annotations import field_types, is_union
from moldau.values.json.typed import is_struct, object_reader

Make = Callable[[Any], Any]

_LISTS: Final = (list, set, frozenset, abc.Sequence, abc.Set, abc.Collection, abc.Iterable)
_MAPS: Final = (dict, abc.Mapping, abc.MutableMapping)


class TypePlace:
    """The place of a value in a type. `known` are the classes of the whole type."""

    def __init__(self, annotation: Any, known: dict[Any, _Object] | None = None) -> None:
        self._annotation = annotation
        self._known = {} if known is None else known

    @cached_property
    def objects(self) -> list[_Object]:
        """The classes with fields that the value may have."""
        return [
            self._known.setdefault(_key(part), _Object(part, self._known))
            for part in self._parts
            if _is_object(get_origin(part) or part)
        ]

    @cached_property
    def makers(self) -> dict[str, Make]:
        """The functions that make a union's classes, by class name; empty if it also has a dict."""
        if any(map(_is_map, self._parts)):
            return {}
        names = [each.name for each in self.objects]
        return {
            each.name: each.make
            for each in self.objects
            if len(names) > 1 and names.count(each.name) == 1 and each.is_made
        }

    @cached_property
    def items(self) -> TypePlace:
        """The place of a list's items."""
        found = [get_args(part)[:1] for part in self._parts if get_origin(part) in _LISTS]
        for part in self._parts:
            if get_origin(part) is tuple:
                found.append(get_args(part)[:1] if get_args(part)[1:] == (...,) else ())
        return self._only(found)

    @cached_property
    def values(self) -> TypePlace:
        """The place of the values of a dict that is not a record."""
        return self._only([get_args(part)[1:] for part in self._parts if _is_map(part)])

    def inside(self, name: str | None) -> dict[str, TypePlace] | None:
        """Return the places of the fields of the record with that name; {} if several classes or a
        dict may be meant, None if no record can be here."""
        named = self.objects
        if name in self.makers:
            named = [each for each in self.objects if each.name == name]
        if not named:
            return None
        is_sure = len(named) == 1 and not any(map(_is_map, self._parts))
        return named[0].fields if is_sure else {}

    def _only(self, found: list[tuple[Any, ...]]) -> TypePlace:
        inner = found[0] if len(found) == 1 else ()
        return TypePlace(inner[0], self._known) if inner else NOWHERE

    @cached_property
    def _parts(self) -> list[Any]:
        """The types that the value may have; empty if one of them accepts anything."""
        parts = list(_parts_of(self._annotation))
        return parts if all(map(_is_known, parts)) else []


NOWHERE: Final = TypePlace(Any)


class _Object:
    """A class with fields, and its type arguments if it is generic."""

    def __init__(self, annotation: Any, known: dict[Any, _Object]) -> None:
        self._annotation, self._known = annotation, known
        self._kind = get_origin(annotation) or annotation
        self.name: str = self._kind.__name__

    @cached_property
    def is_closed(self) -> bool:
        """Whether other code defines how it is made: the class itself or its validators."""
        if is_struct(self._kind):
            return False
        from moldau.values.models import says_itself

        decorators = getattr(self._kind, "__pydantic_decorators__", None)
        if says_itself(self._kind):
            return True
        if decorators is None:
            inside = [each for base in self._kind.__mro__ for each in vars(base).values()]
            return any(type(each).__module__.startswith("pydantic._") for each in inside)
        modes = {each.info.mode for each in decorators.model_validators.values()}
        return bool(modes - {"after"} or decorators.root_validators)

    @property
    def is_made(self) -> bool:
        """Whether a dict becomes an instance of the class."""
        return not self.is_closed and not _is_typed_dict(self._kind)

    @cached_property
    def make(self) -> Make:
        """The function that makes an instance of its fields."""
        if not is_struct(self._kind):
            return object_reader(self._annotation)
        config = self._kind.__struct_config__
        if config.tag is None:
            return lambda fields: fields
        return lambda fields: {config.tag_field: config.tag, **fields}

    @cached_property
    def fields(self) -> dict[str, TypePlace]:
        """The places of the fields, by their names in a record."""
        if self.is_closed:
            return {}
        params = getattr(self._kind, "__parameters__", ())
        bound = dict(zip(params, get_args(self._annotation), strict=False))
        changed = _validated(self._kind)
        return {
            key: TypePlace(_with_arguments(annotation, bound), self._known)
            for name, keys, annotation in field_types(self._kind)
            if name not in changed and "*" not in changed
            for key in keys
        }


def _key(part: Any) -> Any:
    """Return a key for a part of an annotation, which may not be hashable."""
    try:
        hash(part)
    except TypeError:
        return id(part)
    return part


def _is_object(part: Any) -> bool:
    if not isinstance(part, type):
        return False
    if hasattr(part, "model_fields"):
        return not getattr(part, "__pydantic_root_model__", False)
    is_object = hasattr(part, "__struct_fields__") or hasattr(part, "__dataclass_fields__")
    return is_object or _is_typed_dict(part)


def _is_typed_dict(part: type[Any]) -> bool:
    return issubclass(part, dict) and hasattr(part, "__total__")


def _validated(kind: Any) -> set[str]:
    """Return the fields that a validator sees before they are read."""
    decorators = getattr(kind, "__pydantic_decorators__", None)
    if decorators is None:
        return set()
    checks = decorators.field_validators.values()
    seeing = [each for each in checks if each.info.mode != "after"]
    seeing += decorators.validators.values()
    return {name for each in seeing for name in each.info.fields}


def _is_map(part: Any) -> bool:
    return get_origin(part) in _MAPS


def _is_known(part: Any) -> bool:
    """Whether it is a class with fields, a list or dict of something, or has no parts."""
    origin = get_origin(part)
    if part is None or origin in (*_LISTS, *_MAPS, tuple, Literal) or _is_object(origin or part):
        return True
    if not isinstance(part, type) or issubclass(part, abc.Mapping | tuple):
        return False
    return part is not object and not hasattr(part, "__get_pydantic_core_schema__")


def _with_arguments(annotation: Any, bound: dict[Any, Any]) -> Any:
    """Return the annotation with its type variables replaced by their arguments."""
    if isinstance(annotation, TypeVar):
        return bound.get(annotation, Any)
    params = getattr(annotation, "__parameters__", ())
    if not params or isinstance(annotation, type):
        return annotation
    return annotation[tuple(bound.get(each, Any) for each in params)]


def _parts_of(annotation: Any) -> Iterator[Any]:
    """Yield the branches of a union, also those of nested unions and of aliases."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        yield from _parts_of(inner) if all(map(_is_only_checked, metadata)) else (Any,)
    elif origin in (Required, NotRequired):
        yield from _parts_of(*get_args(annotation))
    elif is_union(annotation):
        for each in get_args(annotation):
            yield from _parts_of(each)
    elif hasattr(origin or annotation, "__value__"):
        alias = origin or annotation
        bound = dict(zip(alias.__type_params__, get_args(annotation), strict=False))
        yield from _parts_of(_with_arguments(alias.__value__, bound))
    elif getattr(annotation, "__pydantic_root_model__", False):
        root = _Object(annotation, {}).fields.get("root")
        yield from (Any,) if root is None else _parts_of(root._annotation)
    else:
        yield annotation


def _is_only_checked(metadata: Any) -> bool:
    """Whether the metadata only sees values that are read already."""
    discriminator = getattr(metadata, "discriminator", None)
    if discriminator is not None:
        return isinstance(discriminator, str)
    if not hasattr(metadata, "__get_pydantic_core_schema__"):
        return True
    from pydantic import AfterValidator, PlainSerializer, Tag, WrapSerializer

    return isinstance(metadata, AfterValidator | PlainSerializer | Tag | WrapSerializer)


def told_apart(value: Any, place: TypePlace, named: Container[str]) -> Any:
    """Return the value with each named record as an instance of the class with its name, or else
    without the name. At `NOWHERE` all names are removed."""
    kind, name = type(value), None
    if kind is tuple and len(value) == 2 and isinstance(value[0], str) and value[0] in named:
        name, value = value[0].rpartition(".")[2], value[1]
        kind = type(value)
    if kind is list:
        return [told_apart(each, place.items, named) for each in value]
    if kind is not dict:
        return value
    fields = place.inside(name)
    if fields is None:
        made = {key: told_apart(each, place.values, named) for key, each in value.items()}
    else:
        made = {
            key: told_apart(each, fields.get(key, NOWHERE), named) for key, each in value.items()
        }
    make = None if name is None else place.makers.get(name)
    return made if make is None else make(made)
