"""Pickle a class of msgspec.Struct by value: cloudpickle makes one without its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import get_annotations
from typing import Any, Final

from msgspec import NODEFAULT, StructMeta, defstruct, field, structs

_CONFIG: Final = (
    "frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults",
    "forbid_unknown_fields", "weakref", "dict", "cache_hash", "tag", "tag_field",
)  # fmt: skip
_AT_ONCE: Final = ("__post_init__",)
_MADE: Final = (
    "__module__", "__qualname__", "__slots__", "__annotations__", "__match_args__", "__dict__",
    "__weakref__", "__init__", "__new__", "__reduce__", *_AT_ONCE,
)  # fmt: skip

Field = tuple[str, Any, dict[str, Any]]


def reduced(struct: StructMeta) -> tuple[Any, ...]:
    """Return how to make the class again. Its methods come last: they may name the class."""
    kind: Any = struct
    own = get_annotations(kind)
    found = [each for each in structs.fields(kind) if each.name in own]
    fields = [(each.name, each.type, _options(each)) for each in found]
    config = {name: getattr(kind.__struct_config__, name) for name in _CONFIG}
    config["kw_only"] = any(each.name not in kind.__match_args__ for each in found)
    at_once = {name: kind.__dict__[name] for name in _AT_ONCE if name in kind.__dict__}
    methods = {
        name: each
        for name, each in kind.__dict__.items()
        if name not in _MADE and name not in own and not name.startswith("__struct_")
    }
    parts = (kind.__name__, fields, kind.__bases__, kind.__module__, at_once, config)
    return _made, parts, methods, None, None, _with_methods


def _options(given: Any) -> dict[str, Any]:
    found = {"default": given.default, "default_factory": given.default_factory}
    options = {name: each for name, each in found.items() if each is not NODEFAULT}
    if given.encode_name != given.name:
        options["name"] = given.encode_name
    return options


def _made(
    name: str,
    fields: Sequence[Field],
    bases: tuple[type, ...],
    module: str,
    namespace: Mapping[str, Any],
    config: Mapping[str, Any],
) -> Any:
    rows = [
        (each, kind, field(**options)) if options else (each, kind)
        for each, kind, options in fields
    ]
    return defstruct(name, rows, bases=bases, module=module, namespace=dict(namespace), **config)


def _with_methods(kind: Any, methods: Mapping[str, Any]) -> None:
    for name, each in methods.items():
        setattr(kind, name, each)
