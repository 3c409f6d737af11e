"""Which class a record of a union is read into: the one that is named after the record.

What a value looks like does not tell it: two records may have the same fields, and whoever checks a
type takes the first class that fits. So fastavro says which record of a union it has read, and that
becomes an instance of its class (a struct gets its tag) before the whole is made.

Records that no class of a union, or more than one, is named after stay as they are, and go by what
they look like.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final

from moldau.client.serdes.annotations import is_union, made_of, reachable
from moldau.client.serdes.typed_json import is_struct, object_reader

Make = Callable[[Any], Any]

NAMING: Final = {"return_record_name": True, "return_record_name_override": True}
"""What makes fastavro give a record of a union with others as a tuple of its name and it."""


def makers_of(type: Any) -> dict[str, Make]:
    """By their names, what makes the classes between which the unions in a type choose."""
    classes: dict[str, Any] = {}
    for part in reachable(type, lambda part: False):
        if is_union(part):
            for each in filter(_is_object, reachable(part, _is_object)):
                known = classes.setdefault(each.__name__, each)
                if known is not each:
                    classes[each.__name__] = None  # two are named so
    return {name: _maker(each) for name, each in classes.items() if each is not None}


def _is_object(part: Any) -> bool:
    if not isinstance(part, type):
        return False
    is_object = hasattr(part, "__struct_fields__") or hasattr(part, "__dataclass_fields__")
    return is_object or (hasattr(part, "model_fields") and bool(made_of(part)))


def _maker(kind: Any) -> Make:
    if not is_struct(kind):
        return object_reader(kind)
    config = kind.__struct_config__
    if config.tag is None:
        return lambda fields: fields
    return lambda fields: {config.tag_field: config.tag, **fields}


def told_apart(value: Any, makers: dict[str, Make], named: Container[str]) -> Any:
    """A value with each named record in the class of its name, or without the name."""
    kind = type(value)
    if kind is dict:
        return {key: told_apart(each, makers, named) for key, each in value.items()}
    if kind is list:
        return [told_apart(each, makers, named) for each in value]
    if kind is tuple and len(value) == 2 and isinstance(value[0], str) and value[0] in named:
        inside = told_apart(value[1], makers, named)
        make = makers.get(value[0].rpartition(".")[2])
        return inside if make is None or type(inside) is not dict else make(inside)
    return value
